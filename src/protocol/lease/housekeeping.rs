//! What the gateway does by itself: it writes expiries down, and gives up the places of waiters that have gone.

use super::super::change::resource_changed;
use super::super::command::{Leave, Sweep};
use super::super::rows::LeaseRow;
use super::{
    Change, Decision, LeaseState, Millis, Outcome, Position, ResourceName, Snapshot, Timestamp, write_down,
};
use crate::deliberate::{self, Bug};

/// How long a lease is known after its end: 30 days, as long as operation records are kept by default (`protocol.md`
/// section 4). Until then its owner is told how it ended; afterwards there is no such lease.
pub const KEPT_AFTER_END: Millis = Millis::new(30 * 86_400_000);

/// Writes down that a lease has expired, or forgets one that ended long ago. Whoever found it saw an earlier state: it is
/// judged again here, and once more by the statement itself. The namespace does not matter: also one that is not
/// configured any more has leases that end.
pub(in super::super) fn sweep(snapshot: &Snapshot, sweep: &Sweep, now: Timestamp) -> Decision {
    let mut changes = Vec::new();
    if let Some(lease) = snapshot.lease(&sweep.lease.acquisition) {
        let unseen = deliberate::on(Bug::SweeperWithoutItsCondition);
        if lease.state.is_live() && (now >= lease.expires_at || unseen) {
            write_down(lease, LeaseState::Expired, now, &mut changes);
        } else if is_forgettable(snapshot, lease, now) {
            changes.push(Change::LeaseForgotten(Box::new(lease.clone())));
        }
    }
    Decision { outcome: Outcome::Tidied, changes }
}

/// The newest lease of a resource is never forgotten, however long ago it ended: its row leads to it.
fn is_forgettable(snapshot: &Snapshot, lease: &LeaseRow, now: Timestamp) -> bool {
    let newest = |(resource, _): (&ResourceName, Position)| {
        let row = snapshot.resource(resource);
        // A folded one has no row any more.
        row.and_then(|row| row.lease).is_some_and(|place| place.acquisition == lease.acquisition)
    };
    let over = lease.ended_at.is_some_and(|at| at.plus(KEPT_AFTER_END) <= now);
    !lease.state.is_live() && over && !lease.members().any(newest)
}

/// Gives up the places of a waiter that has gone, so that nobody waits for it.
pub(in super::super) fn leave(snapshot: &Snapshot, leave: &Leave, now: Timestamp) -> Decision {
    let mut changes = Vec::new();
    for known in leave.resources.iter().filter_map(|resource| snapshot.resource(resource)) {
        let mut after = known.clone();
        after.queue.leave(&leave.request_key, leave.claim, leave.keeps, now);
        resource_changed(&mut changes, Some(known), after);
    }
    Decision { outcome: Outcome::Tidied, changes }
}
