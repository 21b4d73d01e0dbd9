//! One composite value of an answer, `ROW(…)` in PostgreSQL's binary form, read field by field from the left. A value
//! that the rules cannot hold is an error, never a guess.

use sqlx::postgres::PgRow;
use sqlx::{Row, ValueRef};

use super::super::cells::ReadCells;
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
}

impl<'r> ReadCells<'r> for Fields<'r> {
    type Fault = Fault;

    /// A signed number of any width.
    fn integer(&mut self) -> Result<i64, Fault> {
        let value = self.value()?;
        self.number(value)
    }

    fn maybe_integer(&mut self) -> Result<Option<i64>, Fault> {
        let Some(value) = self.next()? else { return Ok(None) };
        self.number(value).map(Some)
    }

    fn text(&mut self) -> Result<&'r str, Fault> {
        let value = self.value()?;
        std::str::from_utf8(value).map_err(|_| self.unreadable("not UTF-8"))
    }

    fn maybe_text(&mut self) -> Result<Option<&'r str>, Fault> {
        let Some(value) = self.next()? else { return Ok(None) };
        std::str::from_utf8(value).map(Some).map_err(|_| self.unreadable("not UTF-8"))
    }

    fn maybe_blob(&mut self) -> Result<Option<&'r [u8]>, Fault> {
        self.next()
    }

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
