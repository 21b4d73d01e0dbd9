//! Waiting for a lease: an acquire that is asked again whenever it may be its turn, until its budget is over.
//!
//! Between two attempts the caller holds nothing but a place in a list. When the caller goes, its future is dropped: it
//! is asked no more, its durable place is given up, and the next one is woken.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::domain::resource::ResourceName;
use crate::domain::time::Millis;
use crate::protocol::command::{Acquire, Leave};
use crate::protocol::{Command, Outcome, Refusal};

use super::driver::{Job, Task};
use super::wakeup::instant;
pub use super::watch::Observer;
use super::watch::Woken;
use super::{Ledger, Unserved, answered};

impl Ledger {
    /// Acquires, and waits for it at most `budget`. Dropping the future gives the wait up: what was not granted by
    /// then is not granted any more. It ends early when the process drains.
    ///
    /// # Errors
    /// [`Unserved`], as of [`Ledger::submit`].
    pub async fn acquire(
        &self,
        mut acquire: Acquire,
        budget: Duration,
        draining: &CancellationToken,
    ) -> Result<Outcome, Unserved> {
        let until = instant() + budget;
        let mut waiter = self.watch.enter(&acquire.resources);
        let mut place = Place { ledger: self, leave: None };
        loop {
            let left = until.saturating_duration_since(instant());
            acquire.wait = Some(Millis::new(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)));
            let answer = self.attempt(acquire.clone()).await;
            let Ok(Outcome::Refused(Refusal::LeaseBlocked(blockers))) = answer else {
                if matches!(answer, Ok(Outcome::Granted(_))) {
                    waiter.granted();
                }
                // Granted or refused for good, there is no place left; without an answer it is kept for the repeat.
                place.leave = None;
                return answer;
            };
            if blockers.iter().any(|blocker| blocker.place.is_some()) {
                let (resources, request_key) = (acquire.resources.clone(), acquire.request_key());
                place.leave = Some(Leave { resources, request_key });
            }
            waiter.heed(&blockers);
            match waiter.woken(until, draining).await {
                Woken::ToAsk => continue,
                Woken::TooLate | Woken::ByTheEnd => {}
            }
            // The place is kept for a moment: the caller may go on waiting with the same request id, here or elsewhere.
            place.leave = None;
            if draining.is_cancelled() {
                return Err(Unserved::Draining);
            }
            return Ok(Outcome::Refused(Refusal::WaitTimeout(blockers)));
        }
    }

    /// One attempt. The attempts of all who wait never fill the queue: renewals need room in it too.
    async fn attempt(&self, acquire: Acquire) -> Result<Outcome, Unserved> {
        let Ok(_permit) = self.attempts.acquire().await else { return Err(Unserved::Draining) };
        let (reply, answer) = oneshot::channel();
        let job = Job { task: Task::Wait(Box::new(Command::Acquire(acquire))), reply };
        self.enqueue(job)?;
        match answered(answer).await? {
            Some(outcome) => Ok(outcome),
            None => Err(Unserved::Inconsistent),
        }
    }

    /// Begins to observe a resource.
    #[must_use]
    pub fn observe(&self, resource: &ResourceName) -> Observer {
        self.watch.observe(resource)
    }
}

/// A place in durable queues, which is given up when its owner goes.
struct Place<'l> {
    ledger: &'l Ledger,
    leave: Option<Leave>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(leave) = self.leave.take() else { return };
        let (reply, _) = oneshot::channel();
        // With a full queue nothing is lost: a place that nobody takes its turn from stands in the way for a moment only.
        drop(self.ledger.enqueue(Job { task: Task::Command(Box::new(Command::Leave(leave))), reply }));
    }
}
