//! Lines of the audit, and samples of what was refused.

use crate::domain::lease::Holder;
use crate::domain::operation::OperationId;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::ResourceName;
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::protocol::rows::{AuditRow, AuditVerb, RefusalRow};

use super::super::cells::{ReadCells, WriteCells};
use super::super::read::{AuditEntry, AuditPlace, NotedRefusal};

/// Columns of an audit line; the databases count transactions in columns of different names.
macro_rules! audit_columns {
    ($transaction:literal) => {
        concat!(
            "u.at_ms, u.",
            $transaction,
            ", u.ordinal, u.resource, u.verb, u.position_epoch, u.position_token, u.reason, u.holder, u.actor"
        )
    };
}

pub(in super::super) fn audit<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<AuditEntry, C::Fault> {
    let at = cells.time()?;
    let place = AuditPlace { at, transaction: cells.whole()?, ordinal: cells.whole()? };
    let row = AuditRow {
        subject: cells.parsed(Subject::parse)?,
        verb: cells.word(AuditVerb::from_word)?,
        position: cells.position()?,
        reason: cells.maybe_text()?.map(str::to_owned),
        holder: cells.maybe_parsed(Holder::parse)?,
        actor: cells.maybe_parsed(PrincipalName::recorded)?,
        at,
    };
    Ok(AuditEntry { place, row })
}

/// Three values: lines before this place are wanted.
pub(in super::super) fn write_audit_place(cells: &mut impl WriteCells, place: &AuditPlace) {
    cells.time(place.at);
    cells.whole(place.transaction);
    cells.whole(place.ordinal);
}

/// Columns of a sample, without its resource.
macro_rules! refusal_columns {
    () => {
        "f.number, f.at_ms, f.code, f.presented_epoch, f.presented_token, f.operation_id, f.times"
    };
}

pub(in super::super) fn refusal<'r, C: ReadCells<'r>>(
    resource: ResourceName,
    cells: &mut C,
) -> Result<NotedRefusal, C::Fault> {
    let number = cells.whole()?;
    let at: Timestamp = cells.time()?;
    let code = cells.text()?.to_owned();
    let presented = cells.maybe_position()?;
    let operation_id = cells.maybe_parsed(OperationId::parse)?;
    let times = cells.whole()?;
    Ok(NotedRefusal { number, row: RefusalRow { resource, code, presented, operation_id, times, at } })
}

/// The name, and what a sample tells: 8 values.
pub(in super::super) fn write_refusal(cells: &mut impl WriteCells, row: &RefusalRow) {
    cells.name(&row.resource);
    cells.time(row.at);
    cells.text(&row.code);
    cells.maybe_position(row.presented);
    cells.maybe_text(row.operation_id.as_ref().map(OperationId::as_str));
    cells.whole(row.times);
}

pub(in super::super) use {audit_columns, refusal_columns};
