//! The embedded engine: one SQLite file, one writer, readers apart, one process.
//!
//! Every acknowledged batch was synced to stable storage first (WAL, `synchronous = FULL`). A lock file held for life
//! keeps a second process out; the settings that the promises rest on are read back and not only asked for.

mod apply;
mod keys;
mod load;
mod open;
mod reader;
mod row;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::migrate::Migrator;
use sqlx::{Connection, Row, SqliteConnection};
use uuid::Uuid;

use crate::domain::counter::LedgerSeq;
use crate::domain::seal::{KeyFingerprint, KeyId};
use crate::domain::time::{Clock, Timestamp};

use super::engine::{Identity, RecordedKey};
use super::time::SharedTime;

pub use open::OpenError;
pub use reader::SqliteReader;
pub use writer::SqliteEngine;

use open::LockedFile;

/// The schema, step by step, inside the binary.
static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// An opened database before it serves: locked, migrated, its settings verified.
pub struct Database {
    path: PathBuf,
    lock: LockedFile,
    connection: SqliteConnection,
    identity: Uuid,
    seq: LedgerSeq,
    recorded_time: Timestamp,
    clock: Arc<dyn Clock>,
}

impl Database {
    /// Opens or creates a database; `fresh` becomes its id when it is new.
    ///
    /// # Errors
    /// [`OpenError`] when another process has it open, when it belongs to a newer version, or when a setting that
    /// the promises rest on cannot be had. Nothing is then changed.
    pub async fn open(path: &Path, fresh: Uuid, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let lock = LockedFile::take(path)?;
        open::create_private(path)?;
        let mut connection = open::connect(path).await?;
        open::migrate(&MIGRATIONS, &mut connection).await?;
        let begun = "INSERT INTO ledger VALUES (1, ?1, 0, 0) ON CONFLICT DO NOTHING";
        sqlx::query(begun).bind(fresh.to_string()).execute(&mut connection).await?;
        let row = sqlx::query("SELECT database_id, ledger_seq, clock_ms FROM ledger")
            .fetch_one(&mut connection)
            .await?;
        let identity: &str = row.try_get("database_id")?;
        let identity =
            identity.parse().map_err(|_| OpenError::Damaged("the database id is no UUID".to_owned()))?;
        let seq = row::ledger_seq(&row).map_err(|error| OpenError::Damaged(error.to_string()))?;
        let recorded_time = Timestamp::from_ms(row.try_get("clock_ms")?);
        Ok(Self { path: path.to_owned(), lock, connection, identity, seq, recorded_time, clock })
    }

    /// The seal keys that were ever active here.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn recorded_keys(&mut self) -> Result<Vec<RecordedKey>, OpenError> {
        let rows =
            sqlx::query("SELECT key_id, fingerprint FROM seal_keys").fetch_all(&mut self.connection).await?;
        let read = |row: &sqlx::sqlite::SqliteRow| {
            let (id, fingerprint): (&[u8], &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            match (id.try_into(), fingerprint.try_into()) {
                (Ok(id), Ok(print)) => Ok(RecordedKey { id: KeyId(id), fingerprint: KeyFingerprint(print) }),
                (Err(_), _) | (_, Err(_)) => {
                    Err(OpenError::Damaged("a recorded seal key has a wrong length".to_owned()))
                }
            }
        };
        rows.iter().map(read).collect()
    }

    /// Records a key before anything is sealed with it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn record_key(&mut self, key: RecordedKey) -> Result<(), OpenError> {
        sqlx::query("INSERT INTO seal_keys VALUES (?1, ?2, ?3)")
            .bind(key.id.0.as_slice())
            .bind(key.fingerprint.0.as_slice())
            .bind(self.clock.wall().ms())
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// Begins to serve. It commits once: that is the barrier behind which everything that is visible now is durable,
    /// so that a replay of an operation whose commit an earlier process did not see succeed is honest.
    ///
    /// # Errors
    /// When the database cannot be written or read.
    pub async fn start(mut self) -> Result<(SqliteEngine, SqliteReader, Identity), OpenError> {
        let time = Arc::new(SharedTime::starting_at(self.recorded_time, self.clock));
        let seq = self
            .seq
            .next()
            .ok_or_else(|| OpenError::Damaged("the ledger's counter is at its end".to_owned()))?;
        apply::progress(&mut self.connection, seq, time.now())
            .await
            .map_err(|error| OpenError::Damaged(error.to_string()))?;
        let schema_version = open::schema_version(&mut self.connection).await?;
        let durability = open::durability(&mut self.connection).await?;
        let identity = Identity {
            engine: "sqlite",
            database: self.identity,
            schema_version: Some(schema_version),
            durability,
        };
        let reader = SqliteReader::open(&self.path, time.clone()).await?;
        let engine = SqliteEngine::start(self.path, self.lock, self.connection, seq, time);
        Ok((engine, reader, identity))
    }

    /// Closes it again without serving.
    ///
    /// # Errors
    /// When the last page cannot be written.
    pub async fn close(self) -> Result<(), OpenError> {
        self.connection.close().await?;
        drop(self.lock);
        Ok(())
    }
}

/// One migration and whether a database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Its version.
    pub version: i64,
    /// What it does.
    pub description: String,
    /// Whether it stands in the database.
    pub applied: bool,
}

/// Applies the missing migrations.
///
/// # Errors
/// As [`Database::open`].
pub async fn migrate(path: &Path) -> Result<(), OpenError> {
    let _lock = LockedFile::take(path)?;
    open::create_private(path)?;
    let mut connection = open::connect(path).await?;
    open::migrate(&MIGRATIONS, &mut connection).await?;
    Ok(connection.close().await?)
}

/// Lists the migrations; a database that does not exist has none, and is not created.
///
/// # Errors
/// When the database exists and cannot be read.
pub async fn migration_status(path: &Path) -> Result<Vec<MigrationState>, OpenError> {
    let applied = if path.exists() { open::applied(path).await? } else { Vec::new() };
    let known = MIGRATIONS.iter().map(|one| MigrationState {
        version: one.version,
        description: one.description.to_string(),
        applied: applied.contains(&one.version),
    });
    Ok(known.collect())
}
