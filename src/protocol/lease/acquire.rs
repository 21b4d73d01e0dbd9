//! Becoming the owner of one resource or of several, all or none.

use super::super::change::resource_changed;
use super::super::command::Acquire;
use super::super::outcome::{Blocked, Blocker, Place};
use super::super::queue::{KEPT_AFTER, TURN};
use super::super::rows::{AuditVerb, Life};
use super::{
    Context, Decision, Inconsistent, LeaseState, Member, Millis, Outcome, Refusal, Request, Snapshot,
    Timestamp, grant, newest_lease, repeat, ttl_of, write_down,
};
use crate::deliberate::{self, Bug};
use crate::domain::lease::WaitOrder;
use crate::protocol::Change;
use crate::protocol::write::table::stopped;

/// Acquires: in one step the old leases close, the tokens grow, the acquisition is recorded, and the floors rise where
/// the contract says so. What stands against it on any resource stands against all of it.
pub(in super::super) fn acquire(
    context: &Context<'_>,
    snapshot: &Snapshot,
    acquire: &Acquire,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut members = Vec::with_capacity(acquire.resources.len());
    for resource in &acquire.resources {
        match Member::find(context, snapshot, resource) {
            Ok(member) if member.namespace.definition().issuer.is_external() => {
                return Ok(Decision::refused(Refusal::IssuerExternal));
            }
            Ok(member) => members.push(member),
            Err(refusal) => return Ok(Decision::refused(refusal)),
        }
    }
    let ttl = match ttl_of(&members, acquire.ttl_ms) {
        Ok(ttl) => ttl,
        Err(error) => return Ok(Decision::refused(Refusal::TtlOutOfBounds(error))),
    };
    let request_key = acquire.request_key();
    if let Some(earlier) = snapshot.requested(&request_key) {
        return repeat(context, snapshot, earlier, (acquire.holder.as_ref(), acquire.ttl_ms), now);
    }
    let goes_on = deliberate::on(Bug::BreakerLetsIssuingGoOn);
    if let Some(refusal) = members.iter().find_map(|member| stopped(&member.namespace, &member.row))
        && !goes_on
    {
        return Ok(Decision::refused(refusal));
    }
    if members.iter().any(|member| member.row.life == Life::Cancelled) {
        return Ok(Decision::refused(Refusal::Cancelled));
    }
    // Whoever would wait would wait for nothing.
    if members.iter().any(|member| member.following().is_none()) {
        return Ok(Decision::refused(Refusal::TokenExhausted));
    }
    let request = Request {
        holder: acquire.holder.as_ref(),
        ttl,
        asked_ttl_ms: acquire.ttl_ms,
        id: acquire.request_id,
        key: request_key,
        nonce: acquire.nonce,
        verb: AuditVerb::Acquired,
    };
    let mut blockers = Vec::new();
    for member in &members {
        if let Some(blocker) = blocker(snapshot, member, &request, now)? {
            blockers.push(blocker);
        }
    }
    if blockers.is_empty() {
        return grant(context, snapshot, members, &request, None, now);
    }
    refused(snapshot, &members, acquire, blockers, now)
}

/// What stands against owning this resource now, and for how long.
fn blocker(
    snapshot: &Snapshot,
    member: &Member<'_>,
    request: &Request<'_>,
    now: Timestamp,
) -> Result<Option<Blocker>, Inconsistent> {
    let (row, rules) = (&member.row, &member.namespace.rules);
    let blocked = |why, until: Timestamp| {
        let free_in = now.until(until);
        Ok(Some(Blocker { resource: row.resource.clone(), why, free_in, place: None }))
    };
    let old = newest_lease(snapshot, row)?;
    let state = old.map(|old| old.state_at(now, row, &member.namespace.row));
    let free_from = match (old, state) {
        (Some(old), Some(state)) => old.free_from(state, row, rules.lock_delay),
        (Some(_) | None, _) => Timestamp::default(),
    };
    if let (Some(old), Some(true)) = (old, state.map(LeaseState::is_live)) {
        let position = old.position_on(&row.resource).unwrap_or(old.position);
        return blocked(Blocked::Held { position }, free_from);
    }
    let lingers = deliberate::on(Bug::LockDelayOutlivesItsEnd) && now == free_from;
    if now < free_from || lingers {
        return blocked(Blocked::LockDelay, free_from);
    }
    match rules.order {
        WaitOrder::Race => Ok(None),
        WaitOrder::Fifo => {
            let ahead = row.queue.ahead_of(&request.key, now);
            let turn = free_from.plus(TURN.times(u64::try_from(ahead).unwrap_or(u64::MAX)));
            if now < turn { blocked(Blocked::Queued, turn) } else { Ok(None) }
        }
    }
}

/// Nothing is granted. Expiries that were seen are written down, and a caller that waits in order takes its place on
/// all of its resources at once, so that two of them stand in the same order everywhere.
fn refused(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    acquire: &Acquire,
    mut blockers: Vec<Blocker>,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut changes: Vec<Change> = Vec::new();
    let key = acquire.request_key();
    for member in members {
        if let Some(old) = newest_lease(snapshot, &member.row)? {
            let state = old.state_at(now, &member.row, &member.namespace.row);
            if state == LeaseState::Expired {
                write_down(old, state, now, &mut changes);
            }
        }
        let Some(known) = member.known else { continue };
        let mut after = known.clone();
        if let (WaitOrder::Fifo, Some(wait)) = (member.namespace.rules.order, acquire.wait) {
            let until = now.plus(wait.left).plus(KEPT_AFTER);
            after.queue.join(&key, acquire.claim(), wait.begins, until, now);
        }
        if let Some(blocker) = blockers.iter_mut().find(|one| one.resource == known.resource)
            && let Some((number, before)) = after.queue.place_of(&key, now)
        {
            blocker.place = Some(Place { number, position: before.saturating_add(1) });
        }
        resource_changed(&mut changes, Some(known), after);
    }
    Ok(Decision { outcome: Outcome::Refused(Refusal::LeaseBlocked(blockers)), changes })
}

impl Blocker {
    /// What stands against an acquire for the longest time decides when to ask again.
    #[must_use]
    pub fn longest(blockers: &[Self]) -> Millis {
        blockers.iter().map(|one| one.free_in).max().unwrap_or_default()
    }
}
