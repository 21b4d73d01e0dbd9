//! Through every history of a small world, each state once.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::{Change, Command, Decision, Outcome, Refusal, Snapshot, decide};

use super::bounds::Bounds;
use super::frontier::{Frontier, Waiting};
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
}

/// What a search met.
#[derive(Debug, Default)]
pub(super) struct Met {
    pub(super) states: usize,
    pub(super) transitions: u64,
    pub(super) depth: usize,
    pub(super) codes: BTreeMap<Code, u64>,
    /// The same of acts on everything.
    pub(super) acts: BTreeMap<Code, u64>,
    /// The verdicts of writes with several members.
    pub(super) mixtures: BTreeSet<Vec<Code>>,
}

fn start(bounds: &Bounds) -> State {
    State { snapshot: Snapshot::default(), history: History::new(bounds.pages.len()), now: bounds.world.now }
}

/// Searches until nothing new is found: the world is complete then.
pub(super) fn search(bounds: &Bounds) -> Met {
    let first = start(bounds);
    let mut met = Met::default();
    let first_key = key(&first.snapshot, &first.history, first.now);
    let mut frontier = Frontier::new(first, first_key);
    while let Some(Waiting { state, number, depth }) = frontier.take() {
        for (index, step) in state.history.steps(bounds).into_iter().enumerate() {
            let made = catch_unwind(AssertUnwindSafe(|| take(bounds, &state, step, &mut met)));
            let made = made.unwrap_or_else(|failure| {
                tell(bounds, &frontier.way_to(number), step);
                resume_unwind(failure)
            });
            let Some(made) = made else { continue };
            if let Some(number) = frontier.add(key(&made.snapshot, &made.history, made.now), number, index) {
                frontier.wait(number, depth + 1, made);
            }
        }
    }
    (met.states, met.depth) = (frontier.states(), frontier.depth());
    met
}

/// The steps that led to a failure.
fn tell(bounds: &Bounds, way: &[usize], last: Step) {
    let (mut state, mut steps) = (start(bounds), Vec::new());
    for index in way {
        let step = state.history.steps(bounds)[*index];
        state = take(bounds, &state, step, &mut Met::default()).unwrap();
        steps.push(step);
    }
    steps.push(last);
    eprintln!("the history that fails: {steps:#?}");
}

/// Takes one step; `None` when the state stays as it is.
fn take(bounds: &Bounds, state: &State, step: Step, met: &mut Met) -> Option<State> {
    met.transitions += 1;
    let Some(command) = state.history.command(bounds, step) else {
        return Some(State { now: state.now.plus(Millis::new(TTL_MS / 2)), ..state.clone() });
    };
    let rules = |rows: &Snapshot, command: &Command| {
        decide(&bounds.world.context(), rows, command, state.now).unwrap()
    };
    let decision = match bounds.bug {
        None => rules(&state.snapshot, &command),
        Some(bug) => bug.decided(&state.snapshot, &command, &rules),
    };
    let codes = words(&decision.outcome);
    let counted = if matches!(step, Step::Trip | Step::Epoch | Step::EpochAgain) {
        &mut met.acts
    } else {
        &mut met.codes
    };
    for code in &codes {
        *counted.entry(*code).or_default() += 1;
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
    Some(State { snapshot, history, now: state.now })
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
        Step::EpochAgain => {
            assert!(matches!(outcome, Outcome::Acted(done) if done.replayed), "{outcome:?}");
            assert_eq!(changes, [], "I19: a copy begins no epoch, and ends no breaker");
        }
        Step::Odd(odd) => odd.judge(outcome, changes),
        Step::Tick => {}
    }
}
