//! What is put before a committer, and what goes into one batch.

use tokio::sync::oneshot;

use super::super::Unserved;
use super::super::refusals::Sample;
use crate::deliberate::{self, Bug};
use crate::domain::operation::Effect;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::{Bucket, ResourceName};
use crate::limits::BATCH_BODY_BYTES;
use crate::protocol::whole::{Deed, WholeAct};
use crate::protocol::{Command, Outcome, Wanted};

/// A command with the place where its answer goes.
pub(in super::super) struct Job {
    pub(in super::super) task: Task,
    /// Who asked for it; none where the gateway did.
    pub(in super::super) actor: Option<PrincipalName>,
    pub(in super::super) reply: oneshot::Sender<Answer>,
}

/// What a job asks of the committer.
pub(in super::super) enum Task {
    /// Decide and commit.
    Command(Box<Command>),
    /// The same for a caller that waits: when it has gone before the transaction begins, there is nothing to do.
    Wait(Box<Command>),
    /// Show that a transaction can be begun and ended.
    Probe,
    /// Write samples of refusals down.
    Note(Vec<Sample>),
}

/// How a job comes to its committer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Lane {
    /// Past what waits, in order where too many do: somebody's lease depends on it. It is judged by what is recorded and not
    /// by when it came.
    Urgent,
    /// The same, with some room for it alone: an operator waits for it, or the breaker has to trip.
    Operator,
    /// In order, with room that is kept for it: what became of effects that were sent already, and whether the committer works.
    Kept,
    /// In order, while there is room.
    Ordinary,
}

/// What a job is answered.
pub(in super::super) type Answer = Result<Option<Outcome>, Unserved>;

impl Job {
    /// Whether it belongs to a caller that waited and has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(self.task, Task::Wait(_))
            && self.reply.is_closed()
            && !deliberate::on(Bug::GrantedAfterItLeft)
    }

    fn is_whole(&self) -> bool {
        let Task::Command(command) = &self.task else { return false };
        matches!(command.as_ref(), Command::Whole(_))
    }

    /// The bucket of what it is about: of a write, of its first member.
    pub(in super::super) fn bucket(&self) -> Bucket {
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
                Command::Prune(prune) => prune.bucket(),
                Command::Leave(leave) => leave.resources.first().map_or(Bucket(0), ResourceName::bucket),
                Command::Settle(settle) => settle.key.0.bucket(),
                Command::Resume(resume) => resume.key.0.bucket(),
                Command::Resolve(resolve) => resolve.resource.bucket(),
                Command::Barrier(barrier) => barrier.resource.bucket(),
            },
            Task::Probe | Task::Note(_) => Bucket(0),
        }
    }

    /// Which way it takes to its committer.
    pub(in super::super) fn lane(&self) -> Lane {
        let (Task::Command(command) | Task::Wait(command)) = &self.task else {
            return if matches!(self.task, Task::Probe) { Lane::Kept } else { Lane::Ordinary };
        };
        match command.as_ref() {
            Command::Renew(_) | Command::Release(_) => Lane::Urgent,
            Command::Control(_) | Command::Resolve(_) => Lane::Operator,
            // Folding is work of the gateway, which nobody waits for.
            Command::Whole(act) if !matches!(act.deed, Deed::Fold { .. }) => Lane::Operator,
            // What gives a place up comes after the attempt that took it, and what became of an effect in the order in which
            // it was learnt.
            Command::Whole(_) | Command::Leave(_) | Command::Settle(_) | Command::Barrier(_) => Lane::Kept,
            Command::Write(_)
            | Command::Acquire(_)
            | Command::Advance(_)
            | Command::Transfer(_)
            | Command::Sweep(_)
            | Command::Prune(_)
            | Command::Resume(_) => Lane::Ordinary,
        }
    }

    /// Whether it trips the breaker.
    pub(super) fn is_trip(&self) -> bool {
        match &self.task {
            Task::Command(command) => {
                matches!(command.as_ref(), Command::Whole(WholeAct { deed: Deed::Trip(_), .. }))
            }
            Task::Wait(_) | Task::Probe | Task::Note(_) => false,
        }
    }

    /// What it is told when nothing could be done.
    pub(super) fn unserved(&self, reason: &str) -> Unserved {
        match &self.task {
            Task::Command(_) | Task::Wait(_) => Unserved::Unavailable(Effect::None),
            Task::Probe | Task::Note(_) => Unserved::Unready(reason.to_owned()),
        }
    }

    /// Bytes of content that it brings.
    pub(super) fn size(&self) -> usize {
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
                | Command::Prune(_)
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

/// Whether a job can be served together with those before it. An act on a whole namespace is served alone: it holds what
/// others hold a part of, and with anything beside that two of them could wait for each other.
pub(super) fn goes_with(batch: &[Job], bytes: usize, job: &Job) -> bool {
    let alone = job.is_whole() || batch.iter().any(Job::is_whole);
    batch.is_empty() || (!alone && bytes.saturating_add(job.size()) <= BATCH_BODY_BYTES)
}

/// The rows that a batch needs.
pub(super) fn wanted_by(batch: &[Job]) -> Wanted {
    let mut wanted = Wanted::default();
    for job in batch {
        if let Task::Command(command) | Task::Wait(command) = &job.task {
            wanted.add(command);
        }
    }
    wanted
}
