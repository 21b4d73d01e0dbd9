//! The ways of a job: into the queue of its committer, and back with its answer.

use std::sync::Weak;

use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};

use crate::domain::operation::Effect;
use crate::limits;
use crate::protocol::Command;

use super::Unserved;
use super::driver::{Answer, Job, Task};

/// Runs a committer on this thread, with a runtime of its own.
pub(super) fn alone(committer: impl Future<Output = ()>) {
    match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(committer),
        // Its queue ends with it, and the gateway with that.
        Err(error) => tracing::error!(%error, "a committer cannot be started"),
    }
}

/// Waits for all committers; the first one that breaks ends the wait, and the others go on to their own end.
pub(super) async fn all_ended(mut committers: JoinSet<()>) -> Result<(), JoinError> {
    while let Some(ended) = committers.join_next().await {
        if ended.is_err() {
            committers.detach_all();
            return ended;
        }
    }
    Ok(())
}

/// A resource always goes to the same committer.
pub(super) fn enqueue(queues: &[mpsc::Sender<Job>], job: Job) -> Result<(), Unserved> {
    let committer = usize::from(job.bucket().0).checked_rem(queues.len()).unwrap_or_default();
    send(queues.get(committer), job)
}

/// Proposes commands, all together so that they share a batch, and waits until they are decided. One that failed is
/// proposed again another time. None when the ledger is gone.
pub(super) async fn propose(queues: &Weak<[mpsc::Sender<Job>]>, commands: Vec<Command>) -> Option<()> {
    let mut sent = Vec::with_capacity(commands.len());
    for command in commands {
        let (reply, answer) = oneshot::channel();
        let job = Job { task: Task::Command(Box::new(command)), actor: None, reply };
        if enqueue(queues.upgrade()?.as_ref(), job).is_err() {
            break;
        }
        sent.push(answer);
    }
    for answer in sent {
        drop(answered(answer).await);
    }
    Some(())
}

pub(super) fn send(queue: Option<&mpsc::Sender<Job>>, job: Job) -> Result<(), Unserved> {
    let Some(queue) = queue else { return Err(Unserved::Draining) };
    // Several threads may look at the same moment, so that the reserve may shrink by one for each of them.
    if !job.is_reserved() && queue.capacity() <= limits::QUEUE_RESERVED {
        return Err(if queue.is_closed() { Unserved::Draining } else { Unserved::Overloaded });
    }
    queue.try_send(job).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => Unserved::Overloaded,
        mpsc::error::TrySendError::Closed(_) => Unserved::Draining,
    })
}

/// A committer answers every job; one that is dropped unanswered went down with it, half done or not.
pub(super) async fn answered(answer: oneshot::Receiver<Answer>) -> Answer {
    answer.await.unwrap_or(Err(Unserved::Unavailable(Effect::Unknown)))
}
