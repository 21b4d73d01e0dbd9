//! Through every history, each state once; as long as there are few, breadth first, so that the story of a failure is a
//! shortest one.

use std::collections::HashSet;

use super::super::frontier::{Direct, Frontier, Waiting};
use super::bounds::Bounds;
use super::judge::{History, Violation};
use super::state::State;
use super::steps::Step;
use super::store::Store;

/// What a search met.
pub(super) struct Met {
    pub(super) states: usize,
    pub(super) transitions: u64,
    pub(super) depth: usize,
    /// Moments from which healing was tried.
    pub(super) healed: usize,
    /// The first rule that was broken, and the steps to there.
    pub(super) failure: Option<(Violation, Vec<Step>)>,
}

/// Where all histories begin. Under a gateway issuer the first owner is there already.
fn start(bounds: &Bounds) -> State {
    let mut state = State {
        snapshot: fencegate::protocol::Snapshot::default(),
        store: Store::new(bounds.class, bounds.before, bounds.bug),
        tasks: Vec::new(),
        network: Vec::new(),
        history: History::new(),
    };
    if bounds.acquires > 0 {
        state.acquire(bounds).unwrap();
        state = state.reached(bounds).unwrap();
    }
    state
}

/// Searches until nothing new is found, or a rule is broken.
pub(super) fn search(bounds: &Bounds) -> Met {
    let first = start(bounds);
    let mut met = Met { states: 1, transitions: 0, depth: 0, healed: 0, failure: None };
    let first_key = first.key();
    let mut frontier = Frontier::new(first, first_key);
    let mut healthy: HashSet<[u8; 16], Direct> = HashSet::default();
    while let Some(Waiting { state, number, depth }) = frontier.take() {
        for (index, step) in state.steps(bounds).into_iter().enumerate() {
            met.transitions += 1;
            let made = match state.take(bounds, step) {
                Ok(Some(made)) => made,
                Ok(None) => continue,
                Err(violation) => {
                    let failure = Some((violation, way(bounds, &frontier, (number, Some(step)))));
                    return Met { states: frontier.states(), depth: frontier.depth(), failure, ..met };
                }
            };
            let Some(own) = frontier.add(made.key(), number, index) else { continue };
            if bounds.bug.is_none()
                && healthy.insert(made.healing_key())
                && let Err(violation) = made.heal(bounds)
            {
                let failure = Some((violation, way(bounds, &frontier, (own, None))));
                return Met { states: frontier.states(), depth: frontier.depth(), failure, ..met };
            }
            frontier.wait(own, depth + 1, made);
        }
    }
    Met { states: frontier.states(), depth: frontier.depth(), healed: healthy.len(), ..met }
}

/// The steps by which a rule was broken.
fn way(bounds: &Bounds, frontier: &Frontier<State>, (number, last): (u32, Option<Step>)) -> Vec<Step> {
    let (mut state, mut steps) = (start(bounds), Vec::new());
    for index in frontier.way_to(number) {
        let step = state.steps(bounds)[index];
        state = state.take(bounds, step).unwrap().unwrap();
        steps.push(step);
    }
    steps.extend(last);
    steps
}
