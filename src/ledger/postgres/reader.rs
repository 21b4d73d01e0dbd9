//! Reads of the committed state, beside the writers. Each is one statement, so that what it tells stood in the database
//! at one moment.

use std::sync::Arc;

use bytes::Bytes;
use sqlx::postgres::PgRow;

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

use super::super::cells::ReadCells;
use super::super::events::{EventPlace, EventsEnd, EventsRead};
use super::super::read::{
    AuditEntry, AuditFilter, AuditPlace, DocumentRead, DuePlace, LeaseRead, NotedRefusal, OldOperations,
    OldPlace, OperationFilter, PendingPlace, ReadFailed, Reader, Reading, ResourceFilter, ResourceRead,
};
use super::super::rows::{self, namespace_columns, resource_columns, target_columns, target_text};
use super::connect::{Live, Shared};
use super::durability;
use super::fault::Fault;
use super::fields::{Fields, bytes_of};
use pool::{Pool, Work};

mod events;
mod intents;
mod leases;
mod listing;
mod old;
mod operations;
mod pool;
mod stopped;
mod timeline;
mod usage;

/// Reads through connections of its own.
pub struct PostgresReader {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
}

/// The time, as a column of its own.
macro_rules! clock {
    () => {
        "ROW(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    };
}

/// `$1` the bucket, `$2` the namespace, `$3` the resource, `$4` the target.
macro_rules! document {
    ($body:literal) => {
        concat!(
            "SELECT n.row, r.row, t.row, t.body FROM (SELECT 1) AS one \
             LEFT JOIN LATERAL (SELECT ROW(",
            namespace_columns!(),
            ") AS row FROM namespaces AS n WHERE n.bucket = $1 AND n.namespace = $2 LIMIT 1) AS n ON true \
             LEFT JOIN LATERAL (SELECT ROW(",
            resource_columns!(),
            ") AS row FROM resources AS r WHERE r.bucket = $1 AND r.resource = $3 LIMIT 1) AS r ON true \
             LEFT JOIN LATERAL (SELECT ROW(",
            target_columns!(),
            ") AS row, ",
            $body,
            " AS body FROM targets AS t \
             WHERE t.bucket = $1 AND t.resource = $3 AND t.target = $4 LIMIT 1) AS t ON true"
        )
    };
}
const DOCUMENT: &str = document!("t.body");
const DOCUMENT_HEAD: &str = document!("NULL::bytea");

const NAMESPACES: &str = concat!(
    "SELECT ROW(n.namespace, ",
    namespace_columns!(),
    ") FROM namespaces AS n WHERE n.bucket = 0 ORDER BY n.namespace"
);

/// How far the log was flushed: it only grows, and nothing has to be counted for it.
const LEDGER_SEQ: &str = "SELECT ROW((pg_current_wal_flush_lsn() - '0/0')::bigint)";

impl PostgresReader {
    pub(super) fn new(shared: Arc<Shared>, connections: u32) -> Self {
        let pool = Arc::new(Pool::new(shared.clone(), connections));
        Self { shared, pool }
    }

    async fn read<T, W>(&self, work: W) -> Result<T, ReadFailed>
    where
        T: Send + 'static,
        W: Work<T>,
    {
        Pool::run(self.pool.clone(), work).await
    }

    fn now(shared: &Shared, row: &PgRow, column: usize) -> Result<Timestamp, Fault> {
        Ok(shared.time.at(Fields::required(row, column)?.integer()?))
    }
}

async fn document(live: &mut Live, address: &Address, with_body: bool) -> Result<DocumentRead, Fault> {
    let namespace = address.resource.namespace();
    let row = sqlx::query(if with_body { DOCUMENT } else { DOCUMENT_HEAD })
        .bind(bucket_of(&address.resource))
        .bind(namespace.as_str())
        .bind(address.resource.as_str())
        .bind(target_text(address.target.as_ref()))
        .persistent(!live.is_pooled)
        .fetch_one(&mut live.connection)
        .await?;
    let target = Fields::of(&row, 2)?.map(|mut fields| rows::target(&mut fields)).transpose()?;
    Ok(DocumentRead {
        namespace: joined_namespace(namespace, &row, 0)?,
        resource: joined_resource(&address.resource, &row, 1)?,
        target,
        body: bytes_of(&row, 3)?.map(Bytes::copy_from_slice),
    })
}

async fn namespaces(live: &mut Live) -> Result<Vec<NamespaceRow>, Fault> {
    let rows = sqlx::query(NAMESPACES).persistent(!live.is_pooled).fetch_all(&mut live.connection).await?;
    rows.iter()
        .map(|row| {
            let mut fields = Fields::required(row, 0)?;
            let name = fields.parsed(Namespace::parse)?;
            rows::namespace(name, &mut fields)
        })
        .collect()
}

async fn ledger_seq(live: &mut Live) -> Result<LedgerSeq, Fault> {
    let row = sqlx::query(LEDGER_SEQ).persistent(!live.is_pooled).fetch_one(&mut live.connection).await?;
    Fields::required(&row, 0)?.counter(LedgerSeq::new)
}

impl Reader for PostgresReader {
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead> {
        let work = Arc::new(address);
        Box::pin(self.read(move |live| {
            let address = work.clone();
            Box::pin(async move { document(live, &address, with_body).await })
        }))
    }

    fn resource(&self, resource: ResourceName) -> Reading<'_, Option<ResourceRead>> {
        let shared = self.shared.clone();
        Box::pin(self.read(move |live| {
            let (shared, resource) = (shared.clone(), resource.clone());
            Box::pin(async move { listing::resource(live, &shared, &resource).await })
        }))
    }

    fn watched(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<ResourceRead>> {
        let (shared, names) = (self.shared.clone(), Arc::new(resources));
        Box::pin(self.read(move |live| {
            let (shared, names) = (shared.clone(), names.clone());
            Box::pin(async move { listing::named(live, &shared, &names).await })
        }))
    }

    fn expired(&self, now: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        Box::pin(self.read(move |live| Box::pin(leases::expired(live, now, limit))))
    }

    fn ended(&self, bucket: Bucket, before: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        Box::pin(self.read(move |live| Box::pin(leases::ended(live, bucket, before, limit))))
    }

    fn old_operations(&self, from: OldPlace, before: Timestamp, limit: u32) -> Reading<'_, OldOperations> {
        Box::pin(self.read(move |live| Box::pin(old::operations(live, from, before, limit))))
    }

    fn old_controls(&self, before: Timestamp, limit: u32) -> Reading<'_, Vec<ControlKey>> {
        Box::pin(self.read(move |live| Box::pin(old::controls(live, before, limit))))
    }

    fn has_old_audit(&self, before: Timestamp) -> Reading<'_, bool> {
        Box::pin(self.read(move |live| Box::pin(old::has_audit(live, before))))
    }

    fn time(&self) -> Reading<'_, Timestamp> {
        let shared = self.shared.clone();
        Box::pin(self.read(move |live| {
            let shared = shared.clone();
            Box::pin(async move { leases::time(live, &shared).await })
        }))
    }

    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>> {
        let shared = self.shared.clone();
        Box::pin(self.read(move |live| {
            let (shared, filter) = (shared.clone(), filter.clone());
            Box::pin(async move { listing::resources(live, &shared, &filter).await })
        }))
    }

    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>> {
        Box::pin(self.read(move |live| {
            let (resource, operation_id) = (resource.clone(), operation_id.clone());
            Box::pin(async move { operations::one(live, &resource, &operation_id, incarnation).await })
        }))
    }

    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>> {
        Box::pin(self.read(move |live| {
            let filter = filter.clone();
            Box::pin(async move { operations::page(live, &filter).await })
        }))
    }

    fn audit(&self, resource: ResourceName, before: AuditPlace, limit: u32) -> Reading<'_, Vec<AuditEntry>> {
        Box::pin(self.read(move |live| {
            let resource = resource.clone();
            Box::pin(async move { timeline::audit(live, &resource, &before, limit).await })
        }))
    }

    fn audit_lines(&self, filter: AuditFilter) -> Reading<'_, Vec<AuditEntry>> {
        Box::pin(self.read(move |live| Box::pin(timeline::audit_lines(live, filter))))
    }

    fn events(&self, from: EventPlace, limit: u32) -> Reading<'_, EventsRead> {
        let shared = self.shared.clone();
        Box::pin(self.read(move |live| {
            let shared = shared.clone();
            Box::pin(async move { events::behind(live, &shared, &from, limit).await })
        }))
    }

    fn events_end(&self) -> Reading<'_, EventsEnd> {
        let shared = self.shared.clone();
        Box::pin(self.read(move |live| {
            let shared = shared.clone();
            Box::pin(async move { events::end(live, &shared).await })
        }))
    }

    fn refusals(&self, resource: ResourceName) -> Reading<'_, Vec<NotedRefusal>> {
        Box::pin(self.read(move |live| {
            let resource = resource.clone();
            Box::pin(async move { timeline::refusals(live, &resource).await })
        }))
    }

    fn troubled(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceName>> {
        Box::pin(self.read(move |live| {
            let filter = filter.clone();
            Box::pin(async move { timeline::troubled(live, &filter).await })
        }))
    }

    fn uncertain(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<(ResourceName, OperationId)>> {
        let names = Arc::new(resources);
        Box::pin(self.read(move |live| {
            let names = names.clone();
            Box::pin(async move { timeline::uncertain(live, &names).await })
        }))
    }

    fn intents(&self, resource: ResourceName) -> Reading<'_, Vec<IntentRow>> {
        Box::pin(self.read(move |live| {
            let resource = resource.clone();
            Box::pin(async move { intents::of_resource(live, &resource).await })
        }))
    }

    fn due(&self, now: Timestamp, after: Option<DuePlace>, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        Box::pin(self.read(move |live| {
            let after = after.clone();
            Box::pin(async move { intents::due(live, now, after.as_ref(), limit).await })
        }))
    }

    fn undecided(&self, state: OperationState, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        Box::pin(self.read(move |live| Box::pin(intents::undecided(live, state, limit))))
    }

    fn payload(&self, key: OperationKey) -> Reading<'_, Option<Payload>> {
        Box::pin(self.read(move |live| {
            let key = key.clone();
            Box::pin(async move { intents::payload(live, &key).await })
        }))
    }

    fn pending(&self, now: Timestamp, after: Option<PendingPlace>, limit: u32) -> Reading<'_, Vec<LeaseRow>> {
        Box::pin(self.read(move |live| Box::pin(leases::pending(live, now, after, limit))))
    }

    fn lease(&self, bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>> {
        let shared = self.shared.clone();
        Box::pin(self.read(move |live| {
            let shared = shared.clone();
            Box::pin(async move { leases::lease(live, &shared, bucket, &acquisition).await })
        }))
    }

    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>> {
        Box::pin(self.read(|live| Box::pin(namespaces(live))))
    }

    fn everywhere(&self) -> Reading<'_, EverywhereRow> {
        Box::pin(self.read(|live| Box::pin(stopped::everywhere(live))))
    }

    fn usage(&self, part: u8) -> Reading<'_, Vec<(Namespace, Usage)>> {
        Box::pin(self.read(move |live| Box::pin(usage::usage(live, part))))
    }

    fn stopped(&self) -> Reading<'_, Vec<(Subject, Breaker)>> {
        Box::pin(self.read(|live| Box::pin(stopped::stopped(live))))
    }

    fn durability(&self) -> Reading<'_, String> {
        Box::pin(self.read(|live| Box::pin(durability::durability(&mut live.connection))))
    }

    fn ledger_seq(&self) -> Reading<'_, LedgerSeq> {
        Box::pin(self.read(|live| Box::pin(ledger_seq(live))))
    }
}

/// A namespace that may be missing.
fn joined_namespace(name: Namespace, row: &PgRow, column: usize) -> Result<Option<NamespaceRow>, Fault> {
    Fields::of(row, column)?.map(|mut fields| rows::namespace(name, &mut fields)).transpose()
}

/// A resource that may be missing.
fn joined_resource(name: &ResourceName, row: &PgRow, column: usize) -> Result<Option<ResourceRow>, Fault> {
    Fields::of(row, column)?.map(|mut fields| rows::resource(name.clone(), &mut fields)).transpose()
}

fn bucket_of(resource: &ResourceName) -> i16 {
    i16::from(resource.bucket().0)
}

fn signed(value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::unreadable(format!("{value} is above what a column holds")))
}

use clock;

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    let texts = [DOCUMENT, DOCUMENT_HEAD, NAMESPACES];
    let further = [
        events::texts(),
        intents::texts(),
        leases::texts(),
        operations::texts(),
        listing::texts().to_vec(),
        old::texts(),
        stopped::texts().to_vec(),
        timeline::texts(),
        usage::texts().to_vec(),
    ]
    .concat();
    texts.into_iter().chain(further).collect()
}
