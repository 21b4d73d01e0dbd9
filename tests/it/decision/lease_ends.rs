//! Renewing and releasing touch one's own lease and nobody else's, and an ended lease never comes back.

use fencegate::domain::lease::{AcquisitionId, LeaseState};
use fencegate::domain::policy::{Contract, Definition};
use fencegate::protocol::command::Renew;
use fencegate::protocol::outcome::Grant;
use fencegate::protocol::{Command, Outcome, Refusal};

use super::scene::{PATH, RESOURCE};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{TTL_MS, World, acquire, ended, renew, view};

fn world(contract: Contract) -> World {
    World::new(Definition { contract, scope: 1, ..Definition::default() })
}

fn renew_for(grant: &Grant, ttl_ms: u64) -> Command {
    let (bucket, acquisition) = (grant.acquisition_id.bucket(), grant.acquisition_id.hash());
    Command::Renew(Renew { bucket, acquisition, ttl_ms: Some(ttl_ms) })
}

#[test]
fn a_renewal_counts_its_ttl_from_now() {
    // Broken: a renewal that adds to the old end gives away time that nobody asked for, or takes some. Must hold: now
    // plus the ttl; a new ttl is kept for the next renewal; one out of bounds changes nothing.
    let mut world = world(Contract::LeaseBound);
    let grant = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS - 1);
    assert_eq!(view(world.renew(&grant.acquisition_id)).remaining.get(), TTL_MS);
    world.wait_ms(5);
    assert_eq!(view(world.tell(&renew_for(&grant, 2_000))).remaining.get(), 2_000);
    world.wait_ms(1_999);
    let renewed = view(world.renew(&grant.acquisition_id));
    assert_eq!((renewed.remaining.get(), renewed.state), (2_000, LeaseState::Held));
    let before = world.snapshot.clone();
    assert_eq!(word(&world.tell(&renew_for(&grant, 1))), Code::TtlOutOfBounds);
    assert_eq!(word(&world.tell(&renew_for(&grant, 3_600_001))), Code::TtlOutOfBounds);
    assert_eq!(world.snapshot, before);
    world.wait_ms(2_000);
    assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Expired);
}

#[test]
fn a_late_renewal_never_extends_the_successors_lease() {
    // Broken: a renewal that finds the lease by resource or holder extends whoever owns now. Must hold: superseded, the
    // successor's lease is what it was, and no token is made.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    let bob = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS - 1);
    let theirs = world.lease(&bob.acquisition_id).clone();
    assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Superseded);
    assert_eq!(*world.lease(&bob.acquisition_id), theirs);
    world.wait_ms(1);
    assert_eq!(ended(&world.renew(&bob.acquisition_id)), LeaseState::Expired, "and ends when it was to end");
}

#[test]
fn a_late_renewal_does_not_bring_an_expired_lease_back() {
    // Broken: the owner that slept past its lease renews and believes itself safe, although nobody fenced the gap.
    // Must hold: expired at exactly its end, and for good, though nobody came after it.
    for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
        let mut world = world(contract);
        let alice = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS);
        assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Expired);
        assert_eq!(
            world.lease(&alice.acquisition_id).state,
            LeaseState::Expired,
            "the first who sees it writes it"
        );
        assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Expired);
    }
}

#[test]
fn expiry_is_sticky_even_if_time_seems_to_go_back() {
    // Broken: a clock that jumped back makes a lease live again that was already reported dead. Must hold: once
    // written down, expired.
    let mut world = world(Contract::LeaseBound);
    let alice = world.acquire(RESOURCE);
    let then = world.now;
    world.wait_ms(TTL_MS);
    assert_eq!(word(&world.write(&put(PATH, "op", alice.fencing_tokens[0].0.clone()))), Code::LeaseNotLive);
    world.now = then;
    assert_eq!(word(&world.write(&put(PATH, "op", alice.fencing_tokens[0].0.clone()))), Code::LeaseNotLive);
    assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Expired);
    assert_eq!(ended(&world.tell(&acquire(RESOURCE, 1))), LeaseState::Expired);
}

#[test]
fn a_release_frees_the_resource_at_once_and_leaves_the_fence() {
    // Broken: releasing lowers the floor, and the released owner's delayed write gets through after the next owner's.
    // Must hold: the next acquire is granted at once; floor, issued and mark stay.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    world.written(&put(PATH, "op", alice.fencing_tokens[0].0.clone()));
    let before = world.row(RESOURCE).clone();
    let released = view(world.release(&alice.acquisition_id));
    assert_eq!((released.state, released.remaining.get()), (LeaseState::Released, 0));
    assert_eq!(*world.row(RESOURCE), before);
    let bob = world.acquire(RESOURCE);
    assert_eq!(bob.view.lease.position, crate::support::world::token(2));
}

/// Three leases that ended in each way, and one that lives.
fn ended_each_way(world: &mut World) -> [(Grant, LeaseState); 4] {
    let superseded = world.acquire("w/a");
    world.wait_ms(TTL_MS);
    world.acquire("w/a");
    let expired = world.acquire("w/b");
    world.wait_ms(TTL_MS);
    let released = world.acquire("w/c");
    world.release(&released.acquisition_id);
    let held = world.acquire("w/d");
    [
        (superseded, LeaseState::Superseded),
        (expired, LeaseState::Expired),
        (released, LeaseState::Released),
        (held, LeaseState::Held),
    ]
}

#[test]
fn each_end_of_a_lease_answers_for_itself() {
    // Broken: a release answers an error for a lease that is over, or a renewal brings one back. Must hold: release is
    // 200 with the state that it has, twice over; renewal of an ended one is 410 with the same word.
    let mut world = world(Contract::Immediate);
    for (grant, state) in ended_each_way(&mut world) {
        let id = &grant.acquisition_id;
        if state == LeaseState::Held {
            assert!(matches!(world.renew(id), Outcome::Renewed(_)));
            assert_eq!(ended(&world.release(id)), LeaseState::Released);
            assert_eq!(ended(&world.renew(id)), LeaseState::Released);
        } else {
            assert_eq!(ended(&world.renew(id)), state);
            assert_eq!(ended(&world.release(id)), state);
            assert_eq!(ended(&world.release(id)), state);
            assert_eq!(ended(&world.renew(id)), state);
        }
    }
}

#[test]
fn a_late_release_takes_nothing_from_the_successor() {
    // Broken: the paused owner wakes up, releases "its" lease, and the successor's is gone. Must hold: 200 with
    // `superseded`, and the successor goes on.
    let mut world = world(Contract::LeaseBound);
    let alice = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    let bob = world.acquire(RESOURCE);
    assert_eq!(ended(&world.release(&alice.acquisition_id)), LeaseState::Superseded);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::LeaseHeld);
    assert_eq!(word(&world.write(&put(PATH, "op", bob.fencing_tokens[0].0.clone()))), Code::Admitted);
}

#[test]
fn an_expired_lease_is_superseded_once_somebody_came() {
    // Broken: the two ends are mixed up, and a worker that could carry on is told that it was replaced, or the other
    // way round. Must hold: expired until a newer position exists, then superseded, always; released stays released.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Expired);
    let bob = world.acquire(RESOURCE);
    assert_eq!(world.lease(&alice.acquisition_id).state, LeaseState::Superseded);
    assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Superseded);
    world.release(&bob.acquisition_id);
    world.acquire(RESOURCE);
    assert_eq!(ended(&world.renew(&bob.acquisition_id)), LeaseState::Released);
    assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Superseded);
}

#[test]
fn nobody_else_can_renew_or_release() {
    // Broken: a guessed or foreign acquisition id reaches a lease, or a renewal of an unknown one makes one. Must hold:
    // no such lease, and nothing is created.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    let text = grant.acquisition_id.reveal();
    let last = text.chars().last().unwrap();
    let other = if last == 'A' { 'Q' } else { 'A' };
    let guess = AcquisitionId::parse(&format!("{}{other}", &text[..23])).unwrap();
    let before = world.snapshot.clone();
    assert_eq!(word(&world.tell(&renew(&guess))), Code::NoSuchLease);
    assert_eq!(word(&world.release(&guess)), Code::NoSuchLease);
    assert_eq!(world.snapshot, before);
}

#[test]
fn an_acquisition_id_leads_to_its_bucket_and_is_no_secret_of_the_database() {
    // Broken: the id cannot be found by its bucket, or can be read from the rows. Must hold: its first two digits are
    // the resource's bucket, and the row holds only a hash of it.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    let lease = world.lease(&grant.acquisition_id);
    assert_eq!(grant.acquisition_id.bucket(), lease.resource.bucket());
    assert!(!format!("{lease:?}{grant:?}").contains(grant.acquisition_id.reveal()));
    assert!(!format!("{grant:?}").contains(&grant.fencing_tokens[0].0));
}

#[test]
fn a_lease_whose_resource_row_is_gone_is_loud() {
    // Broken: a half-restored database renews a lease on nothing. Must hold: `Inconsistent`.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    let mut torn = World::new(*world.definition());
    torn.snapshot.insert_lease(world.lease(&grant.acquisition_id).clone());
    let command = renew(&grant.acquisition_id);
    assert!(fencegate::protocol::decide(&torn.context(), &torn.snapshot, &command, torn.now).is_err());
    assert!(matches!(world.renew(&grant.acquisition_id), Outcome::Renewed(_)));
    assert_eq!(Refusal::NoSuchLease.row(), None);
}
