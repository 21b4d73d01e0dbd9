//! One acquisition over several resources: all or none, and a token for each.

use fencegate::domain::counter::{MAX, Token};
use fencegate::domain::lease::{LeaseState, Ttl, TtlBounds};
use fencegate::domain::policy::{Contract, Definition, Issuer};
use fencegate::domain::position::Position;
use fencegate::protocol::outcome::Blocked;
use fencegate::protocol::rows::Life;
use fencegate::protocol::{Change, Command, Snapshot};

use crate::support::calls::{acquire_all, token_on};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{TTL_MS, World, ended, granted, token, view};

pub(super) const A: &str = "w/a";
pub(super) const B: &str = "w/b";
pub(super) const C: &str = "w/c";
pub(super) const ALL: [&str; 3] = [A, B, C];
pub(super) const CONTRACTS: [Contract; 3] = [Contract::Observed, Contract::Immediate, Contract::LeaseBound];

pub(super) fn world(contract: Contract) -> World {
    World::new(Definition { contract, scope: 1, ..Definition::default() })
}

#[test]
fn all_are_owned_or_none() {
    // Broken: a caller that gets two of three keeps them while it waits for the third, and two such callers wait for
    // each other for ever. Must hold: with one of them held nothing changes, no token is spent, and each that stands
    // in the way is named; all of them at once when all are free.
    let mut world = world(Contract::Immediate);
    let middle = world.acquire(B);
    let before = world.snapshot.clone();
    let blockers = world.blocked(&acquire_all(&ALL, 9));
    assert_eq!(world.snapshot, before);
    let named: Vec<_> = blockers.iter().map(|one| (one.resource.as_str(), one.why)).collect();
    assert_eq!(named, [(B, Blocked::Held { position: token(1) })]);
    let last = world.acquire(C);
    let blockers = world.blocked(&acquire_all(&ALL, 9));
    assert_eq!(blockers.iter().map(|one| one.resource.as_str()).collect::<Vec<_>>(), [B, C]);
    for held in [middle, last] {
        world.blocked(&acquire_all(&ALL, 9));
        world.release(&held.acquisition_id);
    }
    let grant = world.grant(&acquire_all(&ALL, 9));
    let owned: Vec<_> = grant.view.lease.members().map(|(name, at)| (name.as_str(), at)).collect();
    assert_eq!(owned, [(A, token(1)), (B, token(2)), (C, token(2))], "in canonical order");
    assert_eq!(grant.fencing_tokens.len(), 3);
    for held in ALL {
        assert_eq!(world.blocked(&acquire_all(&[held], 10)).len(), 1, "{held}");
    }
}

#[test]
fn two_sets_that_overlap_are_owned_one_after_the_other() {
    // Broken: sets that only share one resource are both granted (I17). Must hold: refused for what is shared, granted
    // when disjoint, whichever came first.
    for (first, second) in [([A, B], [B, C]), ([B, C], [A, B]), ([A, C], [B, C])] {
        let mut world = world(Contract::Immediate);
        let shared = first.into_iter().find(|one| second.contains(one)).unwrap();
        let grant = world.grant(&acquire_all(&first, 1));
        let blockers = world.blocked(&acquire_all(&second, 2));
        assert_eq!(blockers.iter().map(|one| one.resource.as_str()).collect::<Vec<_>>(), [shared]);
        world.release(&grant.acquisition_id);
        assert_eq!(word(&world.tell(&acquire_all(&second, 2))), Code::Granted);
    }
}

#[test]
fn each_token_writes_its_own_resource_and_each_generation_counts_for_itself() {
    // Broken: the token of one resource opens the others of the acquisition (their numbers are often equal), or a
    // publication on one spends the generation of all. Must hold: 403 on every other; one publication on each.
    let mut world = world(Contract::LeaseBound);
    let earlier = world.acquire(B);
    world.release(&earlier.acquisition_id);
    let grant = world.grant(&acquire_all(&ALL, 1));
    for own in ALL {
        for other in ALL {
            let draft = put(&format!("{other}/t"), &format!("{own}-{other}"), token_on(&grant, own));
            let expected = if own == other { Code::Admitted } else { Code::SealWrong };
            assert_eq!(word(&world.write(&draft)), expected, "{own} on {other}");
        }
        let again = put(&format!("{own}/t"), "again", token_on(&grant, own));
        assert_eq!(word(&world.write(&again)), Code::GenerationSpent);
    }
}

#[test]
fn every_floor_rises_as_its_own_contract_says() {
    // Broken: the contract of the first resource is taken for all of them: an old owner of another one writes after
    // the grant (I10). Must hold: each by its own namespace.
    for contract in CONTRACTS {
        let mut world = world(Contract::Observed);
        world.rule_of("v", |rules| rules.definition.contract = contract);
        let old = world.acquire("v/b");
        world.wait_ms(TTL_MS);
        world.grant(&acquire_all(&[A, "v/b"], 9));
        let raised = contract != Contract::Observed;
        assert_eq!(world.row(A).floor, Position::ZERO);
        assert_eq!(world.row("v/b").floor, if raised { token(2) } else { Position::ZERO });
        let late = word(&world.write(&put("v/b/t", "late", token_on(&old, "v/b"))));
        assert_eq!(late, if raised { Code::StaleToken } else { Code::Admitted }, "{contract:?}");
    }
}

#[test]
fn a_repeat_finds_the_whole_acquisition_and_another_set_is_another_request() {
    // Broken: a lost answer makes the worker wait for its own lease, or a request id that was used for other resources
    // hands their lease out. Must hold: same set, same acquisition and tokens, no change; any other set is a request
    // of its own, which may be refused for what the first one holds.
    let mut world = world(Contract::Immediate);
    let first = world.grant(&acquire_all(&ALL, 1));
    let before = world.snapshot.clone();
    let again = world.grant(&acquire_all(&[C, A, B], 1));
    assert!(again.repeated);
    assert_eq!(
        (&again.acquisition_id, &again.fencing_tokens),
        (&first.acquisition_id, &first.fencing_tokens)
    );
    assert_eq!(world.snapshot, before);
    for other in [vec![A], vec![A, B], vec![A, B, C, "w/d"]] {
        assert_eq!(word(&world.tell(&acquire_all(&other, 1))), Code::LeaseHeld, "{other:?}");
    }
    world.release(&first.acquisition_id);
    assert_eq!(ended(&world.tell(&acquire_all(&ALL, 1))), LeaseState::Released, "never a new lease");
    assert_eq!(word(&world.tell(&acquire_all(&[A], 1))), Code::Granted);
}

#[test]
fn a_renewal_keeps_every_resource() {
    // Broken: a renewal that reaches only the first resource lets the others be taken. Must hold: until the new end
    // each of them is held, from then on each is free.
    for last in ALL {
        let mut world = world(Contract::LeaseBound);
        let grant = world.grant(&acquire_all(&ALL, 1));
        world.wait_ms(TTL_MS - 1);
        assert_eq!(view(world.renew(&grant.acquisition_id)).remaining.get(), TTL_MS);
        world.wait_ms(TTL_MS - 1);
        let blockers = world.blocked(&acquire_all(&[last], 2));
        assert_eq!(blockers[0].free_in.get(), 1);
        assert_eq!(
            word(&world.write(&put(&format!("{last}/t"), "op", token_on(&grant, last)))),
            Code::Admitted
        );
        world.wait_ms(1);
        assert_eq!(
            word(&world.write(&put(&format!("{last}/t"), "op-2", token_on(&grant, last)))),
            Code::LeaseNotLive
        );
        assert_eq!(word(&world.tell(&acquire_all(&[last], 2))), Code::Granted);
    }
}

#[test]
fn one_resource_at_the_end_of_its_counter_stops_them_all() {
    // Broken: the others get their tokens before it shows that one has none left. Must hold: nothing is issued.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(B);
    world.release(&grant.acquisition_id);
    let mut row = world.row(B).clone();
    row.issued.token = Token::new(MAX).unwrap();
    row.floor = row.issued;
    world.snapshot.insert_resource(row);
    let before = world.snapshot.clone();
    assert_eq!(word(&world.tell(&acquire_all(&ALL, 9))), Code::TokenExhausted);
    assert_eq!(world.snapshot, before);
}

#[test]
fn the_ttl_suits_every_namespace() {
    // Broken: the bounds of one namespace are overrun by way of another. Must hold: refused out of the bounds of any,
    // whichever is first in the order; without a ttl, the shortest default.
    for strict in ["v", "x"] {
        let (mut world, other) = (world(Contract::Immediate), format!("{strict}/b"));
        let [least, default, greatest] = [2_000, 3_000, 4_000].map(Ttl::from_ms);
        world.rule_of(strict, |rules| rules.ttl = TtlBounds { default, least, greatest });
        for (asked, expected) in
            [(Some(1_999), None), (Some(2_000), Some(2_000)), (Some(4_001), None), (None, Some(3_000))]
        {
            let request = u128::from(asked.unwrap_or_default()) + 1;
            let Command::Acquire(mut acquire) = acquire_all(&[A, &other], request) else { panic!() };
            acquire.ttl_ms = asked;
            let outcome = world.tell(&Command::Acquire(acquire));
            let Some(ttl) = expected else {
                assert_eq!(word(&outcome), Code::TtlOutOfBounds, "{strict}, {asked:?}");
                continue;
            };
            let grant = granted(outcome);
            assert_eq!(grant.view.remaining.get(), ttl, "{strict}");
            world.release(&grant.acquisition_id);
        }
    }
}

#[test]
fn what_one_resource_forbids_is_forbidden_for_all() {
    // Broken: by way of a set somebody owns what nobody may own. Must hold: a cancelled member is 409 `cancelled`, one
    // of an external issuer 422, an unknown namespace 404, and nothing is recorded.
    let mut world = world(Contract::Immediate);
    for outside in ["v", "x"] {
        world.rule_of(outside, |rules| {
            let contract = Contract::Observed;
            rules.definition = Definition { issuer: Issuer::Registered, contract, ..rules.definition };
        });
        let other = format!("{outside}/b");
        assert_eq!(word(&world.tell(&acquire_all(&[A, &other], 1))), Code::IssuerExternal, "{other}");
    }
    for unknown in ["nowhere/b", "zero/b"] {
        assert_eq!(word(&world.tell(&acquire_all(&[A, unknown], 1))), Code::UnknownNamespace);
    }
    assert_eq!(world.snapshot, Snapshot::default());
    let grant = world.acquire(B);
    world.release(&grant.acquisition_id);
    let mut row = world.row(B).clone();
    row.life = Life::Cancelled;
    world.snapshot.insert_resource(row);
    let before = world.snapshot.clone();
    assert_eq!(word(&world.tell(&acquire_all(&ALL, 9))), Code::Cancelled);
    assert_eq!(world.snapshot, before);
}

#[test]
fn the_first_use_of_a_namespace_is_recorded_once_for_all_its_resources() {
    // Broken: every member records its namespace, and the second no longer fits. Must hold: each namespace once,
    // before what refers to it; one acquisition, one line of audit for each resource.
    let mut world = world(Contract::Immediate);
    world.rule_of("v", |_| {});
    let decision = world.decide(&acquire_all(&[A, B, "v/a", "v/b"], 1));
    let count = |of: fn(&Change) -> bool| decision.changes.iter().filter(|change| of(change)).count();
    assert_eq!(count(|change| matches!(change, Change::NamespaceRecorded(_))), 2);
    assert_eq!(count(|change| matches!(change, Change::LeaseGranted(_))), 1);
    assert_eq!(count(|change| matches!(change, Change::Audited(_))), 4);
    world.apply(&decision.changes);
}
