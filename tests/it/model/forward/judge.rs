//! What must hold, judged from what arrived at the store and from what was recorded and answered.

use fencegate::domain::lease::{AcquisitionId, AcquisitionTag};
use fencegate::domain::policy::Policy;

use super::bounds::{Bounds, EPOCH};
use super::store::{Effect, Sent};

/// A rule that was broken.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: &'static str,
    pub(super) what: String,
}

/// Breaks a rule.
pub(super) fn broken<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, what: what.into() })
}

fn hold(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { broken(rule, what()) }
}

/// A position that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) id: AcquisitionId,
    pub(super) tag: AcquisitionTag,
    /// Whether its owner was told so.
    pub(super) complete: bool,
}

/// How far a cancel has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cancel {
    Not,
    /// Through this position, and something may still be under way.
    Pending(u64),
    Complete,
}

/// Faults that have happened, of those that a world allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) twice: u8,
    pub(super) refused: u8,
    pub(super) not_sent: u8,
}

/// A set of deliveries or operations, by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Set(u32);

impl Set {
    pub(super) const fn contains(self, number: usize) -> bool {
        self.0 & (1 << number) != 0
    }

    /// Whether it was not in it.
    pub(super) const fn insert(&mut self, number: usize) -> bool {
        let new = !self.contains(number);
        self.0 |= 1 << number;
        new
    }
}

/// An operation of one incarnation as one number.
fn operation_number(operation: char, incarnation: u64) -> usize {
    let letter = u32::from(operation) - u32::from('a');
    usize::try_from(u64::from(letter) * 4 + incarnation).unwrap()
}

/// What was done and answered so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct History {
    pub(super) grants: Vec<Grant>,
    pub(super) told: Told,
}

/// Of that, what decides what can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Told {
    pub(super) cancel: Cancel,
    pub(super) faults: Faults,
    pub(super) came: Set,
    announced: Set,
    /// Answered "no effect", or withdrawn.
    none: Set,
    /// Deliveries whose effect is in the store.
    effects: Set,
    /// Operations in the store, and those that were refused for good.
    done: Set,
    refused: Set,
    /// Position of the last arrival that had an effect, and of the last write.
    last: u64,
    last_write: u64,
    last_incarnation: u64,
    /// Highest position that anybody was told of as accepted or owned.
    acknowledged: u64,
    owned: u64,
    revoked: u64,
    /// How many owners were told so.
    complete: usize,
    /// Whether the breaker is tripped, whether it ever was, and how many epochs were begun.
    pub(super) stopped: bool,
    pub(super) tripped: bool,
    pub(super) epoch: u64,
    /// Halves of the time for which a store keeps keys that have passed.
    pub(super) age: u8,
}

impl std::ops::Deref for History {
    type Target = Told;

    fn deref(&self) -> &Told {
        &self.told
    }
}

impl std::ops::DerefMut for History {
    fn deref_mut(&mut self) -> &mut Told {
        &mut self.told
    }
}

impl History {
    pub(super) fn new() -> Self {
        let told = Told {
            cancel: Cancel::Not,
            faults: Faults::default(),
            came: Set::default(),
            announced: Set::default(),
            none: Set::default(),
            effects: Set::default(),
            done: Set::default(),
            refused: Set::default(),
            last: 0,
            last_write: 0,
            last_incarnation: 0,
            acknowledged: 0,
            owned: 0,
            revoked: 0,
            complete: 0,
            stopped: false,
            tripped: false,
            epoch: 0,
            age: 0,
        };
        Self { grants: Vec::new(), told }
    }

    /// Something arrived and had an effect.
    pub(super) fn arrived(&mut self, bounds: &Bounds, effect: Effect) -> Result<(), Violation> {
        let position = match effect {
            Effect::Fenced(position) => position,
            Effect::Wrote(sent) => sent.position,
        };
        let last = self.last;
        hold(position >= last, "I1", || format!("the store goes back from {last} to {position}"))?;
        self.last = position;
        if let Effect::Wrote(sent) = effect {
            self.wrote(bounds, sent)?;
        }
        Ok(())
    }

    fn wrote(&mut self, bounds: &Bounds, sent: Sent) -> Result<(), Violation> {
        let single = bounds.world.definition().policy == Policy::Single;
        let fresh = sent.position > self.last_write;
        let refused = self.refused.contains(operation_number(sent.operation, sent.incarnation));
        hold(!refused, "I5", || format!("{sent:?} was refused for good"))?;
        hold(self.announced.contains(sent.delivery), "I12", || format!("{sent:?} was never announced"))?;
        hold(self.done.insert(operation_number(sent.operation, sent.incarnation)), "I2", || {
            format!("{sent:?} again")
        })?;
        hold(!self.none.contains(sent.delivery), "I4", || format!("{sent:?} was answered `none`"))?;
        hold(sent.position >= self.owned, "I10", || format!("{sent:?} after {} was owned", self.owned))?;
        hold(sent.position > self.revoked, "I10", || format!("{sent:?}, {} is revoked", self.revoked))?;
        hold(!single || fresh, "I14", || format!("{sent:?} is a second publication"))?;
        hold(sent.incarnation >= self.last_incarnation, "I16", || format!("{sent:?} is of the dead"))?;
        self.effects.insert(sent.delivery);
        (self.last_write, self.last_incarnation) = (sent.position, sent.incarnation);
        Ok(())
    }

    /// A delivery is admitted.
    pub(super) fn announced(&mut self, delivery: usize, position: u64) -> Result<(), Violation> {
        self.announced.insert(delivery);
        hold(!self.stopped, "breaker", || format!("{position} is admitted while it is tripped"))?;
        let known = self.acknowledged;
        hold(position >= known, "I9", || format!("{position} is admitted after {known} was acknowledged"))
    }

    /// A new epoch: nothing of an earlier one is admitted from now on.
    pub(super) fn begins(&mut self) {
        self.epoch += 1;
        self.stopped = false;
        self.acknowledged = self.acknowledged.max(self.epoch * EPOCH);
    }

    /// A delivery has had no effect and will have none.
    pub(super) fn none(&mut self, delivery: usize) -> Result<(), Violation> {
        self.none.insert(delivery);
        hold(!self.effects.contains(delivery), "I4", || format!("delivery {delivery} is in the store"))
    }

    /// Whoever asks for an operation again is told that it has no effect: so none of its deliveries has.
    pub(super) fn refused(&mut self, bounds: &Bounds, delivery: usize) -> Result<(), Violation> {
        let asked = &bounds.deliveries[delivery];
        // What began an incarnation above this position is another operation of the same name.
        let born = |position| bounds.removes() && position > asked.position;
        for (earlier, other) in bounds.deliveries.iter().enumerate() {
            let same = other.operation == asked.operation && !born(other.position);
            if same && self.announced.contains(earlier) {
                self.none(earlier)?;
            }
        }
        Ok(())
    }

    /// An operation is recorded or answered as applied.
    pub(super) fn applied(&mut self, operation: char, incarnation: u64, at: u64) -> Result<(), Violation> {
        self.acknowledged = self.acknowledged.max(at);
        let there = self.done.contains(operation_number(operation, incarnation));
        hold(there, "I3", || format!("{operation:?} is not in the store"))
    }

    /// An operation is recorded or answered as refused for good.
    pub(super) fn never(&mut self, operation: char, incarnation: u64) -> Result<(), Violation> {
        self.refused.insert(operation_number(operation, incarnation));
        let there = self.done.contains(operation_number(operation, incarnation));
        hold(!there, "I4", || format!("{operation:?} was refused and is in the store"))
    }

    /// The owner of the newest grant is told so.
    pub(super) fn owns(&mut self) {
        let position = u64::try_from(self.grants.len()).unwrap();
        self.grants.last_mut().unwrap().complete = true;
        self.complete = self.grants.len();
        self.owned = position;
        self.acknowledged = self.acknowledged.max(position);
    }

    /// A cancel is answered as complete.
    pub(super) fn cancelled(&mut self, through: u64) {
        self.cancel = Cancel::Complete;
        self.revoked = self.revoked.max(through);
    }

    /// Whether the effect of a delivery is in the store.
    pub(super) const fn is_there(&self, delivery: usize) -> bool {
        self.told.effects.contains(delivery)
    }

    pub(super) const fn last_write(&self) -> u64 {
        self.told.last_write
    }
}
