//! Operations that are announced and not decided yet, with all that is needed to send them again.

use crate::domain::counter::Incarnation;
use crate::domain::document::{BodyDigest, ContentType};
use crate::domain::precondition::{Preconditions, TagList};
use crate::domain::resource::ResourceName;
use crate::domain::upstream::{Base, Validator};
use crate::protocol::rows::{ForwardedHead, IntentRow};
use crate::protocol::snapshot::OperationKey;

use super::super::cells::{ReadCells, WriteCells};
use super::super::packed;
use super::operations::{announced, write_announced};

/// Columns of an announcement, without its resource and without the body.
macro_rules! intent_columns {
    () => {
        "a.incarnation, a.operation_id, a.target, a.method, a.fingerprint, a.position_epoch, a.position_token, \
         a.sequence, a.acquisition, a.state, a.attempt, a.created_ms, a.named_incarnation, a.if_match, \
         a.if_none_match, a.query, a.headers, a.content_type, a.length, a.digest, a.base, a.doubt, a.due_ms, a.claim"
    };
}

/// The words of a base that is no validator.
const UNREAD: &str = "unread";
const ABSENT: &str = "absent";

pub(in super::super) fn intent<'r, C: ReadCells<'r>>(
    resource: ResourceName,
    cells: &mut C,
) -> Result<IntentRow, C::Fault> {
    Ok(IntentRow {
        record: announced(resource, cells)?,
        named: cells.maybe_counter(Incarnation::new)?,
        preconditions: Preconditions {
            if_match: cells.maybe_parsed(TagList::parse)?,
            if_none_match: cells.maybe_parsed(TagList::parse)?,
        },
        request: request(cells)?,
        base: cells.word(base)?,
        doubt: cells.flag()?,
        due_at: cells.time()?,
        claim: u64::from_be_bytes(cells.bytes()?),
    })
}

fn request<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<ForwardedHead, C::Fault> {
    let query = cells.maybe_text()?.map(str::to_owned);
    let headers = cells.blob()?;
    Ok(ForwardedHead {
        query,
        headers: packed::fields(headers).map_err(|reason| cells.unreadable(reason))?,
        content_type: cells.maybe_parsed(ContentType::parse)?,
        length: cells.whole()?,
        digest: BodyDigest::from_bytes(cells.bytes()?),
    })
}

fn base(text: &str) -> Option<Base> {
    match text {
        UNREAD => Some(Base::Unread),
        ABSENT => Some(Base::Absent),
        validator => Validator::parse(validator).map(Base::Recorded),
    }
}

fn base_text(base: &Base) -> &str {
    match base {
        Base::Unread => UNREAD,
        Base::Absent => ABSENT,
        Base::Recorded(validator) => validator.as_str(),
    }
}

/// The name, the columns above, and the first piece of the body: 27 values.
pub(in super::super) fn write_intent(cells: &mut impl WriteCells, row: &IntentRow, first: &[u8]) {
    cells.name(&row.record.resource);
    write_announced(cells, &row.record);
    cells.maybe_whole(row.named.map(Incarnation::get));
    let declared = &row.preconditions;
    cells.maybe_text(declared.if_match.as_ref().map(TagList::to_string).as_deref());
    cells.maybe_text(declared.if_none_match.as_ref().map(TagList::to_string).as_deref());
    cells.maybe_text(row.request.query.as_deref());
    cells.blob(&packed::fields_bytes(&row.request.headers));
    cells.maybe_text(row.request.content_type.as_ref().map(ContentType::as_str));
    cells.whole(row.request.length);
    cells.blob(row.request.digest.as_bytes());
    cells.text(base_text(&row.base));
    cells.whole(u64::from(row.doubt));
    cells.time(row.due_at);
    cells.blob(&row.claim.to_be_bytes());
    cells.blob(first);
}

/// 4 values.
pub(in super::super) fn write_intent_key(
    cells: &mut impl WriteCells,
    (resource, incarnation, id): &OperationKey,
) {
    cells.name(resource);
    cells.whole(incarnation.get());
    cells.text(id.as_str());
}

/// The key, and what the decision saw of it: 7 values.
pub(in super::super) fn write_closed_intent(cells: &mut impl WriteCells, row: &IntentRow) {
    write_intent_key(cells, &row.key());
    write_seen(cells, row);
}

/// The key, what a step changes, and what the decision saw of that: 12 values. All else is as it was announced.
pub(in super::super) fn write_intent_change(
    cells: &mut impl WriteCells,
    (before, after): (&IntentRow, &IntentRow),
) {
    write_intent_key(cells, &after.key());
    cells.text(after.record.state.word());
    cells.whole(u64::from(after.record.attempt));
    cells.text(base_text(&after.base));
    cells.whole(u64::from(after.doubt));
    cells.time(after.due_at);
    write_seen(cells, before);
}

fn write_seen(cells: &mut impl WriteCells, row: &IntentRow) {
    cells.text(row.record.state.word());
    cells.whole(u64::from(row.record.attempt));
    cells.time(row.due_at);
}

pub(in super::super) use intent_columns;
