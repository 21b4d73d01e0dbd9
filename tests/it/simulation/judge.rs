//! What must hold (of I1-I20 of `docs/PROTOCOL.md` all but I6, I15 and I18), judged from what became durable, what arrived at the store, and what was
//! answered. A loss of the database takes back what it held; what was lost is not promised, and is set apart by name.

use std::collections::{BTreeMap, BTreeSet};

use fencegate::domain::counter::Epoch;
use fencegate::domain::operation::Fingerprint;
use fencegate::domain::policy::{Contract, Policy};
use fencegate::domain::position::Position;
use fencegate::domain::resource::ResourceName;
use fencegate::domain::upstream::Validator;
use fencegate::ledger::changeset::ChangeSet;
use fencegate::protocol::Refusal;
use fencegate::protocol::rows::SavedResponse;

use super::events::Setup;
use super::store::{Effect, Sent};

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) rule: &'static str,
    pub(super) what: String,
}

/// The answer of every judgement.
pub(super) type Judged = Result<(), Violation>;

pub(super) fn broken<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, what: what.into() })
}

pub(super) fn hold(holds: bool, rule: &'static str, what: impl FnOnce() -> String) -> Judged {
    if holds { Ok(()) } else { broken(rule, what()) }
}

/// An effect in the order of the store.
#[derive(Debug, Clone)]
pub(super) struct Done {
    /// The commit that made it, where the store is the database itself.
    pub(super) commit: usize,
    pub(super) operation: String,
    pub(super) incarnation: u64,
    pub(super) position: Position,
    pub(super) sequence: u64,
    pub(super) fingerprint: Fingerprint,
    pub(super) claim: u64,
    /// Whether something of it was lost with the database.
    pub(super) lost: bool,
}

/// What was announced before it was sent.
#[derive(Debug, Clone)]
pub(super) struct Announced {
    pub(super) page: usize,
    pub(super) operation: String,
    pub(super) incarnation: u64,
    pub(super) sequence: u64,
    pub(super) fingerprint: Fingerprint,
}

/// One operation of one incarnation.
pub(super) type Key = (usize, String, u64);

/// What has been seen so far.
pub(super) struct Judge {
    pub(super) setup: Setup,
    pub(super) effects: [Vec<Done>; 2],
    pub(super) announced: BTreeMap<u64, Announced>,
    /// Announcements that were answered "no effect".
    none: BTreeSet<u64>,
    /// Operations of which the database has lost something.
    lost: BTreeSet<(usize, String)>,
    pub(super) grants: BTreeMap<(usize, Position), [u8; 32]>,
    pub(super) acknowledged: [Position; 2],
    owned: [Position; 2],
    revoked: [Option<Position>; 2],
    pub(super) answers: BTreeMap<Key, SavedResponse>,
    pub(super) refused: BTreeSet<Key>,
    /// Operations whose records were forgotten: under a newer position they are promised nothing any more.
    pub(super) pruned: BTreeSet<Key>,
    /// Validators that were ever recorded.
    pub(super) cells: BTreeSet<(usize, Validator)>,
    /// The highest epoch that was acknowledged, and the highest that was ever durable.
    pub(super) epoch: Epoch,
    begun: Epoch,
    /// From a loss that nobody was told of to the next epoch: nothing is promised then.
    pub(super) suspended: bool,
    /// Whether there ever was a loss.
    pub(super) losses: u32,
    /// What has shown that the database went back, and nothing was stopped for it yet.
    pub(super) proved: Option<&'static str>,
}

/// The page of a name.
pub(super) fn page_of(resource: &ResourceName) -> usize {
    usize::from(resource.as_str() == "w/b")
}

/// Whether a refusal leaves open what became of the operation.
const fn is_unknown(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::OperationInProgress | Refusal::OutcomeUncertain | Refusal::OperationExpired)
}

impl Judge {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            effects: [Vec::new(), Vec::new()],
            announced: BTreeMap::new(),
            none: BTreeSet::new(),
            lost: BTreeSet::new(),
            grants: BTreeMap::new(),
            acknowledged: [Position::ZERO; 2],
            owned: [Position::ZERO; 2],
            revoked: [None; 2],
            answers: BTreeMap::new(),
            refused: BTreeSet::new(),
            pruned: BTreeSet::new(),
            cells: BTreeSet::new(),
            epoch: Epoch::ZERO,
            begun: Epoch::ZERO,
            suspended: false,
            losses: 0,
            proved: None,
        }
    }

    pub(super) fn is_lost(&self, page: usize, operation: &str) -> bool {
        self.lost.contains(&(page, operation.to_owned()))
    }

    fn is_pruned(&self, page: usize, operation: &str, incarnation: u64) -> bool {
        self.pruned.contains(&(page, operation.to_owned(), incarnation))
    }

    /// A record is forgotten.
    pub(super) fn forget(&mut self, key: Key) {
        self.answers.remove(&key);
        self.pruned.insert(key);
    }

    /// Somebody is admitted, or an effect takes place in the deciding transaction. I9.
    pub(super) fn admitted(&self, page: usize, position: Position) -> Judged {
        if self.suspended {
            return Ok(());
        }
        let known = self.acknowledged[page];
        hold(!position.is_below(known), "I9", || {
            format!("{position} is admitted after {known} was acknowledged")
        })?;
        hold(position.epoch >= self.epoch, "I9", || format!("{position} is of an epoch that is over"))?;
        let revoked = self.revoked[page];
        hold(revoked.is_none_or(|mark| position.is_above(mark)), "I10", || {
            format!("{position} is admitted after a revoke through {revoked:?}")
        })
    }

    /// Something arrived at a store behind HTTP and had an effect.
    pub(super) fn arrived(&mut self, page: usize, effect: Effect) -> Judged {
        match effect {
            Effect::Wrote(sent) => self.wrote(page, &sent),
            Effect::Fenced(_) => Ok(()),
        }
    }

    fn wrote(&mut self, page: usize, sent: &Sent) -> Judged {
        let Some(announced) = self.announced.get(&sent.claim).cloned() else {
            return broken("I12", format!("{sent:?} was never announced"));
        };
        let lost = self.is_lost(page, &sent.operation);
        let at_most_once = !self.none.contains(&sent.claim);
        hold(lost || at_most_once, "I4", || format!("{sent:?} was answered `none`"))?;
        let done = Done {
            commit: 0,
            operation: sent.operation.clone(),
            incarnation: sent.incarnation.get(),
            position: sent.position,
            sequence: announced.sequence,
            fingerprint: announced.fingerprint,
            claim: sent.claim,
            lost,
        };
        if !lost {
            let owned = self.owned[page];
            hold(!sent.position.is_below(owned), "I10", || format!("{sent:?} after {owned} was owned"))?;
            let revoked = self.revoked[page];
            hold(revoked.is_none_or(|mark| sent.position.is_above(mark)), "I10", || {
                format!("{sent:?} after a revoke through {revoked:?}")
            })?;
        }
        self.took_effect(page, done)
    }

    /// An effect, in the store's own order.
    pub(super) fn took_effect(&mut self, page: usize, done: Done) -> Judged {
        if !done.lost {
            let same =
                |other: &&Done| (&other.operation, other.incarnation) == (&done.operation, done.incarnation);
            let known = self.effects[page].iter().find(same);
            let forgotten = self.pruned.contains(&(page, done.operation.clone(), done.incarnation));
            let newer =
                known.is_some_and(|known| (done.position, done.sequence) > (known.position, known.sequence));
            hold(known.is_none() || forgotten && newer, "I2", || format!("{done:?} again, after {known:?}"))?;
            let before = self.effects[page].iter().rev().find(|other| !other.lost);
            if let Some(before) = before {
                self.in_order(before, &done)?;
            }
        }
        self.effects[page].push(done);
        Ok(())
    }

    fn in_order(&self, before: &Done, done: &Done) -> Judged {
        let what = || format!("{done:?} after {before:?}");
        hold(!done.position.is_below(before.position), "I1", what)?;
        hold(done.incarnation >= before.incarnation, "I16", what)?;
        let is_fresh = done.position.is_above(before.position);
        match self.setup.policy {
            Policy::Single => hold(is_fresh, "I14", what),
            Policy::Ordered { .. } => hold(is_fresh || done.sequence > before.sequence, "I14", what),
            Policy::Session => Ok(()),
        }
    }

    /// An operation is recorded or answered as applied. I3.
    pub(super) fn applied(&mut self, page: usize, operation: &str, incarnation: u64, at: Position) -> Judged {
        self.acknowledge(page, at);
        let there = self.effects[page]
            .iter()
            .any(|done| (done.operation.as_str(), done.incarnation) == (operation, incarnation));
        hold(there || self.is_lost(page, operation), "I3", || format!("{operation} is not in the store"))
    }

    /// An operation is recorded or answered as refused for good. I4.
    pub(super) fn never(&mut self, page: usize, operation: &str, incarnation: u64) -> Judged {
        self.refused.insert((page, operation.to_owned(), incarnation));
        for claim in self.claims_of(page, operation, incarnation) {
            self.no_effect(claim)?;
        }
        Ok(())
    }

    fn claims_of(&self, page: usize, operation: &str, incarnation: u64) -> Vec<u64> {
        let own = |one: &Announced| {
            (one.page, one.operation.as_str(), one.incarnation) == (page, operation, incarnation)
        };
        self.announced.iter().filter(|(_, one)| own(one)).map(|(claim, _)| *claim).collect()
    }

    /// A delivery had no effect and will have none.
    pub(super) fn no_effect(&mut self, claim: u64) -> Judged {
        let Some(Announced { page, operation, .. }) = self.announced.get(&claim) else { return Ok(()) };
        let there = self.effects[*page].iter().any(|done| done.claim == claim);
        hold(!there || self.is_lost(*page, operation), "I4", || format!("{operation} is in the store"))?;
        self.none.insert(claim);
        Ok(())
    }

    /// A request is refused; unless the answer leaves it open, it is not in the store and will not come there. I4.
    pub(super) fn told_none(
        &mut self,
        page: usize,
        operation: &str,
        (at, sequence, fingerprint): (Position, u64, &Fingerprint),
        refusal: &Refusal,
    ) -> Judged {
        if is_unknown(refusal) || self.suspended || self.is_lost(page, operation) {
            return Ok(());
        }
        let incarnation = self.incarnation_at(page, at);
        let same = |done: &&Done| {
            done.operation == operation
                && done.fingerprint == *fingerprint
                && done.incarnation == incarnation
                && !done.lost
                && !(self.is_pruned(page, operation, incarnation)
                    && (at, sequence) > (done.position, done.sequence))
        };
        let found = self.effects[page].iter().find(same);
        hold(found.is_none(), "I4", || format!("{operation} at {at} is told {refusal:?}, and {found:?}"))?;
        if *refusal == Refusal::OperationMismatch || self.is_pruned(page, operation, incarnation) {
            return Ok(());
        }
        for claim in self.claims_of(page, operation, incarnation) {
            if self.announced.get(&claim).is_some_and(|one| one.fingerprint == *fingerprint) {
                self.no_effect(claim)?;
            }
        }
        Ok(())
    }

    /// The incarnation that a position falls into, as the effects tell.
    fn incarnation_at(&self, page: usize, at: Position) -> u64 {
        let before = self.effects[page].iter().filter(|done| !done.position.is_above(at));
        before.map(|done| done.incarnation).max().unwrap_or(1)
    }

    /// All answers of one operation are the same. I5.
    pub(super) fn answer(
        &mut self,
        page: usize,
        operation: &str,
        incarnation: u64,
        response: &SavedResponse,
    ) -> Judged {
        if self.suspended || self.is_lost(page, operation) {
            return Ok(());
        }
        let key = (page, operation.to_owned(), incarnation);
        let first = self.answers.entry(key).or_insert_with(|| response.clone());
        hold(first == response, "I5", || format!("{operation}: {first:?}, then {response:?}"))
    }

    pub(super) fn acknowledge(&mut self, page: usize, at: Position) {
        self.acknowledged[page] = self.acknowledged[page].or_higher(at);
    }

    /// An owner is told that it is one. Under `observed` that promises nothing of those before.
    pub(super) fn owns(&mut self, page: usize, at: Position) {
        if self.setup.contract != Contract::Observed && !self.suspended {
            self.owned[page] = self.owned[page].or_higher(at);
            self.acknowledge(page, at);
        }
    }

    pub(super) fn revoked(&mut self, page: usize, through: Option<Position>) {
        let Some(through) = through.filter(|_| !self.suspended) else { return };
        self.revoked[page] = Some(self.revoked[page].map_or(through, |mark| mark.or_higher(through)));
    }

    /// I8: a position is issued once, and above all that were.
    pub(super) fn granted(&mut self, page: usize, at: Position, acquisition: [u8; 32]) -> Judged {
        if !self.suspended {
            let last =
                self.grants.range((page, Position::ZERO)..).take_while(|((other, _), _)| *other == page);
            let last = last.last().map(|((_, position), _)| *position);
            hold(last.is_none_or(|last| at.is_above(last)), "I8", || {
                format!("{at} is issued, and {last:?} was before")
            })?;
        }
        self.grants.insert((page, at), acquisition);
        Ok(())
    }

    /// A new epoch is durable: whatever was lost before, nothing of it is admitted any more. One that was begun before and
    /// forgotten is not begun again by a gateway that knows of it, whenever it was asked for. A gateway that never saw it and
    /// has no witness cannot know: what it begins ends nothing.
    pub(super) fn began(&mut self, epoch: Epoch, known: Epoch) -> Judged {
        let (begun, is_new) = (self.begun, epoch > self.begun);
        hold(is_new || known < begun, "epoch", || format!("{epoch} is begun again, and {known} was known"))?;
        self.suspended &= !is_new;
        self.begun = begun.max(epoch);
        Ok(())
    }

    /// Somebody is told of an epoch.
    pub(super) fn begins(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(epoch);
    }

    /// The database has gone back to this many commits.
    pub(super) fn lose(&mut self, commits: usize, sets: &[ChangeSet], noticed: bool) {
        self.losses += 1;
        self.suspended |= !noticed;
        for set in sets {
            for record in &set.operations {
                self.lost.insert((page_of(&record.resource), record.operation_id.as_str().to_owned()));
            }
            for (resource, _, id) in set.intents.keys() {
                self.lost.insert((page_of(resource), id.as_str().to_owned()));
            }
        }
        for (page, effects) in self.effects.iter_mut().enumerate() {
            if self.setup.class.is_none() {
                effects.retain(|done| done.commit <= commits);
            }
            for done in effects.iter_mut() {
                done.lost |= self.lost.contains(&(page, done.operation.clone()));
            }
        }
        let lost = &self.lost;
        self.answers.retain(|(page, operation, _), _| !lost.contains(&(*page, operation.clone())));
    }

    /// What is done while nothing is promised is set apart too.
    pub(super) fn set_apart(&mut self, page: usize, operation: &str) {
        if self.suspended {
            self.lost.insert((page, operation.to_owned()));
        }
    }
}
