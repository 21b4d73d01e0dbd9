//! Operations that are decided: the record, and the answer as it is given again.

use bytes::Bytes;

use crate::domain::counter::{CommitNo, Incarnation, Sequence};
use crate::domain::document::BodyDigest;
use crate::domain::lease::AcquisitionTag;
use crate::domain::operation::{Fingerprint, Method, OperationId, OperationState};
use crate::domain::precondition::EntityTag;
use crate::domain::resource::ResourceName;
use crate::protocol::rows::{Done, OperationRecord, RelayedHead, SavedResponse};

use super::super::cells::{ReadCells, WriteCells};
use super::super::packed;
use super::{target_name, target_text};

/// Columns of an operation, without its resource.
macro_rules! operation_columns {
    () => {
        operation_columns!("o.response")
    };
    // The bytes of the answer in other words.
    ($response:literal) => {
        concat!(
            "o.incarnation, o.operation_id, o.target, o.method, o.fingerprint, o.position_epoch, o.position_token, \
             o.sequence, o.acquisition, o.state, o.attempt, o.created_ms, o.decided_ms, o.done, o.commit_no, \
             o.etag_incarnation, o.etag_commit, ",
            $response,
            ", o.relayed_status, o.relayed_headers, o.relayed_etag, o.omitted_length, o.omitted_digest, o.resolution"
        )
    };
}

pub(in super::super) fn operation<'r, C: ReadCells<'r>>(
    resource: ResourceName,
    cells: &mut C,
) -> Result<OperationRecord, C::Fault> {
    let mut record = announced(resource, cells)?;
    record.decided_at = cells.maybe_time()?;
    record.response = response(cells)?;
    record.resolution =
        cells.maybe_text()?.map(packed::resolution).transpose().map_err(|reason| cells.unreadable(reason))?;
    Ok(record)
}

/// What is known of an operation when it is announced: the first 12 columns.
pub(super) fn announced<'r, C: ReadCells<'r>>(
    resource: ResourceName,
    cells: &mut C,
) -> Result<OperationRecord, C::Fault> {
    Ok(OperationRecord {
        resource,
        incarnation: cells.counter(Incarnation::new)?,
        operation_id: cells.parsed(OperationId::parse)?,
        target: target_name(cells)?,
        method: cells.word(Method::from_word)?,
        fingerprint: Fingerprint::from_bytes(cells.bytes()?),
        position: cells.position()?,
        sequence: cells.maybe_counter(Sequence::new)?,
        acquisition: cells.maybe_bytes()?.map(AcquisitionTag),
        state: cells.word(OperationState::from_word)?,
        attempt: cells.whole()?,
        created_at: cells.time()?,
        decided_at: None,
        response: None,
        resolution: None,
    })
}

fn response<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<Option<SavedResponse>, C::Fault> {
    let done = cells.maybe_word(Done::from_word)?;
    let commit = cells.maybe_counter(CommitNo::new)?;
    let incarnation = cells.maybe_counter(Incarnation::new)?;
    let tag_commit = cells.maybe_counter(CommitNo::new)?;
    let body = cells.maybe_blob()?;
    let relayed = relayed(cells)?;
    if incarnation.is_some() != tag_commit.is_some() {
        return Err(cells.unreadable("half an entity tag"));
    }
    let etag = incarnation.zip(tag_commit).map(|(incarnation, commit)| EntityTag { incarnation, commit });
    match (done, commit, body) {
        (Some(done), Some(commit), Some(body)) => {
            let commit = Some(commit).filter(|commit| *commit != CommitNo::ZERO);
            Ok(Some(SavedResponse { done, commit, etag, body: Bytes::copy_from_slice(body), relayed }))
        }
        (None, None, None) if relayed.is_none() => Ok(None),
        (_, _, _) => Err(cells.unreadable("half an answer of an operation")),
    }
}

fn relayed<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<Option<RelayedHead>, C::Fault> {
    let status: Option<u16> = cells.maybe_whole()?;
    let headers = cells.maybe_blob()?.map(packed::fields).transpose();
    let headers = headers.map_err(|reason| cells.unreadable(reason))?;
    let etag = cells.maybe_text()?.map(str::to_owned);
    let length: Option<u64> = cells.maybe_whole()?;
    let digest = cells.maybe_bytes()?.map(BodyDigest::from_bytes);
    match (status, headers, length.is_some() == digest.is_some()) {
        (Some(status), Some(headers), true) => {
            Ok(Some(RelayedHead { status, headers, etag, omitted: length.zip(digest) }))
        }
        (None, None, true) if etag.is_none() && length.is_none() => Ok(None),
        (_, _, _) => Err(cells.unreadable("half of what an upstream answered")),
    }
}

/// The columns above: 24 values.
pub(in super::super) fn write_operation(cells: &mut impl WriteCells, record: &OperationRecord) {
    write_announced(cells, record);
    cells.maybe_time(record.decided_at);
    let response = record.response.as_ref();
    let etag = response.and_then(|response| response.etag);
    cells.maybe_text(response.map(|response| response.done.word()));
    cells.maybe_whole(response.map(|response| response.commit.map_or(0, CommitNo::get)));
    cells.maybe_whole(etag.map(|tag| tag.incarnation.get()));
    cells.maybe_whole(etag.map(|tag| tag.commit.get()));
    cells.maybe_blob(response.map(|response| response.body.as_ref()));
    write_relayed(cells, response.and_then(|response| response.relayed.as_ref()));
    cells.maybe_text(record.resolution.as_ref().map(packed::resolution_text).as_deref());
}

/// What is known of an operation when it is announced: 12 values.
pub(super) fn write_announced(cells: &mut impl WriteCells, record: &OperationRecord) {
    cells.whole(record.incarnation.get());
    cells.text(record.operation_id.as_str());
    cells.text(target_text(record.target.as_ref()));
    cells.text(record.method.word());
    cells.blob(record.fingerprint.as_bytes());
    cells.position(record.position);
    cells.maybe_whole(record.sequence.map(Sequence::get));
    cells.maybe_blob(record.acquisition.as_ref().map(|tag| tag.0.as_slice()));
    cells.text(record.state.word());
    cells.whole(u64::from(record.attempt));
    cells.time(record.created_at);
}

/// 5 values.
fn write_relayed(cells: &mut impl WriteCells, relayed: Option<&RelayedHead>) {
    let omitted = relayed.and_then(|head| head.omitted.as_ref());
    cells.maybe_whole(relayed.map(|head| u64::from(head.status)));
    cells.maybe_blob(relayed.map(|head| packed::fields_bytes(&head.headers)).as_deref());
    cells.maybe_text(relayed.and_then(|head| head.etag.as_deref()));
    cells.maybe_whole(omitted.map(|(length, _)| *length));
    cells.maybe_blob(omitted.map(|(_, digest)| digest.as_bytes().as_slice()));
}

pub(in super::super) use operation_columns;
