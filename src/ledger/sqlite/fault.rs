//! What went wrong inside this room, and what that means to those outside it.

use super::super::engine::EngineError;
use super::super::read::ReadFailed;

// Primary result codes of SQLite (https://www.sqlite.org/rescode.html): the low byte of an extended one.
const BUSY: i32 = 5;
const FULL: i32 = 13;
const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;

/// Why a step did not work.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// SQLite, or the way to it.
    #[error("{0}")]
    Sql(#[from] rusqlite::Error),
    /// A row that this version cannot read, or a value that no column holds.
    #[error("{0}")]
    Unreadable(String),
    /// A predicate found other rows than the decision was made on.
    #[error("{table}: {found} of {wanted} rows were as the decision saw them")]
    Disagreed { table: &'static str, wanted: u64, found: u64 },
}

impl Fault {
    pub(super) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable(reason.into())
    }
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> Self {
        let reason = fault.to_string();
        match fault {
            Fault::Sql(error) if is_contradiction(&error) => Self::Inconsistent(reason),
            Fault::Sql(_) => Self::Unavailable(reason),
            Fault::Unreadable(_) | Fault::Disagreed { .. } => Self::Inconsistent(reason),
        }
    }
}

impl From<Fault> for ReadFailed {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

/// Whether a failed COMMIT definitely did not happen. A lock that could not be had and a full disk are met before the
/// commit's last frame is in the log; after any other error, that of a sync above all, the frame may be there, and
/// nobody knows whether it is on the disk.
pub(super) fn is_definite(error: &rusqlite::Error) -> bool {
    matches!(primary_code(error), Some(BUSY | FULL))
}

/// Whether the rows, not the database, stand against a statement: a key that exists, a value that a CHECK refuses.
fn is_contradiction(error: &rusqlite::Error) -> bool {
    matches!(primary_code(error), Some(CONSTRAINT | MISMATCH))
}

fn primary_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code & 0xFF)
}
