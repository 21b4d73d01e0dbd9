//! What must hold of control calls on every transition.

use fencegate::domain::lease::EndCause;
use fencegate::domain::policy::{Contract, Issuer};
use fencegate::domain::time::Timestamp;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::{Change, Outcome, Refusal};

use super::bounds::Bounds;
use super::history::{Called, History};
use super::promises::changes_nothing;
use super::steps::{Call, Token};

/// Judges the answer to a control call and takes it into the history.
pub(super) fn judge(
    history: &mut History,
    bounds: &Bounds,
    call: Call,
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    let at = call.token.map(|token| history.position(token));
    let page = &history.pages[call.page];
    let known = page.called.iter().find(|one| call.key > 0 && (one.verb, one.key) == (call.verb, call.key));
    match outcome {
        Outcome::Controlled(done) if done.replayed => {
            let known = known.expect("a copy of what was never told");
            assert_eq!((known.at, &known.body), (at, &done.body), "I5: the first answer");
            assert_eq!(changes, [], "I19: a copy does nothing");
        }
        Outcome::Controlled(done) => {
            assert!(known.is_none(), "one call, carried out twice (I2)");
            assert!(!history.stopped, "something was ended while the breaker was tripped");
            match call.verb {
                ControlVerb::Revoke | ControlVerb::Cancel => end(history, bounds, call, now),
                ControlVerb::Reopen => reopen(history, bounds, call),
            }
            let called = Called { verb: call.verb, key: call.key, at, body: done.body.clone() };
            if call.key > 0 {
                history.pages[call.page].called.push(called);
            }
        }
        Outcome::Refused(Refusal::OperationMismatch) => {
            assert!(known.is_some_and(|known| known.at != at), "I6");
            assert_eq!(changes, []);
        }
        Outcome::Refused(refusal) => {
            assert!(known.is_none(), "I5: it was carried out");
            let heard_of = page.granted > (0, 0) || page.effect.is_some() || page.acknowledged > (0, 0);
            let must = match call.verb {
                ControlVerb::Revoke => heard_of,
                ControlVerb::Cancel => !page.deleted,
                ControlVerb::Reopen => false,
            };
            assert!(call.token.is_some() || !must, "an operator was refused: {refusal:?}");
            changes_nothing(changes);
        }
        other => panic!("{other:?}"),
    }
}

/// Everything granted or acknowledged so far is over; an owner's call is judged like a write of it.
fn end(history: &mut History, bounds: &Bounds, call: Call, now: Timestamp) {
    let definition = bounds.world.definition();
    if let Some(token) = call.token {
        let (at, page) = (history.position(token), &history.pages[call.page]);
        assert!(
            at >= page.acknowledged && at > page.revoked && at > page.ended,
            "a superseded owner ended something"
        );
        assert!(at.0 == history.epoch && !page.cancelled && !page.deleted);
        match definition.issuer {
            Issuer::Gateway => {
                let Token::Grant(number) = token else { panic!("a position that was never issued") };
                let live = history.is_live(&history.grants[number], now);
                assert!(
                    live || definition.contract != Contract::LeaseBound,
                    "lease_bound: the lease is over"
                );
            }
            Issuer::Registered => assert!(at <= page.registered, "above what was registered"),
            Issuer::Trusted { .. } => {}
        }
        let page = &mut history.pages[call.page];
        page.acknowledged = page.acknowledged.max(at);
    }
    let cause = if call.verb == ControlVerb::Cancel { EndCause::Cancelled } else { EndCause::Revoked };
    let live: Vec<usize> = (0..history.grants.len())
        .filter(|number| {
            history.grants[*number].page == call.page && history.is_live(&history.grants[*number], now)
        })
        .collect();
    for number in live {
        history.grants[number].cause = Some(cause);
    }
    let page = &mut history.pages[call.page];
    page.revoked = page.revoked.max(page.granted).max(page.acknowledged);
    if call.verb == ControlVerb::Cancel {
        assert!(!page.deleted, "a tombstone was cancelled");
        page.cancelled = true;
    }
}

/// What was cancelled lives again, and under an external issuer only above everything before.
fn reopen(history: &mut History, bounds: &Bounds, call: Call) {
    let at = call.token.map(|token| history.position(token));
    let epoch = history.epoch;
    let page = &mut history.pages[call.page];
    assert!(!page.deleted, "a reopen created a page again");
    if !page.cancelled {
        return;
    }
    page.cancelled = false;
    if bounds.world.definition().issuer.is_external() {
        let at = at.expect("a reopen without a fresh position");
        assert!(
            at > page.acknowledged && at > page.revoked && at.0 == epoch,
            "a reopen at what was cancelled"
        );
        page.acknowledged = at;
        page.registered = page.registered.max(at);
    } else {
        assert_eq!(at, None, "an owner of before opened what was cancelled");
    }
}
