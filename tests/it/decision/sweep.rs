//! The gateway writes expiries down by itself, and nothing else.

use fencegate::domain::lease::LeaseState;
use fencegate::domain::policy::{Contract, Policy};
use fencegate::protocol::Change;
use fencegate::protocol::lease::KEPT_AFTER_END;
use fencegate::protocol::rows::AuditVerb;

use super::scene::{PATH, RESOURCE};
use super::several::{ALL, CONTRACTS, world};
use crate::support::calls::{acquire_all, sweep};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{TTL_MS, World, ended, renew, view};

#[test]
fn an_expired_lease_is_written_down_with_the_time_of_its_end() {
    // Broken: a sweep ends leases early, or writes down when it happened to come by. Must hold: from the millisecond
    // of the end on, `expired`, with that millisecond; once, and no row but the lease's.
    for contract in CONTRACTS {
        let mut world = world(contract);
        let grant = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS - 1);
        assert_eq!(world.decide(&sweep(&grant)).changes, [], "{contract:?}");
        for late in [1, 7_000] {
            let mut world = world.clone();
            world.wait_ms(late);
            let decision = world.decide(&sweep(&grant));
            let [Change::LeaseChanged { .. }, Change::Audited(line)] = decision.changes.as_slice() else {
                panic!("{decision:?}")
            };
            let lease = world.lease(&grant.acquisition_id);
            assert_eq!(
                (line.verb, line.position, line.at),
                (AuditVerb::Expired, lease.position, lease.expires_at)
            );
            world.apply(&decision.changes);
            let lease = world.lease(&grant.acquisition_id);
            assert_eq!((lease.state, lease.ended_at), (LeaseState::Expired, Some(lease.expires_at)));
            assert_eq!(world.decide(&sweep(&grant)).changes, []);
        }
    }
}

#[test]
fn a_lease_that_was_renewed_meanwhile_is_left() {
    // Broken: a sweeper that read the old expiry ends a lease whose owner has just renewed it. Must hold: it is judged
    // again at its turn, and left.
    let mut world = world(Contract::LeaseBound);
    let grant = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS - 1);
    world.renew(&grant.acquisition_id);
    world.wait_ms(TTL_MS - 1);
    let before = world.snapshot.clone();
    assert_eq!(word(&world.tell(&sweep(&grant))), Code::Tidied);
    assert_eq!(world.snapshot, before);
    assert_eq!(view(world.renew(&grant.acquisition_id)).state, LeaseState::Held);
}

#[test]
fn an_ended_lease_keeps_the_word_that_it_has() {
    // Broken: a sweep turns what was released, or superseded, into an expiry. Must hold: every ended lease as it was,
    // however late the sweep comes; a lease that is not there is nobody's.
    let mut world = world(Contract::Immediate);
    let released = world.acquire(RESOURCE);
    world.release(&released.acquisition_id);
    let superseded = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    let newest = world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    for grant in [&released, &superseded] {
        assert_eq!(world.decide(&sweep(grant)).changes, []);
    }
    world.tell(&sweep(&newest));
    for (grant, state) in [
        (&released, LeaseState::Released),
        (&superseded, LeaseState::Superseded),
        (&newest, LeaseState::Expired),
    ] {
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), state);
    }
    let mut empty = World::new(*world.definition());
    assert_eq!(word(&empty.tell(&sweep(&newest))), Code::Tidied);
}

#[test]
fn a_sweep_takes_nothing_from_an_owner_that_may_still_write() {
    // Broken: under `observed` and `immediate` an expired owner may write until somebody comes; a sweep must not be
    // that somebody. Must hold: before and after it the same; under `lease_bound` refused both times.
    for contract in CONTRACTS {
        let mut world = world(contract);
        world.rule(|rules| rules.definition.policy = Policy::Ordered { gapless: false });
        let grant = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS);
        let bound = contract == Contract::LeaseBound;
        let expected = if bound { Code::LeaseNotLive } else { Code::Admitted };
        for sequence in [1, 2] {
            let draft =
                put(PATH, &format!("op-{sequence}"), grant.fencing_tokens[0].0.clone()).sequence(sequence);
            assert_eq!(word(&world.write(&draft)), expected, "{contract:?}");
            world.tell(&sweep(&grant));
        }
    }
}

#[test]
fn a_lease_over_several_resources_is_swept_once_and_as_a_whole() {
    // Broken: the sweep of one member leaves the lease live on the others. Must hold: one row, one end, all free.
    let mut world = world(Contract::Immediate);
    let grant = world.grant(&acquire_all(&ALL, 1));
    world.wait_ms(TTL_MS);
    let decision = world.decide(&sweep(&grant));
    let told = decision.changes.iter().filter(|change| matches!(change, Change::Audited(_))).count();
    assert_eq!((decision.changes.len(), told), (1 + ALL.len(), ALL.len()), "each of them is told");
    world.tell(&sweep(&grant));
    for page in ALL {
        assert_eq!(word(&world.tell(&acquire_all(&[page], 9))), Code::Granted);
    }
}

#[test]
fn a_lease_is_forgotten_a_month_after_its_end_unless_it_is_the_newest() {
    // Broken: the rows of leases grow for ever; or an owner is told that there never was such a lease while it may still
    // ask; or the row of a resource leads nowhere. Must hold: to the millisecond, and never the newest of any resource.
    let mut world = world(Contract::Immediate);
    let set = world.grant(&acquire_all(&ALL, 1));
    world.release(&set.acquisition_id);
    let single = world.acquire(ALL[0]);
    world.wait_ms(KEPT_AFTER_END.get() - 1);
    world.release(&single.acquisition_id);
    // It is still the newest lease of the others.
    let mut newest = world.clone();
    newest.wait_ms(1);
    assert_eq!(newest.decide(&sweep(&set)).changes, []);
    for name in &ALL[1..] {
        world.acquire(name);
    }
    assert_eq!(world.decide(&sweep(&set)).changes, []);
    world.wait_ms(1);
    let decision = world.decide(&sweep(&set));
    assert!(matches!(decision.changes.as_slice(), [Change::LeaseForgotten(_)]), "{decision:?}");
    world.apply(&decision.changes);
    assert_eq!(word(&world.tell(&renew(&set.acquisition_id))), Code::NoSuchLease);
    assert_eq!(
        word(&world.tell(&acquire_all(&ALL, 1))),
        Code::LeaseHeld,
        "its request id is forgotten with it"
    );
    assert_eq!(world.decide(&sweep(&set)).changes, []);
    assert_eq!(world.decide(&sweep(&single)).changes, [], "ended shortly ago, and the newest");
}
