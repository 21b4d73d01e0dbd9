//! How far the database has come, as far as this process acknowledged it; and the witness, a file apart from the database
//! that remembers it when the database forgets (`protocol.md` section 9, `docs/adr/0011-the-witness.md`).
//!
//! No commit beyond what the witness has reserved is acknowledged. It reserves in blocks, and with each block writes down
//! what was surely reached by then. So a crash never trips anything: what is written as reached had been acknowledged. And
//! a database that has lost more than a block stands behind that. A stop in good order writes the exact place.
//!
//! It must never be lowered, never record what a database says that is suspected of having gone back, and never let a
//! commit through because it cannot be written.

mod file;
mod judge;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tracing::{error, info, warn};
use uuid::Uuid;

use crate::limits::{WITNESS_LEFT_PART, WITNESS_RETRY_PART};

pub use file::{Record, WitnessError, WitnessFile};
use judge::raised;
pub(super) use judge::{Sighting, judge};

/// A place in the history of a database. The order of the fields is the rule: an epoch that was advanced over everything is
/// the operator's word that what follows counts, wherever it stands; and a timeline of PostgreSQL goes on from a place of
/// the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Point {
    /// The epoch of namespaces that were never used: that of the last advance over all of them.
    pub epoch: u64,
    /// The timeline of PostgreSQL; 0 elsewhere.
    pub timeline: u64,
    /// Commits of an embedded database; bytes of PostgreSQL's log.
    pub at: u64,
}

/// How far the database has come.
#[derive(Debug)]
pub(super) struct Course {
    state: Mutex<State>,
    keeper: Option<Keeper>,
}

#[derive(Debug)]
struct State {
    /// Surely reached.
    point: Point,
    /// + 1 whenever positions begin anew: what was read before is not compared with what was read after.
    era: u64,
    /// The furthest place that is known of.
    seen: u64,
    /// Reserved: nothing beyond it may be acknowledged.
    mark: u64,
    /// From here on the next block is reserved.
    next: u64,
    /// The database is suspected: until an epoch is advanced nothing is recorded, and nothing needs to be.
    is_suspected: bool,
}

/// The witness at work.
#[derive(Debug)]
struct Keeper {
    file: WitnessFile,
    database: Uuid,
    system: u64,
    block: u64,
    /// Wakes the thread that reserves.
    wake: SyncSender<()>,
    /// One at a time; the state is not locked while the file is written.
    turn: Mutex<()>,
    written: AtomicU64,
}

impl Course {
    /// Without a witness: only what this process itself acknowledged is known.
    pub(super) fn unwitnessed() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::at(Point::default())), keeper: None })
    }

    /// With a witness, at a database as it was found; the first block is reserved when this returns, unless the database is
    /// behind.
    pub(super) fn witnessed(
        file: WitnessFile,
        found: &Sighting,
        block: u64,
        is_behind: bool,
    ) -> Result<Arc<Self>, WitnessError> {
        if file.found().is_none() {
            info!(path = %file.path().display(), "a witness is begun; what the database lost before now is not known to it");
        }
        let (wake, woken) = mpsc::sync_channel(1);
        let (database, system) = (found.database, found.system);
        let state = State {
            point: known(file.found().filter(|_| !is_behind), found),
            seen: found.point.at,
            is_suspected: is_behind,
            ..State::at(Point::default())
        };
        let block = file.block_or(block);
        let keeper = Keeper {
            file,
            database,
            system,
            block,
            wake,
            turn: Mutex::default(),
            written: AtomicU64::new(0),
        };
        let course = Arc::new(Self { state: Mutex::new(state), keeper: Some(keeper) });
        if is_behind {
            // It must be seen now that it can be written, and not after the epoch was advanced.
            course.prove()?;
        } else {
            course.reserve(found.point.at)?;
            // The first commit that is acknowledged is written down at once: processes that crash one after the other must
            // not each run a block ahead of what is recorded.
            course.state().next = 0;
        }
        let weak = Arc::downgrade(&course);
        let thread = std::thread::Builder::new().name("witness".to_owned());
        if let Err(error) = thread.spawn(move || reserve_ahead(&weak, &woken)) {
            // Each block is then reserved by the commit that needs it.
            warn!(%error, "the witness cannot be written ahead; commits will wait for it");
        }
        Ok(course)
    }

    /// Whether there is a witness whose blocks bound what may be acknowledged.
    pub(super) fn is_watched(&self) -> bool {
        self.keeper.is_some()
    }

    /// Whether the epoch has to be asked for: another replica may have advanced it.
    pub(super) fn is_suspected(&self) -> bool {
        self.state().is_suspected
    }

    /// What positions that are read now belong to.
    pub(super) fn era(&self) -> u64 {
        self.state().era
    }

    /// What was surely reached.
    pub(super) fn reached(&self) -> Point {
        self.state().point
    }

    /// What the witness says now, whoever wrote it; none while the database is known to be behind it.
    pub(super) fn record(&self) -> Option<Record> {
        let keeper = self.keeper.as_ref().filter(|_| !self.is_suspected())?;
        match WitnessFile::open(keeper.file.path()) {
            Ok(file) => file.found().copied(),
            Err(error) => {
                // What it cannot tell now is no alarm; it has to be written before its block is used up.
                error!(%error, "the witness cannot be read");
                None
            }
        }
    }

    /// How often the witness was written.
    pub(super) fn written(&self) -> u64 {
        self.keeper.as_ref().map_or(0, |keeper| keeper.written.load(Ordering::Relaxed))
    }

    /// A commit at or behind this place was acknowledged.
    pub(super) fn reach(&self, era: u64, at: u64) {
        let mut state = self.state();
        if era != state.era {
            return;
        }
        state.point.at = state.point.at.max(at);
        state.seen = state.seen.max(at);
        let is_due = !state.is_suspected && state.seen >= state.next;
        if is_due && let Some(keeper) = &self.keeper {
            state.next = state.seen.saturating_add(keeper.block / WITNESS_RETRY_PART);
            // It is awake where this finds no room.
            keeper.wake.try_send(()).unwrap_or_default();
        }
    }

    /// Whether a commit at this place may be acknowledged as things stand. No witness bounds nothing.
    pub(super) fn covers(&self, at: u64) -> bool {
        let mut state = self.state();
        state.seen = state.seen.max(at);
        self.keeper.is_none() || state.is_suspected || at <= state.mark
    }

    /// Makes it so that a commit at this place may be acknowledged. Waits for the disk where the block is used up.
    ///
    /// # Errors
    /// Why it may not be.
    pub(super) fn cover(&self, at: u64) -> Result<(), String> {
        if self.covers(at) {
            return Ok(());
        }
        let reserved = self.reserve(at).map_err(|error| error.to_string());
        if reserved.is_ok() && !self.covers(at) {
            return Err("the database has come further than the witness could be told".to_owned());
        }
        reserved
    }

    /// The furthest place that is known of: what comes now lies beyond it.
    pub(super) fn seen(&self) -> u64 {
        self.state().seen
    }

    /// The highest epoch that is known of: what the file said when it was opened, and what came since.
    pub(super) fn known_epoch(&self) -> u64 {
        let found = self.keeper.as_ref().and_then(|keeper| keeper.file.found());
        found.map_or(0, |record| record.reached.epoch).max(self.state().point.epoch)
    }

    /// Everything was brought into this epoch: what stands now counts, wherever it stands.
    pub(super) fn enter(&self, epoch: u64) {
        let mut state = self.state();
        if epoch <= state.point.epoch {
            return;
        }
        state.point.epoch = epoch;
        state.next = 0;
        if state.is_suspected {
            state.is_suspected = false;
            // Nothing is reserved yet: the next commit waits for the witness.
            state.mark = 0;
        }
    }

    /// The database goes on upon a new timeline, which began behind all that was reached.
    pub(super) fn go_on_upon(&self, timeline: u64) {
        let mut state = self.state();
        let point = Point { timeline, ..state.point };
        state.begin_anew(point, point.at);
    }

    /// The database was found to have gone back to this place. What was reached stands in the witness as it is.
    pub(super) fn fall_back_to(&self, timeline: u64, at: u64) {
        let mut state = self.state();
        let point = Point { timeline, at: 0, ..state.point };
        state.begin_anew(point, at);
        state.is_suspected = true;
    }

    /// Writes the exact place down: after a stop in good order whatever is lost is seen.
    pub(super) fn settle(&self) {
        if self.is_watched()
            && !self.is_suspected()
            && let Err(error) = self.reserve(0)
        {
            warn!(%error, "the last commits are not in the witness");
        }
    }

    /// Reserves a block from here on, and beyond `least`.
    fn reserve(&self, least: u64) -> Result<(), WitnessError> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let turn = keeper.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (point, era, from) = {
            let state = self.state();
            (state.point, state.era, state.point.at.max(least))
        };
        let record = keeper.raise(point, from.saturating_add(keeper.block))?;
        drop(turn);
        let mut state = self.state();
        if state.era == era && !state.is_suspected {
            state.mark = record.reserved;
            let left = keeper.block / WITNESS_LEFT_PART;
            state.next = from.saturating_add(keeper.block).saturating_sub(left);
        }
        Ok(())
    }

    /// Sees that the witness can be written, without changing what it says.
    fn prove(&self) -> Result<(), WitnessError> {
        self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.file.prove())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is surely reached in a database that is not behind: what the witness says of it. Where the database stands now may
/// rest on a commit that is not durable, or that no standby has.
fn known(record: Option<&Record>, found: &Sighting) -> Point {
    let same =
        record.filter(|record| record.reached.epoch == found.point.epoch && record.system == found.system);
    Point { at: same.map_or(0, |record| record.reached.at), ..found.point }
}

impl State {
    const fn at(point: Point) -> Self {
        Self { point, era: 0, seen: point.at, mark: 0, next: 0, is_suspected: false }
    }

    fn begin_anew(&mut self, point: Point, seen: u64) {
        let (era, is_suspected) = (self.era.wrapping_add(1), self.is_suspected);
        *self = Self { era, seen, is_suspected, ..Self::at(point) };
    }
}

impl Keeper {
    fn raise(&self, point: Point, reserved: u64) -> Result<Record, WitnessError> {
        let asked = Record { database: self.database, system: self.system, reached: point, reserved };
        let written = self.file.change(|before| raised(self.file.path(), before, asked))?;
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(written)
    }
}

/// The thread that reserves the next block before the last one is used up. It ends with the course.
fn reserve_ahead(course: &Weak<Course>, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        let Some(course) = course.upgrade() else { return };
        if let Err(error) = course.reserve(0) {
            error!(%error, "the witness cannot be written; when the block that it has reserved is used up, nothing is acknowledged");
        }
    }
}

#[cfg(test)]
mod tests;
