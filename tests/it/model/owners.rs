//! What must hold of leases and advances on every transition.

use fencegate::domain::lease::{EndCause, LeaseState};
use fencegate::domain::policy::{Contract, Issuer};
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::outcome::Grant as Answer;
use fencegate::protocol::rows::{AuditVerb, ResourceRow};
use fencegate::protocol::{Change, Outcome, Refusal};

use super::bounds::Bounds;
use super::history::{Grant, History};
use super::promises::{changes_nothing, plain_position};
use super::steps::Token;
use crate::support::world::TTL_MS;

/// Judges the answer to an acquire and takes it into the history.
pub(super) fn judge_acquire(
    history: &mut History,
    bounds: &Bounds,
    (page, request): (usize, u64),
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    let known = history.granted_to(page, request);
    match outcome {
        Outcome::Granted(answer) if answer.repeated => {
            let grant = known.expect("a repeat of what was never granted");
            assert!(history.is_live(grant, now), "a repeat brought an ended lease back");
            assert_eq!(
                (&grant.id, grant.at),
                (&answer.acquisition_id, plain_position(answer.view.lease.position))
            );
            assert_eq!(changes, []);
        }
        Outcome::Granted(answer) => {
            assert!(known.is_none(), "one request, two acquisitions (I8)");
            assert_eq!(history.live(page, now), 0, "I17: somebody else owns it");
            assert!(!history.pages[page].cancelled, "a cancelled job was taken up");
            granted(history, bounds, (page, request, None), answer, now);
        }
        Outcome::Refused(Refusal::LeaseBlocked(_)) => {
            assert_eq!(history.live(page, now), 1, "held by nobody");
            assert!(known.is_none(), "it waits for its own lease");
            changes_nothing(changes);
        }
        Outcome::Refused(Refusal::LeaseEnded { state, cause }) => {
            let grant = known.expect("an end of what was never granted");
            ended(history, grant, (*state, *cause), now);
            changes_nothing(changes);
        }
        Outcome::Refused(Refusal::Cancelled) => {
            assert!(history.pages[page].cancelled && known.is_none(), "nobody cancelled it");
            assert_eq!(changes, []);
        }
        Outcome::Refused(Refusal::IssuerExternal) => {
            assert!(bounds.world.definition().issuer.is_external());
            assert_eq!(changes, []);
        }
        other => panic!("{other:?}"),
    }
}

/// What is told of an ended lease: how it ended, and by whose act.
fn ended(history: &History, grant: &Grant, (state, cause): (LeaseState, Option<EndCause>), now: Timestamp) {
    assert_eq!(history.state(grant, now), state);
    assert_ne!(state, LeaseState::Held, "a live lease was not renewed");
    assert_eq!(cause, grant.cause);
}

/// Judges the answer to a transfer and takes it into the history.
pub(super) fn judge_transfer(
    history: &mut History,
    bounds: &Bounds,
    number: usize,
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    let known = history.grants.iter().find(|grant| grant.source == Some(number));
    match outcome {
        Outcome::Granted(answer) if answer.repeated => {
            let next = known.expect("a repeat of what was never handed over");
            assert!(history.is_live(next, now), "a repeat brought an ended lease back");
            assert_eq!(
                (&next.id, next.at),
                (&answer.acquisition_id, plain_position(answer.view.lease.position))
            );
            assert_eq!(changes, []);
        }
        Outcome::Granted(answer) => {
            assert!(known.is_none(), "one transfer, two successors");
            assert!(history.is_live(&history.grants[number], now), "an ended lease was handed over");
            let page = history.grants[number].page;
            history.grants[number].cause = Some(EndCause::Transferred);
            assert_eq!(history.live(page, now), 0, "I17");
            granted(history, bounds, (page, 0, Some(number)), answer, now);
        }
        Outcome::Refused(Refusal::LeaseEnded { state, cause }) => {
            let grant = known.unwrap_or(&history.grants[number]);
            ended(history, grant, (*state, *cause), now);
            changes_nothing(changes);
        }
        other => panic!("{other:?}"),
    }
}

fn granted(
    history: &mut History,
    bounds: &Bounds,
    (page, request, source): (usize, u64, Option<usize>),
    answer: &Answer,
    now: Timestamp,
) {
    assert!(!history.stopped, "a token was issued while the breaker was tripped");
    let at = plain_position(answer.view.lease.position);
    let last = history.pages[page].granted;
    assert!(at > last && at.1 == last.1 + 1 && at.0 == history.epoch, "I8: {at:?} after {last:?}");
    assert!(history.grants.iter().all(|grant| grant.id != answer.acquisition_id), "I8: an id twice");
    let page_history = &mut history.pages[page];
    page_history.granted = at;
    match bounds.world.definition().contract {
        Contract::Observed => {}
        // The answer promises that nothing older is admitted any more (I10).
        Contract::Immediate | Contract::LeaseBound => {
            page_history.acknowledged = page_history.acknowledged.max(at);
        }
    }
    let until = now.plus(Millis::new(TTL_MS));
    history.grants.push(Grant {
        page,
        request,
        at,
        id: answer.acquisition_id.clone(),
        until,
        released: false,
        cause: None,
        source,
    });
}

/// Judges the answer to a renewal.
pub(super) fn judge_renew(
    history: &mut History,
    number: usize,
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    let state = history.state(&history.grants[number], now);
    match outcome {
        Outcome::Renewed(view) => {
            assert_eq!(state, LeaseState::Held, "an ended lease came back");
            assert_eq!((view.state, view.remaining.get()), (LeaseState::Held, TTL_MS));
            only_of(history, number, changes);
            history.grants[number].until = now.plus(Millis::new(TTL_MS));
        }
        Outcome::Refused(Refusal::LeaseEnded { state, cause }) => {
            ended(history, &history.grants[number], (*state, *cause), now);
            changes_nothing(changes);
            only_of(history, number, changes);
        }
        other => panic!("{other:?}"),
    }
}

/// Judges the answer to a release.
pub(super) fn judge_release(
    history: &mut History,
    number: usize,
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    let Outcome::Released(view) = outcome else { panic!("{outcome:?}") };
    only_of(history, number, changes);
    if history.is_live(&history.grants[number], now) {
        history.grants[number].released = true;
    } else {
        changes_nothing(changes);
    }
    assert_eq!(view.state, history.state(&history.grants[number], now));
}

/// Renewing and releasing touch nothing of another's.
fn only_of(history: &History, number: usize, changes: &[Change]) {
    let own = history.grants[number].id.hash();
    let ends = [AuditVerb::Released, AuditVerb::Expired, AuditVerb::Superseded];
    for change in changes {
        if let Change::Audited(line) = change {
            assert!(ends.contains(&line.verb), "{line:?}");
            continue;
        }
        let Change::LeaseChanged { before, .. } = change else { panic!("{change:?}") };
        assert_eq!(before.acquisition, own, "another's lease was touched");
    }
}

/// Judges the answer to an advance and takes it into the history.
pub(super) fn judge_advance(
    history: &mut History,
    bounds: &Bounds,
    (page, token): (usize, Token),
    outcome: &Outcome,
    changes: &[Change],
    now: Timestamp,
) {
    let at = history.position(token);
    if let Outcome::Refused(_) = outcome {
        changes_nothing(changes);
        return;
    }
    let Outcome::Advanced(_) = outcome else { panic!("{outcome:?}") };
    assert!(!history.stopped, "a floor was raised while the breaker was tripped");
    if bounds.world.definition().issuer == Issuer::Gateway {
        let Token::Grant(number) = token else { panic!("a position that was never issued moved the fence") };
        let live = history.is_live(&history.grants[number], now);
        assert!(live || bounds.world.definition().contract != Contract::LeaseBound, "lease_bound");
    }
    let epoch = history.epoch;
    let page = &mut history.pages[page];
    assert!(at >= page.acknowledged && at.0 == epoch, "the fence went back");
    assert!(at > page.revoked && !page.cancelled, "I10: a revoked position moved the fence");
    page.acknowledged = at;
    page.registered = page.registered.max(at);
}

/// I7: no register of a row goes back. Written apart from `protocol::invariants`.
pub(super) fn goes_forward(before: Option<&ResourceRow>, after: &ResourceRow) {
    let Some(before) = before else { return };
    let registers = |row: &ResourceRow| {
        [
            plain_position(row.floor),
            plain_position(row.issued),
            plain_position(row.born),
            row.revoked_through.map_or((0, 0), plain_position),
            row.applied.map_or((0, 0), |mark| plain_position(mark.position)),
            (row.incarnation.get(), row.commit_no.get()),
        ]
    };
    let (old, new) = (registers(before), registers(after));
    assert!(old.iter().zip(&new).all(|(old, new)| old <= new), "I7: {old:?} became {new:?}");
    assert!(before.commit_no <= after.commit_no, "I7");
}
