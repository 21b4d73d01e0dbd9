//! Resources, one or a page of them, each with its namespace, its newest lease and its targets.

use rusqlite::Connection;

use crate::domain::resource::ResourceName;
use crate::limits::TARGETS_SHOWN;
use crate::protocol::rows::Life;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::range::Range;
use super::super::super::read::{ResourceFilter, ResourceRead};
use super::super::super::time::SharedTime;
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::rows::{
    self, LEASE_WIDTH, document_columns, lease_columns, namespace_columns, resource_columns, target_columns,
};
use super::super::values::{each, first};
use super::{heed_announced, joined_namespace};

macro_rules! resources {
    ($condition:literal) => {
        concat!(
            "SELECT r.resource, ",
            resource_columns!(),
            ", ",
            namespace_columns!(),
            ", ",
            lease_columns!(),
            ", r.id, ",
            document_columns!(),
            " FROM resources AS r \
             LEFT JOIN namespaces AS n ON n.bucket = r.bucket \
             AND n.namespace = substr(r.resource, 1, instr(r.resource, '/') - 1) \
             LEFT JOIN leases AS l ON l.bucket = coalesce(r.lease_bucket, r.bucket) AND l.acquisition = r.lease WHERE ",
            $condition
        )
    };
}
const RESOURCE: &str = resources!("r.bucket = ?1 AND r.resource = ?2");
const PAGE: &str = resources!("r.resource >= ?1 AND r.resource < ?2 ORDER BY r.resource LIMIT ?3");
const PAGE_ACTIVE: &str =
    resources!("r.resource >= ?1 AND r.resource < ?2 AND r.life = 'active' ORDER BY r.resource LIMIT ?3");
/// Through the index of those few.
const PAGE_NOT_ACTIVE: &str = resources!(
    "r.resource >= ?1 AND r.resource < ?2 AND r.life <> 'active' AND r.life = ?4 ORDER BY r.resource LIMIT ?3"
);

/// The first targets of a resource.
const TARGETS: &str = concat!(
    "SELECT ",
    target_columns!(),
    " FROM targets AS t WHERE t.bucket = ?1 AND t.resource_id = ?2 ORDER BY t.target LIMIT ?3"
);

pub(super) fn resource(
    connection: &Connection,
    resource: &ResourceName,
    time: &SharedTime,
) -> Result<Option<ResourceRead>, Fault> {
    let found = first(connection, RESOURCE, |values| values.name(resource), |columns| whole(columns, time))?;
    let Some((mut read, id)) = found else { return Ok(None) };
    heed_announced(connection, &mut read.resource, &read.namespace)?;
    add_targets(connection, &mut read, id)?;
    Ok(Some(read))
}

/// Several resources by name, without their targets; every read has one view of the database.
pub(super) fn named(
    connection: &Connection,
    names: &[ResourceName],
    time: &SharedTime,
) -> Result<Vec<ResourceRead>, Fault> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let read = first(connection, RESOURCE, |values| values.name(name), |columns| whole(columns, time))?;
        let Some((mut read, _)) = read else { continue };
        heed_announced(connection, &mut read.resource, &read.namespace)?;
        found.push(ResourceRead { targets: Vec::new(), ..read });
    }
    Ok(found)
}

pub(super) fn resources(
    connection: &Connection,
    filter: &ResourceFilter,
    time: &SharedTime,
) -> Result<Vec<ResourceRead>, Fault> {
    let (text, life) = match filter.life {
        None => (PAGE, None),
        Some(Life::Active) => (PAGE_ACTIVE, None),
        Some(life @ (Life::Deleted | Life::Cancelled)) => (PAGE_NOT_ACTIVE, Some(life)),
    };
    let range = Range::of(filter);
    let mut found = Vec::new();
    each(
        connection,
        text,
        |values| {
            values.range(&range);
            values.integer(i64::from(filter.limit));
            if let Some(life) = life {
                values.text(life.word());
            }
        },
        |columns| {
            found.push(whole(columns, time)?);
            Ok(())
        },
    )?;
    let mut reads = Vec::with_capacity(found.len());
    for (mut read, id) in found {
        heed_announced(connection, &mut read.resource, &read.namespace)?;
        add_targets(connection, &mut read, id)?;
        reads.push(read);
    }
    Ok(reads)
}

/// A resource without what stands below it, and the id of its row.
fn whole(columns: &mut Columns<'_>, time: &SharedTime) -> Result<(ResourceRead, i64), Fault> {
    let name = columns.parsed(ResourceName::parse)?;
    let resource = rows::resource(name.clone(), columns)?;
    let namespace = joined_namespace(name.namespace(), columns)?
        .ok_or_else(|| Fault::unreadable(format!("the namespace of {name:?} has no row")))?;
    let lease = match (resource.lease, columns.is_null()?) {
        (Some(_), true) => {
            return Err(Fault::unreadable(format!("the newest lease of {name:?} has no row")));
        }
        (Some(_), false) => Some(rows::lease(columns)?),
        (None, _) => {
            columns.skip(LEASE_WIDTH);
            None
        }
    };
    let id = columns.integer()?;
    let targets = rows::document(columns)?.into_iter().collect();
    Ok((ResourceRead { resource, targets, lease, namespace, now: time.now() }, id))
}

/// Adds what stands below a resource, up to the bound; the whole-path document, if there is one, comes first.
fn add_targets(connection: &Connection, read: &mut ResourceRead, id: i64) -> Result<(), Fault> {
    let there = u32::try_from(read.targets.len()).unwrap_or(u32::MAX);
    let targets = &mut read.targets;
    each(
        connection,
        TARGETS,
        |values| {
            values.bucket(read.resource.resource.bucket());
            values.integer(id);
            values.integer(i64::from(TARGETS_SHOWN.saturating_sub(there)));
        },
        |columns| {
            targets.push(rows::target(columns)?);
            Ok(())
        },
    )
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![RESOURCE, PAGE, PAGE_ACTIVE, PAGE_NOT_ACTIVE, TARGETS]
}
