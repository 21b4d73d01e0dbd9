//! What happened, by transaction.
//!
//! Transactions end in another order than that of their numbers. So only what lies below the oldest one that still runs is
//! told: nothing can come before that any more. A writer anywhere on the server that stays open holds the telling up, and
//! loses nothing.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::domain::resource::ResourceName;

use super::super::super::cells::ReadCells;
use super::super::super::events::{EventPlace, EventsEnd, EventsRead, OperationEntry, Reached};
use super::super::super::rows::{self, audit_columns, operation_columns};
use super::super::connect::{Live, Shared};
use super::super::fault::Fault;
use super::super::fields::Fields;
use super::{PostgresReader, clock, signed};

/// The last transaction below the oldest one that still runs, and the time.
const VIEW: &str = concat!("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1, ", clock!());

/// The same, and the last transaction up to there that recorded something.
const END: &str = concat!(
    "SELECT v.last, ",
    clock!(),
    ", greatest((SELECT u.transaction_id FROM audit AS u WHERE u.transaction_id <= v.last \
     ORDER BY u.transaction_id DESC LIMIT 1), (SELECT o.transaction_id FROM operations AS o \
     WHERE o.transaction_id <= v.last ORDER BY o.transaction_id DESC LIMIT 1), 0) FROM (\
     SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS last) AS v"
);

/// `$1` and `$2` the place behind which the lines stand, `$3` the last transaction of the view.
const ACTS: &str = concat!(
    "SELECT ROW(",
    audit_columns!("transaction_id"),
    ") FROM audit AS u WHERE u.transaction_id BETWEEN $1 AND $3 AND (u.transaction_id, u.ordinal) > ($1, $2) \
     ORDER BY u.transaction_id, u.ordinal LIMIT $4"
);

/// Whole transactions. The bytes of an answer are not read.
const OPERATIONS: &str = concat!(
    "SELECT ROW(o.transaction_id, o.resource, ",
    operation_columns!("CASE WHEN o.response IS NULL THEN NULL ELSE ''::bytea END"),
    ") FROM operations AS o WHERE o.transaction_id BETWEEN $1 AND $2 \
     ORDER BY o.transaction_id FETCH FIRST ($3) ROWS WITH TIES"
);

fn view(row: &PgRow) -> Result<EventPlace, Fault> {
    let last = Reached::all_of(transaction(row.try_get(0)?));
    Ok(EventPlace { acts: last, operations: last })
}

fn transaction(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) async fn end(live: &mut Live, shared: &Shared) -> Result<EventsEnd, Fault> {
    let row = sqlx::query(END).persistent(!live.is_pooled).fetch_one(&mut live.connection).await?;
    let last = Reached::all_of(transaction(row.try_get(2)?));
    let now = PostgresReader::now(shared, &row, 1)?;
    Ok(EventsEnd { view: view(&row)?, last: EventPlace { acts: last, operations: last }, now })
}

/// The view first: what it counts as ended, the statements after it see.
pub(super) async fn behind(
    live: &mut Live,
    shared: &Shared,
    from: &EventPlace,
    limit: u32,
) -> Result<EventsRead, Fault> {
    let row = sqlx::query(VIEW).persistent(!live.is_pooled).fetch_one(&mut live.connection).await?;
    let (view, now) = (view(&row)?, PostgresReader::now(shared, &row, 1)?);
    let last = signed(view.acts.transaction)?;
    let lines = sqlx::query(ACTS)
        .bind(signed(from.acts.transaction)?)
        .bind(signed(from.acts.ordinal)?)
        .bind(last)
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let acts =
        lines.iter().map(|row| rows::audit(&mut Fields::required(row, 0)?)).collect::<Result<_, _>>()?;
    let records = sqlx::query(OPERATIONS)
        .bind(signed(from.operations.transaction)?)
        .bind(last)
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let mut operations = records.iter().map(operation).collect::<Result<Vec<_>, Fault>>()?;
    numbered(&mut operations);
    operations.retain(|entry| entry.place > from.operations);
    Ok(EventsRead { acts, operations, view, now })
}

fn operation(row: &PgRow) -> Result<OperationEntry, Fault> {
    let mut fields = Fields::required(row, 0)?;
    let place = Reached { transaction: fields.whole()?, ordinal: 0 };
    let resource = fields.parsed(ResourceName::parse)?;
    Ok(OperationEntry { place, record: rows::operation(resource, &mut fields)? })
}

/// Inside one transaction they have no order of their own: they get one that is always the same, and in which a resource's
/// commits stand as they were made.
fn numbered(operations: &mut [OperationEntry]) {
    operations.sort_by(|one, other| {
        let commit = |entry: &OperationEntry| entry.record.response.as_ref().and_then(|saved| saved.commit);
        let (this, that) = (&one.record, &other.record);
        (one.place.transaction, &this.resource, this.incarnation, commit(one), &this.operation_id).cmp(&(
            other.place.transaction,
            &that.resource,
            that.incarnation,
            commit(other),
            &that.operation_id,
        ))
    });
    let mut last = Reached::default();
    for entry in operations {
        let is_next = entry.place.transaction == last.transaction;
        entry.place.ordinal = if is_next { last.ordinal.saturating_add(1) } else { 0 };
        last = entry.place;
    }
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    // What tells how far the view reaches reads no table.
    vec![END, ACTS, OPERATIONS]
}
