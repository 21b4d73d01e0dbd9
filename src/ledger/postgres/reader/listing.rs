//! Resources, one or a page of them, each with its namespace, its newest lease and its targets.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::domain::resource::{MAX_NAME_BYTES, ResourceName};
use crate::limits::TARGETS_SHOWN;
use crate::protocol::rows::{Life, TargetRow};

use super::super::super::cells::ReadCells;
use super::super::super::range::Range;
use super::super::super::read::{ResourceFilter, ResourceRead};
use super::super::super::rows::{self, lease_columns, namespace_columns, resource_columns, target_columns};
use super::super::connect::{Live, Shared};
use super::super::fault::Fault;
use super::super::fields::Fields;
use super::{PostgresReader, bucket_of, clock, joined_namespace};

/// The page is chosen first; what belongs to it is looked up for its rows alone. A resource has one row for each of its
/// targets, or one without.
macro_rules! resources {
    ($condition:literal) => {
        concat!(
            "SELECT ROW(r.resource, ",
            resource_columns!(),
            "), n.row, l.row, t.row, ",
            clock!(),
            ", r.resource FROM (SELECT * FROM resources AS r WHERE ",
            $condition,
            ") AS r LEFT JOIN LATERAL (SELECT ROW(",
            namespace_columns!(),
            ") AS row FROM namespaces AS n WHERE n.bucket = r.bucket \
             AND n.namespace = split_part(r.resource, '/', 1) LIMIT 1) AS n ON true \
             LEFT JOIN LATERAL (SELECT ROW(",
            lease_columns!(),
            ") AS row FROM leases AS l WHERE l.bucket = coalesce(r.lease_bucket, r.bucket) AND l.acquisition = r.lease LIMIT 1) AS l ON true \
             LEFT JOIN LATERAL (SELECT t.target, ROW(",
            target_columns!(),
            ") AS row FROM targets AS t WHERE t.bucket = r.bucket AND t.resource = r.resource \
             ORDER BY t.target LIMIT 100) AS t ON true ORDER BY r.resource, t.target"
        )
    };
}
const RESOURCE: &str = resources!("r.bucket = $1 AND r.resource = $2");

/// `$1` the first name, `$2` the one before which the list ends, `$3` the limit, `$4` the life.
const PAGE: &str =
    resources!("r.resource >= $1 AND r.resource < $2 AND $4::text IS NULL ORDER BY r.resource LIMIT $3");
const PAGE_ACTIVE: &str = resources!(
    "r.resource >= $1 AND r.resource < $2 AND r.life = 'active' AND r.life = $4 ORDER BY r.resource LIMIT $3"
);
/// Through the index of those few.
const PAGE_NOT_ACTIVE: &str = resources!(
    "r.resource >= $1 AND r.resource < $2 AND r.life <> 'active' AND r.life = $4 ORDER BY r.resource LIMIT $3"
);

// The text says it as a literal.
const _: () = assert!(TARGETS_SHOWN == 100);

pub(super) async fn resource(
    live: &mut Live,
    shared: &Shared,
    resource: &ResourceName,
) -> Result<Option<ResourceRead>, Fault> {
    let rows = sqlx::query(RESOURCE)
        .bind(bucket_of(resource))
        .bind(resource.as_str())
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    Ok(collect(shared, &rows)?.pop())
}

/// Several resources by name, without their targets. `$1` the buckets, `$2` the names.
const NAMED: &str = concat!(
    "SELECT ROW(r.resource, ",
    resource_columns!(),
    "), n.row, l.row, NULL, ",
    clock!(),
    ", r.resource FROM unnest($1::smallint[], $2::text[]) AS k (bucket, name) CROSS JOIN LATERAL (\
     SELECT * FROM resources AS r WHERE r.bucket = k.bucket AND r.resource = k.name COLLATE \"C\" LIMIT 1) AS r \
     LEFT JOIN LATERAL (SELECT ROW(",
    namespace_columns!(),
    ") AS row FROM namespaces AS n WHERE n.bucket = r.bucket \
     AND n.namespace = split_part(r.resource, '/', 1) LIMIT 1) AS n ON true \
     LEFT JOIN LATERAL (SELECT ROW(",
    lease_columns!(),
    ") AS row FROM leases AS l WHERE l.bucket = coalesce(r.lease_bucket, r.bucket) \
     AND l.acquisition = r.lease LIMIT 1) AS l ON true"
);

pub(super) async fn named(
    live: &mut Live,
    shared: &Shared,
    names: &[ResourceName],
) -> Result<Vec<ResourceRead>, Fault> {
    let buckets: Vec<i16> = names.iter().map(bucket_of).collect();
    let texts: Vec<&str> = names.iter().map(ResourceName::as_str).collect();
    let rows = sqlx::query(NAMED)
        .bind(buckets)
        .bind(texts)
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| whole(shared, row)).collect()
}

pub(super) async fn resources(
    live: &mut Live,
    shared: &Shared,
    filter: &ResourceFilter,
) -> Result<Vec<ResourceRead>, Fault> {
    let text = match filter.life {
        None => PAGE,
        Some(Life::Active) => PAGE_ACTIVE,
        Some(Life::Deleted | Life::Cancelled) => PAGE_NOT_ACTIVE,
    };
    let range = Range::of(filter);
    let rows = sqlx::query(text)
        .bind(range.from)
        .bind(range.before.unwrap_or_else(above_every_name))
        .bind(i64::from(filter.limit))
        .bind(filter.life.map(Life::word))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    collect(shared, &rows)
}

/// The rows stand in order of resource and target.
fn collect(shared: &Shared, rows: &[PgRow]) -> Result<Vec<ResourceRead>, Fault> {
    let mut found: Vec<ResourceRead> = Vec::new();
    for row in rows {
        let name: &str = row.try_get(5)?;
        let target = target(row)?;
        if let Some(last) = found.last_mut().filter(|last| last.resource.resource.as_str() == name) {
            last.targets.extend(target);
        } else {
            let mut read = whole(shared, row)?;
            read.targets.extend(target);
            found.push(read);
        }
    }
    Ok(found)
}

fn target(row: &PgRow) -> Result<Option<TargetRow>, Fault> {
    Fields::of(row, 3)?.map(|mut fields| rows::target(&mut fields)).transpose()
}

/// A resource without its targets.
fn whole(shared: &Shared, row: &PgRow) -> Result<ResourceRead, Fault> {
    let mut fields = Fields::required(row, 0)?;
    let name = fields.parsed(ResourceName::parse)?;
    let resource = rows::resource(name.clone(), &mut fields)?;
    let namespace = joined_namespace(name.namespace(), row, 1)?
        .ok_or_else(|| Fault::unreadable(format!("the namespace of {name:?} has no row")))?;
    let lease = match (resource.lease, Fields::of(row, 2)?) {
        (None, _) => None,
        (Some(_), Some(mut fields)) => Some(rows::lease(&mut fields)?),
        (Some(_), None) => {
            return Err(Fault::unreadable(format!("the newest lease of {name:?} has no row")));
        }
    };
    let now = PostgresReader::now(shared, row, 4)?;
    Ok(ResourceRead { resource, targets: Vec::new(), lease, namespace, now })
}

/// Longer than a name can be, and of the greatest character.
pub(super) fn above_every_name() -> String {
    char::MAX.to_string().repeat(MAX_NAME_BYTES)
}

#[cfg(test)]
pub(super) fn texts() -> [&'static str; 5] {
    [RESOURCE, NAMED, PAGE, PAGE_ACTIVE, PAGE_NOT_ACTIVE]
}
