//! Checkpoints beside the commits: pages are moved from the write-ahead log into the file on a connection and a
//! thread of their own, so that no commit waits for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::limits::{SQLITE_CHECKPOINT_PAGES, SQLITE_CHECKPOINT_PAUSE, SQLITE_WAL_PAGES};

use super::fault::Fault;
use super::settings;

/// The background task, seen from the engine.
pub(super) struct Checkpointer {
    signals: Arc<Signals>,
    /// Pages that were committed since the task was last woken, at most: waking it costs the committer a system call.
    untold: i64,
    task: JoinHandle<()>,
    /// Dropping it ends the task, also when an engine is dropped without a word.
    stop: DropGuard,
}

#[derive(Default)]
struct Signals {
    committed: Notify,
    /// The log grows faster than it is worked off.
    behind: AtomicBool,
}

/// What SQLite says of the log, in pages.
struct Log {
    length: i64,
    done: i64,
}

impl Checkpointer {
    /// Starts the task on a connection of its own.
    pub(super) fn start(path: &Path) -> Result<Self, rusqlite::Error> {
        let connection = settings::checkpointer(path)?;
        let signals = Arc::new(Signals::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(path.to_owned(), Some(connection), signals.clone(), stop.clone()));
        Ok(Self { signals, untold: 0, task, stop: stop.drop_guard() })
    }

    /// So many pages were committed, more or less.
    pub(super) fn committed(&mut self, pages: i64) {
        self.untold = self.untold.saturating_add(pages);
        if self.untold >= SQLITE_CHECKPOINT_PAGES {
            self.untold = 0;
            self.signals.committed.notify_one();
        }
    }

    /// Whether the writer itself should make a checkpoint now; asking takes the wish back.
    pub(super) fn is_behind(&self) -> bool {
        self.signals.behind.load(Ordering::Relaxed) && self.signals.behind.swap(false, Ordering::Relaxed)
    }

    /// Ends the task and its connection.
    pub(super) async fn stop(self) {
        let Self { task, stop, .. } = self;
        drop(stop);
        if let Err(error) = task.await {
            warn!(%error, "the checkpoint task ended badly");
        }
    }
}

/// A checkpoint of all pages that no reader still needs. Run by the writer between two commits it catches up wholly,
/// and the log starts anew with the next commit.
pub(super) fn catch_up(connection: &Connection) -> Result<(), rusqlite::Error> {
    checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(|_| ())
}

/// A last checkpoint that leaves an empty log.
pub(super) fn finish(connection: &Connection) -> Result<(), rusqlite::Error> {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)").map(|_| ())
}

async fn run(
    path: PathBuf,
    mut connection: Option<Connection>,
    signals: Arc<Signals>,
    stop: CancellationToken,
) {
    // Only waiting is ever cut short, never a step of the database.
    while stop.run_until_cancelled(wait(&signals.committed)).await.is_some() {
        let (path, behind) = (path.clone(), signals.clone());
        let made = tokio::task::spawn_blocking(move || round(&path, connection, &behind.behind)).await;
        connection = match made.map_err(|error| Fault::unreadable(error.to_string())).flatten() {
            Ok(connection) => Some(connection),
            Err(fault) => {
                warn!(reason = %fault, "a checkpoint failed; the writer makes the next one");
                signals.behind.store(true, Ordering::Relaxed);
                None
            }
        };
    }
    if let Some(Err((_, error))) = connection.map(Connection::close) {
        warn!(%error, "the connection for checkpoints closed badly");
    }
}

/// Until enough was committed, and a little longer, so that one checkpoint serves many commits.
async fn wait(committed: &Notify) {
    committed.notified().await;
    tokio::time::sleep(SQLITE_CHECKPOINT_PAUSE).await;
}

/// One look at the log, and a checkpoint where it is worth one. Gives the connection back.
fn round(path: &Path, connection: Option<Connection>, behind: &AtomicBool) -> Result<Connection, Fault> {
    let open = match connection {
        Some(open) => open,
        None => settings::checkpointer(path)?,
    };
    let log = checkpoint(&open, "PRAGMA wal_checkpoint(NOOP)")?;
    if log.waiting() < SQLITE_CHECKPOINT_PAGES {
        return Ok(open);
    }
    let log = checkpoint(&open, "PRAGMA wal_checkpoint(PASSIVE)")?;
    if log.length > SQLITE_WAL_PAGES {
        // Once more for what came meanwhile, so that the writer has little left to do.
        checkpoint(&open, "PRAGMA wal_checkpoint(PASSIVE)")?;
        behind.store(true, Ordering::Relaxed);
    }
    Ok(open)
}

fn checkpoint(connection: &Connection, pragma: &str) -> Result<Log, rusqlite::Error> {
    connection.query_row(pragma, (), |row| Ok(Log { length: row.get(1)?, done: row.get(2)? }))
}

impl Log {
    const fn waiting(&self) -> i64 {
        self.length.saturating_sub(self.done)
    }
}
