//! How a file is opened, and the proof that SQLite did as it was told: every setting is read back.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};

use crate::limits::{SQLITE_BUSY_TIMEOUT, SQLITE_CACHE_KIB, SQLITE_STATEMENT_ROWS, SQLITE_WAL_PAGES};

/// The oldest SQLite that may touch a ledger. Older ones can corrupt a database when two connections write or
/// checkpoint at the moment in which the write-ahead log starts anew (<https://sqlite.org/wal.html>, the reset bug).
const OLDEST: [u32; 3] = [3, 51, 3];

/// `PRAGMA synchronous` as a number: a commit returns once the log is synced.
const FULL: i64 = 2;

/// Why SQLite must not be used as it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error(
        "this binary was built with SQLite {found}, which can corrupt a write-ahead log; build it with its bundled \
         SQLite, or with 3.51.3 or newer"
    )]
    OldSqlite { found: String },
    #[error(
        "SQLite keeps {name} at {found} where {wanted} is needed for writes to be durable; put the database on a \
         local disk, not on a network file system, into a folder that this process may write"
    )]
    Setting { name: &'static str, wanted: String, found: String },
    #[error("{0}")]
    Sql(#[from] sqlx::Error),
}

/// SQLite's page, which a ledger does not change.
const PAGE_BYTES: i64 = 4_096;

/// The one connection that writes.
pub(super) fn writer(path: &Path) -> SqliteConnectOptions {
    common(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Checkpoints are made beside the commits, see `checkpoint`.
        .pragma("wal_autocheckpoint", "0")
        // A log that grew under load gives its space back when it starts anew.
        .pragma("journal_size_limit", SQLITE_WAL_PAGES.saturating_mul(PAGE_BYTES).to_string())
        .pragma("cache_size", format!("-{SQLITE_CACHE_KIB}"))
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> SqliteConnectOptions {
    common(path).read_only(true)
}

fn common(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(SQLITE_BUSY_TIMEOUT)
        .row_buffer_size(SQLITE_STATEMENT_ROWS.saturating_add(1))
        .foreign_keys(false)
        .pragma("mmap_size", "0")
        .pragma("temp_store", "memory")
        .pragma("trusted_schema", "off")
        .disable_statement_logging()
}

/// What was found to be in force, for people.
pub(super) async fn verify_writer(connection: &mut SqliteConnection) -> Result<String, Unfit> {
    let version = verify_version(connection).await?;
    let journal: String = setting(connection, "PRAGMA journal_mode").await?;
    require("journal_mode", "wal", &journal)?;
    let synchronous: i64 = setting(connection, "PRAGMA synchronous").await?;
    require("synchronous", &FULL.to_string(), &synchronous.to_string())?;
    let autocheckpoint: i64 = setting(connection, "PRAGMA wal_autocheckpoint").await?;
    require("wal_autocheckpoint", "0", &autocheckpoint.to_string())?;
    verify_mmap(connection).await?;
    Ok(format!(
        "synced to the disk before it is answered (SQLite {version}, journal_mode={journal}, synchronous=FULL)"
    ))
}

/// A reader sees the same log, and never writes.
pub(super) async fn verify_reader(connection: &mut SqliteConnection) -> Result<(), Unfit> {
    let journal: String = setting(connection, "PRAGMA journal_mode").await?;
    require("journal_mode", "wal", &journal)?;
    verify_mmap(connection).await
}

/// The version of the library that is linked in, when it is new enough.
pub(super) async fn verify_version(connection: &mut SqliteConnection) -> Result<String, Unfit> {
    let version: String = setting(connection, "SELECT sqlite_version()").await?;
    if is_recent_enough(&version) { Ok(version) } else { Err(Unfit::OldSqlite { found: version }) }
}

/// Mapped reads turn an error of the disk into the end of the process.
async fn verify_mmap(connection: &mut SqliteConnection) -> Result<(), Unfit> {
    let size: Option<i64> = sqlx::query_scalar("PRAGMA mmap_size").fetch_optional(connection).await?;
    require("mmap_size", "0", &size.unwrap_or_default().to_string())
}

async fn setting<T>(connection: &mut SqliteConnection, query: &'static str) -> Result<T, sqlx::Error>
where
    T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + Unpin,
{
    sqlx::query_scalar(query).fetch_one(connection).await
}

fn require(name: &'static str, wanted: &str, found: &str) -> Result<(), Unfit> {
    if found == wanted {
        return Ok(());
    }
    Err(Unfit::Setting { name, wanted: wanted.to_owned(), found: found.to_owned() })
}

/// Whether a version text is at least [`OLDEST`]. What is not a version is not recent.
fn is_recent_enough(version: &str) -> bool {
    let parts: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    parts.is_ok_and(|parts| parts.len() >= OLDEST.len() && parts.as_slice() >= OLDEST.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for recent in ["3.51.3", "3.51.4", "3.51.10", "3.52.0", "3.100.0", "4.0.0", "3.51.3.1"] {
            assert!(is_recent_enough(recent), "{recent}");
        }
        for old in ["3.51.2", "3.9.10", "3.50.99", "2.99.99", "3.51", "3", "", "3.51.x", "new"] {
            assert!(!is_recent_enough(old), "{old}");
        }
    }
}
