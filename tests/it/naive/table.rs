//! The decision table a second time, as nested ifs from the top.

use super::reference::{
    CANCELLED, Condition, DELETED, GAPLESS, LEASE_BOUND, ORDERED, Plain, PlainWrite, REGISTERED, Resource,
    SESSION, SINGLE, TRUSTED,
};
use crate::support::code::Code;

impl Plain {
    /// The decision table, from the top.
    pub(super) fn judge(&self, write: &PlainWrite) -> Code {
        let row = &self.resources[write.resource];
        if let Some(incarnation) = Self::addressed(row, write) {
            for record in &row.operations {
                if record.incarnation == incarnation && record.name == write.operation {
                    // 1, 2; a document store leaves nothing undecided (3, 4).
                    return if record.what == what(write) { Code::Replayed } else { Code::OperationMismatch };
                }
            }
        }
        // 6
        if write.incarnation != 0 && write.incarnation != row.incarnation {
            return Self::unless_forgotten(row, write, Code::IncarnationGone);
        }
        // 7
        if row.life == CANCELLED {
            return Self::unless_forgotten(row, write, Code::Cancelled);
        }
        if row.life == DELETED {
            let again = !write.delete && write.at > row.revoked && write.incarnation == 0;
            if !again {
                return Self::unless_forgotten(row, write, Code::Deleted);
            }
        }
        // 8 to 10
        if let Some(code) = self.rows_8_to_10(write.resource, write.at, write.seal) {
            return code;
        }
        // 11
        if self.issuer == TRUSTED
            && self.max_jump > 0
            && row.floor.0 == write.at.0
            && write.at.1 > row.floor.1 + self.max_jump
        {
            return Code::TokenJump;
        }
        if self.issuer == REGISTERED && write.at > row.floor.max((self.epoch, 0)) {
            return Code::AdvanceForbidden;
        }
        if let Some(code) = self.rows_12_to_17(row, write) {
            Self::unless_forgotten(row, write, code)
        } else {
            let there = if write.delete && write.target == 0 {
                row.life != DELETED && row.commit > 0 && row.applied >= row.born
            } else {
                !write.delete || row.targets[write.target].is_some()
            };
            if there { Code::Admitted } else { Code::NothingToDelete }
        }
    }

    /// Retention: what is refused here may have been recorded once.
    fn unless_forgotten(row: &Resource, write: &PlainWrite, code: Code) -> Code {
        if write.at < row.pruned || write.at == row.pruned && write.sequence <= row.pruned_sequence {
            Code::OperationExpired
        } else {
            code
        }
    }

    fn rows_12_to_17(&self, row: &Resource, write: &PlainWrite) -> Option<Code> {
        // 12
        if write.at < row.floor.max((self.epoch, 0)) || write.at <= row.revoked {
            return Some(Code::StaleToken);
        }
        // 13
        if self.contract == LEASE_BOUND && !self.is_live(write.resource, write.at, write.seal) {
            return Some(Code::LeaseNotLive);
        }
        let same = row.commit > 0 && write.at == row.applied;
        // 14
        if self.policy == SINGLE && same {
            return Some(Code::GenerationSpent);
        }
        // 15
        if self.policy == ORDERED || self.policy == GAPLESS {
            let last = if same { row.applied_sequence } else { 0 };
            if write.sequence <= last {
                return Some(Code::SequenceRegressed);
            }
            if self.policy == GAPLESS && write.sequence != last + 1 {
                return Some(Code::SequenceGap);
            }
        }
        // 16
        if self.policy == SESSION && same && !matches!(write.if_match, Condition::Strong(_, _)) {
            return Some(Code::PreconditionRequired);
        }
        // 17
        let content = row.targets[write.target];
        let matched = match write.if_match {
            Condition::Nothing => true,
            Condition::Star => content.is_some(),
            Condition::Strong(incarnation, commit) => content == Some((incarnation, commit)),
            Condition::Weak(_, _) => false,
        };
        let absent = match write.if_none_match {
            Condition::Nothing => true,
            Condition::Star => content.is_none(),
            Condition::Strong(incarnation, commit) | Condition::Weak(incarnation, commit) => {
                content != Some((incarnation, commit))
            }
        };
        if matched && absent { None } else { Some(Code::PreconditionFailed) }
    }

    /// The named incarnation, else the current one from its birth on, else the one in which the position falls.
    fn addressed(row: &Resource, write: &PlainWrite) -> Option<u64> {
        if write.incarnation != 0 {
            return Some(write.incarnation);
        }
        if write.at >= row.born {
            return Some(row.incarnation);
        }
        row.lives.iter().rev().find(|(born, _)| write.at >= *born).map(|(_, number)| *number)
    }
}

/// What the fingerprint is over: everything that the payload is, nothing of the delivery.
pub(super) fn what(write: &PlainWrite) -> String {
    format!("{} {} {} {:?} {:?}", write.delete, write.target, write.body, write.if_match, write.if_none_match)
}
