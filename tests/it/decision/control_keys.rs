//! Control calls under a key: a delayed copy does nothing and gets the first answer.

use fencegate::domain::policy::Contract;
use fencegate::protocol::control::ControlVerb::{Cancel, Reopen, Revoke};
use fencegate::protocol::rows::Life;

use super::scene::RESOURCE;
use super::several::world;
use crate::support::calls::{Told, call, token_on};
use crate::support::code::{Code, word};
use crate::support::world::{TTL_MS, ended, view};
use fencegate::domain::lease::LeaseState;

#[test]
fn a_delayed_copy_does_nothing_and_gets_the_first_answer() {
    // Broken: a cancel that a proxy delivers twice closes the job that was reopened in between; a second revoke takes
    // the next owner's lease. Must hold: the same bytes, marked as replayed, and no change, whatever happened since.
    for verb in [Revoke, Cancel] {
        let mut world = world(Contract::Immediate);
        world.acquire(RESOURCE);
        let first = world.controlled(call(verb, RESOURCE).keyed("k"));
        if verb == Cancel {
            world.controlled(call(Reopen, RESOURCE).keyed("k"));
        }
        let next = world.acquire(RESOURCE);
        let before = world.snapshot.clone();
        let copy = world.controlled(call(verb, RESOURCE).keyed("k"));
        assert!(copy.replayed && !first.replayed);
        assert_eq!(copy.body, first.body);
        assert_eq!(world.snapshot, before);
        assert_eq!(view(world.renew(&next.acquisition_id)).state, LeaseState::Held);
        assert_eq!(world.row(RESOURCE).life, Life::Active);
    }
}

#[test]
fn a_delayed_reopen_does_not_open_what_was_cancelled_again() {
    // Broken: cancel, reopen, cancel, and the copy of the reopen undoes the second cancel. Must hold: it stays closed.
    let mut world = world(Contract::Immediate);
    world.acquire(RESOURCE);
    world.controlled(call(Cancel, RESOURCE).keyed("1"));
    let first = world.controlled(call(Reopen, RESOURCE).keyed("1"));
    world.controlled(call(Cancel, RESOURCE).keyed("2"));
    let copy = world.controlled(call(Reopen, RESOURCE).keyed("1"));
    assert!(copy.replayed && copy.body == first.body);
    assert_eq!(world.row(RESOURCE).life, Life::Cancelled);
    assert_eq!(copy.resource.life, Life::Cancelled, "what stands now is told beside it");
}

#[test]
fn one_key_for_two_calls_is_a_mismatch() {
    // Broken: a client that reuses its key believes that a call was carried out that never was. Must hold: another
    // reason, another token, or owner and operator: 422, and nothing changes.
    let mut world = world(Contract::Observed);
    let alice = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    let bob = world.acquire(RESOURCE);
    let [alice, bob] = [alice, bob].map(|grant| token_on(&grant, RESOURCE));
    let told = call(Revoke, RESOURCE).under(&world, &bob).keyed("k");
    world.controlled(told.clone());
    let before = world.snapshot.clone();
    let others = [
        told.clone().because("another"),
        told.clone().under(&world, &alice),
        call(Revoke, RESOURCE).keyed("k"),
    ];
    for other in others {
        assert_eq!(word(&world.control(other.clone())), Code::OperationMismatch, "{other:?}");
    }
    assert_eq!(word(&world.control(told)), Code::ControlReplayed);
    assert_eq!(world.snapshot, before);
}

#[test]
fn a_key_means_something_for_one_verb_and_one_resource_only() {
    // Broken: the key of one call silences another one. Must hold: each verb and each resource has keys of its own,
    // and they have nothing to do with the operation ids of writes.
    let mut world = world(Contract::Immediate);
    let owner = world.acquire(RESOURCE);
    world.acquire("w/b");
    world.written(&crate::support::draft::put("w/page/t", "k", token_on(&owner, RESOURCE)));
    for (verb, page) in
        [(Revoke, RESOURCE), (Cancel, RESOURCE), (Reopen, RESOURCE), (Revoke, "w/b"), (Cancel, "w/b")]
    {
        assert_eq!(word(&world.control(call(verb, page).keyed("k"))), Code::Controlled, "{verb:?}, {page}");
    }
}

#[test]
fn a_refused_call_is_not_bound_to_its_key() {
    // Broken: a call that was refused once is refused, or answered with the refusal, for ever. Must hold: the same key
    // is free until a call was carried out; without a key every call counts.
    let mut world = world(Contract::Immediate);
    assert_eq!(word(&world.control(call(Revoke, RESOURCE).keyed("k"))), Code::NothingToControl);
    let alice = world.acquire(RESOURCE);
    assert_eq!(word(&world.control(call(Revoke, RESOURCE).keyed("k"))), Code::Controlled);
    assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Superseded);
    for _ in 0..2 {
        let next = world.acquire(RESOURCE);
        assert_eq!(word(&world.control(call(Revoke, RESOURCE))), Code::Controlled);
        assert_eq!(ended(&world.renew(&next.acquisition_id)), LeaseState::Superseded);
    }
    assert_eq!(world.snapshot.controls().count(), 1);
}

#[test]
fn the_owner_that_was_superseded_since_still_gets_its_answer() {
    // Broken: an owner that revoked itself and lost the answer is told that its token is stale, and does not learn
    // whether its call was carried out. Must hold: the record answers before the fence.
    let mut world = world(Contract::LeaseBound);
    let owner = world.acquire(RESOURCE);
    let told = call(Cancel, RESOURCE).under(&world, &token_on(&owner, RESOURCE)).keyed("k");
    let first = world.controlled(told.clone());
    world.wait_ms(TTL_MS);
    let again = world.controlled(told);
    assert!(again.replayed && again.body == first.body);
}
