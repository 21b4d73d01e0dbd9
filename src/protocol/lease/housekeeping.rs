//! What the gateway does by itself: it writes expiries down, and gives up the places of waiters that have gone.

use super::super::change::resource_changed;
use super::super::command::{Leave, Sweep};
use super::{Context, Decision, Inconsistent, LeaseState, Outcome, Snapshot, Timestamp, find, write_down};

/// Writes down the expiry of those leases that have expired. Whoever found them saw an earlier state: each is judged
/// again here, and once more by the update itself.
pub(in super::super) fn sweep(
    context: &Context<'_>,
    snapshot: &Snapshot,
    sweep: &Sweep,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let Ok(found) = find(context, snapshot, sweep.lease.acquisition)? else {
        return Ok(Decision::unchanged(Outcome::Tidied));
    };
    let mut changes = Vec::new();
    let state = found.state_at(now);
    match state {
        LeaseState::Expired | LeaseState::Superseded => {
            write_down(found.lease, state, now, &mut changes);
        }
        LeaseState::Held | LeaseState::Released => {}
    }
    Ok(Decision { outcome: Outcome::Tidied, changes })
}

/// Gives up the places of a waiter that has gone, so that nobody waits for it.
pub(in super::super) fn leave(snapshot: &Snapshot, leave: &Leave, now: Timestamp) -> Decision {
    let mut changes = Vec::new();
    for known in leave.resources.iter().filter_map(|resource| snapshot.resource(resource)) {
        let mut after = known.clone();
        after.queue.leave(&leave.request_key, now);
        resource_changed(&mut changes, Some(known), after);
    }
    Decision { outcome: Outcome::Tidied, changes }
}
