//! The judge: reads a history from its first line to its last, once, and holds it against what the gateway promises.
//!
//! It shares no rule with the gateway; it only knows what a worker, a store and a reader can see. What nobody could know (an
//! answer that was lost) stays open and condemns nothing. It keeps what it knows of a resource until the resource is
//! closed, so the length of a history costs time and no memory. docs/VERIFICATION.md says which check covers which of
//! the invariants I1 to I20, and which of them cannot be seen from outside.

mod answers;
mod case;
mod closing;
mod controls;
mod epochs;
mod lanes;
mod late;
mod leases;
mod reads;
mod stores;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::events::{Act, Answered, Class, Closed, Ended, Event, Fault, Line, Planned, Rules, Sent};
use super::history;
use crate::limits::EXAM_STORIES;

use case::{Call, Case, Known};
use epochs::Epochs;
use late::Late;

/// Something that must not be.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    /// The invariant.
    pub(super) rule: &'static str,
    pub(super) resource: String,
    pub(super) told: String,
    /// Numbers of the lines that belong to it.
    pub(super) lines: Vec<u64>,
}

/// What the judge found.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) planned: Option<Planned>,
    /// The first ones, with their lines.
    pub(super) violations: Vec<Violation>,
    /// All of them, by invariant.
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) calls: u64,
    pub(super) lost: u64,
    /// Operations that were acknowledged as applied, and deliveries that were answered with a saved answer.
    pub(super) operations: u64,
    pub(super) acknowledged: u64,
    pub(super) replayed: u64,
    pub(super) granted: u64,
    /// Leases that were handed over, calls of operators that were carried out, and epochs that were begun.
    pub(super) transferred: u64,
    pub(super) controlled: u64,
    pub(super) epochs: u64,
    /// Requests that the network delivered once more.
    pub(super) repeated: u64,
    pub(super) arrivals: u64,
    pub(super) effects: u64,
    /// Answers, by act, status and code.
    pub(super) answers: BTreeMap<String, u64>,
    pub(super) resources: u64,
    /// Resources of which nothing could be learnt at the end, and that therefore stay open.
    pub(super) open: u64,
    /// Lines about a resource that was closed already, and the effects in stores among them.
    pub(super) late: u64,
    pub(super) late_effects: u64,
    /// Faults by kind: delivered, met a call, calls. Also those that might have been delivered.
    pub(super) faults: BTreeMap<String, [u64; 3]>,
    pub(super) ended: Option<Ended>,
}

impl Verdict {
    /// All violations.
    pub(super) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    fn blame(&mut self, violation: Violation) {
        let count = self.counts.entry(violation.rule).or_default();
        *count = count.saturating_add(1);
        if self.violations.len() < EXAM_STORIES {
            self.violations.push(violation);
        }
    }
}

/// Judges the history in a folder.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) fn judge(folder: &Path) -> anyhow::Result<Verdict> {
    let mut judge = Judge::default();
    history::read(folder, |line| judge.see(line))?;
    Ok(judge.finish())
}

/// The lines that a set of violations is about, as they stand in the history.
///
/// # Errors
/// When the history cannot be read.
pub(super) fn story(folder: &Path, violations: &[Violation]) -> anyhow::Result<BTreeMap<u64, Line>> {
    let wanted: HashSet<u64> = violations.iter().flat_map(|one| one.lines.iter().copied()).collect();
    let mut found = BTreeMap::new();
    history::read(folder, |line| {
        if wanted.contains(&line.n) {
            found.insert(line.n, line);
        }
    })?;
    Ok(found)
}

#[derive(Default)]
struct Judge {
    rules: HashMap<String, Rules>,
    cases: HashMap<String, Case>,
    calls: HashMap<u64, Call>,
    /// Resources that were closed.
    late: Late,
    /// Of resources in twos, what the first one of them had when it was closed.
    halves: HashMap<String, (u64, BTreeSet<String>)>,
    epochs: Epochs,
    verdict: Verdict,
}

/// The other one of two resources.
fn other_of(resource: &str) -> Option<String> {
    let (name, half) = resource.rsplit_once('/')?;
    Some(format!("{name}/{}", if half == "a" { "b" } else { "a" }))
}

fn add(count: &mut u64) {
    *count = count.saturating_add(1);
}

impl Judge {
    fn see(&mut self, line: Line) {
        let (n, at) = (line.n, line.at);
        match line.is {
            Event::Planned(planned) => {
                self.rules =
                    planned.namespaces.iter().map(|rules| (rules.name.clone(), rules.clone())).collect();
                self.verdict.faults.extend(planned.faults.iter().map(|kind| (kind.clone(), [0; 3])));
                self.verdict.planned = Some(planned);
            }
            Event::Sent(sent) => self.sent(n, at, sent),
            Event::Answered(answered) => self.answered(n, at, &answered),
            Event::Lost { call, .. } => self.lost(n, call),
            Event::Again { resource, operation, .. } => {
                add(&mut self.verdict.repeated);
                if epochs::is_whole(&resource) {
                    self.epoch_again(&resource, &operation);
                } else {
                    self.of(&resource, |case| case.again(n, &operation));
                    self.shadow(n, &resource, false);
                }
            }
            Event::Arrived(arrived) => {
                add(&mut self.verdict.arrivals);
                self.verdict.effects = self.verdict.effects.saturating_add(u64::from(arrived.applied));
                self.of(&arrived.resource, |case| case.arrived(n, &arrived));
                self.arrived_late(n, &arrived);
            }
            Event::Fault(fault) => self.fault(fault),
            Event::Closed(closed) => self.closed(n, &closed),
            Event::Ended(ended) => self.verdict.ended = Some(ended),
        }
    }

    fn closed(&mut self, n: u64, closed: &Closed) {
        self.of(&closed.resource, |case| case.close(n, closed));
        self.both_or_none(n, closed);
        if let Some(case) = self.cases.remove(&closed.resource) {
            add(&mut self.verdict.resources);
            self.verdict.open = self.verdict.open.saturating_add(u64::from(closed.unknown.is_some()));
            let count = u64::try_from(case.operations.len()).unwrap_or(u64::MAX);
            self.verdict.operations = self.verdict.operations.saturating_add(count);
        }
        self.late.keep(closed);
    }

    /// Looks at what concerns a resource, and takes over what was found. What comes for one that was closed is counted.
    fn of(&mut self, resource: &str, look: impl FnOnce(&mut Case)) {
        if self.late.knows(resource) {
            add(&mut self.verdict.late);
            return;
        }
        if !self.cases.contains_key(resource) {
            let Some(rules) = resource.split('/').next().and_then(|name| self.rules.get(name)) else {
                return;
            };
            let mut case = Case::new(resource, rules.clone());
            self.in_its_epoch(&mut case);
            let other = other_of(resource).filter(|_| case.rules.paired);
            let other = other.and_then(|other| self.cases.get(&other));
            case.shadowed = other.is_some_and(|other| other.awaits(|act| act != Act::Reopen));
            self.cases.insert(resource.to_owned(), case);
        }
        let Some(case) = self.cases.get_mut(resource) else { return };
        look(case);
        for violation in case.found.drain(..) {
            self.verdict.blame(violation);
        }
    }

    /// I18: of two resources that are only written together, both have every operation, or neither has it.
    fn both_or_none(&mut self, n: u64, closed: &Closed) {
        let Some((name, _)) = closed.resource.rsplit_once('/') else { return };
        let namespace = name.split('/').next().and_then(|name| self.rules.get(name));
        if !namespace.is_some_and(|rules| rules.paired) || closed.unknown.is_some() {
            return;
        }
        let applied = closed.booked.iter().filter(|one| one.state == "applied");
        let applied: BTreeSet<String> = applied.map(|one| one.operation.clone()).collect();
        let Some((line, other)) = self.halves.remove(name) else {
            self.halves.insert(name.to_owned(), (n, applied));
            return;
        };
        for operation in other.symmetric_difference(&applied) {
            let told =
                format!("operation {operation} is in one of two resources that it was sent to at once");
            let lines = vec![line, n];
            self.verdict.blame(Violation { rule: "I18", resource: name.to_owned(), told, lines });
        }
    }

    fn sent(&mut self, n: u64, at: u64, sent: Sent) {
        add(&mut self.verdict.calls);
        let mut call = None;
        let resource = sent.resource.clone();
        let (number, act) = (sent.call, sent.act);
        if act == Act::Epoch {
            self.epoch_ordered(n, &sent);
            call = Some(Call { sent, n, at, known: Known::default() });
        } else {
            self.of(&resource, |case| call = Some(case.sent(n, at, sent)));
        }
        if act.is_control() {
            self.shadow(n, &resource, act != Act::Reopen);
        }
        if let Some(call) = call {
            self.calls.insert(number, call);
        }
    }

    fn answered(&mut self, n: u64, at: u64, answered: &Answered) {
        let Some(call) = self.calls.remove(&answered.call) else { return };
        self.count(&call, answered);
        let (resource, act) = (call.sent.resource.clone(), call.sent.act);
        if act == Act::Epoch {
            return self.epoch_answered(n, &call, answered);
        }
        self.of(&resource, |case| case.answered(n, at, &call, answered));
        if act.is_control() {
            self.shadow(n, &resource, act != Act::Reopen);
        }
    }

    /// A call on one of two resources of the same leases ends them for the other one, too.
    fn shadow(&mut self, n: u64, resource: &str, ends: bool) {
        let awaits = self.cases.get(resource).filter(|case| case.rules.paired);
        let Some(awaits) = awaits.map(|case| case.awaits(|act| act != Act::Reopen)) else { return };
        if let Some(case) = other_of(resource).and_then(|other| self.cases.get_mut(&other)) {
            case.shadowed = awaits;
            if ends {
                case.shadow = n;
                case.all_end(n);
            }
        }
    }

    fn count(&mut self, call: &Call, answered: &Answered) {
        let is_unfenced = call.sent.resource.split('/').next().and_then(|name| self.rules.get(name));
        let is_unfenced = is_unfenced.is_some_and(|rules| rules.class == Class::Unfenced);
        let verdict = &mut self.verdict;
        let code = answered.code.as_deref().unwrap_or_default();
        let act = format!("{:?}", call.sent.act).to_lowercase();
        let key = format!("{act} {} {code}", answered.status).trim_end().to_owned();
        add(verdict.answers.entry(key).or_default());
        let is_write = matches!(call.sent.act, Act::Write | Act::Remove);
        let applied = match answered.effect.as_deref() {
            Some(effect) => effect == "applied",
            // A store past the gateway says no word of effects: what it takes has one.
            None => matches!(answered.status, 200..=299) && is_unfenced,
        };
        if is_write && applied {
            add(if answered.replayed { &mut verdict.replayed } else { &mut verdict.acknowledged });
        }
        let done = matches!(answered.status, 200..=299) && !answered.replayed;
        match call.sent.act {
            Act::Acquire if answered.status == 201 => add(&mut verdict.granted),
            Act::Transfer if answered.status == 201 => add(&mut verdict.transferred),
            Act::Revoke | Act::Cancel | Act::Reopen if done => add(&mut verdict.controlled),
            Act::Epoch if done => add(&mut verdict.epochs),
            Act::Acquire
            | Act::Transfer
            | Act::Revoke
            | Act::Cancel
            | Act::Reopen
            | Act::Epoch
            | Act::Renew
            | Act::Release
            | Act::Write
            | Act::Remove
            | Act::Read
            | Act::Look
            | Act::Resolve => {}
        }
    }

    fn lost(&mut self, n: u64, call: u64) {
        add(&mut self.verdict.lost);
        let Some(call) = self.calls.remove(&call) else { return };
        let resource = call.sent.resource.clone();
        if call.sent.act == Act::Epoch {
            return;
        }
        self.of(&resource, |case| case.lost(n, &call));
    }

    fn fault(&mut self, fault: Fault) {
        let [delivered, mattered, calls] = self.verdict.faults.entry(fault.kind).or_default();
        add(delivered);
        *mattered = mattered.saturating_add(u64::from(fault.hit > 0));
        *calls = calls.saturating_add(fault.hit);
    }

    /// A resource that was never closed stays open: the exam was cut off.
    fn finish(mut self) -> Verdict {
        let open = u64::try_from(self.cases.len()).unwrap_or(u64::MAX);
        self.verdict.open = self.verdict.open.saturating_add(open);
        self.verdict
    }
}
