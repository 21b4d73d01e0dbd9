//! The values of each shape, in the order in which the schema lists them.

use crate::domain::lease::Holder;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::{Address, ResourceName};
use crate::domain::time::Timestamp;
use crate::protocol::control::ControlRecord;
use crate::protocol::rows::{AuditRow, EraRow, OperationRecord, ResourceRow};

use super::super::cells::WriteCells;
use super::super::changeset::{ChangeSet, TargetChange};
use super::super::rows::{self, target_text};
use super::tuples::{RowPlace, Tuples};

/// The targets that go.
pub(super) fn removed(changes: &ChangeSet) -> impl Iterator<Item = &Address> {
    changes.targets.iter().filter_map(|(address, change)| match change {
        TargetChange::Removed => Some(address),
        TargetChange::Stored { .. } => None,
    })
}

fn address(cells: &mut Tuples, address: &Address) {
    cells.name(&address.resource);
    cells.text(target_text(address.target.as_ref()));
}

pub(super) fn cleared(cells: &mut Tuples, (at, resource): (usize, &ResourceName)) {
    cells.ordinal(at);
    cells.name(resource);
}

pub(super) fn removal(cells: &mut Tuples, (at, removed): (usize, &Address)) {
    cells.ordinal(at);
    address(cells, removed);
}

pub(super) fn resource(cells: &mut Tuples, row: &ResourceRow) {
    cells.name(&row.resource);
    rows::write_resource(cells, row);
}

pub(super) fn changed_resource(cells: &mut Tuples, (before, after): (&ResourceRow, &ResourceRow)) {
    resource(cells, after);
    rows::write_seen(cells, before);
}

pub(super) fn placed(cells: &mut Tuples, (place, row): (RowPlace, &ResourceRow)) {
    cells.place(place);
    resource(cells, row);
}

pub(super) fn era(cells: &mut Tuples, row: &EraRow) {
    cells.name(&row.resource);
    cells.position(row.born);
    cells.whole(row.incarnation.get());
}

pub(super) fn stored(cells: &mut Tuples, (target, change): (&Address, &TargetChange)) {
    let TargetChange::Stored { row, body } = change else { return };
    address(cells, target);
    rows::write_content(cells, row);
    cells.blob(body);
}

pub(super) fn replaced(cells: &mut Tuples, (place, stored_at): (RowPlace, (&Address, &TargetChange))) {
    cells.place(place);
    stored(cells, stored_at);
}

pub(super) fn operation(cells: &mut Tuples, record: &OperationRecord) {
    cells.name(&record.resource);
    rows::write_operation(cells, record);
}

pub(super) fn audit(cells: &mut Tuples, (ordinal, row): (usize, &AuditRow)) {
    cells.subject(&row.subject);
    cells.time(row.at);
    cells.whole(u64::try_from(ordinal).unwrap_or(u64::MAX));
    cells.text(row.verb.word());
    cells.position(row.position);
    cells.maybe_text(row.reason.as_deref());
    cells.maybe_text(row.holder.as_ref().map(Holder::as_str));
    cells.maybe_text(row.actor.as_ref().map(PrincipalName::as_str));
}

pub(super) fn pruned(cells: &mut Tuples, (at, record): (usize, &OperationRecord)) {
    cells.ordinal(at);
    cells.name(&record.resource);
    cells.whole(record.incarnation.get());
    cells.text(record.operation_id.as_str());
}

pub(super) fn forgotten_control(cells: &mut Tuples, (at, record): (usize, &ControlRecord)) {
    cells.ordinal(at);
    cells.subject(&record.subject);
    cells.text(record.verb.word());
    cells.text(record.key.as_str());
}

pub(super) fn aged_audit(cells: &mut Tuples, before: Timestamp) {
    cells.time(before);
}
