//! Rows of the tables, read into the rows of the rules. A value that the rules cannot hold is an error, never a guess.

use bytes::Bytes;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::domain::counter::{CommitNo, Epoch, Incarnation, LedgerSeq, Sequence, Token};
use crate::domain::document::{BodyDigest, ContentType};
use crate::domain::lease::{AcquisitionHash, AcquisitionTag, Holder, LeaseState, Ttl};
use crate::domain::operation::{Fingerprint, Method, OperationId, OperationState};
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Namespace, ResourceName, Target};
use crate::domain::seal::KeyId;
use crate::domain::time::Timestamp;
use crate::protocol::rows::{
    Done, LeaseRow, Life, Mark, NamespaceRow, OperationRecord, RequestKey, ResourceRow, SavedResponse,
    TargetRow,
};

/// A row that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column} cannot be read: {reason}")]
pub(super) struct BadRow {
    column: String,
    reason: String,
}

type Read<T> = Result<T, BadRow>;

fn bad(column: &str, reason: impl std::fmt::Display) -> BadRow {
    BadRow { column: column.to_owned(), reason: format!("{reason}") }
}

fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Read<T>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).map_err(|error| bad(column, error))
}

fn unsigned(row: &SqliteRow, column: &str) -> Read<u64> {
    let value: i64 = get(row, column)?;
    u64::try_from(value).map_err(|error| bad(column, error))
}

fn parsed<T, E: std::fmt::Display>(
    row: &SqliteRow,
    column: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Read<T> {
    let text: &str = get(row, column)?;
    parse(text).map_err(|error| bad(column, error))
}

fn word<T>(row: &SqliteRow, column: &str, from: impl FnOnce(&str) -> Option<T>) -> Read<T> {
    let text: &str = get(row, column)?;
    from(text).ok_or_else(|| bad(column, format!("unknown word {text:?}")))
}

fn fixed<const N: usize>(row: &SqliteRow, column: &str) -> Read<[u8; N]> {
    let bytes: &[u8] = get(row, column)?;
    bytes.try_into().map_err(|error| bad(column, error))
}

fn fixed_or_none<const N: usize>(row: &SqliteRow, column: &str) -> Read<Option<[u8; N]>> {
    let bytes: Option<&[u8]> = get(row, column)?;
    bytes.map(|bytes| bytes.try_into().map_err(|error| bad(column, error))).transpose()
}

macro_rules! counter {
    ($name:ident, $kind:ty) => {
        fn $name(row: &SqliteRow, column: &str) -> Read<$kind> {
            <$kind>::new(unsigned(row, column)?).ok_or_else(|| bad(column, "out of range"))
        }
    };
}
counter!(epoch, Epoch);
counter!(token, Token);
counter!(incarnation, Incarnation);
counter!(commit, CommitNo);

fn sequence(row: &SqliteRow, column: &str) -> Read<Option<Sequence>> {
    match get::<Option<i64>>(row, column)? {
        None => Ok(None),
        Some(value) => u64::try_from(value)
            .ok()
            .and_then(Sequence::new)
            .map(Some)
            .ok_or_else(|| bad(column, "out of range")),
    }
}

fn position(row: &SqliteRow, epoch_column: &str, token_column: &str) -> Read<Position> {
    Ok(Position::new(epoch(row, epoch_column)?, token(row, token_column)?))
}

fn position_or_none(row: &SqliteRow, epoch_column: &str, token_column: &str) -> Read<Option<Position>> {
    match get::<Option<i64>>(row, epoch_column)? {
        None => Ok(None),
        Some(_) => position(row, epoch_column, token_column).map(Some),
    }
}

fn time(row: &SqliteRow, column: &str) -> Read<Timestamp> {
    get(row, column).map(Timestamp::from_ms)
}

fn target_name(row: &SqliteRow) -> Read<Option<Target>> {
    match get::<&str>(row, "target")? {
        "" => Ok(None),
        name => Target::parse(name).map(Some).map_err(|error| bad("target", error)),
    }
}

pub(super) fn ledger_seq(row: &SqliteRow) -> Read<LedgerSeq> {
    LedgerSeq::new(unsigned(row, "ledger_seq")?).ok_or_else(|| bad("ledger_seq", "out of range"))
}

pub(super) fn resource_name(row: &SqliteRow) -> Read<ResourceName> {
    parsed(row, "resource", ResourceName::parse)
}

pub(super) fn incarnation_and_birth(row: &SqliteRow) -> Read<(Incarnation, Position)> {
    Ok((incarnation(row, "incarnation")?, position(row, "born_epoch", "born_token")?))
}

pub(super) fn namespace(row: &SqliteRow) -> Read<NamespaceRow> {
    Ok(NamespaceRow {
        namespace: parsed(row, "namespace", Namespace::parse)?,
        epoch: epoch(row, "epoch")?,
        base: position(row, "base_epoch", "base_token")?,
        base_incarnation: incarnation(row, "base_incarnation")?,
        definition: parsed(row, "definition", str::parse)?,
        version: get(row, "version")?,
    })
}

pub(super) fn resource(row: &SqliteRow) -> Read<ResourceRow> {
    let applied = position_or_none(row, "applied_epoch", "applied_token")?;
    let pruned = position_or_none(row, "pruned_epoch", "pruned_token")?;
    let applied_sequence = sequence(row, "applied_sequence")?;
    let pruned_sequence = sequence(row, "pruned_sequence")?;
    let last: Option<&str> = get(row, "last_operation")?;
    Ok(ResourceRow {
        resource: resource_name(row)?,
        incarnation: incarnation(row, "incarnation")?,
        born: position(row, "born_epoch", "born_token")?,
        life: word(row, "life", Life::from_word)?,
        issued: position(row, "issued_epoch", "issued_token")?,
        floor: position(row, "floor_epoch", "floor_token")?,
        revoked_through: position_or_none(row, "revoked_epoch", "revoked_token")?,
        applied: applied.map(|position| Mark { position, sequence: applied_sequence }),
        commit_no: commit(row, "commit_no")?,
        pruned_through: pruned.map(|position| Mark { position, sequence: pruned_sequence }),
        lease: fixed_or_none(row, "lease")?.map(AcquisitionHash::from_bytes),
        last_operation: last
            .map(OperationId::parse)
            .transpose()
            .map_err(|error| bad("last_operation", error))?,
        changed_at: time(row, "changed_ms")?,
    })
}

pub(super) fn target(row: &SqliteRow) -> Read<TargetRow> {
    let content_type: Option<&str> = get(row, "content_type")?;
    Ok(TargetRow {
        target: target_name(row)?,
        tag: EntityTag { incarnation: incarnation(row, "incarnation")?, commit: commit(row, "commit_no")? },
        content_type: content_type
            .map(ContentType::parse)
            .transpose()
            .map_err(|error| bad("content_type", error))?,
        size: unsigned(row, "size")?,
        digest: BodyDigest::from_bytes(fixed(row, "digest")?),
    })
}

pub(super) fn body(row: &SqliteRow) -> Read<Bytes> {
    get::<Vec<u8>>(row, "body").map(Bytes::from)
}

pub(super) fn operation(row: &SqliteRow) -> Read<OperationRecord> {
    Ok(OperationRecord {
        resource: resource_name(row)?,
        incarnation: incarnation(row, "incarnation")?,
        operation_id: parsed(row, "operation_id", OperationId::parse)?,
        target: target_name(row)?,
        method: word(row, "method", Method::from_word)?,
        fingerprint: Fingerprint::from_bytes(fixed(row, "fingerprint")?),
        position: position(row, "epoch", "token")?,
        sequence: sequence(row, "sequence")?,
        acquisition: fixed_or_none(row, "acquisition")?.map(AcquisitionTag),
        state: word(row, "state", OperationState::from_word)?,
        attempt: get(row, "attempt")?,
        response: response(row)?,
        created_at: time(row, "created_ms")?,
        decided_at: get::<Option<i64>>(row, "decided_ms")?.map(Timestamp::from_ms),
    })
}

fn response(row: &SqliteRow) -> Read<Option<SavedResponse>> {
    let Some(done) = get::<Option<&str>>(row, "done")? else { return Ok(None) };
    let tagged: Option<i64> = get(row, "etag")?;
    let made = commit(row, "commit_no")?;
    let tag = EntityTag { incarnation: incarnation(row, "incarnation")?, commit: made };
    Ok(Some(SavedResponse {
        done: Done::from_word(done).ok_or_else(|| bad("done", format!("unknown word {done:?}")))?,
        commit: made,
        etag: tagged.map(|_| tag),
        body: Bytes::from(get::<Vec<u8>>(row, "response")?),
    }))
}

pub(super) fn lease(row: &SqliteRow) -> Read<LeaseRow> {
    let holder: Option<&str> = get(row, "holder")?;
    let asked: Option<i64> = get(row, "asked_ttl_ms")?;
    Ok(LeaseRow {
        acquisition: AcquisitionHash::from_bytes(fixed(row, "acquisition")?),
        nonce: fixed(row, "nonce")?,
        key_id: KeyId(fixed(row, "key_id")?),
        resource: resource_name(row)?,
        position: position(row, "epoch", "token")?,
        holder: holder.map(Holder::parse).transpose().map_err(|error| bad("holder", error))?,
        ttl: Ttl::from_ms(unsigned(row, "ttl_ms")?),
        asked_ttl_ms: asked.map(u64::try_from).transpose().map_err(|error| bad("asked_ttl_ms", error))?,
        request_id: Uuid::from_bytes(fixed(row, "request_id")?),
        request_key: RequestKey(fixed(row, "request_key")?),
        granted_at: time(row, "granted_ms")?,
        expires_at: time(row, "expires_ms")?,
        state: word(row, "state", LeaseState::from_word)?,
    })
}
