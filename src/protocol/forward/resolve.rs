//! A person says how a doubt ended that the gateway could not end by looking. It is recorded, audited, and never undone.

use crate::domain::operation::OperationState;
use crate::domain::time::Timestamp;

use super::super::command::{Resolve, ResolveVerdict};
use super::super::outcome::Refusal;
use super::super::rows::{AuditRow, AuditVerb, IntentRow, OperationRecord, Resolution};
use super::super::{Change, Context, Decision, Inconsistent, Outcome, Snapshot};
use super::Scene;
use super::effect::Evidence;

pub(in super::super) fn resolve(
    context: &Context<'_>,
    snapshot: &Snapshot,
    resolve: &Resolve,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let key = (resolve.resource.clone(), resolve.incarnation, resolve.operation_id.clone());
    if let Some(record) = snapshot.operation(&key) {
        return Ok(resolved_before(record, resolve.verdict));
    }
    let Some(intent) = snapshot.intent(&key) else {
        return Ok(Decision::refused(Refusal::NoSuchOperation));
    };
    if intent.record.state != OperationState::Uncertain {
        return Ok(Decision::refused(Refusal::NotUncertain));
    }
    let mut scene = match Scene::find(context, snapshot, &resolve.resource, now)? {
        Ok(scene) => scene,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let record = end(&mut scene, intent, resolve)?;
    scene.changes.push(Change::Audited(AuditRow {
        subject: resolve.resource.clone().into(),
        verb: AuditVerb::Resolved,
        position: intent.record.position,
        reason: Some(format!(
            "{} as {}: {} (evidence: {})",
            resolve.operation_id,
            resolve.verdict.word(),
            resolve.reason,
            resolve.evidence
        )),
        holder: None,
        actor: None,
        at: now,
    }));
    Ok(scene.ended(Outcome::Resolved(Box::new(record))))
}

fn end(
    scene: &mut Scene<'_>,
    intent: &IntentRow,
    resolve: &Resolve,
) -> Result<OperationRecord, Inconsistent> {
    let resolution =
        Resolution { assumed: false, evidence: resolve.evidence.clone(), reason: resolve.reason.clone() };
    match resolve.verdict {
        ResolveVerdict::NotApplied => Ok(scene.not_applied(intent, resolution)),
        ResolveVerdict::Applied => {
            let evidence = Evidence { relayed: None, validator: None, resolution: Some(resolution.clone()) };
            let written = scene.apply(intent, evidence)?;
            let mut record = intent.record.clone();
            record.state = OperationState::ResolvedApplied;
            record.response = Some(written.response);
            record.decided_at = Some(scene.now);
            record.resolution = Some(resolution);
            Ok(record)
        }
    }
}

/// The same verdict again is answered as the first time; another one comes too late.
fn resolved_before(record: &OperationRecord, verdict: ResolveVerdict) -> Decision {
    let same = match verdict {
        ResolveVerdict::Applied => {
            matches!(record.state, OperationState::Applied | OperationState::ResolvedApplied)
        }
        ResolveVerdict::NotApplied => {
            matches!(record.state, OperationState::Refused | OperationState::ResolvedNotApplied)
        }
    };
    if same {
        Decision::unchanged(Outcome::Resolved(Box::new(record.clone())))
    } else {
        Decision::refused(Refusal::AlreadyResolved { state: record.state })
    }
}
