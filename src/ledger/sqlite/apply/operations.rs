//! New operations: rows at the right edge, chained to the one before of the same resource, and keys that are written
//! many at a time.

use rusqlite::Connection;

use crate::domain::resource::ResourceName;
use crate::protocol::rows::OperationRecord;

use super::super::super::cells::WriteCells;
use super::super::fault::Fault;
use super::super::load;
use super::super::recent::{Key, Recent};
use super::super::rows::{self, Place};
use super::super::values::run_once;

const OPERATION_INSERT: &str = "INSERT INTO operations (id, bucket, resource_id, previous, incarnation, operation_id, \
     target, method, fingerprint, position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, \
     decided_ms, done, commit_no, etag_incarnation, etag_commit, response, relayed_status, relayed_headers, \
     relayed_etag, omitted_length, omitted_digest, resolution) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, \
     ?23, ?24, ?25, ?26, ?27, ?28)";

const KEY_INSERT: &str =
    "INSERT INTO operation_keys (bucket, resource_id, hash, operation) VALUES (?1, ?2, ?3, ?4)";

/// A new operation with the key of its row.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'a> {
    pub(super) key: Key,
    pub(super) record: &'a OperationRecord,
}

/// Writes new operations of one resource, whose keys stand in its `place`, behind the row that was the newest. One that
/// is recorded already is refused: the keys are not unique by themselves, so this is where an operation is kept from
/// standing there twice.
pub(super) fn write(
    connection: &Connection,
    resource: &ResourceName,
    place: &Place,
    mut newest: Option<i64>,
    operations: &[Numbered<'_>],
) -> Result<(), Fault> {
    for Numbered { key, record } in operations {
        let (id, named) = (&record.operation_id, Some(record.incarnation));
        if load::operation_before(connection, resource, place, *key, id, named)?.is_some() {
            return Err(Fault::Disagreed { table: "operations", wanted: 1, found: 0 });
        }
        run_once(connection, "operations", OPERATION_INSERT, |values| {
            values.integer(key.operation);
            values.bucket(resource.bucket());
            values.integer(place.id);
            values.maybe_integer(newest);
            rows::write_operation(values, record);
        })?;
        newest = Some(key.operation);
    }
    Ok(())
}

/// Moves keys to the index, in its order.
pub(super) fn index(
    connection: &Connection,
    resource: &ResourceName,
    resource_id: i64,
    keys: Recent,
) -> Result<(), Fault> {
    for key in keys.into_sorted() {
        run_once(connection, "operation_keys", KEY_INSERT, |values| {
            values.bucket(resource.bucket());
            values.integer(resource_id);
            values.integer(key.hash);
            values.integer(key.operation);
        })?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OPERATION_INSERT, KEY_INSERT]
}
