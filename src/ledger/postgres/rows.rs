//! The tables' columns and how they are read: each list stands beside the function that reads it, so that the two
//! cannot drift apart. A list becomes one composite value, `ROW(…)`; `r`, `n`, `l`, `t` and `o` are the tables' names
//! in every statement.

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::counter::{CommitNo, Epoch, Incarnation, Sequence};
use crate::domain::document::{BodyDigest, ContentType};
use crate::domain::lease::{AcquisitionHash, AcquisitionTag, Holder, LeaseState, Ttl};
use crate::domain::operation::{Fingerprint, Method, OperationId, OperationState};
use crate::domain::policy::Definition;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Namespace, ResourceName, Target};
use crate::domain::seal::KeyId;
use crate::protocol::rows::{
    Done, LeaseRow, Life, NamespaceRow, OperationRecord, RequestKey, ResourceRow, SavedResponse, TargetRow,
};

use super::fault::Fault;
use super::fields::Fields;

/// Columns of a namespace, without its name.
macro_rules! namespace_columns {
    () => {
        "n.epoch, n.base_epoch, n.base_token, n.base_incarnation, n.definition, n.version"
    };
}

pub(super) fn namespace(namespace: Namespace, fields: &mut Fields<'_>) -> Result<NamespaceRow, Fault> {
    Ok(NamespaceRow {
        namespace,
        epoch: fields.counter(Epoch::new)?,
        base: fields.position()?,
        base_incarnation: fields.counter(Incarnation::new)?,
        definition: fields.parsed(str::parse::<Definition>)?,
        version: fields.whole()?,
    })
}

/// Columns of a resource, without its name.
macro_rules! resource_columns {
    () => {
        "r.incarnation, r.born_epoch, r.born_token, r.life, r.issued_epoch, r.issued_token, r.floor_epoch, \
         r.floor_token, r.revoked_epoch, r.revoked_token, r.applied_epoch, r.applied_token, r.applied_sequence, \
         r.commit_no, r.pruned_epoch, r.pruned_token, r.pruned_sequence, r.lease, r.last_operation, r.changed_ms"
    };
}

pub(super) fn resource(resource: ResourceName, fields: &mut Fields<'_>) -> Result<ResourceRow, Fault> {
    Ok(ResourceRow {
        resource,
        incarnation: fields.counter(Incarnation::new)?,
        born: fields.position()?,
        life: fields.word(Life::from_word)?,
        issued: fields.position()?,
        floor: fields.position()?,
        revoked_through: fields.maybe_position()?,
        applied: fields.maybe_mark()?,
        commit_no: fields.counter(CommitNo::new)?,
        pruned_through: fields.maybe_mark()?,
        lease: fields.maybe_bytes()?.map(AcquisitionHash::from_bytes),
        last_operation: fields.maybe_parsed(OperationId::parse)?,
        changed_at: fields.time()?,
    })
}

/// Columns of a lease.
macro_rules! lease_columns {
    () => {
        "l.acquisition, l.nonce, l.key_id, l.resource, l.position_epoch, l.position_token, l.holder, l.ttl_ms, \
         l.asked_ttl_ms, l.request_id, l.request_key, l.granted_ms, l.expires_ms, l.state"
    };
}

pub(super) fn lease(fields: &mut Fields<'_>) -> Result<LeaseRow, Fault> {
    Ok(LeaseRow {
        acquisition: AcquisitionHash::from_bytes(fields.bytes()?),
        nonce: fields.bytes()?,
        key_id: KeyId(fields.bytes()?),
        resource: fields.parsed(ResourceName::parse)?,
        position: fields.position()?,
        holder: fields.maybe_parsed(Holder::parse)?,
        ttl: Ttl::from_ms(fields.whole()?),
        asked_ttl_ms: fields.maybe_whole()?,
        request_id: Uuid::from_bytes(fields.bytes()?),
        request_key: RequestKey(fields.bytes()?),
        granted_at: fields.time()?,
        expires_at: fields.time()?,
        state: fields.word(LeaseState::from_word)?,
    })
}

/// Columns of a target, without its bytes.
macro_rules! target_columns {
    () => {
        "t.target, t.incarnation, t.commit_no, t.content_type, t.size, t.digest"
    };
}

pub(super) fn target(fields: &mut Fields<'_>) -> Result<TargetRow, Fault> {
    Ok(TargetRow {
        target: target_name(fields)?,
        tag: EntityTag {
            incarnation: fields.counter(Incarnation::new)?,
            commit: fields.counter(CommitNo::new)?,
        },
        content_type: fields.maybe_parsed(ContentType::parse)?,
        size: fields.whole()?,
        digest: BodyDigest::from_bytes(fields.bytes()?),
    })
}

/// Columns of an operation, without its resource. The answer stands last, as in the table.
macro_rules! operation_columns {
    () => {
        "o.incarnation, o.operation_id, o.target, o.method, o.fingerprint, o.position_epoch, o.position_token, \
         o.sequence, o.acquisition, o.state, o.attempt, o.created_ms, o.decided_ms, o.done, o.commit_no, \
         o.etag_incarnation, o.etag_commit, o.response"
    };
}

pub(super) fn operation(resource: ResourceName, fields: &mut Fields<'_>) -> Result<OperationRecord, Fault> {
    Ok(OperationRecord {
        resource,
        incarnation: fields.counter(Incarnation::new)?,
        operation_id: fields.parsed(OperationId::parse)?,
        target: target_name(fields)?,
        method: fields.word(Method::from_word)?,
        fingerprint: Fingerprint::from_bytes(fields.bytes()?),
        position: fields.position()?,
        sequence: fields.maybe_counter(Sequence::new)?,
        acquisition: fields.maybe_bytes()?.map(AcquisitionTag),
        state: fields.word(OperationState::from_word)?,
        attempt: fields.whole()?,
        created_at: fields.time()?,
        decided_at: fields.maybe_time()?,
        response: response(fields)?,
    })
}

fn response(fields: &mut Fields<'_>) -> Result<Option<SavedResponse>, Fault> {
    let done = fields.maybe_word(Done::from_word)?;
    let commit = fields.maybe_counter(CommitNo::new)?;
    let incarnation = fields.maybe_counter(Incarnation::new)?;
    let tag_commit = fields.maybe_counter(CommitNo::new)?;
    let body = fields.maybe_blob()?;
    let etag = incarnation.zip(tag_commit).map(|(incarnation, commit)| EntityTag { incarnation, commit });
    match (done, commit, body) {
        (Some(done), Some(commit), Some(body)) => {
            Ok(Some(SavedResponse { done, commit, etag, body: Bytes::copy_from_slice(body) }))
        }
        (None, None, None) => Ok(None),
        (_, _, _) => Err(Fault::unreadable("half an answer of an operation")),
    }
}

fn target_name(fields: &mut Fields<'_>) -> Result<Option<Target>, Fault> {
    fields.parsed(|name| if name.is_empty() { Ok(None) } else { Target::parse(name).map(Some) })
}

/// What stands in a `target` column: '' for the resource itself.
pub(super) fn target_text(target: Option<&Target>) -> &str {
    target.map_or("", Target::as_str)
}

pub(super) use {lease_columns, namespace_columns, operation_columns, resource_columns, target_columns};
