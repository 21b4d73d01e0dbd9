//! The embedded engine: SQLite, one connection that writes, others that read, one process per file.
//!
//! It holds no rule. It loads what a batch wants, writes what was decided with the fence repeated in the predicates,
//! and commits once. It must never answer "committed" before the log is synced, and never "failed" when that is not
//! sure; a connection that met doubt is closed, and another one begins behind a commit of its own.

mod apply;
mod checkpoint;
mod columns;
mod fault;
mod load;
mod lock;
mod open;
mod reader;
mod rows;
mod schema;
mod settings;
#[cfg(test)]
mod tests;
mod tuples;

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::{ConnectOptions, Connection, Executor, SqliteConnection, SqlitePool};
use tracing::{info, warn};
use uuid::Uuid;

use crate::domain::counter::LedgerSeq;
use crate::domain::time::Timestamp;
use crate::protocol::Wanted;

use super::changeset::ChangeSet;
use super::engine::{CommitOutcome, Engine, EngineError, Loaded};
use super::time::SharedTime;
use checkpoint::Checkpointer;
use fault::Fault;
use lock::FileLock;

pub use open::{Database, OpenError, OpenMode};
pub use reader::SqliteReader;
pub use schema::{MigrationState, migrate, migration_status};

/// How far the ledger has come, as this process saw it.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// By the last commit that is known to be durable.
    committed: LedgerSeq,
    /// By the batch that is not committed yet.
    pending: LedgerSeq,
}

/// The writer. It owns the one connection that writes, and the lock of the file.
pub struct SqliteEngine {
    path: PathBuf,
    /// None after a doubt, until it can be opened again.
    connection: Option<SqliteConnection>,
    in_transaction: bool,
    id: Uuid,
    progress: Progress,
    time: Arc<SharedTime>,
    readers: SqlitePool,
    checkpointer: Checkpointer,
    // The last field: it is dropped after every connection.
    lock: FileLock,
}

impl SqliteEngine {
    /// The connection, outside a transaction; a new one after a doubt.
    async fn ready(&mut self) -> Result<(), EngineError> {
        if self.in_transaction {
            self.rollback().await;
        }
        if self.connection.is_none() {
            let connection = self.reopen().await.map_err(|reason| {
                warn!(reason, "the database cannot be opened again");
                EngineError::Unavailable(reason)
            })?;
            info!("the database is open again");
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// A new connection that has made a commit of its own. The log is then synced past whatever the one before it
    /// left behind, so what is found from now on is durable; and the commit has taken the place in the log where an
    /// unclear one could stand, so what is absent from now on stays absent, also after a crash.
    ///
    /// It must be the same database, and no older than it was: somebody may have put a backup in its place.
    async fn reopen(&mut self) -> Result<SqliteConnection, String> {
        let mut connection =
            settings::writer(&self.path).connect().await.map_err(|error| error.to_string())?;
        settings::verify_writer(&mut connection).await.map_err(|unfit| unfit.to_string())?;
        let found = open::identity(&mut connection).await.map_err(|fault| fault.to_string())?;
        if found.id != self.id || found.reached < self.progress.committed {
            return Err("another or an older database stands in its place; stop the gateway".to_owned());
        }
        let reached =
            open::barrier(&mut connection, self.time.now()).await.map_err(|fault| fault.to_string())?;
        self.progress.committed = reached;
        Ok(connection)
    }

    fn open_connection(&mut self) -> Result<&mut SqliteConnection, EngineError> {
        self.connection.as_mut().ok_or_else(|| EngineError::Unavailable("there is no connection".to_owned()))
    }

    /// Closes a connection whose state is in doubt.
    async fn set_aside(&mut self, reason: &str) {
        warn!(reason, "the writing connection is closed and will be opened again");
        self.in_transaction = false;
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            warn!(%error, "the writing connection closed badly");
        }
    }

    async fn begin_and_load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        if self.checkpointer.is_behind()
            && let Err(error) = checkpoint::catch_up(self.open_connection()?).await
        {
            warn!(%error, "a checkpoint failed");
        }
        let begun = self.open_connection()?.execute("BEGIN IMMEDIATE").await;
        begun.map_err(Fault::from)?;
        self.in_transaction = true;
        // Only now: a time read before the lock was held could be older than what the lock's last holder wrote.
        let now = self.time.now();
        let snapshot = load::snapshot(self.open_connection()?, wanted).await?;
        Ok(Loaded { snapshot, now })
    }
}

impl Engine for SqliteEngine {
    async fn load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        self.ready().await?;
        self.begin_and_load(wanted).await
    }

    async fn apply(&mut self, changes: &ChangeSet, now: Timestamp) -> Result<(), EngineError> {
        if !self.in_transaction {
            return Err(EngineError::Unavailable("there is no transaction to write in".to_owned()));
        }
        self.progress.pending = apply::write(self.open_connection()?, changes, now).await?;
        Ok(())
    }

    async fn commit(&mut self) -> CommitOutcome {
        let Some(connection) = self.connection.as_mut().filter(|_| self.in_transaction) else {
            return CommitOutcome::Failed("there is no transaction to commit".to_owned());
        };
        match connection.execute("COMMIT").await {
            Ok(_) => {
                self.in_transaction = false;
                self.progress.committed = self.progress.committed.max(self.progress.pending);
                self.checkpointer.committed();
                CommitOutcome::Committed
            }
            Err(error) if fault::is_definite(&error) => {
                self.rollback().await;
                CommitOutcome::Failed(error.to_string())
            }
            Err(error) => {
                let reason = error.to_string();
                self.set_aside(&reason).await;
                CommitOutcome::Unknown(reason)
            }
        }
    }

    /// One process owns the file, and a connection that met doubt is followed by one that begins with a commit of its
    /// own: what can be read here is durable.
    async fn confirm(&mut self) -> CommitOutcome {
        self.rollback().await;
        CommitOutcome::Committed
    }

    async fn rollback(&mut self) {
        if !self.in_transaction {
            return;
        }
        let Some(connection) = self.connection.as_mut() else { return };
        match connection.execute("ROLLBACK").await {
            Ok(_) => self.in_transaction = false,
            // SQLite ends a transaction by itself after some errors, and then there is none to roll back; which of
            // the two it is, a new connection need not know.
            Err(error) => self.set_aside(&error.to_string()).await,
        }
    }

    async fn close(mut self) {
        self.rollback().await;
        let Self { connection, readers, checkpointer, lock, .. } = self;
        checkpointer.stop().await;
        readers.close().await;
        if let Some(mut connection) = connection {
            if let Err(error) = checkpoint::finish(&mut connection).await {
                warn!(%error, "the last checkpoint failed; what was committed is in the log");
            }
            if let Err(error) = connection.close().await {
                warn!(%error, "the database closed badly; what was committed is in the log");
            }
        }
        drop(lock);
    }
}
