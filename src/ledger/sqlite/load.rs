//! The rows that a batch wants.
//!
//! The order matters: a lease leads to its resource, a resource to its namespace, its newest lease and its earlier
//! incarnations, and those to the operation records that a request addresses.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::domain::counter::Incarnation;
use crate::domain::resource::{Address, Bucket, ResourceName};
use crate::protocol::incarnation::{addressed, begun};
use crate::protocol::rows::{EraRow, IntentRow, LeaseRow, ResourceRow, TargetRow};
use crate::protocol::wanted::OperationWanted;
use crate::protocol::{Snapshot, Wanted};

use super::super::cells::{ReadCells, WriteCells};
use super::fault::Fault;
use super::rows::{
    self, Place, document_columns, lease_columns, namespace_columns, place_columns, resource_columns,
    target_columns,
};
use super::values::first;

mod intents;
mod operations;
mod retention;
mod whole;

pub(super) use intents::of_resource as intents;
pub(super) use operations::{operation, operation_before};

/// Where the resources of a batch stand.
pub(super) type Places = BTreeMap<ResourceName, Place>;

const LEASE: &str =
    concat!("SELECT ", lease_columns!(), " FROM leases AS l WHERE l.bucket = ?1 AND l.acquisition = ?2");

const LEASE_BY_REQUEST: &str =
    concat!("SELECT ", lease_columns!(), " FROM leases AS l WHERE l.bucket = ?1 AND l.request_key = ?2");

/// One copy will do: all copies change in one transaction, and there is one writer.
const NAMESPACE: &str =
    concat!("SELECT ", namespace_columns!(), " FROM namespaces AS n WHERE n.bucket = 0 AND n.namespace = ?1");

const RESOURCE: &str = concat!(
    "SELECT ",
    resource_columns!(),
    ", ",
    place_columns!(),
    ", ",
    document_columns!(),
    " FROM resources AS r WHERE r.bucket = ?1 AND r.resource = ?2"
);

/// The one ended incarnation in which a position falls.
const ERA: &str = "SELECT i.incarnation, i.born_epoch, i.born_token FROM incarnations AS i \
                   WHERE i.bucket = ?1 AND i.resource = ?2 AND (i.born_epoch, i.born_token) <= (?3, ?4) \
                   ORDER BY i.born_epoch DESC, i.born_token DESC LIMIT 1";

const TARGET: &str = concat!(
    "SELECT ",
    target_columns!(),
    " FROM targets AS t WHERE t.bucket = ?1 AND t.resource_id = ?2 AND t.target = ?3"
);

/// Loads everything that is wanted and exists. A transaction is open.
pub(super) fn snapshot(connection: &Connection, wanted: &Wanted) -> Result<(Snapshot, Places), Fault> {
    let mut loading = Loading { connection, snapshot: Snapshot::default(), places: Places::new() };
    let mut resources: Vec<ResourceName> = loading.named_leases(wanted)?;
    resources.retain(|resource| !wanted.resources.contains(resource));
    for resource in wanted.resources.iter().chain(&resources) {
        loading.resource(resource, wanted)?;
    }
    for namespace in &wanted.namespaces {
        loading.namespace(namespace)?;
    }
    loading.whole(wanted)?;
    for one in &wanted.operations {
        loading.era(one)?;
        loading.operation(one)?;
    }
    loading.retention(wanted)?;
    for address in &wanted.targets {
        loading.target(address)?;
    }
    for key in &wanted.controls {
        loading.control(key)?;
    }
    Ok((loading.snapshot, loading.places))
}

struct Loading<'c> {
    connection: &'c Connection,
    snapshot: Snapshot,
    places: Places,
}

impl Loading<'_> {
    /// The leases that a batch names, and their resources.
    fn named_leases(&mut self, wanted: &Wanted) -> Result<Vec<ResourceName>, Fault> {
        let by_acquisition = wanted.leases.iter().map(|(bucket, key)| (LEASE, *bucket, key));
        let by_request = wanted.requests.iter().map(|(bucket, key)| (LEASE_BY_REQUEST, *bucket, &key.0));
        let mut resources = Vec::new();
        for (text, bucket, key) in by_acquisition.chain(by_request) {
            if let Some(lease) = lease(self.connection, text, bucket, key)? {
                resources.extend(lease.members().map(|(name, _)| name.clone()));
                self.snapshot.insert_lease(lease);
            }
        }
        Ok(resources)
    }

    fn namespace(&mut self, namespace: &crate::domain::resource::Namespace) -> Result<(), Fault> {
        if self.snapshot.namespace(namespace).is_some() {
            return Ok(());
        }
        let found = first(
            self.connection,
            NAMESPACE,
            |values| values.text(namespace.as_str()),
            |columns| rows::namespace(namespace.clone(), columns),
        )?;
        if let Some(row) = found {
            self.snapshot.insert_namespace(row);
        }
        Ok(())
    }

    /// A resource with its namespace, its newest lease and, where it is wanted, its whole-path document.
    fn resource(&mut self, resource: &ResourceName, wanted: &Wanted) -> Result<(), Fault> {
        self.namespace(&resource.namespace())?;
        let Some((mut row, mut place, document)) = found_resource(self.connection, resource)? else {
            return Ok(());
        };
        if let Some(place) = row.lease.filter(|place| self.snapshot.lease(&place.acquisition).is_none())
            && let Some(lease) = lease(self.connection, LEASE, place.bucket, place.acquisition.as_bytes())?
        {
            self.snapshot.insert_lease(lease);
        }
        if let Some(document) = document
            && wanted.targets.contains(&Address { resource: resource.clone(), target: None })
        {
            self.snapshot.insert_target(resource.clone(), document);
        }
        if self.is_forwarded(resource) {
            let undecided = announced(self.connection, &mut row)?;
            place.floor.raised = row.floor;
            for intent in undecided {
                self.snapshot.insert_intent(intent);
            }
        }
        self.snapshot.insert_resource(row);
        self.places.insert(resource.clone(), place);
        Ok(())
    }

    /// Whether a resource lies behind HTTP: only then it may have undecided operations.
    fn is_forwarded(&self, resource: &ResourceName) -> bool {
        let namespace = self.snapshot.namespace(&resource.namespace());
        namespace.is_some_and(|row| row.definition.store.class().is_some())
    }

    fn era(&mut self, one: &OperationWanted) -> Result<(), Fault> {
        let Some(row) = self.snapshot.resource(&one.resource) else { return Ok(()) };
        // Where only an earlier incarnation can be meant, the rule finds none without an era to look in.
        if addressed(row, one.position, one.incarnation, |_| None).is_some() {
            return Ok(());
        }
        let found = first(
            self.connection,
            ERA,
            |values| {
                values.name(&one.resource);
                values.position(one.position);
            },
            |columns| {
                let incarnation = columns.counter(Incarnation::new)?;
                Ok(EraRow { resource: one.resource.clone(), incarnation, born: columns.position()? })
            },
        )?;
        if let Some(row) = found {
            self.snapshot.insert_era(row);
        }
        Ok(())
    }

    fn operation(&mut self, one: &OperationWanted) -> Result<(), Fault> {
        let (Some(row), Some(place)) =
            (self.snapshot.resource(&one.resource), self.places.get(&one.resource))
        else {
            return Ok(());
        };
        let era_at = |position| self.snapshot.era_at(&one.resource, position);
        let named = addressed(row, one.position, one.incarnation, era_at);
        let begun = begun(row, one.incarnation).filter(|_| self.is_forwarded(&one.resource));
        let mut records = Vec::new();
        for incarnation in named.into_iter().chain(begun) {
            let id = &one.operation_id;
            let found = operation(self.connection, &one.resource, place, id, Some(incarnation))?;
            records.extend(found.map(|(_, record)| record));
        }
        for record in records {
            self.snapshot.insert_operation(record);
        }
        Ok(())
    }

    /// A target below a resource; the whole-path document came with its resource.
    fn target(&mut self, address: &Address) -> Result<(), Fault> {
        let (Some(place), Some(target)) = (self.places.get(&address.resource), &address.target) else {
            return Ok(());
        };
        let found = first(
            self.connection,
            TARGET,
            |values| {
                values.bucket(address.resource.bucket());
                values.integer(place.id);
                values.text(target.as_str());
            },
            |columns| rows::target(columns),
        )?;
        if let Some(row) = found {
            self.snapshot.insert_target(address.resource.clone(), row);
        }
        Ok(())
    }
}

/// The undecided operations of a resource behind HTTP. What they alone changed in its row is not written down there but
/// read from them: the floor, which is as high as each of their positions, and the time.
pub(super) fn announced(connection: &Connection, row: &mut ResourceRow) -> Result<Vec<IntentRow>, Fault> {
    let undecided = intents(connection, &row.resource)?;
    for intent in &undecided {
        row.floor = row.floor.or_higher(intent.record.position);
        row.changed_at = row.changed_at.max(intent.record.created_at);
    }
    Ok(undecided)
}

fn lease(
    connection: &Connection,
    text: &str,
    bucket: Bucket,
    key: &[u8; 32],
) -> Result<Option<LeaseRow>, Fault> {
    first(
        connection,
        text,
        |values| {
            values.bucket(bucket);
            values.blob(key);
        },
        |columns| rows::lease(columns),
    )
}

/// A resource, its place, and its whole-path document without the bytes.
pub(super) fn found_resource(
    connection: &Connection,
    resource: &ResourceName,
) -> Result<Option<(ResourceRow, Place, Option<TargetRow>)>, Fault> {
    first(
        connection,
        RESOURCE,
        |values| values.name(resource),
        |columns| {
            let row = rows::resource(resource.clone(), columns)?;
            let place = rows::place(row.floor, columns)?;
            Ok((row, place, rows::document(columns)?))
        },
    )
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    let own = vec![LEASE, LEASE_BY_REQUEST, NAMESPACE, RESOURCE, ERA, TARGET];
    [own, intents::texts(), operations::texts(), retention::texts(), whole::texts()].concat()
}
