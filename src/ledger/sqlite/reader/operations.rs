//! Operations of a resource: one by its id, or a page from the newest.
//!
//! A page follows the chain from row to row. The chain is in the order of recording, the page in that of time,
//! incarnation and id: operations of one millisecond are put in order together. Those that were decided later than they
//! were announced stand in the chain in another order than in the page, so they come through an index; and those that are
//! undecided still stand in a table of their own.

use rusqlite::Connection;

use crate::domain::counter::Incarnation;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;
use crate::protocol::rows::OperationRecord;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::read::{OperationFilter, OperationPlace};
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::load::{self, found_resource};
use super::super::rows::{self, Place, operation_columns};
use super::super::values::{Values, each, first};

/// A row of the chain with the one before it.
const LINK: &str = concat!(
    "SELECT o.previous, ",
    operation_columns!(),
    " FROM operations AS o WHERE o.id = ?1 AND o.bucket = ?2 AND o.resource_id = ?3"
);

/// The newest row of a resource that was recorded in the same millisecond as a row, or that row. Time never goes back,
/// so what was decided at once stands side by side; a row that was decided later only makes the walk a little longer.
const NEWEST_OF_ITS_TIME: &str = "SELECT max(id) FILTER (WHERE bucket = ?2 AND resource_id = ?3) FROM operations \
     WHERE id BETWEEN ?1 AND coalesce((SELECT min(id) FROM \
       (SELECT id FROM operations WHERE id > ?1 AND created_ms > ?4 ORDER BY id LIMIT 1)), 9223372036854775807)";

/// Through the index of those that were decided later than they were announced.
const LATE: &str = concat!(
    "SELECT ",
    operation_columns!(),
    " FROM operations AS o WHERE o.bucket = ?1 AND o.resource_id = ?2 AND o.decided_ms > o.created_ms \
     AND (o.state = ?3 OR ?3 IS NULL) AND o.created_ms <= ?4 \
     AND (o.created_ms, o.incarnation, o.operation_id) < (?4, ?5, ?6) \
     ORDER BY o.created_ms DESC, o.incarnation DESC, o.operation_id DESC LIMIT ?7"
);

/// Through the index of the few that are not plainly applied.
const NOT_APPLIED: &str = concat!(
    "SELECT ",
    operation_columns!(),
    " FROM operations AS o WHERE o.bucket = ?1 AND o.resource_id = ?2 AND o.state <> 'applied' AND o.state = ?3 \
     AND (o.created_ms, o.incarnation, o.operation_id) < (?4, ?5, ?6) \
     ORDER BY o.created_ms DESC, o.incarnation DESC, o.operation_id DESC LIMIT ?7"
);

/// One operation: of the incarnation named, else of the newest one that has it.
pub(in super::super) fn one(
    connection: &Connection,
    resource: &ResourceName,
    id: &OperationId,
    incarnation: Option<Incarnation>,
) -> Result<Option<OperationRecord>, Fault> {
    let Some((_, place, _)) = found_resource(connection, resource)? else { return Ok(None) };
    let decided = load::operation(connection, resource, &place, id, incarnation)?.map(|(_, record)| record);
    let mut found: Vec<OperationRecord> = decided.into_iter().collect();
    let undecided = load::intents(connection, resource)?.into_iter().map(|intent| intent.record);
    found.extend(undecided.filter(|record| {
        record.operation_id == *id && incarnation.is_none_or(|named| record.incarnation == named)
    }));
    Ok(found.into_iter().max_by_key(|record| record.incarnation))
}

/// A page of them.
pub(super) fn page(connection: &Connection, filter: &OperationFilter) -> Result<Vec<OperationRecord>, Fault> {
    let Some((_, place, _)) = found_resource(connection, &filter.resource)? else { return Ok(Vec::new()) };
    let mut found = match filter.state {
        None | Some(OperationState::Applied) => {
            let start = match &filter.after {
                None => place.newest,
                Some(after) => start_of(connection, &filter.resource, &place, after)?,
            };
            let late = indexed(connection, LATE, filter, &place)?;
            chained(connection, filter, &place, start, late)?
        }
        Some(_) => indexed(connection, NOT_APPLIED, filter, &place)?,
    };
    let undecided = load::intents(connection, &filter.resource)?.into_iter().map(|intent| intent.record);
    found.extend(undecided.filter(|record| is_wanted(record, filter)));
    found.sort_unstable_by(|one, other| order_of(other).cmp(&order_of(one)));
    found.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// Where the chain is entered so that nothing after a place is missed. A place that nobody knows any more is looked
/// for from the newest on.
fn start_of(
    connection: &Connection,
    resource: &ResourceName,
    place: &Place,
    after: &OperationPlace,
) -> Result<Option<i64>, Fault> {
    let found = load::operation(connection, resource, place, &after.operation_id, Some(after.incarnation))?;
    let Some((row, _)) = found.filter(|(_, record)| record.created_at == after.created_at) else {
        return Ok(place.newest);
    };
    let newest = first(
        connection,
        NEWEST_OF_ITS_TIME,
        |values| {
            values.integer(row);
            link_values(values, resource, place);
            values.time(after.created_at);
        },
        |columns: &mut Columns<'_>| columns.maybe_integer(),
    )?;
    Ok(newest.flatten())
}

/// Follows the chain until a page is full and its last millisecond complete, and adds what was decided at once to those
/// that were decided late, which are given in order.
fn chained(
    connection: &Connection,
    filter: &OperationFilter,
    place: &Place,
    start: Option<i64>,
    mut late: Vec<OperationRecord>,
) -> Result<Vec<OperationRecord>, Fault> {
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let mut found: Vec<OperationRecord> = Vec::new();
    let mut next = start;
    while let Some(row) = next {
        let link = first(
            connection,
            LINK,
            |values| {
                values.integer(row);
                link_values(values, &filter.resource, place);
            },
            |columns| Ok((columns.maybe_integer()?, rows::operation(filter.resource.clone(), columns)?)),
        )?;
        let Some((previous, record)) = link else { break };
        // Whatever was decided at once and stands further back is no newer than the time of this row's decision.
        let newest_left = record.decided_at.unwrap_or(record.created_at);
        let newer = |records: &[OperationRecord]| records.partition_point(|one| one.created_at > newest_left);
        if newer(&found).saturating_add(newer(&late)) >= limit {
            break;
        }
        // A chain only leads back; anything else would lead round in a circle.
        next = previous.filter(|previous| *previous < row);
        if newest_left <= record.created_at && is_wanted(&record, filter) {
            found.push(record);
        }
    }
    found.append(&mut late);
    Ok(found)
}

fn is_wanted(record: &OperationRecord, filter: &OperationFilter) -> bool {
    filter.state.is_none_or(|state| record.state == state)
        && filter
            .after
            .as_ref()
            .is_none_or(|after| order_of(record) < (after.created_at, after.incarnation, &after.operation_id))
}

const fn order_of(record: &OperationRecord) -> (Timestamp, Incarnation, &OperationId) {
    (record.created_at, record.incarnation, &record.operation_id)
}

/// What a page could show of those that stand in an index by their time.
fn indexed(
    connection: &Connection,
    text: &str,
    filter: &OperationFilter,
    place: &Place,
) -> Result<Vec<OperationRecord>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        text,
        |values| {
            link_values(values, &filter.resource, place);
            values.maybe_text(filter.state.map(OperationState::word));
            if let Some(after) = &filter.after {
                values.time(after.created_at);
                values.whole(after.incarnation.get());
                values.text(after.operation_id.as_str());
            } else {
                values.integer(i64::MAX);
                values.integer(i64::MAX);
                values.text("");
            }
            values.integer(i64::from(filter.limit));
        },
        |columns| {
            found.push(rows::operation(filter.resource.clone(), columns)?);
            Ok(())
        },
    )?;
    Ok(found)
}

/// Two values: what keeps a row of another resource out.
fn link_values(values: &mut Values<'_, '_>, resource: &ResourceName, place: &Place) {
    values.bucket(resource.bucket());
    values.integer(place.id);
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![LINK, NEWEST_OF_ITS_TIME, LATE, NOT_APPLIED]
}
