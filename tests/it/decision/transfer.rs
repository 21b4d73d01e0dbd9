//! Handing a lease over: the token grows, the old acquisition ends, and the answer is the successor's.

use fencegate::domain::lease::{EndCause, LeaseState, WaitOrder};
use fencegate::domain::policy::{Contract, Definition};
use fencegate::domain::position::Position;
use fencegate::domain::time::Millis;
use fencegate::protocol::Change;
use fencegate::protocol::rows::AuditVerb;

use super::scene::{PATH, RESOURCE};
use super::several::{CONTRACTS, world};
use crate::support::calls::{transfer, transfer_for, waiting};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{TTL_MS, World, acquire, ended, token, view};

#[test]
fn the_successor_owns_one_token_above_and_the_old_owner_is_superseded() {
    // Broken: both may renew, or the old owner writes over its successor's work. Must hold: token + 1, the floor as
    // the contract promises, the old acquisition superseded by a transfer; the successor writes, under `observed` the
    // old owner only until then.
    for contract in CONTRACTS {
        let mut world = world(contract);
        let alice = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS - 1);
        let bob = world.grant(&transfer(&alice, "bob", 9));
        assert_eq!(
            (bob.view.lease.position, bob.view.remaining.get()),
            (token(2), TTL_MS),
            "a lease of its own"
        );
        assert_eq!(bob.view.lease.holder.as_ref().unwrap().as_str(), "bob");
        assert_ne!(bob.acquisition_id, alice.acquisition_id);
        let fences = contract != Contract::Observed;
        assert_eq!(world.row(RESOURCE).floor, if fences { token(2) } else { Position::ZERO });
        let old = world.lease(&alice.acquisition_id);
        assert_eq!((old.state, old.cause), (LeaseState::Superseded, Some(EndCause::Transferred)));
        assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Superseded);
        assert_eq!(ended(&world.release(&alice.acquisition_id)), LeaseState::Superseded);
        assert_eq!(ended(&world.tell(&acquire(RESOURCE, 1))), LeaseState::Superseded);
        let late = put(PATH, "late", alice.fencing_tokens[0].0.clone());
        assert_eq!(word(&world.write(&late)), if fences { Code::StaleToken } else { Code::Admitted });
        assert_eq!(word(&world.write(&put(PATH, "new", bob.fencing_tokens[0].0.clone()))), Code::Admitted);
        let later = put(PATH, "later", alice.fencing_tokens[0].0.clone());
        assert_eq!(word(&world.write(&later)), Code::StaleToken);
        assert_eq!(view(world.renew(&bob.acquisition_id)).state, LeaseState::Held);
    }
}

#[test]
fn a_repeat_of_the_transfer_is_the_same_successor() {
    // Broken: a lost answer burns a token or makes a second successor, and the lease is nobody's. Must hold: the same
    // acquisition and tokens, no change, though the old one has ended; after the successor's end 410 with its reason.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    let bob = world.grant(&transfer(&alice, "bob", 9));
    let before = world.snapshot.clone();
    let again = world.grant(&transfer(&alice, "bob", 9));
    assert!(again.repeated && !bob.repeated);
    assert_eq!((&again.acquisition_id, &again.fencing_tokens), (&bob.acquisition_id, &bob.fencing_tokens));
    assert_eq!(world.snapshot, before);
    world.release(&bob.acquisition_id);
    assert_eq!(ended(&world.tell(&transfer(&alice, "bob", 9))), LeaseState::Released);
    assert_eq!(world.row(RESOURCE).issued, token(2));
}

#[test]
fn a_request_id_with_other_parameters_transfers_nothing() {
    // Broken: carol gets bob's lease because somebody used a request id twice. Must hold: another holder or ttl is
    // 422, alive or ended; ids of transfers and acquires, and of transfers of two leases, have nothing to do with each
    // other.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    let bob = world.grant(&transfer_for(&alice, "bob", 1, Some(5_000)));
    for (holder, ttl_ms) in [("carol", Some(5_000)), ("bob", Some(6_000)), ("bob", None)] {
        let other = transfer_for(&alice, holder, 1, ttl_ms);
        assert_eq!(word(&world.tell(&other)), Code::RequestMismatch, "{holder}, {ttl_ms:?}");
    }
    assert_eq!(ended(&world.tell(&acquire(RESOURCE, 1))), LeaseState::Superseded, "alice's own request");
    world.release(&bob.acquisition_id);
    assert_eq!(word(&world.tell(&transfer(&alice, "bob", 1))), Code::RequestMismatch);
    let carol = world.acquire("w/b");
    let next = world.grant(&transfer_for(&carol, "bob", 1, Some(5_000)));
    assert_eq!(next.view.lease.resource.as_str(), "w/b", "another lease, another transfer");
}

#[test]
fn only_a_live_lease_is_handed_over() {
    // Broken: an owner that was superseded hands its successor's lease to a friend, or an expired one comes back to
    // life under another name. Must hold: 410 with the reason, no token spent; an expiry that was seen is written.
    let mut world = world(Contract::Immediate);
    let superseded = world.acquire(RESOURCE);
    let bob = world.grant(&transfer(&superseded, "bob", 8));
    let released = world.acquire("w/b");
    world.release(&released.acquisition_id);
    let expired = world.acquire("w/c");
    world.wait_ms(TTL_MS - 1);
    world.renew(&bob.acquisition_id);
    world.wait_ms(1);
    let issued = |world: &World| ["w/b", "w/c", RESOURCE].map(|page| world.row(page).issued);
    let before = issued(&world);
    for (grant, state) in [
        (&superseded, LeaseState::Superseded),
        (&released, LeaseState::Released),
        (&expired, LeaseState::Expired),
    ] {
        assert_eq!(ended(&world.tell(&transfer(grant, "carol", 9))), state);
        assert_eq!(world.lease(&grant.acquisition_id).state, state);
    }
    assert_eq!(issued(&world), before);
    assert_eq!(view(world.renew(&bob.acquisition_id)).state, LeaseState::Held, "and bob's is untouched");
}

#[test]
fn an_unknown_lease_or_a_ttl_out_of_bounds_transfers_nothing() {
    // Broken: a guessed acquisition id moves a lease, or a successor gets a ttl that nobody may have. Must hold: 404
    // and 422, and nothing changes.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    let before = world.snapshot.clone();
    for ttl_ms in [0, 999, 3_600_001] {
        let outcome = world.tell(&transfer_for(&alice, "bob", 9, Some(ttl_ms)));
        assert_eq!(word(&outcome), Code::TtlOutOfBounds, "{ttl_ms}");
    }
    assert_eq!(world.snapshot, before);
    let mut empty = World::new(Definition::default());
    assert_eq!(word(&empty.tell(&transfer(&alice, "bob", 9))), Code::NoSuchLease);
    assert_eq!(word(&world.tell(&transfer_for(&alice, "bob", 9, Some(1_000)))), Code::Granted);
}

#[test]
fn a_transfer_passes_queue_and_lock_delay_by() {
    // Broken: a lease that was handed over is up for grabs in between, or waits in its own queue. Must hold: it is
    // never free; whoever waits keeps its place for the time after.
    let mut world = world(Contract::Immediate);
    world.rule(|rules| (rules.order, rules.lock_delay) = (WaitOrder::Fifo, Millis::new(5_000)));
    let alice = world.acquire(RESOURCE);
    world.blocked(&waiting(&[RESOURCE], 50, 30_000));
    let bob = world.grant(&transfer(&alice, "bob", 9));
    assert_eq!(world.row(RESOURCE).queue.tickets().len(), 1);
    world.blocked(&waiting(&[RESOURCE], 50, 30_000));
    world.release(&bob.acquisition_id);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 60))), Code::LeaseHeld, "the waiter's turn");
    assert_eq!(world.grant(&waiting(&[RESOURCE], 50, 30_000)).view.lease.position, token(3));
}

#[test]
fn a_transfer_is_told_apart_from_an_acquire_in_the_record() {
    // Broken: nobody can see later that a lease was handed over. Must hold: a line of its own, with the new position, and
    // one for the lease that ended with it.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    let decision = world.decide(&transfer(&alice, "bob", 9));
    let told: Vec<_> = decision
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Audited(row) => Some((row.verb, row.position)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(AuditVerb::Superseded, token(1)), (AuditVerb::Transferred, token(2))]);
}
