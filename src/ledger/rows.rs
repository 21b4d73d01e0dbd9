//! The rows that every database keeps, column by column: each list of columns stands beside the functions that read and
//! write it, so that the three cannot drift apart. `r`, `n`, `l`, `t`, `o` and `a` are the tables' names in every statement.

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::counter::{CommitNo, Incarnation};
use crate::domain::document::{BodyDigest, ContentType};
use crate::domain::lease::{AcquisitionHash, EndCause, Holder, LeaseState, Ttl};
use crate::domain::operation::{Fingerprint, OperationId};
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Bucket, ResourceName, Target};
use crate::domain::seal::KeyId;
use crate::domain::upstream::Validator;
use crate::protocol::control::ControlRecord;
use crate::protocol::queue::Queue;
use crate::protocol::rows::{LeaseRef, LeaseRow, Life, RequestKey, ResourceRow, TargetRow};
use crate::protocol::snapshot::ControlKey;

use super::cells::{ReadCells, WriteCells};
use super::packed;

mod audit;
mod intents;
mod namespaces;
mod operations;

/// Columns of a resource, without its name.
macro_rules! resource_columns {
    () => {
        "r.incarnation, r.born_epoch, r.born_token, r.life, r.issued_epoch, r.issued_token, r.floor_epoch, \
         r.floor_token, r.revoked_epoch, r.revoked_token, r.applied_epoch, r.applied_token, r.applied_sequence, \
         r.commit_no, r.pruned_epoch, r.pruned_token, r.pruned_sequence, r.lease, r.last_operation, r.changed_ms, \
         r.lease_bucket, r.queue, r.reason, r.quarantined, r.cell, r.barrier_epoch, r.barrier_token"
    };
}

pub(super) fn resource<'r, C: ReadCells<'r>>(
    resource: ResourceName,
    cells: &mut C,
) -> Result<ResourceRow, C::Fault> {
    let own = resource.bucket();
    let mut row = ResourceRow {
        resource,
        incarnation: cells.counter(Incarnation::new)?,
        born: cells.position()?,
        life: cells.word(Life::from_word)?,
        issued: cells.position()?,
        floor: cells.position()?,
        revoked_through: cells.maybe_position()?,
        applied: cells.maybe_mark()?,
        commit_no: cells.counter(CommitNo::new)?,
        pruned_through: cells.maybe_mark()?,
        lease: cells
            .maybe_bytes()?
            .map(|hash| LeaseRef { bucket: own, acquisition: AcquisitionHash::from_bytes(hash) }),
        last_operation: cells.maybe_parsed(OperationId::parse)?,
        changed_at: cells.time()?,
        queue: Queue::default(),
        reason: None,
        quarantined: None,
        cell: None,
        barrier: Position::ZERO,
    };
    let bucket: Option<u8> = cells.maybe_whole()?;
    match (&mut row.lease, bucket) {
        (Some(lease), Some(bucket)) => lease.bucket = Bucket(bucket),
        (Some(_) | None, None) => {}
        (None, Some(_)) => return Err(cells.unreadable("the bucket of a lease that is not there")),
    }
    row.queue = packed::queue(cells.maybe_blob()?).map_err(|reason| cells.unreadable(reason))?;
    row.reason = cells.maybe_text()?.map(str::to_owned);
    row.quarantined = cells.maybe_text()?.map(str::to_owned);
    row.cell = cells.maybe_word(Validator::parse)?;
    row.barrier = cells.maybe_position()?.unwrap_or(Position::ZERO);
    Ok(row)
}

/// The columns above: 27 values. The bucket of the lease is only told where it is not the resource's own, and a barrier
/// only where there is one.
pub(super) fn write_resource(cells: &mut impl WriteCells, row: &ResourceRow) {
    cells.whole(row.incarnation.get());
    cells.position(row.born);
    cells.text(row.life.word());
    cells.position(row.issued);
    cells.position(row.floor);
    cells.maybe_position(row.revoked_through);
    cells.maybe_mark(row.applied);
    cells.whole(row.commit_no.get());
    cells.maybe_mark(row.pruned_through);
    cells.maybe_blob(row.lease.as_ref().map(|lease| lease.acquisition.as_bytes().as_slice()));
    cells.maybe_text(row.last_operation.as_ref().map(OperationId::as_str));
    cells.time(row.changed_at);
    let elsewhere = row.lease.map(|lease| lease.bucket).filter(|bucket| *bucket != row.resource.bucket());
    cells.maybe_whole(elsewhere.map(|bucket| u64::from(bucket.0)));
    cells.maybe_blob(packed::queue_bytes(&row.queue).as_deref());
    cells.maybe_text(row.reason.as_deref());
    cells.maybe_text(row.quarantined.as_deref());
    cells.maybe_text(row.cell.as_ref().map(Validator::as_str));
    cells.maybe_position(Some(row.barrier).filter(|barrier| *barrier != Position::ZERO));
}

/// The registers that the decision was made on, for the predicate that repeats the fence: 13 values.
pub(super) fn write_seen(cells: &mut impl WriteCells, row: &ResourceRow) {
    cells.whole(row.incarnation.get());
    cells.text(row.life.word());
    cells.position(row.issued);
    cells.position(row.floor);
    cells.maybe_position(row.revoked_through);
    cells.maybe_mark(row.applied);
    cells.whole(row.commit_no.get());
    cells.maybe_blob(row.lease.as_ref().map(|lease| lease.acquisition.as_bytes().as_slice()));
}

/// Columns of a lease.
macro_rules! lease_columns {
    () => {
        "l.acquisition, l.nonce, l.key_id, l.resource, l.position_epoch, l.position_token, l.holder, l.ttl_ms, \
         l.asked_ttl_ms, l.request_id, l.request_key, l.granted_ms, l.expires_ms, l.state, l.others, l.ended_ms, l.cause"
    };
}

pub(super) fn lease<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<LeaseRow, C::Fault> {
    Ok(LeaseRow {
        acquisition: AcquisitionHash::from_bytes(cells.bytes()?),
        nonce: cells.bytes()?,
        key_id: KeyId(cells.bytes()?),
        resource: cells.parsed(ResourceName::parse)?,
        position: cells.position()?,
        holder: cells.maybe_parsed(Holder::parse)?,
        ttl: Ttl::from_ms(cells.whole()?),
        asked_ttl_ms: cells.maybe_whole()?,
        request_id: Uuid::from_bytes(cells.bytes()?),
        request_key: RequestKey(cells.bytes()?),
        granted_at: cells.time()?,
        expires_at: cells.time()?,
        state: cells.word(LeaseState::from_word)?,
        others: packed::members(cells.maybe_text()?).map_err(|reason| cells.unreadable(reason))?,
        ended_at: cells.maybe_time()?,
        cause: cells.maybe_word(EndCause::from_word)?,
    })
}

/// The bucket, and the columns above.
pub(super) fn write_lease(cells: &mut impl WriteCells, row: &LeaseRow) {
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
    cells.maybe_text(packed::members_text(&row.others).as_deref());
    cells.maybe_time(row.ended_at);
    cells.maybe_text(row.cause.map(EndCause::word));
}

/// The key of a lease, what a renewal or an end changes, and what the decision saw of that: 9 values.
pub(super) fn write_lease_change(cells: &mut impl WriteCells, (before, after): (&LeaseRow, &LeaseRow)) {
    cells.bucket(after.resource.bucket());
    cells.blob(after.acquisition.as_bytes());
    cells.whole(after.ttl.millis().get());
    cells.time(after.expires_at);
    cells.text(after.state.word());
    cells.maybe_time(after.ended_at);
    cells.maybe_text(after.cause.map(EndCause::word));
    cells.time(before.expires_at);
    cells.text(before.state.word());
}

/// The key of a lease that is forgotten, and when the decision saw it end: 3 values.
pub(super) fn write_forgotten(cells: &mut impl WriteCells, row: &LeaseRow) {
    cells.bucket(row.resource.bucket());
    cells.blob(row.acquisition.as_bytes());
    cells.maybe_time(row.ended_at);
}

/// Columns of a target, without its bytes.
macro_rules! target_columns {
    () => {
        "t.target, t.incarnation, t.commit_no, t.content_type, t.size, t.digest"
    };
}

pub(super) fn target<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<TargetRow, C::Fault> {
    let target = target_name(cells)?;
    content(target, cells)
}

/// What is told of content: the columns above, without the name.
pub(super) fn content<'r, C: ReadCells<'r>>(
    target: Option<Target>,
    cells: &mut C,
) -> Result<TargetRow, C::Fault> {
    Ok(TargetRow {
        target,
        tag: EntityTag {
            incarnation: cells.counter(Incarnation::new)?,
            commit: cells.counter(CommitNo::new)?,
        },
        content_type: cells.maybe_parsed(ContentType::parse)?,
        size: cells.whole()?,
        digest: BodyDigest::from_bytes(cells.bytes()?),
    })
}

/// The same: 5 values.
pub(super) fn write_content(cells: &mut impl WriteCells, row: &TargetRow) {
    cells.whole(row.tag.incarnation.get());
    cells.whole(row.tag.commit.get());
    cells.maybe_text(row.content_type.as_ref().map(ContentType::as_str));
    cells.whole(row.size);
    cells.blob(row.digest.as_bytes());
}

/// Columns of a control call's record, without its key.
macro_rules! control_columns {
    () => {
        "c.fingerprint, c.body, c.at_ms"
    };
}

pub(super) fn control<'r, C: ReadCells<'r>>(
    (subject, verb, key): ControlKey,
    cells: &mut C,
) -> Result<ControlRecord, C::Fault> {
    Ok(ControlRecord {
        subject,
        verb,
        key,
        fingerprint: Fingerprint::from_bytes(cells.bytes()?),
        body: Bytes::copy_from_slice(cells.blob()?),
        at: cells.time()?,
    })
}

/// The key, and the columns above: 7 values.
pub(super) fn write_control(cells: &mut impl WriteCells, record: &ControlRecord) {
    cells.subject(&record.subject);
    cells.text(record.verb.word());
    cells.text(record.key.as_str());
    cells.blob(record.fingerprint.as_bytes());
    cells.blob(&record.body);
    cells.time(record.at);
}

fn target_name<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<Option<Target>, C::Fault> {
    cells.parsed(|name| if name.is_empty() { Ok(None) } else { Target::parse(name).map(Some) })
}

/// What stands in a `target` column: '' for the resource itself.
pub(super) fn target_text(target: Option<&Target>) -> &str {
    target.map_or("", Target::as_str)
}

pub(super) use audit::{audit, audit_columns, refusal, refusal_columns, write_audit_place, write_refusal};
pub(super) use intents::{
    intent, intent_columns, write_closed_intent, write_intent, write_intent_change, write_intent_key,
};
pub(super) use namespaces::{
    everywhere, everywhere_columns, namespace, namespace_columns, write_everywhere_change, write_namespace,
    write_namespace_change,
};
pub(super) use operations::{operation, operation_columns, write_operation};
pub(super) use {control_columns, lease_columns, resource_columns, target_columns};
