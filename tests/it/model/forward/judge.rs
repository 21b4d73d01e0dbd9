//! What must hold, judged from what arrived at the store and from what was recorded and answered.

use std::collections::BTreeSet;

use fencegate::domain::lease::{AcquisitionId, AcquisitionTag};
use fencegate::domain::policy::Policy;
use fencegate::domain::upstream::{Base, Class, Validator};

use super::bounds::Bounds;
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

/// What was done and answered so far. Sets of deliveries are sets of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct History {
    pub(super) grants: Vec<Grant>,
    pub(super) cancel: Cancel,
    pub(super) faults: Faults,
    pub(super) came: BTreeSet<usize>,
    announced: BTreeSet<usize>,
    /// Answered "no effect", or withdrawn.
    none: BTreeSet<usize>,
    /// Deliveries whose effect is in the store.
    effects: BTreeSet<usize>,
    /// Operations in the store.
    done: BTreeSet<(char, u64)>,
    /// Position of the last arrival that had an effect, and of the last write.
    last: u64,
    last_write: u64,
    last_incarnation: u64,
    /// Highest position that anybody was told of as accepted or owned.
    acknowledged: u64,
    owned: u64,
    revoked: u64,
    recorded: BTreeSet<Validator>,
}

/// What of it decides what can happen next.
type Key<'h> = (
    (Cancel, Faults, u64, u64, u64, u64, u64, u64),
    (&'h BTreeSet<usize>, &'h BTreeSet<usize>, &'h BTreeSet<usize>, &'h BTreeSet<(char, u64)>),
    (&'h BTreeSet<Validator>, Vec<bool>),
);

impl History {
    pub(super) const fn new() -> Self {
        Self {
            grants: Vec::new(),
            cancel: Cancel::Not,
            faults: Faults { twice: 0, refused: 0, not_sent: 0 },
            came: BTreeSet::new(),
            announced: BTreeSet::new(),
            none: BTreeSet::new(),
            effects: BTreeSet::new(),
            done: BTreeSet::new(),
            last: 0,
            last_write: 0,
            last_incarnation: 0,
            acknowledged: 0,
            owned: 0,
            revoked: 0,
            recorded: BTreeSet::new(),
        }
    }

    pub(super) fn key(&self) -> Key<'_> {
        let numbers = (
            self.cancel,
            self.faults,
            self.last,
            self.last_write,
            self.last_incarnation,
            self.acknowledged,
            self.owned,
            self.revoked,
        );
        let complete = self.grants.iter().map(|grant| grant.complete).collect();
        (numbers, (&self.came, &self.none, &self.effects, &self.done), (&self.recorded, complete))
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
        hold(self.announced.contains(&sent.delivery), "I12", || format!("{sent:?} was never announced"))?;
        hold(self.done.insert((sent.operation, sent.incarnation)), "I2", || format!("{sent:?} again"))?;
        hold(!self.none.contains(&sent.delivery), "I4", || format!("{sent:?} was answered `none`"))?;
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
        let known = self.acknowledged;
        hold(position >= known, "I9", || format!("{position} is admitted after {known} was acknowledged"))
    }

    /// A delivery has had no effect and will have none.
    pub(super) fn none(&mut self, delivery: usize) -> Result<(), Violation> {
        self.none.insert(delivery);
        hold(!self.effects.contains(&delivery), "I4", || format!("delivery {delivery} is in the store"))
    }

    /// Whoever asks for an operation again is told that it has no effect: so none of its deliveries has.
    pub(super) fn refused(&mut self, bounds: &Bounds, delivery: usize) -> Result<(), Violation> {
        let operation = bounds.deliveries[delivery].operation;
        for earlier in self.announced.clone() {
            if bounds.deliveries[earlier].operation == operation {
                self.none(earlier)?;
            }
        }
        Ok(())
    }

    /// An operation is recorded or answered as applied.
    pub(super) fn applied(&mut self, operation: char, incarnation: u64, at: u64) -> Result<(), Violation> {
        self.acknowledged = self.acknowledged.max(at);
        let there = self.done.contains(&(operation, incarnation));
        hold(there, "I3", || format!("{operation:?} is not in the store"))
    }

    /// An operation is recorded or answered as refused for good.
    pub(super) fn never(&self, operation: char, incarnation: u64) -> Result<(), Violation> {
        let there = self.done.contains(&(operation, incarnation));
        hold(!there, "I4", || format!("{operation:?} was refused and is in the store"))
    }

    /// The owner of the newest grant is told so.
    pub(super) fn owns(&mut self) {
        let position = u64::try_from(self.grants.len()).unwrap();
        self.grants.last_mut().unwrap().complete = true;
        self.owned = position;
        self.acknowledged = self.acknowledged.max(position);
    }

    /// A cancel is answered as complete.
    pub(super) fn cancelled(&mut self, through: u64) {
        self.cancel = Cancel::Complete;
        self.revoked = self.revoked.max(through);
    }

    /// A validator is recorded.
    pub(super) fn recorded(&mut self, validator: &Validator) {
        self.recorded.insert(validator.clone());
    }

    /// I13: what a conditional send rests on.
    pub(super) fn rests_on(&self, class: Class, base: &Base) -> Result<(), Violation> {
        let recorded = match (class, base) {
            (Class::Conditional, Base::Unread) => false,
            (Class::Conditional, Base::Recorded(validator)) => self.recorded.contains(validator),
            (Class::Conditional, Base::Absent) => true,
            (Class::FenceAware | Class::Idempotent | Class::Serial, _) => true,
        };
        hold(recorded, "I13", || format!("a send rests on {base:?}, which nobody has recorded"))
    }

    pub(super) const fn last_write(&self) -> u64 {
        self.last_write
    }
}
