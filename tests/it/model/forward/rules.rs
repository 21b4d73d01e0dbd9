//! One step: what the store, the network or a gateway does, and what the rules make of it.

use super::whole::HALF_RETENTION;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::{Base, CellSeen, Class, Validator};
use fencegate::protocol::command::{BarrierFinding, Finding, Resume, Settle, Told};
use fencegate::protocol::outcome::Settled;
use fencegate::protocol::rows::LeaseRef;
use fencegate::protocol::snapshot::OperationKey;
use fencegate::protocol::{Command, Decision, Outcome, Snapshot, decide};

use super::super::verdicts::heard;
use super::bounds::{Bounds, PAGE, position_of};
use super::bugs::Bug;
use super::judge::{Violation, broken};
use super::state::{Phase, State, Task, Work, taught};
use super::steps::Step;
use super::store::{Reply, Request};
use super::variants;
use crate::support::forwarding::answered;
use crate::support::world::name;

impl State {
    /// Takes a step. None where it leads beyond the bounds.
    pub(super) fn take(&self, bounds: &Bounds, step: Step) -> Result<Option<Self>, Violation> {
        let mut after = self.clone();
        after.advance(bounds, step)?;
        let within = after.intents().all(|intent| intent.record.attempt <= bounds.attempts);
        Ok(within.then_some(after))
    }

    /// Takes a step, whatever the bounds.
    pub(super) fn advance(&mut self, bounds: &Bounds, step: Step) -> Result<(), Violation> {
        let after = self;
        match step {
            Step::Deliver(number) => after.deliver(bounds, number)?,
            Step::Acquire => after.acquire(bounds)?,
            Step::Cancel => after.cancel(bounds)?,
            Step::Barrier => after.raise(bounds)?,
            Step::Resume(number) => after.resume(bounds, number)?,
            Step::Resolve(number) => after.resolve(bounds, number)?,
            Step::Write(number) => after.write(number)?,
            Step::NotSent(number) => {
                after.history.faults.not_sent += 1;
                let task = after.tasks.remove(number);
                after.learnt(bounds, &task.work, &Finding::NotSent)?;
            }
            Step::Ask(number) => {
                let task = after.tasks.remove(number);
                let known = Finding::Known(Box::new(answered(200, None)));
                after.learnt(bounds, &task.work, &known)?;
            }
            Step::Read(number) => after.look(number),
            Step::Arrive(number) => after.arrive(bounds, number, 1)?,
            Step::ArriveTwice(number) => {
                after.history.faults.twice += 1;
                after.arrive(bounds, number, 2)?;
            }
            Step::Refuse(number) => after.refuse(bounds, number),
            Step::Settle(number) => after.settle(bounds, number)?,
            Step::TimeOut(number) => after.time_out(bounds, number)?,
            Step::Die(number) => {
                let task = after.tasks.remove(number);
                after.orphan(task);
            }
            Step::Trip => after.trip(bounds)?,
            Step::Epoch => after.begin_epoch(bounds)?,
            Step::Prune => after.prune(bounds)?,
            Step::Age => after.age(bounds),
            Step::ArriveLate(number) => {
                let request = after.network.remove(number);
                after.reach(bounds, &request)?;
            }
        }
        after.tidy(bounds)
    }

    /// Asks the rules.
    pub(super) fn decide(&self, bounds: &Bounds, command: &Command) -> Result<Decision, Violation> {
        let rows = variants::rows_of_a_write(self, bounds, command);
        decided(bounds, rows.as_ref().unwrap_or(&self.snapshot), command, self.history.age)
    }

    /// A request is at the store.
    pub(super) fn reach(&mut self, bounds: &Bounds, request: &Request) -> Result<Reply, Violation> {
        let (reply, effect) = self.store.take(request, bounds.bug, bounds.ages);
        if let Some(effect) = effect {
            self.history.arrived(bounds, effect)?;
        }
        Ok(reply)
    }

    /// Nobody waits for the answer any more; what was written is on its way all the same.
    fn orphan(&mut self, task: Task) {
        if let Phase::Waiting(request) = task.phase {
            self.network.push(request);
        }
    }

    fn write(&mut self, number: usize) -> Result<(), Violation> {
        let Phase::Send(request) = self.tasks[number].phase.clone() else {
            return broken("model", "no send");
        };
        self.tasks[number].phase = Phase::Waiting(request);
        Ok(())
    }

    /// Somebody was told to take a step. I13: a conditional send rests on what is recorded.
    pub(super) fn begin(&mut self, bounds: &Bounds, task: Task) -> Result<(), Violation> {
        if let Phase::Send(Request::Write { base, .. } | Request::Rewrite { base, .. }) = &task.phase
            && bounds.class == Class::Conditional
        {
            let cell = self.snapshot.resource(&name(PAGE)).and_then(|row| row.cell.clone());
            if *base != cell.map_or(Base::Absent, Base::Recorded) {
                return broken("I13", format!("{task:?} does not rest on what is recorded"));
            }
        }
        self.tasks.push(task);
        Ok(())
    }

    fn look(&mut self, number: usize) {
        if let Phase::Read(recorded) = self.tasks[number].phase.clone() {
            self.tasks[number].phase = Phase::Seen(recorded, self.store.read());
        }
    }

    fn arrive(&mut self, bounds: &Bounds, number: usize, times: u8) -> Result<(), Violation> {
        let Phase::Waiting(request) = self.tasks[number].phase.clone() else {
            return broken("model", "nothing is on its way");
        };
        let reply = self.reach(bounds, &request)?;
        if times > 1 {
            self.network.push(request.clone());
        }
        self.tasks[number].phase = Phase::Answered(request, reply);
        Ok(())
    }

    /// All copies of a request are refused: what is wrong with one is wrong with all. Of other attempts that says nothing,
    /// unless the store has promised it.
    fn refuse(&mut self, bounds: &Bounds, number: usize) {
        self.history.faults.refused += 1;
        if let (Phase::Waiting(request), Some(status)) = (self.tasks[number].phase.clone(), bounds.refused) {
            self.store.refuse(&request, status);
            let reply = Reply { status, validator: None, holds: None };
            self.tasks[number].phase = Phase::Answered(request, reply);
        }
    }

    fn time_out(&mut self, bounds: &Bounds, number: usize) -> Result<(), Violation> {
        let task = self.tasks.remove(number);
        let work = task.work.clone();
        self.orphan(task);
        match work {
            Work::Operation { .. } => self.learnt(bounds, &work, &Finding::Doubt),
            // Whoever works at a barrier looks again from the beginning.
            Work::Barrier(lease) => self.barrier(bounds, lease, BarrierFinding::Nothing),
        }
    }

    fn settle(&mut self, bounds: &Bounds, number: usize) -> Result<(), Violation> {
        let Task { work, phase } = self.tasks.remove(number);
        match (&work, phase) {
            (Work::Operation { .. }, Phase::Answered(_, reply)) => {
                let etag = reply.validator.as_ref().map(Validator::as_str);
                let holds = reply.holds.map(position_of);
                let answer = answered(reply.status, etag);
                self.learnt(bounds, &work, &Finding::Answered(Box::new(answer), holds))
            }
            (Work::Operation { .. }, Phase::Seen(_, seen)) => {
                self.learnt(bounds, &work, &Finding::Cell(seen))
            }
            (Work::Barrier(lease), Phase::Seen(recorded, seen)) => {
                let learnt = BarrierFinding::Cell { recorded, seen };
                self.barrier(bounds, *lease, learnt)
            }
            (Work::Barrier(lease), Phase::Answered(request, reply)) => {
                self.barrier(bounds, *lease, fenced(request, &reply))
            }
            (_, Phase::Send(_) | Phase::Read(_) | Phase::Waiting(_)) => broken("model", "nothing is learnt"),
        }
    }

    /// Something was learnt of an attempt.
    pub(super) fn learnt(
        &mut self,
        bounds: &Bounds,
        work: &Work,
        finding: &Finding,
    ) -> Result<(), Violation> {
        let Work::Operation { key, told, .. } = work else { return broken("model", "no operation") };
        let Some(settle) = variants::settle(self, bounds, key, told, finding)? else { return Ok(()) };
        self.settled(bounds, settle)
    }

    fn settled(&mut self, bounds: &Bounds, settle: Settle) -> Result<(), Violation> {
        let seen = variants::seen_by_settle(self, bounds, &settle.key);
        let decision = decided(bounds, &seen, &Command::Settle(settle), self.history.age)?;
        self.apply(bounds, &decision.changes)?;
        self.go_on(bounds, decision.outcome)
    }

    /// What comes next of an operation.
    fn go_on(&mut self, bounds: &Bounds, outcome: Outcome) -> Result<(), Violation> {
        match outcome {
            Outcome::Settled(settled) => match *settled {
                Settled::Again(attempt) => {
                    let task = Task::of(bounds, &attempt);
                    self.begin(bounds, task)
                }
                Settled::Done(_)
                | Settled::Withdrawn(_, _, _)
                | Settled::Later(_)
                | Settled::Uncertain(_)
                | Settled::Moved => Ok(()),
            },
            other => broken("outcome", format!("{other:?}")),
        }
    }

    /// The next step of the operation whose intent is this one.
    pub(super) fn resume(&mut self, bounds: &Bounds, number: usize) -> Result<(), Violation> {
        let intent = self.intents().nth(number).unwrap().clone();
        if variants::give_up(self, bounds, &intent)? {
            return Ok(());
        }
        let resume = Resume { key: intent.key(), attempt: intent.record.attempt };
        let decision = self.decide(bounds, &Command::Resume(resume))?;
        self.apply(bounds, &decision.changes)?;
        self.go_on(bounds, decision.outcome)
    }

    /// Takes a finding about a barrier to the rules, and the next step from them.
    pub(super) fn barrier(
        &mut self,
        bounds: &Bounds,
        lease: Option<LeaseRef>,
        learnt: BarrierFinding,
    ) -> Result<(), Violation> {
        let command = fencegate::protocol::command::Barrier { resource: name(PAGE), lease, learnt };
        let decision = self.decide(bounds, &Command::Barrier(command))?;
        self.apply(bounds, &decision.changes)?;
        self.barrier_step(bounds, lease, decision)
    }
}

/// What the answer to a barrier's request says.
fn fenced(request: Request, reply: &Reply) -> BarrierFinding {
    match (request, reply.status) {
        (Request::Rewrite { base, stamp }, 200) => BarrierFinding::Rewritten {
            position: stamp.position,
            base,
            validator: reply.validator.clone().unwrap(),
        },
        (Request::Advance { position }, 200) => BarrierFinding::Acknowledged(position_of(position)),
        (Request::Advance { .. }, 412) => BarrierFinding::Holds(position_of(reply.holds.unwrap())),
        (Request::Rewrite { .. } | Request::Advance { .. } | Request::Write { .. }, _) => {
            BarrierFinding::Nothing
        }
    }
}

/// Asks the rules about some rows. What they call inconsistent is a violation.
pub(super) fn decided(
    bounds: &Bounds,
    snapshot: &Snapshot,
    command: &Command,
    age: u8,
) -> Result<Decision, Violation> {
    let age = if bounds.is(Bug::AgeUnknown) { 0 } else { age };
    let now: Timestamp = bounds.world.now.plus(HALF_RETENTION.times(u64::from(age)));
    let decision = decide(&bounds.world.context(), snapshot, command, now)
        .map_err(|inconsistent| Violation { rule: "inconsistent", what: inconsistent.0 })?;
    bounds.met.borrow_mut().extend(heard(&decision.outcome));
    Ok(decision)
}

/// The settling of an operation's finding, as a command.
pub(super) fn plain(key: &OperationKey, told: &Told, finding: &Finding) -> Settle {
    taught(key, told, finding.clone())
}

/// Whether a cell shows something that is not recorded.
pub(super) fn is_news(bounds: &Bounds, told: &Told, seen: &CellSeen) -> bool {
    let found = match seen {
        CellSeen::Unstamped(validator) | CellSeen::Stamped(validator, _) => Some(validator),
        CellSeen::Absent | CellSeen::Strange(_) => None,
    };
    bounds.class == Class::Conditional && bounds.is(Bug::Unrecorded) && found != told.recorded.as_ref()
}
