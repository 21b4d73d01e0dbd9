//! What the gateway does by itself: it writes expiries down, and gives up the places of waiters that have gone.

use super::super::change::resource_changed;
use super::super::command::{Leave, Sweep};
use super::{Decision, LeaseState, Outcome, Snapshot, Timestamp, write_down};

/// Writes down that a lease has expired. Whoever found it saw an earlier state: it is judged again here, and once more
/// by the update itself. The namespace does not matter: also one that is not configured any more has leases that end.
pub(in super::super) fn sweep(snapshot: &Snapshot, sweep: &Sweep, now: Timestamp) -> Decision {
    let mut changes = Vec::new();
    if let Some(lease) = snapshot.lease(&sweep.lease.acquisition)
        && lease.state == LeaseState::Held
        && now >= lease.expires_at
    {
        write_down(lease, LeaseState::Expired, now, &mut changes);
    }
    Decision { outcome: Outcome::Tidied, changes }
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
