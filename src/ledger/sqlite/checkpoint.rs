//! Checkpoints beside the commits: pages are moved from the write-ahead log into the file on a connection and a
//! thread of their own, so that no commit waits for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::limits::{SQLITE_CHECKPOINT_PAGES, SQLITE_CHECKPOINT_PAUSE, SQLITE_WAL_PAGES};

use super::columns::Columns;
use super::fault::Fault;
use super::settings;

/// The background task, seen from the engine.
pub(super) struct Checkpointer {
    signals: Arc<Signals>,
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
    pub(super) async fn start(path: &Path) -> Result<Self, sqlx::Error> {
        let connection = connect(path).await?;
        let signals = Arc::new(Signals::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(path.to_owned(), Some(connection), signals.clone(), stop.clone()));
        Ok(Self { signals, task, stop: stop.drop_guard() })
    }

    /// Something was committed.
    pub(super) fn committed(&self) {
        self.signals.committed.notify_one();
    }

    /// Whether the writer itself should make a checkpoint now; asking takes the wish back.
    pub(super) fn is_behind(&self) -> bool {
        self.signals.behind.swap(false, Ordering::Relaxed)
    }

    /// Ends the task and its connection.
    pub(super) async fn stop(self) {
        let Self { signals: _, task, stop } = self;
        drop(stop);
        if let Err(error) = task.await {
            warn!(%error, "the checkpoint task ended badly");
        }
    }
}

/// A checkpoint of all pages that no reader still needs. Run by the writer between two commits it catches up wholly,
/// and the log starts anew with the next commit.
pub(super) async fn catch_up(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(connection).await.map(|_| ())
}

/// A last checkpoint that leaves an empty log.
pub(super) async fn finish(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(connection).await.map(|_| ())
}

async fn connect(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    settings::writer(path).connect().await
}

async fn run(
    path: PathBuf,
    mut connection: Option<SqliteConnection>,
    signals: Arc<Signals>,
    stop: CancellationToken,
) {
    // Only waiting is ever cut short, never a step of the database.
    while stop.run_until_cancelled(wait(&signals.committed)).await.is_some() {
        if let Err(fault) = round(&path, &mut connection, &signals.behind).await {
            warn!(reason = %fault, "a checkpoint failed; the writer makes the next one");
            signals.behind.store(true, Ordering::Relaxed);
            connection = None;
        }
    }
    if let Some(connection) = connection
        && let Err(error) = connection.close().await
    {
        warn!(%error, "the connection for checkpoints closed badly");
    }
}

/// Until something was committed, and a little longer, so that one checkpoint serves many commits.
async fn wait(committed: &Notify) {
    committed.notified().await;
    tokio::time::sleep(SQLITE_CHECKPOINT_PAUSE).await;
}

async fn round(
    path: &Path,
    connection: &mut Option<SqliteConnection>,
    behind: &AtomicBool,
) -> Result<(), Fault> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(connect(path).await?),
    };
    let log = checkpoint(open, "PRAGMA wal_checkpoint(NOOP)").await?;
    if log.waiting() < SQLITE_CHECKPOINT_PAGES {
        return Ok(());
    }
    let log = checkpoint(open, "PRAGMA wal_checkpoint(PASSIVE)").await?;
    if log.length > SQLITE_WAL_PAGES {
        // Once more for what came meanwhile, so that the writer has little left to do.
        checkpoint(open, "PRAGMA wal_checkpoint(PASSIVE)").await?;
        behind.store(true, Ordering::Relaxed);
    }
    Ok(())
}

async fn checkpoint(connection: &mut SqliteConnection, pragma: &'static str) -> Result<Log, Fault> {
    let row = sqlx::query(pragma).fetch_one(connection).await?;
    let mut columns = Columns::of(&row);
    columns.skip(1);
    Ok(Log { length: columns.value()?, done: columns.value()? })
}

impl Log {
    const fn waiting(&self) -> i64 {
        self.length.saturating_sub(self.done)
    }
}
