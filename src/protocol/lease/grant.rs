//! Granting: what an acquire and a transfer have in common.

use uuid::Uuid;

use super::super::change::resource_changed;
use super::super::outcome::{Grant, LeaseView, SealedToken};
use super::super::rows::{AuditRow, AuditVerb, LeaseMember, LeaseRow, RequestKey};
use super::super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot, forward};
use super::{End, Member, close, newest_lease};
use crate::domain::lease::{AcquisitionId, EndCause, Holder, LeaseState, Ttl};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::seal::KeyId;
use crate::domain::time::Timestamp;

/// What a grant is made for.
pub(super) struct Request<'r> {
    pub(super) holder: Option<&'r Holder>,
    pub(super) ttl: Ttl,
    pub(super) asked_ttl_ms: Option<u64>,
    pub(super) id: Uuid,
    pub(super) key: RequestKey,
    pub(super) nonce: [u8; 16],
    pub(super) verb: AuditVerb,
}

/// Grants all resources at once: each token grows by one, the floor rises where the contract says so, and earlier
/// leases close.
pub(super) fn grant(
    context: &Context<'_>,
    snapshot: &Snapshot,
    members: Vec<Member<'_>>,
    request: &Request<'_>,
    cause: Option<EndCause>,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut positions = Vec::with_capacity(members.len());
    for member in &members {
        let Some(position) = member.following() else {
            return Ok(Decision::refused(Refusal::TokenExhausted));
        };
        positions.push(position);
    }
    let mut members = members;
    let mut state = LeaseState::Held;
    for (member, position) in members.iter_mut().zip(&positions) {
        if !forward::stands_at_once(snapshot, &member.namespace, &mut member.row, *position) {
            state = LeaseState::PendingBarrier;
        }
    }
    let lease = LeaseRow { state, ..new_lease(context, &members, &positions, request, now)? };
    let (mut changes, mut view) = (Vec::new(), None);
    for (member, position) in members.into_iter().zip(positions) {
        let Member { known, row, namespace } = member;
        record_once(&namespace, &mut changes);
        if let Some(old) = newest_lease(snapshot, &row)? {
            close(old, End { state: LeaseState::Superseded, cause, at: now }, &mut changes);
        }
        let mut after = row;
        after.issued = position;
        if namespace.definition().raises_floor_on_acquire() {
            after.floor = after.floor.or_higher(position);
        }
        after.lease = Some(lease.place());
        after.queue.serve(&request.key, now);
        after.changed_at = now;
        if view.is_none() {
            view = Some(lease.view_at(now, &after, &namespace.row));
        }
        changes.push(Change::Audited(AuditRow {
            subject: after.resource.clone().into(),
            verb: request.verb,
            position,
            reason: None,
            holder: request.holder.cloned(),
            actor: None,
            at: now,
        }));
        resource_changed(&mut changes, known, after);
    }
    let view = view.ok_or_else(|| Inconsistent::because("a lease of no resource"))?;
    let outcome = granted(context, &lease, view, false)?;
    changes.push(Change::LeaseGranted(Box::new(lease)));
    Ok(Decision { outcome, changes })
}

/// Records the first use of a namespace, once for all resources of it.
fn record_once(namespace: &InForce, changes: &mut Vec<Change>) {
    let name = &namespace.row.namespace;
    let recorded =
        |change: &Change| matches!(change, Change::NamespaceRecorded(row) if row.namespace == *name);
    if !changes.iter().any(recorded) {
        namespace.record(changes);
    }
}

fn new_lease(
    context: &Context<'_>,
    members: &[Member<'_>],
    positions: &[Position],
    request: &Request<'_>,
    now: Timestamp,
) -> Result<LeaseRow, Inconsistent> {
    let mut owned = members
        .iter()
        .zip(positions)
        .map(|(member, position)| LeaseMember { resource: member.row.resource.clone(), position: *position });
    let first = owned.next().ok_or_else(|| Inconsistent::because("a lease of no resource"))?;
    let key_id = context.keyring.active().id();
    let id = acquisition_id(context, key_id, &first.resource, first.position, &request.nonce)?;
    Ok(LeaseRow {
        acquisition: id.hash(),
        nonce: request.nonce,
        key_id,
        resource: first.resource,
        position: first.position,
        others: owned.collect(),
        holder: request.holder.cloned(),
        ttl: request.ttl,
        asked_ttl_ms: request.asked_ttl_ms,
        request_id: request.id,
        request_key: request.key,
        granted_at: now,
        expires_at: now.plus(request.ttl.millis()),
        state: LeaseState::Held,
        ended_at: None,
        cause: None,
    })
}

fn acquisition_id(
    context: &Context<'_>,
    key_id: KeyId,
    resource: &ResourceName,
    position: Position,
    nonce: &[u8; 16],
) -> Result<AcquisitionId, Inconsistent> {
    context.keyring.acquisition_id(key_id, resource, position, nonce).ok_or_else(|| {
        Inconsistent::because(format!("seal key {key_id} made a lease and is not in the keyring"))
    })
}

/// The grant of a lease, new or repeated, with a sealed token for each resource.
pub(super) fn granted(
    context: &Context<'_>,
    lease: &LeaseRow,
    view: LeaseView,
    repeated: bool,
) -> Result<Outcome, Inconsistent> {
    let acquisition_id =
        acquisition_id(context, lease.key_id, &lease.resource, lease.position, &lease.nonce)?;
    let mut fencing_tokens = Vec::with_capacity(lease.others.len().saturating_add(1));
    // Who waits for a barrier does not own yet, and gets no token.
    let owned = lease.members().filter(|_| view.state != LeaseState::PendingBarrier);
    for (resource, position) in owned {
        let token = context
            .keyring
            .seal(context.database, resource, position, &lease.acquisition)
            .ok_or_else(|| Inconsistent::because("the active seal key cannot seal"))?;
        fencing_tokens.push(SealedToken(token));
    }
    Ok(Outcome::Granted(Box::new(Grant { acquisition_id, fencing_tokens, view, repeated })))
}
