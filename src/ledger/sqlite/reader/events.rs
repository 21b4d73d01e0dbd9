//! What happened, in the order in which it was committed. There is one writer, so that whatever is committed later stands
//! behind all that can be seen.

use rusqlite::Connection;

use crate::domain::counter::LedgerSeq;
use crate::domain::resource::ResourceName;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::events::{EventPlace, EventsEnd, EventsRead, OperationEntry, Reached};
use super::super::super::time::SharedTime;
use super::super::fault::Fault;
use super::super::rows::{self, audit_columns, operation_columns};
use super::super::values::{each, first};

const END: &str = "SELECT ledger_seq, operations FROM ledger WHERE one = 1";

/// Through the index of that order.
const ACTS: &str = concat!(
    "SELECT ",
    audit_columns!("ledger_seq"),
    " FROM audit AS u INDEXED BY audit_in_order WHERE u.ledger_seq >= ?1 AND (u.ledger_seq, u.ordinal) > (?1, ?2) \
     ORDER BY u.ledger_seq, u.ordinal LIMIT ?3"
);

/// The rows stand in that order. The bytes of an answer are not read.
const OPERATIONS: &str = concat!(
    "SELECT o.id, r.resource, ",
    operation_columns!("CASE WHEN o.response IS NULL THEN NULL ELSE x'' END"),
    " FROM operations AS o CROSS JOIN resources AS r ON r.id = o.resource_id AND r.bucket = o.bucket \
     WHERE o.id > ?1 ORDER BY o.id LIMIT ?2"
);

pub(super) fn end(connection: &Connection, time: &SharedTime) -> Result<EventsEnd, Fault> {
    let view = view(connection)?;
    Ok(EventsEnd { view, last: view, now: time.now() })
}

fn view(connection: &Connection) -> Result<EventPlace, Fault> {
    let reached = first(
        connection,
        END,
        |_| {},
        |columns| {
            let acts = Reached::all_of(columns.counter(LedgerSeq::new)?.get());
            Ok(EventPlace { acts, operations: Reached { transaction: columns.whole()?, ordinal: 0 } })
        },
    )?;
    reached.ok_or(Fault::Disagreed { table: "ledger", wanted: 1, found: 0 })
}

pub(super) fn behind(
    connection: &Connection,
    from: &EventPlace,
    limit: u32,
    time: &SharedTime,
) -> Result<EventsRead, Fault> {
    let mut read = EventsRead { view: view(connection)?, now: time.now(), ..EventsRead::default() };
    each(
        connection,
        ACTS,
        |values| {
            values.whole(from.acts.transaction);
            values.whole(from.acts.ordinal);
            values.whole(u64::from(limit));
        },
        |columns| {
            read.acts.push(rows::audit(columns)?);
            Ok(())
        },
    )?;
    each(
        connection,
        OPERATIONS,
        |values| {
            values.whole(from.operations.transaction);
            values.whole(u64::from(limit));
        },
        |columns| {
            let place = Reached { transaction: columns.whole()?, ordinal: 0 };
            let resource = columns.parsed(ResourceName::parse)?;
            read.operations.push(OperationEntry { place, record: rows::operation(resource, columns)? });
            Ok(())
        },
    )?;
    Ok(read)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![END, ACTS, OPERATIONS]
}
