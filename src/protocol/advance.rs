//! Raising the floor without writing; for `registered` issuers, registering a position.

use crate::deliberate::{self, Bug};
use crate::domain::time::Timestamp;

use super::change::resource_changed;
use super::command::Advance;
use super::rows::{AuditRow, AuditVerb, Life};
use super::write::{row_of, table};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot};

/// Judged by rows 7 to 13 of the table, like every act of an owner, except that raising the floor is what an advance
/// is for (row 11), and that a deleted resource may be advanced: so a registered position above its tombstone can
/// create it again.
pub(super) fn decide(
    context: &Context<'_>,
    snapshot: &Snapshot,
    advance: &Advance,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let namespace = match InForce::find(context, snapshot, &advance.resource.namespace()) {
        Ok(namespace) => namespace,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let known = snapshot.resource(&advance.resource);
    let row = row_of(snapshot, &advance.resource, &namespace);
    let claim = &advance.claim;
    if let Some(refusal) = table::stopped(&namespace, &row) {
        return Ok(Decision::refused(refusal));
    }
    if row.life == Life::Cancelled {
        return Ok(Decision::refused(Refusal::Cancelled));
    }
    if let Some(refusal) = table::sealed(snapshot, &namespace, &row, claim) {
        return Ok(Decision::refused(refusal));
    }
    if claim.position.epoch > namespace.row.epoch {
        return Ok(Decision::refused(Refusal::EpochAhead { epoch: namespace.row.epoch }));
    }
    let unfenced = deliberate::on(Bug::RouteWithoutTheFence);
    if table::is_stale(&namespace, &row, claim.position) && !unfenced {
        return Ok(Decision::refused(table::stale(&namespace, claim)));
    }
    let mut changes = Vec::new();
    if let Some(refusal) = table::lease_bound(snapshot, &namespace, &row, claim, now, &mut changes)? {
        return Ok(Decision { outcome: Outcome::Refused(refusal), changes });
    }
    let mut after = row;
    if claim.position.is_above(after.floor) {
        namespace.record(&mut changes);
        after.floor = claim.position;
        after.changed_at = now;
        changes.push(Change::Audited(AuditRow {
            subject: advance.resource.clone().into(),
            verb: AuditVerb::Advanced,
            position: claim.position,
            reason: Some(advance.reason.clone()),
            holder: None,
            actor: None,
            at: now,
        }));
        resource_changed(&mut changes, known, after.clone());
    }
    Ok(Decision { outcome: Outcome::Advanced(Box::new(after)), changes })
}
