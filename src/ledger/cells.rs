//! The values of a row, one after another from the left, whichever database they stand in. A value that the rules cannot
//! hold is an error, never a guess.
//!
//! An engine knows how its database spells a number, a text and bytes. What is made of them is said here once.

use std::fmt::Display;

use crate::domain::counter::{Epoch, Sequence, Token};
use crate::domain::position::Position;
use crate::domain::resource::{Bucket, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::protocol::rows::Mark;

/// The values of a row that are still to be read.
pub(super) trait ReadCells<'r> {
    /// What an unreadable value is reported as.
    type Fault;

    /// A number.
    fn integer(&mut self) -> Result<i64, Self::Fault>;

    /// A number, or NULL.
    fn maybe_integer(&mut self) -> Result<Option<i64>, Self::Fault>;

    fn text(&mut self) -> Result<&'r str, Self::Fault>;

    fn maybe_text(&mut self) -> Result<Option<&'r str>, Self::Fault>;

    /// Any bytes, or NULL.
    fn maybe_blob(&mut self) -> Result<Option<&'r [u8]>, Self::Fault>;

    /// A complaint about the value that was read last.
    fn unreadable(&self, reason: &str) -> Self::Fault;

    /// Any bytes.
    fn blob(&mut self) -> Result<&'r [u8], Self::Fault> {
        self.maybe_blob()?.ok_or_else(|| self.unreadable("NULL"))
    }

    /// Zero or one.
    fn flag(&mut self) -> Result<bool, Self::Fault> {
        match self.integer()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.unreadable(&other.to_string())),
        }
    }

    /// A number that is not negative.
    fn whole<T: TryFrom<i64>>(&mut self) -> Result<T, Self::Fault> {
        let value = self.integer()?;
        T::try_from(value).map_err(|_| self.unreadable(&value.to_string()))
    }

    /// A number that is not negative, or NULL.
    fn maybe_whole<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, Self::Fault> {
        let Some(value) = self.maybe_integer()? else { return Ok(None) };
        T::try_from(value).map(Some).map_err(|_| self.unreadable(&value.to_string()))
    }

    /// A counter.
    fn counter<T>(&mut self, make: impl FnOnce(u64) -> Option<T>) -> Result<T, Self::Fault> {
        let value: u64 = self.whole()?;
        make(value).ok_or_else(|| self.unreadable(&value.to_string()))
    }

    /// A counter, or NULL.
    fn maybe_counter<T>(&mut self, make: impl FnOnce(u64) -> Option<T>) -> Result<Option<T>, Self::Fault> {
        let value: Option<u64> = self.maybe_whole()?;
        let Some(value) = value else { return Ok(None) };
        make(value).map(Some).ok_or_else(|| self.unreadable(&value.to_string()))
    }

    /// Two values, epoch and token.
    fn position(&mut self) -> Result<Position, Self::Fault> {
        Ok(Position::new(self.counter(Epoch::new)?, self.counter(Token::new)?))
    }

    /// Two values, both NULL or neither.
    fn maybe_position(&mut self) -> Result<Option<Position>, Self::Fault> {
        match (self.maybe_counter(Epoch::new)?, self.maybe_counter(Token::new)?) {
            (Some(epoch), Some(token)) => Ok(Some(Position::new(epoch, token))),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(self.unreadable("half a position")),
        }
    }

    /// Three values, position and sequence.
    fn maybe_mark(&mut self) -> Result<Option<Mark>, Self::Fault> {
        let position = self.maybe_position()?;
        let sequence = self.maybe_counter(Sequence::new)?;
        match (position, sequence) {
            (Some(position), sequence) => Ok(Some(Mark { position, sequence })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(self.unreadable("a sequence without a position")),
        }
    }

    fn time(&mut self) -> Result<Timestamp, Self::Fault> {
        self.integer().map(Timestamp::from_ms)
    }

    fn maybe_time(&mut self) -> Result<Option<Timestamp>, Self::Fault> {
        Ok(self.maybe_integer()?.map(Timestamp::from_ms))
    }

    /// A text that a parser reads.
    fn parsed<T, E: Display>(&mut self, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Self::Fault> {
        let text = self.text()?;
        parse(text).map_err(|error| self.unreadable(&error.to_string()))
    }

    /// A text that a parser reads, or NULL.
    fn maybe_parsed<T, E: Display>(
        &mut self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Self::Fault> {
        let text = self.maybe_text()?;
        text.map(parse).transpose().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// One of the words of an enum.
    fn word<T>(&mut self, from_word: impl FnOnce(&str) -> Option<T>) -> Result<T, Self::Fault> {
        let word = self.text()?;
        from_word(word).ok_or_else(|| self.unreadable(&format!("unknown word {word:?}")))
    }

    /// One of the words of an enum, or NULL.
    fn maybe_word<T>(&mut self, from_word: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Self::Fault> {
        let Some(word) = self.maybe_text()? else { return Ok(None) };
        from_word(word).map(Some).ok_or_else(|| self.unreadable(&format!("unknown word {word:?}")))
    }

    /// Exactly `N` bytes.
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Self::Fault> {
        self.maybe_bytes()?.ok_or_else(|| self.unreadable("NULL"))
    }

    /// Exactly `N` bytes, or NULL.
    fn maybe_bytes<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Self::Fault> {
        let Some(value) = self.maybe_blob()? else { return Ok(None) };
        let exact = value.try_into();
        exact.map(Some).map_err(|_| self.unreadable(&format!("{} bytes instead of {N}", value.len())))
    }
}

/// The values of a row that is to be written. What cannot be written is reported when the statement runs.
pub(super) trait WriteCells {
    fn bucket(&mut self, bucket: Bucket);

    /// A number that a column holds: at most 2^63 - 1.
    fn whole(&mut self, value: u64);

    fn maybe_whole(&mut self, value: Option<u64>);

    fn text(&mut self, value: &str);

    fn maybe_text(&mut self, value: Option<&str>);

    fn blob(&mut self, value: &[u8]);

    fn maybe_blob(&mut self, value: Option<&[u8]>);

    fn time(&mut self, at: Timestamp);

    fn maybe_time(&mut self, at: Option<Timestamp>);

    /// Two values: the bucket and the name.
    fn name(&mut self, resource: &ResourceName) {
        self.bucket(resource.bucket());
        self.text(resource.as_str());
    }

    /// Two values: where what is acted on lies, and its name.
    fn subject(&mut self, subject: &Subject) {
        self.bucket(subject.bucket());
        self.text(subject.as_str());
    }

    /// Two values.
    fn position(&mut self, position: Position) {
        self.maybe_position(Some(position));
    }

    /// Two values.
    fn maybe_position(&mut self, position: Option<Position>) {
        self.maybe_whole(position.map(|position| position.epoch.get()));
        self.maybe_whole(position.map(|position| position.token.get()));
    }

    /// Three values.
    fn maybe_mark(&mut self, mark: Option<Mark>) {
        self.maybe_position(mark.map(|mark| mark.position));
        self.maybe_whole(mark.and_then(|mark| mark.sequence).map(Sequence::get));
    }
}
