//! One row of an answer, read column by column from the left.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::super::cells::ReadCells;
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

    pub(super) fn blob(&mut self) -> Result<&'r [u8], Fault> {
        self.value()?.as_blob().map_err(|error| self.unreadable(&error.to_string()))
    }

    /// Leaves columns out.
    pub(super) const fn skip(&mut self, columns: usize) {
        self.at = self.at.saturating_add(columns);
    }
}

impl<'r> ReadCells<'r> for Columns<'r> {
    type Fault = Fault;

    fn integer(&mut self) -> Result<i64, Fault> {
        self.value()?.as_i64().map_err(|error| self.unreadable(&error.to_string()))
    }

    fn maybe_integer(&mut self) -> Result<Option<i64>, Fault> {
        self.value()?.as_i64_or_null().map_err(|error| self.unreadable(&error.to_string()))
    }

    fn text(&mut self) -> Result<&'r str, Fault> {
        self.value()?.as_str().map_err(|error| self.unreadable(&error.to_string()))
    }

    fn maybe_text(&mut self) -> Result<Option<&'r str>, Fault> {
        self.value()?.as_str_or_null().map_err(|error| self.unreadable(&error.to_string()))
    }

    fn maybe_blob(&mut self) -> Result<Option<&'r [u8]>, Fault> {
        self.value()?.as_blob_or_null().map_err(|error| self.unreadable(&error.to_string()))
    }

    fn unreadable(&self, reason: &str) -> Fault {
        let name = self.at.checked_sub(1).and_then(|at| self.row.as_ref().column_name(at).ok());
        Fault::unreadable(format!("column {}: {reason}", name.unwrap_or("?")))
    }
}
