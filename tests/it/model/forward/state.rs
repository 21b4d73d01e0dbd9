//! Rows, the store, what is on its way, and what processes were told and have not finished.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use fencegate::domain::operation::OperationState;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::CellSeen;
use fencegate::domain::upstream::{Class, Validator};
use fencegate::protocol::command::{Finding, Settle, Told};
use fencegate::protocol::outcome::{Act, Attempt};
use fencegate::protocol::rows::{IntentRow, LeaseRef, OperationRecord};
use fencegate::protocol::snapshot::OperationKey;
use fencegate::protocol::{Change, Snapshot};

use super::bounds::{Bounds, PAGE};
use super::bugs::Bug;
use super::judge::{History, Violation, broken};
use super::store::{Request, Sent, Store};
use crate::support::world::{check, name};

/// One moment of a history.
#[derive(Clone)]
pub(super) struct State {
    pub(super) snapshot: Snapshot,
    pub(super) store: Store,
    pub(super) tasks: Vec<Task>,
    /// Requests that nobody waits for any more.
    pub(super) network: Vec<Request>,
    pub(super) history: History,
}

/// A step that somebody was told to take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) phase: Phase,
}

/// What it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Operation { key: OperationKey, told: Told, ask_first: bool },
    Barrier(Option<LeaseRef>),
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// To be written to a socket.
    Send(Request),
    /// A cell is to be read, of which this is recorded.
    Read(Option<Validator>),
    /// Written, and on its way.
    Waiting(Request),
    /// Answered, and nobody has been told.
    Answered(Request, super::store::Reply),
    /// Read, and nobody has been told.
    Seen(Option<Validator>, CellSeen),
}

impl Task {
    /// The next step of an operation.
    pub(super) fn of(bounds: &Bounds, attempt: &Attempt) -> Self {
        let intent = &attempt.intent;
        let work = Work::Operation {
            key: intent.key(),
            told: attempt.told.clone(),
            ask_first: attempt.ask_first,
        };
        let phase = match &attempt.act {
            Act::ReadCell => Phase::Read(attempt.told.recorded.clone()),
            Act::Send(stamp) => Phase::Send(Request::Write {
                sent: sent(bounds, intent),
                base: intent.base.clone(),
                stamp: stamp.clone(),
            }),
        };
        Self { work, phase }
    }
}

/// Whose effect an announcement is.
fn sent(bounds: &Bounds, intent: &IntentRow) -> Sent {
    let delivery = usize::try_from(intent.claim).unwrap();
    Sent {
        delivery,
        operation: bounds.deliveries[delivery].operation,
        incarnation: intent.record.incarnation.get(),
        position: intent.record.position.token.get(),
        content: bounds.deliveries[delivery].content,
    }
}

/// What a step taught, as a command.
pub(super) fn taught(key: &OperationKey, told: &Told, finding: Finding) -> Settle {
    Settle { key: key.clone(), told: told.clone(), finding }
}

impl State {
    /// The intents, in their order.
    pub(super) fn intents(&self) -> impl Iterator<Item = &IntentRow> {
        self.snapshot.intents()
    }

    /// Makes decided changes durable, and judges what they record.
    pub(super) fn apply(&mut self, bounds: &Bounds, changes: &[Change]) -> Result<(), Violation> {
        let ended: BTreeSet<_> = changes.iter().filter_map(terminal).map(|record| key_of(record)).collect();
        for change in changes {
            if bounds.bug.is_none() {
                check(&self.snapshot, change);
            }
            self.snapshot.apply(change);
            match change {
                Change::IntentAnnounced { row, payload: _ } => self.always_due(row),
                Change::IntentChanged { before: _, after } => self.always_due(after),
                Change::IntentClosed(row) if !ended.contains(&row.key()) => {
                    self.history.none(usize::try_from(row.claim).unwrap())?;
                }
                Change::OperationRecorded(record) => self.recorded(record)?,
                _ => {}
            }
        }
        self.consistent(bounds)
    }

    /// Time can always pass until a step is due, so it always is: then no time is part of a state.
    fn always_due(&mut self, row: &IntentRow) {
        if row.record.state == OperationState::Intent {
            let mut due = row.clone();
            due.due_at = Timestamp::default();
            self.snapshot.insert_intent(due);
        }
    }

    fn recorded(&mut self, record: &OperationRecord) -> Result<(), Violation> {
        let operation = record.operation_id.as_str().chars().next().unwrap();
        let (incarnation, at) = (record.incarnation.get(), record.position.token.get());
        match record.state {
            OperationState::Applied => self.history.applied(operation, incarnation, at),
            OperationState::Refused => self.history.never(operation, incarnation),
            OperationState::Intent
            | OperationState::Uncertain
            | OperationState::ResolvedApplied
            | OperationState::ResolvedNotApplied => {
                broken("recorded", format!("{record:?} is not for the record"))
            }
        }
    }

    /// What must hold of the rows alone.
    fn consistent(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        let Some(row) = self.snapshot.resource(&name(PAGE)) else { return Ok(()) };
        if let Some(validator) = &row.cell {
            self.history.recorded(validator);
        }
        if let Some(found) = &row.quarantined {
            return broken("quarantine", format!("nobody wrote around the gateway: {found}"));
        }
        let mut positions = BTreeSet::new();
        for intent in self.snapshot.intents() {
            let free = match bounds.class {
                Class::Conditional => true,
                Class::FenceAware => positions.insert(intent.record.position),
                Class::Idempotent | Class::Serial => {
                    positions.is_empty() && positions.insert(intent.record.position)
                }
            };
            // A wrong step is to be found out by what comes of it.
            if !free && !bounds.is(Bug::NoLane) {
                return broken("I11", "two undecided operations in one lane");
            }
        }
        Ok(())
    }

    /// Requests that can have no effect any more are as good as lost.
    pub(super) fn tidy(&mut self, bounds: &Bounds) {
        let store = &self.store;
        self.network.retain(|request| !store.is_dead(request, bounds.bug));
        self.network.sort_unstable();
        if bounds.bug.is_none() {
            // Of two that are the same, the second one is dead when the first one has arrived; `serial` sends none twice.
            self.network.dedup();
        }
    }

    /// Two hashes of everything that decides what can happen next.
    pub(super) fn key(&self) -> (u64, u64) {
        let mut tasks: Vec<u64> = self.tasks.iter().map(hash_of).collect();
        tasks.sort_unstable();
        let rows = self.rows();
        let rest = (&self.store, &tasks, &self.network, self.history.key());
        (hash_of(&(1_u8, rows, &rest)), hash_of(&(rest, rows, 2_u8)))
    }

    /// A hash of the rows.
    pub(super) fn rows(&self) -> (u64, u64) {
        (self.rows_with(3), self.rows_with(4))
    }

    fn rows_with(&self, salt: u8) -> u64 {
        let mut hash = DefaultHasher::new();
        salt.hash(&mut hash);
        let snapshot = &self.snapshot;
        snapshot.resources().for_each(|row| {
            row.hash(&mut hash);
            snapshot.eras(&row.resource).for_each(|era| era.hash(&mut hash));
        });
        snapshot.targets().for_each(|(address, row)| (address, row.tag).hash(&mut hash));
        9_u8.hash(&mut hash);
        snapshot.operations().for_each(|record| record.hash(&mut hash));
        8_u8.hash(&mut hash);
        snapshot.intents().for_each(|intent| intent.hash(&mut hash));
        7_u8.hash(&mut hash);
        snapshot.leases().for_each(|lease| lease.hash(&mut hash));
        hash.finish()
    }
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    what.hash(&mut hash);
    hash.finish()
}

/// The record of an operation that a change ends.
fn terminal(change: &Change) -> Option<&OperationRecord> {
    match change {
        Change::OperationRecorded(record) => Some(record),
        _ => None,
    }
}

fn key_of(record: &OperationRecord) -> OperationKey {
    (record.resource.clone(), record.incarnation, record.operation_id.clone())
}
