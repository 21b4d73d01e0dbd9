//! One write that nothing stands against, under any definition; `spoilers` says how each row comes to match it.

use bytes::Bytes;
use fencegate::domain::counter::{CommitNo, Incarnation, Sequence};
use fencegate::domain::document::BodyDigest;
use fencegate::domain::operation::OperationState;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::Position;
use fencegate::domain::precondition::EntityTag;
use fencegate::protocol::rows::{
    Done, EraRow, EverywhereRow, LeaseRow, Mark, NamespaceRow, OperationRecord, ResourceRow, SavedResponse,
    TargetRow,
};

use crate::support::code::{Code, word};
use crate::support::draft::{Draft, put};
use crate::support::world::{World, acquire, granted, name, token};

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
            put(PATH, "op", grant.fencing_tokens[0].0.clone())
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
        let mut lease = self.world.snapshot.lease(&newest.acquisition).unwrap().clone();
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
            commit: Some(commit),
            etag: Some(EntityTag { incarnation, commit }),
            body: Bytes::from_static(b"saved"),
            relayed: None,
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
            resolution: None,
        });
    }

    /// The last effect came at the write's own position.
    pub(super) fn apply_here(&mut self, sequence: Option<u64>) {
        let position = self.position();
        let sequence = sequence.map(|value| Sequence::new(value).unwrap());
        self.alter(|row| row.applied = Some(Mark { position, sequence }));
    }
}

fn row(issued: u64) -> ResourceRow {
    let world = World::new(definitions()[0]);
    let namespace = fencegate::domain::resource::Namespace::parse("w").unwrap();
    let base = NamespaceRow::first_use(namespace, *world.definition(), &EverywhereRow::default());
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
