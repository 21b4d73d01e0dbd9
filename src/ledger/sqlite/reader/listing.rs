//! Resources, one or a page of them, each with its namespace, its newest lease and its targets.

use rusqlite::Connection;

use crate::domain::resource::ResourceName;
use crate::limits::TARGETS_SHOWN;
use crate::protocol::rows::Life;

use super::super::super::read::{ResourceFilter, ResourceRead};
use super::super::super::time::SharedTime;
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::rows::{
    self, LEASE_WIDTH, document_columns, lease_columns, namespace_columns, resource_columns, target_columns,
};
use super::super::values::{each, first};
use super::joined_namespace;

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
             LEFT JOIN leases AS l ON l.bucket = r.bucket AND l.acquisition = r.lease WHERE ",
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
    add_targets(connection, &mut read, id)?;
    Ok(Some(read))
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
            values.text(&range.from);
            match &range.before {
                Some(before) => values.text(before),
                // Any blob is above any text: no upper end.
                None => values.blob(&[]),
            }
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

/// Which names a filter lets through, compared byte by byte: at or after `from`, and before `before`.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from: String,
    before: Option<String>,
}

impl Range {
    fn of(filter: &ResourceFilter) -> Self {
        let namespace = filter.namespace.as_ref().map(|namespace| format!("{namespace}/"));
        // No name holds a control character, so this is above `after` and not above any name that is.
        let after = filter.after.as_ref().map(|after| format!("{after}\u{1}"));
        let prefixes = [namespace.as_deref(), filter.prefix.as_deref()];
        let starts = prefixes.into_iter().chain([after.as_deref()]).flatten();
        Self {
            from: starts.max().unwrap_or_default().to_owned(),
            before: prefixes.into_iter().flatten().filter_map(successor).min(),
        }
    }
}

/// The first text after all those that begin with this one: its last character that can grow is one greater, and what
/// stood behind that is gone. None when there is no such text. The order of UTF-8 bytes is that of the characters.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![RESOURCE, PAGE, PAGE_ACTIVE, PAGE_NOT_ACTIVE, TARGETS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_no_name_begins_with_it_any_more() {
        assert_eq!(successor("jobs/"), Some("jobs0".to_owned()));
        assert_eq!(successor("a%"), Some("a&".to_owned()));
        assert_eq!(successor("a\u{D7FF}"), Some("a\u{E000}".to_owned()));
        assert_eq!(successor("a\u{10FFFF}"), Some("b".to_owned()));
        assert_eq!(successor("\u{10FFFF}\u{10FFFF}"), None);
        assert_eq!(successor(""), None);
        for prefix in ["z", "é", "a\u{7F}", "日本"] {
            let end = successor(prefix).unwrap();
            let inside = format!("{prefix}\u{10FFFF}\u{10FFFF}");
            assert!(prefix < end.as_str() && inside.as_str() < end.as_str(), "{prefix:?}");
        }
    }
}
