//! The small trait behind which a database stands. Batch first: load what a batch wants, apply what it decided,
//! commit once. An engine holds no rule; it repeats the fence in its predicates and counts the rows.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::sync::Arc;

use crate::domain::counter::LedgerSeq;
use crate::domain::seal::{KeyFingerprint, KeyId};
use crate::domain::time::Timestamp;
use crate::protocol::{Snapshot, Wanted};
use uuid::Uuid;

use super::changeset::ChangeSet;
use super::guard::Guard;

/// The rows of a batch and the time, read after the rows were held.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Everything that was wanted and exists.
    pub snapshot: Snapshot,
    /// The database's effective time.
    pub now: Timestamp,
}

/// Why a step before the commit did not work. Nothing has become durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Somebody else changed the rows; a fresh snapshot may do.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The database cannot be used now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// A predicate disagreed with the decision, or a row cannot be read.
    #[error("inconsistent: {0}")]
    Inconsistent(String),
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is durable.
    Committed,
    /// It definitely did not happen, and a fresh attempt may.
    Conflict(String),
    /// It may or may not have happened.
    Unknown(String),
    /// It definitely did not happen.
    Failed(String),
}

/// Where a committer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// Among the tasks of the requests.
    Shared,
    /// On a thread of its own: its steps wait for the disk.
    Blocking,
    /// On a thread and a runtime of its own, where also the tasks run that it starts: a step from one of them to the
    /// other then wakes no thread.
    Alone,
}

/// One writer's view of a database. The driver calls begin-load, apply, commit or rollback, in this order, and never
/// drops a future of it half way.
pub trait Engine: Send + 'static {
    /// Where its committer runs.
    const SEAT: Seat = Seat::Shared;

    /// What this process remembers of the database; one for all its engines. By default nothing is known beforehand.
    fn guard(&self) -> Arc<Guard> {
        Arc::default()
    }

    /// Waits a little for more commands, when the batch before had many: they share a flush then. Not at all by default.
    fn gather(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Begins a transaction, holds the rows in canonical order, and loads what a batch wants.
    fn load(&mut self, wanted: &Wanted) -> impl Future<Output = Result<Loaded, EngineError>> + Send;

    /// Writes the changes of a batch, with the fence repeated in the predicates.
    fn apply(
        &mut self,
        changes: &ChangeSet,
        now: Timestamp,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Makes them durable.
    fn commit(&mut self) -> impl Future<Output = CommitOutcome> + Send;

    /// Ends a transaction in which nothing changes, such that all that it read is durable once this answers
    /// [`CommitOutcome::Committed`]: what rests on rows that another commit made may only be told after that.
    fn confirm(&mut self) -> impl Future<Output = CommitOutcome> + Send;

    /// Ends the transaction without a change.
    fn rollback(&mut self) -> impl Future<Output = ()> + Send;

    /// Ends the connection in good order.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// A seal key as the database remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedKey {
    /// Its name.
    pub id: KeyId,
    /// SHA-256 of it.
    pub fingerprint: KeyFingerprint,
}

/// What a database says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Word for the kind of engine: `sqlite`, `memory`.
    pub engine: &'static str,
    /// The database's own id, made with it.
    pub database: Uuid,
    /// Version of the schema; none where there is none.
    pub schema_version: Option<i64>,
    /// How an acknowledged write is kept, for people.
    pub durability: String,
}

/// How far the database has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// + 1 per committed batch.
    pub ledger_seq: LedgerSeq,
}
