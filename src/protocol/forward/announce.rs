//! Row 19 of a store behind HTTP: the floor is raised and the effect is announced, before any byte is sent.

use crate::deliberate::{self, Bug};
use crate::domain::operation::OperationState;
use crate::domain::time::Timestamp;
use crate::domain::upstream::{Base, Class};

use super::super::command::{Before, Forward, Member};
use super::super::outcome::{Act, Attempt};
use super::super::rows::{ForwardedHead, IntentRow, OperationRecord};
use super::super::write::table::acquisition_of;
use super::super::{Change, Context, Decision, Inconsistent, Outcome, Snapshot};
use super::{Scene, incarnation_of};

/// Announces a write that the table admits.
pub(in super::super) fn announce(
    context: &Context<'_>,
    snapshot: &Snapshot,
    member: &Member,
    forward: &Forward,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut scene = Scene::find(context, snapshot, &member.address.resource, now)?
        .map_err(|_| Inconsistent::because("an admitted write has no namespace"))?;
    let position = member.claim.position;
    scene.row.floor = scene.row.floor.or_higher(position);
    scene.row.changed_at = now;
    let base = match (&scene.class, &scene.row.cell) {
        (Class::Conditional, Some(validator)) => Base::Recorded(validator.clone()),
        (Class::Conditional, None) | (Class::FenceAware | Class::Idempotent | Class::Serial, _) => {
            Base::Unread
        }
    };
    if deliberate::on(Bug::RefuseTheOlder) {
        let is_older = |intent: &&IntentRow| intent.record.position.is_below(position);
        let older: Vec<IntentRow> = scene.undecided().filter(is_older).cloned().collect();
        for older in &older {
            scene.withdraw(older);
        }
    }
    let intent = IntentRow {
        record: record(&scene, member, now),
        named: member.incarnation,
        preconditions: member.preconditions.clone(),
        request: ForwardedHead {
            query: forward.query.clone(),
            headers: forward.headers.clone(),
            content_type: forward.content_type.clone(),
            length: forward.payload.length,
            digest: forward.payload.digest,
        },
        base,
        doubt: false,
        due_at: scene.after_an_attempt(),
        claim: forward.claim,
    };
    scene
        .changes
        .push(Change::IntentAnnounced { row: Box::new(intent.clone()), payload: forward.payload.clone() });
    let attempt = first_step(&scene, intent, forward);
    Ok(scene.ended(Outcome::Announced(Box::new(attempt))))
}

/// The announcement that this very delivery made, when the commit of it was in doubt and it is evaluated again.
pub(in super::super) fn announced_before(
    context: &Context<'_>,
    snapshot: &Snapshot,
    member: &Member,
    now: Timestamp,
) -> Result<Option<Attempt>, Inconsistent> {
    let Some(forward) = &member.forward else { return Ok(None) };
    let resource = &member.address.resource;
    let own = snapshot.intents_of(resource).find(|intent| {
        intent.record.operation_id == member.operation_id
            && intent.claim == forward.claim
            && super::is_current(intent, 1)
    });
    let Some(intent) = own else { return Ok(None) };
    let Ok(scene) = Scene::find(context, snapshot, resource, now)? else { return Ok(None) };
    if scene.is_stopped() {
        return Ok(None);
    }
    Ok(Some(first_step(&scene, intent.clone(), forward)))
}

/// A cell whose state is not known is read before anything is sent.
fn first_step(scene: &Scene<'_>, intent: IntentRow, forward: &Forward) -> Attempt {
    let act = match (&scene.class, &intent.base) {
        (Class::Conditional, Base::Unread) => Act::ReadCell,
        (Class::Conditional, Base::Absent | Base::Recorded(_))
        | (Class::FenceAware | Class::Idempotent | Class::Serial, _) => Act::Send(scene.stamp_of(&intent)),
    };
    let told = scene.told(&intent, Before::Nothing);
    let left = scene.left(&intent);
    Attempt { intent, payload: Some(forward.payload.clone()), act, ask_first: false, left, told }
}

fn record(scene: &Scene<'_>, member: &Member, now: Timestamp) -> OperationRecord {
    OperationRecord {
        resource: member.address.resource.clone(),
        incarnation: incarnation_of(&scene.row, member.method),
        operation_id: member.operation_id.clone(),
        target: member.address.target.clone(),
        method: member.method,
        fingerprint: member.fingerprint,
        position: member.claim.position,
        sequence: member.sequence,
        acquisition: acquisition_of(&member.claim),
        state: OperationState::Intent,
        attempt: 1,
        response: None,
        created_at: now,
        decided_at: None,
        resolution: None,
    }
}
