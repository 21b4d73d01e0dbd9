//! What is told of a resource beside its operations, and the few resources that a person has to look at.

use crate::domain::operation::OperationId;
use crate::domain::resource::ResourceName;
use crate::domain::subject::Subject;

use super::super::super::cells::ReadCells;
use super::super::super::range::Range;
use super::super::super::read::{AuditEntry, AuditFilter, AuditPlace, NotedRefusal, ResourceFilter};
use super::super::super::rows::{self, audit_columns, refusal_columns};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::Fields;
use super::listing::above_every_name;
use super::{bucket_of, signed};

/// Of the resource, of its namespace and of everything: `$1` the buckets, `$2` the names, then the place before which the
/// lines stand, and how many.
const AUDIT: &str = concat!(
    "SELECT u.row FROM unnest($1::smallint[], $2::text[]) AS k (bucket, name) CROSS JOIN LATERAL (SELECT ROW(",
    audit_columns!("transaction_id"),
    ") AS row, u.at_ms, u.transaction_id, u.ordinal FROM audit AS u \
     WHERE u.bucket = k.bucket AND u.resource = k.name COLLATE \"C\" AND u.at_ms <= $3 \
     AND (u.at_ms, u.transaction_id, u.ordinal) < ($3, $4, $5) \
     ORDER BY u.at_ms DESC, u.transaction_id DESC, u.ordinal DESC LIMIT $6) AS u \
     ORDER BY u.at_ms DESC, u.transaction_id DESC, u.ordinal DESC LIMIT $6"
);

/// Of everything, in order of time: `$1` to `$3` the place behind which the lines stand, `$4` the time before which.
const AUDIT_LINES: &str = concat!(
    "SELECT ROW(",
    audit_columns!("transaction_id"),
    ") FROM audit AS u WHERE u.at_ms >= $1 AND u.at_ms < $4 AND (u.at_ms, u.transaction_id, u.ordinal) > ($1, $2, $3) \
     ORDER BY u.at_ms, u.transaction_id, u.ordinal LIMIT $5"
);

/// All of a ring.
const REFUSALS: &str = concat!(
    "SELECT ROW(",
    refusal_columns!(),
    ") FROM refusals AS f WHERE f.bucket = $1 AND f.resource = $2"
);

/// Through the indexes of those few: `$1` the first name, `$2` the one before which the list ends, `$3` the limit.
const TROUBLED: &str = "SELECT ROW(u.resource) FROM (\
     (SELECT r.resource FROM resources AS r WHERE r.quarantined IS NOT NULL \
      AND r.resource >= $1 AND r.resource < $2 ORDER BY r.resource LIMIT $3) UNION \
     (SELECT DISTINCT a.resource FROM intents AS a WHERE a.state = 'uncertain' \
      AND a.resource >= $1 AND a.resource < $2 ORDER BY a.resource LIMIT $3)) AS u ORDER BY u.resource LIMIT $3";

const UNCERTAIN: &str = "SELECT ROW(a.resource, a.operation_id) FROM unnest($1::text[]) AS k (name) CROSS JOIN LATERAL (\
     SELECT * FROM intents AS a WHERE a.state = 'uncertain' AND a.resource = k.name COLLATE \"C\" LIMIT 1) AS a";

pub(super) async fn audit(
    live: &mut Live,
    resource: &ResourceName,
    before: &AuditPlace,
    limit: u32,
) -> Result<Vec<AuditEntry>, Fault> {
    let subjects = Subject::touching(resource);
    let buckets: Vec<i16> = subjects.iter().map(|subject| i16::from(subject.bucket().0)).collect();
    let names: Vec<&str> = subjects.iter().map(Subject::as_str).collect();
    let rows = sqlx::query(AUDIT)
        .bind(buckets)
        .bind(names)
        .bind(before.at.ms())
        .bind(signed(before.transaction)?)
        .bind(signed(before.ordinal)?)
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| rows::audit(&mut Fields::required(row, 0)?)).collect()
}

pub(super) async fn audit_lines(live: &mut Live, filter: AuditFilter) -> Result<Vec<AuditEntry>, Fault> {
    let (_, place) = filter.start();
    let rows = sqlx::query(AUDIT_LINES)
        .bind(place.at.ms())
        .bind(signed(place.transaction)?)
        .bind(signed(place.ordinal)?)
        .bind(filter.until.ms())
        .bind(i64::from(filter.limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| rows::audit(&mut Fields::required(row, 0)?)).collect()
}

pub(super) async fn refusals(live: &mut Live, resource: &ResourceName) -> Result<Vec<NotedRefusal>, Fault> {
    let rows = sqlx::query(REFUSALS)
        .bind(bucket_of(resource))
        .bind(resource.as_str())
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| rows::refusal(resource.clone(), &mut Fields::required(row, 0)?)).collect()
}

pub(super) async fn troubled(live: &mut Live, filter: &ResourceFilter) -> Result<Vec<ResourceName>, Fault> {
    let range = Range::of(filter);
    let rows = sqlx::query(TROUBLED)
        .bind(range.from)
        .bind(range.before.unwrap_or_else(above_every_name))
        .bind(i64::from(filter.limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter().map(|row| Fields::required(row, 0)?.parsed(ResourceName::parse)).collect()
}

pub(super) async fn uncertain(
    live: &mut Live,
    names: &[ResourceName],
) -> Result<Vec<(ResourceName, OperationId)>, Fault> {
    let texts: Vec<&str> = names.iter().map(ResourceName::as_str).collect();
    let rows = sqlx::query(UNCERTAIN)
        .bind(texts)
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    rows.iter()
        .map(|row| {
            let mut fields = Fields::required(row, 0)?;
            Ok((fields.parsed(ResourceName::parse)?, fields.parsed(OperationId::parse)?))
        })
        .collect()
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![AUDIT, AUDIT_LINES, REFUSALS, TROUBLED, UNCERTAIN]
}
