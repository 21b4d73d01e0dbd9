//! What may be kept no longer. Operations are walked by the hour in which they came and by bucket, so that one step
//! reads what lies together and no step reads much.

use sqlx::Row;

use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::resource::ResourceName;
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::protocol::control::RecordedVerb;
use crate::protocol::prune;
use crate::protocol::snapshot::ControlKey;

use super::super::super::cells::ReadCells;
use super::super::super::read::{OldOperations, OldPlace};
use super::super::super::rows::{self, namespace_columns, resource_columns};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::Fields;

/// Milliseconds of an hour, as the index counts them.
const HOUR_MS: i64 = 3_600_000;

/// The first hour and bucket with operations, from `$1` and `$2` on, up to the hour `$3`.
const NEXT: &str = "SELECT o.created_ms / 3600000, o.bucket FROM operations AS o \
                    WHERE (o.created_ms / 3600000, o.bucket) >= ($1, $2) AND o.created_ms / 3600000 <= $3 \
                    ORDER BY o.created_ms / 3600000, o.bucket LIMIT 1";

/// Of the hour `$1` and the bucket `$2` those that were decided before `$3` and are fenced, at most `$4`. Most of those
/// that are not have the position of the last effect, or one above the floor.
const OLD_OPERATIONS: &str = concat!(
    "SELECT ROW(o.incarnation, o.operation_id, o.position_epoch, o.position_token, r.resource, ",
    resource_columns!(),
    ", ",
    namespace_columns!(),
    ") FROM operations AS o CROSS JOIN LATERAL (\
       SELECT * FROM resources AS r WHERE r.bucket = o.bucket AND r.resource = o.resource LIMIT 1) AS r \
     CROSS JOIN LATERAL (SELECT * FROM namespaces AS n WHERE n.bucket = o.bucket \
       AND n.namespace = split_part(o.resource, '/', 1) LIMIT 1) AS n \
     WHERE o.created_ms / 3600000 = $1 AND o.bucket = $2 AND o.decided_ms < $3 \
     AND ((o.position_epoch, o.position_token) < (r.floor_epoch, r.floor_token) OR o.position_epoch < n.epoch \
          OR (o.position_epoch, o.position_token) <= (r.revoked_epoch, r.revoked_token)) \
     AND (r.life = 'deleted' OR r.applied_epoch IS DISTINCT FROM o.position_epoch \
          OR r.applied_token IS DISTINCT FROM o.position_token) LIMIT $4"
);

const OLD_CONTROLS: &str =
    "SELECT ROW(c.resource, c.verb, c.key) FROM controls AS c WHERE c.at_ms < $1 ORDER BY c.at_ms LIMIT $2";

const OLD_AUDIT: &str = "SELECT 1 FROM audit AS a WHERE a.at_ms < $1 LIMIT 1";

/// Walks on from an hour and a bucket, to the next one with operations.
pub(super) async fn operations(
    live: &mut Live,
    from: OldPlace,
    before: Timestamp,
    limit: u32,
) -> Result<OldOperations, Fault> {
    let cell = sqlx::query(NEXT)
        .bind(from.first)
        .bind(i16::from(from.bucket))
        .bind(before.ms().div_euclid(HOUR_MS))
        .persistent(!live.is_pooled)
        .fetch_optional(&mut live.connection)
        .await?;
    let Some(cell) = cell else { return Ok(OldOperations::default()) };
    let (hour, bucket): (i64, i16) = (cell.try_get(0)?, cell.try_get(1)?);
    let bucket = u8::try_from(bucket).map_err(|error| Fault::unreadable(error.to_string()))?;
    let rows = sqlx::query(OLD_OPERATIONS)
        .bind(hour)
        .bind(i16::from(bucket))
        .bind(before.ms())
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let mut old = OldOperations::default();
    for row in &rows {
        let mut fields = Fields::required(row, 0)?;
        let incarnation = fields.counter(Incarnation::new)?;
        let operation_id = fields.parsed(OperationId::parse)?;
        let position = fields.position()?;
        let name = fields.parsed(ResourceName::parse)?;
        let resource = rows::resource(name.clone(), &mut fields)?;
        let namespace = rows::namespace(name.namespace(), &mut fields)?;
        if prune::has_passed(&namespace, &resource, position) {
            old.found.push((name, incarnation, operation_id));
        }
    }
    let is_full = rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    old.next = Some(match bucket.checked_add(1) {
        _ if is_full && !old.found.is_empty() => OldPlace { first: hour, bucket },
        Some(bucket) => OldPlace { first: hour, bucket },
        None => OldPlace { first: hour.saturating_add(1), bucket: 0 },
    });
    Ok(old)
}

pub(super) async fn controls(
    live: &mut Live,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<ControlKey>, Fault> {
    let rows = sqlx::query(OLD_CONTROLS)
        .bind(before.ms())
        .bind(i64::from(limit))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let read = |row| {
        let mut fields = Fields::required(row, 0)?;
        let subject = fields.parsed(Subject::parse)?;
        let verb = fields.word(RecordedVerb::from_word)?;
        Ok((subject, verb, fields.parsed(OperationId::parse)?))
    };
    rows.iter().map(read).collect()
}

pub(super) async fn has_audit(live: &mut Live, before: Timestamp) -> Result<bool, Fault> {
    let found = sqlx::query(OLD_AUDIT)
        .bind(before.ms())
        .persistent(!live.is_pooled)
        .fetch_optional(&mut live.connection)
        .await?;
    Ok(found.is_some())
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![NEXT, OLD_OPERATIONS, OLD_CONTROLS, OLD_AUDIT]
}
