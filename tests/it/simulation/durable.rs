//! The judge's look at what a commit made durable, and at the rows as they stand.

use std::collections::BTreeSet;

use fencegate::domain::lease::LeaseState;
use fencegate::domain::operation::OperationState;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::Class;
use fencegate::protocol::rows::{IntentRow, OperationRecord};
use fencegate::protocol::{Change, Outcome, Snapshot, invariants};

use super::judge::{Announced, Done, Judge, Judged, broken, hold, page_of};
use crate::support::world::name;

/// The pages.
pub(super) const PAGES: [&str; 2] = ["w/a", "w/b"];

impl Judge {
    /// A decision has become durable, in the commit of this number; `before` are the rows that it saw.
    pub(super) fn durable(
        &mut self,
        before: &Snapshot,
        outcome: &Outcome,
        changes: &[Change],
        commit: usize,
    ) -> Judged {
        if outcome.refusal().is_some() {
            refused_changes_nothing(outcome, changes)?;
        }
        let applied: BTreeSet<_> = changes.iter().filter_map(recorded).collect();
        for change in changes {
            match change {
                Change::Resource { before, after } => {
                    invariants::check(before.as_deref(), after)
                        .or_else(|inconsistent| broken("I7", inconsistent.to_string()))?;
                    let cell = after.cell.clone().map(|cell| (page_of(&after.resource), cell));
                    self.cells.extend(cell);
                }
                Change::NamespaceChanged { before, after } => {
                    let back = before.epoch > after.epoch || after.base.is_below(before.base);
                    hold(!back, "I7", || format!("{before:?} became {after:?}"))?;
                }
                Change::LeaseGranted(lease) => {
                    Self::not_stopped(before)?;
                    for (resource, position) in lease.members() {
                        self.granted(page_of(resource), position, *lease.acquisition.as_bytes())?;
                    }
                }
                Change::IntentAnnounced { row, .. } => {
                    Self::not_stopped(before)?;
                    self.announce(row)?;
                }
                Change::IntentClosed(row) if !applied.contains(&row.key()) => self.no_effect(row.claim)?,
                Change::OperationPruned(record) => {
                    let id = record.operation_id.as_str().to_owned();
                    self.forget((page_of(&record.resource), id, record.incarnation.get()));
                }
                Change::OperationRecorded(record) => self.recorded(before, record, commit)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A breaker lets nothing happen.
    fn not_stopped(rows: &Snapshot) -> Judged {
        let stopped =
            rows.everywhere().breaker.is_some() || rows.namespaces().any(|row| row.breaker.is_some());
        hold(!stopped, "breaker", || "something was admitted or issued while it was tripped".into())
    }

    fn announce(&mut self, row: &IntentRow) -> Judged {
        let (record, page) = (&row.record, page_of(&row.record.resource));
        self.admitted(page, record.position)?;
        self.set_apart(page, record.operation_id.as_str());
        let announced = Announced {
            page,
            operation: record.operation_id.as_str().to_owned(),
            incarnation: record.incarnation.get(),
            sequence: record.sequence.map_or(0, fencegate::domain::counter::Sequence::get),
            fingerprint: record.fingerprint,
        };
        self.announced.insert(row.claim, announced);
        Ok(())
    }

    fn recorded(&mut self, before: &Snapshot, record: &OperationRecord, commit: usize) -> Judged {
        let (page, operation) = (page_of(&record.resource), record.operation_id.as_str());
        let incarnation = record.incarnation.get();
        if self.setup.class.is_none() {
            Self::not_stopped(before)?;
            self.admitted(page, record.position)?;
            self.set_apart(page, operation);
            let done = Done {
                commit,
                operation: operation.to_owned(),
                incarnation,
                position: record.position,
                sequence: record.sequence.map_or(0, fencegate::domain::counter::Sequence::get),
                fingerprint: record.fingerprint,
                claim: 0,
                lost: self.suspended,
            };
            return self.took_effect(page, done);
        }
        match record.state {
            OperationState::Applied | OperationState::ResolvedApplied => {
                self.applied(page, operation, incarnation, record.position)
            }
            OperationState::Refused | OperationState::ResolvedNotApplied => {
                self.never(page, operation, incarnation)
            }
            OperationState::Intent | OperationState::Uncertain => {
                broken("recorded", format!("{record:?} is not for the record"))
            }
        }
    }

    /// What must hold of the rows at every moment.
    pub(super) fn rows(&self, rows: &Snapshot, now: Timestamp) -> Judged {
        for page in PAGES {
            let resource = name(page);
            let (Some(row), Some(namespace)) =
                (rows.resource(&resource), rows.namespace(&resource.namespace()))
            else {
                continue;
            };
            let live = rows.leases().filter(|lease| {
                lease.position_on(&resource).is_some()
                    && matches!(
                        lease.state_at(now, row, namespace),
                        LeaseState::Held | LeaseState::PendingBarrier
                    )
            });
            hold(live.count() <= 1, "I17", || format!("{page} has two owners"))?;
            if self.losses == 0 {
                let quarantined = &row.quarantined;
                hold(quarantined.is_none(), "quarantine", || {
                    format!("nobody lost anything: {quarantined:?}")
                })?;
            }
            let mut positions = BTreeSet::new();
            for intent in rows.intents_of(&resource) {
                let blind = matches!(self.setup.class, Some(Class::Idempotent | Class::Serial));
                let uncertain = intent.record.state == OperationState::Uncertain;
                hold(blind || !uncertain, "I20", || format!("{page}: a doubt that a look would end"))?;
                let free = match self.setup.class {
                    None | Some(Class::Conditional) => true,
                    Some(Class::FenceAware) => positions.insert(intent.record.position),
                    Some(Class::Idempotent | Class::Serial) => {
                        positions.is_empty() && positions.insert(intent.record.position)
                    }
                };
                hold(free || self.losses > 0, "I11", || format!("{page}: two undecided in one lane"))?;
            }
        }
        let tripped = rows.namespaces().find(|row| row.breaker.is_some());
        hold(tripped.is_none() || self.losses > 0, "breaker", || {
            format!("tripped, and nothing was lost: {tripped:?}")
        })
    }
}

/// I19: a refusal writes an end down that was seen, and nothing else.
fn refused_changes_nothing(outcome: &Outcome, changes: &[Change]) -> Judged {
    let unwanted = changes.iter().find(|change| match change {
        Change::LeaseChanged { after, .. } => {
            !matches!(after.state, LeaseState::Expired | LeaseState::Superseded)
        }
        Change::Audited(_) => false,
        _ => true,
    });
    hold(unwanted.is_none(), "I19", || format!("{:?} changes {unwanted:?}", outcome.refusal()))
}

fn recorded(change: &Change) -> Option<fencegate::protocol::snapshot::OperationKey> {
    match change {
        Change::OperationRecorded(record) => Some(record.key()),
        _ => None,
    }
}
