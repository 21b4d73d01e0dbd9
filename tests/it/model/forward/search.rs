//! Breadth first through every history, each state once, so that the story of a failure is a shortest one.

use std::collections::HashSet;

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
    let mut seen = HashSet::from([first.key()]);
    let mut healthy = HashSet::new();
    let mut parents = vec![(0, Step::Cancel)];
    let mut frontier = vec![(0, first)];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (number, state) in &frontier {
            for step in state.steps(bounds) {
                met.transitions += 1;
                let made = match state.take(bounds, step) {
                    Ok(Some(made)) => made,
                    Ok(None) => continue,
                    Err(violation) => return failed(&met, &parents, (*number, Some(step)), violation),
                };
                if !seen.insert(made.key()) {
                    continue;
                }
                parents.push((*number, step));
                let own = parents.len() - 1;
                if bounds.bug.is_none()
                    && healthy.insert(made.healing_key())
                    && let Err(violation) = made.heal(bounds)
                {
                    return failed(&met, &parents, (own, None), violation);
                }
                next.push((own, made));
            }
        }
        met.depth += 1;
        frontier = next;
        (met.states, met.healed) = (parents.len(), healthy.len());
    }
    met
}

fn failed(met: &Met, parents: &[(usize, Step)], end: (usize, Option<Step>), violation: Violation) -> Met {
    let (mut number, last) = end;
    let mut steps: Vec<Step> = last.into_iter().collect();
    while number > 0 {
        steps.push(parents[number].1);
        number = parents[number].0;
    }
    steps.reverse();
    Met { states: parents.len(), failure: Some((violation, steps)), ..*met }
}
