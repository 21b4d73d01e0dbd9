//! What is told beside the verdict: lines of the audit with who asked, and when to ask again.

use fencegate::domain::lease::EndCause;
use fencegate::domain::policy::Contract;
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::outcome::{Blocked, Blocker};
use fencegate::protocol::rows::AuditVerb::{self, Acquired, Expired, Superseded, Transferred};
use fencegate::protocol::{Change, Decision};

use super::scene::RESOURCE;
use super::several::world;
use crate::support::calls::transfer;
use crate::support::world::{TTL_MS, acquire, name};

/// The audit lines of a decision.
fn lines(decision: &Decision) -> Vec<(AuditVerb, Timestamp, Option<&str>)> {
    let told = decision.changes.iter().filter_map(|change| match change {
        Change::Audited(row) => Some((row.verb, row.at, row.reason.as_deref())),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_lease_that_ran_out_is_told_as_expired_and_when() {
    // Broken: the audit says that a successor took a lease away which had ended by itself, or the other way round. Must
    // hold: until its last millisecond it is superseded, from then on it had expired, at its own end.
    for passed in [0, TTL_MS - 1, TTL_MS, TTL_MS + 1] {
        let mut world = world(Contract::Immediate);
        let grant = world.acquire(RESOURCE);
        world.wait_ms(passed);
        let now = world.now;
        if passed < TTL_MS {
            let decision = world.decide(&transfer(&grant, "bob", 7));
            let cause = Some(EndCause::Transferred.word());
            assert_eq!(lines(&decision), [(Superseded, now, cause), (Transferred, now, None)]);
        } else {
            let decision = world.decide(&acquire(RESOURCE, 9));
            let end = grant.view.lease.expires_at;
            assert_eq!(lines(&decision), [(Expired, end, None), (Acquired, now, None)], "{passed}");
        }
    }
}

#[test]
fn who_asked_stands_on_the_lines_of_what_was_asked_for() {
    // Broken: the audit does not say who took a lease, or names the caller for what ran out by itself. Must hold: the name on
    // the lines of the act, and on no other.
    let mut world = world(Contract::Immediate);
    world.acquire(RESOURCE);
    world.wait_ms(TTL_MS);
    let mut decision = world.decide(&acquire(RESOURCE, 9));
    let carol = PrincipalName::parse("carol").unwrap();
    decision.sign(&carol);
    let signed: Vec<_> = decision
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Audited(row) => Some((row.verb, row.actor.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(signed, [(Expired, None), (Acquired, Some(carol))]);
}

#[test]
fn what_stands_longest_against_an_acquire_says_when_to_ask_again() {
    // Broken: a caller of several resources asks again each second, because the first of them is free soon. Must hold: the
    // longest of all; nothing where nothing stands against it.
    let blocker = |resource: &str, ms| Blocker {
        resource: name(resource),
        why: Blocked::LockDelay,
        free_in: Millis::new(ms),
        place: None,
    };
    assert_eq!(Blocker::longest(&[]).get(), 0);
    assert_eq!(Blocker::longest(&[blocker("w/a", 7), blocker("w/b", 9_000), blocker("w/c", 8)]).get(), 9_000);
}
