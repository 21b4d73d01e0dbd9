//! Writing the changes of a batch. Each statement repeats what the decision saw in its predicate, and its count of
//! rows is checked: a disagreement stops the batch, loudly.

use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::domain::counter::{LedgerSeq, Sequence};
use crate::domain::position::Position;
use crate::domain::resource::Address;
use crate::domain::time::Timestamp;
use crate::protocol::rows::{LeaseRow, NamespaceRow, OperationRecord, ResourceRow, TargetRow};

use super::super::changeset::{ChangeSet, RowChange, TargetChange};
use super::super::engine::EngineError;
use super::keys::{array, hex, hex_or_null};

const NAMESPACE: &str = "WITH RECURSIVE buckets(bucket) AS \
     (SELECT 0 UNION ALL SELECT bucket + 1 FROM buckets WHERE bucket < 255) \
     INSERT INTO namespaces SELECT bucket, ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM buckets";
const NEW_RESOURCES: &str = "INSERT INTO resources SELECT \
     value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, \
     value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15, \
     value ->> 16, value ->> 17, value ->> 18, unhex(value ->> 19), value ->> 20, value ->> 21 FROM json_each(?1)";
/// The last columns of each row are those that the decision saw; none of the registers may go back.
const RESOURCES: &str = "UPDATE resources SET \
     incarnation = j.value ->> 2, born_epoch = j.value ->> 3, born_token = j.value ->> 4, life = j.value ->> 5, \
     issued_epoch = j.value ->> 6, issued_token = j.value ->> 7, \
     floor_epoch = j.value ->> 8, floor_token = j.value ->> 9, \
     revoked_epoch = j.value ->> 10, revoked_token = j.value ->> 11, \
     applied_epoch = j.value ->> 12, applied_token = j.value ->> 13, applied_sequence = j.value ->> 14, \
     commit_no = j.value ->> 15, pruned_epoch = j.value ->> 16, pruned_token = j.value ->> 17, \
     pruned_sequence = j.value ->> 18, lease = unhex(j.value ->> 19), last_operation = j.value ->> 20, \
     changed_ms = j.value ->> 21 \
     FROM json_each(?1) AS j \
     WHERE resources.bucket = j.value ->> 0 AND resources.resource = j.value ->> 1 \
       AND resources.commit_no = j.value ->> 22 AND resources.incarnation = j.value ->> 23 \
       AND resources.floor_epoch = j.value ->> 24 AND resources.floor_token = j.value ->> 25 \
       AND resources.issued_epoch = j.value ->> 26 AND resources.issued_token = j.value ->> 27 \
       AND resources.life = j.value ->> 28 AND resources.revoked_epoch IS j.value ->> 29 \
       AND resources.revoked_token IS j.value ->> 30 \
       AND (resources.floor_epoch, resources.floor_token) <= (j.value ->> 8, j.value ->> 9) \
       AND (resources.issued_epoch, resources.issued_token) <= (j.value ->> 6, j.value ->> 7) \
       AND resources.commit_no <= j.value ->> 15 AND resources.incarnation <= j.value ->> 2";
const ERAS: &str = "INSERT INTO incarnations SELECT \
     value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1)";
const CLEAR: &str = "DELETE FROM targets WHERE bucket = ?1 AND resource = ?2";
const REMOVE: &str = "DELETE FROM targets WHERE bucket = ?1 AND resource = ?2 AND target = ?3";
const STORE: &str = "INSERT INTO targets VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
     ON CONFLICT (bucket, resource, target) DO UPDATE SET incarnation = excluded.incarnation, \
     commit_no = excluded.commit_no, content_type = excluded.content_type, size = excluded.size, \
     digest = excluded.digest, body = excluded.body WHERE targets.commit_no < excluded.commit_no";
const OPERATIONS: &str = "INSERT INTO operations SELECT \
     value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, unhex(value ->> 6), value ->> 7, \
     value ->> 8, value ->> 9, unhex(value ->> 10), value ->> 11, value ->> 12, value ->> 13, value ->> 14, \
     value ->> 15, value ->> 16, value ->> 17, unhex(value ->> 18) FROM json_each(?1)";
const NEW_LEASES: &str = "INSERT INTO leases SELECT \
     value ->> 0, unhex(value ->> 1), unhex(value ->> 2), unhex(value ->> 3), value ->> 4, value ->> 5, value ->> 6, \
     value ->> 7, value ->> 8, value ->> 9, unhex(value ->> 10), unhex(value ->> 11), value ->> 12, value ->> 13, \
     value ->> 14 FROM json_each(?1)";
const LEASES: &str = "UPDATE leases SET ttl_ms = j.value ->> 2, expires_ms = j.value ->> 3, state = j.value ->> 4 \
     FROM json_each(?1) AS j \
     WHERE leases.bucket = j.value ->> 0 AND leases.acquisition = unhex(j.value ->> 1) \
       AND leases.expires_ms = j.value ->> 5 AND leases.state = j.value ->> 6";
const AUDIT: &str = "INSERT INTO audit SELECT \
     value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, \
     value ->> 8 FROM json_each(?1)";
const PROGRESS: &str = "UPDATE ledger SET ledger_seq = ?1, clock_ms = ?2 WHERE one = 1 AND ledger_seq = ?1 - 1 AND clock_ms <= ?2";

/// Writes a batch's changes into the open transaction; `seq` is the number that its commit gets.
pub(super) async fn changes(
    connection: &mut SqliteConnection,
    changes: &ChangeSet,
    seq: LedgerSeq,
    now: Timestamp,
) -> Result<(), EngineError> {
    for row in changes.namespaces.values() {
        record_namespace(connection, row).await?;
    }
    let (known, new): (Vec<_>, Vec<_>) =
        changes.resources.values().partition(|change| change.before.is_some());
    every(
        connection,
        NEW_RESOURCES,
        new.iter().map(|change| Value::Array(resource(&change.after))).collect(),
    )
    .await?;
    every(connection, RESOURCES, known.into_iter().filter_map(resource_update).collect()).await?;
    let eras = changes.eras.iter().map(|era| {
        let (epoch, token) = pair(era.born);
        json!([era.resource.bucket().0, era.resource.as_str(), epoch, token, era.incarnation.get()])
    });
    every(connection, ERAS, eras.collect()).await?;
    for name in &changes.cleared {
        let clear = sqlx::query(CLEAR).bind(i64::from(name.bucket().0)).bind(name.as_str());
        clear.execute(&mut *connection).await?;
    }
    for (address, change) in &changes.targets {
        change_target(connection, address, change).await?;
    }
    every(connection, OPERATIONS, changes.operations.iter().map(operation).collect()).await?;
    let (known, new): (Vec<_>, Vec<_>) = changes.leases.values().partition(|change| change.before.is_some());
    every(connection, NEW_LEASES, new.iter().map(|change| lease(&change.after)).collect()).await?;
    every(connection, LEASES, known.into_iter().filter_map(lease_update).collect()).await?;
    let audit = changes.audit.iter().enumerate().map(|(ordinal, line)| {
        let (epoch, token) = pair(line.position);
        json!([
            line.resource.bucket().0,
            line.resource.as_str(),
            seq.get(),
            ordinal,
            line.verb.word(),
            epoch,
            token,
            line.reason,
            line.at.ms()
        ])
    });
    every(connection, AUDIT, audit.collect()).await?;
    progress(connection, seq, now).await
}

/// Counts the batch and remembers the time.
pub(super) async fn progress(
    connection: &mut SqliteConnection,
    seq: LedgerSeq,
    now: Timestamp,
) -> Result<(), EngineError> {
    let seq = i64::try_from(seq.get()).unwrap_or(i64::MAX);
    let done = sqlx::query(PROGRESS).bind(seq).bind(now.ms()).execute(connection).await?;
    counted("ledger", 1, done.rows_affected())
}

/// Runs a statement over rows, and counts that every one of them took effect.
async fn every(
    connection: &mut SqliteConnection,
    statement: &'static str,
    rows: Vec<Value>,
) -> Result<(), EngineError> {
    if rows.is_empty() {
        return Ok(());
    }
    let expected = rows.len();
    let done = sqlx::query(statement).bind(array(rows.into_iter())).execute(connection).await?;
    counted(statement, expected, done.rows_affected())
}

fn counted(statement: &str, expected: usize, found: u64) -> Result<(), EngineError> {
    if u64::try_from(expected) == Ok(found) {
        return Ok(());
    }
    let verb: String = statement.chars().take(40).collect();
    Err(EngineError::Inconsistent(format!("{found} of {expected} rows fitted the decision ({verb}…)")))
}

async fn record_namespace(connection: &mut SqliteConnection, row: &NamespaceRow) -> Result<(), EngineError> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let done = sqlx::query(NAMESPACE)
        .bind(row.namespace.as_str())
        .bind(number(row.epoch.get()))
        .bind(number(row.base.epoch.get()))
        .bind(number(row.base.token.get()))
        .bind(number(row.base_incarnation.get()))
        .bind(row.definition.to_string())
        .bind(i64::from(row.version))
        .execute(connection)
        .await?;
    counted("namespaces", 256, done.rows_affected())
}

async fn change_target(
    connection: &mut SqliteConnection,
    address: &Address,
    change: &TargetChange,
) -> Result<(), EngineError> {
    let bucket = i64::from(address.resource.bucket().0);
    let name = address.target.as_ref().map_or("", |target| target.as_str());
    match change {
        TargetChange::Removed => {
            let remove = sqlx::query(REMOVE).bind(bucket).bind(address.resource.as_str()).bind(name);
            // None is there when the batch itself had made it.
            remove.execute(connection).await?;
            Ok(())
        }
        TargetChange::Stored { row, body } => store(connection, bucket, address, name, row, body).await,
    }
}

async fn store(
    connection: &mut SqliteConnection,
    bucket: i64,
    address: &Address,
    name: &str,
    row: &TargetRow,
    body: &bytes::Bytes,
) -> Result<(), EngineError> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let done = sqlx::query(STORE)
        .bind(bucket)
        .bind(address.resource.as_str())
        .bind(name)
        .bind(number(row.tag.incarnation.get()))
        .bind(number(row.tag.commit.get()))
        .bind(row.content_type.as_ref().map(crate::domain::document::ContentType::as_str))
        .bind(number(row.size))
        .bind(row.digest.as_bytes().as_slice())
        .bind(body.as_ref())
        .execute(connection)
        .await?;
    counted("targets", 1, done.rows_affected())
}

const fn pair(position: Position) -> (u64, u64) {
    (position.epoch.get(), position.token.get())
}

fn pair_or_null(position: Option<Position>) -> (Option<u64>, Option<u64>) {
    (position.map(|one| one.epoch.get()), position.map(|one| one.token.get()))
}

fn resource(row: &ResourceRow) -> Vec<Value> {
    let (born, issued, floor) = (pair(row.born), pair(row.issued), pair(row.floor));
    let revoked = pair_or_null(row.revoked_through);
    let applied = pair_or_null(row.applied.map(|mark| mark.position));
    let pruned = pair_or_null(row.pruned_through.map(|mark| mark.position));
    let sequence =
        |mark: Option<crate::protocol::rows::Mark>| mark.and_then(|mark| mark.sequence).map(Sequence::get);
    vec![
        json!(row.resource.bucket().0),
        json!(row.resource.as_str()),
        json!(row.incarnation.get()),
        json!(born.0),
        json!(born.1),
        json!(row.life.word()),
        json!(issued.0),
        json!(issued.1),
        json!(floor.0),
        json!(floor.1),
        json!(revoked.0),
        json!(revoked.1),
        json!(applied.0),
        json!(applied.1),
        json!(sequence(row.applied)),
        json!(row.commit_no.get()),
        json!(pruned.0),
        json!(pruned.1),
        json!(sequence(row.pruned_through)),
        hex_or_null(row.lease.as_ref().map(|lease| lease.as_bytes().as_slice())),
        json!(row.last_operation.as_ref().map(crate::domain::operation::OperationId::as_str)),
        json!(row.changed_at.ms()),
    ]
}

fn resource_update(change: &RowChange<ResourceRow>) -> Option<Value> {
    let before = change.before.as_ref()?;
    let mut columns = resource(&change.after);
    let (floor, issued) = (pair(before.floor), pair(before.issued));
    let revoked = pair_or_null(before.revoked_through);
    columns.extend([
        json!(before.commit_no.get()),
        json!(before.incarnation.get()),
        json!(floor.0),
        json!(floor.1),
        json!(issued.0),
        json!(issued.1),
        json!(before.life.word()),
        json!(revoked.0),
        json!(revoked.1),
    ]);
    Some(Value::Array(columns))
}

fn operation(record: &OperationRecord) -> Value {
    let (epoch, token) = pair(record.position);
    let response = record.response.as_ref();
    json!([
        record.resource.bucket().0,
        record.resource.as_str(),
        record.incarnation.get(),
        record.operation_id.as_str(),
        record.target.as_ref().map_or("", |target| target.as_str()),
        record.method.word(),
        hex(record.fingerprint.as_bytes()),
        epoch,
        token,
        record.sequence.map(Sequence::get),
        hex_or_null(record.acquisition.as_ref().map(|tag| tag.0.as_slice())),
        record.state.word(),
        record.attempt,
        record.created_at.ms(),
        record.decided_at.map(Timestamp::ms),
        response.map(|saved| saved.done.word()),
        response.map(|saved| saved.commit.get()),
        response.and_then(|saved| saved.etag).map(|_| 1),
        hex_or_null(response.map(|saved| saved.body.as_ref())),
    ])
}

fn lease(row: &LeaseRow) -> Value {
    let (epoch, token) = pair(row.position);
    json!([
        row.resource.bucket().0,
        hex(row.acquisition.as_bytes()),
        hex(&row.nonce),
        hex(&row.key_id.0),
        row.resource.as_str(),
        epoch,
        token,
        row.holder.as_ref().map(crate::domain::lease::Holder::as_str),
        row.ttl.millis().get(),
        row.asked_ttl_ms,
        hex(row.request_id.as_bytes()),
        hex(&row.request_key.0),
        row.granted_at.ms(),
        row.expires_at.ms(),
        row.state.word(),
    ])
}

fn lease_update(change: &RowChange<LeaseRow>) -> Option<Value> {
    let (before, after) = (change.before.as_ref()?, &change.after);
    Some(json!([
        after.resource.bucket().0,
        hex(after.acquisition.as_bytes()),
        after.ttl.millis().get(),
        after.expires_at.ms(),
        after.state.word(),
        before.expires_at.ms(),
        before.state.word(),
    ]))
}
