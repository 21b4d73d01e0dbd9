//! Lock delay and longest hold: the times around the end of a lease, to the millisecond.

use fencegate::domain::lease::LeaseState;
use fencegate::domain::policy::Contract;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::lease::free_in;
use fencegate::protocol::outcome::{Blocked, Grant};
use fencegate::protocol::rows::LeaseRow;

use super::scene::{PATH, RESOURCE};
use super::several::{A, world};
use crate::support::calls::{acquire_all, call, sweep, token_on, transfer};
use crate::support::code::{Code, word};
use crate::support::draft::{delete, put};
use crate::support::world::{TTL_MS, World, acquire, acquire_by, ended, granted, renew, view};

const DELAY_MS: u64 = 3_000;

/// Something that happens to a lease.
type Act = fn(&mut World, &Grant);

fn delayed(contract: Contract) -> World {
    let mut world = world(contract);
    world.rule(|rules| rules.lock_delay = Millis::new(DELAY_MS));
    world
}

#[test]
fn after_an_expiry_nobody_acquires_until_the_delay_is_over() {
    // Broken: the next owner starts while the old one has not noticed yet; or the delay never ends. Must hold: while
    // the lease lives `lease_held`, then `lock_delay` with what is left of it, for everybody; granted at its end.
    let mut world = delayed(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    let held = world.blocked(&acquire(RESOURCE, 9));
    assert_eq!(
        (held[0].why, held[0].free_in.get()),
        (Blocked::Held { position: alice.view.lease.position }, TTL_MS + DELAY_MS)
    );
    world.wait_ms(TTL_MS);
    for left in [DELAY_MS, 1] {
        let blockers = world.blocked(&acquire(RESOURCE, 9));
        assert_eq!((blockers[0].why, blockers[0].free_in.get()), (Blocked::LockDelay, left));
        world.wait_ms(left - 1);
    }
    assert_eq!(
        word(&world.write(&put(PATH, "op", alice.fencing_tokens[0].0.clone()))),
        Code::Admitted,
        "nobody came yet"
    );
    world.wait_ms(1);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::Granted);
}

/// After how long whoever looks at this lease sees a free resource.
fn left(world: &World, lease: Option<&LeaseRow>) -> u64 {
    let namespace = world.snapshot.namespaces().next().unwrap();
    free_in(lease, world.row(RESOURCE), namespace, Millis::new(DELAY_MS), world.now).get()
}

#[test]
fn who_watches_a_lease_knows_when_to_look_again() {
    // Broken: whoever waits looks all the time, or long after the lease was free. Must hold: nothing where there is no lease;
    // what is left of it and of its delay, to the millisecond; and nothing from then on.
    let mut world = delayed(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    assert_eq!(left(&world, None), 0);
    for (pass, expected) in
        [(0, TTL_MS + DELAY_MS), (TTL_MS, DELAY_MS), (DELAY_MS - 1, 1), (1, 0), (TTL_MS, 0)]
    {
        world.wait_ms(pass);
        assert_eq!(left(&world, Some(world.lease(&grant.acquisition_id))), expected);
    }
}

#[test]
fn the_delay_counts_from_the_expiry_and_not_from_when_it_was_seen() {
    // Broken: whoever looks late puts the end of the delay off, and a busy sweeper decides who owns. Must hold: seen by
    // a renewal, a write, a sweep, another acquire or by nobody, the delay ends at the same millisecond.
    let seen: [(&str, Act); 5] = [
        ("nobody", |_, _| {}),
        ("a renewal", |world, grant| drop(world.tell(&renew(&grant.acquisition_id)))),
        ("a write", |world, grant| drop(world.write(&put(PATH, "op", token_on(grant, RESOURCE))))),
        ("a sweep", |world, grant| drop(world.tell(&sweep(grant)))),
        ("an acquire", |world, _| drop(world.blocked(&acquire(RESOURCE, 8)))),
    ];
    for (who, see) in seen {
        let mut world = delayed(Contract::LeaseBound);
        let grant = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS + DELAY_MS - 1);
        see(&mut world, &grant);
        if who != "nobody" {
            let lease = world.lease(&grant.acquisition_id);
            assert_eq!((lease.state, lease.ended_at), (LeaseState::Expired, Some(lease.expires_at)), "{who}");
        }
        assert_eq!(world.blocked(&acquire(RESOURCE, 9))[0].free_in.get(), 1, "{who}");
        world.wait_ms(1);
        assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::Granted, "{who}");
    }
}

#[test]
fn no_other_end_is_followed_by_a_delay() {
    // Broken: who gives a lease back politely makes everybody wait. Must hold: after a release, a revocation, a
    // deletion and the release of a successor the resource is free at once, whatever the clock says later.
    let ends: [(&str, Act); 4] = [
        ("release", |world, grant| drop(world.release(&grant.acquisition_id))),
        ("revoke", |world, _| drop(world.controlled(call(ControlVerb::Revoke, RESOURCE)))),
        ("delete", |world, grant| drop(world.written(&delete(RESOURCE, "end", token_on(grant, RESOURCE))))),
        ("transfer and release", |world, grant| {
            let next = world.grant(&transfer(grant, "bob", 7));
            world.release(&next.acquisition_id);
        }),
    ];
    for (name, end) in ends {
        for later in [0, 1, TTL_MS] {
            let mut world = delayed(Contract::Immediate);
            let first = world.acquire(RESOURCE);
            world.written(&put(PATH, "create", token_on(&first, RESOURCE)));
            world.release(&first.acquisition_id);
            let grant = world.acquire(RESOURCE);
            end(&mut world, &grant);
            world.wait_ms(later);
            assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::Granted, "{name}, {later} ms later");
        }
    }
}

#[test]
fn the_delay_of_each_namespace_is_kept_though_another_one_has_none() {
    // Broken: a lease over two namespaces expires; in the one without a delay a successor comes at once, the old lease
    // counts as superseded from then on, and the other namespace's delay is gone. Must hold: its own delay, in full.
    for seen in [false, true] {
        let mut world = delayed(Contract::Immediate);
        world.rule_of("v", |rules| rules.lock_delay = Millis::default());
        let grant = world.grant(&acquire_all(&[A, "v/b"], 1));
        world.wait_ms(TTL_MS + 500);
        if seen {
            world.tell(&sweep(&grant));
        }
        let next = world.grant(&acquire_all(&["v/b"], 2));
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Superseded);
        world.release(&next.acquisition_id);
        world.wait_ms(DELAY_MS - 501);
        let blockers = world.blocked(&acquire_all(&[A], 3));
        assert_eq!(
            (blockers[0].why, blockers[0].free_in.get()),
            (Blocked::LockDelay, 1),
            "seen before: {seen}"
        );
        world.wait_ms(1);
        assert_eq!(word(&world.tell(&acquire_all(&[A], 3))), Code::Granted);
    }
}

#[test]
fn a_revoke_ends_the_delay() {
    // Broken: an operator frees a resource, and everybody goes on waiting for an owner that can do no harm any more.
    // Must hold: of the revoked one only; the lease stays expired; in another lease's delay nothing has changed.
    for before in [0, TTL_MS, TTL_MS + 1] {
        let mut world = delayed(Contract::Observed);
        let grant = world.acquire(RESOURCE);
        let other = world.acquire("w/other");
        world.wait_ms(before);
        world.controlled(call(ControlVerb::Revoke, RESOURCE));
        world.wait_ms(TTL_MS + 1 - before);
        assert_eq!(world.blocked(&acquire("w/other", 9))[0].why, Blocked::LockDelay, "{before}");
        let state = if before == 0 { LeaseState::Superseded } else { LeaseState::Expired };
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), state);
        let next = world.grant(&acquire(RESOURCE, 9));
        world.wait_ms(TTL_MS);
        assert_eq!(ended(&world.renew(&other.acquisition_id)), LeaseState::Expired);
        let blockers = world.blocked(&acquire(RESOURCE, 10));
        assert_eq!(blockers[0].why, Blocked::LockDelay, "the next owner's expiry has its delay: {next:?}");
    }
}

const HOLD_MS: u64 = 25_000;

fn bounded() -> World {
    let mut world = world(Contract::LeaseBound);
    world.rule(|rules| rules.max_hold = Some(Millis::new(HOLD_MS)));
    world
}

#[test]
fn no_renewal_goes_beyond_the_longest_hold() {
    // Broken: a worker that renews for ever owns for ever. Must hold: renewals are shortened to what is left, and say
    // so; at the end the lease expires, whatever was asked.
    let mut world = bounded();
    let grant = world.acquire(RESOURCE);
    for (pass, expected) in [(9_000, TTL_MS), (6_000, TTL_MS), (5_000, 5_000), (4_999, 1)] {
        world.wait_ms(pass);
        let renewed = view(world.renew(&grant.acquisition_id));
        assert_eq!((renewed.state, renewed.remaining.get()), (LeaseState::Held, expected));
    }
    assert_eq!(word(&world.write(&put(PATH, "op", token_on(&grant, RESOURCE)))), Code::Admitted);
    world.wait_ms(1);
    assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Expired);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::Granted);
}

#[test]
fn no_ttl_is_longer_than_the_longest_hold() {
    // Broken: one long ttl goes around the bound. Must hold: refused above it, granted at it, for acquire, renewal and
    // transfer.
    let mut world = bounded();
    assert_eq!(word(&world.tell(&acquire_by(RESOURCE, 1, "", Some(HOLD_MS + 1)))), Code::TtlOutOfBounds);
    let grant = granted(world.tell(&acquire_by(RESOURCE, 1, "", Some(HOLD_MS))));
    assert_eq!(grant.view.remaining.get(), HOLD_MS);
    let long = crate::support::calls::transfer_for(&grant, "bob", 2, Some(HOLD_MS + 1));
    assert_eq!(word(&world.tell(&long)), Code::TtlOutOfBounds);
    world.wait_ms(HOLD_MS - 1);
    assert_eq!(view(world.renew(&grant.acquisition_id)).remaining.get(), 1);
}

#[test]
fn a_bound_that_came_later_takes_nothing_back() {
    // Broken: a renewal answers with less than the lease had, or ends it, because the configuration has changed since.
    // Must hold: what was granted stays; nothing is added to it.
    let mut world = world(Contract::Immediate);
    let grant = granted(world.tell(&acquire_by(RESOURCE, 1, "", Some(60_000))));
    world.rule(|rules| rules.max_hold = Some(Millis::new(HOLD_MS)));
    let until: Timestamp = world.lease(&grant.acquisition_id).expires_at;
    for _ in 0..3 {
        world.wait_ms(14_000);
        view(world.renew(&grant.acquisition_id));
        assert_eq!(world.lease(&grant.acquisition_id).expires_at, until);
    }
}

#[test]
fn the_shortest_hold_of_several_namespaces_counts_and_a_successor_begins_anew() {
    // Broken: a set is held for as long as its most patient namespace allows; or the successor inherits an end that
    // is due. Must hold: the shortest bound; counted from each acquisition's own grant.
    let mut world = bounded();
    world.rule_of("v", |rules| rules.max_hold = Some(Millis::new(2 * HOLD_MS)));
    let grant = world.grant(&acquire_all(&[A, "v/b"], 1));
    for _ in 0..3 {
        world.wait_ms(8_000);
        world.renew(&grant.acquisition_id);
    }
    assert_eq!(view(world.renew(&grant.acquisition_id)).remaining.get(), 1_000);
    let next = world.grant(&transfer(&grant, "bob", 2));
    assert_eq!(next.view.remaining.get(), TTL_MS);
    world.wait_ms(8_000);
    assert_eq!(view(world.renew(&next.acquisition_id)).remaining.get(), TTL_MS);
}
