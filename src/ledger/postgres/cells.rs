//! The values of each shape, in the order in which the schema lists them.

use crate::domain::counter::Sequence;
use crate::domain::document::ContentType;
use crate::domain::lease::Holder;
use crate::domain::operation::OperationId;
use crate::domain::resource::{Address, ResourceName};
use crate::protocol::rows::{
    AuditRow, EraRow, LeaseRow, NamespaceRow, OperationRecord, ResourceRow, SavedResponse,
};

use super::super::changeset::{ChangeSet, TargetChange};
use super::rows::target_text;
use super::tuples::{RowPlace, Tuples};

/// The targets that go.
pub(super) fn removed(changes: &ChangeSet) -> impl Iterator<Item = &Address> {
    changes.targets.iter().filter_map(|(address, change)| match change {
        TargetChange::Removed => Some(address),
        TargetChange::Stored { .. } => None,
    })
}

fn name(cells: &mut Tuples, resource: &ResourceName) {
    cells.bucket(resource.bucket());
    cells.text(resource.as_str());
}

fn address(cells: &mut Tuples, address: &Address) {
    name(cells, &address.resource);
    cells.text(target_text(address.target.as_ref()));
}

pub(super) fn cleared(cells: &mut Tuples, (at, resource): (usize, &ResourceName)) {
    cells.ordinal(at);
    name(cells, resource);
}

pub(super) fn removal(cells: &mut Tuples, (at, removed): (usize, &Address)) {
    cells.ordinal(at);
    address(cells, removed);
}

pub(super) fn namespace(cells: &mut Tuples, row: &NamespaceRow) {
    cells.text(row.namespace.as_str());
    cells.whole(row.epoch.get());
    cells.position(row.base);
    cells.whole(row.base_incarnation.get());
    cells.text(&row.definition.to_string());
    cells.whole(u64::from(row.version));
}

pub(super) fn resource(cells: &mut Tuples, row: &ResourceRow) {
    name(cells, &row.resource);
    cells.whole(row.incarnation.get());
    cells.position(row.born);
    cells.text(row.life.word());
    cells.position(row.issued);
    cells.position(row.floor);
    cells.maybe_position(row.revoked_through);
    cells.maybe_mark(row.applied);
    cells.whole(row.commit_no.get());
    cells.maybe_mark(row.pruned_through);
    cells.maybe_blob(row.lease.as_ref().map(|lease| lease.as_bytes().as_slice()));
    cells.maybe_text(row.last_operation.as_ref().map(OperationId::as_str));
    cells.time(row.changed_at);
}

/// The registers that the decision was made on.
pub(super) fn seen(cells: &mut Tuples, row: &ResourceRow) {
    cells.whole(row.incarnation.get());
    cells.text(row.life.word());
    cells.position(row.issued);
    cells.position(row.floor);
    cells.maybe_position(row.revoked_through);
    cells.maybe_mark(row.applied);
    cells.whole(row.commit_no.get());
    cells.maybe_blob(row.lease.as_ref().map(|lease| lease.as_bytes().as_slice()));
}

pub(super) fn placed(cells: &mut Tuples, (place, row): (RowPlace, &ResourceRow)) {
    cells.place(place);
    resource(cells, row);
}

pub(super) fn era(cells: &mut Tuples, row: &EraRow) {
    name(cells, &row.resource);
    cells.position(row.born);
    cells.whole(row.incarnation.get());
}

pub(super) fn stored(cells: &mut Tuples, (target, change): (&Address, &TargetChange)) {
    let TargetChange::Stored { row, body } = change else { return };
    address(cells, target);
    cells.whole(row.tag.incarnation.get());
    cells.whole(row.tag.commit.get());
    cells.maybe_text(row.content_type.as_ref().map(ContentType::as_str));
    cells.whole(row.size);
    cells.blob(row.digest.as_bytes());
    cells.blob(body);
}

pub(super) fn replaced(cells: &mut Tuples, (place, stored_at): (RowPlace, (&Address, &TargetChange))) {
    cells.place(place);
    stored(cells, stored_at);
}

pub(super) fn operation(cells: &mut Tuples, record: &OperationRecord) {
    name(cells, &record.resource);
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
    cells.maybe_time(record.decided_at);
    response(cells, record.response.as_ref());
}

/// Five values.
fn response(cells: &mut Tuples, response: Option<&SavedResponse>) {
    let etag = response.and_then(|response| response.etag);
    cells.maybe_text(response.map(|response| response.done.word()));
    cells.maybe_whole(response.map(|response| response.commit.get()));
    cells.maybe_whole(etag.map(|tag| tag.incarnation.get()));
    cells.maybe_whole(etag.map(|tag| tag.commit.get()));
    cells.maybe_blob(response.map(|response| response.body.as_ref()));
}

pub(super) fn lease(cells: &mut Tuples, row: &LeaseRow) {
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
}

pub(super) fn changed_lease(cells: &mut Tuples, (before, after): (&LeaseRow, &LeaseRow)) {
    cells.bucket(after.resource.bucket());
    cells.blob(after.acquisition.as_bytes());
    cells.whole(after.ttl.millis().get());
    cells.time(after.expires_at);
    cells.text(after.state.word());
    cells.time(before.expires_at);
    cells.text(before.state.word());
}

pub(super) fn audit(cells: &mut Tuples, (ordinal, row): (usize, &AuditRow)) {
    name(cells, &row.resource);
    cells.time(row.at);
    cells.whole(u64::try_from(ordinal).unwrap_or(u64::MAX));
    cells.text(row.verb.word());
    cells.position(row.position);
    cells.maybe_text(row.reason.as_deref());
}
