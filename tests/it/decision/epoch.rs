//! After an operator advanced the epoch every older position is stale for ever, and no counter restarts.

use fencegate::domain::counter::Epoch;
use fencegate::domain::lease::LeaseState;
use fencegate::domain::policy::{Contract, Definition, Issuer};
use fencegate::protocol::{Outcome, Refusal};

use super::scene::{PATH, RESOURCE, Scene, definitions};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{World, acquire, at, ended, token};

fn world(contract: Contract, issuer: Issuer) -> World {
    World::new(Definition { contract, issuer, scope: 1, ..Definition::default() })
}

#[test]
fn every_position_of_an_older_epoch_is_stale() {
    // Broken: an owner of before the restore writes over what came after it. Must hold: refused under every
    // definition, although neither floor nor revocation was moved; recorded operations still answer.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        scene.world.set_epoch(1);
        let before = scene.row();
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::StaleToken, "{definition}");
        assert_eq!(scene.row(), before);
    }
}

#[test]
fn a_bare_token_means_epoch_zero_for_ever() {
    // Broken: a client that leaves the epoch out is taken to mean the current one. Must hold: stale, and the refusal
    // says what is missing; with the epoch written out it only says stale; in epoch 0 there is nothing to say.
    let mut world = world(Contract::Observed, Issuer::Trusted { max_jump: None });
    world.written(&put(PATH, "first", "5"));
    let plain = world.write(&put(PATH, "old", "4"));
    assert_eq!(plain.refusal(), Some(&Refusal::StaleToken { bare_in_later_epoch: false, external: true }));
    world.set_epoch(2);
    let bare = world.write(&put(PATH, "bare", "900"));
    assert_eq!(bare.refusal(), Some(&Refusal::StaleToken { bare_in_later_epoch: true, external: true }));
    let bare = world.advance(RESOURCE, "900");
    assert_eq!(bare.refusal(), Some(&Refusal::StaleToken { bare_in_later_epoch: true, external: true }));
    for spelt in ["0.900", "1.900"] {
        let outcome = world.write(&put(PATH, "spelt", spelt));
        assert_eq!(
            outcome.refusal(),
            Some(&Refusal::StaleToken { bare_in_later_epoch: false, external: true })
        );
    }
    assert_eq!(word(&world.write(&put(PATH, "new", "2.1"))), Code::Admitted);
    assert_eq!(word(&world.write(&put(PATH, "ahead", "3.1"))), Code::EpochAhead);
    assert_eq!(word(&world.advance(RESOURCE, "3.1")), Code::EpochAhead);
}

#[test]
fn leases_of_an_older_epoch_are_superseded_and_tokens_go_on() {
    // Broken: the owner of before the restore goes on renewing, or the counter restarts and two owners get one token
    // (I8). Must hold: superseded for renewal, release and repeat; the next token is one above the last one issued.
    for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
        let mut world = world(contract, Issuer::Gateway);
        let old = world.acquire(RESOURCE);
        world.set_epoch(1);
        assert_eq!(ended(&world.tell(&acquire(RESOURCE, 1))), LeaseState::Superseded);
        assert_eq!(ended(&world.renew(&old.acquisition_id)), LeaseState::Superseded);
        assert_eq!(ended(&world.release(&old.acquisition_id)), LeaseState::Superseded);
        let new = world.acquire(RESOURCE);
        assert_eq!(new.view.lease.position, at(1, 2), "nobody waits for a lease of the old epoch");
        assert_eq!(word(&world.write(&put(PATH, "late", old.fencing_tokens[0].0.clone()))), Code::StaleToken);
        assert_eq!(word(&world.write(&put(PATH, "new", new.fencing_tokens[0].0.clone()))), Code::Admitted);
        assert_eq!(world.row(RESOURCE).issued, at(1, 2));
    }
}

#[test]
fn a_lease_that_nobody_renewed_before_the_advance_is_superseded_too() {
    // Broken: an expired or released lease changes its story. Must hold: expired becomes superseded, released stays.
    let mut world = world(Contract::Immediate, Issuer::Gateway);
    let released = world.acquire("w/a");
    world.release(&released.acquisition_id);
    let expired = world.acquire("w/b");
    world.wait_ms(20_000);
    assert_eq!(ended(&world.renew(&expired.acquisition_id)), LeaseState::Expired);
    world.set_epoch(1);
    assert_eq!(ended(&world.renew(&released.acquisition_id)), LeaseState::Released);
    assert_eq!(ended(&world.renew(&expired.acquisition_id)), LeaseState::Superseded);
}

#[test]
fn a_first_lease_in_a_later_epoch_counts_from_one() {
    // Broken: a resource first heard of after an advance gets a position of the old epoch. Must hold: (epoch, 1).
    let mut world = world(Contract::Immediate, Issuer::Gateway);
    world.set_epoch(4);
    let grant = world.acquire(RESOURCE);
    assert_eq!(grant.view.lease.position, at(4, 1));
    assert!(matches!(
        world.write(&put(PATH, "first", grant.fencing_tokens[0].0.clone())),
        Outcome::Written(_)
    ));
}

#[test]
fn a_seal_of_the_current_epoch_above_issued_says_that_the_database_forgot() {
    // Broken: after an epoch advance the start of the epoch hides lost tokens. Must hold: 503, not an admission.
    let mut world = world(Contract::Observed, Issuer::Gateway);
    world.acquire(RESOURCE);
    world.set_epoch(1);
    let lost = world.sealed(RESOURCE, at(1, 2));
    let outcome = world.write(&put(PATH, "lost", lost));
    assert_eq!(outcome.refusal(), Some(&Refusal::IssuerBehind { issued: token(1) }));
    let old = world.sealed(RESOURCE, token(900));
    assert_eq!(word(&world.write(&put(PATH, "old", old))), Code::StaleToken, "an older epoch proves nothing");
}

#[test]
fn the_floor_of_a_later_epoch_is_its_start() {
    // Broken: answers show the floor of the old epoch, and clients think themselves admissible. Must hold: (epoch, 0)
    // until something is admitted, then that.
    let mut world = world(Contract::Observed, Issuer::Gateway);
    let old = world.acquire(RESOURCE);
    let first = put(PATH, "first", old.fencing_tokens[0].0.clone());
    world.written(&first);
    world.set_epoch(1);
    assert_eq!(world.written(&first).floor.to_string(), "1.0");
    let new = world.acquire(RESOURCE);
    assert_eq!(world.written(&put(PATH, "second", new.fencing_tokens[0].0.clone())).floor, at(1, 2));
}

#[test]
fn an_epoch_that_was_begun_and_forgotten_is_not_begun_again() {
    // Broken: an advance counts from the rows alone, and what was issued in the epoch that they have forgotten is admissible
    // once more. Must hold: the new one lies above the rows and above every epoch that is known to have been begun.
    for (recorded, known, new) in [(0, 0, 1), (0, 3, 4), (2, 1, 3), (5, 5, 6)] {
        let mut world = world(Contract::Immediate, Issuer::Gateway);
        world.acquire(RESOURCE);
        world.set_epoch(recorded);
        world.begun = Epoch::new(known).unwrap();
        world.begin_epoch("new");
        let grant = world.acquire("w/other");
        assert_eq!(grant.view.lease.position, at(new, 1), "{recorded} is recorded, {known} is known");
    }
}
