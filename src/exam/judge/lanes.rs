//! I11, as far as a store can see it: of two operations of one lane the second one reaches the store only when the first one
//! is decided.
//!
//! An operation is announced before it reaches the store, and its lane is free only when it is decided. So when a call that
//! begins later is still told that it is undecided, it was so all the time since it arrived; and whatever reached the store
//! for the first time in that time was announced beside it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::case::Case;
use crate::exam::events::{Answered, Arrived, Class, Closed, Place};

/// What the judge knows of the operations of one lane.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The first arrival of each operation, with its position where the store was told.
    first: BTreeMap<u64, (String, Option<Place>)>,
    arrived: HashSet<String>,
    /// Since which line an operation is in the store, and so announced.
    since: HashMap<String, (u64, Option<Place>)>,
    /// The last line at which it was certainly undecided, and in which life of the resource, where the answer told that.
    until: HashMap<String, (u64, Option<u64>)>,
    /// Operations that were applied once, and may begin anew in another life.
    decided: HashSet<String>,
    resolving: HashSet<String>,
}

/// What an undecided operation is told to be.
const UNDECIDED: [&str; 2] = ["operation_in_progress", "outcome_uncertain"];

impl Lanes {
    pub(super) fn arrived(&mut self, n: u64, arrived: &Arrived) {
        if !matches!(arrived.store, Class::FenceAware | Class::Idempotent | Class::Serial) {
            return;
        }
        let Some(id) = &arrived.operation else { return };
        // A barrier of a store that compares positions names no operation; a refused one may be withdrawn.
        if self.arrived.insert(id.clone()) {
            self.first.insert(n, (id.clone(), arrived.position));
        }
        if arrived.applied {
            self.since.entry(id.clone()).or_insert((n, arrived.position));
        }
    }

    /// A delivery that was sent at this line was answered.
    pub(super) fn told(&mut self, sent: u64, id: &str, answered: &Answered) {
        if answered.effect.as_deref() == Some("applied") {
            self.decided.insert(id.to_owned());
        } else if answered.code.as_deref().is_some_and(|code| UNDECIDED.contains(&code)) {
            self.undecided(sent, id, answered.incarnation);
        }
    }

    /// Somebody is about to say what became of it, who had seen that nobody knows.
    pub(super) fn resolved(&mut self, line: u64, id: &str) {
        if self.resolving.insert(id.to_owned()) {
            self.undecided(line, id, None);
        }
    }

    fn undecided(&mut self, at: u64, id: &str, life: Option<u64>) {
        if !self.decided.contains(id) {
            let until = self.until.entry(id.to_owned()).or_default();
            *until = (at, life).max(*until);
        }
    }
}

impl Case {
    /// See above.
    pub(super) fn one_at_a_time(&mut self, n: u64, closed: &Closed) {
        let mut wrong = Vec::new();
        for (id, (until, life)) in &self.lanes.until {
            let Some((since, position)) = self.lanes.since.get(id).filter(|(since, _)| since < until) else {
                continue;
            };
            // Of one that was in two lives of the resource nobody can tell which of them was undecided.
            let mut lives = closed.booked.iter().filter(|booked| booked.operation == *id);
            let one = lives.next().filter(|booked| life.is_none_or(|life| life == booked.incarnation));
            if one.is_none() || lives.next().is_some() {
                continue;
            }
            let beside = self.lanes.first.range(since..until).find(|(_, (other, at))| {
                // A higher position may pass where the store compares them.
                other != id && (self.rules.class != Class::FenceAware || at == position)
            });
            if let Some((line, (other, _))) = beside {
                let told = format!("{other} reached the store while {id} was undecided in its lane");
                wrong.push((told, vec![*since, *line, *until, n]));
            }
        }
        for (told, lines) in wrong {
            self.blame("I11", told, &lines);
        }
    }
}
