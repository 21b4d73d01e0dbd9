//! What a decided operation makes durable: its terminal record with the saved answer, and the effect on the resource.

use bytes::Bytes;

use crate::domain::counter::CommitNo;
use crate::domain::document::BodyDigest;
use crate::domain::lease::LeaseState;
use crate::domain::operation::{Method, OperationState};
use crate::domain::precondition::EntityTag;
use crate::domain::resource::Address;
use crate::domain::upstream::{Relayed, Validator};

use super::super::lease::{newest_lease, write_down};
use super::super::outcome::{Receipt, Written};
use super::super::rows::{
    Done, EraRow, IntentRow, Life, Mark, OperationRecord, RelayedHead, Resolution, SavedResponse, TargetRow,
};
use super::super::{Change, Inconsistent};
use super::{SAVED_BODY_BYTES, Scene, barrier};

/// How an operation came to be known as applied.
pub(super) struct Evidence<'r> {
    /// What the upstream answered; none where the answer was lost.
    pub(super) relayed: Option<&'r Relayed>,
    /// The validator of the cell that it left.
    pub(super) validator: Option<Validator>,
    /// Who says so, where it was not seen.
    pub(super) resolution: Option<Resolution>,
}

impl Scene<'_> {
    /// The operation is in the store.
    pub(super) fn apply(
        &mut self,
        intent: &IntentRow,
        evidence: Evidence<'_>,
    ) -> Result<Written, Inconsistent> {
        let position = intent.record.position;
        // A fence-aware store took this one before a newer one that is recorded already: then it was authoritative for
        // a time that is over, and the registers tell of the newer one.
        let passed = self.row.applied.is_some_and(|applied| position.is_below(applied.position));
        let (commit, etag) = if passed { (None, None) } else { self.take_effect(intent)? };
        if evidence.validator.is_some() {
            self.row.cell.clone_from(&evidence.validator);
        }
        let state = if evidence.resolution.is_some() {
            OperationState::ResolvedApplied
        } else {
            OperationState::Applied
        };
        let done = match intent.record.method {
            Method::Delete => Done::Removed,
            Method::Put | Method::Post | Method::Patch => Done::Replaced,
        };
        let response = match evidence.relayed {
            Some(relayed) => saved(done, commit, etag, relayed),
            None => self.receipt(intent, done, commit, etag),
        };
        self.end(intent, state, Some(response), evidence.resolution)
    }

    /// The upstream refused it for good: it had and will have no effect, and the refusal is bound to its id.
    pub(super) fn refuse(&mut self, intent: &IntentRow, relayed: &Relayed) -> Result<Written, Inconsistent> {
        let response = saved(Done::Nothing, None, None, relayed);
        self.end(intent, OperationState::Refused, Some(response), None)
    }

    /// A person says, or a configured time lets it be assumed, that it had and will have no effect.
    pub(super) fn not_applied(&mut self, intent: &IntentRow, resolution: Resolution) -> OperationRecord {
        self.close(intent, OperationState::ResolvedNotApplied, None, Some(resolution))
    }

    /// It had and will have no effect, and its id is free again.
    pub(super) fn withdraw(&mut self, intent: &IntentRow) {
        self.row.changed_at = self.now;
        self.changes.push(Change::IntentClosed(Box::new(intent.clone())));
        barrier::lane_moved(self);
    }

    fn end(
        &mut self,
        intent: &IntentRow,
        state: OperationState,
        response: Option<SavedResponse>,
        resolution: Option<Resolution>,
    ) -> Result<Written, Inconsistent> {
        let record = self.close(intent, state, response, resolution);
        let Some(response) = record.response else {
            return Err(Inconsistent::because("a decided operation has no answer"));
        };
        Ok(Written {
            address: Address { resource: record.resource, target: record.target },
            operation_id: record.operation_id,
            replayed: false,
            incarnation: record.incarnation,
            position: record.position,
            sequence: record.sequence,
            response,
            floor: self.row.effective_floor(self.namespace.row.epoch),
        })
    }

    fn close(
        &mut self,
        intent: &IntentRow,
        state: OperationState,
        response: Option<SavedResponse>,
        resolution: Option<Resolution>,
    ) -> OperationRecord {
        let mut record = intent.record.clone();
        record.state = state;
        record.response = response;
        record.decided_at = Some(self.now);
        record.resolution = resolution;
        self.row.changed_at = self.now;
        self.changes.push(Change::IntentClosed(Box::new(intent.clone())));
        self.changes.push(Change::OperationRecorded(Box::new(record.clone())));
        barrier::lane_moved(self);
        record
    }

    /// The effect on the registers, the target and the life of the resource.
    fn take_effect(
        &mut self,
        intent: &IntentRow,
    ) -> Result<(Option<CommitNo>, Option<EntityTag>), Inconsistent> {
        let position = intent.record.position;
        let brings_content = match intent.record.method {
            Method::Delete => false,
            Method::Put | Method::Post | Method::Patch => true,
        };
        if self.row.life == Life::Deleted && brings_content {
            self.reborn(intent)?;
        }
        self.row.floor = self.row.floor.or_higher(position);
        self.row.applied = Some(Mark { position, sequence: intent.record.sequence });
        self.row.commit_no =
            self.row.commit_no.next().ok_or_else(|| Inconsistent::because("commit numbers are used up"))?;
        self.row.last_operation = Some(intent.record.operation_id.clone());
        let tag = EntityTag { incarnation: self.row.incarnation, commit: self.row.commit_no };
        if intent.removes_resource() {
            self.end_life(intent)?;
        } else if brings_content {
            self.changes.push(Change::TargetStored {
                resource: self.row.resource.clone(),
                row: Self::target(intent, tag),
                body: Bytes::new(),
            });
        } else {
            let address =
                Address { resource: self.row.resource.clone(), target: intent.record.target.clone() };
            self.changes.push(Change::TargetRemoved(address));
        }
        let etag = brings_content.then_some(tag);
        if intent.record.target.is_none() {
            self.tag = etag;
        }
        Ok((Some(self.row.commit_no), etag))
    }

    /// The store has the bytes; here stands only which commit brought them.
    fn target(intent: &IntentRow, tag: EntityTag) -> TargetRow {
        TargetRow {
            target: intent.record.target.clone(),
            tag,
            content_type: intent.request.content_type.clone(),
            size: 0,
            digest: BodyDigest::of(&[]),
        }
    }

    /// A new incarnation begins at this position; its counters go on.
    fn reborn(&mut self, intent: &IntentRow) -> Result<(), Inconsistent> {
        self.changes.push(Change::EraEnded(EraRow {
            resource: self.row.resource.clone(),
            incarnation: self.row.incarnation,
            born: self.row.born,
        }));
        self.row.incarnation =
            self.row.incarnation.next().ok_or_else(|| Inconsistent::because("incarnations are used up"))?;
        if self.row.incarnation != intent.record.incarnation {
            return Err(Inconsistent::because("a re-creation was announced for another incarnation"));
        }
        self.row.born = intent.record.position;
        self.row.life = Life::Active;
        Ok(())
    }

    /// The resource was removed. A cancellation is sticky: it stays where somebody cancelled meanwhile.
    fn end_life(&mut self, intent: &IntentRow) -> Result<(), Inconsistent> {
        let position = intent.record.position;
        self.changes.push(Change::AllTargetsRemoved(self.row.resource.clone()));
        self.row.revoked_through =
            Some(self.row.revoked_through.map_or(position, |mark| mark.or_higher(position)));
        if self.row.life == Life::Active {
            self.row.life = Life::Deleted;
        }
        if let Some(lease) = newest_lease(self.snapshot, &self.row)?
            && lease.position_on(&self.row.resource) == Some(position)
        {
            let ended = match lease.state_at(self.now, &self.row, &self.namespace.row) {
                LeaseState::PendingBarrier | LeaseState::Held => LeaseState::Released,
                ended @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => ended,
            };
            write_down(lease, ended, self.now, &mut self.changes);
        }
        Ok(())
    }

    /// The gateway's own receipt, where the upstream's answer was lost.
    fn receipt(
        &self,
        intent: &IntentRow,
        done: Done,
        commit: Option<CommitNo>,
        etag: Option<EntityTag>,
    ) -> SavedResponse {
        let receipt = Receipt {
            address: Address {
                resource: intent.record.resource.clone(),
                target: intent.record.target.clone(),
            },
            operation_id: intent.record.operation_id.clone(),
            incarnation: intent.record.incarnation,
            position: intent.record.position,
            sequence: intent.record.sequence,
            commit: commit.unwrap_or(self.row.commit_no),
            etag,
            applied_at: self.now,
        };
        let body = Bytes::from((self.context.render)(&receipt));
        SavedResponse { done, commit, etag, body, relayed: None }
    }
}

/// The upstream's answer, as it is kept.
fn saved(done: Done, commit: Option<CommitNo>, etag: Option<EntityTag>, relayed: &Relayed) -> SavedResponse {
    let kept = relayed.body.len() <= SAVED_BODY_BYTES;
    let omitted = (!kept).then(|| {
        let length = u64::try_from(relayed.body.len()).unwrap_or(u64::MAX);
        (length, BodyDigest::of(&relayed.body))
    });
    let head = RelayedHead {
        status: relayed.status,
        headers: relayed.headers.clone(),
        etag: relayed.etag.clone(),
        omitted,
    };
    let body = if kept { relayed.body.clone() } else { Bytes::new() };
    SavedResponse { done, commit, etag, body, relayed: Some(head) }
}
