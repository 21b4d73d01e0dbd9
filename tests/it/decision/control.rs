//! Revoke and cancel: everything issued so far is refused from now on, whoever asked for it.

use fencegate::domain::lease::{EndCause, LeaseState};
use fencegate::domain::policy::{Contract, Definition, Issuer};
use fencegate::domain::position::Position;
use fencegate::protocol::control::ControlVerb::{self, Cancel, Reopen, Revoke};
use fencegate::protocol::rows::{AuditVerb, Life};
use fencegate::protocol::{Change, Outcome, Refusal, Snapshot};

use super::scene::{PATH, RESOURCE};
use super::several::{CONTRACTS, world};
use crate::support::calls::{Told, call, cancel_requested, sweep, token_on};
use crate::support::code::{Code, word};
use crate::support::draft::{delete, put};
use crate::support::world::{TTL_MS, World, acquire, at, ended, token, view};

const ENDING: [(ControlVerb, EndCause, AuditVerb); 2] =
    [(Revoke, EndCause::Revoked, AuditVerb::Revoked), (Cancel, EndCause::Cancelled, AuditVerb::Cancelled)];

fn external(issuer: Issuer) -> World {
    World::new(Definition { issuer, contract: Contract::Observed, scope: 1, ..Definition::default() })
}

#[test]
fn everything_issued_so_far_is_refused_from_now_on() {
    // Broken: the owner whose lease an operator has ended goes on writing, because nobody came after it and it stands
    // at the floor (I10). Must hold under every contract, as operator and as owner: revoked through the newest issued
    // position, the lease ended with its cause, content and counters as they were.
    for contract in CONTRACTS {
        for (verb, cause, audit) in ENDING {
            for as_owner in [false, true] {
                let mut world = world(contract);
                let first = world.acquire(RESOURCE);
                world.written(&put(PATH, "create", token_on(&first, RESOURCE)));
                world.release(&first.acquisition_id);
                let owner = world.acquire(RESOURCE);
                let before = world.row(RESOURCE).clone();
                let mut control = call(verb, RESOURCE);
                if as_owner {
                    control = control.under(&world, &token_on(&owner, RESOURCE));
                }
                let decision = world.decide(&fencegate::protocol::Command::Control(control));
                let told = decision.changes.iter().filter_map(|change| match change {
                    Change::Audited(row) => Some((row.verb, row.reason.as_deref(), row.position)),
                    _ => None,
                });
                let told: Vec<_> = told.collect();
                // How the lease ended, and by what.
                let ended = (AuditVerb::Superseded, Some(cause.word()), token(2));
                assert_eq!(told, [ended, (audit, Some("a test"), token(2))]);
                world.apply(&decision.changes);
                let row = world.row(RESOURCE);
                assert_eq!(row.revoked_through, Some(token(2)));
                assert_eq!(
                    (row.issued, row.commit_no, row.applied),
                    (before.issued, before.commit_no, before.applied)
                );
                assert!(row.published().is_some() && world.target(PATH).is_some());
                let lease = world.lease(&owner.acquisition_id);
                assert_eq!((lease.state, lease.cause), (LeaseState::Superseded, Some(cause)));
                let late = word(&world.write(&put(PATH, "late", token_on(&owner, RESOURCE))));
                assert_eq!(
                    late,
                    if verb == Cancel { Code::Cancelled } else { Code::StaleToken },
                    "{contract:?}"
                );
            }
        }
    }
}

#[test]
fn a_revoked_resource_is_free_at_once_and_its_tokens_go_on() {
    // Broken: "unlock" gives the next owner the number of the last one, or a token that is revoked already. Must hold:
    // granted at once, one above, and its writes are admitted; the revoked owner's are refused for ever.
    for contract in CONTRACTS {
        let mut world = world(contract);
        let alice = world.acquire(RESOURCE);
        world.controlled(call(Revoke, RESOURCE));
        assert_eq!(word(&world.write(&put(PATH, "late", token_on(&alice, RESOURCE)))), Code::StaleToken);
        let bob = world.acquire(RESOURCE);
        assert_eq!(bob.view.lease.position, token(2));
        assert_eq!(word(&world.write(&put(PATH, "late", token_on(&alice, RESOURCE)))), Code::StaleToken);
        assert_eq!(
            word(&world.write(&put(PATH, "new", token_on(&bob, RESOURCE)))),
            Code::Admitted,
            "{contract:?}"
        );
        assert_eq!(ended(&world.renew(&alice.acquisition_id)), LeaseState::Superseded);
    }
}

#[test]
fn a_cancelled_resource_stays_closed_until_it_is_reopened() {
    // Broken: the next worker in line takes a cancelled job up. Must hold: no acquire, no write, no advance, for how
    // long whatever; the reason stands in the row, and only while it is cancelled.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    world.controlled(call(Cancel, RESOURCE).because("the customer left"));
    let row = world.row(RESOURCE);
    assert_eq!((row.life, row.reason.as_deref()), (Life::Cancelled, Some("the customer left")));
    let token = token_on(&alice, RESOURCE);
    for _ in 0..2 {
        assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::Cancelled);
        assert_eq!(word(&world.write(&put(PATH, "op", token.clone()))), Code::Cancelled);
        assert_eq!(word(&world.advance(RESOURCE, &token)), Code::Cancelled);
        world.wait_ms(100 * TTL_MS);
    }
    world.controlled(call(Reopen, RESOURCE).keyed("1"));
    assert_eq!(world.row(RESOURCE).reason, None);
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::Granted);
}

#[test]
fn a_worker_hears_that_its_job_was_cancelled_and_no_other_worker_does() {
    // Broken: the worker goes on because "superseded" could mean anything; or one that lost its lease in another way
    // is told to stop the job. Must hold: only who was cancelled, for renewal and repeat, also after a reopen and the
    // next owner.
    let mut world = world(Contract::Immediate);
    let expired = world.acquire("w/expired");
    world.wait_ms(TTL_MS);
    let revoked = world.acquire("w/revoked");
    let cancelled = world.acquire(RESOURCE);
    for (verb, page) in
        [(Cancel, "w/expired"), (Revoke, "w/revoked"), (Cancel, "w/revoked"), (Cancel, RESOURCE)]
    {
        world.controlled(call(verb, page));
    }
    let told = |world: &mut World, grant: &fencegate::protocol::outcome::Grant| {
        let renewed = world.renew(&grant.acquisition_id);
        (ended(&renewed), cancel_requested(&renewed))
    };
    assert_eq!(told(&mut world, &expired), (LeaseState::Expired, false));
    assert_eq!(told(&mut world, &revoked), (LeaseState::Superseded, false));
    assert_eq!(told(&mut world, &cancelled), (LeaseState::Superseded, true));
    world.controlled(call(Reopen, RESOURCE).keyed("1"));
    let next = world.acquire(RESOURCE);
    assert_eq!(told(&mut world, &cancelled), (LeaseState::Superseded, true));
    let request = u128::from_be_bytes(cancelled.view.lease.nonce);
    assert!(cancel_requested(&world.tell(&acquire(RESOURCE, request))));
    assert_eq!(view(world.renew(&next.acquisition_id)).state, LeaseState::Held);
}

#[test]
fn what_had_ended_before_keeps_its_word() {
    // Broken: a revocation rewrites history: the lease that expired answers `superseded` although no newer position
    // exists. Must hold: expired stays expired, seen or not; released stays released.
    for (verb, _, _) in ENDING {
        for seen in [false, true] {
            let mut world = world(Contract::Immediate);
            let grant = world.acquire(RESOURCE);
            world.wait_ms(TTL_MS);
            if seen {
                world.tell(&sweep(&grant));
            }
            world.controlled(call(verb, RESOURCE));
            let lease = world.lease(&grant.acquisition_id);
            assert_eq!((lease.state, lease.cause), (LeaseState::Expired, None), "{verb:?}, seen: {seen}");
            assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Expired);
            let released = world.acquire("w/b");
            world.release(&released.acquisition_id);
            world.controlled(call(verb, "w/b"));
            assert_eq!(ended(&world.renew(&released.acquisition_id)), LeaseState::Released);
        }
    }
}

#[test]
fn a_superseded_owner_ends_nothing() {
    // Broken: the paused owner wakes up and cancels its successor's job. Must hold: 412 under every contract that
    // fences, and nothing changes; a foreign seal, none, or one from the future are refused as for a write.
    for (verb, _, _) in ENDING {
        let mut world = world(Contract::Immediate);
        let alice = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS);
        let bob = world.acquire(RESOURCE);
        let elsewhere = world.acquire("w/b");
        let before = world.snapshot.clone();
        for (token, expected) in [
            (token_on(&alice, RESOURCE), Code::StaleToken),
            (token_on(&elsewhere, "w/b"), Code::SealWrong),
            ("0.2".to_owned(), Code::SealMissing),
            (world.sealed(RESOURCE, token(2)), Code::SealWrong),
            (world.sealed(RESOURCE, token(3)), Code::IssuerBehind),
        ] {
            let control = call(verb, RESOURCE).under(&world, &token);
            assert_eq!(word(&world.control(control)), expected, "{verb:?}");
        }
        assert_eq!(world.snapshot, before);
        let control = call(verb, RESOURCE).under(&world, &token_on(&bob, RESOURCE));
        assert_eq!(word(&world.control(control)), Code::Controlled);
    }
}

#[test]
fn an_owner_is_judged_by_the_rows_in_their_order() {
    // Broken: another order answers another code: an owner that asks again whether its job is cancelled must be told
    // so, and not only that its token is stale. Must hold: row 7 before 8, 8 before 12, for revoke and cancel.
    for (verb, _, _) in ENDING {
        for (life, expected) in [(Life::Cancelled, Code::Cancelled), (Life::Deleted, Code::Deleted)] {
            let mut world = world(Contract::Immediate);
            let owner = world.acquire(RESOURCE);
            let mut row = world.row(RESOURCE).clone();
            (row.life, row.revoked_through) = (life, Some(token(1)));
            world.snapshot.insert_resource(row);
            for token in [token_on(&owner, RESOURCE), "0.1".to_owned()] {
                let control = call(verb, RESOURCE).under(&world, &token);
                assert_eq!(word(&world.control(control)), expected, "{verb:?}, {life:?}");
            }
        }
        let mut world = world(Contract::Immediate);
        world.acquire(RESOURCE);
        world.controlled(call(Revoke, RESOURCE));
        let unsealed = call(verb, RESOURCE).under(&world, "0.1");
        assert_eq!(word(&world.control(unsealed)), Code::SealMissing);
    }
}

#[test]
fn a_lease_bound_owner_whose_lease_is_over_ends_nothing_and_an_operator_does() {
    // Broken: after its lease an owner may still cancel the job that somebody else is about to take up. Must hold:
    // 412, the expiry that was seen is written down; without a token it is an operator's call and carried out.
    for (verb, _, _) in ENDING {
        let mut world = world(Contract::LeaseBound);
        let owner = world.acquire(RESOURCE);
        world.wait_ms(TTL_MS);
        let before = world.row(RESOURCE).clone();
        let control = call(verb, RESOURCE).under(&world, &token_on(&owner, RESOURCE));
        assert_eq!(word(&world.control(control)), Code::LeaseNotLive, "{verb:?}");
        assert_eq!(*world.row(RESOURCE), before);
        assert_eq!(world.lease(&owner.acquisition_id).state, LeaseState::Expired);
        assert_eq!(word(&world.control(call(verb, RESOURCE))), Code::Controlled);
    }
}

#[test]
fn only_a_cancel_may_come_before_anything_else() {
    // Broken: a job that is called off before it has begun begins all the same; or a revocation of a typing error makes
    // a row. Must hold: cancel of the unheard closes it and records its namespace; revoke and reopen are 404.
    let mut world = world(Contract::Immediate);
    assert_eq!(word(&world.control(call(Revoke, RESOURCE))), Code::NothingToControl);
    assert_eq!(word(&world.control(call(Reopen, RESOURCE).keyed("1"))), Code::NothingToControl);
    assert_eq!(world.snapshot, Snapshot::default());
    world.controlled(call(Cancel, RESOURCE));
    let row = world.row(RESOURCE);
    assert_eq!((row.life, row.revoked_through, row.issued), (Life::Cancelled, None, Position::ZERO));
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 1))), Code::Cancelled);
    world.controlled(call(Reopen, RESOURCE).keyed("1"));
    let first = world.acquire(RESOURCE);
    assert_eq!(first.view.lease.position, token(1));
    assert_eq!(word(&world.write(&put(PATH, "op", token_on(&first, RESOURCE)))), Code::Admitted);
}

#[test]
fn a_deleted_resource_is_not_cancelled_but_its_next_owner_can_be_revoked() {
    // Broken: cancel brings a tombstone back into another life. Must hold: 410 for cancel and reopen; revoke ends the
    // lease of whoever was about to create it again, and it stays deleted.
    let mut world = world(Contract::Immediate);
    let first = world.acquire(RESOURCE);
    world.written(&put(PATH, "create", token_on(&first, RESOURCE)));
    world.release(&first.acquisition_id);
    let second = world.acquire(RESOURCE);
    world.written(&delete(RESOURCE, "end", token_on(&second, RESOURCE)));
    let before = world.snapshot.clone();
    for verb in [Cancel, Reopen] {
        let outcome = world.control(call(verb, RESOURCE).keyed("1"));
        assert_eq!(outcome.refusal(), Some(&Refusal::Deleted { revoked_through: Some(token(2)) }));
    }
    assert_eq!(world.snapshot, before);
    let third = world.acquire(RESOURCE);
    world.controlled(call(Revoke, RESOURCE));
    assert_eq!(
        (world.row(RESOURCE).life, world.row(RESOURCE).revoked_through),
        (Life::Deleted, Some(token(3)))
    );
    assert_eq!(word(&world.write(&put(PATH, "again", token_on(&third, RESOURCE)))), Code::Deleted);
    let fourth = world.acquire(RESOURCE);
    assert_eq!(world.written(&put(PATH, "again", token_on(&fourth, RESOURCE))).incarnation.get(), 2);
}

#[test]
fn an_external_owner_revokes_itself_and_what_is_below_it() {
    // Broken: an owner above the floor cancels, and its own delayed writes, or those of the owners between, get in
    // after the reopen. Must hold: the call is admitted like a write: its position becomes the floor, and is revoked.
    for (verb, _, _) in ENDING {
        let mut world = external(Issuer::Trusted { max_jump: None });
        world.written(&put(PATH, "first", "10"));
        let control = call(verb, RESOURCE).under(&world, "12");
        world.controlled(control);
        assert_eq!(
            (world.row(RESOURCE).floor, world.row(RESOURCE).revoked_through),
            (token(12), Some(token(12)))
        );
        if verb == Cancel {
            let late = call(Reopen, RESOURCE).under(&world, "11").keyed("1");
            assert_eq!(word(&world.control(late)), Code::StaleToken);
            let fresh = call(Reopen, RESOURCE).under(&world, "13").keyed("1");
            world.controlled(fresh);
        }
        assert_eq!(word(&world.write(&put(PATH, "own", "12"))), Code::StaleToken, "{verb:?}");
        assert_eq!(word(&world.write(&put(PATH, "next", "13"))), Code::Admitted, "{verb:?}");
    }
}

#[test]
fn an_external_owner_may_present_what_a_write_could() {
    // Broken: by way of a control call a caller raises the floor that no write of it could raise. Must hold: rows 10
    // to 12 as for a write: an epoch ahead, a jump, a position that nobody registered, a stale one.
    let cases = [
        (Issuer::Trusted { max_jump: Some(5) }, "16", Code::TokenJump),
        (Issuer::Trusted { max_jump: Some(5) }, "15", Code::Controlled),
        (Issuer::Trusted { max_jump: None }, "1.11", Code::EpochAhead),
        (Issuer::Trusted { max_jump: None }, "9", Code::StaleToken),
        (Issuer::Registered, "11", Code::AdvanceForbidden),
        (Issuer::Registered, "10", Code::Controlled),
        (Issuer::Registered, "9", Code::StaleToken),
    ];
    for (verb, _, _) in ENDING {
        for (issuer, token, expected) in cases {
            let mut world = external(issuer);
            for step in ["5", "10"] {
                world.advance(RESOURCE, step);
            }
            assert_eq!(world.row(RESOURCE).floor, at(0, 10));
            let control = call(verb, RESOURCE).under(&world, token);
            assert_eq!(word(&world.control(control)), expected, "{verb:?}, {issuer:?}, {token}");
        }
    }
}

#[test]
fn an_operator_needs_no_token_and_no_lease() {
    // Broken: a job whose owner is gone cannot be called off. Must hold under every issuer, with and without a lease:
    // carried out; a second call without a key is carried out again and moves nothing back.
    for (verb, _, _) in ENDING {
        let mut world = external(Issuer::Registered);
        world.advance(RESOURCE, "7");
        for _ in 0..2 {
            world.controlled(call(verb, RESOURCE));
            assert_eq!(world.row(RESOURCE).revoked_through, Some(token(7)));
        }
        let mut world = super::several::world(Contract::LeaseBound);
        world.acquire(RESOURCE);
        for _ in 0..2 {
            assert!(matches!(world.control(call(verb, RESOURCE)), Outcome::Controlled(_)));
            assert_eq!(world.row(RESOURCE).revoked_through, Some(token(1)));
        }
    }
}

#[test]
fn a_job_that_nobody_has_begun_can_be_called_off_and_has_nothing_to_revoke() {
    // Broken: an owner of an external lease cannot cancel before the first write; or a revoke makes a resource of nothing.
    // Must hold: both as for an operator.
    for (verb, code) in [(Revoke, Code::NothingToControl), (Cancel, Code::Controlled)] {
        let mut world = external(Issuer::Trusted { max_jump: None });
        let control = call(verb, RESOURCE).under(&world, "5");
        assert_eq!(word(&world.control(control)), code);
        assert_eq!(word(&external(Issuer::Registered).control(call(verb, RESOURCE))), code);
    }
}
