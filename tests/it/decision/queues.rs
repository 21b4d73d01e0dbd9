//! Waiting in order: places, turns, and who may take a free lease when.

use fencegate::domain::lease::{LeaseState, WaitOrder};
use fencegate::domain::policy::Contract;
use fencegate::domain::time::Millis;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::{Blocked, Place};
use fencegate::protocol::queue::{KEPT_AFTER, PLACES, TURN};
use fencegate::protocol::rows::AuditVerb;
use fencegate::protocol::{Change, Command};

use super::scene::RESOURCE;
use super::several::{A, B, C, world};
use crate::support::calls::{acquire_all, call, leave, waiting};
use crate::support::code::{Code, word};
use crate::support::world::{TTL_MS, World, acquire, ended};

const BUDGET_MS: u64 = 30_000;

fn ordered() -> World {
    let mut world = world(Contract::Immediate);
    world.rule(|rules| rules.order = WaitOrder::Fifo);
    world
}

fn wait(request: u128) -> Command {
    waiting(&[RESOURCE], request, BUDGET_MS)
}

/// The place of a request that is refused.
fn place(world: &mut World, command: &Command) -> Option<usize> {
    world.blocked(command)[0].place.map(|place| place.position)
}

/// A held lease and three that wait for it, in the order of their requests.
fn three() -> (World, fencegate::protocol::outcome::Grant) {
    let mut world = ordered();
    let owner = world.acquire(RESOURCE);
    for request in 51..=53 {
        world.blocked(&wait(request));
        world.wait_ms(100);
    }
    (world, owner)
}

#[test]
fn whoever_has_waited_longest_is_next() {
    // Broken: whoever asks first after the release wins, and somebody waits for ever. Must hold: asked in any order,
    // only the head is granted; then the next one is the head.
    let (mut world, mut owner) = three();
    for (next, others) in [(51, vec![53, 52]), (52, vec![53]), (53, vec![])] {
        world.release(&owner.acquisition_id);
        for other in others {
            let blockers = world.blocked(&wait(other));
            assert_eq!(blockers[0].why, Blocked::Queued, "{other} before {next}");
        }
        owner = world.grant(&wait(next));
    }
    assert_eq!(world.row(RESOURCE).queue.tickets(), []);
}

#[test]
fn a_place_says_how_many_stand_before_it() {
    // Broken: a waiter cannot tell whether it comes next or in an hour. Must hold: counted from 1 at the head; the
    // number of a ticket never changes while the place moves up.
    let (mut world, owner) = three();
    let places = |world: &mut World| [51, 52, 53].map(|request| world.blocked(&wait(request))[0].place);
    let first = places(&mut world);
    assert_eq!(
        first,
        [1, 2, 3].map(|number: u64| Some(Place { number, position: usize::try_from(number).unwrap() }))
    );
    world.tell(&leave(&[RESOURCE], 51));
    let moved = world.blocked(&wait(53))[0].place;
    assert_eq!(moved, Some(Place { number: 3, position: 2 }));
    world.release(&owner.acquisition_id);
    assert_eq!(word(&world.tell(&wait(52))), Code::Granted);
}

#[test]
fn a_newcomer_that_does_not_wait_does_not_push_in() {
    // Broken: a caller that only tries its luck overtakes everybody who waits. Must hold: refused while others wait,
    // without a place, held or free; granted when each of them has had its turn.
    let (mut world, owner) = three();
    assert_eq!(place(&mut world, &acquire(RESOURCE, 60)), None);
    world.release(&owner.acquisition_id);
    let before = world.snapshot.clone();
    for late in [0, 3 * TURN.get() - 1] {
        world.wait_ms(late);
        let blockers = world.blocked(&acquire(RESOURCE, 60));
        assert_eq!((blockers[0].why, blockers[0].place), (Blocked::Queued, None));
        assert_eq!(blockers[0].free_in.get(), 3 * TURN.get() - late);
    }
    assert_eq!(world.snapshot, before);
    world.wait_ms(1);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 60))), Code::Granted);
    assert_eq!(place(&mut world, &wait(51)), Some(1), "and those who wait keep their places");
}

#[test]
fn nobody_waits_for_the_absent() {
    // Broken: the head has died, and the lease stays free until its place is over. Must hold: a turn of two seconds
    // for each place, to the millisecond, counted from when the lease became free; who comes late for its turn may
    // still take it.
    for (request, ahead) in [(51_u128, 0), (52, 1), (53, 2)] {
        let (mut world, owner) = three();
        world.release(&owner.acquisition_id);
        if ahead > 0 {
            world.wait_ms(ahead * TURN.get() - 1);
            let blockers = world.blocked(&wait(request));
            assert_eq!((blockers[0].why, blockers[0].free_in.get()), (Blocked::Queued, 1));
            world.wait_ms(1);
        }
        let mut late = world.clone();
        assert_eq!(word(&world.tell(&wait(request))), Code::Granted);
        late.wait_ms(TURN.get());
        assert_eq!(word(&late.tell(&wait(51))), Code::Granted, "late, and nobody came before");
    }
}

#[test]
fn turns_count_from_the_end_of_the_lease_and_of_its_lock_delay() {
    // Broken: turns that count from when somebody looked let everybody in at once, or nobody. Must hold: from the
    // expiry, with the lock delay before it; from the moment of a revocation.
    for delay in [0, 3_000] {
        let (mut world, owner) = three();
        world.rule(|rules| rules.lock_delay = Millis::new(delay));
        let left = world.now.until(world.lease(&owner.acquisition_id).expires_at).get();
        world.wait_ms(left + delay + TURN.get() - 1);
        let blockers = world.blocked(&wait(52));
        assert_eq!((blockers[0].why, blockers[0].free_in.get()), (Blocked::Queued, 1), "delay {delay}");
        world.wait_ms(1);
        assert_eq!(word(&world.tell(&wait(52))), Code::Granted, "delay {delay}");
    }
    let (mut world, _) = three();
    world.controlled(call(ControlVerb::Revoke, RESOURCE));
    assert_eq!(world.blocked(&wait(52))[0].free_in, TURN);
    assert_eq!(word(&world.tell(&wait(51))), Code::Granted);
}

#[test]
fn a_place_that_is_over_is_passed_by() {
    // Broken: the ticket of a caller that gave up long ago holds everybody up. Must hold: kept to the end of the
    // budget and five seconds more, to the millisecond; then the next one is the head.
    let mut world = ordered();
    let owner = world.grant(&crate::support::world::acquire_by(RESOURCE, 1, "", Some(60_000)));
    world.blocked(&waiting(&[RESOURCE], 51, 1_000));
    world.wait_ms(1_000 + KEPT_AFTER.get() - 1);
    assert_eq!(place(&mut world, &wait(52)), Some(2));
    world.wait_ms(1);
    assert_eq!(place(&mut world, &wait(52)), Some(1));
    world.release(&owner.acquisition_id);
    assert_eq!(word(&world.tell(&wait(52))), Code::Granted);
}

#[test]
fn a_place_is_kept_by_its_request_id() {
    // Broken: a caller that asks again goes to the end of the queue, so that patience loses. Must hold: the same
    // request finds its place, also with a shorter budget or none; another request is another caller; asking again
    // keeps the place for longer, and only that.
    let (mut world, owner) = three();
    assert_eq!(place(&mut world, &waiting(&[RESOURCE], 51, 100)), Some(1));
    assert_eq!(place(&mut world, &acquire(RESOURCE, 52)), Some(2));
    assert_eq!(place(&mut world, &wait(54)), Some(4));
    for _ in 0..5 {
        world.wait_ms(9_000);
        world.renew(&owner.acquisition_id);
        world.blocked(&wait(52));
    }
    let kept = world.blocked(&wait(52))[0].place;
    assert_eq!(kept, Some(Place { number: 2, position: 1 }), "the others have not asked again");
}

#[test]
fn a_waiter_that_goes_gives_its_place_up() {
    // Broken: a client that hung up stands in the way for its turn. Must hold: the next one is the head at once;
    // leaving twice, or without a place, or of what was never heard of, changes nothing.
    let (mut world, owner) = three();
    assert_eq!(word(&world.tell(&leave(&[RESOURCE], 51))), Code::Tidied);
    let before = world.snapshot.clone();
    for command in [leave(&[RESOURCE], 51), leave(&[RESOURCE], 99), leave(&["w/unheard"], 51)] {
        assert_eq!(word(&world.tell(&command)), Code::Tidied);
    }
    assert_eq!(world.snapshot, before);
    world.release(&owner.acquisition_id);
    assert_eq!(word(&world.tell(&wait(52))), Code::Granted);
}

#[test]
fn a_grant_gives_the_place_up_and_its_repeat_needs_none() {
    // Broken: the owner stands in its own way after it has released; or the repeat of a granted request waits. Must
    // hold: no ticket left, the repeat is the same acquisition, and after its end it takes no place again.
    let (mut world, owner) = three();
    world.release(&owner.acquisition_id);
    let grant = world.grant(&wait(51));
    assert_eq!(world.row(RESOURCE).queue.tickets().len(), 2);
    let again = world.grant(&wait(51));
    assert!(again.repeated && again.acquisition_id == grant.acquisition_id);
    world.release(&grant.acquisition_id);
    assert_eq!(ended(&world.tell(&wait(51))), LeaseState::Released);
    assert_eq!(world.row(RESOURCE).queue.tickets().len(), 2);
}

#[test]
fn a_queue_has_room_for_so_many() {
    // Broken: a row that grows without a bound, for ever rewritten. Must hold: 1,024 places; whoever comes then waits
    // without one, behind all of them; with the first place that is given up there is room again.
    let mut world = ordered();
    world.acquire(RESOURCE);
    let last = u128::try_from(PLACES).unwrap() + 100;
    for request in 101..=last {
        world.blocked(&wait(request));
    }
    assert_eq!(PLACES, 1_024);
    assert_eq!(place(&mut world, &wait(last)), Some(PLACES));
    let before = world.snapshot.clone();
    assert_eq!(place(&mut world, &wait(last + 1)), None);
    assert_eq!(world.snapshot, before);
    world.tell(&leave(&[RESOURCE], 500));
    assert_eq!(place(&mut world, &wait(last + 1)), Some(PLACES));
}

#[test]
fn several_resources_are_queued_for_at_once_and_in_one_order() {
    // Broken: a caller takes its place on the second resource only once the first is free: two callers stand in
    // opposite orders and wait for each other's turn. Must hold: a place on each, also on the free ones; the head of
    // all is granted, the other one is behind it everywhere.
    let mut world = ordered();
    for page in [A, B, C] {
        let heard_of = world.acquire(page);
        world.release(&heard_of.acquisition_id);
    }
    let owner = world.acquire(C);
    world.blocked(&waiting(&[A, B, C], 51, BUDGET_MS));
    let blockers = world.blocked(&waiting(&[B, C], 52, BUDGET_MS));
    let whys: Vec<_> =
        blockers.iter().map(|one| (one.resource.as_str(), one.place.unwrap().position)).collect();
    assert_eq!(whys, [(B, 2), (C, 2)]);
    assert_eq!(
        world.blocked(&acquire_all(&[A], 60))[0].why,
        Blocked::Queued,
        "a free one is kept for the head"
    );
    world.release(&owner.acquisition_id);
    world.blocked(&waiting(&[B, C], 52, BUDGET_MS));
    let grant = world.grant(&waiting(&[A, B, C], 51, BUDGET_MS));
    world.release(&grant.acquisition_id);
    assert_eq!(word(&world.tell(&waiting(&[B, C], 52, BUDGET_MS))), Code::Granted);
    for page in [A, B, C] {
        assert_eq!(world.row(page).queue.tickets(), [], "{page}");
    }
}

#[test]
fn a_race_has_no_queue() {
    // Broken: rows change for callers that only wait their luck. Must hold: no place, no change; free means free.
    let mut world = world(Contract::Immediate);
    let owner = world.acquire(RESOURCE);
    let before = world.snapshot.clone();
    for request in 51..=53 {
        assert_eq!(place(&mut world, &wait(request)), None);
    }
    assert_eq!(world.snapshot, before);
    world.release(&owner.acquisition_id);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 60))), Code::Granted);
}

#[test]
fn waiting_moves_nothing_but_the_queue() {
    // Broken: a caller that waits moves the fence, the counter or the lease (I19). Must hold: only the queue of the
    // row, and an expiry that was seen.
    let (mut world, owner) = three();
    world.rule(|rules| rules.lock_delay = Millis::new(5_000));
    world.wait_ms(TTL_MS);
    for request in 51..60 {
        let decision = world.decide(&wait(request));
        for change in &decision.changes {
            match change {
                Change::Resource { before, after } => {
                    let mut row = before.as_deref().unwrap().clone();
                    row.queue = after.queue.clone();
                    assert_eq!(row, **after);
                }
                Change::LeaseChanged { before, after } => {
                    assert_eq!((before.state, after.state), (LeaseState::Held, LeaseState::Expired));
                    assert_eq!(after.acquisition, owner.acquisition_id.hash());
                }
                Change::Audited(row) => assert_eq!(row.verb, AuditVerb::Expired),
                other => panic!("{other:?}"),
            }
        }
        world.apply(&decision.changes);
    }
}
