//! One row of an answer, read column by column from the left. A value that the rules cannot hold is an error, never a
//! guess.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::domain::counter::{Epoch, Sequence, Token};
use crate::domain::position::Position;
use crate::domain::time::Timestamp;
use crate::protocol::rows::Mark;

use super::fault::Fault;

/// The columns of a row that are still to be read.
pub(super) struct Columns<'r> {
    row: &'r Row<'r>,
    at: usize,
}

impl<'r> Columns<'r> {
    pub(super) const fn of(row: &'r Row<'r>) -> Self {
        Self { row, at: 0 }
    }

    /// The value in the next column, as it stands there.
    fn value(&mut self) -> Result<ValueRef<'r>, Fault> {
        let value = self.row.get_ref(self.at)?;
        self.at = self.at.saturating_add(1);
        Ok(value)
    }

    /// Whether the next column is NULL: after an outer join, whether the row is missing.
    pub(super) fn is_null(&self) -> Result<bool, Fault> {
        Ok(self.row.get_ref(self.at)? == ValueRef::Null)
    }

    /// A number.
    pub(super) fn integer(&mut self) -> Result<i64, Fault> {
        self.value()?.as_i64().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// A number, or NULL.
    pub(super) fn maybe_integer(&mut self) -> Result<Option<i64>, Fault> {
        self.value()?.as_i64_or_null().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// Zero or one.
    pub(super) fn flag(&mut self) -> Result<bool, Fault> {
        Ok(self.integer()? != 0)
    }

    pub(super) fn text(&mut self) -> Result<&'r str, Fault> {
        self.value()?.as_str().map_err(|error| self.unreadable(&error.to_string()))
    }

    fn maybe_text(&mut self) -> Result<Option<&'r str>, Fault> {
        self.value()?.as_str_or_null().map_err(|error| self.unreadable(&error.to_string()))
    }

    pub(super) fn blob(&mut self) -> Result<&'r [u8], Fault> {
        self.value()?.as_blob().map_err(|error| self.unreadable(&error.to_string()))
    }

    pub(super) fn maybe_blob(&mut self) -> Result<Option<&'r [u8]>, Fault> {
        self.value()?.as_blob_or_null().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// Leaves columns out.
    pub(super) const fn skip(&mut self, columns: usize) {
        self.at = self.at.saturating_add(columns);
    }

    /// A number that is not negative.
    pub(super) fn whole<T: TryFrom<i64>>(&mut self) -> Result<T, Fault> {
        let value = self.integer()?;
        T::try_from(value).map_err(|_| self.unreadable(&value.to_string()))
    }

    /// A number that is not negative, or NULL.
    pub(super) fn maybe_whole<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, Fault> {
        let Some(value) = self.maybe_integer()? else { return Ok(None) };
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
        self.integer().map(Timestamp::from_ms)
    }

    pub(super) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Fault> {
        Ok(self.maybe_integer()?.map(Timestamp::from_ms))
    }

    /// A text that a parser reads.
    pub(super) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Fault> {
        let text = self.text()?;
        parse(text).map_err(|error| self.unreadable(&error.to_string()))
    }

    /// A text that a parser reads, or NULL.
    pub(super) fn maybe_parsed<T, E: std::fmt::Display>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Fault> {
        self.maybe_text()?.map(parse).transpose().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// One of the words of an enum.
    pub(super) fn word<T>(&mut self, from_word: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let word = self.text()?;
        from_word(word).ok_or_else(|| self.unreadable(&format!("unknown word {word:?}")))
    }

    /// Exactly `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes = self.blob()?;
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
        let name = self.at.checked_sub(1).and_then(|at| self.row.as_ref().column_name(at).ok());
        Fault::unreadable(format!("column {}: {reason}", name.unwrap_or("?")))
    }
}
