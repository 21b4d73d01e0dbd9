//! The reference engine with its past: every commit is kept, so that the database can go back to an earlier one.

use std::sync::Arc;

use fencegate::ledger::changeset::ChangeSet;
use fencegate::ledger::engine::{CommitOutcome, Engine, EngineError, Loaded};
use fencegate::ledger::memory::{self, MemoryEngine};
use fencegate::protocol::{Change, Snapshot, Wanted};
use futures_util::FutureExt;

use crate::support::clock::ManualClock;
use crate::support::world::DATABASE;

/// The database of all gateways, and what a judge sees of it.
pub(super) struct Database {
    engine: MemoryEngine,
    clock: Arc<ManualClock>,
    /// All rows, kept beside the engine from the same changes.
    pub(super) rows: Snapshot,
    past: Vec<(ChangeSet, Snapshot)>,
    /// How far it has ever come, as a witness outside of it knows.
    pub(super) furthest: usize,
}

impl Database {
    pub(super) fn new(clock: Arc<ManualClock>) -> Self {
        let (engine, _, _) = memory::open(DATABASE, clock.clone());
        Self { engine, clock, rows: Snapshot::default(), past: Vec::new(), furthest: 0 }
    }

    /// Commits so far.
    pub(super) const fn commits(&self) -> usize {
        self.past.len()
    }

    /// The engine in memory never waits.
    pub(super) fn load(&mut self, wanted: &Wanted) -> Loaded {
        self.engine.load(wanted).now_or_never().unwrap().unwrap()
    }

    /// What was decided becomes durable; the engine repeats its predicates.
    pub(super) fn commit(&mut self, set: ChangeSet, changes: &[Change], now: &Loaded) -> Result<(), String> {
        put(&mut self.engine, &set, now)?;
        for change in changes {
            self.rows.apply(change);
        }
        self.past.push((set, self.rows.clone()));
        self.furthest = self.furthest.max(self.past.len());
        Ok(())
    }

    /// The database goes back to an earlier commit: what came after it never happened there.
    pub(super) fn go_back(&mut self, commits: usize) -> Vec<ChangeSet> {
        let lost = self.past.split_off(commits.min(self.past.len()));
        let (mut engine, _, _) = memory::open(DATABASE, self.clock.clone());
        for (set, _) in &self.past {
            let loaded = engine.load(&Wanted::default()).now_or_never().unwrap().unwrap();
            put(&mut engine, set, &loaded).unwrap();
        }
        self.engine = engine;
        self.rows = self.past.last().map_or_else(Snapshot::default, |(_, rows)| rows.clone());
        lost.into_iter().map(|(set, _)| set).collect()
    }
}

fn put(engine: &mut MemoryEngine, set: &ChangeSet, now: &Loaded) -> Result<(), String> {
    let applied: Result<(), EngineError> = engine.apply(set, now.now).now_or_never().unwrap();
    applied.map_err(|error| error.to_string())?;
    match engine.commit().now_or_never().unwrap() {
        CommitOutcome::Committed => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
