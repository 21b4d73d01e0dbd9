//! Leases: one of them, those that are over, those that wait, and the time that tells.

use sqlx::postgres::PgRow;

use crate::domain::lease::AcquisitionHash;
use crate::domain::resource::Bucket;
use crate::domain::time::Timestamp;
use crate::protocol::rows::{LeaseRef, LeaseRow};

use super::super::super::cells::ReadCells;
use super::super::super::read::{LeaseRead, PendingPlace};
use super::super::super::rows::{self, lease_columns, namespace_columns, resource_columns};
use super::super::connect::{Live, Shared};
use super::super::fault::Fault;
use super::super::fields::Fields;
use super::{PostgresReader, clock, joined_namespace, joined_resource};

const LEASE: &str = concat!(
    "SELECT ROW(",
    lease_columns!(),
    "), r.row, n.row, ",
    clock!(),
    " FROM leases AS l \
      LEFT JOIN LATERAL (SELECT ROW(",
    resource_columns!(),
    ") AS row FROM resources AS r WHERE r.bucket = l.bucket AND r.resource = l.resource LIMIT 1) AS r ON true \
      LEFT JOIN LATERAL (SELECT ROW(",
    namespace_columns!(),
    ") AS row FROM namespaces AS n WHERE n.bucket = l.bucket \
      AND n.namespace = split_part(l.resource, '/', 1) LIMIT 1) AS n ON true \
      WHERE l.bucket = $1 AND l.acquisition = $2"
);

/// Through the indexes of those that are held and of those that wait for a barrier, which the time of a database that
/// stands still cannot stretch.
const EXPIRED: &str = "SELECT ROW(l.bucket::bigint, l.acquisition) FROM (\
     (SELECT * FROM leases AS l WHERE l.state = 'held' AND l.expires_ms <= $1 ORDER BY l.expires_ms LIMIT $2) \
     UNION ALL \
     (SELECT * FROM leases AS l WHERE l.state = 'pending_barrier' AND l.expires_ms <= $1 \
      ORDER BY l.expires_ms LIMIT $2)) AS l ORDER BY l.expires_ms LIMIT $2";

/// Through the index of those few.
const PENDING: &str = concat!(
    "SELECT ROW(",
    lease_columns!(),
    ") FROM leases AS l WHERE l.state = 'pending_barrier' AND l.expires_ms > $1 \
     AND (l.granted_ms, l.acquisition) > ($2, $3) ORDER BY l.granted_ms, l.acquisition LIMIT $4"
);

/// Walks through one bucket. The newest lease of a resource is never forgotten.
const ENDED: &str = "SELECT ROW(l.acquisition) FROM leases AS l WHERE l.bucket = $1 AND l.ended_ms < $2 \
                     AND NOT EXISTS (SELECT 1 FROM resources AS r WHERE r.bucket = l.bucket \
                     AND r.resource = l.resource AND r.lease = l.acquisition) LIMIT $3";

/// The time alone.
const CLOCK: &str = concat!("SELECT ", clock!());

pub(super) async fn lease(
    live: &mut Live,
    shared: &Shared,
    bucket: Bucket,
    acquisition: &AcquisitionHash,
) -> Result<Option<LeaseRead>, Fault> {
    let row = sqlx::query(LEASE)
        .bind(i16::from(bucket.0))
        .bind(acquisition.as_bytes().as_slice())
        .persistent(!live.is_pooled)
        .fetch_optional(&mut live.connection)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let lease = rows::lease(&mut Fields::required(&row, 0)?)?;
    let resource = match joined_resource(&lease.resource, &row, 1)? {
        Some(resource) => resource,
        None if lease.state.is_live() => {
            let problem = format!("a lease of {:?} has no resource row", lease.resource);
            return Err(Fault::unreadable(problem));
        }
        // It was folded, which is only done when nobody has to know its leases any more.
        None => return Ok(None),
    };
    let namespace = joined_namespace(lease.resource.namespace(), &row, 2)?
        .ok_or_else(|| Fault::unreadable(format!("the namespace of {:?} has no row", lease.resource)))?;
    Ok(Some(LeaseRead { lease, resource, namespace, now: PostgresReader::now(shared, &row, 3)? }))
}

pub(super) async fn time(live: &mut Live, shared: &Shared) -> Result<Timestamp, Fault> {
    let row = sqlx::query(CLOCK).persistent(!live.is_pooled).fetch_one(&mut live.connection).await?;
    PostgresReader::now(shared, &row, 0)
}

pub(super) async fn ended(
    live: &mut Live,
    bucket: Bucket,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<LeaseRef>, Fault> {
    let rows = sqlx::query(ENDED)
        .bind(i16::from(bucket.0))
        .bind(before.ms())
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let read = |row: &PgRow| {
        let acquisition = AcquisitionHash::from_bytes(Fields::required(row, 0)?.bytes()?);
        Ok(LeaseRef { bucket, acquisition })
    };
    rows.iter().map(read).collect()
}

pub(super) async fn expired(live: &mut Live, now: Timestamp, limit: u32) -> Result<Vec<LeaseRef>, Fault> {
    let rows = sqlx::query(EXPIRED)
        .bind(now.ms())
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let read = |row: &PgRow| {
        let mut fields = Fields::required(row, 0)?;
        let bucket = Bucket(fields.whole()?);
        Ok(LeaseRef { bucket, acquisition: AcquisitionHash::from_bytes(fields.bytes()?) })
    };
    rows.iter().map(read).collect()
}

/// Those that wait for a barrier and have not expired, the oldest first.
pub(super) async fn pending(
    live: &mut Live,
    now: Timestamp,
    after: Option<PendingPlace>,
    limit: u32,
) -> Result<Vec<LeaseRow>, Fault> {
    let rows = sqlx::query(PENDING)
        .bind(now.ms())
        .bind(after.map_or(i64::MIN, |(since, _)| since.ms()))
        .bind(after.as_ref().map_or(&[][..], |(_, lease)| lease.as_bytes().as_slice()))
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| rows::lease(&mut Fields::required(row, 0)?)).collect()
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![LEASE, EXPIRED, PENDING, ENDED]
}
