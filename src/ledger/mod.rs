//! The ledger: the only room that knows a database, and the facade behind which it stands.
//!
//! A handler submits a command and awaits a one-shot answer; tasks of this room own the connections and do the rest.
//! So a client that hangs up cancels nothing, and group commit falls out of the shape.

mod acks;
mod breaker;
mod cells;
pub mod census;
pub mod changeset;
pub mod compact;
mod differences;
mod driver;
pub mod engine;
mod epochs;
pub mod events;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
pub mod keys;
pub mod listening;
pub mod memory;
mod packed;
mod pieces;
pub mod postgres;
pub mod prune;
mod queues;
mod quota;
mod range;
pub mod read;
pub mod refusals;
mod rows;
pub mod sqlite;
mod steps;
mod stopped;
pub mod sweep;
mod tell;
mod time;
pub mod waiting;
pub mod wakeup;
mod watch;
mod witness;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::domain::counter::Epoch;
use crate::domain::namespaces::Namespaces;
use crate::domain::operation::Effect;
use crate::domain::position::PresentedToken;
use crate::domain::principal::PrincipalName;
use crate::domain::quota::Metered;
use crate::domain::resource::{Namespace, ResourceName};
use crate::domain::seal::Keyring;
use crate::domain::subject::Subject;
use crate::limits;
use crate::protocol::command::Claim;
use crate::protocol::outcome::{ControlView, Receipt, WholeView};
use crate::protocol::whole::{Deed, WholeAct};
use crate::protocol::{Command, Context, Outcome};
use crate::telemetry::metrics::Metrics;

use breaker::Vigil;
use differences::Differences;
use driver::{Driver, Job, Task};
use engine::{Engine, Identity, Seat};
use listening::Feed;
use queues::{Queue, all_ended, alone, answered, enqueue, propose};
use quota::Meter;
use read::{ReadFailed, Reader, Reading};
use refusals::Refusals;
use stopped::Stopped;
use watch::Watch;

pub use guard::Guard;
pub use steps::{MigrationReport, MigrationState, PROTOCOL};
pub use witness::{Point, Record, WitnessError, WitnessFile};

/// Why a command got no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// The queue is full. Nothing happened.
    #[error("the queue is full")]
    Overloaded,
    /// It would add beyond a quota. Nothing happened.
    #[error("namespace {namespace:?} may have {bound} {}", .what.word())]
    OverQuota {
        /// Whose quota.
        namespace: Namespace,
        /// What is counted.
        what: Metered,
        /// How many there may be.
        bound: u64,
    },
    /// The gateway is stopping. Nothing happened.
    #[error("the gateway is stopping")]
    Draining,
    /// The database cannot be used; the effect says whether something may have happened.
    #[error("the database is not available")]
    Unavailable(Effect),
    /// The answer to a probe: the committer cannot begin and end a transaction. The reason is for operators.
    #[error("{0}")]
    Unready(String),
    /// The rows contradict the rules. Nothing happened.
    #[error("the rows contradict the rules")]
    Inconsistent,
}

/// What is fixed for the life of the process.
#[derive(Debug)]
pub struct Setting {
    /// The configured namespaces.
    pub namespaces: Namespaces,
    /// The keys that seal and verify.
    pub keyring: Keyring,
    /// What the database says of itself.
    pub identity: Identity,
    /// Renders the answer that is saved with an operation.
    pub render: fn(&Receipt) -> Vec<u8>,
    /// Renders the answer that is saved with a control call.
    pub render_control: for<'v> fn(&ControlView<'v>) -> Vec<u8>,
    /// Renders the answer that is saved with an act on a whole namespace.
    pub render_whole: for<'v> fn(&WholeView<'v>) -> Vec<u8>,
}

impl Setting {
    /// What a decision needs beside the rows, with an epoch that is known to have been begun.
    #[must_use]
    pub const fn context(&self, begun: Epoch) -> Context<'_> {
        Context {
            namespaces: &self.namespaces,
            keyring: &self.keyring,
            database: self.identity.database,
            render: self.render,
            render_control: self.render_control,
            render_whole: self.render_whole,
            begun,
        }
    }
}

/// The committers of a ledger; it ends when they have all ended, or with the first one that breaks.
pub type Committers = JoinHandle<Result<(), JoinError>>;

/// The facade. Clones share the queues; when the last one is gone the committers finish and close the database.
#[derive(Clone)]
pub struct Ledger {
    /// One per committer.
    queues: Arc<[Queue]>,
    reader: Arc<dyn Reader>,
    reads: Arc<Semaphore>,
    /// Beyond those, for the leases of those who renew and release.
    reserved_reads: Arc<Semaphore>,
    /// Where any namespace has a quota.
    meter: Option<Arc<Meter>>,
    setting: Arc<Setting>,
    watch: Arc<Watch>,
    stopped: Arc<Stopped>,
    /// Attempts of waiting callers.
    attempts: Arc<Semaphore>,
    refusals: Arc<Refusals>,
    guard: Arc<Guard>,
    differences: Arc<Differences>,
    metrics: Arc<Metrics>,
    feed: Arc<Feed>,
    /// Ends the task that looks at watched resources with the last clone.
    _looking: Arc<DropGuard>,
}

impl Ledger {
    /// Starts a committer over each engine. The task ends once every clone of the ledger is gone and the queues are
    /// empty, or with the first committer that breaks.
    ///
    /// A resource always goes to the same committer, so that its writes queue here and not at the database's row
    /// locks; across processes, and for a batch over several resources, the row locks decide.
    pub fn start<E: Engine>(
        engines: Vec<E>,
        reader: Arc<dyn Reader>,
        setting: Setting,
    ) -> (Self, Committers) {
        let setting = Arc::new(setting);
        let mut committers = JoinSet::new();
        let mut queues = Vec::with_capacity(engines.len());
        let watch = Arc::new(Watch::default());
        let stopped = Arc::new(Stopped::default());
        let metrics = Arc::new(Metrics::new(&setting.namespaces));
        let guard = engines.first().map(Engine::guard).unwrap_or_default();
        let meter = setting.namespaces.have_quotas().then(Arc::<Meter>::default);
        for engine in engines {
            let (queue, arrivals) = Queue::new();
            let (setting, guard, metrics) = (setting.clone(), guard.clone(), metrics.clone());
            let committer = Driver::new(engine, setting, watch.clone(), stopped.clone(), guard, metrics);
            let committer = committer.metered(meter.clone()).run(arrivals);
            match E::SEAT {
                Seat::Shared => committers.spawn(committer),
                Seat::Blocking => {
                    let here = Handle::current();
                    committers.spawn_blocking(move || here.block_on(committer))
                }
                Seat::Alone => committers.spawn_blocking(move || alone(committer)),
            };
            queues.push(queue);
        }
        let reads = Arc::new(Semaphore::new(limits::READS_IN_FLIGHT));
        let attempts = Arc::new(Semaphore::new(limits::WAITING_ATTEMPTS));
        let ended = CancellationToken::new();
        tokio::spawn(watch.clone().look(reader.clone(), setting.namespaces.clone(), ended.clone()));
        tokio::spawn(stopped.clone().look(Arc::downgrade(&reader)));
        let feed = Arc::<Feed>::default();
        tokio::spawn(feed.clone().look(Arc::downgrade(&reader), ended.clone()));
        let queues: Arc<[_]> = queues.into();
        tokio::spawn(Vigil::over(guard.clone(), &queues, &reader).keep(ended.clone()));
        let looking = Arc::new(ended.drop_guard());
        let ledger = Self {
            queues,
            reader,
            reads,
            reserved_reads: Arc::new(Semaphore::new(limits::READS_RESERVED)),
            meter,
            setting,
            watch,
            stopped,
            attempts,
            refusals: Arc::default(),
            guard,
            differences: Arc::default(),
            metrics,
            feed,
            _looking: looking,
        };
        (ledger, tokio::spawn(all_ended(committers)))
    }

    /// What is fixed for the life of the process.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// What this gateway counts: made with its ledger, since whatever happens here happens through it.
    #[must_use]
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Submits a command and waits for its outcome, which is durable when it arrives. Dropping the future changes
    /// nothing: the command is decided and committed all the same.
    ///
    /// # Errors
    /// [`Unserved`] says whether anything may have happened.
    pub async fn submit(&self, command: Command) -> Result<Outcome, Unserved> {
        self.submit_by(None, command).await
    }

    /// The same for somebody, whose name stands on the lines that tell of it.
    ///
    /// # Errors
    /// [`Unserved`], as of [`Ledger::submit`].
    pub async fn submit_by(
        &self,
        actor: Option<PrincipalName>,
        command: Command,
    ) -> Result<Outcome, Unserved> {
        let (outcome, proof) = self.command(actor, command).await?.apart();
        self.heed(&outcome, proof).await;
        Ok(outcome)
    }

    /// Writes down that who may do what was changed, and by whom where somebody asked for it. `what` names what was changed
    /// and holds no secret.
    ///
    /// # Errors
    /// [`Unserved`], as of [`Ledger::submit`].
    pub async fn note_policy(&self, actor: Option<PrincipalName>, what: String) -> Result<(), Unserved> {
        let act = WholeAct { subject: Subject::Everywhere, deed: Deed::NotePolicy { what } };
        self.submit_by(actor, Command::Whole(act)).await.map(drop)
    }

    async fn command(&self, actor: Option<PrincipalName>, command: Command) -> Result<Outcome, Unserved> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Job { task: Task::Command(Box::new(command)), actor, reply })?;
        match answered(answer).await? {
            Some(outcome) => Ok(outcome),
            None => Err(Unserved::Inconsistent),
        }
    }

    /// Gives a job to the committer of its resource.
    fn enqueue(&self, job: Job) -> Result<(), Unserved> {
        enqueue(&self.queues, job)
    }

    /// Whether there is no room for ordinary commands: whoever asks then need not be read any further. With several
    /// committers it is told when none of them has any.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.queues.iter().all(Queue::is_full)
    }

    /// Shows that every committer can begin and end a transaction.
    ///
    /// # Errors
    /// [`Unserved`] says what stands against it.
    pub async fn probe(&self) -> Result<(), Unserved> {
        let mut asked = Vec::with_capacity(self.queues.len());
        for queue in self.queues.iter() {
            let (reply, answer) = oneshot::channel();
            queue.send(Job { task: Task::Probe, actor: None, reply })?;
            asked.push(answer);
        }
        for answer in asked {
            answered(answer).await?;
        }
        Ok(())
    }

    /// Commands that wait before the fullest committer, and how many may.
    #[must_use]
    pub fn queued(&self) -> (usize, usize) {
        (self.queues.iter().map(Queue::waiting).max().unwrap_or_default(), limits::QUEUE_COMMANDS)
    }

    /// How many batches the committers have taken up: while it grows they go on.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.guard.batches()
    }

    /// Judges the seal of a presented token; the keys alone tell.
    #[must_use]
    pub fn claim(&self, resource: &ResourceName, token: &PresentedToken) -> Claim {
        let setting = &self.setting;
        let seal = token.seal.as_deref();
        Claim {
            position: token.position,
            bare: token.bare,
            seal: setting.keyring.judge(setting.identity.database, resource, token.position, seal),
        }
    }

    /// Runs a read in a task of its own, so that a client that hangs up cancels nothing.
    ///
    /// # Errors
    /// [`Unserved::Overloaded`] beyond the bound, [`Unserved::Unavailable`] when the database cannot be read.
    pub async fn read<T, F>(&self, ask: F) -> Result<T, Unserved>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a dyn Reader) -> Reading<'a, T> + Send + 'static,
    {
        let permit = self.reads.clone().try_acquire_owned().map_err(|_| Unserved::Overloaded)?;
        self.read_with(permit, ask).await
    }

    /// The same for what a lease is kept or given back by, and for the look before an announced effect is sent: some reads are
    /// left to them when all others are taken.
    ///
    /// # Errors
    /// As for every read.
    pub async fn read_reserved<T, F>(&self, ask: F) -> Result<T, Unserved>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a dyn Reader) -> Reading<'a, T> + Send + 'static,
    {
        let permit = self.reads.clone().try_acquire_owned();
        let permit = permit.or_else(|_| self.reserved_reads.clone().try_acquire_owned());
        self.read_with(permit.map_err(|_| Unserved::Overloaded)?, ask).await
    }

    async fn read_with<T, F>(&self, permit: OwnedSemaphorePermit, ask: F) -> Result<T, Unserved>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a dyn Reader) -> Reading<'a, T> + Send + 'static,
    {
        let reader = self.reader.clone();
        let reading = tokio::spawn(async move {
            let answer = ask(reader.as_ref()).await;
            drop(permit);
            answer
        });
        match reading.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ReadFailed(reason))) => {
                self.metrics.reads_failed.one();
                tracing::error!(reason, "a read failed");
                Err(Unserved::Unavailable(Effect::None))
            }
            Err(_) => Err(Unserved::Unavailable(Effect::None)),
        }
    }
}
