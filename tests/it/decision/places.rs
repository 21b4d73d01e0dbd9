//! Whose a place in the queue is: of the delivery that waits in it last, and of nobody while that one is away.

use std::num::NonZeroU64;

use fencegate::domain::lease::WaitOrder;
use fencegate::domain::policy::Contract;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::Command;
use fencegate::protocol::command::{Acquire, Leave, Wait};
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::Blocked;
use fencegate::protocol::queue::{KEPT_AFTER, Queue, RETURN, TURN, Ticket};
use fencegate::protocol::rows::RequestKey;

use super::scene::{PATH, RESOURCE};
use super::several::world;
use crate::support::calls::{Told, acquire_all, call, token_on};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{World, acquire};

const BUDGET_MS: u64 = 30_000;

/// A delivery of a request that waits.
fn delivery(request: u128, delivery: u8, begins: bool) -> Acquire {
    let Command::Acquire(acquire) = acquire_all(&[RESOURCE], request) else { panic!() };
    Acquire { nonce: [delivery; 16], wait: Some(Wait { left: Millis::new(BUDGET_MS), begins }), ..acquire }
}

fn gone(acquire: &Acquire, keeps: bool) -> Command {
    Command::Leave(Leave {
        resources: acquire.resources.clone(),
        request_key: acquire.request_key(),
        claim: acquire.claim(),
        keeps,
    })
}

fn ordered() -> World {
    let mut world = world(Contract::Immediate);
    world.rule(|rules| rules.order = WaitOrder::Fifo);
    world
}

fn position(world: &mut World, acquire: &Acquire) -> Option<usize> {
    world.blocked(&Command::Acquire(acquire.clone()))[0].place.map(|place| place.position)
}

#[test]
fn a_place_belongs_to_the_delivery_that_came_last() {
    // Broken: a client that lost its connection comes back under its request id, and when the old connection is noticed
    // to be gone its place goes with it. Must hold: the end of an earlier delivery takes nothing away, also when that
    // one has asked once more in between; the end of the last one does.
    let mut world = ordered();
    world.acquire(RESOURCE);
    let (first, other, second) = (delivery(51, 1, true), delivery(52, 7, true), delivery(51, 2, true));
    assert_eq!(position(&mut world, &first), Some(1));
    assert_eq!(position(&mut world, &other), Some(2));
    assert_eq!(position(&mut world, &second), Some(1));
    assert_eq!(position(&mut world, &delivery(51, 1, false)), Some(1), "the earlier one asks again");
    world.tell(&gone(&first, false));
    assert_eq!(position(&mut world, &other), Some(2));
    world.tell(&gone(&second, false));
    assert_eq!(position(&mut world, &other), Some(1));
}

#[test]
fn whoever_has_stepped_aside_holds_nobody_up_and_keeps_its_place() {
    // Broken: callers that time out leave places behind, and a free lease waits two seconds for each of them; or whoever
    // goes on waiting is overtaken between two requests. Must hold: the others wait a second and a half for its return and
    // no longer; one that comes back in time is before those that came later.
    let mut world = ordered();
    let owner = world.acquire(RESOURCE);
    let (first, next) = (delivery(51, 1, true), delivery(52, 2, true));
    position(&mut world, &first);
    position(&mut world, &next);
    world.tell(&gone(&first, true));
    let mut back = world.clone();
    world.release(&owner.acquisition_id);
    world.wait_ms(RETURN.get() - 1);
    assert_eq!(world.blocked(&Command::Acquire(next.clone()))[0].why, Blocked::Queued);
    world.wait_ms(1);
    assert_eq!(word(&world.tell(&Command::Acquire(next.clone()))), Code::Granted);

    back.wait_ms(KEPT_AFTER.get() - 1);
    assert_eq!(position(&mut back, &delivery(51, 3, true)), Some(1));
    back.release(&owner.acquisition_id);
    let blockers = back.blocked(&Command::Acquire(next));
    assert_eq!((blockers[0].why, blockers[0].free_in), (Blocked::Queued, TURN));
    assert_eq!(word(&back.tell(&Command::Acquire(delivery(51, 3, false)))), Code::Granted);
}

#[test]
fn a_place_that_was_left_is_kept_for_a_moment_only() {
    // Broken: the rest of a long budget is kept for a caller that said it waits no more. Must hold: five seconds.
    let mut world = ordered();
    world.acquire(RESOURCE);
    let first = delivery(51, 1, true);
    position(&mut world, &first);
    world.tell(&gone(&first, true));
    world.wait_ms(KEPT_AFTER.get());
    position(&mut world, &delivery(52, 2, true));
    assert_eq!(position(&mut world, &delivery(51, 3, true)), Some(2));
}

#[test]
fn a_place_is_over_at_its_last_millisecond_whoever_looks() {
    // Broken: one call counts a place that another has thrown away, and two callers are at the head. Must hold: at its end it
    // is over for joining, leaving, serving and counting alike.
    let at = Timestamp::from_ms;
    let (one, two, three) = (RequestKey([1; 32]), RequestKey([2; 32]), RequestKey([3; 32]));
    let mut queue = Queue::default();
    for (key, until) in [(&one, 1_000), (&two, 2_000)] {
        queue.join(key, NonZeroU64::MIN, true, at(until), at(0));
    }
    assert_eq!(Queue::of(queue.tickets().to_vec()), queue, "a row gives it back");
    let waiting =
        |now| (queue.waiting(at(now)), queue.place_of(&two, at(now)), queue.ahead_of(&two, at(now)));
    assert_eq!(waiting(999), (2, Some((2, 1)), 1));
    assert_eq!(waiting(1_000), (1, Some((2, 0)), 0));
    assert_eq!((waiting(2_000), queue.place_of(&one, at(1_000))), ((0, None, 0), None));
    let kept = |change: fn(&mut Queue, &RequestKey, Timestamp), now| {
        let mut after = queue.clone();
        change(&mut after, &three, at(now));
        after.tickets().iter().map(|ticket: &Ticket| ticket.number).collect::<Vec<_>>()
    };
    let changes: [fn(&mut Queue, &RequestKey, Timestamp); 2] =
        [|queue, key, now| queue.leave(key, NonZeroU64::MIN, false, now), Queue::serve];
    for change in changes {
        assert_eq!((kept(change, 999), kept(change, 1_000)), (vec![1, 2], vec![2]));
    }
    let join: fn(&mut Queue, &RequestKey, Timestamp) =
        |queue, key, now| queue.join(key, NonZeroU64::MIN, true, now.plus(TURN), now);
    assert_eq!((kept(join, 999), kept(join, 1_000)), (vec![1, 2, 3], vec![2, 3]));
}

#[test]
fn a_place_is_kept_for_longer_only_where_that_is_worth_a_change_of_the_row() {
    // Broken: each of a waiter's requests writes the row, because its clock is a few milliseconds on; or its place ends while
    // it waits. Must hold: a second more changes nothing, and what is more than that does; less never does.
    let at = Timestamp::from_ms;
    let key = RequestKey([1; 32]);
    for (until, expected) in [(4_000, 5_000), (5_999, 5_000), (6_000, 5_000), (6_001, 6_001)] {
        let mut queue = Queue::default();
        queue.join(&key, NonZeroU64::MIN, true, at(5_000), at(0));
        queue.join(&key, NonZeroU64::MIN, false, at(until), at(1));
        assert_eq!(queue.tickets()[0].until, at(expected), "{until}");
    }
}

#[test]
fn under_observed_a_superseded_owner_may_write_and_ends_nothing() {
    // Broken: the floor does not rise with an acquire there, so a late call of the old owner cancels its successor. Must
    // hold: 412 and no change, though its write would be admitted; the newest owner may.
    for verb in [ControlVerb::Revoke, ControlVerb::Cancel] {
        let mut world = world(Contract::Observed);
        let old = world.acquire(RESOURCE);
        world.release(&old.acquisition_id);
        let new = world.acquire(RESOURCE);
        let before = world.snapshot.clone();
        let late = call(verb, RESOURCE).under(&world, &token_on(&old, RESOURCE));
        assert_eq!(word(&world.tell(&Command::Control(late))), Code::StaleToken);
        assert_eq!(world.snapshot, before);
        let own = call(verb, RESOURCE).under(&world, &token_on(&new, RESOURCE));
        let mut ended = world.clone();
        assert_eq!(word(&ended.tell(&Command::Control(own))), Code::Controlled);
        assert_eq!(word(&world.write(&put(PATH, "late", token_on(&old, RESOURCE)))), Code::Admitted);
        assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::LeaseHeld);
    }
}
