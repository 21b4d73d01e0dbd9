//! Waiting for a lease: an acquire that is asked again whenever it may be its turn, until its budget is over.
//!
//! Between two attempts the caller holds nothing but a place in a list. When the caller goes, its future is dropped: it
//! is asked no more, its durable place is given up, and the next one is woken.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::domain::lease::WaitOrder;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::ResourceName;
use crate::domain::time::Millis;
use crate::protocol::command::{Acquire, Leave, Wait};
use crate::protocol::{Command, Outcome, Refusal};

use super::driver::{Answer, Job, Task};
use super::queues::Queue;
use super::wakeup::instant;
pub use super::watch::Observer;
use super::watch::{Waiter, Woken};
use super::{Ledger, Unserved, answered, enqueue};

impl Ledger {
    /// Acquires, and waits for it at most `budget`. With `keeps_place` a place in a queue is kept for a moment when that is
    /// over: the caller can name its request again. Dropping the future gives the wait up: what was not granted by
    /// then is not granted any more. It ends early when the process drains.
    ///
    /// # Errors
    /// [`Unserved`], as of [`Ledger::submit`].
    pub async fn acquire(
        &self,
        actor: Option<PrincipalName>,
        mut acquire: Acquire,
        budget: Duration,
        keeps_place: bool,
        draining: &CancellationToken,
    ) -> Result<Outcome, Unserved> {
        let metrics = self.metrics.clone();
        let _waits = metrics.waiting.hold();
        let until = instant() + budget;
        let mut waiter = self.watch.enter(&acquire.resources, acquire.request_key());
        let mut place = Place { ledger: self, leave: self.place_of(&acquire) };
        let mut begins = true;
        loop {
            let left = Millis::of(until.saturating_duration_since(instant()));
            acquire.wait = Some(Wait { left, begins });
            begins = false;
            let answer = self.attempt(actor.clone(), acquire.clone()).await;
            let Ok(Outcome::Refused(Refusal::LeaseBlocked(blockers))) = answer else {
                return settled(answer, &mut waiter, &mut place);
            };
            waiter.heed(&blockers);
            match waiter.woken(until, draining).await {
                Woken::ToAsk => {}
                Woken::TooLate => break,
                Woken::ByTheEnd => {
                    place.step_aside(keeps_place);
                    return Err(Unserved::Draining);
                }
            }
        }
        // Once more: what is said is how it stands now, and a grant to another delivery of this request is its own.
        acquire.wait = None;
        let answer = self.attempt(actor, acquire).await;
        let Ok(Outcome::Refused(Refusal::LeaseBlocked(blockers))) = answer else {
            return settled(answer, &mut waiter, &mut place);
        };
        place.step_aside(keeps_place);
        Ok(Outcome::Refused(Refusal::WaitTimeout(blockers)))
    }

    /// The place that an acquire may have from its first attempt on, before it hears of it; none where there is no order.
    fn place_of(&self, acquire: &Acquire) -> Option<Leave> {
        let namespaces = &self.setting.namespaces;
        let ordered = |resource: &ResourceName| {
            namespaces.rules(&resource.namespace()).is_some_and(|rules| rules.order == WaitOrder::Fifo)
        };
        let resources = acquire.resources.clone();
        let (request_key, claim) = (acquire.request_key(), acquire.claim());
        resources.iter().any(ordered).then_some(Leave { resources, request_key, claim, keeps: false })
    }

    /// One attempt.
    async fn attempt(&self, actor: Option<PrincipalName>, acquire: Acquire) -> Result<Outcome, Unserved> {
        let task = Task::Wait(Box::new(Command::Acquire(acquire)));
        match one_of_many(&self.attempts, &self.queues, actor, task).await? {
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

/// Granted or refused for good, there is no place left; without an answer it is kept for the repeat.
fn settled(
    answer: Result<Outcome, Unserved>,
    waiter: &mut Waiter,
    place: &mut Place<'_>,
) -> Result<Outcome, Unserved> {
    if matches!(answer, Ok(Outcome::Granted(_))) {
        waiter.granted();
    }
    place.leave = None;
    answer
}

/// A place in durable queues, which is given up when its owner goes.
struct Place<'l> {
    ledger: &'l Ledger,
    leave: Option<Leave>,
}

impl Place<'_> {
    /// The wait is over and the caller may come again: it keeps its place for a moment, where it can name its request.
    fn step_aside(&mut self, keeps_place: bool) {
        if let Some(leave) = &mut self.leave {
            leave.keeps = keeps_place;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (Some(leave), Ok(runtime)) = (self.leave.take(), Handle::try_current()) else { return };
        let (attempts, queues) = (self.ledger.attempts.clone(), self.ledger.queues.clone());
        // An attempt that is under way stands in the queue already, so this comes after it. Should it fail, the place
        // stands in the way for a moment only.
        runtime.spawn(async move {
            let task = Task::Command(Box::new(Command::Leave(leave)));
            one_of_many(&attempts, &queues, None, task).await
        });
    }
}

/// A job of somebody who waits, or waited: all of theirs together never fill the queues, where renewals need room too.
async fn one_of_many(
    attempts: &Semaphore,
    queues: &[Queue],
    actor: Option<PrincipalName>,
    task: Task,
) -> Answer {
    let Ok(_permit) = attempts.acquire().await else { return Err(Unserved::Draining) };
    let (reply, answer) = oneshot::channel();
    enqueue(queues, Job { task, actor, reply })?;
    answered(answer).await
}
