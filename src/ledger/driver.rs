//! The committer: it drains the queue, decides a batch against one loaded view, commits once, and answers everybody.
//!
//! Nobody is answered before the commit. It owns its engine and runs to the end of each step: no future of a database
//! is ever dropped half way, whatever becomes of the clients.

mod job;

use std::sync::Arc;

use tracing::{error, warn};

use crate::deliberate::{self, Bug};
use crate::domain::counter::Epoch;
use crate::domain::operation::Effect;
use crate::limits::{BATCH_COMMANDS, COMMIT_ATTEMPTS, COMMIT_DOUBTS, GATHER_COMMANDS};
use crate::protocol::outcome::Verdict;
use crate::protocol::{self, Change, Command, Context, Inconsistent, Outcome, Refusal};
use crate::telemetry::metrics::Metrics;

use super::changeset::ChangeSet;
use super::engine::{CommitOutcome, Engine, EngineError, Loaded};
use super::guard::Guard;
use super::queues::Arrivals;
use super::quota::{Meter, Pending};
use super::stopped::Stopped as StoppedHere;
use super::tell;
use super::wakeup::instant;
use super::watch::Watch;
use super::{Setting, Unserved};

mod notes;

pub(super) use job::{Answer, Job, Lane, Task};
use job::{goes_with, wanted_by};

/// Why an attempt at a batch gave no answers.
enum Stopped {
    /// A fresh snapshot may do.
    Conflict(String),
    /// The database cannot be used, and nothing happened.
    Failed(String),
    /// The rows contradict the rules; nothing happened.
    Inconsistent(String),
    /// It may have happened: the outcomes that would have been answered.
    Unknown(String, Vec<Answer>),
}

pub(super) struct Driver<E> {
    engine: E,
    setting: Arc<Setting>,
    watch: Arc<Watch>,
    stopped: Arc<StoppedHere>,
    guard: Arc<Guard>,
    metrics: Arc<Metrics>,
    meter: Option<Arc<Meter>>,
}

impl<E: Engine> Driver<E> {
    pub(super) const fn new(
        engine: E,
        setting: Arc<Setting>,
        watch: Arc<Watch>,
        stopped: Arc<StoppedHere>,
        guard: Arc<Guard>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { engine, setting, watch, stopped, guard, metrics, meter: None }
    }

    /// Holds decisions against quotas.
    pub(super) fn metered(self, meter: Option<Arc<Meter>>) -> Self {
        Self { meter, ..self }
    }

    /// Runs until every sender of the queue is gone and the queue is empty; then closes the database.
    pub(super) async fn run(mut self, mut arrivals: Arrivals) {
        let mut drained = Vec::with_capacity(BATCH_COMMANDS);
        let mut before = 0;
        while arrivals.take(&mut drained).await {
            if before >= GATHER_COMMANDS && drained.len() < BATCH_COMMANDS {
                self.engine.gather().await;
                arrivals.fill(&mut drained);
            }
            before = drained.len();
            self.guard.took_up();
            let mut jobs = drained.drain(..).peekable();
            while jobs.peek().is_some() {
                let mut bytes = 0_usize;
                let mut batch = Vec::new();
                while let Some(job) = jobs.next_if(|job| goes_with(&batch, bytes, job)) {
                    bytes = bytes.saturating_add(job.size());
                    batch.push(job);
                }
                let notes = notes::apart(&mut batch);
                self.serve(batch).await;
                self.note(notes).await;
            }
        }
        self.engine.close().await;
    }

    /// Serves a batch; one whose rows contradict the rules is taken apart, so that one bad request does not fail the
    /// others.
    async fn serve(&mut self, mut batch: Vec<Job>) {
        batch.retain(|job| !job.is_abandoned());
        if self.guard.is_raised() {
            batch = turn_away(batch);
        }
        if batch.is_empty() {
            return;
        }
        self.metrics.batch.saw(batch.len());
        let Err((batch, reason)) = self.serve_together(batch).await else { return };
        if batch.len() == 1 {
            error!(reason, "a request was stopped: its rows contradict the rules");
            answer_all(batch, &Unserved::Inconsistent);
            return;
        }
        warn!(reason, members = batch.len(), "a batch was taken apart");
        for job in batch {
            if let Err((single, reason)) = self.serve_together(vec![job]).await {
                error!(reason, "a request was stopped: its rows contradict the rules");
                answer_all(single, &Unserved::Inconsistent);
            }
        }
    }

    async fn serve_together(&mut self, batch: Vec<Job>) -> Result<(), (Vec<Job>, String)> {
        // What is said when a commit may have happened and nobody can look: set by a lost outcome, and lifted as soon
        // as a fresh snapshot shows what became of it.
        let mut doubt: Option<Vec<Answer>> = None;
        let (mut last, mut doubts) = (String::new(), 0_u32);
        for _ in 0..COMMIT_ATTEMPTS {
            match self.attempt(&batch, &mut doubt).await {
                Ok(answers) => {
                    answer_each(batch, answers);
                    return Ok(());
                }
                Err(Stopped::Conflict(reason)) => last = reason,
                Err(Stopped::Unknown(reason, answers)) => {
                    warn!(
                        reason,
                        members = batch.len(),
                        "the outcome of a commit is not known; looking it up"
                    );
                    doubt = Some(answers);
                    last = reason;
                    doubts = doubts.saturating_add(1);
                    if doubts >= COMMIT_DOUBTS {
                        break;
                    }
                }
                Err(Stopped::Failed(reason)) => {
                    last = reason;
                    break;
                }
                Err(Stopped::Inconsistent(reason)) => return Err((batch, reason)),
            }
        }
        let answers = match doubt {
            Some(unknown) => self.look_up(&batch).await.unwrap_or(unknown),
            None => batch.iter().map(|job| Err(job.unserved(&last))).collect(),
        };
        error!(reason = last, members = batch.len(), "the database cannot be used for these requests");
        answer_each(batch, answers);
        Ok(())
    }

    /// Looks up what became of a batch whose last commit was in doubt, without writing anything: what is found is
    /// answered, and what is absent had no effect. None when the database cannot be asked.
    async fn look_up(&mut self, batch: &[Job]) -> Option<Vec<Answer>> {
        let loaded = self.load(batch).await.ok()?;
        let answer = |job: &Job| {
            let mut changes = ChangeSet::default();
            // Each against what is durable, not against what earlier members would have changed.
            let mut snapshot = loaded.snapshot.clone();
            let mut nothing = Pending::default();
            let answer = decide(
                &self.setting,
                &self.guard,
                &mut nothing,
                &mut snapshot,
                job,
                loaded.now,
                &mut changes,
            );
            if changes.is_empty() { answer } else { Err(Unserved::Unavailable(Effect::None)) }
        };
        let answers: Vec<Answer> = batch.iter().map(answer).collect();
        match self.end_unchanged(&answers).await {
            CommitOutcome::Committed => Some(answers),
            CommitOutcome::Conflict(_) | CommitOutcome::Unknown(_) | CommitOutcome::Failed(_) => None,
        }
    }

    /// Ends a transaction that changes nothing. Where an answer rests on rows that an earlier commit made (a replay,
    /// a repeat), these must be durable before it is told (`protocol.md` section 9).
    async fn end_unchanged(&mut self, answers: &[Answer]) -> CommitOutcome {
        if answers.iter().any(rests_on_rows) {
            return self.engine.confirm().await;
        }
        self.engine.rollback().await;
        CommitOutcome::Committed
    }

    /// Holds and loads the rows of a batch. The alarm is looked at behind that: whichever connection noticed that the
    /// database has gone back, no other one decides anything on it before the breaker has tripped.
    async fn load(&mut self, batch: &[Job]) -> Result<Loaded, EngineError> {
        let loaded = self.engine.load(&wanted_by(batch)).await?;
        if self.guard.is_raised() && !batch.iter().all(Job::is_trip) {
            self.engine.rollback().await;
            return Err(EngineError::Unavailable(SUSPECTED.to_owned()));
        }
        self.guard.epochs.read(&loaded.snapshot);
        Ok(loaded)
    }

    async fn attempt(
        &mut self,
        batch: &[Job],
        doubt: &mut Option<Vec<Answer>>,
    ) -> Result<Vec<Answer>, Stopped> {
        let began = instant();
        let loaded = match self.load(batch).await {
            Ok(loaded) => loaded,
            Err(error) => return Err(self.back_out(error).await),
        };
        // The rows tell what became of an earlier attempt: its operations are found and replayed, or they are absent
        // and evaluated again.
        *doubt = None;
        let mut snapshot = loaded.snapshot;
        let (mut changes, mut pending) = (ChangeSet::default(), Pending::of(self.meter.as_ref()));
        let mut answers = Vec::with_capacity(batch.len());
        for job in batch {
            // The rows may have been waited for, and a caller may have gone meanwhile.
            let answer = if job.is_abandoned() {
                Ok(None)
            } else {
                decide(&self.setting, &self.guard, &mut pending, &mut snapshot, job, loaded.now, &mut changes)
            };
            answers.push(answer);
        }
        let ended = if changes.is_empty() {
            self.end_unchanged(&answers).await
        } else {
            if let Err(error) = self.engine.apply(&changes, loaded.now).await {
                return Err(self.back_out(error).await);
            }
            let left = |job: &Job| job.reply.is_closed();
            if deliberate::on(Bug::HandlerAwaitsTheDatabase) && batch.iter().any(left) {
                return Err(Stopped::Failed("a handler's future was dropped".to_owned()));
            }
            let mut ended = self.engine.commit().await;
            if deliberate::on(Bug::AnswerBeforeTheCommit) {
                ended = CommitOutcome::Committed;
            }
            tell::ended(&self.metrics, &ended, began.elapsed());
            ended
        };
        match ended {
            CommitOutcome::Committed => {
                self.guard.acks.remember(&changes.operations, loaded.now);
                pending.commit();
                self.guard.epochs.committed(&changes);
                self.watch.committed(&changes);
                self.stopped.committed(&changes);
                tell::committed(&self.metrics, &changes, loaded.now);
                Ok(answers)
            }
            CommitOutcome::Conflict(reason) => Err(Stopped::Conflict(reason)),
            CommitOutcome::Failed(reason) => Err(Stopped::Failed(reason)),
            CommitOutcome::Unknown(reason) => {
                Err(Stopped::Unknown(reason, answers.into_iter().map(when_unknown).collect()))
            }
        }
    }

    async fn back_out(&mut self, error: EngineError) -> Stopped {
        self.engine.rollback().await;
        match error {
            EngineError::Conflict(reason) => Stopped::Conflict(reason),
            EngineError::Unavailable(reason) => Stopped::Failed(reason),
            EngineError::Inconsistent(reason) => Stopped::Inconsistent(reason),
        }
    }
}

/// Said between the alarm and the breaker.
const SUSPECTED: &str = "the database may have gone back in time; the breaker is being tripped";

/// While the alarm is up only the breaker is decided.
fn turn_away(batch: Vec<Job>) -> Vec<Job> {
    let (trips, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(Job::is_trip);
    for job in others {
        let unserved = job.unserved(SUSPECTED);
        drop(job.reply.send(Err(unserved)));
    }
    trips
}

/// Decides one job and makes its changes visible to the jobs after it. A decision that the invariants reject changes
/// nothing and stops that job alone.
fn decide(
    setting: &Setting,
    guard: &Guard,
    pending: &mut Pending,
    snapshot: &mut protocol::Snapshot,
    job: &Job,
    now: crate::domain::time::Timestamp,
    changes: &mut ChangeSet,
) -> Answer {
    let (Task::Command(command) | Task::Wait(command)) = &job.task else { return Ok(None) };
    // Looked at now, and not when the call came: the database may have gone back since.
    let begun =
        if let Command::Whole(act) = command.as_ref() { guard.begun(&act.subject) } else { Epoch::ZERO };
    let context = setting.context(begun);
    match checked(&context, snapshot, command, now) {
        Ok(mut decision) => {
            if let Some(actor) = &job.actor {
                decision.sign(actor);
            }
            if let Some(Refusal::IssuerBehind { .. }) = decision.outcome.refusal() {
                guard.epochs.told_by_seals(command);
            }
            pending.admit(command, &decision.changes, snapshot, &setting.namespaces)?;
            for change in decision.changes {
                snapshot.apply(&change);
                changes.add(change);
            }
            Ok(Some(decision.outcome))
        }
        Err(inconsistent) => {
            error!(reason = %inconsistent, "a request was stopped: its rows contradict the rules");
            Err(Unserved::Inconsistent)
        }
    }
}

fn checked(
    context: &Context<'_>,
    snapshot: &protocol::Snapshot,
    command: &Command,
    now: crate::domain::time::Timestamp,
) -> Result<protocol::Decision, Inconsistent> {
    let decision = protocol::decide(context, snapshot, command, now)?;
    for change in &decision.changes {
        if let Change::Resource { before, after } = change {
            protocol::invariants::check(before.as_deref(), after)?;
        }
    }
    Ok(decision)
}

/// Whether an answer tells of something that an earlier commit made: a replay, a repeat.
fn rests_on_rows(answer: &Answer) -> bool {
    match answer {
        Ok(None) | Err(_) => false,
        Ok(Some(Outcome::Explained(members) | Outcome::NotWritten(members))) => {
            members.iter().any(|member| matches!(member.verdict, Verdict::Replay(_)))
        }
        Ok(Some(outcome)) => outcome.refusal().is_none(),
    }
}

/// What may still be said when a commit's outcome is not known: a refusal had no effect whatever became of the batch;
/// everything else, replays included, rests on rows that may not be there.
fn when_unknown(answer: Answer) -> Answer {
    match answer {
        Ok(Some(outcome)) if outcome.refusal().is_some() => Err(Unserved::Unavailable(Effect::None)),
        Ok(Some(Outcome::Explained(_)) | None) => Err(Unserved::Unavailable(Effect::None)),
        Ok(Some(_)) => Err(Unserved::Unavailable(Effect::Unknown)),
        Err(unserved) => Err(unserved),
    }
}

fn answer_each(batch: Vec<Job>, answers: Vec<Answer>) {
    for (job, answer) in batch.into_iter().zip(answers) {
        // A client that hung up is nobody's loss: its outcome is in the ledger.
        drop(job.reply.send(answer));
    }
}

fn answer_all(batch: Vec<Job>, unserved: &Unserved) {
    for job in batch {
        drop(job.reply.send(Err(unserved.clone())));
    }
}
