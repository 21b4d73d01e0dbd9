//! Doors for the harnesses of `tests/it/fuzz`, with the feature `fuzzing` alone: a row of any values is read as an engine
//! reads one from its database, and what was read is written again.

use super::cells::{ReadCells, WriteCells};
use super::rows;
use crate::domain::operation::OperationId;
use crate::domain::resource::{Bucket, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::protocol::control::{ControlVerb, RecordedVerb};

/// What stands in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The tables whose rows are read column by column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Resources.
    Resources,
    /// Leases.
    Leases,
    /// Content.
    Targets,
    /// Decided operations.
    Operations,
    /// Announced operations.
    Intents,
    /// Calls that are answered alike when they come again.
    Controls,
    /// Namespaces.
    Namespaces,
    /// What holds everywhere.
    Everywhere,
    /// The audit.
    Audit,
    /// Samples of what was refused.
    Refusals,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Resources,
        Self::Leases,
        Self::Targets,
        Self::Operations,
        Self::Intents,
        Self::Controls,
        Self::Namespaces,
        Self::Everywhere,
        Self::Audit,
        Self::Refusals,
    ];

    /// Reads a row, and gives what its row looks like when it is written: the columns that are read, and no others. None of an
    /// audit line, which is written by another statement.
    ///
    /// # Errors
    /// Why these values are no such row.
    pub fn again(self, resource: &ResourceName, values: &[Value]) -> Result<Option<Vec<Value>>, String> {
        let mut cells = Reading { values, at: 0 };
        let mut written = Writing::default();
        match self {
            Self::Resources => {
                rows::write_resource(&mut written, &rows::resource(resource.clone(), &mut cells)?);
            }
            Self::Leases => {
                rows::write_lease(&mut written, &rows::lease(&mut cells)?);
                written.without(1);
            }
            Self::Targets => rows::write_content(&mut written, &rows::content(None, &mut cells)?),
            Self::Operations => {
                rows::write_operation(&mut written, &rows::operation(resource.clone(), &mut cells)?);
            }
            Self::Intents => {
                rows::write_intent(&mut written, &rows::intent(resource.clone(), &mut cells)?, &[]);
                written.without(2);
                written.0.pop();
            }
            Self::Controls => {
                let id = OperationId::parse("key").map_err(|error| error.to_string())?;
                let key =
                    (Subject::Resource(resource.clone()), RecordedVerb::Control(ControlVerb::Revoke), id);
                rows::write_control(&mut written, &rows::control(key, &mut cells)?);
                written.without(4);
            }
            Self::Namespaces => {
                let namespace: Namespace = resource.namespace();
                rows::write_namespace(&mut written, &rows::namespace(namespace, &mut cells)?);
                written.without(1);
            }
            Self::Everywhere => {
                let row = rows::everywhere(&mut cells)?;
                rows::write_everywhere_change(&mut written, (&row, &row));
                written.0.truncate(2);
            }
            Self::Audit => return rows::audit(&mut cells).map(|_| None),
            Self::Refusals => {
                let refusal = rows::refusal(resource.clone(), &mut cells)?;
                written.whole(refusal.number);
                rows::write_refusal(&mut written, &refusal.row);
                written.0.drain(1..3);
            }
        }
        Ok(Some(written.0))
    }
}

struct Reading<'r> {
    values: &'r [Value],
    at: usize,
}

impl<'r> Reading<'r> {
    fn value(&mut self) -> Result<&'r Value, String> {
        let value = self.values.get(self.at).ok_or("the row has too few columns")?;
        self.at = self.at.saturating_add(1);
        Ok(value)
    }
}

impl<'r> ReadCells<'r> for Reading<'r> {
    type Fault = String;

    fn integer(&mut self) -> Result<i64, String> {
        self.maybe_integer()?.ok_or_else(|| "NULL".to_owned())
    }

    fn maybe_integer(&mut self) -> Result<Option<i64>, String> {
        match self.value()? {
            Value::Integer(number) => Ok(Some(*number)),
            Value::Null => Ok(None),
            Value::Text(_) | Value::Blob(_) => Err("no number".to_owned()),
        }
    }

    fn text(&mut self) -> Result<&'r str, String> {
        self.maybe_text()?.ok_or_else(|| "NULL".to_owned())
    }

    fn maybe_text(&mut self) -> Result<Option<&'r str>, String> {
        match self.value()? {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            Value::Integer(_) | Value::Blob(_) => Err("no text".to_owned()),
        }
    }

    fn maybe_blob(&mut self) -> Result<Option<&'r [u8]>, String> {
        match self.value()? {
            Value::Blob(bytes) => Ok(Some(bytes)),
            Value::Null => Ok(None),
            Value::Integer(_) | Value::Text(_) => Err("no bytes".to_owned()),
        }
    }

    fn unreadable(&self, reason: &str) -> String {
        format!("column {}: {reason}", self.at)
    }
}

#[derive(Default)]
struct Writing(Vec<Value>);

impl Writing {
    /// Leaves out what stands before the columns that are read.
    fn without(&mut self, columns: usize) {
        self.0.drain(..columns.min(self.0.len()));
    }
}

impl WriteCells for Writing {
    fn bucket(&mut self, bucket: Bucket) {
        self.whole(u64::from(bucket.0));
    }

    fn whole(&mut self, value: u64) {
        self.maybe_whole(Some(value));
    }

    fn maybe_whole(&mut self, value: Option<u64>) {
        let number = value.map(|value| i64::try_from(value).unwrap_or(-1));
        self.0.push(number.map_or(Value::Null, Value::Integer));
    }

    fn text(&mut self, value: &str) {
        self.maybe_text(Some(value));
    }

    fn maybe_text(&mut self, value: Option<&str>) {
        self.0.push(value.map_or(Value::Null, |text| Value::Text(text.to_owned())));
    }

    fn blob(&mut self, value: &[u8]) {
        self.maybe_blob(Some(value));
    }

    fn maybe_blob(&mut self, value: Option<&[u8]>) {
        self.0.push(value.map_or(Value::Null, |bytes| Value::Blob(bytes.to_vec())));
    }

    fn time(&mut self, at: Timestamp) {
        self.maybe_time(Some(at));
    }

    fn maybe_time(&mut self, at: Option<Timestamp>) {
        self.0.push(at.map_or(Value::Null, |at| Value::Integer(at.ms())));
    }
}
