//! How a file is opened, and the proof that SQLite did as it was told: every setting is read back.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::deliberate::{self, Bug};
use crate::limits::{
    SQLITE_BUSY_TIMEOUT, SQLITE_CACHE_KIB, SQLITE_READ_CACHE_KIB, SQLITE_STATEMENTS_KEPT, SQLITE_WAL_PAGES,
};

/// The oldest SQLite that may touch a ledger. Older ones can corrupt a database when two connections write or
/// checkpoint at the moment in which the write-ahead log starts anew (<https://sqlite.org/wal.html>, the reset bug).
const OLDEST: [u32; 3] = [3, 51, 3];

/// `PRAGMA synchronous` as a number: `FULL`, so a commit returns once the log is synced.
fn synchronous() -> i64 {
    if deliberate::on(Bug::SynchronousNormal) { 1 } else { 2 }
}

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
    Sql(#[from] rusqlite::Error),
}

/// SQLite's page, which a ledger does not change.
const PAGE_BYTES: i64 = 4_096;

/// The connection that writes. The file must be there.
pub(super) fn writer(path: &Path) -> Result<Connection, rusqlite::Error> {
    logging(path, SQLITE_CACHE_KIB)
}

/// The connection that makes checkpoints. It reads no pages of its own.
pub(super) fn checkpointer(path: &Path) -> Result<Connection, rusqlite::Error> {
    logging(path, SQLITE_READ_CACHE_KIB)
}

fn logging(path: &Path, cache_kib: i64) -> Result<Connection, rusqlite::Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, cache_kib)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", synchronous())?;
    // Checkpoints are made beside the commits, see `checkpoint`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // A batch goes into the log as a whole, in its commit: pages that were put there before it would be written twice.
    connection.pragma_update(None, "cache_spill", false)?;
    // A log that grew under load gives its space back when it starts anew.
    connection.pragma_update(None, "journal_size_limit", SQLITE_WAL_PAGES.saturating_mul(PAGE_BYTES))?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, SQLITE_READ_CACHE_KIB)
}

fn connect(path: &Path, access: OpenFlags, cache_kib: i64) -> Result<Connection, rusqlite::Error> {
    // A connection has one user at a time; the compiler sees to that, so SQLite need not.
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(SQLITE_BUSY_TIMEOUT)?;
    // One plan for a statement, whatever its values are: an equation with a word that an index is limited to would be
    // planned anew each time it is run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(SQLITE_STATEMENTS_KEPT);
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cache_size", cache_kib.saturating_neg())?;
    Ok(connection)
}

/// What was found to be in force, for people.
pub(super) fn verify_writer(connection: &Connection) -> Result<String, Unfit> {
    let version = verify_version(connection)?;
    let journal: String = setting(connection, "PRAGMA journal_mode")?;
    require("journal_mode", "wal", &journal)?;
    let found: i64 = setting(connection, "PRAGMA synchronous")?;
    require("synchronous", &synchronous().to_string(), &found.to_string())?;
    let autocheckpoint: i64 = setting(connection, "PRAGMA wal_autocheckpoint")?;
    require("wal_autocheckpoint", "0", &autocheckpoint.to_string())?;
    verify_mmap(connection)?;
    Ok(format!(
        "synced to the disk before it is answered (SQLite {version}, journal_mode={journal}, synchronous=FULL)"
    ))
}

/// A reader sees the same log, and never writes.
pub(super) fn verify_reader(connection: &Connection) -> Result<(), Unfit> {
    let journal: String = setting(connection, "PRAGMA journal_mode")?;
    require("journal_mode", "wal", &journal)?;
    verify_mmap(connection)
}

/// The version of the library that is linked in, when it is new enough.
pub(super) fn verify_version(connection: &Connection) -> Result<String, Unfit> {
    let version: String = setting(connection, "SELECT sqlite_version()")?;
    if is_recent_enough(&version) { Ok(version) } else { Err(Unfit::OldSqlite { found: version }) }
}

/// Mapped reads turn an error of the disk into the end of the process.
fn verify_mmap(connection: &Connection) -> Result<(), Unfit> {
    let size: Option<i64> = connection.query_row("PRAGMA mmap_size", (), |row| row.get(0)).optional()?;
    require("mmap_size", "0", &size.unwrap_or_default().to_string())
}

fn setting<T: FromSql>(connection: &Connection, query: &str) -> Result<T, rusqlite::Error> {
    connection.query_row(query, (), |row| row.get(0))
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
