//! Namespaces, and what holds for those that were never used: all copies of a row change together.

use rusqlite::Connection;

use super::super::super::changeset::{ChangeSet, RowChange};
use super::super::fault::Fault;
use super::super::rows;
use super::super::values::{Values, run};

const NAMESPACE_INSERT: &str = "INSERT INTO namespaces (bucket, namespace, epoch, base_epoch, base_token, \
     base_incarnation, definition, version, breaker) \
     WITH RECURSIVE buckets (bucket) AS (VALUES (0) UNION ALL SELECT bucket + 1 FROM buckets WHERE bucket < 255) \
     SELECT bucket, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM buckets";

/// The last six values are what the decision saw.
const NAMESPACE_UPDATE: &str = "UPDATE namespaces SET epoch = ?2, base_epoch = ?3, base_token = ?4, \
     base_incarnation = ?5, definition = ?6, version = ?7, breaker = ?8 \
     WHERE bucket BETWEEN 0 AND 255 AND namespace = ?1 AND epoch = ?9 AND base_epoch = ?10 AND base_token = ?11 \
     AND base_incarnation = ?12 AND version = ?13 AND breaker IS ?14";

/// The last two values are what the decision saw.
const EVERYWHERE_UPDATE: &str = "UPDATE everywhere SET epoch = ?1, breaker = ?2 WHERE bucket BETWEEN 0 AND 255 AND epoch = ?3 AND breaker IS ?4";

/// Copies of a row: one per bucket.
const COPIES: u64 = 256;

pub(super) fn write(connection: &Connection, changes: &ChangeSet) -> Result<(), Fault> {
    for RowChange { before, after } in changes.namespaces.values() {
        match before {
            None => all_copies(connection, "namespaces", NAMESPACE_INSERT, |values| {
                rows::write_namespace(values, after);
            })?,
            Some(before) => all_copies(connection, "namespaces", NAMESPACE_UPDATE, |values| {
                rows::write_namespace_change(values, (before, after));
            })?,
        }
    }
    if let Some(RowChange { before: Some(before), after }) = &changes.everywhere {
        all_copies(connection, "everywhere", EVERYWHERE_UPDATE, |values| {
            rows::write_everywhere_change(values, (before, after));
        })?;
    }
    Ok(())
}

fn all_copies(
    connection: &Connection,
    table: &'static str,
    text: &str,
    fill: impl FnOnce(&mut Values<'_, '_>),
) -> Result<(), Fault> {
    let found = run(connection, text, fill)?;
    if found == COPIES { Ok(()) } else { Err(Fault::Disagreed { table, wanted: COPIES, found }) }
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![NAMESPACE_INSERT, NAMESPACE_UPDATE, EVERYWHERE_UPDATE]
}
