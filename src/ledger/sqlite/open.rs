//! Opening a database file: the lock, the settings, the schema.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Row, SqliteConnection};

/// Older libraries can lose pages when the write-ahead log is reset (fixed in SQLite 3.51.3).
const LEAST_SQLITE: [u32; 3] = [3, 51, 3];

/// Only our own readers and checkpoints can be in the way, and they are short.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pages of the write-ahead log after which the writer checkpoints by itself. The background checkpoint normally comes
/// first; this bounds the log when it does not get through.
const BACKSTOP_PAGES: &str = "20000";

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "database {0} is in use by another process, which holds {0}.lock; stop that gateway, or give this one a \
         database of its own with --database"
    )]
    InUse(PathBuf),
    /// A file cannot be made or opened.
    #[error("cannot open {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The library is too old.
    #[error(
        "this program was built with SQLite {0}; 3.51.3 or newer is needed, because older ones can lose synced pages. Build it with the bundled library"
    )]
    OldSqlite(String),
    /// A setting that the promises rest on did not take.
    #[error(
        "SQLite's {name} is {found:?} and not {wanted:?}; the file may be on a file system that cannot keep the promise"
    )]
    Setting {
        /// The pragma.
        name: &'static str,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
    /// The schema belongs to a newer version.
    #[error(
        "the database has schema version {found}, and this program knows up to {known}; use the newer fencegate that wrote it"
    )]
    NewerSchema {
        /// In the database.
        found: i64,
        /// In this program.
        known: i64,
    },
    /// A migration does not fit.
    #[error("the database's schema cannot be brought up to date: {0}")]
    Migration(MigrateError),
    /// It holds what it should not.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// SQLite says no.
    #[error("SQLite: {0}")]
    Sqlite(#[from] sqlx::Error),
}

/// An exclusive lock beside the database, held until it is dropped or the process ends in any way.
#[derive(Debug)]
pub(super) struct LockedFile {
    _file: File,
}

impl LockedFile {
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let mut name = database.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|source| OpenError::File { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(database.to_owned())),
            Err(TryLockError::Error(source)) => Err(OpenError::File { path, source }),
        }
    }
}

/// Makes an empty file that only its owner can read, unless there is one; SQLite gives its side files the same mode.
pub(super) fn create_private(path: &Path) -> Result<(), OpenError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.map(drop).map_err(|source| OpenError::File { path: path.to_owned(), source })
}

/// How every connection is opened.
pub(super) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("mmap_size", "0")
        .pragma("wal_autocheckpoint", BACKSTOP_PAGES)
        .disable_statement_logging()
}

/// Opens a writing connection and reads its settings back.
pub(super) async fn connect(path: &Path) -> Result<SqliteConnection, OpenError> {
    let mut connection = options(path).connect().await?;
    let version = pragma(&mut connection, "SELECT sqlite_version()").await?;
    if !is_recent(&version) {
        return Err(OpenError::OldSqlite(version));
    }
    let settings =
        [("journal_mode", "PRAGMA journal_mode", "wal"), ("synchronous", "PRAGMA synchronous", "2")];
    for (name, statement, wanted) in settings {
        let found = pragma(&mut connection, statement).await?;
        if found != wanted {
            return Err(OpenError::Setting { name, wanted, found });
        }
    }
    Ok(connection)
}

/// One value as text, whatever its type.
async fn pragma(connection: &mut SqliteConnection, statement: &'static str) -> Result<String, OpenError> {
    let row = sqlx::query(statement).fetch_one(connection).await?;
    match row.try_get_unchecked::<String, _>(0) {
        Ok(text) => Ok(text),
        Err(_) => Ok(row.try_get_unchecked::<i64, _>(0)?.to_string()),
    }
}

fn is_recent(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let found = [0; 3].map(|zero: u32| parts.next().unwrap_or(zero));
    found >= LEAST_SQLITE
}

/// Applies what is missing. A schema of a newer version is refused: this program does not know what it means.
pub(super) async fn migrate(migrator: &Migrator, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    match migrator.run(&mut *connection).await {
        Ok(()) => Ok(()),
        Err(MigrateError::VersionMissing(found)) => {
            let known = migrator.iter().map(|one| one.version).max().unwrap_or_default();
            Err(OpenError::NewerSchema { found, known })
        }
        Err(error) => Err(OpenError::Migration(error)),
    }
}

/// The newest migration in the database.
pub(super) async fn schema_version(connection: &mut SqliteConnection) -> Result<i64, OpenError> {
    let row = sqlx::query("SELECT max(version) FROM _sqlx_migrations").fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

/// The migrations that a file has, without changing it.
pub(super) async fn applied(path: &Path) -> Result<Vec<i64>, OpenError> {
    let mut connection = options(path).read_only(true).connect().await?;
    let table = "SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'";
    let row = sqlx::query(table).fetch_one(&mut connection).await?;
    if row.try_get::<i64, _>(0)? == 0 {
        return Ok(Vec::new());
    }
    let applied =
        connection.list_applied_migrations("_sqlx_migrations").await.map_err(OpenError::Migration)?;
    Ok(applied.into_iter().map(|one| one.version).collect())
}

/// What an acknowledged write rests on, read back from the connection that writes.
pub(super) async fn durability(connection: &mut SqliteConnection) -> Result<String, OpenError> {
    let version = pragma(connection, "SELECT sqlite_version()").await?;
    let journal = pragma(connection, "PRAGMA journal_mode").await?;
    let synchronous = pragma(connection, "PRAGMA synchronous").await?;
    Ok(format!(
        "SQLite {version}, journal_mode={journal}, synchronous={synchronous}: synced before each answer"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for old in ["3.51.2", "3.9.9", "2.99.99", "", "x"] {
            assert!(!is_recent(old), "{old}");
        }
        for recent in ["3.51.3", "3.51.10", "3.52.0", "4.0.0"] {
            assert!(is_recent(recent), "{recent}");
        }
    }
}
