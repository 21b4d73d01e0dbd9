//! Epochs: each lies above all that there were, and once it is answered every older position is refused.

use std::collections::HashMap;

use super::case::{Call, Case};
use super::controls::End;
use super::{Judge, Violation};
use crate::exam::events::{Answered, Place, Sent};
use crate::limits::EXAM_LEFT_OPEN;

/// Of all namespaces.
const EVERYWHERE: &str = "*";

/// One call, by its key.
struct Begun {
    /// Of which namespace, or of all.
    subject: String,
    /// Where it was first sent, and the highest epoch that was known there then.
    line: u64,
    before: u64,
    unknown: u64,
    repeated: bool,
    done: Option<(u64, Option<String>)>,
}

impl Begun {
    fn is_open(&self) -> bool {
        self.done.is_none() && (self.unknown > 0 || self.repeated)
    }
}

/// What is known of the epochs of all namespaces.
#[derive(Default)]
pub(super) struct Epochs {
    /// By namespace, as far as answers said.
    reached: HashMap<String, u64>,
    calls: HashMap<String, Begun>,
}

impl Epochs {
    /// Calls that may begin an epoch of this namespace at any moment.
    fn threats(&self, namespace: &str) -> u64 {
        let threatens =
            |call: &&Begun| call.is_open() && (call.subject == EVERYWHERE || call.subject == namespace);
        u64::try_from(self.calls.values().filter(threatens).count()).unwrap_or(u64::MAX)
    }
}

/// Whether a name is that of a namespace, or of all of them.
pub(super) fn is_whole(name: &str) -> bool {
    !name.contains('/')
}

impl Judge {
    fn covered(&self, subject: &str) -> Vec<String> {
        let all = self.rules.keys().filter(|name| subject == EVERYWHERE || *name == subject);
        all.cloned().collect()
    }

    /// A resource is met for the first time.
    pub(super) fn in_its_epoch(&self, case: &mut Case) {
        let name = case.rules.name.clone();
        if let Some(epoch) = self.epochs.reached.get(&name) {
            case.known.epoch = *epoch;
            case.known.fenced(Place { epoch: *epoch, token: 0 });
        }
        case.threats = self.epochs.threats(&name);
    }

    /// Leases are certain again where no call is open any more.
    fn threaten(&mut self, subject: &str) {
        for name in self.covered(subject) {
            let threats = self.epochs.threats(&name);
            for case in self.cases.values_mut().filter(|case| case.rules.name == name) {
                case.threats = threats;
            }
        }
    }

    pub(super) fn epoch_ordered(&mut self, n: u64, sent: &Sent) {
        let Some(key) = sent.operation.clone() else { return };
        let reached = self.covered(&sent.resource).into_iter();
        let before = reached.filter_map(|name| self.epochs.reached.get(&name).copied()).max();
        let begun = self.epochs.calls.entry(key).or_insert_with(|| Begun {
            subject: sent.resource.clone(),
            line: n,
            before: before.unwrap_or_default(),
            unknown: 0,
            repeated: false,
            done: None,
        });
        begun.unknown = begun.unknown.saturating_add(1);
        self.threaten(&sent.resource);
    }

    pub(super) fn epoch_again(&mut self, subject: &str, key: &str) {
        if let Some(begun) = self.epochs.calls.get_mut(key) {
            begun.repeated = true;
            self.threaten(subject);
        }
    }

    pub(super) fn epoch_answered(&mut self, n: u64, call: &Call, answered: &Answered) {
        let Some(begun) = call.sent.operation.as_ref().and_then(|key| self.epochs.calls.get_mut(key)) else {
            return;
        };
        let (subject, line) = (begun.subject.clone(), begun.line);
        let mut wrong = Vec::new();
        let done = matches!(answered.status, 200..=299);
        if done || answered.effect.as_deref() == Some("none") {
            begun.unknown = begun.unknown.saturating_sub(1);
        }
        match (&begun.done, answered.epoch) {
            _ if !done => {}
            (Some((earlier, before)), _) => {
                if *before != answered.digest {
                    wrong.push(("I5", "one call began two epochs".to_owned(), vec![*earlier, n]));
                }
            }
            (None, None) => wrong.push(("I5", "the answer names no epoch".to_owned(), vec![line, n])),
            (None, Some(epoch)) => {
                begun.done = Some((n, answered.digest.clone()));
                if epoch <= begun.before {
                    let told = format!("epoch {epoch} was begun after {}", begun.before);
                    wrong.push(("I7", told, vec![line, n]));
                }
                let sent = self.epochs.calls.len();
                if usize::try_from(epoch).is_ok_and(|epoch| epoch > sent) {
                    let told = format!(
                        "epoch {epoch} is reached by {sent} calls: one of them was carried out twice"
                    );
                    wrong.push(("I2", told, vec![line, n]));
                }
                self.epoch_begun(n, &subject, epoch, &answered.left);
            }
        }
        for (rule, told, lines) in wrong {
            self.verdict.blame(Violation { rule, resource: subject.clone(), told, lines });
        }
        self.threaten(&subject);
    }

    /// Everything older is refused from here on, in every resource of the namespace, also in those that come later.
    fn epoch_begun(&mut self, n: u64, subject: &str, epoch: u64, left: &[String]) {
        let through = Place { epoch: epoch.saturating_sub(1), token: u64::MAX };
        for name in self.covered(subject) {
            let reached = self.epochs.reached.entry(name.clone()).or_default();
            *reached = epoch.max(*reached);
            for case in self.cases.values_mut().filter(|case| case.rules.name == name) {
                case.known.epoch = case.known.epoch.max(epoch);
                case.known.fenced(Place { epoch, token: 0 });
                for (_, grant) in case.grants.range_mut(..=through) {
                    grant.ended.get_or_insert(n);
                }
                if left.len() < EXAM_LEFT_OPEN {
                    case.ends.push(End { line: n, through, commit: None, left: left.to_vec() });
                }
            }
        }
    }
}
