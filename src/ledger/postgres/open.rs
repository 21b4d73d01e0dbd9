//! The way into a database: find the primary, look at its schema, hold the seal keys against it, start.

use std::sync::Arc;

use sqlx::{Executor, PgConnection};
use uuid::Uuid;

use crate::domain::resource::Bucket;
use crate::domain::seal::{KeyFingerprint, KeyId};
use crate::limits::{POSTGRES_COMMITTERS, POSTGRES_WITNESS_BLOCK};

use super::super::cells::ReadCells;
use super::super::engine::{Identity, RecordedKey};
use super::super::guard::Guard;
use super::super::witness::{Point, Sighting, WitnessError, WitnessFile};
use super::address::Address;
use super::connect::{self, Server, Shared};
use super::durability::durability;
use super::fault::Fault;
use super::fields::Fields;
use super::time::{Time, TimeSource};
use super::{PostgresEngine, PostgresReader, history, schema};

/// Whether the tables may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Make them in an empty database.
    Create,
    /// They must be there.
    ExistingOnly,
}

/// Why a database cannot be opened. Each message says what to do; none holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An address that cannot be read.
    #[error(
        "address {number} of the database cannot be read; write postgres://user:password@host:port/database"
    )]
    Address {
        /// Which one, from 1.
        number: usize,
    },
    /// No server takes writes.
    #[error("no server of the database takes writes: {reason}")]
    NoPrimary {
        /// What each of them says.
        reason: String,
    },
    /// The tables are missing and may not be made.
    #[error("{address} has no ledger; run fencegate migrate, or start the gateway once to make one")]
    Missing {
        /// The database.
        address: String,
    },
    /// The server would lose what it acknowledged.
    #[error("{address} cannot be used: {reason}")]
    Unfit {
        /// The database.
        address: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Tables of somebody else have the names of ours.
    #[error(
        "{address} has tables of the names that fencegate uses, but they are not its own; nothing was changed; give \
         it a database of its own"
    )]
    NotOurs {
        /// The database.
        address: String,
    },
    /// Its schema is that of an older version.
    #[error(
        "{address} has schema version {found}, and this version of fencegate needs {known}; run fencegate migrate \
         first (gateways of the version before may run meanwhile)"
    )]
    Older {
        /// The database.
        address: String,
        /// The version that it has.
        found: i64,
        /// The version that is needed.
        known: i64,
    },
    /// Its schema is that of a newer version.
    #[error(
        "{address} has schema version {found}, and this version of fencegate knows {known} at most; run the newer \
         version that made it, or restore a backup from before the upgrade"
    )]
    Newer {
        /// The database.
        address: String,
        /// The version that is not known.
        found: i64,
        /// The newest version that is known.
        known: i64,
    },
    /// Its upgrade was finished, and this version is of before.
    #[error("{address} cannot be used: {reason}")]
    Protocol {
        /// The database.
        address: String,
        /// What it demands, and what to do.
        reason: String,
    },
    /// A step of its schema is not the one of this binary.
    #[error(
        "{address} was made with another step {version} of the schema than this binary has; run a released version \
         of fencegate"
    )]
    Edited {
        /// The database.
        address: String,
        /// The step.
        version: i64,
    },
    /// Its witness cannot be used.
    #[error("{0}")]
    Witness(#[from] WitnessError),
    /// PostgreSQL reports an error.
    #[error("{address} cannot be used as a database: {reason}")]
    Database {
        /// The database.
        address: String,
        /// What PostgreSQL says.
        reason: String,
    },
}

impl OpenError {
    pub(super) fn database(address: &Address, error: impl Into<Fault>) -> Self {
        let fault: Fault = error.into();
        Self::Database { address: address.to_string(), reason: fault.to_string() }
    }
}

/// A database that was found and is up to date, and not yet in use.
pub struct Database {
    address: Address,
    connection: PgConnection,
    server: Server,
    host: usize,
    id: Uuid,
    time: Time,
    connections: u32,
    guard: Arc<Guard>,
}

impl Database {
    /// Finds the primary and looks at its schema. `new_id` becomes the id of a database that has none yet;
    /// `connections` is how many of the server's connections the gateway may use at once, at least 2.
    ///
    /// # Errors
    /// [`OpenError`] says what stands against it and what to do.
    pub async fn open(
        address: &Address,
        mode: OpenMode,
        new_id: Uuid,
        time: TimeSource,
        connections: u32,
    ) -> Result<Self, OpenError> {
        let (mut connection, server, host) = schema::reach(address).await?;
        server.fit().map_err(|reason| OpenError::Unfit { address: address.to_string(), reason })?;
        schema::ensure(address, &mut connection, mode).await?;
        schema::demand(address, &mut connection).await?;
        let id = identify(&mut connection, &server, new_id)
            .await
            .map_err(|fault| OpenError::database(address, fault))?;
        let address = address.clone();
        let (time, guard) = (Time::of(time), Arc::default());
        Ok(Self { address, connection, server, host, id, time, connections, guard })
    }

    /// Holds the database against its witness, which was read before the database was opened, and reserves the first block
    /// there. One that is behind comes into service all the same, and its breaker is tripped before anything else is decided.
    ///
    /// # Errors
    /// [`OpenError`] when the server does not say where it stands, or [`OpenError::Witness`].
    pub async fn watched_by(mut self, witness: WitnessFile) -> Result<Self, OpenError> {
        let sighting = sight(&mut self.connection, &self.server, self.id, &witness).await;
        let found = sighting.map_err(|fault| OpenError::database(&self.address, fault))?;
        self.guard = Arc::new(Guard::watching(witness, found, POSTGRES_WITNESS_BLOCK).await?);
        Ok(self)
    }

    /// The database's own id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.id
    }

    /// The seal keys that were ever active here, oldest first.
    ///
    /// # Errors
    /// [`OpenError::Database`] when they cannot be read.
    pub async fn recorded_keys(&mut self) -> Result<Vec<RecordedKey>, OpenError> {
        keys(&mut self.connection).await.map_err(|fault| OpenError::database(&self.address, fault))
    }

    /// Records a seal key; it is durable when this returns. A key that is recorded already stays as it is.
    ///
    /// # Errors
    /// [`OpenError::Database`] when it cannot be written, or when another key of that name is recorded.
    pub async fn record_key(&mut self, key: RecordedKey) -> Result<(), OpenError> {
        let begin = self.server.begin();
        let recorded = record(&mut self.connection, begin, key).await;
        recorded.map_err(|fault| OpenError::database(&self.address, fault))
    }

    /// Puts the database into service: engines that write, and a reader.
    ///
    /// # Errors
    /// [`OpenError`] when its settings cannot be read.
    pub async fn start(self) -> Result<(Vec<PostgresEngine>, PostgresReader, Identity), OpenError> {
        let Self { address, mut connection, server, host, id, time, connections, guard } = self;
        let kept = kept(&mut connection).await;
        connect::close(connection).await;
        let kept = kept.map_err(|fault| OpenError::database(&address, fault))?;
        let shared = Arc::new(Shared::new(address, time, id, (server.seen(), host), guard));
        let committers = POSTGRES_COMMITTERS.min(connections.saturating_sub(1)).max(1);
        // Copies of a namespace differ between the engines of one process, and mostly between processes.
        let copies = std::iter::successors(Some(first_copy()), |copy| Some(copy.wrapping_add(1)));
        let engines =
            (0..committers).zip(copies).map(|(_, copy)| PostgresEngine::new(shared.clone(), Bucket(copy)));
        let engines = engines.collect();
        let reader = PostgresReader::new(shared, connections.saturating_sub(committers).max(1));
        let identity = Identity {
            engine: "postgres",
            database: id,
            schema_version: schema::version(),
            durability: kept,
        };
        Ok((engines, reader, identity))
    }

    /// Leaves the database without using it.
    pub async fn close(self) {
        connect::close(self.connection).await;
    }
}

/// Where the database stands, seen from its witness.
async fn sight(
    connection: &mut PgConnection,
    server: &Server,
    database: Uuid,
    witness: &WitnessFile,
) -> Result<Sighting, Fault> {
    connection.execute(connect::LOOK).await?;
    let epoch = history::epoch(connection).await?;
    let seen = server.seen();
    let (timeline, at) = seen.place()?;
    let from = witness.found().and_then(|record| i64::try_from(record.reached.timeline).ok());
    let began = match from.filter(|from| *from < seen.timeline) {
        Some(from) => history::began(connection, from, seen.timeline, server.replayed).await?,
        None => None,
    };
    connection.execute(connect::LOOKED).await?;
    Ok(Sighting { database, system: seen.system(), point: Point { epoch, timeline, at }, began })
}

/// How an acknowledged write is kept, as found at the start.
async fn kept(connection: &mut PgConnection) -> Result<String, Fault> {
    connection.execute(connect::LOOK).await?;
    let kept = durability(connection).await?;
    connection.execute(connect::LOOKED).await?;
    Ok(kept)
}

fn first_copy() -> u8 {
    std::process::id().to_le_bytes().first().copied().unwrap_or_default()
}

/// Gives a database that has no id one, and reads it.
async fn identify(connection: &mut PgConnection, server: &Server, new_id: Uuid) -> Result<Uuid, Fault> {
    connection.execute(server.begin()).await?;
    let known = connect::database_id(connection).await?;
    if let Some(id) = known {
        connection.execute("ROLLBACK").await?;
        return Ok(id);
    }
    sqlx::query("INSERT INTO ledger (one, database_id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING")
        .bind(new_id)
        .persistent(false)
        .execute(&mut *connection)
        .await?;
    // Somebody else may have been first.
    let id = connect::database_id(connection).await?;
    connection.execute("COMMIT").await?;
    id.ok_or_else(|| Fault::unreadable("the database has no id"))
}

const RECORD_KEY: &str = "INSERT INTO seal_keys (key_id, fingerprint, recorded_ms) VALUES ($1, $2, \
                          floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) \
                          ON CONFLICT (key_id) DO NOTHING";

async fn record(connection: &mut PgConnection, begin: &'static str, key: RecordedKey) -> Result<(), Fault> {
    connection.execute(begin).await?;
    sqlx::query(RECORD_KEY)
        .bind(key.id.0.as_slice())
        .bind(key.fingerprint.0.as_slice())
        .persistent(false)
        .execute(&mut *connection)
        .await?;
    let recorded = keys_in_transaction(connection).await?;
    connection.execute("COMMIT").await?;
    if recorded.contains(&key) {
        return Ok(());
    }
    Err(Fault::unreadable(format!("another seal key is recorded under the id {}", key.id)))
}

async fn keys(connection: &mut PgConnection) -> Result<Vec<RecordedKey>, Fault> {
    connection.execute(connect::LOOK).await?;
    let keys = keys_in_transaction(connection).await?;
    connection.execute(connect::LOOKED).await?;
    Ok(keys)
}

async fn keys_in_transaction(connection: &mut PgConnection) -> Result<Vec<RecordedKey>, Fault> {
    let text = "SELECT ROW(key_id, fingerprint) FROM seal_keys ORDER BY recorded_ms, key_id";
    let rows = sqlx::query(text).persistent(false).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let mut fields = Fields::required(row, 0)?;
            Ok(RecordedKey { id: KeyId(fields.bytes()?), fingerprint: KeyFingerprint(fields.bytes()?) })
        })
        .collect()
}
