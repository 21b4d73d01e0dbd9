//! Undecided operations: those of a resource, those whose next step is due, and the body of one of them.

use futures_util::TryStreamExt;
use sqlx::postgres::PgRow;

use crate::domain::operation::OperationState;
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Payload;
use crate::protocol::rows::IntentRow;
use crate::protocol::snapshot::OperationKey;

use super::super::super::cells::ReadCells;
use super::super::super::pieces::Assembly;
use super::super::super::read::DuePlace;
use super::super::super::rows::{self, intent_columns};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::{Fields, bytes_of};
use super::{bucket_of, signed};

const OF_RESOURCE: &str = concat!(
    "SELECT ROW(",
    intent_columns!(),
    ") FROM intents AS a WHERE a.bucket = $1 AND a.resource = $2 \
     ORDER BY a.created_ms, a.incarnation, a.operation_id"
);

/// Through the index of when the next step is due.
const DUE: &str = concat!(
    "SELECT ROW(a.resource, ",
    intent_columns!(),
    ") FROM intents AS a WHERE a.due_ms <= $1 AND a.due_ms >= $2 \
     AND (a.due_ms, a.resource, a.incarnation, a.operation_id) > ($2, $3, $4, $5) \
     ORDER BY a.due_ms, a.resource, a.incarnation, a.operation_id LIMIT $6"
);

/// They are few, and this is asked by people.
const IN_STATE: &str = concat!(
    "SELECT ROW(a.resource, ",
    intent_columns!(),
    ") FROM intents AS a WHERE a.state = $1 \
     ORDER BY a.created_ms, a.resource, a.incarnation, a.operation_id LIMIT $2"
);

/// The announcement with the first piece of its body, and then the others.
const BODY: &str = concat!(
    "SELECT 0::bigint AS piece, ROW(",
    intent_columns!(),
    "), a.body FROM intents AS a \
     WHERE a.bucket = $1 AND a.resource = $2 AND a.incarnation = $3 AND a.operation_id = $4 \
     UNION ALL SELECT i.piece, NULL::record, i.bytes FROM intent_pieces AS i \
     WHERE i.bucket = $1 AND i.resource = $2 AND i.incarnation = $3 AND i.operation_id = $4 ORDER BY piece"
);

/// The undecided operations of a resource, the oldest first.
pub(super) async fn of_resource(live: &mut Live, resource: &ResourceName) -> Result<Vec<IntentRow>, Fault> {
    let rows = sqlx::query(OF_RESOURCE)
        .bind(bucket_of(resource))
        .bind(resource.as_str())
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| rows::intent(resource.clone(), &mut Fields::required(row, 0)?)).collect()
}

pub(super) async fn due(
    live: &mut Live,
    now: Timestamp,
    after: Option<&DuePlace>,
    limit: u32,
) -> Result<Vec<IntentRow>, Fault> {
    let (at, resource, incarnation, operation) = match after {
        Some((at, (resource, incarnation, operation))) => {
            (at.ms(), resource.as_str(), signed(incarnation.get())?, operation.as_str())
        }
        None => (i64::MIN, "", 0, ""),
    };
    let rows = sqlx::query(DUE)
        .bind(now.ms())
        .bind(at)
        .bind(resource)
        .bind(incarnation)
        .bind(operation)
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    listed(&rows)
}

/// Undecided operations in this state, the oldest first.
pub(super) async fn undecided(
    live: &mut Live,
    state: OperationState,
    limit: u32,
) -> Result<Vec<IntentRow>, Fault> {
    let rows = sqlx::query(IN_STATE)
        .bind(state.word())
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    listed(&rows)
}

fn listed(rows: &[PgRow]) -> Result<Vec<IntentRow>, Fault> {
    rows.iter()
        .map(|row| {
            let mut fields = Fields::required(row, 0)?;
            let resource = fields.parsed(ResourceName::parse)?;
            rows::intent(resource, &mut fields)
        })
        .collect()
}

/// The body of an undecided operation, put together from its pieces as they come.
pub(super) async fn payload(live: &mut Live, key: &OperationKey) -> Result<Option<Payload>, Fault> {
    let (resource, incarnation, operation_id) = key;
    let mut rows = sqlx::query(BODY)
        .bind(bucket_of(resource))
        .bind(resource.as_str())
        .bind(signed(incarnation.get())?)
        .bind(operation_id.as_str())
        .persistent(!live.is_pooled)
        .fetch(&mut live.connection);
    let mut body: Option<Assembly> = None;
    while let Some(row) = rows.try_next().await? {
        let bytes = bytes_of(&row, 2)?.unwrap_or_default();
        match (&mut body, Fields::of(&row, 1)?) {
            (None, Some(mut fields)) => {
                let intent = rows::intent(resource.clone(), &mut fields)?;
                body = Some(Assembly::of(intent.request, bytes));
            }
            (Some(body), None) => body.push(bytes),
            (Some(_), Some(_)) | (None, None) => {
                return Err(Fault::unreadable(format!("the body of {operation_id:?} is in disorder")));
            }
        }
    }
    let Some(body) = body else { return Ok(None) };
    let incomplete = || Fault::unreadable(format!("pieces of the body of {operation_id:?} are missing"));
    body.whole().map(Some).ok_or_else(incomplete)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OF_RESOURCE, DUE, BODY]
}
