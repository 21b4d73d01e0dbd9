//! The committer: it drains the queue, decides a batch against one loaded view, commits once, and answers everybody.
//!
//! Nobody is answered before the commit. It owns its engine and runs to the end of each step: no future of a database
//! is ever dropped half way, whatever becomes of the clients.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::domain::operation::Effect;
use crate::domain::resource::{Bucket, ResourceName};
use crate::limits::{BATCH_BODY_BYTES, BATCH_COMMANDS, COMMIT_ATTEMPTS, COMMIT_DOUBTS, GATHER_COMMANDS};
use crate::protocol::outcome::Verdict;
use crate::protocol::{self, Change, Command, Context, Inconsistent, Outcome, Wanted};

use super::changeset::ChangeSet;
use super::engine::{CommitOutcome, Engine, EngineError};
use super::refusals::Sample;
use super::watch::Watch;
use super::{Setting, Unserved};

mod notes;

/// A command with the place where its answer goes.
pub(super) struct Job {
    pub(super) task: Task,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// What a job asks of the committer.
pub(super) enum Task {
    /// Decide and commit.
    Command(Box<Command>),
    /// The same for a caller that waits: when it has gone before the transaction begins, there is nothing to do.
    Wait(Box<Command>),
    /// Show that a transaction can be begun and ended.
    Probe,
    /// Write samples of refusals down.
    Note(Vec<Sample>),
}

/// What a job is answered.
pub(super) type Answer = Result<Option<Outcome>, Unserved>;

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
}

impl<E: Engine> Driver<E> {
    pub(super) const fn new(engine: E, setting: Arc<Setting>, watch: Arc<Watch>) -> Self {
        Self { engine, setting, watch }
    }

    /// Runs until every sender of the queue is gone and the queue is empty; then closes the database.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut drained = Vec::with_capacity(BATCH_COMMANDS);
        let mut before = 0;
        while queue.recv_many(&mut drained, BATCH_COMMANDS).await > 0 {
            if before >= GATHER_COMMANDS {
                self.engine.gather().await;
                while drained.len() < BATCH_COMMANDS
                    && let Ok(job) = queue.try_recv()
                {
                    drained.push(job);
                }
            }
            before = drained.len();
            let mut jobs = drained.drain(..).peekable();
            while jobs.peek().is_some() {
                let mut bytes = 0_usize;
                let mut batch = Vec::new();
                while let Some(job) = jobs
                    .next_if(|job| batch.is_empty() || bytes.saturating_add(job.size()) <= BATCH_BODY_BYTES)
                {
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
        if batch.is_empty() {
            return;
        }
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
        let loaded = self.engine.load(&wanted_by(batch)).await.ok()?;
        let answer = |job: &Job| {
            let mut changes = ChangeSet::default();
            // Each against what is durable, not against what earlier members would have changed.
            let mut snapshot = loaded.snapshot.clone();
            let answer = decide(&self.setting, &mut snapshot, &job.task, loaded.now, &mut changes);
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

    async fn attempt(
        &mut self,
        batch: &[Job],
        doubt: &mut Option<Vec<Answer>>,
    ) -> Result<Vec<Answer>, Stopped> {
        let loaded = match self.engine.load(&wanted_by(batch)).await {
            Ok(loaded) => loaded,
            Err(error) => return Err(self.back_out(error).await),
        };
        // The rows tell what became of an earlier attempt: its operations are found and replayed, or they are absent
        // and evaluated again.
        *doubt = None;
        let mut snapshot = loaded.snapshot;
        let mut changes = ChangeSet::default();
        let mut answers = Vec::with_capacity(batch.len());
        for job in batch {
            // The rows may have been waited for, and a caller may have gone meanwhile.
            let answer = if job.is_abandoned() {
                Ok(None)
            } else {
                decide(&self.setting, &mut snapshot, &job.task, loaded.now, &mut changes)
            };
            answers.push(answer);
        }
        let ended = if changes.is_empty() {
            self.end_unchanged(&answers).await
        } else {
            if let Err(error) = self.engine.apply(&changes, loaded.now).await {
                return Err(self.back_out(error).await);
            }
            self.engine.commit().await
        };
        match ended {
            CommitOutcome::Committed => {
                self.watch.committed(&changes);
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

impl Job {
    /// Whether it belongs to a caller that waited and has gone.
    fn is_abandoned(&self) -> bool {
        matches!(self.task, Task::Wait(_)) && self.reply.is_closed()
    }

    /// The bucket of what it is about: of a write, of its first member.
    pub(super) fn bucket(&self) -> Bucket {
        match &self.task {
            Task::Command(command) | Task::Wait(command) => match command.as_ref() {
                Command::Write(write) => {
                    write.members.first().map_or(Bucket(0), |member| member.address.resource.bucket())
                }
                Command::Acquire(acquire) => acquire.bucket(),
                Command::Advance(advance) => advance.resource.bucket(),
                Command::Control(control) => control.resource.bucket(),
                Command::Whole(act) => act.subject.bucket(),
                Command::Renew(renew) => renew.bucket,
                Command::Release(release) => release.bucket,
                Command::Transfer(transfer) => transfer.bucket,
                Command::Sweep(sweep) => sweep.lease.bucket,
                Command::Leave(leave) => leave.resources.first().map_or(Bucket(0), ResourceName::bucket),
                Command::Settle(settle) => settle.key.0.bucket(),
                Command::Resume(resume) => resume.key.0.bucket(),
                Command::Resolve(resolve) => resolve.resource.bucket(),
                Command::Barrier(barrier) => barrier.resource.bucket(),
            },
            Task::Probe | Task::Note(_) => Bucket(0),
        }
    }

    /// What it is told when nothing could be done.
    fn unserved(&self, reason: &str) -> Unserved {
        match &self.task {
            Task::Command(_) | Task::Wait(_) => Unserved::Unavailable(Effect::None),
            Task::Probe | Task::Note(_) => Unserved::Unready(reason.to_owned()),
        }
    }

    /// Bytes of content that it brings.
    fn size(&self) -> usize {
        match &self.task {
            Task::Command(command) | Task::Wait(command) => match command.as_ref() {
                Command::Write(write) => write.members.iter().fold(0, |sum: usize, member| {
                    let document = member.document.as_ref().map_or(0, |document| document.body.len());
                    let payload = member.forward.as_ref().map_or(0, |forward| forward.payload.length);
                    sum.saturating_add(document)
                        .saturating_add(usize::try_from(payload).unwrap_or(usize::MAX))
                }),
                Command::Acquire(_)
                | Command::Renew(_)
                | Command::Release(_)
                | Command::Advance(_)
                | Command::Transfer(_)
                | Command::Control(_)
                | Command::Whole(_)
                | Command::Sweep(_)
                | Command::Leave(_)
                | Command::Settle(_)
                | Command::Resume(_)
                | Command::Resolve(_)
                | Command::Barrier(_) => 0,
            },
            Task::Probe | Task::Note(_) => 0,
        }
    }
}

/// The rows that a batch needs.
fn wanted_by(batch: &[Job]) -> Wanted {
    let mut wanted = Wanted::default();
    for job in batch {
        if let Task::Command(command) | Task::Wait(command) = &job.task {
            wanted.add(command);
        }
    }
    wanted
}

/// Decides one job and makes its changes visible to the jobs after it. A decision that the invariants reject changes
/// nothing and stops that job alone.
fn decide(
    setting: &Setting,
    snapshot: &mut protocol::Snapshot,
    task: &Task,
    now: crate::domain::time::Timestamp,
    changes: &mut ChangeSet,
) -> Answer {
    let (Task::Command(command) | Task::Wait(command)) = task else { return Ok(None) };
    let context = setting.context();
    match checked(&context, snapshot, command, now) {
        Ok(decision) => {
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
