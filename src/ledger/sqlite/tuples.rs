//! Statements over many rows at once: `head (VALUES (?, …), …) tail`.
//!
//! The rows of a batch go into as few statements as it takes. Each statement comes in three sizes only and is padded
//! with NULL rows, so its text is one of three and SQLite's plan for it is made once.

use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type};

use crate::domain::counter::Sequence;
use crate::domain::position::Position;
use crate::domain::resource::Bucket;
use crate::domain::time::Timestamp;
use crate::limits::{SQLITE_KEPT_STATEMENT_BYTES, SQLITE_STATEMENT_ROWS};
use crate::protocol::rows::Mark;

use super::columns::Columns;
use super::fault::Fault;

/// How many rows a statement has room for.
const SIZES: [usize; 3] = [1, 8, SQLITE_STATEMENT_ROWS];

/// A statement over tuples of `width` values, which it knows as `column1`, `column2`, … A padding tuple is all NULL: a
/// comparison with it is never true, and an INSERT must leave it out.
pub(super) struct Statement {
    pub(super) head: &'static str,
    pub(super) width: usize,
    pub(super) tail: &'static str,
}

impl Statement {
    /// Its text with room for at least so many rows.
    fn text(&self, rows: usize) -> String {
        let room = SIZES.into_iter().find(|size| *size >= rows).unwrap_or(rows);
        let mut tuple = String::from("(?");
        for _ in 1..self.width {
            tuple.push_str(",?");
        }
        tuple.push(')');
        let length = tuple.len().saturating_add(1).saturating_mul(room);
        let mut text = String::with_capacity(
            length.saturating_add(self.head.len()).saturating_add(self.tail.len()).saturating_add(16),
        );
        text.push_str(self.head);
        text.push_str(" (VALUES ");
        text.push_str(&tuple);
        for _ in 1..room {
            text.push(',');
            text.push_str(&tuple);
        }
        text.push_str(") ");
        text.push_str(self.tail);
        text
    }

    /// Every text that it can have.
    #[cfg(test)]
    pub(super) fn texts(&self) -> Vec<String> {
        SIZES.into_iter().map(|size| self.text(size)).collect()
    }

    /// Runs it over all items and counts the rows that it changed.
    pub(super) async fn run<T>(
        &self,
        connection: &mut SqliteConnection,
        items: &[T],
        fill: impl Fn(&mut Cells, &T),
    ) -> Result<u64, Fault> {
        let mut changed = 0_u64;
        for chunk in items.chunks(SQLITE_STATEMENT_ROWS) {
            let mut cells = Cells::default();
            for item in chunk {
                fill(&mut cells, item);
            }
            let keep = cells.bytes <= SQLITE_KEPT_STATEMENT_BYTES;
            let arguments = cells.complete(self.width, chunk.len())?;
            let query = sqlx::query_with(AssertSqlSafe(self.text(chunk.len())), arguments).persistent(keep);
            changed = changed.saturating_add(query.execute(&mut *connection).await?.rows_affected());
        }
        Ok(changed)
    }

    /// Runs it over all items and requires that it changes exactly one row for each.
    pub(super) async fn run_exactly<T>(
        &self,
        table: &'static str,
        connection: &mut SqliteConnection,
        items: &[T],
        fill: impl Fn(&mut Cells, &T),
    ) -> Result<(), Fault> {
        let found = self.run(connection, items, fill).await?;
        let wanted = u64::try_from(items.len()).unwrap_or(u64::MAX);
        if found == wanted { Ok(()) } else { Err(Fault::Disagreed { table, wanted, found }) }
    }

    /// Asks it for all keys. It must answer with `column1`, the ordinal of the key, before the columns that `read`
    /// reads; `column2` and so on are what `fill` fills in.
    pub(super) async fn fetch<K, T>(
        &self,
        connection: &mut SqliteConnection,
        keys: &[K],
        fill: impl Fn(&mut Cells, &K),
        read: impl Fn(&K, &mut Columns<'_>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut found = Vec::new();
        for chunk in keys.chunks(SQLITE_STATEMENT_ROWS) {
            let mut cells = Cells::default();
            for (ordinal, key) in chunk.iter().enumerate() {
                cells.whole(u64::try_from(ordinal).unwrap_or(u64::MAX));
                fill(&mut cells, key);
            }
            let arguments = cells.complete(self.width, chunk.len())?;
            let query = sqlx::query_with(AssertSqlSafe(self.text(chunk.len())), arguments);
            for row in query.fetch_all(&mut *connection).await? {
                let mut columns = Columns::of(&row);
                let ordinal: usize = columns.whole()?;
                let Some(key) = chunk.get(ordinal) else {
                    return Err(Fault::unreadable(format!(
                        "an answer to key {ordinal}, which was not asked"
                    )));
                };
                found.push(read(key, &mut columns)?);
            }
        }
        Ok(found)
    }
}

/// The values of the tuples, row after row.
#[derive(Default)]
pub(super) struct Cells {
    arguments: SqliteArguments,
    bytes: usize,
    refused: Option<String>,
}

impl Cells {
    fn add<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) {
        if let Err(error) = self.arguments.add(value) {
            self.refused = Some(error.to_string());
        }
    }

    /// A number that a column holds: at most 2^63 - 1.
    pub(super) fn whole(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.add(value),
            Err(_) => self.refused = Some(format!("{value} is above what a column holds")),
        }
    }

    pub(super) fn maybe_whole(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.whole(value),
            None => self.null(),
        }
    }

    pub(super) fn null(&mut self) {
        self.add(None::<i64>);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.add(value);
    }

    pub(super) fn maybe_text(&mut self, value: Option<&str>) {
        self.add(value);
    }

    pub(super) fn blob(&mut self, value: &[u8]) {
        self.bytes = self.bytes.saturating_add(value.len());
        self.add(value);
    }

    pub(super) fn maybe_blob(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.blob(value),
            None => self.null(),
        }
    }

    pub(super) fn bucket(&mut self, bucket: Bucket) {
        self.whole(u64::from(bucket.0));
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

    /// The values, when each row has as many as the statement asks for.
    fn complete(self, width: usize, rows: usize) -> Result<SqliteArguments, Fault> {
        if let Some(reason) = self.refused {
            return Err(Fault::Unreadable(reason));
        }
        let (found, wanted) = (self.arguments.len(), width.saturating_mul(rows));
        if found == wanted {
            return Ok(self.arguments);
        }
        Err(Fault::Unreadable(format!("a statement was given {found} values instead of {wanted}")))
    }
}
