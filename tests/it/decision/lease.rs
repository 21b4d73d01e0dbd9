//! Becoming the owner: one live acquisition, one position each, and a repeat finds its own.

use fencegate::domain::counter::{MAX, Token};
use fencegate::domain::lease::LeaseState;
use fencegate::domain::policy::{Contract, Definition, Issuer};
use fencegate::domain::position::Position;
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::seal::{Keyring, SealVerdict};
use fencegate::protocol::outcome::Blocked;
use fencegate::protocol::{Command, Inconsistent, Outcome, Refusal, decide};

use super::scene::{PATH, RESOURCE, definitions, is_gateway};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{TTL_MS, World, acquire, acquire_by, ended, granted, key, name, token};

fn world(contract: Contract) -> World {
    World::new(Definition { contract, scope: 1, ..Definition::default() })
}

const CONTRACTS: [Contract; 3] = [Contract::Observed, Contract::Immediate, Contract::LeaseBound];

#[test]
fn a_second_acquire_waits_for_the_first_ones_end() {
    // Broken: two owners at once (I17). Must hold: while the lease lives, 409 with what is left of it and never the
    // acquisition; from the millisecond of its end on the next is granted, one position above.
    for contract in CONTRACTS {
        let mut world = world(contract);
        let first = world.acquire(RESOURCE);
        assert_eq!((first.view.lease.position, first.view.remaining.get()), (token(1), TTL_MS));
        world.wait_ms(TTL_MS - 1);
        match world.tell(&acquire(RESOURCE, 2)) {
            Outcome::Refused(Refusal::LeaseBlocked(blockers)) => {
                let held = Blocked::Held { position: token(1) };
                assert_eq!((blockers[0].free_in.get(), blockers[0].why), (1, held));
            }
            other => panic!("{other:?}"),
        }
        world.wait_ms(1);
        assert_eq!(world.acquire(RESOURCE).view.lease.position, token(2));
    }
}

#[test]
fn the_counter_survives_release_expiry_deletion_and_silence() {
    // Broken: a counter that lives on the lease restarts when the lease ends, and an old token is new again (I8).
    // Must hold: one above the last one issued, whatever happened in between.
    let mut world = world(Contract::Immediate);
    for expected in 1..=3_u64 {
        let grant = world.acquire(RESOURCE);
        assert_eq!(grant.view.lease.position, token(expected));
        match expected {
            1 => assert_eq!(ended(&world.release(&grant.acquisition_id)), LeaseState::Released),
            2 => world.wait_ms(TTL_MS),
            _ => assert_eq!(
                word(&world.write(&put(PATH, "op", grant.fencing_tokens[0].0.clone()))),
                Code::Admitted
            ),
        }
    }
    world.wait_ms(TTL_MS);
    let fourth = world.acquire(RESOURCE);
    world.written(&crate::support::draft::delete(RESOURCE, "end", fourth.fencing_tokens[0].0.clone()));
    assert_eq!(world.acquire(RESOURCE).view.lease.position, token(5));
}

#[test]
fn acquiring_raises_the_floor_where_the_contract_says_so() {
    // Broken: `immediate` without the raised floor lets the paused owner write after its successor was told that it
    // owns (I10); `observed` with it fences an owner that nobody came after. Must hold: as each contract promises, and
    // never the content.
    for contract in CONTRACTS {
        let mut world = world(contract);
        let alice = world.acquire(RESOURCE);
        let raises = contract != Contract::Observed;
        assert_eq!(world.row(RESOURCE).floor, if raises { token(1) } else { Position::ZERO });
        world.wait_ms(TTL_MS);
        world.acquire(RESOURCE);
        assert_eq!(world.row(RESOURCE).applied, None);
        let late = world.write(&put(PATH, "late", alice.fencing_tokens[0].0.clone()));
        assert_eq!(word(&late), if raises { Code::StaleToken } else { Code::Admitted }, "{contract:?}");
    }
}

#[test]
fn an_expired_owner_may_write_until_somebody_comes_unless_the_lease_binds() {
    // Broken: a clock decides where the contract says that only order does, or the other way round. Must hold: only
    // `lease_bound` refuses after expiry or release; the rightful owner writes up to the last millisecond.
    for contract in CONTRACTS {
        let bound = contract == Contract::LeaseBound;
        let refused = if bound { Code::LeaseNotLive } else { Code::Admitted };
        let mut first = world(contract);
        let grant = first.acquire(RESOURCE);
        first.wait_ms(TTL_MS - 1);
        let mut late = first.clone();
        late.wait_ms(1);
        let draft = put(PATH, "op", grant.fencing_tokens[0].0.clone());
        assert_eq!(word(&first.write(&draft)), Code::Admitted);
        assert_eq!(word(&late.write(&draft)), refused, "{contract:?}, expired");
        let mut other = world(contract);
        let grant = other.acquire(RESOURCE);
        other.release(&grant.acquisition_id);
        assert_eq!(
            word(&other.write(&put(PATH, "op", grant.fencing_tokens[0].0.clone()))),
            refused,
            "{contract:?}, released"
        );
    }
}

#[test]
fn a_repeat_of_the_request_is_the_same_acquisition() {
    // Broken: a lost answer makes the worker wait for its own lease, or burns a token. Must hold while it lives: the
    // same acquisition and position, a valid seal, no change; a renewal in between does not matter.
    let mut world = world(Contract::LeaseBound);
    let first = granted(world.tell(&acquire(RESOURCE, 1)));
    world.wait_ms(TTL_MS - 1);
    world.renew(&first.acquisition_id);
    world.wait_ms(TTL_MS - 1);
    let before = world.snapshot.clone();
    let again = granted(world.tell(&acquire(RESOURCE, 1)));
    assert!(again.repeated && !first.repeated);
    assert_eq!(
        (&again.acquisition_id, &again.fencing_tokens),
        (&first.acquisition_id, &first.fencing_tokens)
    );
    assert_eq!(again.view.remaining.get(), 1);
    assert_eq!(world.snapshot, before);
    assert_eq!(word(&world.write(&put(PATH, "op", again.fencing_tokens[0].0.clone()))), Code::Admitted);
}

#[test]
fn a_repeat_after_a_key_rotation_finds_the_same_acquisition() {
    // Broken: after a rotation the repeat makes another acquisition id, and the owner cannot renew. Must hold: the
    // same id, and a token that verifies; with the key gone it is loud.
    let mut world = world(Contract::Immediate);
    let first = world.acquire(RESOURCE);
    let both = format!("{}\n{}", key(8).reveal_line().as_str(), key(7).reveal_line().as_str());
    world.set_keyring(Keyring::parse(&both).unwrap());
    let again = granted(world.tell(&acquire(RESOURCE, 1)));
    assert_eq!(again.acquisition_id, first.acquisition_id);
    assert_ne!(again.fencing_tokens, first.fencing_tokens);
    let page = name(RESOURCE);
    assert_eq!(
        world.claim(&page, &again.fencing_tokens[0].0).seal,
        world.claim(&page, &first.fencing_tokens[0].0).seal
    );
    assert!(matches!(world.claim(&page, &again.fencing_tokens[0].0).seal, SealVerdict::Valid(_)));
    world.set_keyring(Keyring::of(key(9)));
    let lost = decide(&world.context(), &world.snapshot, &acquire(RESOURCE, 1), world.now);
    assert!(matches!(lost, Err(Inconsistent(_))));
}

#[test]
fn a_repeat_after_the_end_is_told_how_it_ended() {
    // Broken: the late repeat of an acquire becomes a new lease that nobody wants. Must hold: 410 with the reason, and
    // never a grant; the reason changes only from expired to superseded.
    let mut world = world(Contract::Immediate);
    let first = world.acquire(RESOURCE);
    world.release(&first.acquisition_id);
    assert_eq!(ended(&world.tell(&acquire(RESOURCE, 1))), LeaseState::Released);
    world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    assert_eq!(ended(&world.tell(&acquire(RESOURCE, 2))), LeaseState::Expired);
    world.acquire(RESOURCE);
    assert_eq!(ended(&world.tell(&acquire(RESOURCE, 2))), LeaseState::Superseded);
    assert_eq!(ended(&world.tell(&acquire(RESOURCE, 1))), LeaseState::Released);
    assert_eq!(world.row(RESOURCE).issued, token(3));
}

#[test]
fn a_request_id_with_other_parameters_is_a_mismatch() {
    // Broken: a request id that is used twice hands one worker's lease to another. Must hold: another holder or ttl is
    // 422, alive or ended; another resource or principal is another request.
    let mut world = world(Contract::Immediate);
    let mine = acquire_by(RESOURCE, 1, "alice", Some(5_000));
    let first = granted(world.tell(&mine));
    for other in [("bob", Some(5_000)), ("", Some(5_000)), ("alice", Some(6_000)), ("alice", None)] {
        let other = acquire_by(RESOURCE, 1, other.0, other.1);
        assert_eq!(word(&world.tell(&other)), Code::RequestMismatch);
    }
    world.release(&first.acquisition_id);
    assert_eq!(word(&world.tell(&acquire_by(RESOURCE, 1, "bob", Some(5_000)))), Code::RequestMismatch);
    assert_eq!(word(&world.tell(&acquire_by("w/other", 1, "bob", None))), Code::Granted);
    let Command::Acquire(mut stranger) = mine else { panic!() };
    stranger.principal = PrincipalName::parse("somebody-else").unwrap();
    stranger.nonce = [9; 16];
    assert_eq!(word(&world.tell(&Command::Acquire(stranger))), Code::Granted);
}

#[test]
fn the_ttl_is_asked_for_within_its_bounds() {
    // Broken: a ttl that is clamped silently lets the worker believe in another one. Must hold: 1 s to 1 h, the bounds
    // included, refused outside; absent means the namespace's default.
    let mut world = world(Contract::Immediate);
    let mut request = 0;
    for (asked, code) in [
        (Some(999), Code::TtlOutOfBounds),
        (Some(1_000), Code::Granted),
        (Some(3_600_000), Code::Granted),
        (Some(3_600_001), Code::TtlOutOfBounds),
        (Some(0), Code::TtlOutOfBounds),
        (None, Code::Granted),
    ] {
        request += 1;
        let outcome = world.tell(&acquire_by(&format!("w/{request}"), request, "", asked));
        assert_eq!(word(&outcome), code, "{asked:?}");
        if code == Code::Granted {
            assert_eq!(granted(outcome).view.remaining.get(), asked.unwrap_or(TTL_MS));
        }
    }
}

#[test]
fn issuing_stops_at_the_end_of_the_counter() {
    // Broken: the counter wraps, and every old token is above the new ones. Must hold: the last token is issued, after
    // it nothing is, not even in the next epoch; what stands goes on.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    world.release(&grant.acquisition_id);
    let mut row = world.row(RESOURCE).clone();
    row.issued.token = Token::new(MAX - 1).unwrap();
    row.floor = row.issued;
    world.snapshot.insert_resource(row);
    let last = world.acquire(RESOURCE);
    assert_eq!(last.view.lease.position.token.get(), MAX);
    assert_eq!(word(&world.write(&put(PATH, "op", last.fencing_tokens[0].0.clone()))), Code::Admitted);
    world.release(&last.acquisition_id);
    let before = world.snapshot.clone();
    for epoch in 0..2 {
        world.set_epoch(epoch);
        assert_eq!(word(&world.tell(&acquire(RESOURCE, 9))), Code::TokenExhausted);
    }
    world.set_epoch(0);
    assert_eq!(world.snapshot, before);
}

#[test]
fn external_namespaces_have_no_leases() {
    // Broken: the gateway issues positions beside the issuer outside, and both count for themselves. Must hold: 422.
    for definition in definitions().into_iter().filter(|definition| !is_gateway(definition)) {
        assert!(matches!(definition.issuer, Issuer::Trusted { .. } | Issuer::Registered));
        let mut world = World::new(definition);
        assert_eq!(word(&world.tell(&acquire(RESOURCE, 1))), Code::IssuerExternal, "{definition}");
    }
}

#[test]
fn a_seal_fits_its_own_resource_only() {
    // Broken: the owner of one page writes another one (every page's first token is 1). Must hold: 403.
    let mut world = world(Contract::Immediate);
    let mine = world.acquire("w/mine");
    world.acquire("w/yours");
    assert_eq!(
        word(&world.write(&put("w/yours/t", "op", mine.fencing_tokens[0].0.clone()))),
        Code::SealWrong
    );
    assert_eq!(word(&world.advance("w/yours", &mine.fencing_tokens[0].0)), Code::SealWrong);
    assert_eq!(word(&world.write(&put("w/mine/t", "op", mine.fencing_tokens[0].0.clone()))), Code::Admitted);
}
