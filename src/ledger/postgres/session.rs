//! One connection that writes, in a task of its own.
//!
//! The task runs one request at a time, to its end: no future of the database is ever dropped half way. The engine
//! waits for the answers, and not for ever. A session that it gave up finishes its step and closes its connection, which
//! undoes whatever was not committed.

use futures_util::TryStreamExt;
use sqlx::{Either, Executor, PgConnection, Row};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tracing::warn;

use std::sync::Arc;

use crate::domain::resource::Bucket;
use crate::domain::subject::Subject;
use crate::protocol::Wanted;

use super::super::engine::{CommitOutcome, EngineError, Loaded};
use super::apply::{self, Prepared};
use super::connect::{self, Live, Shared};
use super::fate::{self, TransactionId, Written};
use super::fault::{self, Fault};
use super::history::{self, Flushed};
use super::load::{self, Place, Places};

/// What the engine asks of a session.
pub(super) enum Request {
    /// After a transaction that was not answered, its fate comes first.
    Load(Box<Wanted>, Option<TransactionId>, oneshot::Sender<Result<(Loaded, Places), Fault>>),
    Apply(Prepared, oneshot::Sender<Result<Option<Written>, Fault>>),
    Commit(oneshot::Sender<Ended>),
    /// Where the log stands behind all that was acknowledged; none where there is no connection that can tell.
    Settle(oneshot::Sender<Option<(u64, u64)>>),
    Rollback(oneshot::Sender<RolledBack>),
    /// Nobody waits any more. The permit is one of those who were set aside.
    Leave(Option<OwnedSemaphorePermit>),
}

/// What became of a commit, and where the log stands then, if that was asked for and told.
pub(super) struct Ended {
    pub(super) outcome: CommitOutcome,
    pub(super) flushed: Option<Flushed>,
}

/// There is no transaction any more.
pub(super) struct RolledBack;

/// Requests that may lie in a session's queue: the one that it runs, and the wish that it leaves.
const QUEUE: usize = 2;

/// Starts a session; it connects with its first request, and ends when the sender is dropped.
pub(super) fn spawn(
    shared: Arc<Shared>,
    copy: Bucket,
) -> (mpsc::Sender<Request>, tokio::task::JoinHandle<()>) {
    let (sender, requests) = mpsc::channel(QUEUE);
    let session = Session { shared, copy, live: None, state: State::Idle };
    (sender, tokio::spawn(session.run(requests)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No transaction.
    Idle,
    /// A transaction in which every statement worked.
    Open,
    /// A transaction that can only be undone.
    Failed,
}

struct Session {
    shared: Arc<Shared>,
    copy: Bucket,
    live: Option<Live>,
    state: State,
}

impl Session {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut aside = None;
        // An answer that nobody waits for any more is nobody's loss: what follows is that the session is told to leave.
        while let Some(request) = requests.recv().await {
            match request {
                Request::Load(wanted, doubted, reply) => {
                    drop(reply.send(self.load(&wanted, doubted).await));
                }
                Request::Apply(prepared, reply) => drop(reply.send(self.apply(&prepared).await)),
                Request::Commit(reply) => drop(reply.send(self.commit().await)),
                Request::Settle(reply) => drop(reply.send(self.settle().await)),
                Request::Rollback(reply) => {
                    self.rollback().await;
                    drop(reply.send(RolledBack));
                }
                Request::Leave(permit) => {
                    aside = permit;
                    break;
                }
            }
        }
        self.hang_up().await;
        drop(aside);
    }

    /// Closes the connection, if there is one. The server undoes an open transaction.
    async fn hang_up(&mut self) {
        self.state = State::Idle;
        if let Some(live) = self.live.take() {
            connect::close(live.connection).await;
        }
    }

    async fn load(
        &mut self,
        wanted: &Wanted,
        doubted: Option<TransactionId>,
    ) -> Result<(Loaded, Places), Fault> {
        let mut wanted = wanted.clone();
        let (loaded, places) = self.load_once(&wanted, false, doubted).await?;
        let missing = load::missing(&wanted, &loaded, &places);
        let everything = wanted.whole.contains(&Subject::Everywhere);
        let unused = !everything && load::has_unused(&wanted, &loaded.snapshot);
        if missing.is_empty() && !unused {
            return Ok((loaded, places));
        }
        // A lease over several resources names them for all time, and what is recorded stays so: a second transaction
        // knows what to hold, and in which order.
        wanted.resources.extend(missing);
        self.load_once(&wanted, unused, None).await
    }

    async fn load_once(
        &mut self,
        wanted: &Wanted,
        unused: bool,
        doubted: Option<TransactionId>,
    ) -> Result<(Loaded, Places), Fault> {
        self.begin().await?;
        let Some(live) = self.live.as_mut() else { return Err(no_connection()) };
        if let Some(id) = doubted {
            let known = fate::wait_for(&mut live.connection, id).await;
            self.look_after(known).await?;
        }
        let Some(live) = self.live.as_mut() else { return Err(no_connection()) };
        let place = Place { live, copy: self.copy, time: &self.shared.time };
        let loaded = load::snapshot(place, wanted, unused).await;
        self.look_after(loaded).await
    }

    async fn apply(&mut self, prepared: &Prepared) -> Result<Option<Written>, Fault> {
        let Some(live) = self.live.as_mut().filter(|_| self.state == State::Open) else {
            return Err(Fault::Unusable("there is no transaction to write in".to_owned()));
        };
        let written = apply::write(live, prepared).await;
        self.look_after(written).await
    }

    /// Begins a transaction. An idle connection that turns out to be broken is replaced: nothing happened on it.
    async fn begin(&mut self) -> Result<(), Fault> {
        self.rollback().await;
        if let Some(live) = self.live.as_mut() {
            match live.connection.execute(live.begin).await {
                Ok(_) => {
                    self.state = State::Open;
                    return Ok(());
                }
                Err(error) if fault::is_lost(&error) => {
                    warn!(%error, "an idle connection was lost; the database is connected to again");
                    self.hang_up().await;
                }
                Err(error) => {
                    self.hang_up().await;
                    return Err(error.into());
                }
            }
        }
        let live = self.live.insert(self.shared.connect().await?);
        if let Err(error) = live.connection.execute(live.begin).await {
            self.hang_up().await;
            return Err(error.into());
        }
        self.state = State::Open;
        Ok(())
    }

    /// What a failed step means for the transaction and the connection.
    async fn look_after<T>(&mut self, step: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(fault) = &step {
            self.state = State::Failed;
            if fault.ends_connection() {
                self.hang_up().await;
            }
        }
        step
    }

    async fn commit(&mut self) -> Ended {
        let course = &self.shared.guard.course;
        let text = match (course.is_watched(), course.is_suspected()) {
            (false, _) => "COMMIT",
            (true, false) => history::COMMIT,
            (true, true) => history::COMMIT_AND_EPOCH,
        };
        let Some(live) = self.live.as_mut().filter(|_| self.state == State::Open) else {
            let reason = "there is no transaction to commit".to_owned();
            return Ended { outcome: CommitOutcome::Failed(reason), flushed: None };
        };
        let mut flushed = None;
        let mut is_committed = false;
        let outcome = match commit(&mut live.connection, text, &mut is_committed, &mut flushed).await {
            Ok(()) => {
                self.state = State::Idle;
                CommitOutcome::Committed
            }
            // What failed came after it.
            Err(fault) if is_committed => {
                warn!(%fault, "a commit was made, and where the log stands is not known");
                self.hang_up().await;
                CommitOutcome::Committed
            }
            Err(Fault::Sql(error)) if fault::is_definite(&error) => {
                // The server has undone it; should it not have, the connection is not used again.
                self.hang_up().await;
                match Fault::Sql(error).into() {
                    EngineError::Conflict(reason) => CommitOutcome::Conflict(reason),
                    EngineError::Unavailable(reason) | EngineError::Inconsistent(reason) => {
                        CommitOutcome::Failed(reason)
                    }
                }
            }
            Err(fault) => {
                self.hang_up().await;
                CommitOutcome::Unknown(fault.to_string())
            }
        };
        Ended { outcome, flushed }
    }

    /// On the connection that there is: a stop makes no new one.
    async fn settle(&mut self) -> Option<(u64, u64)> {
        self.rollback().await;
        let live = self.live.as_mut()?;
        match history::settle(&mut live.connection, live.begin).await {
            Ok(at) => Some((live.era, at)),
            Err(fault) => {
                warn!(%fault, "where the log stands at the stop is not known");
                self.hang_up().await;
                None
            }
        }
    }

    /// Ends a transaction without a change. A connection that comes back inside one is closed.
    async fn rollback(&mut self) {
        if self.state == State::Idle {
            return;
        }
        let Some(live) = self.live.as_mut() else { return };
        match live.connection.execute("ROLLBACK").await {
            Ok(_) => self.state = State::Idle,
            Err(error) => {
                warn!(%error, "a transaction could not be rolled back; its connection is closed");
                self.hang_up().await;
            }
        }
    }
}

/// Sends the end of a transaction, and notes that it is made as soon as the server says so.
async fn commit(
    connection: &mut PgConnection,
    text: &'static str,
    is_committed: &mut bool,
    flushed: &mut Option<Flushed>,
) -> Result<(), Fault> {
    let mut answers = connection.fetch_many(text);
    while let Some(answer) = answers.try_next().await? {
        match answer {
            // The first command of the text is the commit.
            Either::Left(_) => *is_committed = true,
            Either::Right(row) => {
                let (at, epoch): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
                let epoch = epoch.map(history::place).transpose()?;
                *flushed = Some(Flushed { at: history::place(at)?, epoch });
            }
        }
    }
    Ok(())
}

fn no_connection() -> Fault {
    Fault::Unusable("there is no connection".to_owned())
}
