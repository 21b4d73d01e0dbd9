//! Reopening: the job may be taken up again, and nothing of before comes back.

use fencegate::domain::counter::CommitNo;
use fencegate::domain::policy::{Contract, Definition, Issuer};
use fencegate::protocol::control::ControlVerb::{Cancel, Reopen};
use fencegate::protocol::rows::Life;
use fencegate::protocol::{Change, Command};

use super::scene::{PATH, RESOURCE};
use super::several::{CONTRACTS, world};
use crate::support::calls::{Told, call, token_on};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{World, at, token};

#[test]
fn a_reopened_resource_is_owned_anew_and_every_older_position_stays_revoked() {
    // Broken: with the reopen the cancelled owner is back at the floor and writes. Must hold under every contract: the
    // next token, an admitted write under it, and 412 for all before; content and commit numbers go on.
    for contract in CONTRACTS {
        let mut world = world(contract);
        let alice = world.acquire(RESOURCE);
        world.written(&put(PATH, "create", token_on(&alice, RESOURCE)));
        world.controlled(call(Cancel, RESOURCE));
        let before = world.row(RESOURCE).clone();
        let reopened = world.controlled(call(Reopen, RESOURCE).keyed("1"));
        let row = world.row(RESOURCE).clone();
        assert_eq!((row.life, &row), (Life::Active, &reopened.resource));
        assert_eq!(
            (row.floor, row.issued, row.revoked_through),
            (before.floor, before.issued, before.revoked_through)
        );
        assert_eq!((row.incarnation, row.commit_no), (before.incarnation, before.commit_no));
        assert!(world.target(PATH).is_some());
        assert_eq!(
            word(&world.write(&put(PATH, "late", token_on(&alice, RESOURCE)))),
            Code::StaleToken,
            "{contract:?}"
        );
        let bob = world.acquire(RESOURCE);
        assert_eq!(bob.view.lease.position, token(2));
        assert_eq!(
            world
                .written(&put(PATH, "next", token_on(&bob, RESOURCE)))
                .response
                .commit
                .map_or(0, CommitNo::get),
            2
        );
    }
}

#[test]
fn an_owner_of_before_opens_nothing() {
    // Broken: the worker whose job was cancelled opens it again with the token that it still has. Must hold: 412.
    let mut world = world(Contract::Immediate);
    let owner = world.acquire(RESOURCE);
    world.controlled(call(Cancel, RESOURCE));
    let control = call(Reopen, RESOURCE).under(&world, &token_on(&owner, RESOURCE)).keyed("1");
    assert_eq!(word(&world.control(control)), Code::StaleToken);
    let unsealed = call(Reopen, RESOURCE).under(&world, "0.2").keyed("1");
    assert_eq!(word(&world.control(unsealed)), Code::SealMissing);
    assert_eq!(world.row(RESOURCE).life, Life::Cancelled);
}

#[test]
fn a_reopen_of_what_is_open_changes_nothing() {
    // Broken: a reopen that comes too early moves the floor, or ends a lease. Must hold, with and without a position:
    // carried out and recorded under its key; the row, its time of change included, is what it was.
    for (issuer, position) in
        [(Issuer::Gateway, None), (Issuer::Registered, None), (Issuer::Registered, Some("9"))]
    {
        let mut world = World::new(Definition {
            issuer,
            contract: Contract::Observed,
            scope: 1,
            ..Definition::default()
        });
        match issuer {
            Issuer::Gateway => drop(world.acquire(RESOURCE)),
            Issuer::Trusted { .. } | Issuer::Registered => drop(world.advance(RESOURCE, "3")),
        }
        world.wait_ms(1);
        let before = world.row(RESOURCE).clone();
        let told = call(Reopen, RESOURCE).keyed("1");
        let told = match position {
            Some(token) => told.under(&world, token),
            None => told,
        };
        let decision = world.decide(&Command::Control(told));
        assert!(
            matches!(decision.changes.as_slice(), [Change::Audited(_), Change::ControlRecorded(_)]),
            "{:?}",
            decision.changes
        );
        world.apply(&decision.changes);
        assert_eq!(*world.row(RESOURCE), before, "{issuer:?}, {position:?}");
    }
}

#[test]
fn under_an_external_issuer_a_reopen_brings_a_fresh_position() {
    // Broken: whoever was cancelled is admissible again at the floor, because the gateway issues nothing that could be
    // above it. Must hold: without a token 428; at or below floor and revocation 412; above, it becomes the floor, and
    // everything below it is stale.
    for issuer in
        [Issuer::Trusted { max_jump: None }, Issuer::Trusted { max_jump: Some(2) }, Issuer::Registered]
    {
        let mut world = World::new(Definition {
            issuer,
            contract: Contract::Observed,
            scope: 1,
            ..Definition::default()
        });
        world.advance(RESOURCE, "10");
        world.controlled(call(Cancel, RESOURCE));
        assert_eq!(world.row(RESOURCE).revoked_through, Some(token(10)));
        let before = world.snapshot.clone();
        assert_eq!(word(&world.control(call(Reopen, RESOURCE).keyed("1"))), Code::FreshTokenRequired);
        for (token, expected) in
            [("9", Code::StaleToken), ("10", Code::StaleToken), ("1.11", Code::EpochAhead)]
        {
            let control = call(Reopen, RESOURCE).under(&world, token).keyed("1");
            assert_eq!(word(&world.control(control)), expected, "{issuer:?}, {token}");
        }
        assert_eq!(world.snapshot, before);
        // Like an advance, a reopen is there to raise the floor: no bound on a writer's jump stands against it.
        let control = call(Reopen, RESOURCE).under(&world, "20").keyed("1");
        world.controlled(control);
        let row = world.row(RESOURCE);
        assert_eq!((row.life, row.floor, row.revoked_through), (Life::Active, token(20), Some(token(10))));
        assert_eq!(word(&world.write(&put(PATH, "late", "19"))), Code::StaleToken);
        assert_eq!(word(&world.write(&put(PATH, "next", "20"))), Code::Admitted, "{issuer:?}");
    }
}

#[test]
fn a_job_that_was_called_off_before_it_began_needs_a_position_too() {
    // Broken: the external rule looks only at what is revoked, and before the first position nothing is. Must hold: 428
    // without a token; any position above the start of the epoch opens it.
    let definition = Definition {
        issuer: Issuer::Registered,
        contract: Contract::Observed,
        scope: 1,
        ..Definition::default()
    };
    let mut world = World::new(definition);
    world.controlled(call(Cancel, RESOURCE));
    assert_eq!(word(&world.control(call(Reopen, RESOURCE).keyed("1"))), Code::FreshTokenRequired);
    world.set_epoch(2);
    let old = call(Reopen, RESOURCE).under(&world, "0.900").keyed("1");
    assert_eq!(word(&world.control(old)), Code::StaleToken);
    let fresh = call(Reopen, RESOURCE).under(&world, "2.1").keyed("1");
    world.controlled(fresh);
    assert_eq!(world.row(RESOURCE).floor, at(2, 1));
    assert_eq!(word(&world.write(&put(PATH, "first", "2.1"))), Code::Admitted);
}
