//! What is told of a resource beside its operations, and the few resources that a person has to look at.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::domain::operation::OperationId;
use crate::domain::resource::ResourceName;
use crate::domain::subject::Subject;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::range::Range;
use super::super::super::read::{AuditEntry, AuditFilter, AuditPlace, NotedRefusal, ResourceFilter};
use super::super::fault::Fault;
use super::super::rows::{self, audit_columns, refusal_columns};
use super::super::values::{each, first};

const AUDIT: &str = concat!(
    "SELECT ",
    audit_columns!("ledger_seq"),
    " FROM audit AS u WHERE u.bucket = ?1 AND u.resource = ?2 AND u.at_ms <= ?3 \
     AND (u.at_ms, u.ledger_seq, u.ordinal) < (?3, ?4, ?5) \
     ORDER BY u.at_ms DESC, u.ledger_seq DESC, u.ordinal DESC LIMIT ?6"
);

/// Of everything, in order of time.
const AUDIT_LINES: &str = concat!(
    "SELECT ",
    audit_columns!("ledger_seq"),
    " FROM audit AS u WHERE u.at_ms >= ?1 AND u.at_ms < ?4 AND (u.at_ms, u.ledger_seq, u.ordinal) > (?1, ?2, ?3) \
     ORDER BY u.at_ms, u.ledger_seq, u.ordinal LIMIT ?5"
);

/// All of a ring.
const REFUSALS: &str =
    concat!("SELECT ", refusal_columns!(), " FROM refusals AS f WHERE f.bucket = ?1 AND f.resource = ?2");

/// Through the index of those few.
const QUARANTINED: &str = "SELECT r.resource FROM resources AS r INDEXED BY resources_quarantined WHERE r.quarantined IS NOT NULL \
     AND r.resource >= ?1 AND r.resource < ?2 ORDER BY r.resource LIMIT ?3";

/// Through the index of those few.
const UNCERTAIN: &str = "SELECT DISTINCT a.resource FROM intents AS a INDEXED BY intents_uncertain WHERE a.state = 'uncertain' \
     AND a.resource >= ?1 AND a.resource < ?2 ORDER BY a.resource LIMIT ?3";

const UNCERTAIN_OF: &str = "SELECT a.operation_id FROM intents AS a INDEXED BY intents_uncertain WHERE a.state = 'uncertain' AND a.resource = ?1 LIMIT 1";

/// Of the resource, of its namespace and of everything: each in its own order, and then put in order together.
pub(super) fn audit(
    connection: &Connection,
    resource: &ResourceName,
    before: &AuditPlace,
    limit: u32,
) -> Result<Vec<AuditEntry>, Fault> {
    let mut found = Vec::new();
    for subject in Subject::touching(resource) {
        each(
            connection,
            AUDIT,
            |values| {
                values.subject(&subject);
                rows::write_audit_place(values, before);
                values.whole(u64::from(limit));
            },
            |columns| {
                found.push(rows::audit(columns)?);
                Ok(())
            },
        )?;
    }
    found.sort_unstable_by_key(|entry: &AuditEntry| std::cmp::Reverse(entry.place));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

pub(super) fn audit_lines(connection: &Connection, filter: &AuditFilter) -> Result<Vec<AuditEntry>, Fault> {
    let (_, place) = filter.start();
    let mut found = Vec::new();
    each(
        connection,
        AUDIT_LINES,
        |values| {
            rows::write_audit_place(values, &place);
            values.time(filter.until);
            values.whole(u64::from(filter.limit));
        },
        |columns| {
            found.push(rows::audit(columns)?);
            Ok(())
        },
    )?;
    Ok(found)
}

pub(super) fn refusals(connection: &Connection, resource: &ResourceName) -> Result<Vec<NotedRefusal>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        REFUSALS,
        |values| values.name(resource),
        |columns| {
            found.push(rows::refusal(resource.clone(), columns)?);
            Ok(())
        },
    )?;
    Ok(found)
}

/// Names in order: the first of each kind, up to the limit, put together.
pub(super) fn troubled(connection: &Connection, filter: &ResourceFilter) -> Result<Vec<ResourceName>, Fault> {
    let range = Range::of(filter);
    let mut found = BTreeSet::new();
    for text in [QUARANTINED, UNCERTAIN] {
        each(
            connection,
            text,
            |values| {
                values.range(&range);
                values.whole(u64::from(filter.limit));
            },
            |columns| {
                found.insert(columns.parsed(ResourceName::parse)?);
                Ok(())
            },
        )?;
    }
    Ok(found.into_iter().take(usize::try_from(filter.limit).unwrap_or(usize::MAX)).collect())
}

pub(super) fn uncertain(
    connection: &Connection,
    names: Vec<ResourceName>,
) -> Result<Vec<(ResourceName, OperationId)>, Fault> {
    let mut found = Vec::new();
    for name in names {
        let one = first(
            connection,
            UNCERTAIN_OF,
            |values| values.text(name.as_str()),
            |columns| columns.parsed(OperationId::parse),
        )?;
        found.extend(one.map(|id| (name, id)));
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![AUDIT, AUDIT_LINES, REFUSALS, QUARANTINED, UNCERTAIN, UNCERTAIN_OF]
}
