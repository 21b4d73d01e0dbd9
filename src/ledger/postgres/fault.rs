//! What went wrong inside this room, and what that means to those outside it.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use super::super::engine::EngineError;
use super::super::read::ReadFailed;

/// Why a step did not work.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// PostgreSQL, or the way to it.
    #[error("{}", told(.0))]
    Sql(#[from] sqlx::Error),
    /// No server that can be used now.
    #[error("{0}")]
    Unusable(String),
    /// A row that this version cannot read, or a value that no column holds.
    #[error("{0}")]
    Unreadable(String),
    /// A predicate found other rows than the decision was made on.
    #[error("{table}: {found} of {wanted} rows were as the decision saw them")]
    Disagreed { table: &'static str, wanted: u64, found: u64 },
    /// Somebody else was first with a row that nobody could hold, because it did not exist.
    #[error("{table}: somebody else was first")]
    Overtaken { table: &'static str },
}

impl Fault {
    pub(super) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable(reason.into())
    }

    /// Whether the connection is of no further use: it broke, or the server behind it is not one to write to.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Sql(error) => {
                is_lost(error) || matches!(code(error), Some(READ_ONLY | NO_STATEMENT | STATEMENT_TWICE))
            }
            Self::Unusable(_) => true,
            Self::Unreadable(_) | Self::Disagreed { .. } | Self::Overtaken { .. } => false,
        }
    }
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> Self {
        let reason = fault.to_string();
        match fault {
            Fault::Sql(error) if is_conflict(&error) => Self::Conflict(reason),
            Fault::Sql(error) if is_contradiction(&error) => Self::Inconsistent(reason),
            Fault::Sql(_) | Fault::Unusable(_) => Self::Unavailable(reason),
            Fault::Unreadable(_) | Fault::Disagreed { .. } => Self::Inconsistent(reason),
            Fault::Overtaken { .. } => Self::Conflict(reason),
        }
    }
}

impl From<Fault> for ReadFailed {
    fn from(fault: Fault) -> Self {
        Self(fault.to_string())
    }
}

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const READ_ONLY: &str = "25006";
const NO_STATEMENT: &str = "26000";
const STATEMENT_TWICE: &str = "42P05";
const UNIQUE: &str = "23505";
const PROTOCOL: &str = "08P01";
const LOCK_TIMEOUT: &str = "55P03";

/// Whether the server said that it undid the transaction, and goes on: then a COMMIT definitely did not happen. After a
/// FATAL or a broken connection it may have.
pub(super) fn is_definite(error: &sqlx::Error) -> bool {
    !is_lost(error) && database(error).is_some()
}

/// Whether the connection is gone, or the server is about to end it.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    database(error).is_none_or(|error| match error.severity() {
        PgSeverity::Panic | PgSeverity::Fatal => true,
        PgSeverity::Error
        | PgSeverity::Warning
        | PgSeverity::Notice
        | PgSeverity::Debug
        | PgSeverity::Info
        | PgSeverity::Log => false,
    })
}

/// Whether a fresh attempt may do: a deadlock that PostgreSQL broke, or a serialization failure.
pub(super) fn is_conflict(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code.starts_with("40"))
}

/// Whether a row of that key was there already.
pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    code(error) == Some(UNIQUE)
}

/// Whether the rows, not the database, stand against a statement: a key that exists, a value that a CHECK refuses, a
/// value that a column cannot hold.
fn is_contradiction(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

fn database(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()
}

fn code(error: &sqlx::Error) -> Option<&str> {
    database(error).map(PgDatabaseError::code)
}

/// What PostgreSQL says, with what to do where that is known.
fn told(error: &sqlx::Error) -> String {
    let hint = match code(error) {
        Some(NO_STATEMENT | STATEMENT_TWICE) => {
            "; a connection pooler that mixes prepared statements up stands in between: add \
             statement-cache-capacity=0 to the database address, or let the pooler keep prepared statements"
        }
        Some(PROTOCOL) => {
            "; a connection pooler that does not pass settings on may stand in between: add \
             statement-cache-capacity=0 to the database address"
        }
        Some(LOCK_TIMEOUT) => "; another gateway or a person holds the rows of this batch",
        _ => "",
    };
    match code(error) {
        Some(code) => format!("{error} (SQLSTATE {code}){hint}"),
        None => error.to_string(),
    }
}
