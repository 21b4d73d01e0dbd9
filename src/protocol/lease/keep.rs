//! Staying the owner, and giving ownership back: both look at the acquisition alone, change nothing of another's, and
//! never bring an ended lease back.

use super::super::command::{Release, Renew};
use super::{
    Context, Decision, Found, Inconsistent, LeaseState, Outcome, Refusal, Snapshot, Timestamp, changed,
    ended, find, write_down,
};
use crate::deliberate::{self, Bug};

/// Renews a lease that is live, and nobody else's; an ended one is never brought back.
pub(in super::super) fn renew(
    context: &Context<'_>,
    snapshot: &Snapshot,
    renew: &Renew,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut acquisition = renew.acquisition;
    if deliberate::on(Bug::RenewWithoutComparing)
        && let Some(row) = snapshot.lease(&acquisition).and_then(|lease| snapshot.resource(&lease.resource))
    {
        acquisition = row.lease.map_or(acquisition, |newest| newest.acquisition);
    }
    let found = match find(context, snapshot, acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let asked = match renew.ttl_ms.map(|ms| found.ttl(Some(ms))).transpose() {
        Ok(asked) => asked,
        Err(error) => return Ok(Decision::refused(Refusal::TtlOutOfBounds(error))),
    };
    match found.state_at(now) {
        LeaseState::PendingBarrier | LeaseState::Held => {}
        LeaseState::Released | LeaseState::Expired if deliberate::on(Bug::RenewReCreates) => {}
        state @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => {
            return Ok(ended(&found, state, now));
        }
    }
    let mut after = found.lease.clone();
    if deliberate::on(Bug::RenewReCreates) {
        (after.state, after.ended_at) = (LeaseState::Held, None);
    }
    after.ttl = asked.unwrap_or(found.lease.ttl);
    after.expires_at = held_at_most_until(&found, now.plus(after.ttl.millis()));
    let view = found.view(&after, now)?;
    let changes = if after == *found.lease { Vec::new() } else { vec![changed(found.lease, after)] };
    Ok(Decision { outcome: Outcome::Renewed(Box::new(view)), changes })
}

/// No renewal goes beyond the longest time that one acquisition may be held, on any of its resources. It never takes
/// back what was granted before: the bound may have been configured since.
fn held_at_most_until(found: &Found<'_>, asked: Timestamp) -> Timestamp {
    let bounds = found.members.iter().filter_map(|member| member.namespace.rules.max_hold);
    match bounds.min() {
        None => asked,
        Some(bound) => asked.min(found.lease.granted_at.plus(bound)).max(found.lease.expires_at.min(asked)),
    }
}

/// Releases a lease; an ended one answers with the state that it has. The floor stays where it is.
pub(in super::super) fn release(
    context: &Context<'_>,
    snapshot: &Snapshot,
    release: &Release,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let found = match find(context, snapshot, release.acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let state = match found.state_at(now) {
        LeaseState::PendingBarrier | LeaseState::Held => LeaseState::Released,
        state @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => state,
    };
    let mut after = found.lease.clone();
    after.state = state;
    let view = found.view(&after, now)?;
    let mut changes = Vec::new();
    write_down(found.lease, state, now, &mut changes);
    Ok(Decision { outcome: Outcome::Released(Box::new(view)), changes })
}
