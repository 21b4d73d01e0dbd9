//! One row of an answer, read column by column from the left. A value that the rules cannot hold is an error, never a
//! guess.

use sqlx::sqlite::SqliteRow;
use sqlx::{Column, Decode, Row, Sqlite, Type, ValueRef};

use crate::domain::counter::{Epoch, Sequence, Token};
use crate::domain::position::Position;
use crate::domain::time::Timestamp;
use crate::protocol::rows::Mark;

use super::fault::Fault;

/// The columns of a row that are still to be read.
pub(super) struct Columns<'r> {
    row: &'r SqliteRow,
    at: usize,
}

impl<'r> Columns<'r> {
    pub(super) const fn of(row: &'r SqliteRow) -> Self {
        Self { row, at: 0 }
    }

    /// The value in the next column.
    pub(super) fn value<T>(&mut self) -> Result<T, Fault>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        let value = self.row.try_get(self.at)?;
        self.at = self.at.saturating_add(1);
        Ok(value)
    }

    /// Whether the next column is NULL: after an outer join, whether the row is missing.
    pub(super) fn is_null(&self) -> Result<bool, Fault> {
        Ok(self.row.try_get_raw(self.at)?.is_null())
    }

    /// Leaves columns out.
    pub(super) const fn skip(&mut self, columns: usize) {
        self.at = self.at.saturating_add(columns);
    }

    /// A number that is not negative.
    pub(super) fn whole<T: TryFrom<i64>>(&mut self) -> Result<T, Fault> {
        let value: i64 = self.value()?;
        T::try_from(value).map_err(|_| self.unreadable(&value.to_string()))
    }

    /// A number that is not negative, or NULL.
    pub(super) fn maybe_whole<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, Fault> {
        let value: Option<i64> = self.value()?;
        let Some(value) = value else { return Ok(None) };
        T::try_from(value).map(Some).map_err(|_| self.unreadable(&value.to_string()))
    }

    /// A counter.
    pub(super) fn counter<T>(&mut self, make: impl FnOnce(u64) -> Option<T>) -> Result<T, Fault> {
        let value: u64 = self.whole()?;
        make(value).ok_or_else(|| self.unreadable(&value.to_string()))
    }

    /// A counter, or NULL.
    pub(super) fn maybe_counter<T>(
        &mut self,
        make: impl FnOnce(u64) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let value: Option<u64> = self.maybe_whole()?;
        let Some(value) = value else { return Ok(None) };
        make(value).map(Some).ok_or_else(|| self.unreadable(&value.to_string()))
    }

    /// Two columns, epoch and token.
    pub(super) fn position(&mut self) -> Result<Position, Fault> {
        Ok(Position::new(self.counter(Epoch::new)?, self.counter(Token::new)?))
    }

    /// Two columns, both NULL or neither.
    pub(super) fn maybe_position(&mut self) -> Result<Option<Position>, Fault> {
        match (self.maybe_counter(Epoch::new)?, self.maybe_counter(Token::new)?) {
            (Some(epoch), Some(token)) => Ok(Some(Position::new(epoch, token))),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(self.unreadable("half a position")),
        }
    }

    /// Three columns, position and sequence.
    pub(super) fn maybe_mark(&mut self) -> Result<Option<Mark>, Fault> {
        let position = self.maybe_position()?;
        let sequence = self.maybe_counter(Sequence::new)?;
        match (position, sequence) {
            (Some(position), sequence) => Ok(Some(Mark { position, sequence })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(self.unreadable("a sequence without a position")),
        }
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Fault> {
        self.value().map(Timestamp::from_ms)
    }

    pub(super) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Fault> {
        let ms: Option<i64> = self.value()?;
        Ok(ms.map(Timestamp::from_ms))
    }

    /// A text that a parser reads.
    pub(super) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        let text: &str = self.value()?;
        parse(text).map_err(|error| self.unreadable(&error.to_string()))
    }

    /// A text that a parser reads, or NULL.
    pub(super) fn maybe_parsed<T, E: std::fmt::Display>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Fault> {
        let text: Option<&str> = self.value()?;
        text.map(parse).transpose().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// One of the words of an enum.
    pub(super) fn word<T>(&mut self, from_word: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let word: &str = self.value()?;
        from_word(word).ok_or_else(|| self.unreadable(&format!("unknown word {word:?}")))
    }

    /// Exactly `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes: &[u8] = self.value()?;
        bytes.try_into().map_err(|_| self.unreadable(&format!("{} bytes instead of {N}", bytes.len())))
    }

    /// Exactly `N` bytes, or NULL.
    pub(super) fn maybe_bytes<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Fault> {
        if self.is_null()? {
            self.skip(1);
            return Ok(None);
        }
        self.bytes().map(Some)
    }

    /// A complaint about the column that was read last.
    fn unreadable(&self, reason: &str) -> Fault {
        let name = self.at.checked_sub(1).and_then(|at| self.row.columns().get(at)).map(Column::name);
        Fault::unreadable(format!("column {}: {reason}", name.unwrap_or("?")))
    }
}
