//! Breadth first through every history of a small world, each state once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::{Change, Decision, Outcome, Refusal, Snapshot, decide};

use super::bounds::Bounds;
use super::history::History;
use super::key::key;
use super::promises::changes_nothing;
use super::steps::Step;
use super::{calls, forgetting, owners, promises};
use crate::support::code::{Code, words};
use crate::support::world::{TTL_MS, check};

/// Rows, time, and what was answered so far.
#[derive(Clone)]
struct State {
    snapshot: Snapshot,
    history: History,
    now: Timestamp,
    /// Index in the list of parents, for the story of a failure.
    number: usize,
}

/// What a search met.
#[derive(Debug, Default)]
pub(super) struct Met {
    pub(super) states: usize,
    pub(super) transitions: u64,
    pub(super) depth: usize,
    pub(super) codes: BTreeMap<Code, u64>,
    /// The verdicts of writes with several members.
    pub(super) mixtures: BTreeSet<Vec<Code>>,
}

/// Searches until nothing new is found: the world is complete then.
pub(super) fn search(bounds: &Bounds) -> Met {
    let start = State {
        snapshot: Snapshot::default(),
        history: History::new(bounds.pages.len()),
        now: bounds.world.now,
        number: 0,
    };
    let mut met = Met { states: 1, ..Met::default() };
    let mut seen = HashSet::from([key(&start.snapshot, &start.history, start.now)]);
    let mut parents = vec![(0, Step::Tick)];
    let mut frontier = vec![start];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for state in &frontier {
            for step in state.history.steps(bounds) {
                let made = catch_unwind(AssertUnwindSafe(|| take(bounds, state, step, &mut met)));
                let made = made.unwrap_or_else(|failure| {
                    tell(&parents, state.number, step);
                    resume_unwind(failure)
                });
                let Some(mut made) = made else { continue };
                if seen.insert(key(&made.snapshot, &made.history, made.now)) {
                    made.number = parents.len();
                    parents.push((state.number, step));
                    next.push(made);
                }
            }
        }
        met.depth += 1;
        frontier = next;
    }
    met.states = parents.len();
    met
}

/// The steps that led to a failure.
fn tell(parents: &[(usize, Step)], mut number: usize, last: Step) {
    let mut steps = vec![last];
    while number > 0 {
        steps.push(parents[number].1);
        number = parents[number].0;
    }
    steps.reverse();
    eprintln!("the history that fails: {steps:#?}");
}

/// Takes one step; `None` when the state stays as it is.
fn take(bounds: &Bounds, state: &State, step: Step, met: &mut Met) -> Option<State> {
    met.transitions += 1;
    let Some(command) = state.history.command(bounds, step) else {
        return Some(State { now: state.now.plus(Millis::new(TTL_MS / 2)), ..state.clone() });
    };
    let decision = decide(&bounds.world.context(), &state.snapshot, &command, state.now).unwrap();
    let codes = if matches!(step, Step::Trip | Step::Epoch) { Vec::new() } else { words(&decision.outcome) };
    for code in &codes {
        *met.codes.entry(*code).or_default() += 1;
    }
    if codes.len() > 1 && !met.mixtures.contains(&codes) {
        met.mixtures.insert(codes);
    }
    let mut history = state.history.clone();
    judge(&mut history, bounds, state, step, &decision);
    if decision.changes.is_empty() {
        return None;
    }
    let mut snapshot = state.snapshot.clone();
    for change in &decision.changes {
        check(&snapshot, change);
        if let Change::Resource { before, after } = change {
            owners::goes_forward(before.as_deref(), after);
        }
        snapshot.apply(change);
    }
    promises::agree(&history, bounds, &snapshot);
    Some(State { snapshot, history, now: state.now, number: 0 })
}

fn judge(history: &mut History, bounds: &Bounds, state: &State, step: Step, decision: &Decision) {
    let (outcome, changes, now) = (&decision.outcome, decision.changes.as_slice(), state.now);
    if let Outcome::Refused(Refusal::Stopped { .. }) = outcome {
        assert!(history.stopped, "nothing is stopped");
        changes_nothing(changes);
        return;
    }
    match step {
        Step::Acquire { page, request } => {
            owners::judge_acquire(history, bounds, (page, request), outcome, changes, now);
        }
        Step::Renew(number) => owners::judge_renew(history, number, outcome, changes, now),
        Step::Release(number) => owners::judge_release(history, number, outcome, changes, now),
        Step::Advance { page, token } => {
            owners::judge_advance(history, bounds, (page, token), outcome, changes, now);
        }
        Step::Transfer(number) => {
            owners::judge_transfer(history, bounds, number, outcome, changes, now);
        }
        Step::Prune(page) => forgetting::judge(history, page, changes),
        Step::ForgetCall(page, number) => forgetting::call(history, page, number, changes),
        Step::Control(told) => calls::judge(history, bounds, told, outcome, changes, now),
        Step::Write { .. } | Step::Batch { .. } => {
            let told = state.history.told(bounds, step);
            promises::judge_write(history, bounds, &told, outcome, changes, now);
        }
        Step::Trip => {
            assert_eq!(outcome, &Outcome::Tidied);
            history.stopped = true;
        }
        Step::Epoch => {
            assert!(matches!(outcome, Outcome::Acted(done) if !done.replayed), "{outcome:?}");
            (history.epoch, history.stopped) = (history.epoch + 1, false);
        }
        Step::Tick => {}
    }
}
