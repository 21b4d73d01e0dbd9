//! The way into a file: lock it, bring its schema up to date, hold the seal keys against it, start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Connection, Executor, SqliteConnection, SqlitePool};
use uuid::Uuid;

use crate::domain::counter::LedgerSeq;
use crate::domain::seal::{KeyFingerprint, KeyId};
use crate::domain::time::{Clock, Timestamp};
use crate::limits::{SQLITE_READ_WAIT, SQLITE_READERS};

use super::super::engine::{Identity, RecordedKey};
use super::super::time::SharedTime;
use super::checkpoint::Checkpointer;
use super::columns::Columns;
use super::fault::Fault;
use super::lock::{self, FileLock};
use super::{Progress, SqliteEngine, SqliteReader, apply, schema, settings};

/// Whether a database may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Make one where there is none.
    Create,
    /// The file must be there.
    ExistingOnly,
}

/// Why a database cannot be opened. Each message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no such file, and none may be made.
    #[error("there is no database at {}; check the path, or start the gateway once to make one", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// Another process, or this one, has it open.
    #[error(
        "{} is in use by {}, which holds {}; stop that one first, or give this gateway a database of its own",
        path.display(),
        holder_text(*holder),
        lock.display()
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// The lock beside it.
        lock: PathBuf,
        /// The process that holds it, as it says itself.
        holder: Option<u32>,
    },
    /// A file cannot be made, found or locked.
    #[error("{} cannot be used: {reason}; check that its folder exists and that this user may write there", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// SQLite itself, or what it does with this file, is not fit for a ledger.
    #[error("{} cannot be used: {reason}", path.display())]
    Unfit {
        /// The database.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// An SQLite database of somebody else.
    #[error("{} is a database, but not one of fencegate; nothing was changed in it; give another path", path.display())]
    NotOurs {
        /// The database.
        path: PathBuf,
    },
    /// Its schema is that of a newer version.
    #[error(
        "{} has schema version {found}, and this version of fencegate knows {known} at most; run the newer version \
         that made it, or restore a backup from before the upgrade",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// The version that is not known.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// A step of its schema is not the one of this binary.
    #[error(
        "{} was made with another step {version} of the schema than this binary has; run a released version of \
         fencegate",
        path.display()
    )]
    Edited {
        /// The database.
        path: PathBuf,
        /// The step.
        version: i64,
    },
    /// SQLite reports an error.
    #[error("{} cannot be used as a database: {reason}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
}

impl OpenError {
    pub(super) fn database(path: &Path, error: impl Into<Fault>) -> Self {
        let fault: Fault = error.into();
        Self::Database { path: path.to_owned(), reason: fault.to_string() }
    }
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

/// The ledger's one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) id: Uuid,
    /// The effective time that it remembers.
    pub(super) time: Timestamp,
    /// How far it has come.
    pub(super) reached: LedgerSeq,
}

/// A database that is locked and up to date, and not yet in use.
pub struct Database {
    path: PathBuf,
    connection: SqliteConnection,
    durability: String,
    found: Found,
    clock: Arc<dyn Clock>,
    lock: FileLock,
}

impl Database {
    /// Locks a file and brings its schema up to date. `new_id` becomes the id of a database that has none yet.
    ///
    /// # Errors
    /// [`OpenError`] says what stands against it and what to do.
    pub async fn open(
        path: &Path,
        mode: OpenMode,
        new_id: Uuid,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let path = match mode {
            OpenMode::Create => lock::create(path)?,
            OpenMode::ExistingOnly => lock::existing(path)?,
        };
        let lock = FileLock::take(&path)?;
        let (mut connection, durability) = schema::open(&path).await?;
        let found = identify(&mut connection, new_id, clock.wall())
            .await
            .map_err(|fault| OpenError::database(&path, fault))?;
        Ok(Self { path, connection, durability, found, clock, lock })
    }

    /// The database's own id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.found.id
    }

    /// The seal keys that were ever active here, oldest first.
    ///
    /// # Errors
    /// [`OpenError::Database`] when they cannot be read.
    pub async fn recorded_keys(&mut self) -> Result<Vec<RecordedKey>, OpenError> {
        keys(&mut self.connection).await.map_err(|fault| OpenError::database(&self.path, fault))
    }

    /// Records a seal key; it is durable when this returns. A key that is recorded already stays as it is.
    ///
    /// # Errors
    /// [`OpenError::Database`] when it cannot be written, or when another key of that name is recorded.
    pub async fn record_key(&mut self, key: RecordedKey) -> Result<(), OpenError> {
        if self.recorded_keys().await?.contains(&key) {
            return Ok(());
        }
        let recorded =
            sqlx::query("INSERT INTO seal_keys (key_id, fingerprint, recorded_ms) VALUES (?1, ?2, ?3)")
                .bind(key.id.0.as_slice())
                .bind(key.fingerprint.0.as_slice())
                .bind(self.clock.wall().ms())
                .execute(&mut self.connection)
                .await;
        recorded.map(|_| ()).map_err(|error| OpenError::database(&self.path, error))
    }

    /// Puts the database into service.
    ///
    /// It begins with a small commit: the log is then synced past everything that a process before this one may have
    /// written without learning that it was durable, so what is replayed from now on is.
    ///
    /// # Errors
    /// [`OpenError`] when a connection cannot be had or that commit fails.
    pub async fn start(self) -> Result<(SqliteEngine, SqliteReader, Identity), OpenError> {
        let Self { path, mut connection, durability, found, clock, lock } = self;
        let time = Arc::new(SharedTime::starting_at(found.time, clock));
        let reached =
            barrier(&mut connection, time.now()).await.map_err(|fault| OpenError::database(&path, fault))?;
        let readers = readers(&path).await?;
        let checkpointer =
            Checkpointer::start(&path).await.map_err(|error| OpenError::database(&path, error))?;
        let identity =
            Identity { engine: "sqlite", database: found.id, schema_version: schema::version(), durability };
        let reader = SqliteReader::new(readers.clone(), time.clone(), identity.durability.clone());
        let engine = SqliteEngine {
            path,
            connection: Some(connection),
            in_transaction: false,
            id: found.id,
            progress: Progress { committed: reached, pending: reached },
            time,
            readers,
            checkpointer,
            lock,
        };
        Ok((engine, reader, identity))
    }

    /// Gives the file free again without using it.
    ///
    /// # Errors
    /// [`OpenError::Database`] when SQLite reports an error.
    pub async fn close(self) -> Result<(), OpenError> {
        let Self { path, connection, lock, .. } = self;
        connection.close().await.map_err(|error| OpenError::database(&path, error))?;
        drop(lock);
        Ok(())
    }
}

/// A commit that changes nothing but the ledger's own count, which it gives, and time.
pub(super) async fn barrier(connection: &mut SqliteConnection, now: Timestamp) -> Result<LedgerSeq, Fault> {
    connection.execute("BEGIN IMMEDIATE").await?;
    let reached = apply::step(connection, now).await?;
    connection.execute("COMMIT").await?;
    Ok(reached)
}

/// Makes the ledger's one row where there is none, and reads it.
async fn identify(connection: &mut SqliteConnection, new_id: Uuid, wall: Timestamp) -> Result<Found, Fault> {
    sqlx::query(
        "INSERT INTO ledger (one, database_id, ledger_seq, clock_ms) VALUES (1, ?1, 0, ?2) \
         ON CONFLICT (one) DO NOTHING",
    )
    .bind(new_id.to_string())
    .bind(wall.ms())
    .execute(&mut *connection)
    .await?;
    identity(connection).await
}

/// What the ledger says of itself.
pub(super) async fn identity(connection: &mut SqliteConnection) -> Result<Found, Fault> {
    let row = sqlx::query("SELECT database_id, clock_ms, ledger_seq FROM ledger WHERE one = 1")
        .fetch_one(connection)
        .await?;
    let mut columns = Columns::of(&row);
    Ok(Found {
        id: columns.parsed(Uuid::parse_str)?,
        time: columns.time()?,
        reached: columns.counter(LedgerSeq::new)?,
    })
}

async fn keys(connection: &mut SqliteConnection) -> Result<Vec<RecordedKey>, Fault> {
    let rows = sqlx::query("SELECT key_id, fingerprint FROM seal_keys ORDER BY recorded_ms, key_id")
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            Ok(RecordedKey { id: KeyId(columns.bytes()?), fingerprint: KeyFingerprint(columns.bytes()?) })
        })
        .collect()
}

async fn readers(path: &Path) -> Result<SqlitePool, OpenError> {
    let fail = |error| OpenError::database(path, error);
    let pool = SqlitePoolOptions::new()
        .max_connections(SQLITE_READERS)
        .acquire_timeout(SQLITE_READ_WAIT)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_with(settings::reader(path))
        .await
        .map_err(fail)?;
    let mut connection = pool.acquire().await.map_err(fail)?;
    settings::verify_reader(&mut connection).await.map_err(|unfit| schema::unfit_at(path, unfit))?;
    Ok(pool)
}
