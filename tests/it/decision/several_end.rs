//! An acquisition over several resources ends as a whole, and only what ended it leaves a mark.

use fencegate::domain::lease::{EndCause, LeaseState};
use fencegate::domain::policy::Contract;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::Grant;
use fencegate::protocol::{Change, Outcome};

use super::several::{A, ALL, B, C, CONTRACTS, world};
use crate::support::calls::{acquire_all, call, sweep, token_on, transfer};
use crate::support::code::{Code, word};
use crate::support::draft::{delete, put};
use crate::support::world::{TTL_MS, World, ended};

/// An act on one of the resources of a lease, and how the lease is called from then on.
struct End {
    name: &'static str,
    act: fn(&mut World, &Grant, &str),
    state: LeaseState,
    cause: Option<EndCause>,
    /// Whether it leaves the resource that it was done to as it is.
    spares: bool,
}

fn ends() -> [End; 6] {
    let end = |name, act, state, cause, spares| End { name, act, state, cause, spares };
    [
        end(
            "release",
            |world, grant, _| drop(world.release(&grant.acquisition_id)),
            LeaseState::Released,
            None,
            true,
        ),
        end(
            "expiry",
            |world, grant, _| {
                world.wait_ms(TTL_MS);
                world.tell(&sweep(grant));
            },
            LeaseState::Expired,
            None,
            true,
        ),
        end(
            "delete",
            |world, grant, member| {
                world.written(&delete(member, "end", token_on(grant, member)));
            },
            LeaseState::Released,
            None,
            false,
        ),
        end(
            "revoke",
            |world, _, member| drop(world.controlled(call(ControlVerb::Revoke, member))),
            LeaseState::Superseded,
            Some(EndCause::Revoked),
            false,
        ),
        end(
            "cancel",
            |world, _, member| drop(world.controlled(call(ControlVerb::Cancel, member))),
            LeaseState::Superseded,
            Some(EndCause::Cancelled),
            false,
        ),
        end(
            "a successor on one of them",
            |world, _, member| {
                world.wait_ms(TTL_MS);
                world.grant(&acquire_all(&[member], 77));
            },
            LeaseState::Superseded,
            None,
            false,
        ),
    ]
}

/// Three pages with content, owned together.
fn owned(contract: Contract) -> (World, Grant) {
    let mut world = world(contract);
    let first = world.grant(&acquire_all(&ALL, 1));
    for page in ALL {
        world.written(&put(&format!("{page}/t"), "create", token_on(&first, page)));
    }
    world.release(&first.acquisition_id);
    let grant = world.grant(&acquire_all(&ALL, 2));
    (world, grant)
}

#[test]
fn whatever_ends_one_member_ends_the_whole_and_leaves_the_others_fences_alone() {
    // Broken: the owner goes on with two of three resources, or the end of one revokes the others. Must hold for every
    // act and every member: one word for renewal, release and repeat; the rows of the others are what they were; each
    // of the others can be owned at once, one token above.
    for contract in CONTRACTS {
        for end in ends() {
            for member in ALL {
                let story = format!("{}, {member}, {contract:?}", end.name);
                let (mut world, grant) = owned(contract);
                let before: Vec<_> = ALL.iter().map(|page| world.row(page).clone()).collect();
                (end.act)(&mut world, &grant, member);
                for row in before {
                    let page = row.resource.as_str();
                    if page != member || end.spares {
                        assert_eq!(*world.row(page), row, "{story}: {page}");
                    }
                }
                assert_eq!(ended(&world.renew(&grant.acquisition_id)), end.state, "{story}");
                assert_eq!(ended(&world.release(&grant.acquisition_id)), end.state, "{story}");
                assert_eq!(ended(&world.tell(&acquire_all(&ALL, 2))), end.state, "{story}");
                let lease = world.lease(&grant.acquisition_id);
                assert_eq!((lease.state, lease.cause), (end.state, end.cause), "{story}");
                for other in ALL.into_iter().filter(|page| *page != member) {
                    let issued = world.row(other).issued.token.get();
                    let next = world.acquire(other);
                    assert_eq!(next.view.lease.position.token.get(), issued + 1, "{story}: {other}");
                }
            }
        }
    }
}

#[test]
fn the_others_stay_writable_for_the_old_owner_only_as_their_contract_says() {
    // Broken: the end of one member fences the others, although nobody came after; or under `lease_bound` the owner
    // goes on writing the others after its lease has ended. Must hold: only `lease_bound` refuses, and it does.
    for contract in CONTRACTS {
        for end in ends() {
            let (mut world, grant) = owned(contract);
            (end.act)(&mut world, &grant, B);
            for other in [A, C] {
                let late = word(&world.write(&put(&format!("{other}/t"), "late", token_on(&grant, other))));
                let bound = contract == Contract::LeaseBound;
                let expected = if bound { Code::LeaseNotLive } else { Code::Admitted };
                assert_eq!(late, expected, "{}, {other}, {contract:?}", end.name);
            }
        }
    }
}

#[test]
fn a_transfer_hands_all_of_them_over() {
    // Broken: the successor owns the first resource and nobody the others. Must hold: a token for each, one above; the
    // old owner is superseded on all, and writes none where the contract fences.
    for contract in CONTRACTS {
        let (mut world, grant) = owned(contract);
        let next = world.grant(&transfer(&grant, "bob", 3));
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Superseded);
        assert_eq!(world.lease(&grant.acquisition_id).cause, Some(EndCause::Transferred));
        for page in ALL {
            assert_eq!(word(&world.tell(&acquire_all(&[page], 4))), Code::LeaseHeld);
            let late = word(&world.write(&put(&format!("{page}/t"), "late", token_on(&grant, page))));
            let fenced = contract != Contract::Observed;
            assert_eq!(late, if fenced { Code::StaleToken } else { Code::Admitted }, "{contract:?}, {page}");
            let draft = put(&format!("{page}/t"), "new", token_on(&next, page));
            assert_eq!(word(&world.write(&draft)), Code::Admitted, "{contract:?}, {page}");
        }
    }
}

#[test]
fn members_of_one_ended_lease_close_it_once() {
    // Broken: two members that both see the old lease write its end twice, and the second no longer fits the row; or a
    // later owner of one member closes the lease of another. Must hold: one change, and the rest is free.
    let (mut world, grant) = owned(Contract::Immediate);
    world.wait_ms(TTL_MS);
    let decision = world.decide(&acquire_all(&[A, B], 3));
    let closed =
        decision.changes.iter().filter(|change| matches!(change, Change::LeaseChanged { .. })).count();
    assert_eq!(closed, 1);
    world.apply(&decision.changes);
    assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Superseded);
    let third = world.grant(&acquire_all(&[C], 4));
    assert!(matches!(world.renew(&third.acquisition_id), Outcome::Renewed(_)));
    assert_eq!(ended(&world.release(&grant.acquisition_id)), LeaseState::Superseded);
    assert!(matches!(world.renew(&third.acquisition_id), Outcome::Renewed(_)));
}

#[test]
fn a_write_that_deletes_two_members_ends_their_lease_once() {
    // Broken: the second removal of the batch finds the lease as the first one left it in the rows, and contradicts
    // it. Must hold: one end, and both tombstones.
    let (mut world, grant) = owned(Contract::LeaseBound);
    let drafts = [A, C].map(|page| delete(page, "end", token_on(&grant, page)));
    let decision = world.decide(&world.command(&drafts, false));
    let ends = decision.changes.iter().filter(|change| matches!(change, Change::LeaseChanged { .. })).count();
    assert_eq!(ends, 1, "{:?}", decision.outcome);
    world.apply(&decision.changes);
    assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Released);
}

#[test]
fn an_epoch_advance_in_one_namespace_supersedes_the_whole() {
    // Broken: the owner goes on renewing a lease of which one token is of an older epoch, which its resource refuses.
    // Must hold: superseded for renewal, release and repeat, whichever member it is; the others are free from then on.
    for other in ["v/b", "x/b"] {
        let mut world = world(Contract::Immediate);
        world.rule_of("v", |_| {});
        world.rule_of("x", |_| {});
        let grant = world.grant(&acquire_all(&[B, other], 1));
        world.set_epoch(1);
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Superseded, "{other}");
        assert_eq!(ended(&world.release(&grant.acquisition_id)), LeaseState::Superseded);
        assert_eq!(ended(&world.tell(&acquire_all(&[B, other], 1))), LeaseState::Superseded);
        for page in [B, other] {
            assert_eq!(word(&world.tell(&acquire_all(&[page], 2))), Code::Granted, "{page}");
        }
    }
}
