//! One operation by its id: through the keys in its resource's row, or through the index.

use rusqlite::Connection;

use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::resource::ResourceName;
use crate::protocol::rows::OperationRecord;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::fault::Fault;
use super::super::recent::{Key, hash_of};
use super::super::rows::{self, Place, operation_columns};
use super::super::values::{Values, each, first};

/// The rows that may hold an operation whose key has moved to the index, newest first.
const KEYS: &str = "SELECT operation FROM operation_keys WHERE bucket = ?1 AND resource_id = ?2 AND hash = ?3 \
                    ORDER BY operation DESC";

/// An operation, if it is of this resource and has this id.
const OPERATION: &str = concat!(
    "SELECT ",
    operation_columns!(),
    " FROM operations AS o WHERE o.id = ?1 AND o.bucket = ?2 AND o.resource_id = ?3 AND o.operation_id = ?4"
);

/// The operation of this id and its row: of one incarnation, or of the newest one that has it.
pub(in super::super) fn operation(
    connection: &Connection,
    resource: &ResourceName,
    place: &Place,
    id: &OperationId,
    incarnation: Option<Incarnation>,
) -> Result<Option<(i64, OperationRecord)>, Fault> {
    if place.newest.is_none() {
        return Ok(None);
    }
    let last = Key { hash: hash_of(id), operation: i64::MAX };
    operation_before(connection, resource, place, last, id, incarnation)
}

/// The same, of the rows before that of a key, which has the hash of the id.
pub(in super::super) fn operation_before(
    connection: &Connection,
    resource: &ResourceName,
    place: &Place,
    Key { hash, operation }: Key,
    id: &OperationId,
    incarnation: Option<Incarnation>,
) -> Result<Option<(i64, OperationRecord)>, Fault> {
    let mut rows: Vec<i64> = place.recent.having(hash).filter(|row| *row < operation).collect();
    if place.indexed {
        let fill = |values: &mut Values<'_, '_>| {
            values.bucket(resource.bucket());
            values.integer(place.id);
            values.integer(hash);
        };
        each(connection, KEYS, fill, |columns| {
            rows.push(columns.integer()?);
            Ok(())
        })?;
    }
    let mut newest: Option<(i64, OperationRecord)> = None;
    for row in rows {
        let found = first(
            connection,
            OPERATION,
            |values| {
                values.integer(row);
                values.bucket(resource.bucket());
                values.integer(place.id);
                values.text(id.as_str());
            },
            |columns| rows::operation(resource.clone(), columns),
        )?;
        let Some(record) = found else { continue };
        // A doubt may be ended long after its resource was created again, so the newest row need not be that of the newest
        // incarnation.
        let is_newer = newest.as_ref().is_none_or(|(_, one)| one.incarnation < record.incarnation);
        match incarnation {
            Some(named) if record.incarnation == named => return Ok(Some((row, record))),
            None if is_newer => newest = Some((row, record)),
            Some(_) | None => {}
        }
    }
    Ok(newest)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![KEYS, OPERATION]
}
