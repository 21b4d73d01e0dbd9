//! Leases: one of them, those that are over, and those that wait.

use rusqlite::Connection;

use crate::domain::lease::AcquisitionHash;
use crate::domain::resource::Bucket;
use crate::domain::time::Timestamp;
use crate::protocol::rows::{LeaseRef, LeaseRow, NamespaceRow, ResourceRow};

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::read::{LeaseRead, PendingPlace};
use super::super::super::time::SharedTime;
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::rows::{self, lease_columns, namespace_columns, resource_columns};
use super::super::values::{Values, each, first};
use super::{heed_announced, joined_namespace, joined_resource};

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

/// Through the indexes of those that are held and of those that wait for a barrier.
const EXPIRED: &str = "SELECT bucket, acquisition FROM (\
     SELECT * FROM (SELECT bucket, acquisition, expires_ms FROM leases WHERE state = 'held' AND expires_ms <= ?1 \
       ORDER BY expires_ms LIMIT ?2) \
     UNION ALL \
     SELECT * FROM (SELECT bucket, acquisition, expires_ms FROM leases WHERE state = 'pending_barrier' \
       AND expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)) \
     ORDER BY expires_ms LIMIT ?2";

/// Through the index of those few.
const PENDING: &str = concat!(
    "SELECT ",
    lease_columns!(),
    " FROM leases AS l WHERE l.state = 'pending_barrier' AND l.expires_ms > ?1 \
     AND (l.granted_ms, l.acquisition) > (?2, ?3) ORDER BY l.granted_ms, l.acquisition LIMIT ?4"
);

/// Walks through one bucket. The newest lease of a resource is never forgotten.
const ENDED: &str = "SELECT l.acquisition FROM leases AS l WHERE l.bucket = ?1 AND l.ended_ms < ?2 \
                     AND NOT EXISTS (SELECT 1 FROM resources AS r WHERE r.bucket = l.bucket \
                     AND r.resource = l.resource AND r.lease = l.acquisition) LIMIT ?3";

pub(super) fn lease(
    connection: &Connection,
    bucket: Bucket,
    acquisition: &AcquisitionHash,
    time: &SharedTime,
) -> Result<Option<LeaseRead>, Fault> {
    let found = first(
        connection,
        LEASE,
        |values| {
            values.bucket(bucket);
            values.blob(acquisition.as_bytes());
        },
        whole,
    )?;
    let Some((lease, mut resource, namespace)) = found.flatten() else { return Ok(None) };
    heed_announced(connection, &mut resource, &namespace)?;
    Ok(Some(LeaseRead { lease, resource, namespace, now: time.now() }))
}

pub(super) fn expired(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<LeaseRef>, Fault> {
    let mut found = Vec::new();
    let fill = |values: &mut Values<'_, '_>| time_and_limit(values, now, limit);
    each(connection, EXPIRED, fill, |columns| {
        let bucket = Bucket(columns.whole()?);
        found.push(LeaseRef { bucket, acquisition: AcquisitionHash::from_bytes(columns.bytes()?) });
        Ok(())
    })?;
    Ok(found)
}

/// Those that wait for a barrier and have not expired, the oldest first.
pub(super) fn pending(
    connection: &Connection,
    now: Timestamp,
    after: Option<&PendingPlace>,
    limit: u32,
) -> Result<Vec<LeaseRow>, Fault> {
    let mut found = Vec::new();
    let fill = |values: &mut Values<'_, '_>| {
        values.time(now);
        values.integer(after.map_or(i64::MIN, |(since, _)| since.ms()));
        values.blob(after.map_or(&[], |(_, lease)| lease.as_bytes().as_slice()));
        values.whole(u64::from(limit));
    };
    each(connection, PENDING, fill, |columns| {
        found.push(rows::lease(columns)?);
        Ok(())
    })?;
    Ok(found)
}

fn time_and_limit(values: &mut Values<'_, '_>, now: Timestamp, limit: u32) {
    values.time(now);
    values.whole(u64::from(limit));
}

pub(super) fn ended(
    connection: &Connection,
    bucket: Bucket,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<LeaseRef>, Fault> {
    let mut found = Vec::new();
    let fill = |values: &mut Values<'_, '_>| {
        values.bucket(bucket);
        values.time(before);
        values.whole(u64::from(limit));
    };
    each(connection, ENDED, fill, |columns| {
        let acquisition = AcquisitionHash::from_bytes(columns.bytes()?);
        found.push(LeaseRef { bucket, acquisition });
        Ok(())
    })?;
    Ok(found)
}

/// None where the resource was folded, which is only done when nobody has to know its leases any more.
fn whole(columns: &mut Columns<'_>) -> Result<Option<(LeaseRow, ResourceRow, NamespaceRow)>, Fault> {
    let lease = rows::lease(columns)?;
    let resource = match joined_resource(lease.resource.clone(), columns)? {
        Some(resource) => resource,
        None if lease.state.is_live() => {
            let problem = format!("a lease of {:?} has no resource row", lease.resource);
            return Err(Fault::unreadable(problem));
        }
        None => return Ok(None),
    };
    let namespace = joined_namespace(lease.resource.namespace(), columns)?
        .ok_or_else(|| Fault::unreadable(format!("the namespace of {:?} has no row", lease.resource)))?;
    Ok(Some((lease, resource, namespace)))
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![LEASE, EXPIRED, PENDING, ENDED]
}
