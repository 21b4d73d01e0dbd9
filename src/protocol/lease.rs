//! Leases: who may own, until when (`protocol.md` section 5).

use crate::domain::lease::{AcquisitionHash, LeaseState, Ttl};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::{Millis, Timestamp};

use super::change::resource_changed;
use super::command::{Acquire, Release, Renew};
use super::outcome::{Grant, LeaseView, SealedToken};
use super::rows::{AuditRow, AuditVerb, LeaseRow, Life, NamespaceRow, ResourceRow};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot};

impl LeaseRow {
    /// Where the lease stands at `now`. Expiry is read off the clock until somebody has written it down; a lease
    /// below the newest issued position, or of an older epoch, is superseded however it had ended, unless its owner
    /// gave it back.
    #[must_use]
    pub fn state_at(&self, now: Timestamp, resource: &ResourceRow, namespace: &NamespaceRow) -> LeaseState {
        let newer = self.position.is_below(resource.issued)
            || self.position.is_below(Position::start_of(namespace.epoch));
        match self.state {
            LeaseState::Released => LeaseState::Released,
            LeaseState::Superseded => LeaseState::Superseded,
            LeaseState::Held | LeaseState::Expired if newer => LeaseState::Superseded,
            LeaseState::Expired => LeaseState::Expired,
            LeaseState::Held if now >= self.expires_at => LeaseState::Expired,
            LeaseState::Held => LeaseState::Held,
        }
    }

    /// What is left of it at `now`, given its state.
    #[must_use]
    pub fn remaining_at(&self, now: Timestamp, state: LeaseState) -> Millis {
        match state {
            LeaseState::Held => now.until(self.expires_at),
            LeaseState::Released | LeaseState::Expired | LeaseState::Superseded => Millis::default(),
        }
    }

    /// The lease as its owner sees it.
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

/// Everything that a command on one lease looks at.
struct Found<'a> {
    lease: &'a LeaseRow,
    resource: &'a ResourceRow,
    namespace: InForce,
}

/// Acquires a resource: in one step the old lease closes, the token grows, the acquisition is recorded, and the floor
/// rises where the contract says so.
pub(super) fn acquire(
    context: &Context<'_>,
    snapshot: &Snapshot,
    acquire: &Acquire,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let namespace = match InForce::find(context, snapshot, &acquire.resource.namespace()) {
        Ok(namespace) => namespace,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    if namespace.definition().issuer.is_external() {
        return Ok(Decision::refused(Refusal::IssuerExternal));
    }
    let ttl = match namespace.rules.ttl.admit(acquire.ttl_ms) {
        Ok(ttl) => ttl,
        Err(error) => return Ok(Decision::refused(Refusal::TtlOutOfBounds(error))),
    };
    if let Some(earlier) = snapshot.requested(&acquire.request_key()) {
        return repeat(context, snapshot, acquire, earlier, now);
    }
    let known = snapshot.resource(&acquire.resource);
    let row =
        known.cloned().unwrap_or_else(|| ResourceRow::unheard(acquire.resource.clone(), &namespace.row));
    if row.life == Life::Cancelled {
        return Ok(Decision::refused(Refusal::Cancelled));
    }
    let old = newest_lease(snapshot, &row)?;
    if let Some(old) = old
        && old.state_at(now, &row, &namespace.row) == LeaseState::Held
    {
        let remaining = old.remaining_at(now, LeaseState::Held);
        return Ok(Decision::refused(Refusal::LeaseHeld { remaining, position: old.position }));
    }
    let Some(position) = row.issued.following_in(namespace.row.epoch) else {
        return Ok(Decision::refused(Refusal::TokenExhausted));
    };
    let lease = new_lease(context, acquire, position, ttl, now)?;
    let mut changes = Vec::new();
    namespace.record(&mut changes);
    if let Some(old) = old {
        close(old, LeaseState::Superseded, &mut changes);
    }
    let mut after = row;
    after.issued = position;
    if namespace.definition().raises_floor_on_acquire() {
        after.floor = after.floor.or_higher(position);
    }
    after.lease = Some(lease.acquisition);
    after.changed_at = now;
    let grant = granted(context, &lease, lease.view_at(now, &after, &namespace.row), false)?;
    resource_changed(&mut changes, known, after);
    changes.push(audit(&lease));
    changes.push(Change::LeaseGranted(Box::new(lease)));
    Ok(Decision { outcome: grant, changes })
}

/// Renews a lease that is live, and nobody else's; an ended one is never brought back.
pub(super) fn renew(
    context: &Context<'_>,
    snapshot: &Snapshot,
    renew: &Renew,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let found = match find(context, snapshot, renew.acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let asked = match renew.ttl_ms.map(|ms| found.namespace.rules.ttl.admit(Some(ms))).transpose() {
        Ok(asked) => asked,
        Err(error) => return Ok(Decision::refused(Refusal::TtlOutOfBounds(error))),
    };
    match found.lease.state_at(now, found.resource, &found.namespace.row) {
        LeaseState::Held => {}
        ended @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => {
            let mut changes = Vec::new();
            write_down(found.lease, ended, &mut changes);
            return Ok(Decision { outcome: Outcome::Refused(Refusal::LeaseEnded(ended)), changes });
        }
    }
    let ttl = asked.unwrap_or(found.lease.ttl);
    let mut after = found.lease.clone();
    after.ttl = ttl;
    after.expires_at = now.plus(ttl.millis());
    let view = after.view_at(now, found.resource, &found.namespace.row);
    let changes = vec![changed(found.lease, after)];
    Ok(Decision { outcome: Outcome::Renewed(Box::new(view)), changes })
}

/// Releases a lease; an ended one answers with the state that it has. The floor stays where it is.
pub(super) fn release(
    context: &Context<'_>,
    snapshot: &Snapshot,
    release: &Release,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let found = match find(context, snapshot, release.acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let ended = match found.lease.state_at(now, found.resource, &found.namespace.row) {
        LeaseState::Held => LeaseState::Released,
        ended @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => ended,
    };
    let mut after = found.lease.clone();
    after.state = ended;
    let view = after.view_at(now, found.resource, &found.namespace.row);
    let mut changes = Vec::new();
    write_down(found.lease, ended, &mut changes);
    Ok(Decision { outcome: Outcome::Released(Box::new(view)), changes })
}

/// The newest lease of a resource, which must be there when the row names one.
pub(super) fn newest_lease<'a>(
    snapshot: &'a Snapshot,
    row: &ResourceRow,
) -> Result<Option<&'a LeaseRow>, Inconsistent> {
    let Some(acquisition) = row.lease else { return Ok(None) };
    match snapshot.lease(&acquisition) {
        Some(lease) => Ok(Some(lease)),
        None => Err(Inconsistent::because(format!("the newest lease of {:?} has no row", row.resource))),
    }
}

/// Ends a lease that nobody has ended yet. A released one stays released, always.
fn close(lease: &LeaseRow, state: LeaseState, changes: &mut Vec<Change>) {
    match lease.state {
        LeaseState::Held | LeaseState::Expired => write_down(lease, state, changes),
        LeaseState::Released | LeaseState::Superseded => {}
    }
}

/// Expiry is sticky: whoever sees it first writes it down.
pub(super) fn write_down(lease: &LeaseRow, state: LeaseState, changes: &mut Vec<Change>) {
    if lease.state != state {
        let mut after = lease.clone();
        after.state = state;
        let change = changed(lease, after);
        // Two members of one batch see the same expiry; written down twice, the second would no longer fit its row.
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
}

fn changed(before: &LeaseRow, after: LeaseRow) -> Change {
    Change::LeaseChanged { before: Box::new(before.clone()), after: Box::new(after) }
}

fn audit(lease: &LeaseRow) -> Change {
    Change::Audited(AuditRow {
        resource: lease.resource.clone(),
        verb: AuditVerb::Acquired,
        position: lease.position,
        reason: None,
        at: lease.granted_at,
    })
}

/// A request id that was seen before: the same acquisition while it lives, its end afterwards, never a new lease.
fn repeat(
    context: &Context<'_>,
    snapshot: &Snapshot,
    acquire: &Acquire,
    earlier: &LeaseRow,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    if earlier.holder != acquire.holder || earlier.asked_ttl_ms != acquire.ttl_ms {
        return Ok(Decision::refused(Refusal::RequestMismatch));
    }
    let found = match find(context, snapshot, earlier.acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let view = earlier.view_at(now, found.resource, &found.namespace.row);
    match view.state {
        LeaseState::Held => Ok(Decision::unchanged(granted(context, earlier, view, true)?)),
        ended @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => {
            let mut changes = Vec::new();
            write_down(earlier, ended, &mut changes);
            Ok(Decision { outcome: Outcome::Refused(Refusal::LeaseEnded(ended)), changes })
        }
    }
}

fn find<'a>(
    context: &Context<'_>,
    snapshot: &'a Snapshot,
    acquisition: AcquisitionHash,
) -> Result<Result<Found<'a>, Refusal>, Inconsistent> {
    let Some(lease) = snapshot.lease(&acquisition) else {
        return Ok(Err(Refusal::NoSuchLease));
    };
    let Some(resource) = snapshot.resource(&lease.resource) else {
        return Err(Inconsistent::because(format!("a lease of {:?} has no resource row", lease.resource)));
    };
    Ok(InForce::find(context, snapshot, &lease.resource.namespace()).map(|namespace| Found {
        lease,
        resource,
        namespace,
    }))
}

fn new_lease(
    context: &Context<'_>,
    acquire: &Acquire,
    position: Position,
    ttl: Ttl,
    now: Timestamp,
) -> Result<LeaseRow, Inconsistent> {
    let key_id = context.keyring.active().id();
    let id = acquisition_id(context, key_id, &acquire.resource, position, &acquire.nonce)?;
    Ok(LeaseRow {
        acquisition: id.hash(),
        nonce: acquire.nonce,
        key_id,
        resource: acquire.resource.clone(),
        position,
        holder: acquire.holder.clone(),
        ttl,
        asked_ttl_ms: acquire.ttl_ms,
        request_id: acquire.request_id,
        request_key: acquire.request_key(),
        granted_at: now,
        expires_at: now.plus(ttl.millis()),
        state: LeaseState::Held,
    })
}

fn acquisition_id(
    context: &Context<'_>,
    key_id: crate::domain::seal::KeyId,
    resource: &ResourceName,
    position: Position,
    nonce: &[u8; 16],
) -> Result<crate::domain::lease::AcquisitionId, Inconsistent> {
    context.keyring.acquisition_id(key_id, resource, position, nonce).ok_or_else(|| {
        Inconsistent::because(format!("seal key {key_id} made a lease and is not in the keyring"))
    })
}

fn granted(
    context: &Context<'_>,
    lease: &LeaseRow,
    view: LeaseView,
    repeated: bool,
) -> Result<Outcome, Inconsistent> {
    let acquisition_id =
        acquisition_id(context, lease.key_id, &lease.resource, lease.position, &lease.nonce)?;
    let token = context
        .keyring
        .seal(context.database, &lease.resource, lease.position, &lease.acquisition)
        .ok_or_else(|| Inconsistent::because("the active seal key cannot seal"))?;
    Ok(Outcome::Granted(Box::new(Grant {
        acquisition_id,
        fencing_token: SealedToken(token),
        view,
        repeated,
    })))
}
