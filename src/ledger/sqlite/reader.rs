//! Reads beside the writer: each runs in one transaction, so it sees one state.

use std::path::Path;
use std::sync::Arc;

use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Row, Sqlite, SqlitePool, Transaction};

use crate::domain::counter::{Incarnation, LedgerSeq};
use crate::domain::lease::AcquisitionHash;
use crate::domain::operation::OperationId;
use crate::domain::resource::{Address, Bucket, ResourceName};
use crate::domain::time::Timestamp;
use crate::limits::{SQLITE_READERS, TARGETS_SHOWN};
use crate::protocol::rows::{LeaseRow, NamespaceRow, OperationRecord, ResourceRow};

use super::super::read::{
    DocumentRead, LeaseRead, OperationFilter, ReadFailed, Reader, Reading, ResourceFilter, ResourceRead,
};
use super::super::time::SharedTime;
use super::open::{self, OpenError};
use super::row::{self, BadRow};

const NAMESPACE: &str = "SELECT * FROM namespaces WHERE bucket = ?1 AND namespace = ?2";
const RESOURCE: &str = "SELECT * FROM resources WHERE bucket = ?1 AND resource = ?2";
const TARGET: &str = "SELECT resource, target, incarnation, commit_no, content_type, size, digest FROM targets \
     WHERE bucket = ?1 AND resource = ?2 AND target = ?3";
const TARGET_WITH_BODY: &str = "SELECT * FROM targets WHERE bucket = ?1 AND resource = ?2 AND target = ?3";
const TARGETS: &str = "SELECT resource, target, incarnation, commit_no, content_type, size, digest FROM targets \
     WHERE bucket = ?1 AND resource = ?2 ORDER BY target LIMIT ?3";
/// `prefix` is compared byte for byte; the range lets the index find its beginning.
const RESOURCES: &str = "SELECT * FROM resources WHERE resource > ?1 AND resource >= ?2 \
     AND substr(resource, 1, length(?2)) = ?2 AND (?3 IS NULL OR substr(resource, 1, length(?3)) = ?3) \
     AND (?4 IS NULL OR life = ?4) ORDER BY resource LIMIT ?5";
const OPERATION: &str = "SELECT * FROM operations WHERE bucket = ?1 AND resource = ?2 AND operation_id = ?3 \
     AND (?4 IS NULL OR incarnation = ?4) ORDER BY incarnation DESC LIMIT 1";
const OPERATIONS: &str = "SELECT * FROM operations WHERE bucket = ?1 AND resource = ?2 \
     AND (?3 IS NULL OR state = ?3) \
     AND (?4 IS NULL OR (created_ms, incarnation, operation_id) < (?4, ?5, ?6)) \
     ORDER BY created_ms DESC, incarnation DESC, operation_id DESC LIMIT ?7";
const LEASE: &str = "SELECT * FROM leases WHERE bucket = ?1 AND acquisition = ?2";

/// Reads the committed state.
pub struct SqliteReader {
    pool: SqlitePool,
    time: Arc<SharedTime>,
}

impl From<sqlx::Error> for ReadFailed {
    fn from(error: sqlx::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<BadRow> for ReadFailed {
    fn from(error: BadRow) -> Self {
        Self(error.to_string())
    }
}

type View = Transaction<'static, Sqlite>;

impl SqliteReader {
    pub(super) async fn open(path: &Path, time: Arc<SharedTime>) -> Result<Self, OpenError> {
        let pool = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS)
            .connect_with(open::options(path).read_only(true))
            .await?;
        Ok(Self { pool, time })
    }

    /// One transaction, and the time of its view. It changes nothing, so it is simply dropped at the end.
    async fn view(&self) -> Result<(View, Timestamp), ReadFailed> {
        let view = self.pool.begin().await?;
        Ok((view, self.time.now()))
    }
}

async fn namespace(view: &mut View, resource: &ResourceName) -> Result<Option<NamespaceRow>, ReadFailed> {
    let name = resource.namespace();
    let query = sqlx::query(NAMESPACE).bind(i64::from(resource.bucket().0)).bind(name.as_str());
    Ok(query.fetch_optional(&mut **view).await?.map(|found| row::namespace(&found)).transpose()?)
}

async fn resource(view: &mut View, name: &ResourceName) -> Result<Option<ResourceRow>, ReadFailed> {
    let query = sqlx::query(RESOURCE).bind(i64::from(name.bucket().0)).bind(name.as_str());
    Ok(query.fetch_optional(&mut **view).await?.map(|found| row::resource(&found)).transpose()?)
}

async fn lease(
    view: &mut View,
    bucket: Bucket,
    acquisition: AcquisitionHash,
) -> Result<Option<LeaseRow>, ReadFailed> {
    let query = sqlx::query(LEASE).bind(i64::from(bucket.0)).bind(acquisition.as_bytes().to_vec());
    Ok(query.fetch_optional(&mut **view).await?.map(|found| row::lease(&found)).transpose()?)
}

async fn whole(view: &mut View, resource: ResourceRow, now: Timestamp) -> Result<ResourceRead, ReadFailed> {
    let name = &resource.resource;
    let targets = sqlx::query(TARGETS)
        .bind(i64::from(name.bucket().0))
        .bind(name.as_str())
        .bind(i64::from(TARGETS_SHOWN))
        .fetch_all(&mut **view)
        .await?;
    let targets = targets.iter().map(row::target).collect::<Result<_, _>>()?;
    let lease = match resource.lease {
        Some(acquisition) => lease(view, name.bucket(), acquisition).await?,
        None => None,
    };
    let Some(namespace) = namespace(view, name).await? else {
        return Err(ReadFailed(format!("the namespace of {name:?} has no row")));
    };
    Ok(ResourceRead { resource, targets, lease, namespace, now })
}

impl Reader for SqliteReader {
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead> {
        Box::pin(async move {
            let (mut view, _) = self.view().await?;
            let target = address.target.as_ref().map_or("", |target| target.as_str());
            let found = sqlx::query(if with_body { TARGET_WITH_BODY } else { TARGET })
                .bind(i64::from(address.resource.bucket().0))
                .bind(address.resource.as_str())
                .bind(target)
                .fetch_optional(&mut *view)
                .await?;
            Ok(DocumentRead {
                namespace: namespace(&mut view, &address.resource).await?,
                resource: resource(&mut view, &address.resource).await?,
                target: found.as_ref().map(row::target).transpose()?,
                body: if with_body { found.as_ref().map(row::body).transpose()? } else { None },
            })
        })
    }

    fn resource(&self, name: ResourceName) -> Reading<'_, Option<ResourceRead>> {
        Box::pin(async move {
            let (mut view, now) = self.view().await?;
            match resource(&mut view, &name).await? {
                None => Ok(None),
                Some(row) => whole(&mut view, row, now).await.map(Some),
            }
        })
    }

    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>> {
        Box::pin(async move {
            let (mut view, now) = self.view().await?;
            let rows = sqlx::query(RESOURCES)
                .bind(filter.after.as_ref().map_or("", |name| name.as_str()))
                .bind(filter.prefix.unwrap_or_default())
                .bind(filter.namespace.map(|name| format!("{name}/")))
                .bind(filter.life.map(crate::protocol::rows::Life::word))
                .bind(i64::from(filter.limit))
                .fetch_all(&mut *view)
                .await?;
            let mut found = Vec::with_capacity(rows.len());
            for one in &rows {
                found.push(whole(&mut view, row::resource(one)?, now).await?);
            }
            Ok(found)
        })
    }

    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>> {
        Box::pin(async move {
            let (mut view, _) = self.view().await?;
            let found = sqlx::query(OPERATION)
                .bind(i64::from(resource.bucket().0))
                .bind(resource.as_str())
                .bind(operation_id.as_str())
                .bind(incarnation.and_then(|one| i64::try_from(one.get()).ok()))
                .fetch_optional(&mut *view)
                .await?;
            Ok(found.map(|found| row::operation(&found)).transpose()?)
        })
    }

    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>> {
        Box::pin(async move {
            let (mut view, _) = self.view().await?;
            let after = filter.after.as_ref();
            let rows = sqlx::query(OPERATIONS)
                .bind(i64::from(filter.resource.bucket().0))
                .bind(filter.resource.as_str())
                .bind(filter.state.map(crate::domain::operation::OperationState::word))
                .bind(after.map(|place| place.created_at.ms()))
                .bind(after.and_then(|place| i64::try_from(place.incarnation.get()).ok()))
                .bind(after.map(|place| place.operation_id.as_str()))
                .bind(i64::from(filter.limit))
                .fetch_all(&mut *view)
                .await?;
            Ok(rows.iter().map(row::operation).collect::<Result<_, _>>()?)
        })
    }

    fn lease(&self, bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>> {
        Box::pin(async move {
            let (mut view, now) = self.view().await?;
            let Some(lease) = lease(&mut view, bucket, acquisition).await? else { return Ok(None) };
            let name = lease.resource.clone();
            match (resource(&mut view, &name).await?, namespace(&mut view, &name).await?) {
                (Some(resource), Some(namespace)) => Ok(Some(LeaseRead { lease, resource, namespace, now })),
                (None, _) | (_, None) => {
                    Err(ReadFailed(format!("a lease of {name:?} has no resource or namespace row")))
                }
            }
        })
    }

    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>> {
        Box::pin(async move {
            let (mut view, _) = self.view().await?;
            let all = "SELECT * FROM namespaces WHERE bucket = 0 ORDER BY namespace";
            let rows = sqlx::query(all).fetch_all(&mut *view).await?;
            Ok(rows.iter().map(row::namespace).collect::<Result<_, _>>()?)
        })
    }

    fn ledger_seq(&self) -> Reading<'_, LedgerSeq> {
        Box::pin(async move {
            let (mut view, _) = self.view().await?;
            let found = sqlx::query("SELECT ledger_seq FROM ledger").fetch_one(&mut *view).await?;
            let value: i64 = found.try_get("ledger_seq")?;
            u64::try_from(value)
                .ok()
                .and_then(LedgerSeq::new)
                .ok_or_else(|| ReadFailed("ledger_seq is out of range".to_owned()))
        })
    }
}
