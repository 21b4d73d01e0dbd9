//! Operations of a resource, decided or not: one by its id, or a page from the newest.
//!
//! Both tables are asked in one statement: an operation that is decided between two would be in neither answer.

use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::domain::counter::Incarnation;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::resource::ResourceName;
use crate::protocol::rows::OperationRecord;

use super::super::super::read::OperationFilter;
use super::super::super::rows::{self, intent_columns, operation_columns};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::Fields;
use super::{bucket_of, signed};

/// Undecided operations of a resource beside others that are decided: `$1` the bucket, `$2` the resource.
macro_rules! and_undecided {
    ($condition:literal) => {
        concat!(
            " UNION ALL SELECT 1::smallint, ROW(",
            intent_columns!(),
            ") FROM intents AS a WHERE a.bucket = $1 AND a.resource = $2",
            $condition
        )
    };
}

const OPERATION: &str = concat!(
    "SELECT 0::smallint, ROW(",
    operation_columns!(),
    ") FROM operations AS o \
     WHERE o.bucket = $1 AND o.resource = $2 AND o.incarnation = $4 AND o.operation_id = $3",
    and_undecided!(" AND a.incarnation = $4 AND a.operation_id = $3")
);

/// A resource has few incarnations beside its operations: each is looked up, the newest first. The next one may have an
/// operation before it begins.
const NEWEST_OPERATION: &str = concat!(
    "(SELECT 0::smallint, ROW(",
    operation_columns!(),
    ") FROM (SELECT incarnation FROM resources WHERE bucket = $1 AND resource = $2 \
             UNION ALL SELECT incarnation + 1 FROM resources WHERE bucket = $1 AND resource = $2 \
             UNION ALL SELECT incarnation FROM incarnations WHERE bucket = $1 AND resource = $2) AS i \
      CROSS JOIN LATERAL (SELECT * FROM operations AS o WHERE o.bucket = $1 AND o.resource = $2 \
      AND o.incarnation = i.incarnation AND o.operation_id = $3 LIMIT 1) AS o \
      ORDER BY o.incarnation DESC LIMIT 1)",
    and_undecided!(" AND a.operation_id = $3")
);

macro_rules! operations {
    ($state:literal, $undecided:literal) => {
        concat!(
            "(SELECT 0::smallint, ROW(",
            operation_columns!(),
            ") FROM operations AS o WHERE o.bucket = $1 AND o.resource = $2 \
             AND hashtextextended(o.resource, 0) = hashtextextended($2 COLLATE \"C\", 0) \
             AND o.created_ms <= $3 AND (o.created_ms, o.incarnation, o.operation_id) < ($3, $4, $5) ",
            $state,
            " ORDER BY o.created_ms DESC, o.incarnation DESC, o.operation_id DESC LIMIT $6)",
            and_undecided!($undecided)
        )
    };
}
const OPERATIONS: &str =
    operations!("AND $7::text IS NULL", " AND (a.created_ms, a.incarnation, a.operation_id) < ($3, $4, $5)");
const OPERATIONS_APPLIED: &str =
    operations!("AND o.state = 'applied' AND $7::text IS NOT NULL", " AND false");
/// Through the index of those few.
const OPERATIONS_NOT_APPLIED: &str = operations!(
    "AND o.state <> 'applied' AND o.state = $7",
    " AND a.state = $7 AND (a.created_ms, a.incarnation, a.operation_id) < ($3, $4, $5)"
);

/// A row of either table.
fn record(resource: &ResourceName, row: &PgRow) -> Result<OperationRecord, Fault> {
    let mut fields = Fields::required(row, 1)?;
    match row.try_get::<i16, _>(0)? {
        0 => rows::operation(resource.clone(), &mut fields),
        _ => rows::intent(resource.clone(), &mut fields).map(|intent| intent.record),
    }
}

/// One operation: of the incarnation named, else of the newest one that has it.
pub(super) async fn one(
    live: &mut Live,
    resource: &ResourceName,
    operation_id: &OperationId,
    incarnation: Option<Incarnation>,
) -> Result<Option<OperationRecord>, Fault> {
    let text = if incarnation.is_some() { OPERATION } else { NEWEST_OPERATION };
    let mut query =
        sqlx::query(text).bind(bucket_of(resource)).bind(resource.as_str()).bind(operation_id.as_str());
    if let Some(incarnation) = incarnation {
        query = query.bind(signed(incarnation.get())?);
    }
    let rows = query.persistent(!live.is_pooled).fetch_all(&mut live.connection).await?;
    let found: Vec<OperationRecord> =
        rows.iter().map(|row| record(resource, row)).collect::<Result<_, Fault>>()?;
    Ok(found.into_iter().max_by_key(|record| record.incarnation))
}

/// A page of them.
pub(super) async fn page(live: &mut Live, filter: &OperationFilter) -> Result<Vec<OperationRecord>, Fault> {
    let text = match filter.state {
        None => OPERATIONS,
        Some(OperationState::Applied) => OPERATIONS_APPLIED,
        Some(_) => OPERATIONS_NOT_APPLIED,
    };
    let (before_ms, incarnation, operation_id) = match &filter.after {
        Some(place) => (place.created_at.ms(), signed(place.incarnation.get())?, place.operation_id.as_str()),
        None => (i64::MAX, i64::MAX, ""),
    };
    let rows = sqlx::query(text)
        .bind(bucket_of(&filter.resource))
        .bind(filter.resource.as_str())
        .bind(before_ms)
        .bind(incarnation)
        .bind(operation_id)
        .bind(i64::from(filter.limit))
        .bind(filter.state.map(OperationState::word))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let mut found: Vec<OperationRecord> =
        rows.iter().map(|row| record(&filter.resource, row)).collect::<Result<_, Fault>>()?;
    found.sort_unstable_by(|one, other| {
        let order = |record: &OperationRecord| (record.created_at, record.incarnation);
        (order(other), &other.operation_id).cmp(&(order(one), &one.operation_id))
    });
    found.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OPERATION, NEWEST_OPERATION, OPERATIONS, OPERATIONS_APPLIED, OPERATIONS_NOT_APPLIED]
}
