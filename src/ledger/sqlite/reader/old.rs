//! What may be kept no longer. Operations stand in the order in which they were decided, so the table itself is the
//! index by time: a walk from its old end costs no write anything.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::{Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::protocol::control::RecordedVerb;
use crate::protocol::prune;
use crate::protocol::rows::{NamespaceRow, ResourceRow};
use crate::protocol::snapshot::ControlKey;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::read::{OldOperations, OldPlace};
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::rows::{self, namespace_columns, resource_columns};
use super::super::values::{Values, each, first};

/// The joins are in this order, so that the walk is one from row to row.
const OLD_OPERATIONS: &str = concat!(
    "SELECT o.id, o.previous, EXISTS (SELECT 1 FROM operations AS p WHERE p.id = o.previous), o.decided_ms, \
     o.incarnation, o.operation_id, o.position_epoch, o.position_token, r.resource, ",
    resource_columns!(),
    ", ",
    namespace_columns!(),
    " FROM operations AS o CROSS JOIN resources AS r ON r.id = o.resource_id AND r.bucket = o.bucket \
      CROSS JOIN namespaces AS n ON n.bucket = r.bucket \
      AND n.namespace = substr(r.resource, 1, instr(r.resource, '/') - 1) \
      WHERE o.id > ?1 ORDER BY o.id LIMIT ?2"
);

const OLD_CONTROLS: &str =
    "SELECT c.resource, c.verb, c.key FROM controls AS c WHERE c.at_ms < ?1 ORDER BY c.at_ms LIMIT ?2";

const OLD_AUDIT: &str = "SELECT 1 FROM audit WHERE at_ms < ?1 LIMIT 1";

/// An operation on the way.
struct Met {
    row: i64,
    /// The one before it, where it is still there.
    previous: Option<i64>,
    decided_at: Option<Timestamp>,
    incarnation: Incarnation,
    operation_id: OperationId,
    position: Position,
    resource: ResourceRow,
    namespace: NamespaceRow,
}

fn met(columns: &mut Columns<'_>) -> Result<Met, Fault> {
    let row = columns.integer()?;
    let previous = columns.maybe_integer()?;
    let is_there = columns.flag()?;
    let decided_at = columns.maybe_time()?;
    let incarnation = columns.counter(Incarnation::new)?;
    let operation_id = columns.parsed(OperationId::parse)?;
    let position = columns.position()?;
    let name = columns.parsed(ResourceName::parse)?;
    let namespace: Namespace = name.namespace();
    Ok(Met {
        row,
        previous: previous.filter(|_| is_there),
        decided_at,
        incarnation,
        operation_id,
        position,
        resource: rows::resource(name, columns)?,
        namespace: rows::namespace(namespace, columns)?,
    })
}

/// Walks on from a row. Of each resource only the old end of its chain is found: what stands behind one that stays, stays.
pub(super) fn operations(
    connection: &Connection,
    from: OldPlace,
    before: Timestamp,
    limit: u32,
) -> Result<OldOperations, Fault> {
    let mut rows = Vec::new();
    let fill = |values: &mut Values<'_, '_>| {
        values.integer(from.first);
        values.integer(i64::from(limit));
    };
    each(connection, OLD_OPERATIONS, fill, |columns| {
        rows.push(met(columns)?);
        Ok(())
    })?;
    let is_last_page = rows.len() < usize::try_from(limit).unwrap_or(usize::MAX);
    let (mut old, mut reached, mut is_over) = (OldOperations::default(), from.first, is_last_page);
    let mut going: BTreeSet<i64> = BTreeSet::new();
    for one in rows {
        // Time never goes back, so all that stand behind this one are younger.
        if one.decided_at.is_none_or(|at| at >= before) {
            is_over = true;
            break;
        }
        reached = one.row;
        let is_end = one.previous.is_none_or(|previous| going.contains(&previous));
        if is_end && prune::has_passed(&one.namespace, &one.resource, one.position) {
            going.insert(one.row);
            old.found.push((one.resource.resource, one.incarnation, one.operation_id));
        }
    }
    old.next = (!is_over).then_some(OldPlace { first: reached, bucket: 0 });
    Ok(old)
}

pub(super) fn controls(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<ControlKey>, Fault> {
    let mut found = Vec::new();
    let fill = |values: &mut Values<'_, '_>| {
        values.time(before);
        values.integer(i64::from(limit));
    };
    each(connection, OLD_CONTROLS, fill, |columns| {
        let subject = columns.parsed(Subject::parse)?;
        let verb = columns.word(RecordedVerb::from_word)?;
        found.push((subject, verb, columns.parsed(OperationId::parse)?));
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn has_audit(connection: &Connection, before: Timestamp) -> Result<bool, Fault> {
    let found = first(connection, OLD_AUDIT, |values| values.time(before), |columns| columns.integer())?;
    Ok(found.is_some())
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OLD_OPERATIONS, OLD_CONTROLS, OLD_AUDIT]
}
