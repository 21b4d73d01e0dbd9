//! The states that a search has found and not looked at, and how each was found.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// As long as fewer wait, the oldest is next, so that the story of a failure is a shortest one. With more, the newest is:
/// the search finds the same states, and what waits for its turn does not outgrow the memory of a machine.
const BREADTH: usize = 60_000;

/// How a state was found: from which, and by which of the steps that can happen there.
type Found = (u32, u16);

/// A state with its number among all that were found, and how many steps led to it.
pub(super) struct Waiting<S> {
    pub(super) state: S,
    pub(super) number: u32,
    pub(super) depth: u32,
}

/// For sets of keys.
pub(super) type Direct = BuildHasherDefault<FirstBytes>;

/// Everything that a search keeps.
pub(super) struct Frontier<S> {
    waiting: VecDeque<Waiting<S>>,
    seen: HashSet<[u8; 16], Direct>,
    parents: Vec<Found>,
    depth: u32,
}

impl<S> Frontier<S> {
    /// Where all histories begin.
    pub(super) fn new(start: S, key: [u8; 16]) -> Self {
        let mut seen = HashSet::default();
        seen.insert(key);
        let waiting = VecDeque::from([Waiting { state: start, number: 0, depth: 0 }]);
        Self { waiting, seen, parents: vec![(0, 0)], depth: 0 }
    }

    /// The state to be looked at next.
    pub(super) fn take(&mut self) -> Option<Waiting<S>> {
        let next =
            if self.waiting.len() > BREADTH { self.waiting.pop_back() } else { self.waiting.pop_front() };
        self.depth = next.as_ref().map_or(self.depth, |next| self.depth.max(next.depth + 1));
        next
    }

    /// Notes a state that a step leads to, unless it is known; its number.
    pub(super) fn add(&mut self, key: [u8; 16], parent: u32, step: usize) -> Option<u32> {
        if !self.seen.insert(key) {
            return None;
        }
        let number = u32::try_from(self.parents.len()).unwrap();
        self.parents.push((parent, u16::try_from(step).unwrap()));
        Some(number)
    }

    /// Puts a state that was added to those that wait.
    pub(super) fn wait(&mut self, number: u32, depth: u32, state: S) {
        self.waiting.push_back(Waiting { state, number, depth });
    }

    /// How many states were found.
    pub(super) fn states(&self) -> usize {
        self.parents.len()
    }

    /// The length of the longest way by which a state was found.
    pub(super) fn depth(&self) -> usize {
        usize::try_from(self.depth).unwrap()
    }

    /// Which of the possible steps was taken each time on the way to a state.
    pub(super) fn way_to(&self, number: u32) -> Vec<usize> {
        let mut way = Vec::new();
        let mut number = number;
        while number > 0 {
            let (parent, step) = self.parents[usize::try_from(number).unwrap()];
            way.push(usize::from(step));
            number = parent;
        }
        way.reverse();
        way
    }
}

/// Keys are hashes already: their first bytes are as good as any hash of them.
#[derive(Default)]
pub(super) struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_be_bytes(*first);
        }
    }

    fn write_usize(&mut self, _length: usize) {}
}
