//! The steps of the schema, embedded in the binary, and what of them stands in a file.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Error, OptionalExtension as _, TransactionBehavior};
use sqlx::migrate::{Migration, Migrator};

use super::super::steps::{self, Applied, Foreign, MigrationReport, PROTOCOL};
use super::lock::{self, FileLock};
use super::open::OpenError;
use super::settings::{self, Unfit};

static MIGRATOR: Migrator = sqlx::migrate!("migrations/sqlite");

/// `PRAGMA application_id` of a ledger: "FENC". The first migration sets it.
const APPLICATION_ID: i64 = 0x4645_4E43;

/// Where the steps that stand in a file are noted, in the form that sqlx gives it on every database.
const NOTES: &str = "CREATE TABLE IF NOT EXISTS _sqlx_migrations (\
                     version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
                     installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, \
                     checksum BLOB NOT NULL, execution_time BIGINT NOT NULL)";

/// What stands in a file.
#[derive(Debug, Default)]
pub(super) struct Found {
    application_id: i64,
    /// Tables that are not SQLite's own, nor that of the migrations.
    tables: i64,
    applied: Applied,
    /// None where the step that says so is missing.
    least_protocol: Option<u32>,
}

/// The steps that this version knows, which of them stand in the file, and the protocol that it demands. It may be in use;
/// nothing is changed. A file that does not exist has none of them.
///
/// # Errors
/// [`OpenError`] when the file cannot be read, is not a ledger, or is that of a newer version.
pub async fn migration_report(path: &Path) -> Result<MigrationReport, OpenError> {
    let path = path.to_owned();
    apart(move || report(&path)).await
}

/// Makes the file where there is none, and applies the steps that it lacks. No gateway may have it open.
///
/// # Errors
/// [`OpenError`] when that cannot be done.
pub async fn migrate(path: &Path) -> Result<MigrationReport, OpenError> {
    changed(path, |_| Ok(())).await
}

/// The same, and then no process that speaks a lower protocol than this one opens the file any more.
///
/// # Errors
/// [`OpenError`] when that cannot be done.
pub async fn finish(path: &Path) -> Result<MigrationReport, OpenError> {
    changed(path, |connection| connection.execute(FINISH, (PROTOCOL,)).map(|_| ())).await
}

/// It is only ever raised.
const FINISH: &str = "UPDATE ledger SET least_protocol = max(least_protocol, ?1) WHERE one = 1";

async fn changed(
    path: &Path,
    change: impl FnOnce(&Connection) -> Result<(), Error> + Send + 'static,
) -> Result<MigrationReport, OpenError> {
    let path = path.to_owned();
    apart(move || {
        let path = lock::create(&path)?;
        let lock = FileLock::take(&path)?;
        let (connection, _) = open(&path)?;
        change(&connection).map_err(|error| OpenError::database(&path, error))?;
        connection.close().map_err(|(_, error)| OpenError::database(&path, error))?;
        drop(lock);
        report(&path)
    })
    .await
}

/// Runs what waits for the disk on a thread that may wait.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(OpenError::Database { path: PathBuf::new(), reason: error.to_string() }))
}

fn report(path: &Path) -> Result<MigrationReport, OpenError> {
    let found = match lock::existing(path) {
        Ok(path) => inspect(&path)?,
        Err(OpenError::Missing { .. }) => Found::default(),
        Err(error) => return Err(error),
    };
    let steps = steps::states(&MIGRATOR, &found.applied);
    Ok(MigrationReport { steps, least_protocol: found.least_protocol })
}

/// Opens a file for writing with every step applied, and says what keeps its writes. Whoever calls this holds the lock.
pub(super) fn open(path: &Path) -> Result<(Connection, String), OpenError> {
    let fail = |error: Error| OpenError::database(path, error);
    let found = inspect(path)?;
    let mut connection = settings::writer(path).map_err(fail)?;
    let durability = settings::verify_writer(&connection).map_err(|unfit| unfit_at(path, unfit))?;
    for step in MIGRATOR.iter().filter(|step| !found.applied.contains_key(&step.version)) {
        apply(&mut connection, step).map_err(|error| OpenError::Database {
            path: path.to_owned(),
            reason: format!("step {} of the schema could not be applied: {error}", step.version),
        })?;
    }
    Ok((connection, durability))
}

/// One step and the note of it, both or neither.
fn apply(connection: &mut Connection, step: &Migration) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(NOTES)?;
    transaction.execute_batch(step.sql.as_str())?;
    transaction.execute(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (?1, ?2, TRUE, ?3, 0)",
        (step.version, step.description.as_ref(), step.checksum.as_ref()),
    )?;
    transaction.commit()
}

/// The newest step that this version knows; all are applied once a file is open.
pub(super) fn version() -> Option<i64> {
    steps::version(&MIGRATOR)
}

/// Looks into a file without changing it, and refuses what this version must not touch.
pub(super) fn inspect(path: &Path) -> Result<Found, OpenError> {
    let fail = |error: Error| OpenError::database(path, error);
    let connection = settings::reader(path).map_err(fail)?;
    settings::verify_version(&connection).map_err(|unfit| unfit_at(path, unfit))?;
    let found = look(&connection).map_err(fail)?;
    connection.close().map_err(|(_, error)| fail(error))?;
    judge(path, &found)?;
    Ok(found)
}

/// Looks into a file as [`inspect`] does, and refuses one that lacks a step.
pub(super) fn current(path: &Path) -> Result<(), OpenError> {
    let applied = inspect(path)?.applied;
    if MIGRATOR.iter().all(|step| applied.contains_key(&step.version)) {
        return Ok(());
    }
    let reason = "it has the schema of an older version; run fencegate migrate first".to_owned();
    Err(OpenError::Unfit { path: path.to_owned(), reason })
}

pub(super) fn unfit_at(path: &Path, unfit: Unfit) -> OpenError {
    match unfit {
        Unfit::Sql(error) => OpenError::database(path, error),
        Unfit::OldSqlite { .. } | Unfit::Setting { .. } => {
            OpenError::Unfit { path: path.to_owned(), reason: unfit.to_string() }
        }
    }
}

fn look(connection: &Connection) -> Result<Found, Error> {
    let one = |query: &str| connection.query_row(query, (), |row| row.get::<_, i64>(0));
    let application_id = one("PRAGMA application_id")?;
    let tables = one("SELECT count(*) FROM sqlite_schema \
         WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name <> '_sqlx_migrations'")?;
    let noted = one("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'")?;
    let mut applied = Applied::new();
    if noted > 0 {
        let mut statement = connection.prepare("SELECT version, checksum FROM _sqlx_migrations")?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            applied.insert(row.get(0)?, row.get(1)?);
        }
    }
    let said = one("SELECT count(*) FROM pragma_table_info('ledger') WHERE name = 'least_protocol'")?;
    let least = "SELECT least_protocol FROM ledger WHERE one = 1";
    let least_protocol =
        if said > 0 { connection.query_row(least, (), |row| row.get(0)).optional()? } else { None };
    Ok(Found { application_id, tables, applied, least_protocol })
}

fn judge(path: &Path, found: &Found) -> Result<(), OpenError> {
    let is_empty = found.application_id == 0 && found.tables == 0 && found.applied.is_empty();
    if found.application_id != APPLICATION_ID && !is_empty {
        return Err(OpenError::NotOurs { path: path.to_owned() });
    }
    steps::judge(&MIGRATOR, &found.applied).map_err(|foreign| match foreign {
        Foreign::Newer { found, known } => OpenError::Newer { path: path.to_owned(), found, known },
        Foreign::Edited { version } => OpenError::Edited { path: path.to_owned(), version },
    })
}
