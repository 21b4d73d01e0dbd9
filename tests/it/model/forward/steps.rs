//! What can happen next.

use fencegate::domain::operation::OperationState;
use fencegate::protocol::rows::IntentRow;

use super::bounds::{Bounds, EPOCH};
use super::judge::Cancel;
use super::state::{Phase, State, Task, Work};
use super::store::Request;

/// One step of a history. Numbers are those of deliveries, intents, tasks and requests that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A client's delivery comes to some gateway.
    Deliver(usize),
    /// The next owner acquires; the one before has released.
    Acquire,
    Cancel,
    /// Somebody works at the barrier.
    Barrier,
    /// Somebody takes up an operation whose last step has had its time.
    Resume(usize),
    /// A person looks at the store and ends a doubt, when nothing of it is under way any more.
    Resolve(usize),
    /// A request is written to its socket.
    Write(usize),
    /// No connection comes about.
    NotSent(usize),
    /// The upstream is asked for the outcome of a key, and has one.
    Ask(usize),
    /// A cell is read.
    Read(usize),
    /// A request arrives.
    Arrive(usize),
    /// A request arrives, and will arrive once more.
    ArriveTwice(usize),
    /// A request arrives, and the store will not have it, however often it comes.
    Refuse(usize),
    /// What was learnt is told.
    Settle(usize),
    /// No answer came in time.
    TimeOut(usize),
    /// Whoever was told is killed.
    Die(usize),
    /// A request arrives that nobody waits for.
    ArriveLate(usize),
    /// The database is found to have gone back in time.
    Trip,
    /// An operator begins a new epoch.
    Epoch,
    /// Records are forgotten.
    Prune,
    /// Half of the time passes for which a store keeps keys. Nothing is on its way for so long.
    Age,
}

impl State {
    /// Everything that can happen now.
    pub(super) fn steps(&self, bounds: &Bounds) -> Vec<Step> {
        let mut steps = Vec::new();
        let room = self.tasks.len() < bounds.tasks;
        for (number, delivery) in bounds.deliveries.iter().enumerate() {
            let owned = || {
                let index = usize::try_from(delivery.position).unwrap() - 1;
                self.history.grants.get(index).is_some_and(|grant| grant.complete)
            };
            let external = bounds.world.definition().issuer.is_external();
            let begun = delivery.position < EPOCH * (self.history.epoch + 1);
            if room && !self.history.came.contains(number) && (external && begun || owned()) {
                steps.push(Step::Deliver(number));
            }
        }
        self.whole_steps(bounds, &mut steps);
        let granted = u64::try_from(self.history.grants.len()).unwrap();
        if granted < bounds.acquires && self.history.cancel == Cancel::Not {
            steps.push(Step::Acquire);
        }
        if bounds.cancels && self.history.cancel == Cancel::Not && granted == bounds.acquires {
            steps.push(Step::Cancel);
        }
        if room && self.waits_for_barrier() {
            steps.push(Step::Barrier);
        }
        for (number, intent) in self.intents().enumerate() {
            if room && is_under_way(intent) {
                steps.push(Step::Resume(number));
            }
            if intent.record.state == OperationState::Uncertain && !self.may_come(intent) {
                steps.push(Step::Resolve(number));
            }
        }
        for number in 0..self.tasks.len() {
            self.task_steps(bounds, number, &mut steps);
        }
        steps.extend((0..self.network.len()).map(Step::ArriveLate));
        steps
    }

    /// Whether anything of an operation is on its way, or may still be sent.
    fn may_come(&self, intent: &IntentRow) -> bool {
        let own = |request: &Request| match request {
            Request::Write { sent, .. } => u64::try_from(sent.delivery).unwrap() == intent.claim,
            Request::Rewrite { .. } | Request::Advance { .. } => false,
        };
        let told = |task: &Task| match &task.phase {
            Phase::Send(request) | Phase::Waiting(request) => own(request),
            Phase::Read(_) | Phase::Answered(_, _) | Phase::Seen(_, _) => false,
        };
        self.network.iter().any(own) || self.tasks.iter().any(told)
    }

    /// Whether somebody waits for a barrier.
    pub(super) fn waits_for_barrier(&self) -> bool {
        let pending = self.history.grants.last().is_some_and(|grant| !grant.complete);
        pending || matches!(self.history.cancel, Cancel::Pending(_))
    }

    fn task_steps(&self, bounds: &Bounds, number: usize, steps: &mut Vec<Step>) {
        let task = &self.tasks[number];
        let faults = self.history.faults;
        // Whoever sleeps for ever is as good as dead, so a death matters only where it makes room.
        if self.tasks.len() >= bounds.tasks {
            steps.push(Step::Die(number));
        }
        match &task.phase {
            Phase::Send(request) => {
                steps.push(Step::Write(number));
                if matches!(task.work, Work::Operation { .. }) && faults.not_sent < bounds.not_sent {
                    steps.push(Step::NotSent(number));
                }
                let asks = matches!(task.work, Work::Operation { ask_first: true, .. });
                if let Request::Write { sent, .. } = request
                    && asks
                    && self.store.knows(sent.operation, sent.incarnation).is_some()
                {
                    steps.push(Step::Ask(number));
                }
            }
            Phase::Read(_) => steps.push(Step::Read(number)),
            Phase::Waiting(request) => {
                steps.extend([Step::Arrive(number), Step::TimeOut(number)]);
                if faults.twice < bounds.twice {
                    steps.push(Step::ArriveTwice(number));
                }
                let refuses = bounds.refused.is_some_and(|status| self.store.may_refuse(request, status));
                if refuses && faults.refused == 0 {
                    steps.push(Step::Refuse(number));
                }
            }
            Phase::Answered(_, _) => steps.extend([Step::Settle(number), Step::TimeOut(number)]),
            Phase::Seen(_, _) => steps.push(Step::Settle(number)),
        }
    }
}

fn is_under_way(intent: &IntentRow) -> bool {
    intent.record.state == OperationState::Intent
}
