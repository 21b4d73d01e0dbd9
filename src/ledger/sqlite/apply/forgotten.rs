//! What is kept no longer: old operations with their keys, ended incarnations, control calls, lines of what was done,
//! and folded tombstones.

use rusqlite::Connection;

use crate::domain::resource::ResourceName;
use crate::limits::AUDIT_PRUNED_AT_ONCE;
use crate::protocol::rows::{OperationRecord, ResourceRow};

use super::super::super::cells::WriteCells;
use super::super::super::changeset::ChangeSet;
use super::super::fault::Fault;
use super::super::load::{Places, found_resource, operation};
use super::super::recent::{Key, hash_of};
use super::super::rows::{self, Place};
use super::super::values::{Values, run, run_once};

/// Only the old end of a chain: one in the middle would take the way to those before it.
const OPERATION_FORGET: &str = "DELETE FROM operations WHERE id = ?1 AND bucket = ?2 AND resource_id = ?3 \
     AND NOT EXISTS (SELECT 1 FROM operations AS p WHERE p.id = operations.previous)";

const KEY_FORGET: &str =
    "DELETE FROM operation_keys WHERE bucket = ?1 AND resource_id = ?2 AND hash = ?3 AND operation = ?4";

const ERA_FORGET: &str = "DELETE FROM incarnations WHERE bucket = ?1 AND resource = ?2 AND born_epoch = ?3 \
                          AND born_token = ?4 AND incarnation = ?5";

const CONTROL_FORGET: &str =
    "DELETE FROM controls WHERE bucket = ?1 AND resource = ?2 AND verb = ?3 AND key = ?4";

/// Through the index by time.
const AUDIT_FORGET: &str = "DELETE FROM audit WHERE (bucket, resource, ledger_seq, ordinal) IN (\
     SELECT bucket, resource, ledger_seq, ordinal FROM audit WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)";

/// The last thirteen values are what the decision saw.
const RESOURCE_FOLD: &str = "DELETE FROM resources WHERE id = ?1 AND bucket = ?2 AND resource = ?3 \
     AND incarnation = ?4 AND life = ?5 AND issued_epoch = ?6 AND issued_token = ?7 AND floor_epoch = ?8 \
     AND floor_token = ?9 AND revoked_epoch IS ?10 AND revoked_token IS ?11 AND applied_epoch IS ?12 \
     AND applied_token IS ?13 AND applied_sequence IS ?14 AND commit_no = ?15 AND lease IS ?16 AND life = 'deleted'";

const ERAS_FOLD: &str = "DELETE FROM incarnations WHERE bucket = ?1 AND resource = ?2";

const REFUSALS_FOLD: &str = "DELETE FROM refusals WHERE bucket = ?1 AND resource = ?2";

const BODY_FOLD: &str = "DELETE FROM bodies WHERE bucket = ?1 AND resource_id = ?2";

const TARGETS_FOLD: &str = "DELETE FROM targets WHERE bucket = ?1 AND resource_id = ?2";

const KEYS_FOLD: &str = "DELETE FROM operation_keys WHERE bucket = ?1 AND resource_id = ?2";

/// Forgets operations of one resource, from the old end of its chain. The keys that stand in its row leave `place`.
pub(super) fn operations(
    connection: &Connection,
    resource: &ResourceName,
    place: &mut Place,
    records: &[&OperationRecord],
) -> Result<(), Fault> {
    for record in records {
        let id = &record.operation_id;
        let Some((row, _)) = operation(connection, resource, place, id, Some(record.incarnation))? else {
            return Err(Fault::Disagreed { table: "operations", wanted: 1, found: 0 });
        };
        run_once(connection, "operations", OPERATION_FORGET, |values| {
            values.integer(row);
            lying(values, resource, place);
        })?;
        let key = Key { hash: hash_of(id), operation: row };
        if !place.recent.remove(key) {
            run_once(connection, "operation_keys", KEY_FORGET, |values| {
                lying(values, resource, place);
                values.integer(key.hash);
                values.integer(key.operation);
            })?;
        }
    }
    Ok(())
}

/// Folds tombstones.
pub(super) fn fold(connection: &Connection, changes: &ChangeSet, places: &Places) -> Result<(), Fault> {
    for row in &changes.folded {
        let found = match places.get(&row.resource) {
            Some(place) => Some(place.clone()),
            None => found_resource(connection, &row.resource)?.map(|(_, place, _)| place),
        };
        let place = found.ok_or(Fault::Disagreed { table: "resources", wanted: 1, found: 0 })?;
        fold_one(connection, row, &place)?;
    }
    Ok(())
}

fn fold_one(connection: &Connection, row: &ResourceRow, place: &Place) -> Result<(), Fault> {
    run_once(connection, "resources", RESOURCE_FOLD, |values| {
        values.integer(place.id);
        values.name(&row.resource);
        rows::write_seen(values, row);
    })?;
    for text in [ERAS_FOLD, REFUSALS_FOLD] {
        run(connection, text, |values| values.name(&row.resource))?;
    }
    for text in [BODY_FOLD, TARGETS_FOLD, KEYS_FOLD] {
        run(connection, text, |values| lying(values, &row.resource, place))?;
    }
    Ok(())
}

/// Forgets what belongs to no operation.
pub(super) fn write(connection: &Connection, changes: &ChangeSet) -> Result<(), Fault> {
    for row in &changes.forgotten_eras {
        run_once(connection, "incarnations", ERA_FORGET, |values| {
            values.name(&row.resource);
            values.position(row.born);
            values.whole(row.incarnation.get());
        })?;
    }
    for record in &changes.forgotten_controls {
        run_once(connection, "controls", CONTROL_FORGET, |values| {
            values.subject(&record.subject);
            values.text(record.verb.word());
            values.text(record.key.as_str());
        })?;
    }
    if let Some(before) = changes.forgotten_audit {
        run(connection, AUDIT_FORGET, |values| {
            values.time(before);
            values.whole(u64::from(AUDIT_PRUNED_AT_ONCE));
        })?;
    }
    Ok(())
}

/// Two values: what keeps a row of another resource out.
fn lying(values: &mut Values<'_, '_>, resource: &ResourceName, place: &Place) {
    values.bucket(resource.bucket());
    values.integer(place.id);
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![
        OPERATION_FORGET,
        KEY_FORGET,
        ERA_FORGET,
        CONTROL_FORGET,
        AUDIT_FORGET,
        RESOURCE_FOLD,
        ERAS_FOLD,
        REFUSALS_FOLD,
        BODY_FOLD,
        TARGETS_FOLD,
        KEYS_FOLD,
    ]
}
