//! What each finding means in each class, in doubt and without: one table.

use fencegate::domain::upstream::{Class, REFUSED_STATUSES};
use fencegate::protocol::Refusal;
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::{Settled, Withdrawal};

use super::{Far, answered, far, status, success, word, write};
use crate::support::world::token;

/// Refusals that are never bound to an operation.
const UNBOUND: [u16; 4] = [401, 403, 425, 429];

/// Refusals of the request itself, which hold for every attempt.
const OF_THE_REQUEST: [u16; 7] = [400, 405, 411, 413, 414, 415, 431];

/// A conditional store has its cell recorded, so that all classes send at once.
fn ready(class: Class) -> Far {
    let mut far = far(class);
    if class == Class::Conditional {
        far.created(&write("first", 1), "v1");
    }
    far
}

/// What becomes of an operation at its first attempt, and of one that is in doubt.
fn words(class: Class, finding: &Finding) -> [&'static str; 2] {
    let mut sure = ready(class);
    let attempt = sure.announce(&write("op", 2));
    let mut doubtful = ready(class);
    let doubted = doubtful.in_doubt(&write("op", 2));
    [word(&sure.settle(&attempt, finding.clone())), word(&doubtful.settle(&doubted, finding.clone()))]
}

fn holds(held: u64) -> Finding {
    Finding::Answered(Box::new(answered(412, None)), Some(token(held)))
}

/// Holds a finding against what it means: conditional, fence-aware, idempotent, serial, each sure and in doubt.
fn table(finding: &Finding, expected: [[&str; 2]; 4]) {
    for (class, expected) in Class::ALL.into_iter().zip(expected) {
        let found = words(class, finding);
        // A serial store is sent to once: it has no attempt that could follow a doubt.
        let of = if class == Class::Serial { 1 } else { 2 };
        assert_eq!(found[..of], expected[..of], "{class:?}: {finding:?}");
    }
}

#[test]
fn a_success_is_applied() {
    table(&success("v2"), [["applied"; 2]; 4]);
    // Nothing can be conditioned on a weak validator, or on none.
    let weak = Finding::Answered(Box::new(answered(204, Some("W/\"v2\""))), None);
    for finding in [weak, status(200)] {
        table(&finding, [["read"; 2], ["applied"; 2], ["applied"; 2], ["applied"; 2]]);
    }
}

#[test]
fn what_may_have_acted_is_a_doubt() {
    let doubt = [["read"; 2], ["later"; 2], ["later"; 2], ["uncertain"; 2]];
    table(&Finding::Doubt, doubt);
    for unclear in [301, 302, 304, 402, 408, 418, 421, 500, 502, 503, 504, 507] {
        table(&status(unclear), doubt);
    }
}

#[test]
fn a_refusal_on_the_list_is_definite_unless_an_earlier_attempt_may_act() {
    for refusal in REFUSED_STATUSES {
        let expected = match refusal {
            409 | 412 => ["refused", "later"],
            _ if UNBOUND.contains(&refusal) => ["withdrawn", "later"],
            _ if OF_THE_REQUEST.contains(&refusal) => ["refused", "refused"],
            _ => ["refused", "later"],
        };
        let conditional = if matches!(refusal, 409 | 412) { ["read"; 2] } else { expected };
        table(&status(refusal), [conditional, expected, expected, expected]);
    }
}

#[test]
fn a_fence_aware_store_that_holds_more_has_never_taken_it() {
    // Above what is known here it would be a store that remembers more than the database: see the barriers.
    let mut far = far(Class::FenceAware);
    let attempt = far.announce(&write("op", 2));
    far.announce(&write("newer", 3));
    match far.settle(&attempt, holds(3)) {
        Settled::Withdrawn(intent, Withdrawal::Refused(Refusal::StaleToken { .. }), standing) => {
            assert_eq!(intent.record.operation_id.as_str(), "op");
            assert_eq!(standing.floor, token(3));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(far.row().quarantined, None);
    let sure = ["refused", "later"];
    table(&holds(3), [["read"; 2], ["withdrawn"; 2], sure, sure]);
    table(&holds(2), [["read"; 2], sure, sure, sure]);
}

#[test]
fn of_what_was_not_sent_nothing_comes() {
    table(&Finding::NotSent, [["withdrawn", "later"]; 4]);
    let mut far = far(Class::Serial);
    let attempt = far.announce(&write("op", 2));
    match far.settle(&attempt, Finding::NotSent) {
        Settled::Withdrawn(_, Withdrawal::Unreachable, _) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(far.undecided(), 0);
    // Its id is free: the next delivery is announced anew.
    assert_eq!(far.announce(&write("op", 2)).intent.record.attempt, 1);
}

#[test]
fn what_teaches_nothing_changes_nothing() {
    table(&Finding::Unreadable, [["later"; 2]; 4]);
    let known = |status| Finding::Known(Box::new(answered(status, Some("\"v2\""))));
    table(&known(200), [["applied"; 2]; 4]);
    table(&known(422), [["later"; 2]; 4]);
}

#[test]
fn an_unbound_refusal_is_relayed_and_the_operation_may_come_again() {
    for class in Class::ALL {
        for refusal in UNBOUND {
            let mut far = ready(class);
            let attempt = far.announce(&write("op", 2));
            match far.settle(&attempt, status(refusal)) {
                Settled::Withdrawn(_, Withdrawal::Relayed(relayed), _) => assert_eq!(relayed.status, refusal),
                other => panic!("{other:?}"),
            }
            assert_eq!(far.undecided(), 0);
            far.announce(&write("op", 2));
        }
    }
}

#[test]
fn a_list_of_ones_own_takes_the_place_of_the_usual_one() {
    use fencegate::domain::upstream::StatusSet;
    let mut far = far(Class::Serial);
    far.world.rule(|rules| {
        let mut upstream = rules.upstream.unwrap();
        upstream.refused = StatusSet::of(&[418]);
        rules.upstream = Some(upstream);
    });
    let attempt = far.announce(&write("op", 2));
    assert_eq!(word(&far.settle(&attempt, status(418))), "refused");
    let next = far.announce(&write("next", 3));
    assert_eq!(word(&far.settle(&next, status(422))), "uncertain");
}
