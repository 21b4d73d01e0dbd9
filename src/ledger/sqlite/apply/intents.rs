//! Announced operations: new ones with their bodies, those that go on, and those that are undecided no more.
//!
//! What the decision saw is repeated in the predicates and the rows are counted, as everywhere: two who judge the same
//! attempt cannot both be right.

use rusqlite::Connection;

use crate::domain::upstream::Payload;
use crate::protocol::rows::IntentRow;

use super::super::super::cells::WriteCells;
use super::super::super::changeset::ChangeSet;
use super::super::super::pieces;
use super::super::fault::Fault;
use super::super::rows;
use super::super::values::{run, run_once};

const INTENT_INSERT: &str = "INSERT INTO intents (bucket, resource, incarnation, operation_id, target, method, \
     fingerprint, position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, \
     named_incarnation, if_match, if_none_match, query, headers, content_type, length, digest, base, doubt, due_ms, \
     claim, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, \
     ?23, ?24, ?25, ?26, ?27)";

const PIECE_INSERT: &str = "INSERT INTO intent_pieces (bucket, resource, incarnation, operation_id, piece, bytes) \
                            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// The first four values are the key, then what a step changes, the last three what the decision saw.
const INTENT_UPDATE: &str = "UPDATE intents SET state = ?5, attempt = ?6, base = ?7, doubt = ?8, due_ms = ?9 \
     WHERE bucket = ?1 AND resource = ?2 AND incarnation = ?3 AND operation_id = ?4 \
     AND state = ?10 AND attempt = ?11 AND due_ms = ?12";

const INTENT_CLOSE: &str = "DELETE FROM intents WHERE bucket = ?1 AND resource = ?2 AND incarnation = ?3 \
     AND operation_id = ?4 AND state = ?5 AND attempt = ?6 AND due_ms = ?7";

const PIECES_CLOSE: &str = "DELETE FROM intent_pieces WHERE bucket = ?1 AND resource = ?2 AND incarnation = ?3 \
                            AND operation_id = ?4";

/// The time and the floor that stood in the announcement alone.
const CHANGED_THEN: &str = "UPDATE resources SET changed_ms = max(changed_ms, ?3), \
     floor_epoch = iif((floor_epoch, floor_token) < (?4, ?5), ?4, floor_epoch), \
     floor_token = iif((floor_epoch, floor_token) < (?4, ?5), ?5, floor_token) \
     WHERE bucket = ?1 AND resource = ?2";

/// Writes what becomes of announcements. Those that go are first: an id that was withdrawn may be announced anew.
pub(super) fn write(connection: &Connection, changes: &ChangeSet) -> Result<(), Fault> {
    for row in changes.closed_intents() {
        run_once(connection, "intents", INTENT_CLOSE, |values| rows::write_closed_intent(values, row))?;
        if pieces::further(row.request.length) > 0 {
            run(connection, PIECES_CLOSE, |values| rows::write_intent_key(values, &row.key()))?;
        }
        // One that is closed in its own millisecond changes nothing in the row of its resource, as it was loaded.
        if !changes.resources.contains_key(&row.record.resource) {
            run_once(connection, "resources", CHANGED_THEN, |values| {
                values.name(&row.record.resource);
                values.time(row.record.created_at);
                values.position(row.record.position);
            })?;
        }
    }
    for change in changes.changed_intents() {
        run_once(connection, "intents", INTENT_UPDATE, |values| rows::write_intent_change(values, change))?;
    }
    for (row, payload) in changes.announced_intents() {
        announce(connection, row, payload)?;
    }
    Ok(())
}

/// One piece of the body is in memory at a time.
fn announce(connection: &Connection, row: &IntentRow, payload: &Payload) -> Result<(), Fault> {
    let first = pieces::piece(payload, 0).map_err(Fault::unreadable)?;
    run_once(connection, "intents", INTENT_INSERT, |values| rows::write_intent(values, row, &first))?;
    drop(first);
    for number in 1..=pieces::further(payload.length) {
        let bytes = pieces::piece(payload, number).map_err(Fault::unreadable)?;
        run_once(connection, "intent_pieces", PIECE_INSERT, |values| {
            rows::write_intent_key(values, &row.key());
            values.whole(number);
            values.blob(&bytes);
        })?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![INTENT_INSERT, PIECE_INSERT, INTENT_UPDATE, INTENT_CLOSE, PIECES_CLOSE, CHANGED_THEN]
}
