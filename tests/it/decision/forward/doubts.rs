//! When the next step is due, who may take it, and how it goes on from there.

use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{Base, CellSeen, Class};
use fencegate::protocol::command::{Finding, Resume};
use fencegate::protocol::outcome::{Act, Settled, Verdict};
use fencegate::protocol::{Command, Outcome, Refusal};

use super::{Far, again, answered, far, settled, status, success, word, write};
use crate::support::forwarding::{KEY_RETENTION_MS, TIMEOUT_MS};
use crate::support::world::token;

#[test]
fn nobody_takes_up_what_is_under_way() {
    // Broken: two processes send at once although one of them lives. Must hold: only after the time that an attempt may
    // take, and one of those who look then.
    for class in Class::ALL {
        let mut far = far(class);
        let attempt = far.announce(&write("op", 1));
        let early = far.world.now.plus(Millis::new(TIMEOUT_MS));
        far.world.now = early;
        match settled(far.resumed(&attempt.intent)) {
            Settled::Later(due) => assert!(due > early),
            other => panic!("{other:?}"),
        }
        let first = far.resume("op");
        assert!(matches!(word(&first), "read" | "send" | "uncertain"), "{class:?}");
        let second = settled(far.resumed(&attempt.intent));
        assert!(matches!(word(&second), "later" | "moved" | "uncertain"), "{class:?}: {second:?}");
    }
}

#[test]
fn a_step_that_was_not_told_of_may_have_been_taken() {
    // Broken: whoever takes over believes that nothing was sent. Must hold: in doubt, by class: the cell is read, the
    // same is sent again, or nothing more.
    for (class, next) in Class::ALL.into_iter().zip(["read", "send", "send", "uncertain"]) {
        let mut far = far(class);
        if class == Class::Conditional {
            far.created(&write("first", 1), "v1");
        }
        far.announce(&write("op", 2));
        let resumed = far.resume("op");
        assert_eq!(word(&resumed), next);
        assert!(far.intent("op").doubt, "{class:?}");
        if let Settled::Again(attempt) = resumed {
            assert_eq!(attempt.ask_first, class == Class::Idempotent);
            assert_eq!(attempt.payload, None, "the body is read from the database");
        }
    }
}

#[test]
fn before_its_first_read_nothing_was_ever_sent() {
    // Broken: the store was away when the cell was first to be read, so the operation counts as in doubt, and a plain
    // refusal afterwards is not taken as one. Must hold: there is no doubt before the first byte.
    let mut far = far(Class::Conditional);
    let read = far.announce(&write("op", 1));
    assert_eq!(word(&far.settle(&read, Finding::Unreadable)), "later");
    let read = again(far.resume("op"));
    assert!(!far.intent("op").doubt);
    let sent = again(far.settle(&read, Finding::Cell(CellSeen::Absent)));
    assert_eq!((sent.intent.base.clone(), sent.intent.doubt), (Base::Absent, false));
    assert_eq!(word(&far.settle(&sent, status(403))), "withdrawn");
}

#[test]
fn the_same_is_sent_again_until_it_is_definite() {
    for class in [Class::FenceAware, Class::Idempotent] {
        let mut far = far(class);
        let mut attempt = far.announce(&write("op", 1));
        for number in 2..5 {
            let finding = if number == 3 { status(503) } else { Finding::Doubt };
            assert_eq!(word(&far.settle(&attempt, finding)), "later");
            attempt = again(far.resume("op"));
            assert_eq!((attempt.intent.record.attempt, attempt.act.clone()), (number, Act::Send(None)));
        }
        assert_eq!(word(&far.settle(&attempt, success("v1"))), "applied");
        assert_eq!(far.record("op").attempt, 4);
    }
}

#[test]
fn pauses_grow_and_end_at_half_a_minute() {
    let mut far = far(Class::FenceAware);
    let mut attempt = far.announce(&write("op", 1));
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let now = far.world.now;
        match far.settle(&attempt, Finding::Doubt) {
            Settled::Later(due) => pauses.push(now.until(due).get()),
            other => panic!("{other:?}"),
        }
        attempt = again(far.resume("op"));
    }
    assert_eq!(pauses[..4], [100, 200, 400, 800]);
    assert_eq!(pauses[9..], [30_000, 30_000, 30_000]);
}

#[test]
fn a_key_is_not_used_past_half_of_its_time() {
    // Broken: an upstream that has begun to forget the key acts a second time (I2). Must hold: to the millisecond, and
    // however often it was sent before.
    let half = KEY_RETENTION_MS / 2;
    for (wait, next) in [(half - 1, "send"), (half, "uncertain"), (2 * half, "uncertain")] {
        let mut far = far(Class::Idempotent);
        let attempt = far.announce(&write("op", 1));
        assert_eq!(word(&far.settle(&attempt, Finding::Doubt)), "later");
        far.world.wait_ms(wait);
        let resumed = far.resumed(&far.intent("op").clone());
        assert_eq!(word(&settled(resumed)), next);
    }
}

#[test]
fn an_attempt_says_for_how_long_its_key_is_known() {
    // Broken: an attempt that is announced in time is sent when its store has forgotten the key (I2). Must hold: it carries
    // what is left of half of the key's time, the first one too, and only where there are keys.
    let half = KEY_RETENTION_MS / 2;
    let mut far = far(Class::Idempotent);
    let attempt = far.announce(&write("op", 1));
    assert_eq!(attempt.left, Some(Millis::new(half)));
    far.settle(&attempt, Finding::Doubt);
    far.world.wait_ms(half - 1_000);
    let attempt = again(far.resume("op"));
    assert_eq!((attempt.ask_first, attempt.left), (true, Some(Millis::new(1_000))));
    for class in [Class::Conditional, Class::FenceAware, Class::Serial] {
        let mut far = super::far(class);
        assert_eq!(far.announce(&write("op", 1)).left, None, "{class:?}");
    }
}

#[test]
fn whoever_asks_first_has_the_time_to_ask_and_to_send() {
    // Broken: a status address hangs as long as it may, another replica takes the next step before the send has had its
    // time, and what the store answers to it settles nothing. Must hold: time for both, and the grace.
    let mut far = far(Class::Idempotent);
    let attempt = far.announce(&write("op", 1));
    far.settle(&attempt, Finding::Doubt);
    let attempt = again(far.resume("op"));
    let until = far.world.now.until(attempt.intent.due_at).get();
    assert!(until > 2 * TIMEOUT_MS && until < 3 * TIMEOUT_MS, "{until}");
}

#[test]
fn only_the_newest_attempt_settles_anything() {
    // Broken: a process that was stopped tells of an attempt that others have gone on from. Must hold: compared with
    // what stands, whatever it learnt.
    for class in [Class::FenceAware, Class::Idempotent] {
        let mut far = far(class);
        let first = far.announce(&write("op", 1));
        let second = again(far.resume("op"));
        for finding in [Finding::NotSent, Finding::Doubt, status(403), status(422), success("v9")] {
            let decision = far.decide(first.taught(finding));
            assert_eq!(decision.changes, []);
            assert_eq!(word(&settled(decision.outcome)), "moved");
        }
        assert_eq!(word(&far.settle(&second, success("v1"))), "applied");
        assert_eq!(word(&far.settle(&second, success("v1"))), "moved", "and once only");
    }
}

#[test]
fn an_announcement_that_is_made_again_is_not_settled_by_its_first_life() {
    // Broken: `op` at 1 is told to be sent and its process is stopped; another one resumes it, the store holds 2, and it
    // is withdrawn. The same id comes again under 3 and is announced as attempt 1. The stopped process wakes, gets 412 for
    // position 1 and binds that refusal to the id, while the new attempt takes effect. Must hold: it settles nothing.
    let mut far = far(Class::FenceAware);
    let asleep = far.announce(&write("op", 1));
    let second = again(far.resume("op"));
    far.announce(&write("newer", 2));
    let holds = |held| Finding::Answered(Box::new(answered(412, None)), Some(token(held)));
    assert_eq!(word(&far.settle(&second, holds(2))), "withdrawn");
    let retry = far.announce(&write("op", 3));
    assert_eq!(retry.intent.record.attempt, asleep.intent.record.attempt);
    for finding in [holds(2), holds(3), Finding::NotSent] {
        assert_eq!(word(&far.settle(&asleep, finding)), "moved");
    }
    assert_eq!(word(&far.settle(&retry, success("v1"))), "applied");
}

#[test]
fn what_is_decided_is_taken_up_by_nobody() {
    let mut far: Far = far(Class::Idempotent);
    let attempt = far.announce(&write("op", 1));
    far.settle(&attempt, success("v1"));
    let resume = Resume { key: attempt.intent.key(), attempt: 1 };
    match far.world.tell(&Command::Resume(resume)) {
        Outcome::Settled(settled) => assert_eq!(word(&settled), "moved"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_configured_time_may_end_a_doubt_of_a_serial_store() {
    let mut far = far(Class::Serial);
    far.world.rule(|rules| {
        let mut upstream = rules.upstream.unwrap();
        upstream.max_uncertain = Some(Millis::new(60_000));
        rules.upstream = Some(upstream);
    });
    let attempt = far.announce(&write("op", 1));
    assert_eq!(word(&far.settle(&attempt, Finding::Doubt)), "uncertain");
    far.world.wait_ms(59_999);
    assert_eq!(word(&settled(far.resumed(&attempt.intent))), "uncertain");
    far.world.wait_ms(1);
    let Outcome::Resolved(record) = far.resumed(&attempt.intent) else { panic!("it is over") };
    assert_eq!(record.state, fencegate::domain::operation::OperationState::ResolvedNotApplied);
    assert!(record.resolution.unwrap().assumed, "and it says so");
    assert_eq!(far.undecided(), 0);
    // Broken: the effect came at once and only its answer was lost; "none" sends the worker to do it a second time.
    let Outcome::NotWritten(members) = far.write(&write("op", 1)) else { panic!("nobody knows") };
    assert!(matches!(members[0].verdict, Verdict::Refuse(Refusal::OutcomeUncertain)));
    far.announce(&write("next", 2));
}

#[test]
fn without_a_configured_time_a_doubt_of_a_serial_store_stays() {
    let mut far = far(Class::Serial);
    let attempt = far.announce(&write("op", 1));
    far.settle(&attempt, Finding::Doubt);
    far.world.wait_ms(1_000_000_000_000);
    assert_eq!(word(&settled(far.resumed(&attempt.intent))), "uncertain");
}
