//! One way per row of the table to make that row match a scene.
//!
//! A spoiler looks at what earlier spoilers made of the scene and adds its own row on top, so that any two of them
//! can be put together: then the earlier row must win.

use fencegate::domain::counter::Epoch;
use fencegate::domain::lease::LeaseState;
use fencegate::domain::operation::{Fingerprint, Method, OperationState};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy};
use fencegate::protocol::rows::Life;

use super::scene::{MAX_JUMP, OURS, PATH, RESOURCE, Scene, is_gateway, is_ordered};
use crate::support::code::Code;
use crate::support::world::{at, name};

/// What stands below the table for a removal of what is not there.
pub(super) const BELOW: u8 = 20;

/// A row of the table, the word that it answers, where it applies, and how a scene comes to match it.
pub(super) struct Spoiler {
    pub(super) row: u8,
    pub(super) name: &'static str,
    pub(super) code: Code,
    pub(super) applies: fn(&Definition) -> bool,
    pub(super) spoil: fn(&mut Scene),
}

fn everywhere(_: &Definition) -> bool {
    true
}

/// Every row, in the order in which a scene must be spoiled: what a later row looks at is put in place by then.
pub(super) fn spoilers() -> Vec<Spoiler> {
    let mut all = claims();
    all.extend(lives());
    all.extend(fences());
    all.extend(policies());
    all.extend(conditions());
    all.extend(records());
    all
}

/// Rows 8 to 11.
fn claims() -> Vec<Spoiler> {
    let bounded =
        |definition: &Definition| matches!(definition.issuer, Issuer::Trusted { max_jump: Some(_) });
    let registered = |definition: &Definition| definition.issuer == Issuer::Registered;
    vec![
        spoiler(10, "an epoch ahead", Code::EpochAhead, everywhere, |scene| {
            scene.present(at(3, OURS));
            // Only rows that contradict themselves let a gateway's own seal reach row 10; row 9 stands before it.
            if is_gateway(scene.world.definition()) {
                scene.alter(|row| row.issued = at(3, 99));
            }
        }),
        spoiler(9, "a seal above issued", Code::IssuerBehind, is_gateway, |scene| {
            let issued = scene.position();
            scene.alter(|row| row.issued = issued);
            let next = issued.following_in(Epoch::ZERO).unwrap();
            scene.present(next);
        }),
        spoiler(11, "a jump", Code::TokenJump, bounded, |scene| {
            scene.present(at(scene.position().epoch.get(), 8 + MAX_JUMP + 1));
        }),
        spoiler(11, "not registered", Code::AdvanceForbidden, registered, |scene| {
            scene.present(at(scene.position().epoch.get(), OURS + 1));
        }),
        spoiler(8, "a bare number", Code::SealMissing, is_gateway, |scene| {
            scene.draft.token = scene.position().to_string();
        }),
        spoiler(8, "a seal of another resource", Code::SealWrong, is_gateway, |scene| {
            scene.draft.token = scene.world.sealed("w/other", scene.position());
        }),
        spoiler(8, "of another acquisition", Code::SealWrong, is_gateway, |scene| {
            scene.draft.token = scene.world.sealed(RESOURCE, scene.position());
        }),
    ]
}

/// Rows 6 and 7.
fn lives() -> Vec<Spoiler> {
    vec![
        spoiler(5, "the breaker", Code::Stopped, everywhere, |scene| scene.world.trip()),
        spoiler(5, "quarantined", Code::Quarantined, everywhere, |scene| {
            scene.alter(|row| row.quarantined = Some("it has vanished".to_owned()));
        }),
        spoiler(7, "cancelled", Code::Cancelled, everywhere, |scene| {
            scene.alter(|row| row.life = Life::Cancelled);
        }),
        spoiler(7, "deleted, an update", Code::Deleted, everywhere, |scene| {
            scene.alter(|row| row.life = Life::Deleted);
            scene.draft.incarnation = Some(2);
        }),
        spoiler(7, "deleted, a revoked position", Code::Deleted, everywhere, |scene| {
            let position = scene.position();
            scene.alter(|row| (row.life, row.revoked_through) = (Life::Deleted, Some(position)));
        }),
        spoiler(6, "an earlier incarnation", Code::IncarnationGone, everywhere, |scene| {
            scene.draft.incarnation = Some(1);
        }),
        spoiler(6, "a later incarnation", Code::IncarnationGone, everywhere, |scene| {
            scene.draft.incarnation = Some(3);
        }),
    ]
}

/// Rows 12 and 13.
fn fences() -> Vec<Spoiler> {
    fn bound(definition: &Definition) -> bool {
        definition.contract == Contract::LeaseBound
    }
    vec![
        spoiler(12, "below the floor", Code::StaleToken, everywhere, |scene| {
            let above = scene.position().following_in(Epoch::ZERO).unwrap();
            scene.alter(|row| row.floor = above);
        }),
        spoiler(12, "revoked", Code::StaleToken, everywhere, |scene| {
            let position = scene.position();
            scene.alter(|row| row.revoked_through = Some(position));
        }),
        spoiler(12, "an older epoch", Code::StaleToken, everywhere, |scene| {
            let epoch = scene.position().epoch.get();
            scene.world.set_epoch(epoch + 1);
        }),
        spoiler(13, "expired", Code::LeaseNotLive, bound, |scene| {
            let now = scene.world.now;
            scene.alter_lease(|lease| lease.expires_at = now);
        }),
        spoiler(13, "released", Code::LeaseNotLive, bound, |scene| {
            scene.alter_lease(|lease| lease.state = LeaseState::Released);
        }),
        spoiler(13, "missing", Code::LeaseNotLive, bound, |scene| scene.alter(|row| row.lease = None)),
    ]
}

/// Rows 14 to 16.
fn policies() -> Vec<Spoiler> {
    let single = |definition: &Definition| definition.policy == Policy::Single;
    let session = |definition: &Definition| definition.policy == Policy::Session;
    let gapless = |definition: &Definition| definition.policy == Policy::Ordered { gapless: true };
    vec![
        spoiler(14, "spent", Code::GenerationSpent, single, |scene| scene.apply_here(None)),
        spoiler(15, "a sequence below", Code::SequenceRegressed, is_ordered, |scene| {
            scene.apply_here(Some(2));
        }),
        spoiler(15, "the same sequence", Code::SequenceRegressed, is_ordered, |scene| {
            scene.apply_here(Some(1));
        }),
        spoiler(15, "a gap at the start", Code::SequenceGap, gapless, |scene| scene.draft.sequence = Some(2)),
        spoiler(15, "a gap", Code::SequenceGap, gapless, |scene| {
            scene.apply_here(Some(4));
            scene.draft.sequence = Some(6);
        }),
        spoiler(16, "no If-Match", Code::PreconditionRequired, session, |scene| scene.apply_here(None)),
        spoiler(16, "If-Match: *", Code::PreconditionRequired, session, |scene| {
            scene.apply_here(None);
            scene.draft.if_match = Some("*".to_owned());
        }),
        spoiler(16, "a weak If-Match", Code::PreconditionRequired, session, |scene| {
            scene.apply_here(None);
            scene.draft.if_match = Some("W/\"2.7\"".to_owned());
        }),
    ]
}

/// Row 17, and the removal of what is not there.
fn conditions() -> Vec<Spoiler> {
    vec![
        spoiler(BELOW, "nothing to delete", Code::NothingToDelete, everywhere, |scene| {
            scene.draft.method = Method::Delete;
            scene.draft.body = "";
            let address = scene.world.address(PATH);
            scene.world.snapshot.apply(&fencegate::protocol::Change::TargetRemoved(address));
        }),
        spoiler(17, "If-None-Match", Code::PreconditionFailed, everywhere, |scene| {
            if scene.world.target(PATH).is_some() {
                scene.draft.if_none_match = Some("*".to_owned());
            } else {
                // Nothing matches where nothing is, and a tag list that matches nothing passes.
                scene.draft.if_none_match = Some("\"2.7\"".to_owned());
                scene.draft.if_match = scene.draft.if_match.take().or(Some("W/\"2.7\"".to_owned()));
            }
        }),
    ]
}

/// Rows 1 to 4.
fn records() -> Vec<Spoiler> {
    vec![
        spoiler(4, "uncertain", Code::OutcomeUncertain, everywhere, |scene| {
            scene.record(OperationState::Uncertain);
        }),
        spoiler(3, "in progress", Code::OperationInProgress, everywhere, |scene| {
            scene.record(OperationState::Intent);
        }),
        spoiler(2, "applied", Code::Replayed, everywhere, |scene| scene.record(OperationState::Applied)),
        spoiler(2, "refused upstream", Code::Replayed, everywhere, |scene| {
            scene.record(OperationState::Refused);
        }),
        spoiler(2, "resolved, applied", Code::Replayed, everywhere, |scene| {
            scene.record(OperationState::ResolvedApplied);
        }),
        spoiler(2, "resolved, not applied", Code::NotApplied, everywhere, |scene| {
            scene.record(OperationState::ResolvedNotApplied);
        }),
        spoiler(1, "another fingerprint", Code::OperationMismatch, everywhere, |scene| {
            let member = scene.draft.member(&scene.world);
            let key =
                (name(RESOURCE), member.incarnation.unwrap_or(scene.row().incarnation), member.operation_id);
            if scene.world.snapshot.operation(&key).is_none() {
                scene.record(OperationState::Applied);
            }
            let mut record = scene.world.snapshot.operation(&key).unwrap().clone();
            record.fingerprint = Fingerprint::from_bytes([9; 32]);
            scene.world.snapshot.insert_operation(record);
        }),
    ]
}

fn spoiler(
    row: u8,
    name: &'static str,
    code: Code,
    applies: fn(&Definition) -> bool,
    spoil: fn(&mut Scene),
) -> Spoiler {
    Spoiler { row, name, code, applies, spoil }
}
