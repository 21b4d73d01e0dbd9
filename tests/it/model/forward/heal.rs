//! I20: from any moment at which faults stop, everything ends in a bounded number of steps, and the record agrees with the
//! store.

use fencegate::domain::operation::OperationState;
use fencegate::domain::upstream::Class;

use super::bounds::{Bounds, PAGE, number_of};
use super::judge::{Violation, broken};
use super::state::{Phase, State};
use super::steps::Step;
use crate::support::world::name;

/// Every operation is decided after so many looks at what is due.
const LOOKS: usize = 6;

/// A task ends after so many steps of its own.
const STEPS: usize = 16;

impl State {
    /// All processes are killed, what is on its way is lost, and a new one takes up what is there.
    pub(super) fn heal(&self, bounds: &Bounds) -> Result<(), Violation> {
        let mut state = self.clone();
        state.tasks.clear();
        state.network.clear();
        if state.history.stopped {
            state.begin_epoch(bounds)?;
        }
        for _ in 0..LOOKS {
            state = state.look_after(bounds)?;
        }
        state.is_healed(bounds)
    }

    /// One look at what is due: each operation, then the barrier.
    fn look_after(&self, bounds: &Bounds) -> Result<Self, Violation> {
        let mut state = self.clone();
        let keys: Vec<_> = state.intents().map(fencegate::protocol::rows::IntentRow::key).collect();
        for key in keys {
            let under_way = |intent: &fencegate::protocol::rows::IntentRow| {
                intent.key() == key && intent.record.state == OperationState::Intent
            };
            let found = state.intents().position(under_way);
            if let Some(number) = found {
                state.resume(bounds, number)?;
                state = state.run(bounds)?;
            }
        }
        if state.waits_for_barrier() {
            state.raise(bounds)?;
            state = state.run(bounds)?;
        }
        Ok(state)
    }

    /// Takes the steps of what was told, one after the other and without a fault.
    fn run(&self, bounds: &Bounds) -> Result<Self, Violation> {
        let mut state = self.clone();
        for _ in 0..STEPS {
            let Some(task) = state.tasks.first() else { return Ok(state) };
            let step = match task.phase {
                Phase::Send(_) => Step::Write(0),
                Phase::Read(_) => Step::Read(0),
                Phase::Waiting(_) => Step::Arrive(0),
                Phase::Answered(_, _) | Phase::Seen(_, _) => Step::Settle(0),
            };
            state.advance(bounds, step)?;
        }
        broken("I20", format!("a task goes on for ever: {:?}", state.tasks))
    }

    /// The first owner's barrier is reached before anything else happens.
    pub(super) fn reached(&self, bounds: &Bounds) -> Result<Self, Violation> {
        self.look_after(bounds)
    }

    fn is_healed(&self, bounds: &Bounds) -> Result<(), Violation> {
        if let Some(left) = self.intents().find(|intent| {
            let blind = bounds.class == Class::Serial || bounds.class == Class::Idempotent && bounds.ages;
            !blind || intent.record.state != OperationState::Uncertain
        }) {
            return broken("I20", format!("undecided for ever: {left:?}"));
        }
        let in_doubt = self.intents().next().is_some();
        if self.waits_for_barrier() && !in_doubt {
            return broken("I20", "a barrier is never reached");
        }
        let row = self.snapshot.resource(&name(PAGE));
        let applied = row.and_then(|row| row.applied).map_or(0, |mark| number_of(mark.position));
        if applied != self.history.last_write() && !in_doubt {
            let last = self.history.last_write();
            return broken("I20", format!("{applied} is recorded, and {last} is in the store"));
        }
        Ok(())
    }
}
