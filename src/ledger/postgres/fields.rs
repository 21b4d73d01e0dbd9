//! One composite value of an answer, `ROW(…)` in PostgreSQL's binary form, read field by field from the left. A value
//! that the rules cannot hold is an error, never a guess.

use sqlx::postgres::PgRow;
use sqlx::{Row, ValueRef};

use crate::domain::counter::{Epoch, Sequence, Token};
use crate::domain::position::Position;
use crate::domain::time::Timestamp;
use crate::protocol::rows::Mark;

use super::fault::Fault;

/// The fields that are still to be read.
pub(super) struct Fields<'r> {
    rest: &'r [u8],
    at: usize,
}

/// The bytes of a column; none for NULL.
pub(super) fn bytes_of(row: &PgRow, column: usize) -> Result<Option<&[u8]>, Fault> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    value.as_bytes().map(Some).map_err(|error| Fault::unreadable(error.to_string()))
}

impl<'r> Fields<'r> {
    /// The composite value in a column; none for NULL.
    pub(super) fn of(row: &'r PgRow, column: usize) -> Result<Option<Self>, Fault> {
        let Some(mut rest) = bytes_of(row, column)? else { return Ok(None) };
        take::<4>(&mut rest)?;
        Ok(Some(Self { rest, at: 0 }))
    }

    /// The composite value in a column that always has one.
    pub(super) fn required(row: &'r PgRow, column: usize) -> Result<Self, Fault> {
        Self::of(row, column)?.ok_or_else(|| Fault::unreadable("an answer without its fields"))
    }

    /// The next field; none for NULL.
    fn next(&mut self) -> Result<Option<&'r [u8]>, Fault> {
        self.at = self.at.saturating_add(1);
        take::<4>(&mut self.rest)?;
        let length = i32::from_be_bytes(take::<4>(&mut self.rest)?);
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        let Some((value, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.unreadable("it ends too early"));
        };
        self.rest = rest;
        Ok(Some(value))
    }

    fn value(&mut self) -> Result<&'r [u8], Fault> {
        self.next()?.ok_or_else(|| self.unreadable("NULL"))
    }

    /// A signed number of any width.
    pub(super) fn signed(&mut self) -> Result<i64, Fault> {
        let value = self.value()?;
        self.number(value)
    }

    fn maybe_signed(&mut self) -> Result<Option<i64>, Fault> {
        let Some(value) = self.next()? else { return Ok(None) };
        self.number(value).map(Some)
    }

    fn number(&self, value: &[u8]) -> Result<i64, Fault> {
        if let Ok(value) = value.try_into() {
            return Ok(i64::from_be_bytes(value));
        }
        if let Ok(value) = value.try_into() {
            return Ok(i64::from(i32::from_be_bytes(value)));
        }
        if let Ok(value) = value.try_into() {
            return Ok(i64::from(i16::from_be_bytes(value)));
        }
        Err(self.unreadable(&format!("{} bytes are no number", value.len())))
    }

    pub(super) fn boolean(&mut self) -> Result<bool, Fault> {
        Ok(self.value()? == [1])
    }

    /// A number that is not negative.
    pub(super) fn whole<T: TryFrom<i64>>(&mut self) -> Result<T, Fault> {
        let value = self.signed()?;
        T::try_from(value).map_err(|_| self.unreadable(&value.to_string()))
    }

    /// A number that is not negative, or NULL.
    pub(super) fn maybe_whole<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, Fault> {
        let Some(value) = self.maybe_signed()? else { return Ok(None) };
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
        let Some(value) = self.maybe_whole()? else { return Ok(None) };
        make(value).map(Some).ok_or_else(|| self.unreadable(&value.to_string()))
    }

    /// Two fields, epoch and token.
    pub(super) fn position(&mut self) -> Result<Position, Fault> {
        Ok(Position::new(self.counter(Epoch::new)?, self.counter(Token::new)?))
    }

    /// Two fields, both NULL or neither.
    pub(super) fn maybe_position(&mut self) -> Result<Option<Position>, Fault> {
        match (self.maybe_counter(Epoch::new)?, self.maybe_counter(Token::new)?) {
            (Some(epoch), Some(token)) => Ok(Some(Position::new(epoch, token))),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(self.unreadable("half a position")),
        }
    }

    /// Three fields, position and sequence.
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
        self.signed().map(Timestamp::from_ms)
    }

    pub(super) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Fault> {
        Ok(self.maybe_signed()?.map(Timestamp::from_ms))
    }

    pub(super) fn text(&mut self) -> Result<&'r str, Fault> {
        let value = self.value()?;
        std::str::from_utf8(value).map_err(|_| self.unreadable("not UTF-8"))
    }

    fn maybe_text(&mut self) -> Result<Option<&'r str>, Fault> {
        let Some(value) = self.next()? else { return Ok(None) };
        std::str::from_utf8(value).map(Some).map_err(|_| self.unreadable("not UTF-8"))
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
        let text = self.maybe_text()?;
        text.map(parse).transpose().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// One of the words of an enum.
    pub(super) fn word<T>(&mut self, from_word: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        let word = self.text()?;
        from_word(word).ok_or_else(|| self.unreadable(&format!("unknown word {word:?}")))
    }

    /// One of the words of an enum, or NULL.
    pub(super) fn maybe_word<T>(
        &mut self,
        from_word: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(word) = self.maybe_text()? else { return Ok(None) };
        from_word(word).map(Some).ok_or_else(|| self.unreadable(&format!("unknown word {word:?}")))
    }

    /// Any bytes, or NULL.
    pub(super) fn maybe_blob(&mut self) -> Result<Option<&'r [u8]>, Fault> {
        self.next()
    }

    /// Exactly `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.maybe_bytes()?.ok_or_else(|| self.unreadable("NULL"))
    }

    /// Exactly `N` bytes, or NULL.
    pub(super) fn maybe_bytes<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Fault> {
        let Some(value) = self.next()? else { return Ok(None) };
        let exact = value.try_into();
        exact.map(Some).map_err(|_| self.unreadable(&format!("{} bytes instead of {N}", value.len())))
    }

    /// A complaint about the field that was read last.
    fn unreadable(&self, reason: &str) -> Fault {
        Fault::unreadable(format!("field {} of a row: {reason}", self.at))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Fault> {
    let Some((head, tail)) = rest.split_first_chunk::<N>() else {
        return Err(Fault::unreadable("a row ends too early"));
    };
    *rest = tail;
    Ok(*head)
}
