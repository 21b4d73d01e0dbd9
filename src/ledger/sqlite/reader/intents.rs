//! Undecided operations: those of a resource, those whose next step is due, and the body of one of them.

use rusqlite::Connection;

use crate::domain::operation::OperationState;
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Payload;
use crate::protocol::rows::IntentRow;
use crate::protocol::snapshot::OperationKey;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::pieces::Assembly;
use super::super::super::read::DuePlace;
use super::super::fault::Fault;
use super::super::load;
use super::super::rows::{self, intent_columns};
use super::super::values::Values;
use super::super::values::{each, first};

/// Through the index of when the next step is due.
const DUE: &str = concat!(
    "SELECT a.resource, ",
    intent_columns!(),
    " FROM intents AS a WHERE a.due_ms <= ?1 AND a.due_ms >= ?2 \
     AND (a.due_ms, a.resource, a.incarnation, a.operation_id) > (?2, ?3, ?4, ?5) \
     ORDER BY a.due_ms, a.resource, a.incarnation, a.operation_id LIMIT ?6"
);

/// They are few, and this is asked by people.
const IN_STATE: &str = concat!(
    "SELECT a.resource, ",
    intent_columns!(),
    " FROM intents AS a WHERE a.state = ?1 \
     ORDER BY a.created_ms, a.resource, a.incarnation, a.operation_id LIMIT ?2"
);

const BODY: &str = concat!(
    "SELECT ",
    intent_columns!(),
    ", a.body FROM intents AS a \
     WHERE a.bucket = ?1 AND a.resource = ?2 AND a.incarnation = ?3 AND a.operation_id = ?4"
);

const PIECES: &str = "SELECT bytes FROM intent_pieces WHERE bucket = ?1 AND resource = ?2 AND incarnation = ?3 \
                      AND operation_id = ?4 ORDER BY piece";

/// The undecided operations of a resource, the oldest first.
pub(super) fn of_resource(connection: &Connection, resource: &ResourceName) -> Result<Vec<IntentRow>, Fault> {
    let mut found = load::intents(connection, resource)?;
    found.sort_unstable_by(|one, other| age(one).cmp(&age(other)));
    Ok(found)
}

fn age(intent: &IntentRow) -> impl Ord {
    let record = &intent.record;
    (record.created_at, record.incarnation, record.operation_id.clone())
}

pub(super) fn due(
    connection: &Connection,
    now: Timestamp,
    after: Option<&DuePlace>,
    limit: u32,
) -> Result<Vec<IntentRow>, Fault> {
    listed(connection, DUE, limit, |values| {
        values.time(now);
        if let Some((at, (resource, incarnation, operation))) = after {
            values.time(*at);
            values.text(resource.as_str());
            values.whole(incarnation.get());
            values.text(operation.as_str());
        } else {
            values.integer(i64::MIN);
            values.text("");
            values.whole(0);
            values.text("");
        }
    })
}

/// Undecided operations in this state, the oldest first.
pub(super) fn undecided(
    connection: &Connection,
    state: OperationState,
    limit: u32,
) -> Result<Vec<IntentRow>, Fault> {
    listed(connection, IN_STATE, limit, |values| values.text(state.word()))
}

fn listed(
    connection: &Connection,
    statement: &'static str,
    limit: u32,
    which: impl FnOnce(&mut Values),
) -> Result<Vec<IntentRow>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        statement,
        |values| {
            which(values);
            values.whole(u64::from(limit));
        },
        |columns| {
            let resource = columns.parsed(ResourceName::parse)?;
            found.push(rows::intent(resource, columns)?);
            Ok(())
        },
    )?;
    Ok(found)
}

/// The body of an undecided operation, put together from its pieces.
pub(super) fn payload(connection: &Connection, key: &OperationKey) -> Result<Option<Payload>, Fault> {
    let body = first(
        connection,
        BODY,
        |values| rows::write_intent_key(values, key),
        |columns| {
            let intent = rows::intent(key.0.clone(), columns)?;
            Ok(Assembly::of(intent.request, columns.blob()?))
        },
    )?;
    let Some(mut body) = body else { return Ok(None) };
    each(
        connection,
        PIECES,
        |values| rows::write_intent_key(values, key),
        |columns| {
            body.push(columns.blob()?);
            Ok(())
        },
    )?;
    let incomplete = || Fault::unreadable(format!("pieces of the body of {:?} are missing", key.2));
    body.whole().map(Some).ok_or_else(incomplete)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![DUE, BODY, PIECES]
}
