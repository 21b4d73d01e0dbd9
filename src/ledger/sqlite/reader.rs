//! Reads of the committed state, beside the writer. Each runs in one read transaction, so that what it tells stood in
//! the database at one moment.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Incarnation, LedgerSeq};
use crate::domain::lease::AcquisitionHash;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::quota::Usage;
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Payload;
use crate::protocol::rows::{
    EverywhereRow, IntentRow, LeaseRef, LeaseRow, NamespaceRow, OperationRecord, ResourceRow,
};
use crate::protocol::snapshot::{ControlKey, OperationKey};

use super::super::cells::{ReadCells, WriteCells};
use super::super::events::{EventPlace, EventsEnd, EventsRead};
use super::super::read::{
    AuditEntry, AuditFilter, AuditPlace, DocumentRead, DuePlace, LeaseRead, NotedRefusal, OldOperations,
    OldPlace, OperationFilter, PendingPlace, Reader, Reading, ResourceFilter, ResourceRead,
};
use super::super::time::SharedTime;
use super::columns::Columns;
use super::fault::Fault;
use super::load;
use super::readers::Readers;
use super::rows::{
    self, NAMESPACE_WIDTH, RESOURCE_WIDTH, document_columns, namespace_columns, resource_columns,
    target_columns,
};
use super::values::{each, first};

mod events;
mod intents;
mod leases;
mod listing;
mod old;
mod operations;
mod stopped;
mod timeline;
mod usage;

/// Reads through connections of its own.
pub struct SqliteReader {
    readers: Readers,
    time: Arc<SharedTime>,
    durability: String,
}

macro_rules! document {
    ($target:expr, $body:literal, $join:literal) => {
        concat!(
            "SELECT ",
            namespace_columns!(),
            ", ",
            resource_columns!(),
            ", ",
            $target,
            ", ",
            $body,
            " FROM (VALUES (?1, ?2, ?3)) AS k \
             LEFT JOIN namespaces AS n ON n.bucket = k.column1 AND n.namespace = k.column2 \
             LEFT JOIN resources AS r ON r.bucket = k.column1 AND r.resource = k.column3 ",
            $join
        )
    };
}
/// The document of the whole path, whose bytes stand in one of two places.
const DOCUMENT: &str = document!(
    document_columns!(),
    "coalesce(r.doc_body, b.body)",
    "LEFT JOIN bodies AS b ON r.doc_body IS NULL AND b.bucket = r.bucket AND b.resource_id = r.id"
);
const DOCUMENT_HEAD: &str = document!(document_columns!(), "NULL", "");
const TARGET: &str = document!(
    target_columns!(),
    "t.body",
    "LEFT JOIN targets AS t ON t.bucket = r.bucket AND t.resource_id = r.id AND t.target = ?4"
);
const TARGET_HEAD: &str = document!(
    target_columns!(),
    "NULL",
    "LEFT JOIN targets AS t ON t.bucket = r.bucket AND t.resource_id = r.id AND t.target = ?4"
);

const NAMESPACES: &str = concat!(
    "SELECT n.namespace, ",
    namespace_columns!(),
    " FROM namespaces AS n WHERE n.bucket = 0 ORDER BY n.namespace"
);

const LEDGER_SEQ: &str = "SELECT ledger_seq FROM ledger WHERE one = 1";

impl SqliteReader {
    pub(super) const fn new(readers: Readers, time: Arc<SharedTime>, durability: String) -> Self {
        Self { readers, time, durability }
    }

    /// A read in a task's words.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Reading<'_, T> {
        Box::pin(async move { Ok(self.readers.read(work).await?) })
    }
}

impl Reader for SqliteReader {
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead> {
        self.ask(move |connection| document(connection, address, with_body))
    }

    fn resource(&self, resource: ResourceName) -> Reading<'_, Option<ResourceRead>> {
        let time = self.time.clone();
        self.ask(move |connection| listing::resource(connection, &resource, &time))
    }

    fn watched(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<ResourceRead>> {
        let time = self.time.clone();
        self.ask(move |connection| listing::named(connection, &resources, &time))
    }

    fn expired(&self, now: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        self.ask(move |connection| leases::expired(connection, now, limit))
    }

    fn ended(&self, bucket: Bucket, before: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        self.ask(move |connection| leases::ended(connection, bucket, before, limit))
    }

    fn old_operations(&self, from: OldPlace, before: Timestamp, limit: u32) -> Reading<'_, OldOperations> {
        self.ask(move |connection| old::operations(connection, from, before, limit))
    }

    fn old_controls(&self, before: Timestamp, limit: u32) -> Reading<'_, Vec<ControlKey>> {
        self.ask(move |connection| old::controls(connection, before, limit))
    }

    fn has_old_audit(&self, before: Timestamp) -> Reading<'_, bool> {
        self.ask(move |connection| old::has_audit(connection, before))
    }

    fn time(&self) -> Reading<'_, Timestamp> {
        Box::pin(std::future::ready(Ok(self.time.now())))
    }

    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>> {
        let time = self.time.clone();
        self.ask(move |connection| listing::resources(connection, &filter, &time))
    }

    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>> {
        self.ask(move |connection| operations::one(connection, &resource, &operation_id, incarnation))
    }

    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>> {
        self.ask(move |connection| operations::page(connection, &filter))
    }

    fn audit(&self, resource: ResourceName, before: AuditPlace, limit: u32) -> Reading<'_, Vec<AuditEntry>> {
        self.ask(move |connection| timeline::audit(connection, &resource, &before, limit))
    }

    fn audit_lines(&self, filter: AuditFilter) -> Reading<'_, Vec<AuditEntry>> {
        self.ask(move |connection| timeline::audit_lines(connection, &filter))
    }

    fn events(&self, from: EventPlace, limit: u32) -> Reading<'_, EventsRead> {
        let time = self.time.clone();
        self.ask(move |connection| events::behind(connection, &from, limit, &time))
    }

    fn events_end(&self) -> Reading<'_, EventsEnd> {
        let time = self.time.clone();
        self.ask(move |connection| events::end(connection, &time))
    }

    fn refusals(&self, resource: ResourceName) -> Reading<'_, Vec<NotedRefusal>> {
        self.ask(move |connection| timeline::refusals(connection, &resource))
    }

    fn troubled(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceName>> {
        self.ask(move |connection| timeline::troubled(connection, &filter))
    }

    fn uncertain(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<(ResourceName, OperationId)>> {
        self.ask(move |connection| timeline::uncertain(connection, resources))
    }

    fn intents(&self, resource: ResourceName) -> Reading<'_, Vec<IntentRow>> {
        self.ask(move |connection| intents::of_resource(connection, &resource))
    }

    fn due(&self, now: Timestamp, after: Option<DuePlace>, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        self.ask(move |connection| intents::due(connection, now, after.as_ref(), limit))
    }

    fn undecided(&self, state: OperationState, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        self.ask(move |connection| intents::undecided(connection, state, limit))
    }

    fn payload(&self, key: OperationKey) -> Reading<'_, Option<Payload>> {
        self.ask(move |connection| intents::payload(connection, &key))
    }

    fn pending(&self, now: Timestamp, after: Option<PendingPlace>, limit: u32) -> Reading<'_, Vec<LeaseRow>> {
        self.ask(move |connection| leases::pending(connection, now, after.as_ref(), limit))
    }

    fn lease(&self, bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>> {
        let time = self.time.clone();
        self.ask(move |connection| leases::lease(connection, bucket, &acquisition, &time))
    }

    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>> {
        self.ask(namespaces)
    }

    fn ledger_seq(&self) -> Reading<'_, LedgerSeq> {
        self.ask(|connection| {
            let found = first(connection, LEDGER_SEQ, |_| {}, |columns| columns.counter(LedgerSeq::new))?;
            found.ok_or_else(|| Fault::unreadable("the ledger has no row"))
        })
    }

    fn everywhere(&self) -> Reading<'_, EverywhereRow> {
        self.ask(stopped::everywhere)
    }

    fn usage(&self, part: u8) -> Reading<'_, Vec<(Namespace, Usage)>> {
        self.ask(move |connection| usage::usage(connection, part))
    }

    fn stopped(&self) -> Reading<'_, Vec<(Subject, Breaker)>> {
        self.ask(stopped::stopped)
    }

    fn durability(&self) -> Reading<'_, String> {
        let durability = self.durability.clone();
        Box::pin(std::future::ready(Ok(durability)))
    }
}

pub(super) use operations::one as operation;
pub(super) use stopped::everywhere;

/// Those that were ever used, in order.
pub(super) fn namespaces(connection: &Connection) -> Result<Vec<NamespaceRow>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        NAMESPACES,
        |_| {},
        |columns| {
            let name = columns.parsed(Namespace::parse)?;
            found.push(rows::namespace(name, columns)?);
            Ok(())
        },
    )?;
    Ok(found)
}

fn document(connection: &Connection, address: Address, with_body: bool) -> Result<DocumentRead, Fault> {
    let Address { resource, target } = address;
    let namespace = resource.namespace();
    let text = match (&target, with_body) {
        (None, true) => DOCUMENT,
        (None, false) => DOCUMENT_HEAD,
        (Some(_), true) => TARGET,
        (Some(_), false) => TARGET_HEAD,
    };
    let found = first(
        connection,
        text,
        |values| {
            values.bucket(resource.bucket());
            values.text(namespace.as_str());
            values.text(resource.as_str());
            if let Some(target) = &target {
                values.text(target.as_str());
            }
        },
        |columns| {
            let namespace = joined_namespace(namespace.clone(), columns)?;
            let row = joined_resource(resource.clone(), columns)?;
            let target = match (&target, columns.is_null()?) {
                (None, _) => rows::document(columns)?,
                (Some(_), false) => Some(rows::target(columns)?),
                (Some(_), true) => {
                    columns.skip(rows::TARGET_WIDTH);
                    None
                }
            };
            let body = columns.maybe_blob()?.map(Bytes::copy_from_slice);
            Ok(DocumentRead { namespace, resource: row, target, body })
        },
    )?;
    let mut found = found.unwrap_or_default();
    if let (Some(namespace), Some(row)) = (&found.namespace, &mut found.resource) {
        heed_announced(connection, row, namespace)?;
    }
    Ok(found)
}

/// Brings into a row what stands in the announcements of its undecided operations alone, which only a resource behind HTTP
/// has.
fn heed_announced(
    connection: &Connection,
    row: &mut ResourceRow,
    namespace: &NamespaceRow,
) -> Result<(), Fault> {
    if namespace.definition.store.class().is_some() {
        load::announced(connection, row)?;
    }
    Ok(())
}

/// A namespace behind an outer join.
fn joined_namespace(name: Namespace, columns: &mut Columns<'_>) -> Result<Option<NamespaceRow>, Fault> {
    if columns.is_null()? {
        columns.skip(NAMESPACE_WIDTH);
        return Ok(None);
    }
    rows::namespace(name, columns).map(Some)
}

/// A resource behind an outer join.
fn joined_resource(name: ResourceName, columns: &mut Columns<'_>) -> Result<Option<ResourceRow>, Fault> {
    if columns.is_null()? {
        columns.skip(RESOURCE_WIDTH);
        return Ok(None);
    }
    rows::resource(name, columns).map(Some)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    let own = vec![DOCUMENT, DOCUMENT_HEAD, TARGET, TARGET_HEAD, NAMESPACES, LEDGER_SEQ];
    [
        own,
        events::texts(),
        intents::texts(),
        leases::texts(),
        listing::texts(),
        old::texts(),
        operations::texts(),
        stopped::texts(),
        timeline::texts(),
        usage::texts(),
    ]
    .concat()
}
