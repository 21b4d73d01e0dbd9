//! Reads of the committed state, beside the writer. Each is one statement or one read transaction, so that what it
//! tells stood in the database at one moment.

use std::sync::Arc;

use bytes::Bytes;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteRow;

use crate::domain::counter::{Incarnation, LedgerSeq};
use crate::domain::lease::AcquisitionHash;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::protocol::rows::{NamespaceRow, OperationRecord, ResourceRow};

use super::super::read::{
    DocumentRead, LeaseRead, OperationFilter, Reader, Reading, ResourceFilter, ResourceRead,
};
use super::super::time::SharedTime;
use super::columns::Columns;
use super::fault::Fault;
use super::rows::{
    self, NAMESPACE_WIDTH, RESOURCE_WIDTH, TARGET_WIDTH, lease_columns, namespace_columns, operation_columns,
    resource_columns, target_columns, target_text,
};

mod listing;

/// Reads through connections of its own.
pub struct SqliteReader {
    pool: SqlitePool,
    time: Arc<SharedTime>,
    durability: String,
}

macro_rules! document {
    ($body:literal) => {
        concat!(
            "SELECT ",
            namespace_columns!(),
            ", ",
            resource_columns!(),
            ", ",
            target_columns!(),
            ", ",
            $body,
            " FROM (VALUES (?1, ?2, ?3, ?4)) AS k \
             LEFT JOIN namespaces AS n ON n.bucket = k.column1 AND n.namespace = k.column2 \
             LEFT JOIN resources AS r ON r.bucket = k.column1 AND r.resource = k.column3 \
             LEFT JOIN targets AS t ON t.bucket = k.column1 AND t.resource = k.column3 AND t.target = k.column4"
        )
    };
}
const DOCUMENT: &str = document!("t.body");
const DOCUMENT_HEAD: &str = document!("NULL");

const OPERATION: &str = concat!(
    "SELECT ",
    operation_columns!(),
    " FROM operations AS o WHERE o.bucket = ?1 AND o.resource = ?2 AND o.incarnation = ?4 AND o.operation_id = ?3"
);

/// A resource has few incarnations beside its operations: each is looked up, the newest first.
const NEWEST_OPERATION: &str = concat!(
    "SELECT ",
    operation_columns!(),
    " FROM (SELECT incarnation FROM resources WHERE bucket = ?1 AND resource = ?2 \
            UNION ALL SELECT incarnation FROM incarnations WHERE bucket = ?1 AND resource = ?2) AS i \
      CROSS JOIN operations AS o ON o.bucket = ?1 AND o.resource = ?2 AND o.incarnation = i.incarnation \
      AND o.operation_id = ?3 ORDER BY o.incarnation DESC LIMIT 1"
);

macro_rules! operations {
    ($state:literal) => {
        concat!(
            "SELECT ",
            operation_columns!(),
            " FROM operations AS o WHERE o.bucket = ?1 AND o.resource = ?2 \
             AND (o.created_ms, o.incarnation, o.operation_id) < (?3, ?4, ?5) ",
            $state,
            " ORDER BY o.created_ms DESC, o.incarnation DESC, o.operation_id DESC LIMIT ?6"
        )
    };
}
const OPERATIONS: &str = operations!("");
const OPERATIONS_APPLIED: &str = operations!("AND o.state = 'applied'");
/// Through the index of those few.
const OPERATIONS_NOT_APPLIED: &str = operations!("AND o.state <> 'applied' AND o.state = ?7");

const LEASE: &str = concat!(
    "SELECT ",
    lease_columns!(),
    ", ",
    resource_columns!(),
    ", ",
    namespace_columns!(),
    " FROM leases AS l \
      LEFT JOIN resources AS r ON r.bucket = l.bucket AND r.resource = l.resource \
      LEFT JOIN namespaces AS n ON n.bucket = l.bucket \
      AND n.namespace = substr(l.resource, 1, instr(l.resource, '/') - 1) \
      WHERE l.bucket = ?1 AND l.acquisition = ?2"
);

const NAMESPACES: &str = concat!(
    "SELECT n.namespace, ",
    namespace_columns!(),
    " FROM namespaces AS n WHERE n.bucket = 0 ORDER BY n.namespace"
);

impl SqliteReader {
    pub(super) const fn new(pool: SqlitePool, time: Arc<SharedTime>, durability: String) -> Self {
        Self { pool, time, durability }
    }

    async fn read_document(&self, address: Address, with_body: bool) -> Result<DocumentRead, Fault> {
        let namespace = address.resource.namespace();
        let row = sqlx::query(if with_body { DOCUMENT } else { DOCUMENT_HEAD })
            .bind(bucket_of(&address.resource))
            .bind(namespace.as_str())
            .bind(address.resource.as_str())
            .bind(target_text(address.target.as_ref()))
            .fetch_one(&self.pool)
            .await?;
        let mut columns = Columns::of(&row);
        let mut read = DocumentRead {
            namespace: joined_namespace(namespace, &mut columns)?,
            resource: joined_resource(address.resource, &mut columns)?,
            ..DocumentRead::default()
        };
        if columns.is_null()? {
            columns.skip(TARGET_WIDTH);
        } else {
            read.target = Some(rows::target(&mut columns)?);
        }
        let body: Option<Vec<u8>> = columns.value()?;
        read.body = body.map(Bytes::from);
        Ok(read)
    }

    async fn read_operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Result<Option<OperationRecord>, Fault> {
        let text = if incarnation.is_some() { OPERATION } else { NEWEST_OPERATION };
        let mut query =
            sqlx::query(text).bind(bucket_of(&resource)).bind(resource.as_str()).bind(operation_id.as_str());
        if let Some(incarnation) = incarnation {
            query = query.bind(signed(incarnation.get())?);
        }
        let row = query.fetch_optional(&self.pool).await?;
        row.map(|row| rows::operation(resource, &mut Columns::of(&row))).transpose()
    }

    async fn read_operations(&self, filter: OperationFilter) -> Result<Vec<OperationRecord>, Fault> {
        let text = match filter.state {
            None => OPERATIONS,
            Some(OperationState::Applied) => OPERATIONS_APPLIED,
            Some(_) => OPERATIONS_NOT_APPLIED,
        };
        let (before_ms, incarnation, operation_id) = match &filter.after {
            Some(place) => {
                (place.created_at.ms(), signed(place.incarnation.get())?, place.operation_id.as_str())
            }
            None => (i64::MAX, i64::MAX, ""),
        };
        let rows = sqlx::query(text)
            .bind(bucket_of(&filter.resource))
            .bind(filter.resource.as_str())
            .bind(before_ms)
            .bind(incarnation)
            .bind(operation_id)
            .bind(i64::from(filter.limit))
            .bind(filter.state.map(OperationState::word))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| rows::operation(filter.resource.clone(), &mut Columns::of(row))).collect()
    }

    async fn read_lease(
        &self,
        bucket: Bucket,
        acquisition: AcquisitionHash,
    ) -> Result<Option<LeaseRead>, Fault> {
        let row = sqlx::query(LEASE)
            .bind(i64::from(bucket.0))
            .bind(acquisition.as_bytes().as_slice())
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let mut columns = Columns::of(&row);
        let lease = rows::lease(&mut columns)?;
        let resource = joined_resource(lease.resource.clone(), &mut columns)?.ok_or_else(|| {
            Fault::unreadable(format!("a lease of {:?} has no resource row", lease.resource))
        })?;
        let namespace = joined_namespace(lease.resource.namespace(), &mut columns)?
            .ok_or_else(|| Fault::unreadable(format!("the namespace of {:?} has no row", lease.resource)))?;
        Ok(Some(LeaseRead { lease, resource, namespace, now: self.time.now() }))
    }

    async fn read_namespaces(&self) -> Result<Vec<NamespaceRow>, Fault> {
        let rows = sqlx::query(NAMESPACES).fetch_all(&self.pool).await?;
        rows.iter().map(named_namespace).collect()
    }

    async fn read_ledger_seq(&self) -> Result<LedgerSeq, Fault> {
        let row = sqlx::query("SELECT ledger_seq FROM ledger WHERE one = 1").fetch_one(&self.pool).await?;
        Columns::of(&row).counter(LedgerSeq::new)
    }
}

impl Reader for SqliteReader {
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead> {
        Box::pin(async move { Ok(self.read_document(address, with_body).await?) })
    }

    fn resource(&self, resource: ResourceName) -> Reading<'_, Option<ResourceRead>> {
        Box::pin(async move { Ok(self.read_resource(resource).await?) })
    }

    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>> {
        Box::pin(async move { Ok(self.read_resources(filter).await?) })
    }

    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>> {
        Box::pin(async move { Ok(self.read_operation(resource, operation_id, incarnation).await?) })
    }

    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>> {
        Box::pin(async move { Ok(self.read_operations(filter).await?) })
    }

    fn lease(&self, bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>> {
        Box::pin(async move { Ok(self.read_lease(bucket, acquisition).await?) })
    }

    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>> {
        Box::pin(async move { Ok(self.read_namespaces().await?) })
    }

    fn durability(&self) -> Reading<'_, String> {
        let durability = self.durability.clone();
        Box::pin(async move { Ok(durability) })
    }

    fn ledger_seq(&self) -> Reading<'_, LedgerSeq> {
        Box::pin(async move { Ok(self.read_ledger_seq().await?) })
    }
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

fn named_namespace(row: &SqliteRow) -> Result<NamespaceRow, Fault> {
    let mut columns = Columns::of(row);
    let name = columns.parsed(Namespace::parse)?;
    rows::namespace(name, &mut columns)
}

fn bucket_of(resource: &ResourceName) -> i64 {
    i64::from(resource.bucket().0)
}

fn signed(value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::unreadable(format!("{value} is above what a column holds")))
}

#[cfg(test)]
pub(super) fn texts() -> Vec<String> {
    [
        DOCUMENT,
        DOCUMENT_HEAD,
        OPERATION,
        NEWEST_OPERATION,
        OPERATIONS,
        OPERATIONS_APPLIED,
        OPERATIONS_NOT_APPLIED,
        LEASE,
        NAMESPACES,
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(listing::texts())
    .collect()
}
