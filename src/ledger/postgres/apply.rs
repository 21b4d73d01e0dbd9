//! The changes of a batch, written in one statement, or in two where something is cleared away first. Bodies of more than
//! one piece follow, a statement for each piece.
//!
//! The fence is repeated in the predicates and the rows are counted: fewer rows than the rules admitted means that
//! database and rules disagree, and then nothing is committed. Where a row did not exist nobody could hold it: then
//! somebody else may have been first, and the batch is decided anew. Nothing here replaces a row that it does not
//! expect.

use sqlx::postgres::PgArguments;
use sqlx::{Arguments, AssertSqlSafe, Row};

use crate::domain::resource::Address;
use crate::limits::REFUSALS_LOCK_TIMEOUT_MS;
use crate::protocol::rows::{AuditRow, IntentRow, ResourceRow};

use super::super::changeset::{ChangeSet, RowChange, TargetChange};
use super::super::rows;
use super::cells;
use super::connect::Live;
use super::fate::{TransactionId, Written};
use super::fault::{self, Fault};
use super::history;
use super::load::Places;
#[cfg(test)]
use super::tuples::Shape;
use super::tuples::{RowPlace, Tuples};

mod forgotten;
mod intents;
mod leases;
mod namespaces;
mod parts;

use intents::{Announced, INTENTS_CLOSE, INTENTS_INSERT, INTENTS_UPDATE, PIECES_CLOSE, Rest};
use leases::{CONTROLS_INSERT, LEASES_FORGET, LEASES_INSERT, LEASES_UPDATE};
use parts::{
    AUDIT_INSERT, ERAS_INSERT, Expects, OPERATIONS_INSERT, Part, REFUSALS_NOTE, RESOURCES_INSERT,
    RESOURCES_REPLACE, RESOURCES_UPDATE, TARGETS_CLEAR, TARGETS_REMOVE, TARGETS_REPLACE, TARGETS_STORE,
};

/// What one statement does: rows for each of its parts.
#[derive(Default)]
pub(super) struct Work {
    parts: Vec<(&'static Part, Tuples)>,
}

/// The changes of a batch, ready to be sent.
pub(super) struct Prepared {
    statements: Vec<Work>,
    rests: Vec<Rest>,
    /// Whether it gives way to whoever holds a row.
    yields: bool,
}

/// Samples of refusals are worth no wait: what comes behind them in the queue are commits.
const YIELD: &str = "SELECT set_config('lock_timeout', '100', true)";

// The text says it as a literal.
const _: () = assert!(REFUSALS_LOCK_TIMEOUT_MS == 100);

/// Prepares the changes of a batch. Bodies that lie on disk are read on the way.
pub(super) async fn prepared(changes: &ChangeSet, places: &Places) -> Result<Prepared, Fault> {
    let (announced, rests) = intents::announced(changes).await?;
    let yields = !changes.refusals.is_empty();
    Ok(Prepared { statements: prepare(changes, places, announced), rests, yields })
}

/// Removals first, for in one statement no part sees what another one did.
pub(super) fn prepare(changes: &ChangeSet, places: &Places, announced: Announced<'_>) -> Vec<Work> {
    let (replaced, closed) = intents::closed(changes);
    let mut first = Work::default();
    first.forget(changes);
    first.add(&TARGETS_CLEAR, changes.cleared.iter().enumerate(), cells::cleared);
    first.add(&TARGETS_REMOVE, cells::removed(changes).enumerate(), cells::removal);
    first.close(&replaced);

    let mut then = Work::default();
    then.namespaces(changes);
    let (new, known) = split(changes.resources.values());
    then.add(&RESOURCES_INSERT, new, cells::resource);
    let place = |row: &ResourceRow| places.resources.get(&row.resource).copied();
    let lying = known.iter().filter_map(|(_, after)| place(after).map(|place| (place, *after)));
    then.add(&RESOURCES_REPLACE, lying, cells::placed);
    let elsewhere = known.iter().filter(|(_, after)| place(after).is_none());
    then.add(&RESOURCES_UPDATE, elsewhere.copied(), cells::changed_resource);
    then.add(&ERAS_INSERT, &changes.eras, cells::era);
    let (replaced, stored) = contents(changes, places);
    then.add(&TARGETS_REPLACE, replaced, cells::replaced);
    then.add(&TARGETS_STORE, stored, cells::stored);
    then.add(&OPERATIONS_INSERT, &changes.operations, cells::operation);
    then.close(&closed);
    then.add(&INTENTS_UPDATE, changes.changed_intents(), rows::write_intent_change);
    then.add(&INTENTS_INSERT, announced, |cells, (row, first)| rows::write_intent(cells, row, &first));
    let (granted, ended_or_renewed) = split(changes.leases.values());
    then.add(&LEASES_INSERT, granted, rows::write_lease);
    then.add(&LEASES_UPDATE, ended_or_renewed, rows::write_lease_change);
    then.add(&LEASES_FORGET, &changes.forgotten, rows::write_forgotten);
    then.add(&CONTROLS_INSERT, &changes.controls, rows::write_control);
    then.add(&AUDIT_INSERT, numbered(&changes.audit), cells::audit);
    then.add(&REFUSALS_NOTE, &changes.refusals, rows::write_refusal);
    [first, then].into_iter().filter(|work| !work.parts.is_empty()).collect()
}

fn numbered(audit: &[AuditRow]) -> impl Iterator<Item = (usize, &AuditRow)> {
    audit.iter().enumerate()
}

type Stored<'c> = (&'c Address, &'c TargetChange);

/// New content: that which comes in the place of earlier content, and all other.
fn contents<'c>(changes: &'c ChangeSet, places: &Places) -> (Vec<(RowPlace, Stored<'c>)>, Vec<Stored<'c>>) {
    let (mut replaced, mut stored) = (Vec::new(), Vec::new());
    for (address, change) in &changes.targets {
        let place = match change {
            TargetChange::Removed => continue,
            TargetChange::Stored { .. } if changes.cleared.contains(&address.resource) => None,
            TargetChange::Stored { .. } => places.targets.get(address),
        };
        match place {
            Some(place) => replaced.push((*place, (address, change))),
            None => stored.push((address, change)),
        }
    }
    (replaced, stored)
}

/// Rows that are new, and rows that were there.
fn split<'c, T>(changes: impl Iterator<Item = &'c RowChange<T>>) -> (Vec<&'c T>, Vec<(&'c T, &'c T)>) {
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for RowChange { before, after } in changes {
        match before {
            None => new.push(after),
            Some(before) => known.push((before, after)),
        }
    }
    (new, known)
}

impl Work {
    fn add<T>(
        &mut self,
        part: &'static Part,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Tuples, T),
    ) {
        let tuples = Tuples::filled(part.shape, items, fill);
        if !tuples.is_empty() {
            self.parts.push((part, tuples));
        }
    }

    /// Announcements that go, with the pieces of their bodies.
    fn close(&mut self, rows: &[&IntentRow]) {
        self.add(&INTENTS_CLOSE, rows.iter().copied(), rows::write_closed_intent);
        let several = rows.iter().copied().filter(|row| intents::has_pieces(row));
        self.add(&PIECES_CLOSE, several, rows::write_closed_intent);
    }

    /// Whether it uses a name for the first time, which somebody else may do at the same moment.
    fn begins_something(&self) -> bool {
        self.parts.iter().any(|(part, _)| match part.expects {
            Expects::EachUnlessOvertaken | Expects::EachCopyUnlessOvertaken => true,
            Expects::Each | Expects::EachCopy | Expects::Any => false,
        })
    }

    /// One statement for all parts, which answers how many rows each of them changed, and then the transaction's id and
    /// where the log stands.
    fn text(parts: impl Iterator<Item = &'static Part>) -> String {
        let (mut text, mut counts) = (String::from("WITH "), String::from(" SELECT "));
        for (index, part) in parts.enumerate() {
            let number = index.saturating_add(1);
            if index > 0 {
                text.push_str(", ");
                counts.push_str(", ");
            }
            let one = part.text.replacen("{}", &format!("${number}"), 1);
            for piece in ["p", &number.to_string(), " AS (", &one, ")"] {
                text.push_str(piece);
            }
            for piece in ["(SELECT count(*) FROM p", &number.to_string(), ")"] {
                counts.push_str(piece);
            }
        }
        text.push_str(&counts);
        text.push_str(", pg_current_xact_id()::text::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint");
        text
    }

    async fn run(&self, live: &mut Live) -> Result<Written, Fault> {
        let mut arguments = PgArguments::default();
        for (_, tuples) in &self.parts {
            let added = arguments.add(live.shapes.argument(tuples)?);
            added.map_err(|error| Fault::unreadable(error.to_string()))?;
        }
        let text = Self::text(self.parts.iter().map(|(part, _)| *part));
        let answer = live.fetch(AssertSqlSafe(text), arguments).await;
        let rows = match answer {
            Ok(rows) => rows,
            // Of two who use a name for the first time one writes everything; the other one meets its rows.
            Err(Fault::Sql(error)) if fault::is_duplicate(&error) && self.begins_something() => {
                return Err(Fault::Overtaken { table: "first use" });
            }
            Err(fault) => return Err(fault),
        };
        let row = rows.first().ok_or_else(|| Fault::unreadable("a statement without its counts"))?;
        for (index, (part, tuples)) in self.parts.iter().enumerate() {
            let found: i64 = row.try_get(index)?;
            part.judge(tuples.count(), u64::try_from(found).unwrap_or_default())?;
        }
        let id = TransactionId(row.try_get(self.parts.len())?);
        let behind = history::place(row.try_get(self.parts.len().saturating_add(1))?)?;
        Ok(Written { id, behind, era: live.era })
    }
}

/// Writes a batch. A transaction is open; the caller commits it, and can ask for its fate by its id.
pub(super) async fn write(live: &mut Live, prepared: &Prepared) -> Result<Option<Written>, Fault> {
    let mut written = None;
    if prepared.yields {
        live.fetch(YIELD, PgArguments::default()).await?;
    }
    for one in &prepared.statements {
        written = Some(one.run(live).await?);
    }
    for rest in &prepared.rests {
        rest.write(live).await?;
    }
    Ok(written)
}

#[cfg(test)]
impl Work {
    pub(super) fn statement(&self) -> String {
        Self::text(self.parts.iter().map(|(part, _)| *part))
    }
}

/// Shape and text of every part.
#[cfg(test)]
pub(super) fn parts() -> Vec<(Shape, &'static str)> {
    let parts = [
        RESOURCES_INSERT,
        RESOURCES_REPLACE,
        RESOURCES_UPDATE,
        ERAS_INSERT,
        TARGETS_CLEAR,
        TARGETS_REMOVE,
        TARGETS_STORE,
        TARGETS_REPLACE,
        OPERATIONS_INSERT,
        LEASES_INSERT,
        LEASES_UPDATE,
        LEASES_FORGET,
        CONTROLS_INSERT,
        AUDIT_INSERT,
        REFUSALS_NOTE,
    ];
    parts
        .iter()
        .chain(&forgotten::PARTS)
        .chain(&namespaces::PARTS)
        .chain(&intents::PARTS)
        .map(|part| (part.shape, part.text))
        .collect()
}
