//! New operations: rows at the right edge, chained to the one before of the same resource, and keys that are written
//! many at a time.

use rusqlite::Connection;

use crate::domain::counter::Sequence;
use crate::domain::resource::ResourceName;
use crate::protocol::rows::{OperationRecord, SavedResponse};

use super::super::fault::Fault;
use super::super::load;
use super::super::recent::{Key, Recent, hash_of};
use super::super::rows::{Place, target_text};
use super::super::values::{Values, run_once};

const OPERATION_INSERT: &str = "INSERT INTO operations (id, bucket, resource_id, previous, incarnation, operation_id, \
     target, method, fingerprint, position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, \
     decided_ms, done, commit_no, etag_incarnation, etag_commit, response) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)";

const KEY_INSERT: &str =
    "INSERT INTO operation_keys (bucket, resource_id, hash, operation) VALUES (?1, ?2, ?3, ?4)";

/// A new operation with the id of its row.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'a> {
    pub(super) id: i64,
    pub(super) record: &'a OperationRecord,
}

/// Writes new operations of one resource behind those that `place` leads to. One that is recorded already is refused:
/// the keys are not unique by themselves, so this is where an operation is kept from standing there twice.
pub(super) fn write(
    connection: &Connection,
    resource: &ResourceName,
    mut place: Place,
    operations: &[Numbered<'_>],
) -> Result<(), Fault> {
    for Numbered { id, record } in operations {
        let named = Some(record.incarnation);
        if load::operation(connection, resource, &place, &record.operation_id, named)?.is_some() {
            return Err(Fault::Disagreed { table: "operations", wanted: 1, found: 0 });
        }
        run_once(connection, "operations", OPERATION_INSERT, |values| {
            values.integer(*id);
            values.bucket(resource.bucket());
            values.integer(place.id);
            values.maybe_integer(place.newest);
            operation_values(values, record);
        })?;
        place.newest = Some(*id);
        place.recent.push(Key { hash: hash_of(&record.operation_id), operation: *id });
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

fn operation_values(values: &mut Values<'_, '_>, record: &OperationRecord) {
    values.whole(record.incarnation.get());
    values.text(record.operation_id.as_str());
    values.text(target_text(record.target.as_ref()));
    values.text(record.method.word());
    values.blob(record.fingerprint.as_bytes());
    values.position(record.position);
    values.maybe_whole(record.sequence.map(Sequence::get));
    values.maybe_blob(record.acquisition.as_ref().map(|tag| tag.0.as_slice()));
    values.text(record.state.word());
    values.whole(u64::from(record.attempt));
    values.time(record.created_at);
    values.maybe_time(record.decided_at);
    response_values(values, record.response.as_ref());
}

/// Five values.
fn response_values(values: &mut Values<'_, '_>, response: Option<&SavedResponse>) {
    let etag = response.and_then(|response| response.etag);
    values.maybe_text(response.map(|response| response.done.word()));
    values.maybe_whole(response.map(|response| response.commit.get()));
    values.maybe_whole(etag.map(|tag| tag.incarnation.get()));
    values.maybe_whole(etag.map(|tag| tag.commit.get()));
    values.maybe_blob(response.map(|response| response.body.as_ref()));
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OPERATION_INSERT, KEY_INSERT]
}
