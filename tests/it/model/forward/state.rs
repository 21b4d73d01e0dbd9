//! Rows, the store, what is on its way, and what processes were told and have not finished.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use fencegate::domain::operation::OperationState;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::{CellSeen, Class, Validator};
use fencegate::protocol::command::{Finding, Settle, Told};
use fencegate::protocol::outcome::{Act, Attempt};
use fencegate::protocol::rows::{IntentRow, LeaseRef, OperationRecord};
use fencegate::protocol::snapshot::OperationKey;
use fencegate::protocol::{Change, Command, Snapshot};
use sha2::{Digest, Sha256};

use super::bounds::{Bounds, PAGE, number_of};
use super::bugs::Bug;
use super::judge::{History, Violation, broken};
use super::store::{Request, Sent, Store};
use crate::support::forwarding::answered;
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
        let work =
            Work::Operation { key: intent.key(), told: attempt.told.clone(), ask_first: attempt.ask_first };
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
        position: number_of(intent.record.position),
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
        let applied: BTreeSet<_> = changes.iter().filter_map(applied).collect();
        for change in changes {
            if bounds.bug.is_none() {
                check(&self.snapshot, change);
            }
            self.snapshot.apply(change);
            match change {
                Change::IntentAnnounced { row, payload: _ } => self.always_due(row),
                Change::IntentChanged { before: _, after } => self.always_due(after),
                Change::IntentClosed(row) if !applied.contains(&row.key()) => {
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
        let (incarnation, at) = (record.incarnation.get(), number_of(record.position));
        match record.state {
            OperationState::Applied | OperationState::ResolvedApplied => {
                self.history.applied(operation, incarnation, at)
            }
            OperationState::Refused | OperationState::ResolvedNotApplied => {
                self.history.never(operation, incarnation)
            }
            OperationState::Intent | OperationState::Uncertain => {
                broken("recorded", format!("{record:?} is not for the record"))
            }
        }
    }

    /// What must hold of the rows alone.
    fn consistent(&self, bounds: &Bounds) -> Result<(), Violation> {
        let Some(row) = self.snapshot.resource(&name(PAGE)) else { return Ok(()) };
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

    /// Whether a task can change nothing any more: what it learns is old, and what it sends is dead.
    fn is_idle(&self, bounds: &Bounds, task: &Task) -> bool {
        let Work::Operation { key, told, .. } = &task.work else { return false };
        let current = self.snapshot.intent(key).is_some_and(|intent| {
            let under_way = intent.record.state == OperationState::Intent;
            under_way && intent.claim == told.claim && intent.record.attempt == told.attempt
        });
        let harmless = match &task.phase {
            Phase::Send(request) | Phase::Waiting(request) => self.store.is_dead(request, bounds.bug),
            Phase::Read(_) | Phase::Answered(_, _) | Phase::Seen(_, _) => true,
        };
        bounds.bug.is_none() && !current && harmless
    }

    /// Requests that can have no effect any more are as good as lost.
    pub(super) fn tidy(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        for task in std::mem::take(&mut self.tasks) {
            if self.is_idle(bounds, &task) {
                self.changes_nothing(bounds, &task)?;
            } else {
                self.tasks.push(task);
            }
        }
        let store = &self.store;
        self.network.retain(|request| !store.is_dead(request, bounds.bug));
        self.network.sort_unstable();
        if bounds.bug.is_none() {
            // Of two that are the same, the second one is dead when the first one has arrived; `serial` sends none twice.
            self.network.dedup();
        }
        Ok(())
    }

    /// What an old attempt teaches is told to nobody.
    fn changes_nothing(&self, bounds: &Bounds, task: &Task) -> Result<(), Violation> {
        let Work::Operation { key, told, .. } = &task.work else { return Ok(()) };
        for finding in [Finding::NotSent, Finding::Answered(Box::new(answered(200, None)), None)] {
            let decision = self.decide(bounds, &Command::Settle(taught(key, told, finding)))?;
            if !decision.changes.is_empty() {
                return broken("moved", format!("{told:?} settles what has gone on"));
            }
        }
        Ok(())
    }

    /// A hash of everything that decides what can happen next; 16 bytes of it tell apart more states than there are.
    pub(super) fn key(&self) -> [u8; 16] {
        let mut tasks: Vec<Vec<u8>> = self.tasks.iter().map(|task| bytes_of(|all| task.hash(all))).collect();
        tasks.sort_unstable();
        digest(&bytes_of(|all| {
            self.rows(all);
            self.store.hash(all);
            tasks.hash(all);
            self.network.hash(all);
            self.history.told.hash(all);
        }))
    }

    /// What decides how healing goes: the rows and the store.
    pub(super) fn healing_key(&self) -> [u8; 16] {
        digest(&bytes_of(|all| {
            self.rows(all);
            self.store.hash(all);
            self.history.last_write().hash(all);
            self.history.age.hash(all);
        }))
    }

    fn rows(&self, all: &mut Bytes) {
        let snapshot = &self.snapshot;
        snapshot.namespaces().for_each(|row| (row.epoch, row.breaker.is_some()).hash(all));
        snapshot.resources().for_each(|row| {
            row.hash(all);
            snapshot.eras(&row.resource).for_each(|era| era.hash(all));
        });
        snapshot.targets().for_each(|(_, row)| row.tag.hash(all));
        // What was decided is told by its state; what was answered changes nothing any more.
        for record in snapshot.operations() {
            (record.operation_id.as_str(), record.incarnation, record.position, record.state).hash(all);
        }
        for intent in snapshot.intents() {
            let record = &intent.record;
            (record.operation_id.as_str(), record.incarnation, record.position, record.state).hash(all);
            (record.attempt, intent.claim, intent.doubt, &intent.base, record.created_at).hash(all);
        }
        snapshot.leases().for_each(|lease| (lease.position, lease.state).hash(all));
    }
}

/// Takes down what is to be hashed.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn bytes_of(hashed: impl FnOnce(&mut Bytes)) -> Vec<u8> {
    let mut bytes = Bytes(Vec::with_capacity(1_024));
    hashed(&mut bytes);
    bytes.0
}

fn digest(bytes: &[u8]) -> [u8; 16] {
    Sha256::digest(bytes)[..16].try_into().unwrap()
}

/// The operation that a change records as applied.
fn applied(change: &Change) -> Option<OperationKey> {
    let Change::OperationRecorded(record) = change else { return None };
    let applied = matches!(record.state, OperationState::Applied | OperationState::ResolvedApplied);
    applied.then(|| (record.resource.clone(), record.incarnation, record.operation_id.clone()))
}
