//! The one connection that writes.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, warn};

use crate::domain::counter::LedgerSeq;
use crate::domain::time::Timestamp;
use crate::protocol::Wanted;

use super::super::changeset::ChangeSet;
use super::super::engine::{CommitOutcome, Engine, EngineError, Loaded};
use super::super::time::SharedTime;
use super::open::{self, LockedFile};
use super::{apply, load};

/// Commits between two background checkpoints. A few hundred pages of log cost a read little, and a checkpoint on the
/// committing connection would show in the latency of whoever comes next.
const COMMITS_PER_CHECKPOINT: u64 = 64;

/// The writer. It owns its connection, and the lock that keeps other processes out.
pub struct SqliteEngine {
    path: PathBuf,
    lock: LockedFile,
    /// None after a commit whose outcome is not known, until the file is opened again.
    connection: Option<SqliteConnection>,
    in_transaction: bool,
    seq: LedgerSeq,
    pending: LedgerSeq,
    time: Arc<SharedTime>,
    commits: watch::Sender<u64>,
    checkpointer: JoinHandle<()>,
}

impl SqliteEngine {
    pub(super) fn start(
        path: PathBuf,
        lock: LockedFile,
        connection: SqliteConnection,
        seq: LedgerSeq,
        time: Arc<SharedTime>,
    ) -> Self {
        let (commits, counted) = watch::channel(0);
        let checkpointer = tokio::spawn(checkpoint(path.clone(), counted));
        let connection = Some(connection);
        Self { path, lock, connection, in_transaction: false, seq, pending: seq, time, commits, checkpointer }
    }

    /// The connection, opened again where the last one was set aside. What the database then holds is the truth about
    /// the commit that was in doubt.
    async fn connection(&mut self) -> Result<&mut SqliteConnection, EngineError> {
        let connection = if let Some(connection) = self.connection.take() {
            connection
        } else {
            let opened = open::connect(&self.path).await;
            let mut fresh = opened.map_err(|error| EngineError::Unavailable(error.to_string()))?;
            let row = sqlx::query("SELECT ledger_seq FROM ledger").fetch_one(&mut fresh).await?;
            self.seq = super::row::ledger_seq(&row)?;
            warn!(ledger_seq = self.seq.get(), "the database was opened again");
            fresh
        };
        Ok(self.connection.insert(connection))
    }

    /// Sets the connection aside: it is closed, and never used again.
    async fn set_aside(&mut self) {
        self.in_transaction = false;
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            warn!(%error, "a connection that was set aside did not close cleanly");
        }
    }
}

impl Engine for SqliteEngine {
    async fn load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        let connection = self.connection().await?;
        sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
        self.in_transaction = true;
        let now = self.time.now();
        let connection = self.connection().await?;
        let snapshot = load::snapshot(connection, wanted).await?;
        Ok(Loaded { snapshot, now })
    }

    async fn apply(&mut self, changes: &ChangeSet, now: Timestamp) -> Result<(), EngineError> {
        let Some(pending) = self.seq.next() else {
            return Err(EngineError::Unavailable("the ledger's counter is at its end".to_owned()));
        };
        self.pending = pending;
        let connection = self.connection().await?;
        apply::changes(connection, changes, pending, now).await
    }

    async fn commit(&mut self) -> CommitOutcome {
        let Some(connection) = self.connection.as_mut() else {
            return CommitOutcome::Failed("there is no transaction to commit".to_owned());
        };
        match sqlx::query("COMMIT").execute(connection).await {
            Ok(_) => {
                self.in_transaction = false;
                self.seq = self.pending;
                self.commits.send_modify(|count| *count = count.wrapping_add(1));
                CommitOutcome::Committed
            }
            // SQLite leaves the transaction open when it could not get the lock: nothing was written, and that is known.
            Err(error) if is_busy(&error) => {
                self.rollback().await;
                CommitOutcome::Failed(error.to_string())
            }
            Err(error) => {
                self.set_aside().await;
                CommitOutcome::Unknown(error.to_string())
            }
        }
    }

    async fn rollback(&mut self) {
        if !self.in_transaction {
            return;
        }
        let Some(connection) = self.connection.as_mut() else { return };
        match sqlx::query("ROLLBACK").execute(connection).await {
            Ok(_) => self.in_transaction = false,
            // Some errors end the transaction by themselves. Either way this connection is not trusted any more.
            Err(error) => {
                warn!(%error, "a rollback failed; the connection is set aside");
                self.set_aside().await;
            }
        }
    }

    async fn close(mut self) {
        drop(self.commits);
        if let Err(error) = self.checkpointer.await {
            error!(%error, "the background checkpoint ended badly");
        }
        if let Some(mut connection) = self.connection.take() {
            if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await
            {
                warn!(%error, "the last checkpoint failed; the next start reads the write-ahead log");
            }
            if let Err(error) = connection.close().await {
                warn!(%error, "the database did not close cleanly; the next start reads the write-ahead log");
            }
        }
        drop(self.lock);
    }
}

/// The primary result code, 5: somebody else holds the lock.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

/// Moves the write-ahead log into the database beside the writer, on a connection of its own; it never blocks it.
async fn checkpoint(path: PathBuf, mut commits: watch::Receiver<u64>) {
    let mut done = 0_u64;
    let mut connection = None;
    while commits.changed().await.is_ok() {
        let count = *commits.borrow_and_update();
        if count.wrapping_sub(done) < COMMITS_PER_CHECKPOINT {
            continue;
        }
        done = count;
        let mut open = match connection.take() {
            Some(open) => open,
            None => match open::connect(&path).await {
                Ok(fresh) => fresh,
                Err(error) => {
                    warn!(%error, "the background checkpoint cannot open the database");
                    continue;
                }
            },
        };
        match sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut open).await {
            Ok(_) => connection = Some(open),
            Err(error) => warn!(%error, "a background checkpoint failed"),
        }
    }
    if let Some(open) = connection
        && let Err(error) = open.close().await
    {
        warn!(%error, "the background checkpoint's connection did not close cleanly");
    }
}
