//! The steps of the schema, embedded in the binary, and what of them stands in a file.

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

use super::lock::{self, FileLock};
use super::open::OpenError;
use super::settings::{self, Unfit};

static MIGRATOR: Migrator = sqlx::migrate!("migrations/sqlite");

/// `PRAGMA application_id` of a ledger: "FENC". The first migration sets it.
const APPLICATION_ID: i64 = 0x4645_4E43;

/// One step of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Its number.
    pub version: i64,
    /// What it does.
    pub description: String,
    /// Whether it stands in the database.
    pub applied: bool,
}

/// What stands in a file.
#[derive(Debug, Default)]
struct Found {
    application_id: i64,
    /// Tables that are not SQLite's own, nor that of the migrations.
    tables: i64,
    /// Checksum by version.
    applied: BTreeMap<i64, Vec<u8>>,
}

/// The steps that this version knows, and which of them stand in the file. It may be in use; nothing is changed. A
/// file that does not exist has none of them.
///
/// # Errors
/// [`OpenError`] when the file cannot be read, is not a ledger, or is that of a newer version.
pub async fn migration_status(path: &Path) -> Result<Vec<MigrationState>, OpenError> {
    match lock::existing(path) {
        Ok(path) => Ok(states(&inspect(&path).await?)),
        Err(OpenError::Missing { .. }) => Ok(states(&Found::default())),
        Err(error) => Err(error),
    }
}

/// Makes the file where there is none, and applies the steps that it lacks. No gateway may have it open.
///
/// # Errors
/// [`OpenError`] when that cannot be done.
pub async fn migrate(path: &Path) -> Result<Vec<MigrationState>, OpenError> {
    let path = lock::create(path)?;
    let lock = FileLock::take(&path)?;
    let (connection, _) = open(&path).await?;
    connection.close().await.map_err(|error| OpenError::database(&path, error))?;
    drop(lock);
    migration_status(&path).await
}

/// Opens a file for writing with every step applied, and says what keeps its writes. Whoever calls this holds the lock.
pub(super) async fn open(path: &Path) -> Result<(SqliteConnection, String), OpenError> {
    let fail = |error| OpenError::database(path, error);
    inspect(path).await?;
    let mut connection = settings::writer(path).connect().await.map_err(fail)?;
    let durability = settings::verify_writer(&mut connection).await.map_err(|unfit| unfit_at(path, unfit))?;
    // `run_direct` is what `run` calls; through `run` the compiler cannot see that our future may change threads.
    MIGRATOR.run_direct(None, &mut connection, false).await.map_err(|error| OpenError::Database {
        path: path.to_owned(),
        reason: format!("a step of the schema could not be applied: {error}"),
    })?;
    Ok((connection, durability))
}

/// The newest step that this version knows; all are applied once a file is open.
pub(super) fn version() -> Option<i64> {
    MIGRATOR.iter().map(|step| step.version).max()
}

fn states(found: &Found) -> Vec<MigrationState> {
    MIGRATOR
        .iter()
        .map(|step| MigrationState {
            version: step.version,
            description: step.description.to_string(),
            applied: found.applied.contains_key(&step.version),
        })
        .collect()
}

/// Looks into a file without changing it, and refuses what this version must not touch.
async fn inspect(path: &Path) -> Result<Found, OpenError> {
    let fail = |error| OpenError::database(path, error);
    let mut connection = settings::reader(path).connect().await.map_err(fail)?;
    settings::verify_version(&mut connection).await.map_err(|unfit| unfit_at(path, unfit))?;
    let found = look(&mut connection).await.map_err(fail)?;
    connection.close().await.map_err(fail)?;
    judge(path, &found)?;
    Ok(found)
}

pub(super) fn unfit_at(path: &Path, unfit: Unfit) -> OpenError {
    match unfit {
        Unfit::Sql(error) => OpenError::database(path, error),
        Unfit::OldSqlite { .. } | Unfit::Setting { .. } => {
            OpenError::Unfit { path: path.to_owned(), reason: unfit.to_string() }
        }
    }
}

async fn look(connection: &mut SqliteConnection) -> Result<Found, sqlx::Error> {
    let application_id = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *connection).await?;
    let tables = sqlx::query_scalar(
        "SELECT count(*) FROM sqlite_schema \
         WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name <> '_sqlx_migrations'",
    )
    .fetch_one(&mut *connection)
    .await?;
    let recorded: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_one(&mut *connection)
    .await?;
    let mut applied = BTreeMap::new();
    if recorded > 0 {
        for row in sqlx::query("SELECT version, checksum FROM _sqlx_migrations").fetch_all(connection).await?
        {
            applied.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    Ok(Found { application_id, tables, applied })
}

fn judge(path: &Path, found: &Found) -> Result<(), OpenError> {
    let is_empty = found.application_id == 0 && found.tables == 0 && found.applied.is_empty();
    if found.application_id != APPLICATION_ID && !is_empty {
        return Err(OpenError::NotOurs { path: path.to_owned() });
    }
    let known = version().unwrap_or_default();
    for (version, checksum) in &found.applied {
        match MIGRATOR.iter().find(|step| step.version == *version) {
            None => return Err(OpenError::Newer { path: path.to_owned(), found: *version, known }),
            Some(step) if step.checksum.as_ref() != checksum.as_slice() => {
                return Err(OpenError::Edited { path: path.to_owned(), version: *version });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
