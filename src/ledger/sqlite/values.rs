//! Statements that are prepared once per connection, their values bound one after another, and the rows that they
//! change counted.

use rusqlite::types::ToSql;
use rusqlite::{CachedStatement, Connection};

use crate::domain::resource::Bucket;
use crate::domain::time::Timestamp;

use super::super::cells::WriteCells;
use super::super::range::Range;
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

    /// Two values: where a range of names begins, and where it ends.
    pub(super) fn range(&mut self, range: &Range) {
        self.text(&range.from);
        match &range.before {
            Some(before) => self.text(before),
            // Any blob is above any text: no upper end.
            None => self.blob(&[]),
        }
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
}

impl WriteCells for Values<'_, '_> {
    fn bucket(&mut self, bucket: Bucket) {
        self.add(i64::from(bucket.0));
    }

    fn whole(&mut self, value: u64) {
        if let Ok(value) = i64::try_from(value) {
            self.add(value);
        } else {
            self.bound = self.bound.saturating_add(1);
            self.refused = Some(Fault::unreadable(format!("{value} is above what a column holds")));
        }
    }

    fn maybe_whole(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.whole(value),
            None => self.add(None::<i64>),
        }
    }

    fn text(&mut self, value: &str) {
        self.add(value);
    }

    fn maybe_text(&mut self, value: Option<&str>) {
        self.add(value);
    }

    fn blob(&mut self, value: &[u8]) {
        self.add(value);
    }

    fn maybe_blob(&mut self, value: Option<&[u8]>) {
        self.add(value);
    }

    fn time(&mut self, at: Timestamp) {
        self.add(at.ms());
    }

    fn maybe_time(&mut self, at: Option<Timestamp>) {
        self.add(at.map(Timestamp::ms));
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
