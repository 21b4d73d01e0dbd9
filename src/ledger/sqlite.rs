//! The embedded engine: SQLite, one connection that writes, others that read, one process per file.
//!
//! It holds no rule. It loads what a batch wants, writes what was decided with the fence repeated in the predicates,
//! and commits once. It must never answer "committed" before the log is synced, and never "failed" when that is not
//! sure; a connection that met doubt is closed, and another one begins behind a commit of its own.

mod apply;
mod checkpoint;
mod columns;
mod copy;
mod fault;
mod load;
mod lock;
mod open;
mod reader;
mod readers;
mod recent;
mod reopen;
mod restore;
mod rows;
mod schema;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::future::{Future, ready};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tracing::{info, warn};
use uuid::Uuid;

use crate::domain::counter::{Epoch, LedgerSeq};
use crate::domain::time::Timestamp;
use crate::limits::SQLITE_GATHER_MOST;
use crate::protocol::Wanted;

use super::changeset::ChangeSet;
use super::engine::{CommitOutcome, Engine, EngineError, Loaded, Seat};
use super::guard::Guard;
use super::time::SharedTime;
use checkpoint::Checkpointer;
use fault::Fault;
use load::Places;
use lock::FileLock;
use readers::Readers;
use reopen::FileId;

pub use copy::{CopyError, Described, back_up};
pub use open::{Database, OpenError, OpenMode, look};
pub use reader::SqliteReader;
pub use restore::{InPlace, Restoring};
pub use schema::{finish, migrate, migration_report};

/// Said of a file that was written over.
const OLDER: &str = "the file of the database is older than it was";

/// Said of a file that was moved away or replaced.
const MOVED: &str = "the name of the database does not lead to the file that is open";

/// How far the ledger has come, as this process saw it.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// By the last commit that is known to be durable.
    committed: LedgerSeq,
    /// By the batch that is not committed yet.
    pending: LedgerSeq,
    /// The epoch into which that batch brings everything, if it does.
    epoch: Option<Epoch>,
    /// Pages that this batch changes, more or less.
    pages: i64,
    /// How long the last commit took.
    flush: Duration,
}

/// The writer. It owns the one connection that writes, and the lock of the file.
pub struct SqliteEngine {
    path: PathBuf,
    /// None after a doubt, until it can be opened again.
    connection: Option<Connection>,
    in_transaction: bool,
    /// Where the resources that were loaded in this transaction stand.
    places: Places,
    id: Uuid,
    /// The file that is open.
    file: FileId,
    progress: Progress,
    guard: Arc<Guard>,
    time: Arc<SharedTime>,
    readers: Readers,
    checkpointer: Checkpointer,
    // The last field: it is dropped after every connection.
    lock: FileLock,
}

impl SqliteEngine {
    /// The connection, outside a transaction; a new one after a doubt.
    fn ready(&mut self) -> Result<(), EngineError> {
        self.end();
        if self.connection.is_some() && !self.is_in_place() {
            self.set_aside(MOVED);
        }
        if self.connection.is_none() {
            let connection = self.reopen().map_err(|reason| {
                warn!(reason, "the database cannot be opened again");
                EngineError::Unavailable(reason)
            })?;
            info!("the database is open again");
            self.connection = Some(connection);
        }
        Ok(())
    }

    fn open_connection(&self) -> Result<&Connection, EngineError> {
        self.connection.as_ref().ok_or_else(|| EngineError::Unavailable("there is no connection".to_owned()))
    }

    /// Closes a connection whose state is in doubt.
    fn set_aside(&mut self, reason: &str) {
        warn!(reason, "the writing connection is closed and will be opened again");
        self.in_transaction = false;
        if let Some(Err((_, error))) = self.connection.take().map(Connection::close) {
            warn!(%error, "the writing connection closed badly");
        }
    }

    fn begin_and_load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        self.ready()?;
        if self.checkpointer.is_behind()
            && let Err(error) = checkpoint::catch_up(self.open_connection()?)
        {
            warn!(%error, "a checkpoint failed");
        }
        statement(self.open_connection()?, "BEGIN IMMEDIATE").map_err(Fault::from)?;
        self.in_transaction = true;
        // Only now: a time read before the lock was held could be older than what the lock's last holder wrote.
        let now = self.time.now();
        let (snapshot, places) = load::snapshot(self.open_connection()?, wanted)?;
        self.places = places;
        Ok(Loaded { snapshot, now })
    }

    fn write(&mut self, changes: &ChangeSet, now: Timestamp) -> Result<(), EngineError> {
        if !self.in_transaction {
            return Err(EngineError::Unavailable("there is no transaction to write in".to_owned()));
        }
        self.progress.pending = apply::write(self.open_connection()?, changes, &self.places, now)?;
        self.progress.pages = apply::pages(changes);
        self.progress.epoch = changes.everywhere.as_ref().map(|change| change.after.epoch);
        if self.progress.pending <= self.progress.committed {
            // Somebody has written over the file while it was open.
            self.set_aside(OLDER);
            return Err(EngineError::Unavailable(OLDER.to_owned()));
        }
        Ok(())
    }

    fn make_durable(&mut self) -> CommitOutcome {
        let Some(connection) = self.connection.as_ref().filter(|_| self.in_transaction) else {
            return CommitOutcome::Failed("there is no transaction to commit".to_owned());
        };
        if !self.is_in_place() {
            self.set_aside(MOVED);
            return CommitOutcome::Failed(MOVED.to_owned());
        }
        // Before the commit: what is not made need not be explained.
        if let Err(reason) = self.guard.course.cover(self.progress.pending.get()) {
            self.end();
            return CommitOutcome::Failed(reason);
        }
        let began = self.time.monotonic();
        match statement(connection, "COMMIT") {
            Ok(()) => {
                self.progress.flush = self.time.monotonic().saturating_sub(began);
                self.in_transaction = false;
                self.is_committed();
                CommitOutcome::Committed
            }
            Err(error) if fault::is_definite(&error) => {
                self.end();
                CommitOutcome::Failed(error.to_string())
            }
            Err(error) => {
                let reason = error.to_string();
                self.set_aside(&reason);
                CommitOutcome::Unknown(reason)
            }
        }
    }

    fn is_committed(&mut self) {
        self.progress.committed = self.progress.committed.max(self.progress.pending);
        self.checkpointer.committed(self.progress.pages);
        let course = &self.guard.course;
        if let Some(epoch) = self.progress.epoch.take() {
            course.enter(epoch.get());
        }
        course.reach(course.era(), self.progress.committed.get());
    }

    /// Ends a transaction that is open, without a change.
    fn end(&mut self) {
        if !self.in_transaction {
            return;
        }
        let Some(connection) = self.connection.as_ref() else { return };
        match statement(connection, "ROLLBACK") {
            Ok(()) => self.in_transaction = false,
            // SQLite ends a transaction by itself after some errors, and then there is none to roll back; which of
            // the two it is, a new connection need not know.
            Err(error) => self.set_aside(&error.to_string()),
        }
    }
}

/// Runs a statement without values and without an answer.
fn statement(connection: &Connection, text: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(text)?.raw_execute().map(|_| ())
}

/// Every step is done when its future is made: the committer has a thread of its own, which may wait for the disk.
impl Engine for SqliteEngine {
    const SEAT: Seat = Seat::Blocking;

    fn guard(&self) -> Arc<Guard> {
        self.guard.clone()
    }

    /// A quarter of what the last flush took: long enough to spare flushes under load, and little beside one.
    fn gather(&mut self) -> impl Future<Output = ()> + Send {
        std::thread::sleep((self.progress.flush / 4).min(SQLITE_GATHER_MOST));
        ready(())
    }

    fn load(&mut self, wanted: &Wanted) -> impl Future<Output = Result<Loaded, EngineError>> + Send {
        ready(self.begin_and_load(wanted))
    }

    fn apply(
        &mut self,
        changes: &ChangeSet,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        ready(self.write(changes, now))
    }

    fn commit(&mut self) -> impl Future<Output = CommitOutcome> + Send {
        ready(self.make_durable())
    }

    /// What was read was committed by this connection, or stands before the commit with which it began.
    fn confirm(&mut self) -> impl Future<Output = CommitOutcome> + Send {
        self.end();
        ready(CommitOutcome::Committed)
    }

    fn rollback(&mut self) -> impl Future<Output = ()> + Send {
        self.end();
        ready(())
    }

    async fn close(mut self) {
        self.end();
        let Self { connection, readers, checkpointer, guard, lock, .. } = self;
        checkpointer.stop().await;
        readers.close().await;
        if let Some(connection) = connection {
            if let Err(error) = checkpoint::finish(&connection) {
                warn!(%error, "the last checkpoint failed; what was committed is in the log");
            }
            if let Err((_, error)) = connection.close() {
                warn!(%error, "the database closed badly; what was committed is in the log");
            }
        }
        guard.course.settle();
        drop(lock);
    }
}
