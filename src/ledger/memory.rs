//! The reference engine: rows in memory, nothing durable. The model and the tests hold the other engines against it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::counter::LedgerSeq;
use crate::domain::resource::{Address, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::{Clock, Timestamp};
use crate::domain::upstream::Payload;
use crate::limits::{OPEN_OPERATIONS_SHOWN, REFUSALS_KEPT};
use crate::protocol::rows::EraRow;
use crate::protocol::snapshot::OperationKey;
use crate::protocol::wanted::OperationWanted;
use crate::protocol::{Snapshot, Wanted};

use super::changeset::{ChangeSet, TargetChange};
use super::engine::{CommitOutcome, Engine, EngineError, Identity, Loaded};
use super::read::{AuditEntry, AuditPlace, NotedRefusal};
use super::time::SharedTime;

mod reader;

pub use reader::MemoryReader;

/// The whole state.
#[derive(Debug, Clone, Default)]
struct World {
    rows: Snapshot,
    bodies: BTreeMap<Address, Bytes>,
    payloads: BTreeMap<OperationKey, Payload>,
    audit: Vec<AuditEntry>,
    /// Operations in the order in which they were recorded, with their transactions.
    recorded: Vec<(u64, OperationKey)>,
    refusals: BTreeMap<ResourceName, Vec<NotedRefusal>>,
    ledger_seq: LedgerSeq,
}

/// Rows and clock, shared by the engine and its readers.
struct Shared {
    world: Mutex<World>,
    time: SharedTime,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.time.now()
    }
}

/// The writer.
pub struct MemoryEngine {
    shared: Arc<Shared>,
    pending: Option<World>,
}

/// How it keeps an acknowledged write.
const DURABILITY: &str = "none: everything is lost when the process ends";

/// An empty database in memory, with its reader.
#[must_use]
pub fn open(database: Uuid, clock: Arc<dyn Clock>) -> (MemoryEngine, MemoryReader, Identity) {
    let time = SharedTime::starting_at(Timestamp::default(), clock);
    let shared = Arc::new(Shared { world: Mutex::default(), time });
    let identity =
        Identity { engine: "memory", database, schema_version: None, durability: DURABILITY.to_owned() };
    (MemoryEngine { shared: shared.clone(), pending: None }, MemoryReader::new(shared), identity)
}

impl Engine for MemoryEngine {
    async fn load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        let now = self.shared.now();
        Ok(Loaded { snapshot: view(&self.shared.world().rows, wanted), now })
    }

    async fn apply(&mut self, changes: &ChangeSet, _now: Timestamp) -> Result<(), EngineError> {
        let mut world = self.shared.world().clone();
        apply(&mut world, changes)?;
        self.pending = Some(world);
        Ok(())
    }

    async fn commit(&mut self) -> CommitOutcome {
        match self.pending.take() {
            None => CommitOutcome::Failed("there is no transaction to commit".to_owned()),
            Some(mut world) => {
                world.ledger_seq = world.ledger_seq.next().unwrap_or(world.ledger_seq);
                *self.shared.world() = world;
                CommitOutcome::Committed
            }
        }
    }

    async fn confirm(&mut self) -> CommitOutcome {
        self.rollback().await;
        CommitOutcome::Committed
    }

    async fn rollback(&mut self) {
        self.pending = None;
    }

    async fn close(self) {}
}

/// The wanted rows, with the namespace and newest lease of each resource and the resources of each lease.
fn view(rows: &Snapshot, wanted: &Wanted) -> Snapshot {
    let mut view = Snapshot::default();
    let mut resources = wanted.resources.clone();
    for lease in rows.leases() {
        let key = (lease.resource.bucket(), *lease.acquisition.as_bytes());
        let request = (lease.resource.bucket(), lease.request_key);
        if wanted.leases.contains(&key) || wanted.requests.contains(&request) {
            resources.extend(lease.members().map(|(name, _)| name.clone()));
            view.insert_lease(lease.clone());
        }
    }
    let namespaces = resources.iter().map(ResourceName::namespace);
    for name in wanted.namespaces.iter().cloned().chain(namespaces) {
        if let Some(row) = rows.namespace(&name) {
            view.insert_namespace(row.clone());
        }
    }
    for row in resources.iter().filter_map(|name| rows.resource(name)) {
        if let Some(lease) = row.lease.and_then(|place| rows.lease(&place.acquisition)) {
            view.insert_lease(lease.clone());
        }
        for (born, incarnation) in rows.eras(&row.resource) {
            view.insert_era(EraRow { resource: row.resource.clone(), incarnation, born });
        }
        for intent in rows.intents_of(&row.resource) {
            view.insert_intent(intent.clone());
        }
        view.insert_resource(row.clone());
    }
    view.set_everywhere(rows.everywhere().clone());
    for subject in &wanted.whole {
        let within = |name: &Namespace| match subject {
            Subject::Everywhere => true,
            Subject::Namespace(one) => one == name,
            Subject::Resource(_) => false,
        };
        rows.namespaces()
            .filter(|row| within(&row.namespace))
            .for_each(|row| view.insert_namespace(row.clone()));
        rows.resources()
            .map(|row| row.resource.namespace())
            .filter(within)
            .for_each(|name| view.set_populated(name));
        let open = rows.intents().filter(|intent| within(&intent.record.resource.namespace()));
        open.take(OPEN_OPERATIONS_SHOWN.try_into().unwrap_or(usize::MAX))
            .for_each(|intent| view.insert_intent(intent.clone()));
    }
    for address in &wanted.targets {
        if let Some(row) = rows.target(address) {
            view.insert_target(address.resource.clone(), row.clone());
        }
    }
    for record in rows.operations() {
        let named = |one: &OperationWanted| {
            one.resource == record.resource && one.operation_id == record.operation_id
        };
        if wanted.operations.iter().any(named) {
            view.insert_operation(record.clone());
        }
    }
    for resource in &wanted.recorded {
        if let Some(record) = rows.operations().find(|record| record.resource == *resource) {
            view.insert_operation(record.clone());
        }
    }
    for record in wanted.controls.iter().filter_map(|key| rows.control(key)) {
        view.insert_control(record.clone());
    }
    view
}

fn apply(world: &mut World, changes: &ChangeSet) -> Result<(), EngineError> {
    forget(world, changes)?;
    for change in changes.namespaces.values() {
        if world.rows.namespace(&change.after.namespace) != change.before.as_ref() {
            return Err(EngineError::Conflict(format!("namespace {:?} changed", change.after.namespace)));
        }
        world.rows.insert_namespace(change.after.clone());
    }
    if let Some(change) = &changes.everywhere {
        world.rows.set_everywhere(change.after.clone());
    }
    for change in changes.resources.values() {
        if world.rows.resource(&change.after.resource) != change.before.as_ref() {
            return Err(EngineError::Conflict(format!("{:?} changed", change.after.resource)));
        }
        world.rows.insert_resource(change.after.clone());
    }
    for era in &changes.eras {
        world.rows.insert_era(era.clone());
    }
    for resource in &changes.cleared {
        world.rows.apply(&crate::protocol::Change::AllTargetsRemoved(resource.clone()));
        world.bodies.retain(|address, _| address.resource != *resource);
    }
    for (address, change) in &changes.targets {
        match change {
            TargetChange::Stored { row, body } => {
                world.rows.insert_target(address.resource.clone(), row.clone());
                world.bodies.insert(address.clone(), body.clone());
            }
            TargetChange::Removed => {
                world.rows.apply(&crate::protocol::Change::TargetRemoved(address.clone()));
                world.bodies.remove(address);
            }
        }
    }
    for record in &changes.operations {
        world.rows.insert_operation(record.clone());
    }
    for (key, change) in &changes.intents {
        if world.rows.intent(key) != change.before.as_ref() {
            return Err(EngineError::Conflict(format!("operation {:?} of {:?} has moved", key.2, key.0)));
        }
        match (&change.after, &change.before) {
            (Some(after), _) => world.rows.insert_intent(after.clone()),
            (None, Some(before)) => {
                world.rows.remove_intent(before);
                world.payloads.remove(key);
            }
            (None, None) => {}
        }
        if let Some(payload) = &change.payload {
            world.payloads.insert(key.clone(), payload.clone());
        }
    }
    for row in &changes.forgotten {
        world.rows.remove_lease(row);
    }
    for record in &changes.controls {
        world.rows.insert_control(record.clone());
    }
    for change in changes.leases.values() {
        if world.rows.lease(&change.after.acquisition) != change.before.as_ref() {
            return Err(EngineError::Conflict(format!("a lease of {:?} changed", change.after.resource)));
        }
        world.rows.insert_lease(change.after.clone());
    }
    told(world, changes);
    Ok(())
}

/// What is kept no longer goes first: a folded resource may be heard of again in the same batch.
fn forget(world: &mut World, changes: &ChangeSet) -> Result<(), EngineError> {
    for record in &changes.pruned {
        world.rows.remove_operation(&record.key());
    }
    for row in &changes.folded {
        if world.rows.resource(&row.resource) != Some(row) {
            return Err(EngineError::Conflict(format!("{:?} changed", row.resource)));
        }
        world.rows.remove_resource(&row.resource);
        world.refusals.remove(&row.resource);
    }
    changes.forgotten_eras.iter().for_each(|era| world.rows.remove_era(era));
    changes.forgotten_controls.iter().for_each(|record| world.rows.remove_control(&record.record_key()));
    Ok(())
}

/// What no decision looks at.
fn told(world: &mut World, changes: &ChangeSet) {
    let transaction = world.ledger_seq.get().saturating_add(1);
    for (ordinal, row) in (0..).zip(&changes.audit) {
        let place = AuditPlace { at: row.at, transaction, ordinal };
        world.audit.push(AuditEntry { place, row: row.clone() });
    }
    world.recorded.extend(changes.operations.iter().map(|record| (transaction, record.key())));
    for row in &changes.refusals {
        if world.rows.resource(&row.resource).is_none() {
            continue;
        }
        let ring = world.refusals.entry(row.resource.clone()).or_default();
        let number = ring.last().map_or(0, |last| last.number.saturating_add(1));
        ring.push(NotedRefusal { number, row: row.clone() });
        if ring.len() > REFUSALS_KEPT.try_into().unwrap_or(usize::MAX) {
            ring.remove(0);
        }
    }
}
