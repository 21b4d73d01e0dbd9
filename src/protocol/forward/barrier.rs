//! Barriers: "you own it" is said only when nothing older can become authoritative in the store any more (I10).
//!
//! A conditional cell gets a new validator, on which nothing older rests; a fence-aware upstream acknowledges the newer
//! position; the two others have one lane, which has to be empty. The row keeps up to which position that was reached, and
//! a lease is held once all of its resources have reached theirs.

use crate::domain::counter::CommitNo;
use crate::domain::lease::LeaseState;
use crate::domain::policy::Contract;
use crate::domain::position::Position;
use crate::domain::time::Timestamp;
use crate::domain::upstream::{Base, CellSeen, Class, Stamp, StampKind, Validator};

use super::super::command::{Barrier, BarrierFinding};
use super::super::outcome::BarrierStep;
use super::super::rows::{LeaseRow, Life, ResourceRow};
use super::super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Snapshot};
use super::Scene;
use super::cell::Read;

/// Takes the next step.
pub(in super::super) fn barrier(
    context: &Context<'_>,
    snapshot: &Snapshot,
    barrier: &Barrier,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut scene = match Scene::find(context, snapshot, &barrier.resource, now)? {
        Ok(scene) => scene,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let step = scene.learn(&barrier.learnt)?;
    if let Some(lease) = barrier.lease.and_then(|place| snapshot.lease(&place.acquisition)) {
        scene.hold(lease)?;
    }
    if scene.known != Some(&scene.row) {
        scene.row.changed_at = now;
    }
    Ok(scene.ended(Outcome::Barrier(Box::new(step))))
}

/// Whether a lease of this position needs no barrier, or has it already when it is granted.
pub(in super::super) fn stands_at_once(
    snapshot: &Snapshot,
    namespace: &InForce,
    row: &mut ResourceRow,
    position: Position,
) -> bool {
    let Some(class) = needs(namespace) else { return true };
    match class {
        Class::Conditional | Class::FenceAware => {}
        Class::Idempotent | Class::Serial => {
            if snapshot.intents_of(&row.resource).next().is_none() {
                row.barrier = row.barrier.or_higher(position);
            }
        }
    }
    !position.is_above(row.barrier)
}

/// The class whose barrier a lease of this namespace waits for.
fn needs(namespace: &InForce) -> Option<Class> {
    match namespace.definition().contract {
        Contract::Observed => None,
        Contract::Immediate | Contract::LeaseBound => namespace.definition().store.class(),
    }
}

/// A lane may be empty now, and somebody may wait for that.
pub(super) fn lane_moved(scene: &mut Scene<'_>) {
    let lanes = match scene.class {
        Class::Conditional | Class::FenceAware => false,
        Class::Idempotent | Class::Serial => true,
    };
    if lanes && needs(&scene.namespace).is_some() && scene.undecided().next().is_none() {
        let reached = scene.wanted();
        scene.reach(reached);
    }
}

impl Scene<'_> {
    /// Nothing below this may become authoritative any more: the newest position, or the one after it where the newest
    /// itself is revoked. A barrier that was reached when that one was granted says nothing of its own effects.
    fn wanted(&self) -> Position {
        let newest = self.newest();
        let revoked = self.row.revoked_through.is_some_and(|mark| newest.is_revoked_through(mark));
        if revoked { self.following() } else { newest }
    }

    /// The next position that can be issued: nothing above it is known here.
    pub(super) fn following(&self) -> Position {
        let newest = self.newest();
        newest.following_in(self.namespace.row.epoch).unwrap_or(newest)
    }

    fn learn(&mut self, learnt: &BarrierFinding) -> Result<BarrierStep, Inconsistent> {
        if let Some(found) = &self.row.quarantined {
            return Ok(BarrierStep::Quarantined(found.clone()));
        }
        match learnt {
            BarrierFinding::Nothing => lane_moved(self),
            // What was read is older than the record: it would look like a store that has gone back.
            BarrierFinding::Cell { recorded, .. } if *recorded != self.row.cell => {}
            BarrierFinding::Cell { .. } if self.is_stopped() => {}
            BarrierFinding::Cell { recorded: _, seen } => return self.cell_read(seen),
            BarrierFinding::Rewritten { position, base, validator } => {
                self.rewritten(*position, base, validator);
            }
            BarrierFinding::Acknowledged(position) => self.reach(*position),
            BarrierFinding::Holds(position) => self.held_above(*position),
        }
        Ok(self.next())
    }

    /// The next step, by class.
    fn next(&self) -> BarrierStep {
        if let Some(found) = &self.row.quarantined {
            return BarrierStep::Quarantined(found.clone());
        }
        if !self.wanted().is_above(self.row.barrier) {
            return BarrierStep::Stands(self.row.clone());
        }
        if let Some(breaker) = &self.namespace.row.breaker {
            return BarrierStep::Quarantined(breaker.found.clone());
        }
        match self.class {
            Class::Conditional => BarrierStep::ReadCell(self.row.cell.clone()),
            Class::FenceAware => BarrierStep::Advance(self.row.incarnation, self.wanted()),
            Class::Idempotent | Class::Serial => {
                BarrierStep::Undecided(self.undecided().map(super::super::rows::IntentRow::key).collect())
            }
        }
    }

    /// What the cell shows is recorded first, and then it is rewritten on that.
    fn cell_read(&mut self, seen: &CellSeen) -> Result<BarrierStep, Inconsistent> {
        let base = match self.read(seen, None)? {
            Read::Contradicts(found) => {
                self.quarantine_cell(found.clone(), seen);
                return Ok(BarrierStep::Quarantined(found));
            }
            Read::Absent => Base::Absent,
            Read::AsRecorded | Read::Recorded => match &self.row.cell {
                Some(validator) => Base::Recorded(validator.clone()),
                None => Base::Absent,
            },
        };
        if !self.wanted().is_above(self.row.barrier) {
            return Ok(BarrierStep::Stands(self.row.clone()));
        }
        let empty = base == Base::Absent || shows_nothing(seen) || self.is_empty();
        let stamp = Stamp {
            kind: if empty { StampKind::EmptyBarrier } else { StampKind::Barrier },
            incarnation: self.row.incarnation,
            position: self.wanted(),
            commit: self.row.commit_no,
            operation_id: None,
        };
        Ok(BarrierStep::Rewrite(base, stamp))
    }

    /// Whether reads of the cell show nothing. Content from before the gateway has no commit, and is there.
    fn is_empty(&self) -> bool {
        self.row.life == Life::Deleted || (self.tag.is_none() && self.row.commit_no > CommitNo::ZERO)
    }

    /// The rewrite has won, unless the record has moved on from what it rested on: then what it left is read again.
    fn rewritten(&mut self, position: Position, base: &Base, validator: &Validator) {
        let recorded = self.row.cell.clone().map_or(Base::Absent, Base::Recorded);
        if recorded == *base {
            self.row.cell = Some(validator.clone());
            self.reach(position);
        }
    }

    /// The upstream holds a higher position than the barrier asked for.
    fn held_above(&mut self, holds: Position) {
        if holds.is_above(self.following()) {
            self.holds_more(holds);
            return;
        }
        self.reach(holds);
    }

    /// The upstream holds a position that was never issued or admitted here, as far as is recorded.
    pub(super) fn holds_more(&mut self, holds: Position) {
        let newest = self.newest();
        let found = format!("it holds position {holds}, and the highest that is recorded here is {newest}");
        if holds.epoch >= self.namespace.row.epoch {
            self.forgotten(&found);
        }
        self.quarantine(found);
    }

    /// Nothing older than this can become authoritative any more.
    fn reach(&mut self, position: Position) {
        self.row.barrier = self.row.barrier.or_higher(position);
    }

    /// The lease is held as soon as all of its resources have their barriers.
    fn hold(&mut self, lease: &LeaseRow) -> Result<(), Inconsistent> {
        let state = lease.state_at(self.now, &self.row, &self.namespace.row);
        if state == LeaseState::PendingBarrier && self.all_reached(lease)? {
            self.changes.push(held(lease, self.now));
        }
        Ok(())
    }

    /// Whether all resources of a lease have their barriers.
    fn all_reached(&self, lease: &LeaseRow) -> Result<bool, Inconsistent> {
        for (resource, position) in lease.members() {
            let row = if *resource == self.row.resource {
                &self.row
            } else {
                self.snapshot.resource(resource).ok_or_else(|| {
                    Inconsistent::because(format!("a lease of {resource:?} has no resource row"))
                })?
            };
            let Ok(namespace) = InForce::find(self.context, self.snapshot, &resource.namespace()) else {
                return Ok(false);
            };
            if namespace.row.breaker.is_some() || !has_barrier(&namespace, row, position) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the gateway itself left nothing in the cell. The record alone cannot tell a barrier over what was never written
/// from content of before the gateway: neither has a commit.
fn shows_nothing(seen: &CellSeen) -> bool {
    match seen {
        CellSeen::Stamped(_, stamp) => stamp.kind.is_empty(),
        CellSeen::Absent | CellSeen::Unstamped(_) | CellSeen::Strange(_) => false,
    }
}

/// The lease, whose owner could not use it before.
pub(in super::super) fn held(lease: &LeaseRow, now: Timestamp) -> Change {
    let mut after = lease.clone();
    after.state = LeaseState::Held;
    after.expires_at = now.plus(after.ttl.millis());
    Change::LeaseChanged { before: Box::new(lease.clone()), after: Box::new(after) }
}

/// Whether a resource of a lease has its barrier, or needs none.
pub(in super::super) fn has_barrier(namespace: &InForce, row: &ResourceRow, position: Position) -> bool {
    needs(namespace).is_none() || !position.is_above(row.barrier)
}
