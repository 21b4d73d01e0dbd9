//! Statements that are prepared once per connection, their values bound one after another, and the rows that they
//! change counted.

use rusqlite::types::ToSql;
use rusqlite::{CachedStatement, Connection};

use crate::domain::counter::Sequence;
use crate::domain::position::Position;
use crate::domain::resource::{Bucket, ResourceName};
use crate::domain::time::Timestamp;
use crate::protocol::rows::Mark;

use super::columns::Columns;
use super::fault::Fault;

/// The values of one run of a statement, from the left. What cannot be bound is reported when the statement runs.
pub(super) struct Values<'s, 'c> {
    statement: &'s mut CachedStatement<'c>,
    bound: usize,
    refused: Option<Fault>,
}

impl<'s, 'c> Values<'s, 'c> {
    const fn of(statement: &'s mut CachedStatement<'c>) -> Self {
        Self { statement, bound: 0, refused: None }
    }

    fn add<T: ToSql>(&mut self, value: T) {
        self.bound = self.bound.saturating_add(1);
        if let Err(error) = self.statement.raw_bind_parameter(self.bound, value) {
            self.refused = Some(error.into());
        }
    }

    /// As many values as the statement has places, and all of them could be bound.
    fn complete(self) -> Result<(), Fault> {
        let wanted = self.statement.parameter_count();
        match self.refused {
            Some(fault) => Err(fault),
            None if self.bound == wanted => Ok(()),
            None => Err(Fault::unreadable(format!(
                "a statement was given {} values instead of {wanted}",
                self.bound
            ))),
        }
    }

    pub(super) fn integer(&mut self, value: i64) {
        self.add(value);
    }

    pub(super) fn maybe_integer(&mut self, value: Option<i64>) {
        self.add(value);
    }

    /// A number that a column holds: at most 2^63 - 1.
    pub(super) fn whole(&mut self, value: u64) {
        if let Ok(value) = i64::try_from(value) {
            self.add(value);
        } else {
            self.bound = self.bound.saturating_add(1);
            self.refused = Some(Fault::unreadable(format!("{value} is above what a column holds")));
        }
    }

    pub(super) fn maybe_whole(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.whole(value),
            None => self.add(None::<i64>),
        }
    }

    pub(super) fn text(&mut self, value: &str) {
        self.add(value);
    }

    pub(super) fn maybe_text(&mut self, value: Option<&str>) {
        self.add(value);
    }

    pub(super) fn blob(&mut self, value: &[u8]) {
        self.add(value);
    }

    pub(super) fn maybe_blob(&mut self, value: Option<&[u8]>) {
        self.add(value);
    }

    pub(super) fn bucket(&mut self, bucket: Bucket) {
        self.add(i64::from(bucket.0));
    }

    /// Two columns.
    pub(super) fn name(&mut self, resource: &ResourceName) {
        self.bucket(resource.bucket());
        self.text(resource.as_str());
    }

    pub(super) fn time(&mut self, at: Timestamp) {
        self.add(at.ms());
    }

    pub(super) fn maybe_time(&mut self, at: Option<Timestamp>) {
        self.add(at.map(Timestamp::ms));
    }

    /// Two columns.
    pub(super) fn position(&mut self, position: Position) {
        self.maybe_position(Some(position));
    }

    /// Two columns.
    pub(super) fn maybe_position(&mut self, position: Option<Position>) {
        self.maybe_whole(position.map(|position| position.epoch.get()));
        self.maybe_whole(position.map(|position| position.token.get()));
    }

    /// Three columns.
    pub(super) fn maybe_mark(&mut self, mark: Option<Mark>) {
        self.maybe_position(mark.map(|mark| mark.position));
        self.maybe_whole(mark.and_then(|mark| mark.sequence).map(Sequence::get));
    }
}

/// Runs a statement and counts the rows that it changed.
pub(super) fn run(
    connection: &Connection,
    text: &str,
    fill: impl FnOnce(&mut Values<'_, '_>),
) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached(text)?;
    bind(&mut statement, fill)?;
    Ok(u64::try_from(statement.raw_execute()?).unwrap_or(u64::MAX))
}

/// Runs a statement that must change exactly one row.
pub(super) fn run_once(
    connection: &Connection,
    table: &'static str,
    text: &str,
    fill: impl FnOnce(&mut Values<'_, '_>),
) -> Result<(), Fault> {
    let found = run(connection, text, fill)?;
    if found == 1 { Ok(()) } else { Err(Fault::Disagreed { table, wanted: 1, found }) }
}

/// Reads every row that a statement answers.
pub(super) fn each(
    connection: &Connection,
    text: &str,
    fill: impl FnOnce(&mut Values<'_, '_>),
    mut read: impl FnMut(&mut Columns<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(text)?;
    bind(&mut statement, fill)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        read(&mut Columns::of(row))?;
    }
    Ok(())
}

/// Reads the first row that a statement answers.
pub(super) fn first<T>(
    connection: &Connection,
    text: &str,
    fill: impl FnOnce(&mut Values<'_, '_>),
    read: impl FnOnce(&mut Columns<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(text)?;
    bind(&mut statement, fill)?;
    let mut rows = statement.raw_query();
    match rows.next()? {
        Some(row) => read(&mut Columns::of(row)).map(Some),
        None => Ok(None),
    }
}

fn bind(statement: &mut CachedStatement<'_>, fill: impl FnOnce(&mut Values<'_, '_>)) -> Result<(), Fault> {
    let mut values = Values::of(statement);
    fill(&mut values);
    values.complete()
}
