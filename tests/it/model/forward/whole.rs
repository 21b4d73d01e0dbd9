//! What happens to the whole namespace: the breaker trips, an epoch begins, records are forgotten, and time passes.

use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::counter::Epoch;
use fencegate::domain::operation::OperationId;
use fencegate::domain::subject::Subject;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::prune::{Prunable, Prune};
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Change, Command, Outcome, Refusal};

use super::bounds::{Bounds, PAGE};
use super::bugs::Bug;
use super::judge::{Violation, broken};
use super::state::{Phase, State};
use super::steps::Step;
use super::variants;
use crate::support::forwarding::KEY_RETENTION_MS;
use crate::support::world::{NAMESPACE, name};

/// Half of the time for which a store of these worlds keeps a key.
pub(super) const HALF_RETENTION: Millis = Millis::new(KEY_RETENTION_MS / 2);

impl State {
    /// What can happen to everything now.
    pub(super) fn whole_steps(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let used = self.snapshot.namespaces().next().is_some();
        if bounds.trips && used && !self.history.tripped {
            steps.push(Step::Trip);
        }
        if bounds.epochs && used && self.history.epoch == 0 {
            steps.push(Step::Epoch);
        }
        if bounds.prunes && self.snapshot.operations().next().is_some() {
            steps.push(Step::Prune);
        }
        if bounds.ages && self.history.age < 2 && used {
            steps.push(Step::Age);
        }
    }

    fn whole(&mut self, bounds: &Bounds, deed: Deed) -> Result<Outcome, Violation> {
        let command = Command::Whole(WholeAct { subject: Subject::parse(NAMESPACE).unwrap(), deed });
        let mut decision = self.decide(bounds, &command)?;
        variants::act(bounds, &mut decision.changes);
        self.apply(bounds, &decision.changes)?;
        Ok(decision.outcome)
    }

    pub(super) fn trip(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        let (detector, at) = (Detector::Witness, Timestamp::default());
        self.whole(bounds, Deed::Trip(Breaker { detector, at, found: String::new() }))?;
        (self.history.stopped, self.history.tripped) = (true, true);
        if bounds.is(Bug::BreakerForgets) { variants::throw_away(self) } else { Ok(()) }
    }

    pub(super) fn begin_epoch(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        let key = OperationId::parse(&(self.history.epoch + 1).to_string()).unwrap();
        let act = |leave_open| Deed::AdvanceEpoch { key: key.clone(), reason: String::new(), leave_open };
        if self.intents().next().is_some() {
            // Whoever does not say that they may go on is told which ones are undecided.
            match self.whole(bounds, act(false))? {
                Outcome::Refused(Refusal::OperationsOpen { open })
                    if open.len() == self.intents().count() => {}
                other => return broken("outcome", format!("{other:?}")),
            }
        }
        match self.whole(bounds, act(true))? {
            Outcome::Acted(done) if !done.replayed => self.history.begins(),
            other => return broken("outcome", format!("{other:?}")),
        }
        if bounds.is(Bug::EpochForgets) {
            variants::throw_away(self)?;
        }
        // A copy of the call begins no other one.
        match self.whole(bounds, act(true))? {
            Outcome::Acted(done) if done.replayed => Ok(()),
            other => broken("outcome", format!("{other:?}")),
        }
    }

    /// All that is recorded is proposed; I15: what lives or may still write stays, and nothing goes while it is stopped.
    pub(super) fn prune(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        let resource = name(PAGE);
        let operations =
            self.snapshot.operations().map(|one| (one.incarnation, one.operation_id.clone())).collect();
        let what = Prunable::Operations { resource: resource.clone(), operations };
        let decision = self.decide(bounds, &Command::Prune(Prune { kept: Millis::default(), what }))?;
        let decision = variants::pruned(self, bounds, decision);
        let (row, namespace) = (self.snapshot.resource(&resource), self.snapshot.namespaces().next());
        for change in &decision.changes {
            let Change::OperationPruned(record) = change else { continue };
            let lives = row.and_then(|row| row.applied).is_some_and(|mark| mark.position == record.position);
            let epoch = namespace.map_or(Epoch::ZERO, |row| row.epoch);
            let fenced = row.is_some_and(|row| row.has_fenced(record.position, epoch));
            if (lives || !fenced || self.history.stopped) && bounds.bug.is_none() {
                return broken("I15", format!("{record:?} is forgotten"));
            }
        }
        self.apply(bounds, &decision.changes)
    }

    /// Time passes. What was written to a socket has arrived by then or never will, and nobody sends what was announced so
    /// long ago: its deadline is over.
    pub(super) fn age(&mut self, bounds: &Bounds) {
        self.history.age += 1;
        self.store.age();
        self.network.clear();
        self.tasks.retain(|task| match task.phase {
            Phase::Send(_) => bounds.is(Bug::NoDeadline),
            Phase::Waiting(_) => false,
            Phase::Read(_) | Phase::Answered(_, _) | Phase::Seen(_, _) => true,
        });
    }
}
