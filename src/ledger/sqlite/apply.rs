//! The changes of a batch.
//!
//! The fence is repeated in the predicates and the rows are counted: zero rows where the rules admitted means that
//! database and rules disagree, and then nothing is committed. Nothing here replaces a row that it does not expect.

use rusqlite::Connection;

use crate::domain::counter::LedgerSeq;
use crate::domain::lease::Holder;
use crate::domain::principal::PrincipalName;
use crate::domain::time::Timestamp;
use crate::limits::REFUSALS_KEPT;
use crate::protocol::rows::{AuditRow, LeaseRow};

use super::super::cells::{ReadCells, WriteCells};
use super::super::changeset::{ChangeSet, RowChange, TargetChange};
use super::fault::Fault;
use super::load::Places;
use super::rows;
use super::values::{Values, first, run, run_once};

mod forgotten;
mod group;
mod intents;
mod namespaces;
mod operations;

/// One step forward, the effective time with it, and the ids of new operations. The time never goes back. RETURNING
/// would say the same in one statement, at the price of a table in memory for each commit.
const STEP: &str = "UPDATE ledger SET ledger_seq = ledger_seq + 1, clock_ms = max(clock_ms, ?1), \
                    operations = operations + ?2 WHERE one = 1";

const REACHED: &str = "SELECT ledger_seq, operations FROM ledger WHERE one = 1";

/// SQLite's page.
const PAGE_BYTES: usize = 4_096;

const ERA_INSERT: &str = "INSERT INTO incarnations (bucket, resource, born_epoch, born_token, incarnation) \
                          VALUES (?1, ?2, ?3, ?4, ?5)";

const LEASE_INSERT: &str = "INSERT INTO leases (bucket, acquisition, nonce, key_id, resource, position_epoch, \
     position_token, holder, ttl_ms, asked_ttl_ms, request_id, request_key, granted_ms, expires_ms, state, others, \
     ended_ms, cause) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

/// The first two values are the key, then what a renewal or an end changes, the last two what the decision saw.
const LEASE_UPDATE: &str = "UPDATE leases SET ttl_ms = ?3, expires_ms = ?4, state = ?5, ended_ms = ?6, cause = ?7 \
                            WHERE bucket = ?1 AND acquisition = ?2 AND expires_ms = ?8 AND state = ?9";

/// Only one that has ended, when the decision saw it end.
const LEASE_FORGET: &str = "DELETE FROM leases WHERE bucket = ?1 AND acquisition = ?2 AND state <> 'held' \
                            AND ended_ms = ?3";

const CONTROL_INSERT: &str = "INSERT INTO controls (bucket, resource, verb, key, fingerprint, body, at_ms) \
                              VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const AUDIT_INSERT: &str = "INSERT INTO audit (bucket, resource, ledger_seq, ordinal, verb, position_epoch, \
     position_token, reason, at_ms, holder, actor) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// The next place of the resource's ring, over whatever stood there. What was never heard of gets none: its names would
/// have no bound.
const REFUSAL_NOTE: &str = "INSERT INTO refusals (bucket, resource, slot, number, at_ms, code, presented_epoch, \
     presented_token, operation_id, times) \
     SELECT ?1, ?2, k.number % 16, k.number, ?3, ?4, ?5, ?6, ?7, ?8 FROM (SELECT coalesce(max(f.number) + 1, 0) AS number \
     FROM refusals AS f WHERE f.bucket = ?1 AND f.resource = ?2) AS k \
     WHERE EXISTS (SELECT 1 FROM resources AS r WHERE r.bucket = ?1 AND r.resource = ?2) \
     ON CONFLICT (bucket, resource, slot) DO UPDATE SET number = excluded.number, at_ms = excluded.at_ms, \
     code = excluded.code, presented_epoch = excluded.presented_epoch, presented_token = excluded.presented_token, \
     operation_id = excluded.operation_id, times = excluded.times";

// The text says it as a literal.
const _: () = assert!(REFUSALS_KEPT == 16);

/// How far the ledger has come with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) seq: LedgerSeq,
    /// The id of the newest operation.
    operations: i64,
}

/// Writes a batch, and tells how far the ledger comes with it. A transaction is open; the caller commits it.
pub(super) fn write(
    connection: &Connection,
    changes: &ChangeSet,
    places: &Places,
    now: Timestamp,
) -> Result<LedgerSeq, Fault> {
    let added = i64::try_from(changes.operations.len()).unwrap_or(i64::MAX);
    let step = step(connection, now, added)?;
    namespaces::write(connection, changes)?;
    forgotten::fold(connection, changes, places)?;
    for (resource, group) in group::groups(changes, step.operations.saturating_sub(added))? {
        group.write(connection, resource, places.get(resource))?;
    }
    forgotten::write(connection, changes)?;
    intents::write(connection, changes)?;
    for row in &changes.eras {
        run_once(connection, "incarnations", ERA_INSERT, |values| {
            values.name(&row.resource);
            values.position(row.born);
            values.whole(row.incarnation.get());
        })?;
    }
    for RowChange { before, after } in changes.leases.values() {
        write_lease(connection, before.as_ref(), after)?;
    }
    for row in &changes.forgotten {
        run_once(connection, "leases", LEASE_FORGET, |values| rows::write_forgotten(values, row))?;
    }
    for record in &changes.controls {
        run_once(connection, "controls", CONTROL_INSERT, |values| rows::write_control(values, record))?;
    }
    for (ordinal, row) in changes.audit.iter().enumerate() {
        run_once(connection, "audit", AUDIT_INSERT, |values| audit_values(values, step.seq, ordinal, row))?;
    }
    for row in &changes.refusals {
        run(connection, REFUSAL_NOTE, |values| rows::write_refusal(values, row))?;
    }
    Ok(step.seq)
}

/// How many pages a batch changes, more or less.
pub(super) fn pages(changes: &ChangeSet) -> i64 {
    let rows = changes
        .resources
        .len()
        .saturating_add(changes.targets.len())
        .saturating_add(changes.leases.len())
        .saturating_add(changes.intents.len());
    let bytes = changes.targets.values().fold(0_usize, |sum, change| match change {
        TargetChange::Stored { body, row: _ } => sum.saturating_add(body.len()),
        TargetChange::Removed => sum,
    });
    let bytes = changes.announced_intents().fold(bytes, |sum, (row, _)| {
        sum.saturating_add(usize::try_from(row.request.length).unwrap_or(usize::MAX))
    });
    i64::try_from(rows.saturating_add(bytes / PAGE_BYTES)).unwrap_or(i64::MAX)
}

/// Counts one step of the ledger and so many new operations, and writes the time down.
pub(super) fn step(connection: &Connection, now: Timestamp, operations: i64) -> Result<Step, Fault> {
    run_once(connection, "ledger", STEP, |values| {
        values.time(now);
        values.integer(operations);
    })?;
    let reached = first(
        connection,
        REACHED,
        |_| {},
        |columns| Ok(Step { seq: columns.counter(LedgerSeq::new)?, operations: columns.integer()? }),
    )?;
    reached.ok_or(Fault::Disagreed { table: "ledger", wanted: 1, found: 0 })
}

fn write_lease(connection: &Connection, before: Option<&LeaseRow>, after: &LeaseRow) -> Result<(), Fault> {
    let Some(before) = before else {
        return run_once(connection, "leases", LEASE_INSERT, |values| rows::write_lease(values, after));
    };
    run_once(connection, "leases", LEASE_UPDATE, |values| rows::write_lease_change(values, (before, after)))
}

fn audit_values(values: &mut Values<'_, '_>, seq: LedgerSeq, ordinal: usize, row: &AuditRow) {
    values.subject(&row.subject);
    values.whole(seq.get());
    values.whole(u64::try_from(ordinal).unwrap_or(u64::MAX));
    values.text(row.verb.word());
    values.position(row.position);
    values.maybe_text(row.reason.as_deref());
    values.time(row.at);
    values.maybe_text(row.holder.as_ref().map(Holder::as_str));
    values.maybe_text(row.actor.as_ref().map(PrincipalName::as_str));
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    let own = vec![
        STEP,
        REACHED,
        ERA_INSERT,
        LEASE_INSERT,
        LEASE_UPDATE,
        LEASE_FORGET,
        CONTROL_INSERT,
        AUDIT_INSERT,
        REFUSAL_NOTE,
    ];
    [own, forgotten::texts(), group::texts(), intents::texts(), namespaces::texts(), operations::texts()]
        .concat()
}
