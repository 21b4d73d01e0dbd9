//! The way into a file: lock it, bring its schema up to date, hold the seal keys against it, start.

use std::future::{Future, ready};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use uuid::Uuid;

use crate::domain::counter::{Epoch, LedgerSeq};
use crate::domain::seal::{KeyFingerprint, KeyId};
use crate::domain::time::{Clock, Timestamp};
use crate::limits::SQLITE_WITNESS_BLOCK;

use super::super::cells::ReadCells;
use super::super::engine::{Identity, RecordedKey};
use super::super::guard::Guard;
use super::super::steps;
use super::super::time::SharedTime;
use super::super::witness::{Point, Sighting, WitnessError, WitnessFile};
use super::checkpoint::Checkpointer;
use super::fault::Fault;
use super::load::Places;
use super::lock::{self, FileLock};
use super::readers::Readers;
use super::reopen::FileId;
use super::values::{each, first};
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
    /// Its upgrade was finished, and this version is of before.
    #[error("{} cannot be used: {reason}", path.display())]
    Protocol {
        /// The database.
        path: PathBuf,
        /// What it demands, and what to do.
        reason: String,
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
    /// The epoch of namespaces that were never used.
    epoch: Epoch,
    /// The lowest protocol that a process must speak.
    pub(super) least_protocol: u32,
}

/// A database that is locked and up to date, and not yet in use.
pub struct Database {
    path: PathBuf,
    connection: Connection,
    durability: String,
    found: Found,
    clock: Arc<dyn Clock>,
    guard: Arc<Guard>,
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
        let path = path.to_owned();
        schema::apart(move || {
            let path = match mode {
                OpenMode::Create => lock::create(&path)?,
                OpenMode::ExistingOnly => lock::existing(&path)?,
            };
            let lock = FileLock::take(&path)?;
            let (connection, durability) = schema::open(&path)?;
            let found = identify(&connection, new_id, clock.wall())
                .map_err(|fault| OpenError::database(&path, fault))?;
            if let Some(reason) = steps::too_old(found.least_protocol) {
                return Err(OpenError::Protocol { path, reason });
            }
            let guard = Arc::default();
            Ok(Self { path, connection, durability, found, clock, guard, lock })
        })
        .await
    }

    /// The database's own id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.found.id
    }

    /// Holds the database against its witness, and reserves the first block there. One that is behind comes into service
    /// all the same, and its breaker is tripped before anything else is decided.
    ///
    /// # Errors
    /// [`WitnessError`] when it is the witness of another database, or cannot be written.
    pub async fn watched_by(mut self, witness: WitnessFile) -> Result<Self, WitnessError> {
        let Found { id, reached, epoch, .. } = self.found;
        let point = Point { epoch: epoch.get(), timeline: 0, at: reached.get() };
        let found = Sighting { database: id, system: 0, point, began: None };
        self.guard = Arc::new(Guard::watching(witness, found, SQLITE_WITNESS_BLOCK).await?);
        Ok(self)
    }

    /// The seal keys that were ever active here, oldest first.
    ///
    /// # Errors
    /// [`OpenError::Database`] when they cannot be read.
    pub fn recorded_keys(&mut self) -> impl Future<Output = Result<Vec<RecordedKey>, OpenError>> + use<> {
        ready(keys(&self.connection).map_err(|fault| OpenError::database(&self.path, fault)))
    }

    /// Records a seal key; it is durable when this returns. A key that is recorded already stays as it is.
    ///
    /// # Errors
    /// [`OpenError::Database`] when it cannot be written, or when another key of that name is recorded.
    pub fn record_key(&mut self, key: RecordedKey) -> impl Future<Output = Result<(), OpenError>> + use<> {
        let recorded = record(&self.connection, key, self.clock.wall());
        ready(recorded.map_err(|fault| OpenError::database(&self.path, fault)))
    }

    /// Puts the database into service.
    ///
    /// It begins with a small commit: the log is then synced past everything that a process before this one may have
    /// written without learning that it was durable, so what is replayed from now on is.
    ///
    /// # Errors
    /// [`OpenError`] when a connection cannot be had or that commit fails.
    pub async fn start(self) -> Result<(SqliteEngine, SqliteReader, Identity), OpenError> {
        let Self { path, connection, durability, found, clock, guard, lock } = self;
        schema::apart(move || {
            let fail =
                |error: std::io::Error| OpenError::File { path: path.clone(), reason: error.to_string() };
            let file = FileId::of(&path).map_err(fail)?;
            let time = Arc::new(SharedTime::starting_at(found.time, clock));
            let reached =
                barrier(&connection, time.now()).map_err(|fault| OpenError::database(&path, fault))?;
            let readers = Readers::open(path.clone())?;
            let checkpointer =
                Checkpointer::start(&path).map_err(|error| OpenError::database(&path, error))?;
            let reader = SqliteReader::new(readers.clone(), time.clone(), durability.clone());
            let identity = Identity {
                engine: "sqlite",
                database: found.id,
                schema_version: schema::version(),
                durability,
            };
            let engine = SqliteEngine {
                path,
                connection: Some(connection),
                in_transaction: false,
                places: Places::new(),
                id: found.id,
                file,
                guard,
                progress: Progress { committed: reached, pending: reached, ..Progress::default() },
                time,
                readers,
                checkpointer,
                lock,
            };
            Ok((engine, reader, identity))
        })
        .await
    }

    /// Gives the file free again without using it.
    ///
    /// # Errors
    /// [`OpenError::Database`] when SQLite reports an error.
    pub async fn close(self) -> Result<(), OpenError> {
        let Self { path, connection, lock, .. } = self;
        schema::apart(move || {
            connection.close().map_err(|(_, error)| OpenError::database(&path, error))?;
            drop(lock);
            Ok(())
        })
        .await
    }
}

/// A reader of a database that others may use, and what the database says of itself. Nothing is changed, and nothing can
/// be through it.
///
/// # Errors
/// [`OpenError`] says what stands against it and what to do.
pub async fn look(path: &Path, clock: Arc<dyn Clock>) -> Result<(SqliteReader, Identity), OpenError> {
    let path = path.to_owned();
    schema::apart(move || {
        let path = lock::existing(&path)?;
        schema::current(&path)?;
        let fail = |fault: Fault| OpenError::database(&path, fault);
        let connection = settings::reader(&path).map_err(|error| OpenError::database(&path, error))?;
        let found = identity(&connection).map_err(fail)?;
        connection.close().map_err(|(_, error)| OpenError::database(&path, error))?;
        let readers = Readers::open(path.clone())?;
        let time = Arc::new(SharedTime::starting_at(found.time, clock));
        let durability = "not looked at".to_owned();
        let reader = SqliteReader::new(readers, time, durability.clone());
        let database = found.id;
        let schema_version = schema::version();
        Ok((reader, Identity { engine: "sqlite", database, schema_version, durability }))
    })
    .await
}

/// A commit that changes nothing but the ledger's own count, which it gives, and time.
pub(super) fn barrier(connection: &Connection, now: Timestamp) -> Result<LedgerSeq, Fault> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let reached = apply::step(connection, now, 0)?;
    connection.execute_batch("COMMIT")?;
    Ok(reached.seq)
}

/// Makes the ledger's one row where there is none, and reads it.
fn identify(connection: &Connection, new_id: Uuid, wall: Timestamp) -> Result<Found, Fault> {
    connection.execute(
        "INSERT INTO ledger (one, database_id, ledger_seq, clock_ms, operations) VALUES (1, ?1, 0, ?2, 0) \
         ON CONFLICT (one) DO NOTHING",
        (new_id.to_string(), wall.ms()),
    )?;
    identity(connection)
}

/// What the ledger says of itself.
pub(super) fn identity(connection: &Connection) -> Result<Found, Fault> {
    let found = first(
        connection,
        "SELECT l.database_id, l.clock_ms, l.ledger_seq, e.epoch, l.least_protocol FROM ledger AS l, everywhere AS e \
         WHERE l.one = 1 AND e.bucket = 0",
        |_| {},
        |columns| {
            Ok(Found {
                id: columns.parsed(Uuid::parse_str)?,
                time: columns.time()?,
                reached: columns.counter(LedgerSeq::new)?,
                epoch: columns.counter(Epoch::new)?,
                least_protocol: columns.whole()?,
            })
        },
    )?;
    found.ok_or_else(|| Fault::unreadable("the ledger has no row"))
}

fn keys(connection: &Connection) -> Result<Vec<RecordedKey>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        "SELECT key_id, fingerprint FROM seal_keys ORDER BY recorded_ms, key_id",
        |_| {},
        |columns| {
            let (id, fingerprint) = (KeyId(columns.bytes()?), KeyFingerprint(columns.bytes()?));
            found.push(RecordedKey { id, fingerprint });
            Ok(())
        },
    )?;
    Ok(found)
}

fn record(connection: &Connection, key: RecordedKey, at: Timestamp) -> Result<(), Fault> {
    if keys(connection)?.contains(&key) {
        return Ok(());
    }
    connection.execute(
        "INSERT INTO seal_keys (key_id, fingerprint, recorded_ms) VALUES (?1, ?2, ?3)",
        (key.id.0.as_slice(), key.fingerprint.0.as_slice(), at.ms()),
    )?;
    Ok(())
}
