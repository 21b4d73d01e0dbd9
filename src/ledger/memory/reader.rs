//! Reads of the reference engine.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Incarnation, LedgerSeq};
use crate::domain::lease::{AcquisitionHash, LeaseState};
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::quota::Usage;
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::upstream::Payload;
use crate::limits::TARGETS_SHOWN;
use crate::protocol::Snapshot;
use crate::protocol::control::ControlRecord;
use crate::protocol::prune;
use crate::protocol::rows::{
    EverywhereRow, IntentRow, LeaseRef, LeaseRow, NamespaceRow, OperationRecord, ResourceRow,
};
use crate::protocol::snapshot::{ControlKey, OperationKey};

use super::super::events::{EventPlace, EventsEnd, EventsRead, OperationEntry, Reached};
use super::super::read::{
    AuditEntry, AuditFilter, AuditPlace, DocumentRead, DuePlace, LeaseRead, NotedRefusal, OldOperations,
    OldPlace, OperationFilter, PendingPlace, ReadFailed, Reader, Reading, ResourceFilter, ResourceRead,
};
use super::{Shared, World};
use crate::domain::time::Timestamp;

/// Reads the committed state of a memory engine.
pub struct MemoryReader {
    shared: Arc<Shared>,
}

impl MemoryReader {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

fn at_once<'a, T: Send + 'a>(answer: Result<T, ReadFailed>) -> Reading<'a, T> {
    Box::pin(ready(answer))
}

fn page(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn namespace_of(rows: &Snapshot, resource: &ResourceName) -> Result<NamespaceRow, ReadFailed> {
    rows.namespace(&resource.namespace())
        .cloned()
        .ok_or_else(|| ReadFailed(format!("the namespace of {resource:?} has no row")))
}

fn whole(rows: &Snapshot, row: &ResourceRow, now: Timestamp) -> Result<ResourceRead, ReadFailed> {
    let targets = rows
        .targets()
        .filter(|(address, _)| address.resource == row.resource)
        .map(|(_, target)| target.clone())
        .take(page(TARGETS_SHOWN))
        .collect();
    let lease = row.lease.and_then(|place| rows.lease(&place.acquisition)).cloned();
    Ok(ResourceRead {
        resource: row.clone(),
        targets,
        lease,
        namespace: namespace_of(rows, &row.resource)?,
        now,
    })
}

fn view_of(world: &World) -> EventPlace {
    let end = Reached::all_of(world.ledger_seq.get());
    EventPlace { acts: end, operations: end }
}

impl Reader for MemoryReader {
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead> {
        let world = self.shared.world();
        at_once(Ok(DocumentRead {
            namespace: world.rows.namespace(&address.resource.namespace()).cloned(),
            resource: world.rows.resource(&address.resource).cloned(),
            target: world.rows.target(&address).cloned(),
            body: if with_body { world.bodies.get(&address).cloned() } else { None },
        }))
    }

    fn resource(&self, resource: ResourceName) -> Reading<'_, Option<ResourceRead>> {
        let now = self.shared.now();
        let world = self.shared.world();
        at_once(world.rows.resource(&resource).map(|row| whole(&world.rows, row, now)).transpose())
    }

    fn watched(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<ResourceRead>> {
        let now = self.shared.now();
        let world = self.shared.world();
        let rows = resources.iter().filter_map(|name| world.rows.resource(name));
        let found = rows.map(|row| Ok(ResourceRead { targets: Vec::new(), ..whole(&world.rows, row, now)? }));
        at_once(found.collect())
    }

    fn expired(&self, now: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        let world = self.shared.world();
        let over = |lease: &&LeaseRow| lease.state.is_live() && lease.expires_at <= now;
        let mut found: Vec<&LeaseRow> = world.rows.leases().filter(over).collect();
        found.sort_by_key(|lease| lease.expires_at);
        at_once(Ok(found.into_iter().take(page(limit)).map(LeaseRow::place).collect()))
    }

    fn ended(&self, bucket: Bucket, before: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        let world = self.shared.world();
        let newest = |lease: &LeaseRow| {
            let row = world.rows.resource(&lease.resource);
            row.and_then(|row| row.lease).is_some_and(|place| place.acquisition == lease.acquisition)
        };
        let over = |lease: &&LeaseRow| {
            lease.resource.bucket() == bucket
                && lease.ended_at.is_some_and(|at| at < before)
                && !newest(lease)
        };
        at_once(Ok(world.rows.leases().filter(over).take(page(limit)).map(LeaseRow::place).collect()))
    }

    fn old_operations(&self, from: OldPlace, before: Timestamp, limit: u32) -> Reading<'_, OldOperations> {
        let world = self.shared.world();
        let mut old: Vec<&OperationRecord> = world.rows.operations().collect();
        old.retain(|record| record.decided_at.is_some_and(|at| at < before));
        old.sort_by_key(|record| (record.decided_at, record.created_at));
        let start = usize::try_from(from.first).unwrap_or_default();
        let looked_at: Vec<&OperationRecord> = old.into_iter().skip(start).take(page(limit)).collect();
        let has_passed = |record: &&&OperationRecord| {
            let namespace = world.rows.namespace(&record.resource.namespace());
            let rows = namespace.zip(world.rows.resource(&record.resource));
            rows.is_some_and(|(namespace, row)| prune::has_passed(namespace, row, record.position))
        };
        let found: Vec<OperationKey> =
            looked_at.iter().filter(has_passed).map(|record| record.key()).collect();
        // Those that are found go, so that the next ones stand in their places.
        let stayed = looked_at.len().saturating_sub(found.len());
        let first = i64::try_from(start.saturating_add(stayed)).unwrap_or(i64::MAX);
        let next = (!looked_at.is_empty()).then_some(OldPlace { first, bucket: 0 });
        at_once(Ok(OldOperations { found, next }))
    }

    fn old_controls(&self, before: Timestamp, limit: u32) -> Reading<'_, Vec<ControlKey>> {
        let world = self.shared.world();
        let mut old: Vec<&ControlRecord> = world.rows.controls().filter(|one| one.at < before).collect();
        old.sort_by_key(|record| record.at);
        at_once(Ok(old.into_iter().take(page(limit)).map(ControlRecord::record_key).collect()))
    }

    fn has_old_audit(&self, _before: Timestamp) -> Reading<'_, bool> {
        at_once(Ok(false))
    }

    fn time(&self) -> Reading<'_, Timestamp> {
        at_once(Ok(self.shared.now()))
    }

    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>> {
        let now = self.shared.now();
        let world = self.shared.world();
        let rows = world.rows.resources().filter(|row| lets_through(&filter, row)).take(page(filter.limit));
        at_once(rows.map(|row| whole(&world.rows, row, now)).collect())
    }

    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>> {
        let world = self.shared.world();
        let named = records(&world.rows).filter(|record| {
            record.resource == resource
                && record.operation_id == operation_id
                && incarnation.is_none_or(|one| record.incarnation == one)
        });
        at_once(Ok(named.max_by_key(|record| record.incarnation).cloned()))
    }

    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>> {
        let world = self.shared.world();
        let key =
            |record: &OperationRecord| (record.created_at, record.incarnation, record.operation_id.clone());
        let mut found: Vec<OperationRecord> = records(&world.rows)
            .filter(|record| record.resource == filter.resource)
            .filter(|record| filter.state.is_none_or(|state| record.state == state))
            .filter(|record| {
                filter.after.as_ref().is_none_or(|place| {
                    key(record) < (place.created_at, place.incarnation, place.operation_id.clone())
                })
            })
            .cloned()
            .collect();
        found.sort_by_key(|record| Reverse(key(record)));
        found.truncate(page(filter.limit));
        at_once(Ok(found))
    }

    fn audit(&self, resource: ResourceName, before: AuditPlace, limit: u32) -> Reading<'_, Vec<AuditEntry>> {
        let world = self.shared.world();
        let subjects = Subject::touching(&resource);
        let wanted = |entry: &&AuditEntry| entry.place < before && subjects.contains(&entry.row.subject);
        let mut found: Vec<AuditEntry> = world.audit.iter().filter(wanted).cloned().collect();
        found.sort_by_key(|entry| Reverse(entry.place));
        found.truncate(page(limit));
        at_once(Ok(found))
    }

    fn audit_lines(&self, filter: AuditFilter) -> Reading<'_, Vec<AuditEntry>> {
        let world = self.shared.world();
        let (_, after) = filter.start();
        let wanted = |entry: &&AuditEntry| entry.place > after && entry.place.at < filter.until;
        let mut found: Vec<AuditEntry> = world.audit.iter().filter(wanted).cloned().collect();
        found.sort_by_key(|entry| entry.place);
        found.truncate(page(filter.limit));
        at_once(Ok(found))
    }

    fn events(&self, from: EventPlace, limit: u32) -> Reading<'_, EventsRead> {
        let now = self.shared.now();
        let world = self.shared.world();
        let behind = |entry: &&AuditEntry| (entry.place.transaction, entry.place.ordinal) > from.acts.pair();
        let acts = world.audit.iter().filter(behind).take(page(limit)).cloned().collect();
        let operations = (0..).zip(&world.recorded).filter_map(|(ordinal, (transaction, key))| {
            let place = Reached { transaction: *transaction, ordinal };
            let record = world.rows.operation(key).filter(|_| place > from.operations)?;
            Some(OperationEntry { place, record: record.clone() })
        });
        let operations = operations.take(page(limit)).collect();
        at_once(Ok(EventsRead { acts, operations, view: view_of(&world), now }))
    }

    fn events_end(&self) -> Reading<'_, EventsEnd> {
        let now = self.shared.now();
        let view = view_of(&self.shared.world());
        at_once(Ok(EventsEnd { view, last: view, now }))
    }

    fn refusals(&self, resource: ResourceName) -> Reading<'_, Vec<NotedRefusal>> {
        at_once(Ok(self.shared.world().refusals.get(&resource).cloned().unwrap_or_default()))
    }

    fn troubled(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceName>> {
        let world = self.shared.world();
        let limit = page(filter.limit);
        let filter = ResourceFilter { life: None, ..filter };
        let troubled = |row: &&ResourceRow| {
            row.quarantined.is_some() || uncertain(&world.rows, &row.resource).next().is_some()
        };
        let rows = world.rows.resources().filter(|row| lets_through(&filter, row)).filter(troubled);
        at_once(Ok(rows.map(|row| row.resource.clone()).take(limit).collect()))
    }

    fn uncertain(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<(ResourceName, OperationId)>> {
        let world = self.shared.world();
        let found = resources.into_iter().filter_map(|name| {
            let id = uncertain(&world.rows, &name).next()?.record.operation_id.clone();
            Some((name, id))
        });
        at_once(Ok(found.collect()))
    }

    fn intents(&self, resource: ResourceName) -> Reading<'_, Vec<IntentRow>> {
        let mut found: Vec<IntentRow> = self.shared.world().rows.intents_of(&resource).cloned().collect();
        found.sort_by_key(|intent| intent.record.created_at);
        at_once(Ok(found))
    }

    fn due(&self, now: Timestamp, after: Option<DuePlace>, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        let place = |intent: &IntentRow| (intent.due_at, intent.key());
        let world = self.shared.world();
        let due = |intent: &&IntentRow| {
            intent.due_at <= now && after.as_ref().is_none_or(|after| place(intent) > *after)
        };
        let mut found: Vec<&IntentRow> = world.rows.intents().filter(due).collect();
        found.sort_by_key(|intent| place(intent));
        at_once(Ok(found.into_iter().take(page(limit)).cloned().collect()))
    }

    fn undecided(&self, state: OperationState, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        let world = self.shared.world();
        let mut found: Vec<&IntentRow> =
            world.rows.intents().filter(|intent| intent.record.state == state).collect();
        found.sort_by_key(|intent| intent.record.created_at);
        at_once(Ok(found.into_iter().take(page(limit)).cloned().collect()))
    }

    fn payload(&self, key: OperationKey) -> Reading<'_, Option<Payload>> {
        at_once(Ok(self.shared.world().payloads.get(&key).cloned()))
    }

    fn pending(&self, now: Timestamp, after: Option<PendingPlace>, limit: u32) -> Reading<'_, Vec<LeaseRow>> {
        let place = |since: Timestamp, lease: &AcquisitionHash| (since, *lease.as_bytes());
        let after = after.map(|(since, lease)| place(since, &lease));
        let of = |lease: &LeaseRow| place(lease.granted_at, &lease.acquisition);
        let world = self.shared.world();
        let waits = |lease: &&LeaseRow| {
            let waits = lease.state == LeaseState::PendingBarrier && lease.expires_at > now;
            waits && after.is_none_or(|after| of(lease) > after)
        };
        let mut found: Vec<&LeaseRow> = world.rows.leases().filter(waits).collect();
        found.sort_by_key(|lease| of(lease));
        at_once(Ok(found.into_iter().take(page(limit)).cloned().collect()))
    }

    fn lease(&self, _bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>> {
        let now = self.shared.now();
        let world = self.shared.world();
        let Some(lease) = world.rows.lease(&acquisition).cloned() else { return at_once(Ok(None)) };
        let Some(resource) = world.rows.resource(&lease.resource).cloned() else {
            if !lease.state.is_live() {
                return at_once(Ok(None));
            }
            return at_once(Err(ReadFailed(format!("a lease of {:?} has no resource row", lease.resource))));
        };
        let namespace = namespace_of(&world.rows, &lease.resource);
        at_once(namespace.map(|namespace| Some(LeaseRead { lease, resource, namespace, now })))
    }

    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>> {
        at_once(Ok(self.shared.world().rows.namespaces().cloned().collect()))
    }

    fn everywhere(&self) -> Reading<'_, EverywhereRow> {
        at_once(Ok(self.shared.world().rows.everywhere().clone()))
    }

    fn usage(&self, part: u8) -> Reading<'_, Vec<(Namespace, Usage)>> {
        let world = self.shared.world();
        let mut sums: BTreeMap<Namespace, Usage> = BTreeMap::new();
        let mut add = |name: &ResourceName, usage: Usage| {
            if name.bucket() == Bucket(part) {
                let sum = sums.entry(name.namespace()).or_default();
                *sum = sum.and(usage);
            }
        };
        for row in world.rows.resources() {
            add(&row.resource, Usage { resources: 1, ..Usage::default() });
        }
        for (address, row) in world.rows.targets() {
            let bytes = i64::try_from(row.size).unwrap_or(i64::MAX);
            add(&address.resource, Usage { bytes, ..Usage::default() });
        }
        let announced = world.rows.intents().map(|intent| &intent.record);
        for record in world.rows.operations().chain(announced) {
            add(&record.resource, Usage { operations: 1, ..Usage::default() });
        }
        at_once(Ok(sums.into_iter().collect()))
    }

    fn stopped(&self) -> Reading<'_, Vec<(Subject, Breaker)>> {
        let world = self.shared.world();
        let everywhere =
            world.rows.everywhere().breaker.iter().map(|breaker| (Subject::Everywhere, breaker.clone()));
        let named = world
            .rows
            .namespaces()
            .filter_map(|row| Some((Subject::Namespace(row.namespace.clone()), row.breaker.clone()?)));
        at_once(Ok(everywhere.chain(named).collect()))
    }

    fn durability(&self) -> Reading<'_, String> {
        at_once(Ok(super::DURABILITY.to_owned()))
    }

    fn ledger_seq(&self) -> Reading<'_, LedgerSeq> {
        at_once(Ok(self.shared.world().ledger_seq))
    }
}

/// All records, decided or not.
fn records(rows: &Snapshot) -> impl Iterator<Item = &OperationRecord> {
    rows.operations().chain(rows.intents().map(|intent| &intent.record))
}

fn lets_through(filter: &ResourceFilter, row: &ResourceRow) -> bool {
    filter.namespace.as_ref().is_none_or(|name| row.resource.namespace() == *name)
        && filter.prefix.as_ref().is_none_or(|prefix| row.resource.as_str().starts_with(prefix))
        && filter.life.is_none_or(|life| row.life == life)
        && filter.after.as_ref().is_none_or(|after| row.resource > *after)
}

fn uncertain<'r>(
    rows: &'r Snapshot,
    resource: &ResourceName,
) -> impl Iterator<Item = &'r IntentRow> + use<'r> {
    rows.intents_of(resource).filter(|intent| intent.record.state == OperationState::Uncertain)
}
