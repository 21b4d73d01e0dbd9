//! Raising the floor without writing, and registering an external position.

use fencegate::domain::policy::{Contract, Definition, Issuer};
use fencegate::protocol::command::Write;
use fencegate::protocol::rows::AuditVerb;
use fencegate::protocol::{Change, Command, Outcome};

use super::scene::{PATH, RESOURCE, definitions};
use crate::support::code::{Code, word};
use crate::support::draft::{delete, put};
use crate::support::world::{World, name, token};

fn world(contract: Contract, issuer: Issuer) -> World {
    World::new(Definition { contract, issuer, scope: 1, ..Definition::default() })
}

#[test]
fn an_advance_fences_everything_below_it() {
    // Broken: an advance that is answered and not stored. Must hold: the floor stands, what is below is stale, the
    // content, the mark and the commit number are untouched.
    for definition in definitions().into_iter().filter(|definition| definition.issuer.is_external()) {
        let mut world = World::new(definition);
        assert_eq!(word(&world.advance(RESOURCE, "5")), Code::Advanced, "{definition}");
        let row = world.row(RESOURCE).clone();
        assert_eq!((row.floor, row.applied, row.commit_no.get()), (token(5), None, 0));
        let mut late = put(PATH, "late", "4");
        late.sequence = Some(1);
        assert_eq!(word(&world.write(&late)), Code::StaleToken, "{definition}");
        assert_eq!(word(&world.advance(RESOURCE, "4")), Code::StaleToken, "{definition}");
        assert_eq!(word(&world.advance(RESOURCE, "5")), Code::Advanced, "equal is fine");
        assert_eq!(*world.row(RESOURCE), row, "and changes nothing");
        assert_eq!(word(&world.write(&late.under("5"))), Code::Admitted, "{definition}");
    }
}

#[test]
fn registering_is_the_only_way_up_for_a_registered_issuer() {
    // Broken: anybody who can write can fence everybody else out. Must hold: above the registered position a write is
    // refused, on a resource that nobody registered every write is; at it, it is admitted.
    for contract in [Contract::Observed, Contract::Immediate] {
        let mut world = world(contract, Issuer::Registered);
        assert_eq!(word(&world.write(&put(PATH, "op", "1"))), Code::AdvanceForbidden);
        assert_eq!(word(&world.advance(RESOURCE, "7")), Code::Advanced);
        assert_eq!(word(&world.write(&put(PATH, "op", "8"))), Code::AdvanceForbidden);
        assert_eq!(word(&world.write(&put(PATH, "op", "6"))), Code::StaleToken);
        assert_eq!(word(&world.write(&put(PATH, "op", "7"))), Code::Admitted);
    }
}

#[test]
fn a_trusted_writer_raises_the_floor_by_writing() {
    // Broken: the higher of two workers writes and the lower one still gets through. Must hold: the write is the fence,
    // and an explicit advance is not bounded by `max_jump`.
    let mut world = world(Contract::Observed, Issuer::Trusted { max_jump: Some(3) });
    assert_eq!(word(&world.write(&put(PATH, "a", "3"))), Code::Admitted);
    assert_eq!(word(&world.write(&put(PATH, "b", "2"))), Code::StaleToken);
    assert_eq!(word(&world.write(&put(PATH, "c", "7"))), Code::TokenJump);
    assert_eq!(word(&world.advance(RESOURCE, "100")), Code::Advanced);
    assert_eq!(word(&world.write(&put(PATH, "d", "103"))), Code::Admitted);
}

#[test]
fn an_owner_advances_under_its_seal() {
    // Broken: without a seal, or with one of nobody's, the floor can be moved (8, 9); under `observed` the successor
    // cannot fence its predecessor before its first write. Must hold: only a position that was issued.
    for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
        let mut world = world(contract, Issuer::Gateway);
        let alice = world.acquire(RESOURCE);
        world.wait_ms(20_000);
        let bob = world.acquire(RESOURCE);
        assert_eq!(word(&world.advance(RESOURCE, "2")), Code::SealMissing);
        assert_eq!(word(&world.advance(RESOURCE, "0.2.nonsense")), Code::SealWrong);
        let lost = world.sealed(RESOURCE, token(3));
        assert_eq!(word(&world.advance(RESOURCE, &lost)), Code::IssuerBehind);
        assert_eq!(word(&world.advance(RESOURCE, &bob.fencing_tokens[0].0)), Code::Advanced);
        assert_eq!(word(&world.advance(RESOURCE, &alice.fencing_tokens[0].0)), Code::StaleToken);
        assert_eq!(
            word(&world.write(&put(PATH, "late", alice.fencing_tokens[0].0.clone()))),
            Code::StaleToken
        );
        assert_eq!(word(&world.write(&put(PATH, "new", bob.fencing_tokens[0].0.clone()))), Code::Admitted);
    }
}

#[test]
fn a_lease_bound_advance_needs_a_live_lease() {
    // Broken: an owner whose lease is over still moves the fence. Must hold: refused, the expiry written down, the
    // floor where it was.
    let mut world = world(Contract::LeaseBound, Issuer::Gateway);
    let grant = world.acquire(RESOURCE);
    world.wait_ms(20_000);
    let before = world.row(RESOURCE).clone();
    assert_eq!(word(&world.advance(RESOURCE, &grant.fencing_tokens[0].0)), Code::LeaseNotLive);
    assert_eq!(*world.row(RESOURCE), before);
    assert_eq!(world.lease(&grant.acquisition_id).state, fencegate::domain::lease::LeaseState::Expired);
}

#[test]
fn a_deleted_resource_can_be_advanced_so_that_it_can_be_created_again() {
    // Broken: a registered namespace can never bring a deleted page back, because no position above the tombstone can
    // be registered. Must hold: above the tombstone it can, at or below it is refused.
    let mut world = world(Contract::Observed, Issuer::Registered);
    world.advance(RESOURCE, "3");
    world.written(&put(PATH, "a", "3"));
    world.advance(RESOURCE, "4");
    world.written(&delete(RESOURCE, "end", "4"));
    assert_eq!(word(&world.advance(RESOURCE, "4")), Code::StaleToken);
    assert_eq!(word(&world.write(&put(PATH, "b", "5"))), Code::AdvanceForbidden);
    assert_eq!(word(&world.advance(RESOURCE, "5")), Code::Advanced);
    assert_eq!(world.written(&put(PATH, "b", "5")).incarnation.get(), 2);
}

#[test]
fn an_advance_is_told_in_the_record() {
    // Broken: nobody can find out who moved the fence and why. Must hold: one audit line per raise, with the reason,
    // and none for an advance that changes nothing.
    let world = world(Contract::Observed, Issuer::Registered);
    let claim = world.claim(&name(RESOURCE), "5");
    let advance = Command::Advance(fencegate::protocol::command::Advance {
        resource: name(RESOURCE),
        claim,
        reason: "moved house".to_owned(),
    });
    let decision = world.decide(&advance);
    assert!(matches!(decision.outcome, Outcome::Advanced(_)));
    let lines: Vec<_> = decision
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Audited(line) => Some(line),
            Change::NamespaceRecorded(_) | Change::Resource { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].verb, lines[0].position), (AuditVerb::Advanced, token(5)));
    assert_eq!(lines[0].reason.as_deref(), Some("moved house"));
    let mut later = world.clone();
    later.apply(&decision.changes);
    assert_eq!(later.decide(&advance).changes, []);
}

#[test]
fn a_writer_that_may_not_raise_stays_at_the_floor() {
    // Broken: whoever may write can fence everybody else out by naming a higher position. Must hold: without the permission
    // to advance a write passes at the floor and not above it.
    let mut world = world(Contract::Observed, Issuer::Trusted { max_jump: None });
    world.advance(RESOURCE, "5");
    for (position, code) in [("5", Code::Admitted), ("6", Code::AdvanceForbidden)] {
        let mut members = world.members(&[put(PATH, "op", position)]);
        for member in &mut members {
            member.may_raise = false;
        }
        let command = Command::Write(Write::new(members, false).unwrap());
        assert_eq!(word(&world.decide(&command).outcome), code, "{position}");
    }
}

#[test]
fn a_command_names_the_positions_that_it_presents_under_a_seal() {
    // Broken: a database that went back is shown a seal of an epoch that it has forgotten, and nobody learns of the epoch. Must
    // hold: every sealed position of a command is named with its resource, and no other one is.
    let mut world = world(Contract::Immediate, Issuer::Gateway);
    let sealed = world.acquire(RESOURCE).fencing_tokens[0].0.clone();
    let other = world.sealed("w/other", token(9));
    let drafts = [put(PATH, "a", sealed.clone()), put("w/other/part", "b", "0.9.nonsense")];
    let write = world.command(&drafts, false);
    assert_eq!(write.sealed(), [(&world.address(PATH).resource, token(1))]);
    let advance = |token: &str| {
        let resource = name("w/other");
        let claim = world.claim(&resource, token);
        Command::Advance(fencegate::protocol::command::Advance { resource, claim, reason: String::new() })
    };
    assert_eq!(advance(&other).sealed(), [(&name("w/other"), token(9))]);
    assert!(advance("9").sealed().is_empty() && advance(&sealed).sealed().is_empty());
}
