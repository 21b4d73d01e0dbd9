//! The engine on PostgreSQL: any number of gateways on one database, with no coordination but its row locks.
//!
//! It holds no rule. It loads what a batch wants, writes what was decided with the fence repeated in the predicates,
//! and commits once. Each engine has one connection, in a task of its own; it waits for that task, never for the
//! database, and not for ever. Where a wait for COMMIT is given up the outcome is unknown, and the next load, on
//! another connection, waits at the rows that the old transaction holds until its fate is known.

mod address;
mod apply;
mod cells;
mod connect;
mod durability;
mod fate;
mod fault;
mod fields;
mod history;
mod lineage;
mod load;
mod open;
mod patience;
mod reader;
mod schema;
mod session;
#[cfg(test)]
mod tests;
mod time;
mod tuples;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::domain::counter::Epoch;
use crate::domain::resource::Bucket;
use crate::domain::time::Timestamp;
use crate::limits::{POSTGRES_CLOSE_PATIENCE, POSTGRES_PATIENCE};
use crate::protocol::Wanted;

use super::changeset::ChangeSet;
use super::engine::{CommitOutcome, Engine, EngineError, Loaded, Seat};
use super::guard::Guard;
use super::witness::Course;
use connect::Shared;
use fate::{TransactionId, Written};
use history::Flushed;
use load::Places;
use patience::Patience;
use session::{Ended, Request};

pub use address::Address;
pub use open::{Database, OpenError, OpenMode};
pub use reader::PostgresReader;
pub use schema::{finish, migrate, migration_report};
pub use time::TimeSource;

/// A writer. It owns one connection, by way of the task that runs it.
pub struct PostgresEngine {
    shared: Arc<Shared>,
    /// The copy of each namespace that it holds.
    copy: Bucket,
    session: Option<Session>,
    in_transaction: bool,
    /// The transaction that has written and is not committed yet.
    written: Option<Written>,
    /// The epoch into which it brings everything, if it does.
    epoch: Option<Epoch>,
    /// One whose COMMIT was not answered. Until its fate is known nothing may be concluded from what is not there.
    doubted: Option<TransactionId>,
    /// Where the rows lie that it read and holds.
    places: Places,
    /// What is left of the time for this batch.
    patience: Patience,
}

struct Session {
    requests: mpsc::Sender<Request>,
    task: JoinHandle<()>,
}

/// Why there is no answer.
struct Silence(String);

impl PostgresEngine {
    fn new(shared: Arc<Shared>, copy: Bucket) -> Self {
        let patience = Patience::of(POSTGRES_PATIENCE);
        Self {
            shared,
            copy,
            session: None,
            in_transaction: false,
            written: None,
            epoch: None,
            doubted: None,
            places: Places::default(),
            patience,
        }
    }

    /// Asks the session, and waits for its answer as long as the patience lasts. A session that does not answer is set
    /// aside.
    async fn ask<T>(&mut self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Silence> {
        let session = self.session.get_or_insert_with(|| {
            let (requests, task) = session::spawn(self.shared.clone(), self.copy);
            Session { requests, task }
        });
        let (reply, answer) = oneshot::channel();
        if session.requests.try_send(request(reply)).is_err() {
            return Err(self.set_aside("the task of the connection takes no requests"));
        }
        match self.patience.wait(answer).await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) => Err(self.set_aside("the task of the connection ended")),
            None => Err(self.set_aside("the database did not answer in time")),
        }
    }

    /// Writes down exactly how far the database has come, where that can be asked.
    async fn settle(&mut self) {
        let course = self.shared.guard.course.clone();
        if !course.is_watched() {
            return;
        }
        if self.session.is_some()
            && let Ok(Some((era, at))) = self.ask(Request::Settle).await
        {
            course.reach(era, at);
        }
        if let Err(error) = tokio::task::spawn_blocking(move || course.settle()).await {
            warn!(%error, "the witness was not written at the stop");
        }
    }

    /// Leaves a session to itself: it ends its step and closes its connection.
    fn set_aside(&mut self, reason: &str) -> Silence {
        warn!(reason, "a connection is set aside");
        self.in_transaction = false;
        if let Some(session) = self.session.take() {
            let permit = self.shared.aside.clone().try_acquire_owned().ok();
            // One that cannot be told ends all the same, since its queue has no sender any more.
            drop(session.requests.try_send(Request::Leave(permit)));
        }
        Silence(reason.to_owned())
    }

    async fn end(&mut self) -> CommitOutcome {
        if !self.in_transaction {
            return CommitOutcome::Failed("there is no transaction to commit".to_owned());
        }
        let ended = self.ask(Request::Commit).await;
        self.in_transaction = false;
        let outcome = match ended {
            Ok(Ended { outcome: CommitOutcome::Committed, flushed }) => self.acknowledge(flushed).await,
            Ok(Ended { outcome, flushed: _ }) => outcome,
            Err(Silence(reason)) => CommitOutcome::Unknown(reason),
        };
        if matches!(outcome, CommitOutcome::Unknown(_)) {
            self.doubted = self.written.map(|written| written.id);
        }
        outcome
    }

    /// A commit was made. It is acknowledged once the witness covers it; one that it cannot be made to cover is left in
    /// doubt: it is durable now, and after the restore of a backup nobody would know that it was.
    async fn acknowledge(&mut self, flushed: Option<Flushed>) -> CommitOutcome {
        let course = self.shared.guard.course.clone();
        let epochs = self.epoch.take().map(Epoch::get).into_iter();
        epochs.chain(flushed.and_then(|flushed| flushed.epoch)).for_each(|epoch| course.enter(epoch));
        if course.is_watched() {
            let Some(flushed) = flushed else {
                return CommitOutcome::Unknown(
                    "where the log stands behind a commit is not known".to_owned(),
                );
            };
            if let Err(reason) = cover(&course, flushed.at).await {
                return CommitOutcome::Unknown(reason);
            }
        }
        if let Some(written) = self.written {
            course.reach(written.era, written.behind);
        }
        CommitOutcome::Committed
    }
}

/// Waits for the witness only where its block is used up.
async fn cover(course: &Arc<Course>, at: u64) -> Result<(), String> {
    if course.covers(at) {
        return Ok(());
    }
    let course = course.clone();
    let covering = tokio::task::spawn_blocking(move || course.cover(at)).await;
    covering.unwrap_or_else(|error| Err(error.to_string()))
}

impl Engine for PostgresEngine {
    /// A batch is a dozen short steps between the committer, its session and the server.
    const SEAT: Seat = Seat::Alone;

    fn guard(&self) -> Arc<Guard> {
        self.shared.guard.clone()
    }

    async fn load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        self.patience = Patience::of(POSTGRES_PATIENCE);
        let wanted = Box::new(wanted.clone());
        let doubted = self.doubted;
        (self.written, self.epoch) = (None, None);
        self.places = Places::default();
        let loaded = self.ask(|reply| Request::Load(wanted, doubted, reply)).await;
        let loaded = loaded.map_err(|Silence(reason)| EngineError::Unavailable(reason))?;
        // Also after a fault: a transaction may be open, and is then rolled back.
        self.in_transaction = true;
        let (loaded, places) = loaded?;
        (self.places, self.doubted) = (places, None);
        Ok(loaded)
    }

    async fn apply(&mut self, changes: &ChangeSet, _now: Timestamp) -> Result<(), EngineError> {
        if !self.in_transaction {
            return Err(EngineError::Unavailable("there is no transaction to write in".to_owned()));
        }
        // What lies beyond the block already is refused before it is made.
        let course = self.shared.guard.course.clone();
        cover(&course, course.seen()).await.map_err(EngineError::Unavailable)?;
        self.epoch = changes.everywhere.as_ref().map(|change| change.after.epoch);
        let prepared = apply::prepared(changes, &self.places).await?;
        let applied = self.ask(|reply| Request::Apply(prepared, reply)).await;
        let applied = applied.map_err(|Silence(reason)| EngineError::Unavailable(reason))?;
        self.written = applied?;
        Ok(())
    }

    async fn commit(&mut self) -> CommitOutcome {
        self.end().await
    }

    /// A commit too: it writes that the rows were locked, and waits for the log up to there, and so for every commit
    /// that its answers rest on; with strict synchronous replication also for the standby.
    async fn confirm(&mut self) -> CommitOutcome {
        self.end().await
    }

    async fn rollback(&mut self) {
        if self.in_transaction && self.ask(Request::Rollback).await.is_ok() {
            self.in_transaction = false;
        }
    }

    async fn close(mut self) {
        self.patience = Patience::of(POSTGRES_CLOSE_PATIENCE);
        self.rollback().await;
        self.settle().await;
        let Some(Session { requests, task }) = self.session.take() else { return };
        drop(requests);
        match self.patience.wait(task).await {
            Some(Ok(())) => {}
            Some(Err(error)) => warn!(%error, "the task of a connection ended badly"),
            None => warn!("a connection did not close in time"),
        }
    }
}
