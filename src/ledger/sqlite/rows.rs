//! The tables' columns and how they are read: each list stands beside the function that reads it, so that the two
//! cannot drift apart. `r`, `n`, `l`, `t` and `o` are the tables' names in every statement.

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

use super::columns::Columns;
use super::fault::Fault;
use super::recent::Recent;

/// Columns of a namespace, without its name.
macro_rules! namespace_columns {
    () => {
        "n.epoch, n.base_epoch, n.base_token, n.base_incarnation, n.definition, n.version"
    };
}

/// How many they are.
pub(super) const NAMESPACE_WIDTH: usize = 6;

pub(super) fn namespace(namespace: Namespace, columns: &mut Columns<'_>) -> Result<NamespaceRow, Fault> {
    Ok(NamespaceRow {
        namespace,
        epoch: columns.counter(Epoch::new)?,
        base: columns.position()?,
        base_incarnation: columns.counter(Incarnation::new)?,
        definition: columns.parsed(str::parse::<Definition>)?,
        version: columns.whole()?,
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

/// How many they are.
pub(super) const RESOURCE_WIDTH: usize = 20;

pub(super) fn resource(resource: ResourceName, columns: &mut Columns<'_>) -> Result<ResourceRow, Fault> {
    Ok(ResourceRow {
        resource,
        incarnation: columns.counter(Incarnation::new)?,
        born: columns.position()?,
        life: columns.word(Life::from_word)?,
        issued: columns.position()?,
        floor: columns.position()?,
        revoked_through: columns.maybe_position()?,
        applied: columns.maybe_mark()?,
        commit_no: columns.counter(CommitNo::new)?,
        pruned_through: columns.maybe_mark()?,
        lease: columns.maybe_bytes()?.map(AcquisitionHash::from_bytes),
        last_operation: columns.maybe_parsed(OperationId::parse)?,
        changed_at: columns.time()?,
    })
}

/// Where a resource stands in this file, and the way to its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its row.
    pub(super) id: i64,
    /// Its newest operation, with which the chain begins.
    pub(super) newest: Option<i64>,
    /// Whether keys of it stand in `operation_keys`.
    pub(super) indexed: bool,
    /// The keys of its newest operations.
    pub(super) recent: Recent,
    /// Whether the bytes of its whole-path document stand in `bodies`.
    pub(super) apart: bool,
}

/// Columns of a place, which stand after those of the resource.
macro_rules! place_columns {
    () => {
        "r.id, r.newest_operation, r.indexed, r.recent, r.doc_commit IS NOT NULL AND r.doc_body IS NULL"
    };
}

pub(super) fn place(columns: &mut Columns<'_>) -> Result<Place, Fault> {
    Ok(Place {
        id: columns.integer()?,
        newest: columns.maybe_integer()?,
        indexed: columns.flag()?,
        recent: Recent::read(columns.blob()?)?,
        apart: columns.flag()?,
    })
}

/// Columns of a lease.
macro_rules! lease_columns {
    () => {
        "l.acquisition, l.nonce, l.key_id, l.resource, l.position_epoch, l.position_token, l.holder, l.ttl_ms, \
         l.asked_ttl_ms, l.request_id, l.request_key, l.granted_ms, l.expires_ms, l.state"
    };
}

/// How many they are.
pub(super) const LEASE_WIDTH: usize = 14;

pub(super) fn lease(columns: &mut Columns<'_>) -> Result<LeaseRow, Fault> {
    Ok(LeaseRow {
        acquisition: AcquisitionHash::from_bytes(columns.bytes()?),
        nonce: columns.bytes()?,
        key_id: KeyId(columns.bytes()?),
        resource: columns.parsed(ResourceName::parse)?,
        position: columns.position()?,
        holder: columns.maybe_parsed(Holder::parse)?,
        ttl: Ttl::from_ms(columns.whole()?),
        asked_ttl_ms: columns.maybe_whole()?,
        request_id: Uuid::from_bytes(columns.bytes()?),
        request_key: RequestKey(columns.bytes()?),
        granted_at: columns.time()?,
        expires_at: columns.time()?,
        state: columns.word(LeaseState::from_word)?,
    })
}

/// Columns of a target, without its bytes.
macro_rules! target_columns {
    () => {
        "t.target, t.incarnation, t.commit_no, t.content_type, t.size, t.digest"
    };
}

/// How many they are.
pub(super) const TARGET_WIDTH: usize = 6;

/// The same columns of a whole-path document; all are NULL where there is none.
macro_rules! document_columns {
    () => {
        "r.doc_incarnation, r.doc_commit, r.doc_type, r.doc_size, r.doc_digest"
    };
}

/// How many they are.
pub(super) const DOCUMENT_WIDTH: usize = 5;

/// A whole-path document, where there is one.
pub(super) fn document(columns: &mut Columns<'_>) -> Result<Option<TargetRow>, Fault> {
    if columns.is_null()? {
        columns.skip(DOCUMENT_WIDTH);
        return Ok(None);
    }
    content(None, columns).map(Some)
}

pub(super) fn target(columns: &mut Columns<'_>) -> Result<TargetRow, Fault> {
    let target = target_name(columns)?;
    content(target, columns)
}

fn content(target: Option<Target>, columns: &mut Columns<'_>) -> Result<TargetRow, Fault> {
    Ok(TargetRow {
        target,
        tag: EntityTag {
            incarnation: columns.counter(Incarnation::new)?,
            commit: columns.counter(CommitNo::new)?,
        },
        content_type: columns.maybe_parsed(ContentType::parse)?,
        size: columns.whole()?,
        digest: BodyDigest::from_bytes(columns.bytes()?),
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

pub(super) fn operation(resource: ResourceName, columns: &mut Columns<'_>) -> Result<OperationRecord, Fault> {
    Ok(OperationRecord {
        resource,
        incarnation: columns.counter(Incarnation::new)?,
        operation_id: columns.parsed(OperationId::parse)?,
        target: target_name(columns)?,
        method: columns.word(Method::from_word)?,
        fingerprint: Fingerprint::from_bytes(columns.bytes()?),
        position: columns.position()?,
        sequence: columns.maybe_counter(Sequence::new)?,
        acquisition: columns.maybe_bytes()?.map(AcquisitionTag),
        state: columns.word(OperationState::from_word)?,
        attempt: columns.whole()?,
        created_at: columns.time()?,
        decided_at: columns.maybe_time()?,
        response: response(columns)?,
    })
}

fn response(columns: &mut Columns<'_>) -> Result<Option<SavedResponse>, Fault> {
    if columns.is_null()? {
        return Ok(None);
    }
    let done = columns.word(Done::from_word)?;
    let commit = columns.counter(CommitNo::new)?;
    let incarnation = columns.maybe_counter(Incarnation::new)?;
    let tag_commit = columns.maybe_counter(CommitNo::new)?;
    let etag = incarnation.zip(tag_commit).map(|(incarnation, commit)| EntityTag { incarnation, commit });
    let body = Bytes::copy_from_slice(columns.blob()?);
    Ok(Some(SavedResponse { done, commit, etag, body }))
}

fn target_name(columns: &mut Columns<'_>) -> Result<Option<Target>, Fault> {
    columns.parsed(|name| if name.is_empty() { Ok(None) } else { Target::parse(name).map(Some) })
}

/// What stands in a `target` column: '' for the resource itself.
pub(super) fn target_text(target: Option<&Target>) -> &str {
    target.map_or("", Target::as_str)
}

pub(super) use {
    document_columns, lease_columns, namespace_columns, operation_columns, place_columns, resource_columns,
    target_columns,
};
