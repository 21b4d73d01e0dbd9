//! Leases: who may own, until when (`protocol.md` section 5).
//!
//! Here stands what all commands on leases share: where a lease stands, how it ends, how it is granted. Each command
//! has a file of its own.

mod acquire;
mod grant;
mod housekeeping;
mod keep;
mod transfer;

use crate::deliberate::{self, Bug};
use crate::domain::lease::{AcquisitionHash, EndCause, Holder, LeaseState, Ttl, TtlBounds, TtlError};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::{Millis, Timestamp};

use super::outcome::LeaseView;
use super::rows::{AuditRow, AuditVerb, LeaseRow, NamespaceRow, ResourceRow};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot, forward};

pub(super) use acquire::acquire;
use grant::{Request, grant, granted};
pub use housekeeping::KEPT_AFTER_END;
pub(super) use housekeeping::{leave, sweep};
pub(super) use keep::{release, renew};
pub(super) use transfer::transfer;

impl LeaseRow {
    /// Where the lease stands at `now`, seen from one of its resources. Expiry is read off the clock until somebody
    /// has written it down; a lease below the newest issued position, or of an older epoch, is superseded however it
    /// had ended, unless its owner gave it back.
    #[must_use]
    pub fn state_at(&self, now: Timestamp, resource: &ResourceRow, namespace: &NamespaceRow) -> LeaseState {
        let position = self.position_on(&resource.resource).unwrap_or(self.position);
        let newer =
            position.is_below(resource.issued) || position.is_below(Position::start_of(namespace.epoch));
        let lives_on = deliberate::on(Bug::LeaseOutlivesItsEnd) && now == self.expires_at;
        match self.state {
            LeaseState::Released => LeaseState::Released,
            LeaseState::Superseded => LeaseState::Superseded,
            LeaseState::PendingBarrier | LeaseState::Held | LeaseState::Expired if newer => {
                LeaseState::Superseded
            }
            LeaseState::Expired => LeaseState::Expired,
            LeaseState::PendingBarrier | LeaseState::Held if now >= self.expires_at && !lives_on => {
                LeaseState::Expired
            }
            live @ (LeaseState::PendingBarrier | LeaseState::Held) => live,
        }
    }

    /// What is left of it at `now`, given its state.
    #[must_use]
    pub fn remaining_at(&self, now: Timestamp, state: LeaseState) -> Millis {
        match state {
            LeaseState::PendingBarrier | LeaseState::Held => now.until(self.expires_at),
            LeaseState::Released | LeaseState::Expired | LeaseState::Superseded => Millis::default(),
        }
    }

    /// From when on the resource is free for others, as far as this lease goes: after an expiry when the lock delay
    /// is over too, after every other end at once. A generation that was revoked has nothing left that the delay could
    /// protect from it: so a revoke ends the delay.
    #[must_use]
    pub fn free_from(&self, state: LeaseState, resource: &ResourceRow, lock_delay: Millis) -> Timestamp {
        let position = self.position_on(&resource.resource).unwrap_or(self.position);
        let revoked = resource.revoked_through.is_some_and(|mark| position.is_revoked_through(mark));
        let lock_delay = if revoked { Millis::default() } else { lock_delay };
        match (state, self.ended_at) {
            (LeaseState::PendingBarrier | LeaseState::Held | LeaseState::Expired, _) => {
                self.expires_at.plus(lock_delay)
            }
            // It had expired, and a successor on another of its resources has called it superseded since: the delay of
            // this one goes on.
            (LeaseState::Released | LeaseState::Superseded, Some(at)) if at >= self.expires_at => {
                at.plus(lock_delay)
            }
            (LeaseState::Released | LeaseState::Superseded, at) => at.unwrap_or_default(),
        }
    }

    /// The lease as its owner sees it, with what is to be known of its first resource.
    #[must_use]
    pub fn view_at(&self, now: Timestamp, resource: &ResourceRow, namespace: &NamespaceRow) -> LeaseView {
        let state = self.state_at(now, resource, namespace);
        LeaseView {
            lease: self.clone(),
            state,
            remaining: self.remaining_at(now, state),
            incarnation: resource.incarnation,
            life: resource.life,
            contract: namespace.definition.contract,
            policy: namespace.definition.policy,
        }
    }
}

/// After how long a resource can be acquired by somebody else, as far as its newest lease goes; zero when it can be now.
#[must_use]
pub fn free_in(
    lease: Option<&LeaseRow>,
    resource: &ResourceRow,
    namespace: &NamespaceRow,
    lock_delay: Millis,
    now: Timestamp,
) -> Millis {
    lease.map_or_else(Millis::default, |lease| {
        now.until(lease.free_from(lease.state_at(now, resource, namespace), resource, lock_delay))
    })
}

/// Everything that a command on one lease looks at.
struct Found<'a> {
    lease: &'a LeaseRow,
    /// Its resources, in canonical order.
    members: Vec<Member<'a>>,
}

/// One resource of a command on leases, with its namespace.
struct Member<'a> {
    /// The row, where there is one.
    known: Option<&'a ResourceRow>,
    /// The row, or the one that the first change starts from.
    row: ResourceRow,
    namespace: InForce,
}

impl<'a> Member<'a> {
    fn find(context: &Context<'_>, snapshot: &'a Snapshot, resource: &ResourceName) -> Result<Self, Refusal> {
        let namespace = InForce::find(context, snapshot, &resource.namespace())?;
        let known = snapshot.resource(resource);
        let mut row =
            known.cloned().unwrap_or_else(|| ResourceRow::unheard(resource.clone(), &namespace.row));
        if deliberate::on(Bug::CounterOnTheLease) {
            let live = newest_lease(snapshot, &row).ok().flatten().filter(|lease| lease.state.is_live());
            row.issued = live.and_then(|lease| lease.position_on(resource)).unwrap_or_default();
            row.floor = row.issued;
        }
        Ok(Self { known, row, namespace })
    }

    /// The position that is issued next; none when the tokens are used up.
    fn following(&self) -> Option<Position> {
        // Where another issuer served the namespace before, the floor stands above all that was issued here.
        self.row.issued.or_higher(self.row.floor).following_in(self.namespace.row.epoch)
    }
}

impl Found<'_> {
    /// Where the lease stands: it lives and ends as a whole, so one superseded member is enough.
    fn state_at(&self, now: Timestamp) -> LeaseState {
        let states = self.members.iter().map(|one| self.lease.state_at(now, &one.row, &one.namespace.row));
        states.max_by_key(|state| *state == LeaseState::Superseded).unwrap_or(self.lease.state)
    }

    /// Whether all of its resources have the barriers that it waits for. Nobody comes to own anything while the breaker
    /// is tripped.
    fn has_barriers(&self) -> bool {
        self.members.iter().all(|one| {
            if one.namespace.row.breaker.is_some() {
                return false;
            }
            let position = self.lease.position_on(&one.row.resource).unwrap_or(self.lease.position);
            forward::has_barrier(&one.namespace, &one.row, position)
        })
    }

    /// The lease, or another state of it, as its owner sees it. A row that has not ended as a whole has ended on none of
    /// its resources, so the first one tells.
    fn view(&self, lease: &LeaseRow, now: Timestamp) -> Result<LeaseView, Inconsistent> {
        let first = self.members.first().ok_or_else(|| Inconsistent::because("a lease has no resource"))?;
        Ok(lease.view_at(now, &first.row, &first.namespace.row))
    }

    /// The ttl asked for, which has to suit every resource.
    fn ttl(&self, asked: Option<u64>) -> Result<Ttl, TtlError> {
        ttl_of(&self.members, asked)
    }
}

/// The ttl asked for, within the bounds of every namespace; without one, the shortest default.
fn ttl_of(members: &[Member<'_>], asked: Option<u64>) -> Result<Ttl, TtlError> {
    let bounds: Vec<TtlBounds> = members.iter().map(|one| one.namespace.rules.ttl_in_force()).collect();
    let asked = asked.or_else(|| bounds.iter().map(|one| one.default.millis().get()).min());
    let mut ttl = Ttl::from_ms(asked.unwrap_or_default());
    for one in bounds {
        ttl = one.admit(asked)?;
    }
    Ok(ttl)
}

fn find<'a>(
    context: &Context<'_>,
    snapshot: &'a Snapshot,
    acquisition: AcquisitionHash,
) -> Result<Result<Found<'a>, Refusal>, Inconsistent> {
    let Some(lease) = snapshot.lease(&acquisition) else {
        return Ok(Err(Refusal::NoSuchLease));
    };
    let mut members = Vec::new();
    for (resource, _) in lease.members() {
        if snapshot.resource(resource).is_none() {
            // A tombstone is only folded long after the last of its leases ended, and then nobody knows them any more.
            if !lease.state.is_live() {
                return Ok(Err(Refusal::NoSuchLease));
            }
            return Err(Inconsistent::because(format!("a lease of {resource:?} has no resource row")));
        }
        match Member::find(context, snapshot, resource) {
            Ok(member) => members.push(member),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    Ok(Ok(Found { lease, members }))
}

/// The newest lease of a resource, which must be there when the row names one.
pub(super) fn newest_lease<'a>(
    snapshot: &'a Snapshot,
    row: &ResourceRow,
) -> Result<Option<&'a LeaseRow>, Inconsistent> {
    let Some(place) = row.lease else { return Ok(None) };
    match snapshot.lease(&place.acquisition) {
        Some(lease) => Ok(Some(lease)),
        None => Err(Inconsistent::because(format!("the newest lease of {:?} has no row", row.resource))),
    }
}

/// A lease that somebody's act ends now.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) state: LeaseState,
    pub(super) cause: Option<EndCause>,
    pub(super) at: Timestamp,
}

/// Ends a lease that nobody has ended yet. A released one stays released, always.
fn close(lease: &LeaseRow, end: End, changes: &mut Vec<Change>) {
    match lease.state {
        LeaseState::PendingBarrier | LeaseState::Held | LeaseState::Expired => {
            end_lease(lease, end, changes);
        }
        LeaseState::Released | LeaseState::Superseded => {}
    }
}

/// Writes down that a lease has ended. Expiry is sticky: whoever sees it first writes it down, with the time at which
/// it came.
pub(super) fn write_down(lease: &LeaseRow, state: LeaseState, now: Timestamp, changes: &mut Vec<Change>) {
    end_lease(lease, End { state, cause: None, at: now }, changes);
}

/// Writes the end of a lease down.
pub(super) fn end_lease(lease: &LeaseRow, end: End, changes: &mut Vec<Change>) {
    if lease.state == end.state {
        return;
    }
    let mut after = lease.clone();
    after.state = end.state;
    after.cause = end.cause.or(lease.cause);
    // What had ended before ended then, whatever it is called later, and an expiry that nobody saw came when it came.
    after.ended_at = lease.ended_at.or(Some(end.at.min(lease.expires_at)));
    let change = changed(lease, after);
    // Two members of one batch see the same end; written down twice, the second would no longer fit its row.
    if !changes.contains(&change) {
        changes.push(change);
        told(lease, end, changes);
    }
}

/// Tells each resource of a lease that was live how it ended. What had ended before was told then, and what comes after
/// it is told by itself: so a successor costs the record of its predecessor nothing.
fn told(lease: &LeaseRow, end: End, changes: &mut Vec<Change>) {
    if !lease.state.is_live() {
        return;
    }
    let verb = match end.state {
        LeaseState::Released => AuditVerb::Released,
        LeaseState::Superseded if end.at < lease.expires_at => AuditVerb::Superseded,
        LeaseState::Expired | LeaseState::Superseded => AuditVerb::Expired,
        // It goes on.
        LeaseState::PendingBarrier | LeaseState::Held => return,
    };
    for (resource, position) in lease.members() {
        changes.push(Change::Audited(AuditRow {
            subject: resource.clone().into(),
            verb,
            position,
            reason: end.cause.map(|cause| cause.word().to_owned()),
            holder: lease.holder.clone(),
            actor: None,
            at: end.at.min(lease.expires_at),
        }));
    }
}

fn changed(before: &LeaseRow, after: LeaseRow) -> Change {
    Change::LeaseChanged { before: Box::new(before.clone()), after: Box::new(after) }
}

/// A lease that has ended is told how, and its end is written down.
fn ended(found: &Found<'_>, state: LeaseState, now: Timestamp) -> Decision {
    let mut changes = Vec::new();
    write_down(found.lease, state, now, &mut changes);
    let cause = found.lease.cause;
    Decision { outcome: Outcome::Refused(Refusal::LeaseEnded { state, cause }), changes }
}

/// A request id that was seen before: the same acquisition while it lives, its end afterwards, never a new lease.
fn repeat(
    context: &Context<'_>,
    snapshot: &Snapshot,
    earlier: &LeaseRow,
    asked: (Option<&Holder>, Option<u64>),
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    if (earlier.holder.as_ref(), earlier.asked_ttl_ms) != asked {
        return Ok(Decision::refused(Refusal::RequestMismatch));
    }
    let found = match find(context, snapshot, earlier.acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    match found.state_at(now) {
        LeaseState::PendingBarrier if found.has_barriers() => {
            let held = forward::held(earlier, now);
            let mut after = earlier.clone();
            if let Change::LeaseChanged { before: _, after: held } = &held {
                after = held.as_ref().clone();
            }
            let view = found.view(&after, now)?;
            let outcome = granted(context, &after, view, true)?;
            Ok(Decision { outcome, changes: vec![held] })
        }
        LeaseState::PendingBarrier | LeaseState::Held => {
            let view = found.view(earlier, now)?;
            Ok(Decision::unchanged(granted(context, earlier, view, true)?))
        }
        state @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => {
            Ok(ended(&found, state, now))
        }
    }
}
