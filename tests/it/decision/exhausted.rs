//! Counters at their end: refused with a word that says so, before anything changes; never wrapped, never a fault.

use fencegate::domain::counter::{CommitNo, Counter, Epoch, Incarnation, MAX, Token};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy};
use fencegate::domain::position::Position;
use fencegate::protocol::rows::ResourceRow;
use fencegate::protocol::{Command, Outcome, Refusal};

use crate::support::calls::{call, transfer, waiting};
use crate::support::code::{Code, word};
use crate::support::draft::{delete, put};
use crate::support::world::{World, acquire, at};

const PAGE: &str = "w/page";

fn world(policy: Policy) -> World {
    World::new(Definition {
        policy,
        contract: Contract::Immediate,
        issuer: Issuer::Gateway,
        scope: 1,
        ..Definition::default()
    })
}

fn alter(world: &mut World, with: impl FnOnce(&mut ResourceRow)) {
    let mut row = world.row(PAGE).clone();
    with(&mut row);
    world.snapshot.insert_resource(row);
}

/// Refused, and the rows stay as they are.
fn refused(world: &mut World, command: &Command) -> Refusal {
    let before = world.snapshot.clone();
    let outcome = world.tell(command);
    assert_eq!(world.snapshot, before, "{outcome:?}");
    outcome.refusal().cloned().unwrap_or_else(|| panic!("{outcome:?}"))
}

#[test]
fn after_the_last_token_nobody_owns_anything() {
    // Broken: the counter wraps and every old owner is the newest one; or a caller waits in a queue for what never comes.
    // Must hold: an acquire, a waiting one, a transfer and one over several are refused, whoever holds the lease; its owner
    // goes on to the end.
    let mut world = world(Policy::Session);
    world.acquire(PAGE);
    world.wait_ms(20_000);
    alter(&mut world, |row| row.issued = Position::new(Epoch::ZERO, Token::new(MAX - 1).unwrap()));
    let last = world.grant(&acquire(PAGE, 2));
    assert_eq!(last.view.lease.position, at(0, MAX));
    for command in [
        acquire(PAGE, 3),
        waiting(&[PAGE], 4, 30_000),
        waiting(&["w/other", PAGE], 5, 30_000),
        transfer(&last, "heir", 6),
    ] {
        assert_eq!(refused(&mut world, &command), Refusal::TokenExhausted, "{command:?}");
    }
    world.written(&put("w/page/a", "op", last.fencing_tokens[0].0.clone()));
    assert_eq!(word(&world.renew(&last.acquisition_id)), Code::Renewed);
    world.begin_epoch("a");
    assert_eq!(refused(&mut world, &acquire(PAGE, 7)), Refusal::TokenExhausted, "tokens go on across epochs");
    world.control(call(fencegate::protocol::control::ControlVerb::Revoke, PAGE));
    assert_eq!(world.row(PAGE).revoked_through, Some(at(0, MAX)));
}

#[test]
fn after_the_last_token_of_an_external_issuer_an_epoch_follows() {
    // Broken: an issuer that ran to the end locks its resources for ever. Must hold: the last position is admitted and can
    // be advanced to; in a new epoch the counter may begin anew.
    let issuer = Issuer::Trusted { max_jump: None };
    let mut world =
        World::new(Definition { contract: Contract::Observed, issuer, scope: 1, ..Definition::default() });
    let last = MAX.to_string();
    assert_eq!(word(&world.advance(PAGE, &last)), Code::Advanced);
    world.written(&put("w/page/a", "op", last));
    world.begin_epoch("a");
    world.written(&put("w/page/a", "next", "1.1"));
}

#[test]
fn after_the_last_sequence_a_new_generation_counts_anew() {
    for gapless in [false, true] {
        let mut world = world(Policy::Ordered { gapless });
        let first = world.acquire(PAGE);
        let token = first.fencing_tokens[0].0.clone();
        world.written(&put("w/page/a", "one", token.clone()).sequence(1));
        alter(&mut world, |row| {
            let mark = row.applied.as_mut().unwrap();
            mark.sequence = fencegate::domain::counter::Sequence::new(MAX);
        });
        for sequence in [1, MAX] {
            let late = world.command(&[put("w/page/a", "late", token.clone()).sequence(sequence)], false);
            let applied = fencegate::domain::counter::Sequence::new(MAX);
            assert_eq!(refused(&mut world, &late), Refusal::SequenceRegressed { applied });
        }
        world.wait_ms(20_000);
        let next = world.grant(&acquire(PAGE, 2)).fencing_tokens[0].0.clone();
        world.written(&put("w/page/a", "next", next).sequence(1));
    }
}

#[test]
fn after_the_last_commit_nothing_is_written_or_removed() {
    // Broken: the write stops as a contradiction, or is stored without a number. Must hold: refused, alone and in a batch
    // with others, which are not written either; the last number itself is used.
    let mut world = world(Policy::Session);
    let token = world.acquire(PAGE).fencing_tokens[0].0.clone();
    let other = world.acquire("w/other").fencing_tokens[0].0.clone();
    alter(&mut world, |row| row.commit_no = CommitNo::new(MAX - 1).unwrap());
    world.written(&put("w/page/a", "last", token.clone()));
    assert_eq!(world.row(PAGE).commit_no.get(), MAX);
    let edit = put("w/page/a", "more", token.clone()).if_match(&format!("\"1.{MAX}\""));
    let gone = delete("w/page/a", "gone", token.clone()).if_match(&format!("\"1.{MAX}\""));
    let both = [put("w/other/a", "other", other), edit.clone()];
    for drafts in [vec![edit], vec![gone], both.to_vec()] {
        let command = world.command(&drafts, false);
        assert_eq!(refused(&mut world, &command), Refusal::CounterExhausted(Counter::Commit), "{drafts:?}");
    }
    assert!(world.target("w/page/a").is_some());
}

#[test]
fn after_the_last_incarnation_nothing_comes_again() {
    let mut world = world(Policy::Single);
    let first = world.acquire(PAGE);
    world.written(&put(PAGE, "one", first.fencing_tokens[0].0.clone()));
    world.wait_ms(20_000);
    let second = world.grant(&acquire(PAGE, 2));
    world.written(&delete(PAGE, "two", second.fencing_tokens[0].0.clone()));
    alter(&mut world, |row| row.incarnation = Incarnation::new(MAX).unwrap());
    let third = world.grant(&acquire(PAGE, 3)).fencing_tokens[0].0.clone();
    let again = world.command(&[put(PAGE, "three", third)], false);
    assert_eq!(refused(&mut world, &again), Refusal::CounterExhausted(Counter::Incarnation));
}

#[test]
fn after_the_last_epoch_none_is_begun() {
    let mut world = world(Policy::Single);
    world.acquire(PAGE);
    world.set_epoch(MAX - 1);
    world.begin_epoch("a");
    let before = world.snapshot.clone();
    let key = fencegate::domain::operation::OperationId::parse("b").unwrap();
    let deed =
        fencegate::protocol::whole::Deed::AdvanceEpoch { key, reason: "r".to_owned(), leave_open: false };
    assert_eq!(world.whole(deed), Outcome::Refused(Refusal::CounterExhausted(Counter::Epoch)));
    assert_eq!(world.snapshot, before);
    assert_eq!(world.acquire(PAGE).view.lease.position, at(MAX, 2));
}
