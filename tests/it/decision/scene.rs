//! One write that nothing stands against, and one way per row of the table to make that row match it.
//!
//! A spoiler looks at what earlier spoilers made of the scene and adds its own row on top, so that any two of them
//! can be put together: then the earlier row must win.

use bytes::Bytes;
use fencegate::domain::counter::{CommitNo, Epoch, Incarnation, Sequence};
use fencegate::domain::document::BodyDigest;
use fencegate::domain::lease::{AcquisitionHash, LeaseState};
use fencegate::domain::operation::{Fingerprint, Method, OperationState};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::Position;
use fencegate::domain::precondition::EntityTag;
use fencegate::protocol::rows::{
    Done, EraRow, LeaseRow, Life, Mark, NamespaceRow, OperationRecord, ResourceRow, SavedResponse, TargetRow,
};

use crate::support::code::{Code, word};
use crate::support::draft::{Draft, put};
use crate::support::world::{World, acquire, at, granted, name, token};

/// The resource and the target below it.
pub(super) const RESOURCE: &str = "w/page";
pub(super) const PATH: &str = "w/page/body";

/// The position of the write, in a world that has heard of ten.
pub(super) const OURS: u64 = 10;

/// How far one write may jump, where a namespace bounds it.
pub(super) const MAX_JUMP: u64 = 5;

/// A world and the write that comes to it.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) draft: Draft,
}

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

/// Every definition that a namespace may have: policy x contract x issuer, with and without their options.
pub(super) fn definitions() -> Vec<Definition> {
    let policies = [
        Policy::Single,
        Policy::Ordered { gapless: false },
        Policy::Ordered { gapless: true },
        Policy::Session,
    ];
    let issuers = [
        Issuer::Gateway,
        Issuer::Trusted { max_jump: None },
        Issuer::Trusted { max_jump: Some(MAX_JUMP) },
        Issuer::Registered,
    ];
    let mut all = Vec::new();
    for policy in policies {
        for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
            for issuer in issuers {
                all.push(Definition { policy, contract, issuer, store: Store::Document, scope: 1 });
            }
        }
    }
    all.retain(|definition| definition.check().is_ok());
    all
}

pub(super) fn is_gateway(definition: &Definition) -> bool {
    definition.issuer == Issuer::Gateway
}

pub(super) fn is_ordered(definition: &Definition) -> bool {
    matches!(definition.policy, Policy::Ordered { .. })
}

impl Scene {
    /// The second incarnation of a page: born at 3, last written at 5, floor at 8; the write comes at 10 and replaces
    /// its content. Under a gateway issuer 10 is the newest lease, and it is live.
    pub(super) fn new(definition: Definition) -> Self {
        let mut world = World::new(definition);
        world.set_epoch(0);
        if is_gateway(&definition) {
            world.snapshot.insert_resource(row(9));
        } else {
            world.snapshot.insert_resource(row(0));
        }
        let era = EraRow { resource: name(RESOURCE), incarnation: Incarnation::ONE, born: Position::ZERO };
        world.snapshot.insert_era(era);
        world.snapshot.insert_target(name(RESOURCE), target());
        let draft = if is_gateway(&definition) {
            let grant = granted(world.tell(&acquire(RESOURCE, 1)));
            assert_eq!(grant.view.lease.position, token(OURS));
            put(PATH, "op", grant.fencing_token.0)
        } else {
            put(PATH, "op", OURS.to_string())
        };
        let mut scene = Self { world, draft };
        if definition.issuer == Issuer::Registered {
            // Registering is what lets a write come at this position.
            assert_eq!(word(&scene.world.advance(RESOURCE, "10")), Code::Advanced);
        }
        if is_ordered(&definition) {
            scene.draft.sequence = Some(1);
        }
        scene
    }

    pub(super) fn position(&self) -> Position {
        self.draft.member(&self.world).claim.position
    }

    pub(super) fn row(&self) -> ResourceRow {
        self.world.row(RESOURCE).clone()
    }

    /// Puts another row in place, whatever the rules would say of the way there.
    pub(super) fn alter(&mut self, alter: impl FnOnce(&mut ResourceRow)) {
        let mut row = self.row();
        alter(&mut row);
        self.world.snapshot.insert_resource(row);
    }

    pub(super) fn alter_lease(&mut self, alter: impl FnOnce(&mut LeaseRow)) {
        let newest = self.row().lease.unwrap();
        let mut lease = self.world.snapshot.lease(&newest).unwrap().clone();
        alter(&mut lease);
        self.world.snapshot.insert_lease(lease);
    }

    /// The same position under a seal of our own, where this issuer seals.
    pub(super) fn present(&mut self, position: Position) {
        self.draft.token = if is_gateway(self.world.definition()) {
            self.world.sealed(RESOURCE, position)
        } else {
            position.to_string()
        };
    }

    /// A record of this operation, in the incarnation that the write addresses.
    pub(super) fn record(&mut self, state: OperationState) {
        let member = self.draft.member(&self.world);
        let incarnation = member.incarnation.unwrap_or(self.row().incarnation);
        let commit = CommitNo::ONE;
        let response = SavedResponse {
            done: Done::Created,
            commit,
            etag: Some(EntityTag { incarnation, commit }),
            body: Bytes::from_static(b"saved"),
        };
        self.world.snapshot.insert_operation(OperationRecord {
            resource: name(RESOURCE),
            incarnation,
            operation_id: member.operation_id,
            target: member.address.target,
            method: member.method,
            fingerprint: member.fingerprint,
            position: token(4),
            sequence: None,
            acquisition: None,
            state,
            attempt: 1,
            response: Some(response),
            created_at: self.world.now,
            decided_at: None,
        });
    }

    /// The last effect came at the write's own position.
    fn apply_here(&mut self, sequence: Option<u64>) {
        let position = self.position();
        let sequence = sequence.map(|value| Sequence::new(value).unwrap());
        self.alter(|row| row.applied = Some(Mark { position, sequence }));
    }
}

fn row(issued: u64) -> ResourceRow {
    let world = World::new(definitions()[0]);
    let namespace = fencegate::domain::resource::Namespace::parse("w").unwrap();
    let base = NamespaceRow::first_use(namespace, *world.definition());
    let issued = if issued == 0 { Position::ZERO } else { token(issued) };
    ResourceRow {
        incarnation: Incarnation::new(2).unwrap(),
        born: token(3),
        issued,
        floor: token(8),
        revoked_through: Some(token(2)),
        applied: Some(Mark { position: token(5), sequence: Some(Sequence::new(9).unwrap()) }),
        commit_no: CommitNo::new(7).unwrap(),
        ..ResourceRow::unheard(name(RESOURCE), &base)
    }
}

fn target() -> TargetRow {
    TargetRow {
        target: Some(fencegate::domain::resource::Target::parse("body").unwrap()),
        tag: EntityTag { incarnation: Incarnation::new(2).unwrap(), commit: CommitNo::new(7).unwrap() },
        content_type: None,
        size: 3,
        digest: BodyDigest::of(b"old"),
    }
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
    ]
}

/// Rows 6 and 7.
fn lives() -> Vec<Spoiler> {
    vec![
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
        spoiler(13, "of another acquisition", Code::LeaseNotLive, bound, |scene| {
            let stranger = AcquisitionHash::from_bytes([0x5A; 32]);
            scene.alter_lease(|lease| lease.acquisition = stranger);
            scene.alter(|row| row.lease = Some(stranger));
        }),
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
            scene.apply_here(Some(2))
        }),
        spoiler(15, "the same sequence", Code::SequenceRegressed, is_ordered, |scene| {
            scene.apply_here(Some(1))
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
            scene.record(OperationState::Uncertain)
        }),
        spoiler(3, "in progress", Code::OperationInProgress, everywhere, |scene| {
            scene.record(OperationState::Intent);
        }),
        spoiler(2, "applied", Code::Replayed, everywhere, |scene| scene.record(OperationState::Applied)),
        spoiler(2, "refused upstream", Code::Replayed, everywhere, |scene| {
            scene.record(OperationState::Refused)
        }),
        spoiler(2, "resolved, applied", Code::Replayed, everywhere, |scene| {
            scene.record(OperationState::ResolvedApplied);
        }),
        spoiler(2, "resolved, not applied", Code::Replayed, everywhere, |scene| {
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
