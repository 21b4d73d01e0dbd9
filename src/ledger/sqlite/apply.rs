//! The changes of a batch, written in a few statements.
//!
//! The fence is repeated in the predicates and the rows are counted: zero rows where the rules admitted means that
//! database and rules disagree, and then nothing is committed. Nothing here replaces a row that it does not expect.

use sqlx::SqliteConnection;

use crate::domain::counter::{LedgerSeq, Sequence};
use crate::domain::document::ContentType;
use crate::domain::lease::Holder;
use crate::domain::operation::OperationId;
use crate::domain::resource::{Address, ResourceName};
use crate::domain::time::Timestamp;
use crate::limits::SQLITE_STATEMENT_BODY_BYTES;
use crate::protocol::rows::{
    AuditRow, EraRow, LeaseRow, NamespaceRow, OperationRecord, ResourceRow, SavedResponse,
};

use super::super::changeset::{ChangeSet, RowChange, TargetChange};
use super::columns::Columns;
use super::fault::Fault;
use super::rows::target_text;
use super::tuples::{Cells, Statement};

/// One step forward, and the effective time with it. The time never goes back.
const STEP: &str = "UPDATE ledger SET ledger_seq = ledger_seq + 1, clock_ms = max(clock_ms, ?1) WHERE one = 1 \
                    RETURNING ledger_seq";

const NAMESPACES_INSERT: Statement = Statement {
    head: "INSERT INTO namespaces (bucket, namespace, epoch, base_epoch, base_token, base_incarnation, \
           definition, version) \
           WITH RECURSIVE buckets (bucket) AS (VALUES (0) UNION ALL SELECT bucket + 1 FROM buckets WHERE bucket < 255) \
           SELECT bucket, column1, column2, column3, column4, column5, column6, column7 FROM",
    width: 7,
    tail: "CROSS JOIN buckets WHERE column1 IS NOT NULL",
};

/// Copies of a namespace: one per bucket.
const COPIES: u64 = 256;

const RESOURCES_INSERT: Statement = Statement {
    head: "INSERT INTO resources (bucket, resource, incarnation, born_epoch, born_token, life, issued_epoch, \
           issued_token, floor_epoch, floor_token, revoked_epoch, revoked_token, applied_epoch, applied_token, \
           applied_sequence, commit_no, pruned_epoch, pruned_token, pruned_sequence, lease, last_operation, \
           changed_ms) SELECT * FROM",
    width: 22,
    tail: "WHERE column1 IS NOT NULL",
};

/// Columns 3 to 22 are the new row, 23 to 35 what the decision saw. The last lines are the fence itself: even for a
/// row that is as the decision saw it, no register goes back.
const RESOURCES_UPDATE: Statement = Statement {
    head: "UPDATE resources SET incarnation = v.column3, born_epoch = v.column4, born_token = v.column5, \
           life = v.column6, issued_epoch = v.column7, issued_token = v.column8, floor_epoch = v.column9, \
           floor_token = v.column10, revoked_epoch = v.column11, revoked_token = v.column12, \
           applied_epoch = v.column13, applied_token = v.column14, applied_sequence = v.column15, \
           commit_no = v.column16, pruned_epoch = v.column17, pruned_token = v.column18, \
           pruned_sequence = v.column19, lease = v.column20, last_operation = v.column21, \
           changed_ms = v.column22 FROM",
    width: 35,
    tail: "AS v WHERE resources.bucket = v.column1 AND resources.resource = v.column2 \
           AND resources.incarnation = v.column23 AND resources.life = v.column24 \
           AND resources.issued_epoch = v.column25 AND resources.issued_token = v.column26 \
           AND resources.floor_epoch = v.column27 AND resources.floor_token = v.column28 \
           AND resources.revoked_epoch IS v.column29 AND resources.revoked_token IS v.column30 \
           AND resources.applied_epoch IS v.column31 AND resources.applied_token IS v.column32 \
           AND resources.applied_sequence IS v.column33 AND resources.commit_no = v.column34 \
           AND resources.lease IS v.column35 \
           AND (resources.floor_epoch, resources.floor_token) <= (v.column9, v.column10) \
           AND (resources.issued_epoch, resources.issued_token) <= (v.column7, v.column8) \
           AND resources.commit_no <= v.column16 AND resources.incarnation <= v.column3",
};

const ERAS_INSERT: Statement = Statement {
    head: "INSERT INTO incarnations (bucket, resource, born_epoch, born_token, incarnation) SELECT * FROM",
    width: 5,
    tail: "WHERE column1 IS NOT NULL",
};

const TARGETS_CLEAR: Statement = Statement {
    head: "DELETE FROM targets WHERE rowid IN (SELECT t.rowid FROM",
    width: 2,
    tail: "AS k CROSS JOIN targets AS t ON t.bucket = k.column1 AND t.resource = k.column2)",
};

const TARGETS_REMOVE: Statement = Statement {
    head: "DELETE FROM targets WHERE rowid IN (SELECT t.rowid FROM",
    width: 3,
    tail: "AS k CROSS JOIN targets AS t ON t.bucket = k.column1 AND t.resource = k.column2 \
           AND t.target = k.column3)",
};

/// Content is replaced only by that of a later commit.
const TARGETS_STORE: Statement = Statement {
    head: "INSERT INTO targets (bucket, resource, target, incarnation, commit_no, content_type, size, digest, body) \
           SELECT * FROM",
    width: 9,
    tail: "WHERE column1 IS NOT NULL \
           ON CONFLICT (bucket, resource, target) DO UPDATE SET incarnation = excluded.incarnation, \
           commit_no = excluded.commit_no, content_type = excluded.content_type, size = excluded.size, \
           digest = excluded.digest, body = excluded.body WHERE targets.commit_no < excluded.commit_no",
};

const OPERATIONS_INSERT: Statement = Statement {
    head: "INSERT INTO operations (bucket, resource, incarnation, operation_id, target, method, fingerprint, \
           position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, decided_ms, done, \
           commit_no, etag_incarnation, etag_commit, response) SELECT * FROM",
    width: 20,
    tail: "WHERE column1 IS NOT NULL",
};

const LEASES_INSERT: Statement = Statement {
    head: "INSERT INTO leases (bucket, acquisition, nonce, key_id, resource, position_epoch, position_token, holder, \
           ttl_ms, asked_ttl_ms, request_id, request_key, granted_ms, expires_ms, state) SELECT * FROM",
    width: 15,
    tail: "WHERE column1 IS NOT NULL",
};

/// Columns 3 to 5 are what a renewal or an end changes, 6 and 7 what the decision saw.
const LEASES_UPDATE: Statement = Statement {
    head: "UPDATE leases SET ttl_ms = v.column3, expires_ms = v.column4, state = v.column5 FROM",
    width: 7,
    tail: "AS v WHERE leases.bucket = v.column1 AND leases.acquisition = v.column2 \
           AND leases.expires_ms = v.column6 AND leases.state = v.column7",
};

const AUDIT_INSERT: Statement = Statement {
    head: "INSERT INTO audit (bucket, resource, ledger_seq, ordinal, verb, position_epoch, position_token, reason, \
           at_ms) SELECT * FROM",
    width: 9,
    tail: "WHERE column1 IS NOT NULL",
};

/// Writes a batch, and tells how far the ledger comes with it. A transaction is open; the caller commits it.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    changes: &ChangeSet,
    now: Timestamp,
) -> Result<LedgerSeq, Fault> {
    let seq = step(connection, now).await?;
    write_namespaces(connection, changes).await?;
    write_resources(connection, changes).await?;
    ERAS_INSERT.run_exactly("incarnations", connection, &changes.eras, era_cells).await?;
    TARGETS_CLEAR.run(connection, &changes.cleared, cleared_cells).await?;
    write_targets(connection, changes).await?;
    OPERATIONS_INSERT.run_exactly("operations", connection, &changes.operations, operation_cells).await?;
    write_leases(connection, changes).await?;
    let lines: Vec<(usize, &AuditRow)> = changes.audit.iter().enumerate().collect();
    AUDIT_INSERT
        .run_exactly("audit", connection, &lines, |cells, line| audit_cells(cells, seq, *line))
        .await?;
    Ok(seq)
}

/// Counts one step of the ledger, and writes the time down.
pub(super) async fn step(connection: &mut SqliteConnection, now: Timestamp) -> Result<LedgerSeq, Fault> {
    let rows = sqlx::query(STEP).bind(now.ms()).fetch_all(connection).await?;
    match rows.as_slice() {
        [row] => Columns::of(row).counter(LedgerSeq::new),
        rows => Err(Fault::Disagreed {
            table: "ledger",
            wanted: 1,
            found: u64::try_from(rows.len()).unwrap_or(u64::MAX),
        }),
    }
}

async fn write_namespaces(connection: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), Fault> {
    let rows: Vec<&NamespaceRow> = changes.namespaces.values().collect();
    let found = NAMESPACES_INSERT
        .run(connection, &rows, |cells, row| {
            cells.text(row.namespace.as_str());
            cells.whole(row.epoch.get());
            cells.position(row.base);
            cells.whole(row.base_incarnation.get());
            cells.text(&row.definition.to_string());
            cells.whole(u64::from(row.version));
        })
        .await?;
    let wanted = COPIES.saturating_mul(u64::try_from(rows.len()).unwrap_or(u64::MAX));
    if found == wanted { Ok(()) } else { Err(Fault::Disagreed { table: "namespaces", wanted, found }) }
}

async fn write_resources(connection: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), Fault> {
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for RowChange { before, after } in changes.resources.values() {
        match before {
            None => new.push(after),
            Some(before) => known.push((before, after)),
        }
    }
    RESOURCES_INSERT
        .run_exactly("resources", connection, &new, |cells, row| resource_cells(cells, row))
        .await?;
    RESOURCES_UPDATE
        .run_exactly("resources", connection, &known, |cells, (before, after)| {
            resource_cells(cells, after);
            seen_cells(cells, before);
        })
        .await
}

/// Removals first, then the stores, in statements of a bounded size.
async fn write_targets(connection: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), Fault> {
    let (mut removed, mut stored) = (Vec::new(), Vec::new());
    for (address, change) in &changes.targets {
        match change {
            TargetChange::Removed => removed.push(address),
            TargetChange::Stored { .. } => stored.push((address, change)),
        }
    }
    TARGETS_REMOVE.run(connection, &removed, |cells, address| address_cells(cells, address)).await?;
    let mut rest = stored.as_slice();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(bounded(rest));
        TARGETS_STORE
            .run_exactly("targets", connection, part, |cells, one| stored_cells(cells, *one))
            .await?;
        rest = after;
    }
    Ok(())
}

/// How many of these, at least one, have bodies that go into one statement.
fn bounded(stored: &[(&Address, &TargetChange)]) -> usize {
    let mut bytes = 0_usize;
    let fits = |(_, change): &&(&Address, &TargetChange)| {
        bytes = bytes.saturating_add(body_bytes(change));
        bytes <= SQLITE_STATEMENT_BODY_BYTES
    };
    stored.iter().take_while(fits).count().max(1)
}

fn body_bytes(change: &TargetChange) -> usize {
    match change {
        TargetChange::Stored { row: _, body } => body.len(),
        TargetChange::Removed => 0,
    }
}

async fn write_leases(connection: &mut SqliteConnection, changes: &ChangeSet) -> Result<(), Fault> {
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for RowChange { before, after } in changes.leases.values() {
        match before {
            None => new.push(after),
            Some(before) => known.push((before, after)),
        }
    }
    LEASES_INSERT.run_exactly("leases", connection, &new, |cells, row| lease_cells(cells, row)).await?;
    LEASES_UPDATE
        .run_exactly("leases", connection, &known, |cells, (before, after)| {
            cells.bucket(after.resource.bucket());
            cells.blob(after.acquisition.as_bytes());
            cells.whole(after.ttl.millis().get());
            cells.time(after.expires_at);
            cells.text(after.state.word());
            cells.time(before.expires_at);
            cells.text(before.state.word());
        })
        .await
}

fn name_cells(cells: &mut Cells, resource: &ResourceName) {
    cells.bucket(resource.bucket());
    cells.text(resource.as_str());
}

fn address_cells(cells: &mut Cells, address: &Address) {
    name_cells(cells, &address.resource);
    cells.text(target_text(address.target.as_ref()));
}

fn resource_cells(cells: &mut Cells, row: &ResourceRow) {
    name_cells(cells, &row.resource);
    cells.whole(row.incarnation.get());
    cells.position(row.born);
    cells.text(row.life.word());
    cells.position(row.issued);
    cells.position(row.floor);
    cells.maybe_position(row.revoked_through);
    cells.maybe_mark(row.applied);
    cells.whole(row.commit_no.get());
    cells.maybe_mark(row.pruned_through);
    cells.maybe_blob(row.lease.as_ref().map(|lease| lease.as_bytes().as_slice()));
    cells.maybe_text(row.last_operation.as_ref().map(OperationId::as_str));
    cells.time(row.changed_at);
}

/// The registers that the decision was made on.
fn seen_cells(cells: &mut Cells, row: &ResourceRow) {
    cells.whole(row.incarnation.get());
    cells.text(row.life.word());
    cells.position(row.issued);
    cells.position(row.floor);
    cells.maybe_position(row.revoked_through);
    cells.maybe_mark(row.applied);
    cells.whole(row.commit_no.get());
    cells.maybe_blob(row.lease.as_ref().map(|lease| lease.as_bytes().as_slice()));
}

fn era_cells(cells: &mut Cells, row: &EraRow) {
    name_cells(cells, &row.resource);
    cells.position(row.born);
    cells.whole(row.incarnation.get());
}

fn cleared_cells(cells: &mut Cells, resource: &ResourceName) {
    name_cells(cells, resource);
}

fn stored_cells(cells: &mut Cells, (address, change): (&Address, &TargetChange)) {
    let TargetChange::Stored { row, body } = change else { return };
    address_cells(cells, address);
    cells.whole(row.tag.incarnation.get());
    cells.whole(row.tag.commit.get());
    cells.maybe_text(row.content_type.as_ref().map(ContentType::as_str));
    cells.whole(row.size);
    cells.blob(row.digest.as_bytes());
    cells.blob(body);
}

fn operation_cells(cells: &mut Cells, record: &OperationRecord) {
    name_cells(cells, &record.resource);
    cells.whole(record.incarnation.get());
    cells.text(record.operation_id.as_str());
    cells.text(target_text(record.target.as_ref()));
    cells.text(record.method.word());
    cells.blob(record.fingerprint.as_bytes());
    cells.position(record.position);
    cells.maybe_whole(record.sequence.map(Sequence::get));
    cells.maybe_blob(record.acquisition.as_ref().map(|tag| tag.0.as_slice()));
    cells.text(record.state.word());
    cells.whole(u64::from(record.attempt));
    cells.time(record.created_at);
    cells.maybe_time(record.decided_at);
    response_cells(cells, record.response.as_ref());
}

/// Five columns.
fn response_cells(cells: &mut Cells, response: Option<&SavedResponse>) {
    let etag = response.and_then(|response| response.etag);
    cells.maybe_text(response.map(|response| response.done.word()));
    cells.maybe_whole(response.map(|response| response.commit.get()));
    cells.maybe_whole(etag.map(|tag| tag.incarnation.get()));
    cells.maybe_whole(etag.map(|tag| tag.commit.get()));
    cells.maybe_blob(response.map(|response| response.body.as_ref()));
}

fn lease_cells(cells: &mut Cells, row: &LeaseRow) {
    cells.bucket(row.resource.bucket());
    cells.blob(row.acquisition.as_bytes());
    cells.blob(&row.nonce);
    cells.blob(&row.key_id.0);
    cells.text(row.resource.as_str());
    cells.position(row.position);
    cells.maybe_text(row.holder.as_ref().map(Holder::as_str));
    cells.whole(row.ttl.millis().get());
    cells.maybe_whole(row.asked_ttl_ms);
    cells.blob(row.request_id.as_bytes());
    cells.blob(&row.request_key.0);
    cells.time(row.granted_at);
    cells.time(row.expires_at);
    cells.text(row.state.word());
}

fn audit_cells(cells: &mut Cells, seq: LedgerSeq, (ordinal, row): (usize, &AuditRow)) {
    name_cells(cells, &row.resource);
    cells.whole(seq.get());
    cells.whole(u64::try_from(ordinal).unwrap_or(u64::MAX));
    cells.text(row.verb.word());
    cells.position(row.position);
    cells.maybe_text(row.reason.as_deref());
    cells.time(row.at);
}

#[cfg(test)]
pub(super) fn texts() -> Vec<String> {
    let statements = [
        NAMESPACES_INSERT,
        RESOURCES_INSERT,
        RESOURCES_UPDATE,
        ERAS_INSERT,
        TARGETS_CLEAR,
        TARGETS_REMOVE,
        TARGETS_STORE,
        OPERATIONS_INSERT,
        LEASES_INSERT,
        LEASES_UPDATE,
        AUDIT_INSERT,
    ];
    statements.iter().flat_map(Statement::texts).chain([STEP.to_owned()]).collect()
}
