//! The ways of a job: into the queue of its committer, and back with its answer.

use std::future::poll_fn;
use std::sync::Weak;
use std::task::Poll;

use tokio::runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};

use crate::domain::operation::Effect;
use crate::limits;
use crate::protocol::Command;

use super::Unserved;
use super::driver::{Answer, Job, Lane, Task};

/// The way in to one committer. What keeps a lease, gives it back or comes from an operator goes past what waits already:
/// under more than can be done nobody loses a lease for the length of a queue. When too many of them go past, further ones
/// stand in order while there is room there; and the last places of those that go past are for operators alone.
pub(super) struct Queue {
    urgent: mpsc::Sender<Job>,
    ordinary: mpsc::Sender<Job>,
}

/// The committer's end of it.
pub(super) struct Arrivals {
    urgent: mpsc::Receiver<Job>,
    ordinary: mpsc::Receiver<Job>,
}

impl Queue {
    pub(super) fn new() -> (Self, Arrivals) {
        let past = limits::QUEUE_RESERVED.saturating_add(limits::QUEUE_OPERATORS);
        let (urgent, urgent_arrivals) = mpsc::channel(past);
        let most = limits::QUEUE_COMMANDS.saturating_add(limits::QUEUE_RESERVED);
        let (ordinary, ordinary_arrivals) = mpsc::channel(most);
        (Self { urgent, ordinary }, Arrivals { urgent: urgent_arrivals, ordinary: ordinary_arrivals })
    }

    /// Whether there is no room for ordinary commands.
    pub(super) fn is_full(&self) -> bool {
        self.ordinary.capacity() <= limits::QUEUE_RESERVED
    }

    /// How many commands wait.
    pub(super) fn waiting(&self) -> usize {
        let waits = |queue: &mpsc::Sender<Job>| queue.max_capacity().saturating_sub(queue.capacity());
        waits(&self.urgent).saturating_add(waits(&self.ordinary))
    }

    pub(super) fn send(&self, mut job: Job) -> Result<(), Unserved> {
        let lane = job.lane();
        // Several threads may look at the same moment, so that a reserve may shrink by one for each of them.
        let goes_past = match lane {
            Lane::Operator => true,
            Lane::Urgent => self.urgent.capacity() > limits::QUEUE_OPERATORS,
            Lane::Kept | Lane::Ordinary => false,
        };
        if goes_past {
            match self.urgent.try_send(job) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(Unserved::Draining),
                Err(TrySendError::Full(back)) => job = back,
            }
        }
        if lane != Lane::Kept && self.is_full() {
            return Err(if self.ordinary.is_closed() { Unserved::Draining } else { Unserved::Overloaded });
        }
        self.ordinary.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Unserved::Overloaded,
            TrySendError::Closed(_) => Unserved::Draining,
        })
    }
}

impl Arrivals {
    /// Waits for jobs and takes a batch of them, the urgent ones first: half of it at most, so that the others go on too.
    /// False when every sender is gone and nothing is left.
    pub(super) async fn take(&mut self, into: &mut Vec<Job>) -> bool {
        poll_fn(|context| {
            let urgent = self.urgent.poll_recv_many(context, into, limits::BATCH_URGENT);
            let room = limits::BATCH_COMMANDS.saturating_sub(into.len());
            let ordinary = self.ordinary.poll_recv_many(context, into, room);
            if urgent.is_pending() {
                self.sent_before(into, 0);
            }
            match (urgent, ordinary) {
                (Poll::Ready(0), Poll::Ready(0)) => Poll::Ready(false),
                _ if into.is_empty() => Poll::Pending,
                _ => Poll::Ready(true),
            }
        })
        .await
    }

    /// Fills a batch with what has come since, and waits for nothing.
    pub(super) fn fill(&mut self, into: &mut Vec<Job>) {
        while into.len() < limits::BATCH_COMMANDS {
            if let Ok(urgent) = self.urgent.try_recv() {
                into.push(urgent);
            } else if let Ok(ordinary) = self.ordinary.try_recv() {
                into.push(ordinary);
                self.sent_before(into, into.len().saturating_sub(1));
            } else {
                break;
            }
        }
    }

    /// Puts before what was taken last, from this place on, the urgent ones that came between the looks at the two queues: one
    /// that was sent before an ordinary one is not decided after it.
    fn sent_before(&mut self, into: &mut Vec<Job>, place: usize) {
        let taken = into.len();
        while place < taken
            && into.len() < limits::BATCH_COMMANDS
            && let Ok(urgent) = self.urgent.try_recv()
        {
            into.push(urgent);
        }
        if let Some(last) = into.get_mut(place..) {
            last.rotate_right(last.len().saturating_sub(taken.saturating_sub(place)));
        }
    }
}

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
pub(super) fn enqueue(queues: &[Queue], job: Job) -> Result<(), Unserved> {
    let committer = usize::from(job.bucket().0).checked_rem(queues.len()).unwrap_or_default();
    queues.get(committer).ok_or(Unserved::Draining)?.send(job)
}

/// Proposes commands, all together so that they share a batch, and waits until they are decided. One that failed is
/// proposed again another time. None when the ledger is gone.
pub(super) async fn propose(queues: &Weak<[Queue]>, commands: Vec<Command>) -> Option<()> {
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

/// A committer answers every job; one that is dropped unanswered went down with it, half done or not.
pub(super) async fn answered(answer: oneshot::Receiver<Answer>) -> Answer {
    answer.await.unwrap_or(Err(Unserved::Unavailable(Effect::Unknown)))
}

#[cfg(test)]
mod tests {
    use crate::domain::lease::AcquisitionId;
    use crate::protocol::command::Renew;

    use super::*;

    fn job(task: Task) -> Job {
        Job { task, actor: None, reply: oneshot::channel().0 }
    }

    fn renewal() -> Job {
        let id = AcquisitionId::parse(&"0".repeat(24)).unwrap();
        let renew = Renew { bucket: id.bucket(), acquisition: id.hash(), ttl_ms: None };
        job(Task::Command(Box::new(Command::Renew(renew))))
    }

    fn lanes(jobs: &[Job]) -> Vec<Lane> {
        jobs.iter().map(Job::lane).collect()
    }

    #[test]
    fn what_came_between_the_looks_at_the_two_queues_keeps_its_place() {
        // Broken: a renewal that was sent before a probe is decided after it, because the queue of renewals was looked at a
        // moment too early. Must hold: it stands before all that was taken since that look, and behind what stood before.
        let (queue, mut arrivals) = Queue::new();
        let mut taken = vec![job(Task::Probe), job(Task::Probe), job(Task::Note(Vec::new()))];
        for _ in 0..2 {
            assert!(queue.send(renewal()).is_ok());
        }
        arrivals.sent_before(&mut taken, 1);
        let (kept, urgent, ordinary) = (Lane::Kept, Lane::Urgent, Lane::Ordinary);
        assert_eq!(lanes(&taken), [kept, urgent, urgent, kept, ordinary]);
        // Where nothing was taken there is nothing to stand before: the next look finds it.
        assert!(queue.send(renewal()).is_ok());
        arrivals.sent_before(&mut taken, 5);
        assert_eq!(taken.len(), 5);
        arrivals.fill(&mut taken);
        assert_eq!(lanes(&taken)[4..], [ordinary, urgent]);
    }
}
