//! Where the wrong steps are taken.

use fencegate::domain::operation::OperationState;
use fencegate::domain::upstream::{Base, CellSeen, Class};
use fencegate::protocol::command::{Finding, Settle, Told};
use fencegate::protocol::outcome::Verdict;
use fencegate::protocol::rows::{IntentRow, NamespaceRow};
use fencegate::protocol::snapshot::OperationKey;
use fencegate::protocol::{Change, Command, Decision, Outcome, Refusal, Snapshot};

use super::bounds::{Bounds, PAGE};
use super::bugs::Bug;
use super::judge::Violation;
use super::rules::{decided, is_news, plain};
use super::state::{Phase, State, Task, Work};
use super::store::{Request, Sent};
use crate::support::world::name;

fn number(intent: &IntentRow) -> usize {
    usize::try_from(intent.claim).unwrap()
}

/// The decision about a write as if no lane were busy.
pub(super) fn pass_the_lane(
    state: &State,
    bounds: &Bounds,
    command: &Command,
    decision: &Decision,
) -> Result<Option<Decision>, Violation> {
    let Outcome::NotWritten(verdicts) = &decision.outcome else { return Ok(None) };
    let busy = matches!(verdicts[0].verdict, Verdict::Refuse(Refusal::LaneBusy { .. }));
    if !busy || !bounds.is(Bug::NoLane) {
        return Ok(None);
    }
    let mut free = state.snapshot.clone();
    state.intents().for_each(|intent| free.remove_intent(intent));
    decided(bounds, &free, command, state.history.age).map(Some)
}

/// The rows that a write is judged by, where these are not those that stand.
pub(super) fn rows_of_a_write(state: &State, bounds: &Bounds, command: &Command) -> Option<Snapshot> {
    if !bounds.is(Bug::BreakerAdmits) || !matches!(command, Command::Write(_)) {
        return None;
    }
    let mut open = state.snapshot.clone();
    let rows = state.snapshot.namespaces().cloned();
    rows.for_each(|row| open.insert_namespace(NamespaceRow { breaker: None, ..row }));
    Some(open)
}

/// What becomes of an act on everything.
pub(super) fn act(bounds: &Bounds, changes: &mut [Change]) {
    for change in changes {
        if let Change::NamespaceChanged { before, after } = change
            && bounds.is(Bug::EpochNotRaised)
        {
            after.epoch = before.epoch;
        }
    }
}

/// What was under way is thrown away, as if it could not come any more.
pub(super) fn throw_away(state: &mut State) -> Result<(), Violation> {
    for intent in state.intents().cloned().collect::<Vec<_>>() {
        state.snapshot.remove_intent(&intent);
        state.history.none(number(&intent))?;
    }
    Ok(())
}

/// The records that go at once.
pub(super) fn pruned(state: &State, bounds: &Bounds, decision: Decision) -> Decision {
    if !bounds.is(Bug::LivePruned) {
        return decision;
    }
    let all = state.snapshot.operations().cloned().map(Box::new).map(Change::OperationPruned);
    Decision { changes: all.collect(), ..decision }
}

/// What is done wrongly once an operation is announced.
pub(super) fn after_announcement(
    state: &mut State,
    bounds: &Bounds,
    announced: &IntentRow,
) -> Result<(), Violation> {
    if bounds.is(Bug::Naive) {
        state.snapshot.remove_intent(announced);
    }
    if bounds.is(Bug::RefuseOlder) {
        let older = |intent: &&IntentRow| intent.record.position < announced.record.position;
        for intent in state.intents().filter(older).cloned().collect::<Vec<_>>() {
            state.snapshot.remove_intent(&intent);
            state.history.none(number(&intent))?;
        }
    }
    Ok(())
}

/// Whether an operation is given up instead of being sent again.
pub(super) fn give_up(state: &mut State, bounds: &Bounds, intent: &IntentRow) -> Result<bool, Violation> {
    let operation = bounds.deliveries[number(intent)].operation;
    let known = state.store.knows(operation, intent.record.incarnation.get());
    if !bounds.is(Bug::AbandonOnNotFound) || known.is_some() {
        return Ok(false);
    }
    state.snapshot.remove_intent(intent);
    state.history.none(number(intent))?;
    Ok(true)
}

/// What is told to the rules of a finding; none where a wrong step takes its place.
pub(super) fn settle(
    state: &mut State,
    bounds: &Bounds,
    key: &OperationKey,
    told: &Told,
    finding: &Finding,
) -> Result<Option<Settle>, Violation> {
    let Some(intent) = state.snapshot.intent(key).cloned() else {
        naive_end(state, bounds, told, finding)?;
        return Ok(Some(plain(key, told, finding)));
    };
    let mut told = told.clone();
    if bounds.is(Bug::NoCompareAndSet) || bounds.is(Bug::AnyAnnouncement) {
        told.claim = intent.claim;
    }
    if bounds.is(Bug::NoCompareAndSet) {
        told.attempt = intent.record.attempt;
    }
    if bounds.is(Bug::StaleRead) {
        told.recorded = state.snapshot.resource(&name(PAGE)).and_then(|row| row.cell.clone());
    }
    match finding {
        Finding::Doubt if bounds.is(Bug::SerialGiveUp) => {
            state.snapshot.remove_intent(&intent);
            return Ok(None);
        }
        Finding::Doubt if bounds.is(Bug::SerialResend) => {
            send_again(state, bounds, &intent, None);
            return Ok(None);
        }
        Finding::Cell(seen) if is_news(bounds, &told, seen) => {
            send_again(state, bounds, &intent, Some(seen));
            return Ok(None);
        }
        Finding::Answered(_, _)
        | Finding::NotSent
        | Finding::Doubt
        | Finding::Cell(_)
        | Finding::Unreadable
        | Finding::Known(_) => {}
    }
    Ok(Some(plain(key, &told, finding)))
}

/// Without an announcement the answer alone tells.
fn naive_end(state: &mut State, bounds: &Bounds, told: &Told, finding: &Finding) -> Result<(), Violation> {
    let delivery = &bounds.deliveries[usize::try_from(told.claim).unwrap()];
    match finding {
        Finding::Answered(answer, _) if bounds.is(Bug::Naive) && answer.is_success() => {
            state.history.applied(delivery.operation, 1, delivery.position)
        }
        Finding::Answered(_, _)
        | Finding::NotSent
        | Finding::Doubt
        | Finding::Cell(_)
        | Finding::Unreadable
        | Finding::Known(_) => Ok(()),
    }
}

/// Sends once more, on what a cell shows where one was read.
fn send_again(state: &mut State, bounds: &Bounds, intent: &IntentRow, seen: Option<&CellSeen>) {
    let mut after = intent.clone();
    after.record.attempt += 1;
    after.record.state = OperationState::Intent;
    let base = match seen {
        Some(CellSeen::Unstamped(validator) | CellSeen::Stamped(validator, _)) => {
            Base::Recorded(validator.clone())
        }
        Some(CellSeen::Absent | CellSeen::Strange(_)) | None => Base::Absent,
    };
    let stamp = (bounds.class == Class::Conditional).then(|| fencegate::domain::upstream::Stamp {
        kind: fencegate::domain::upstream::StampKind::Content,
        incarnation: after.record.incarnation,
        position: after.record.position,
        commit: fencegate::domain::counter::CommitNo::ONE,
        operation_id: Some(after.record.operation_id.clone()),
    });
    let delivery = &bounds.deliveries[number(intent)];
    let sent = Sent {
        delivery: number(intent),
        operation: delivery.operation,
        incarnation: after.record.incarnation.get(),
        position: delivery.position,
        content: delivery.content,
    };
    let told = Told {
        claim: intent.claim,
        attempt: after.record.attempt,
        recorded: None,
        before: fencegate::protocol::command::Before::Nothing,
    };
    let work = Work::Operation { key: after.key(), told, ask_first: false };
    state.snapshot.insert_intent(after);
    state.tasks.push(Task { work, phase: Phase::Send(Request::Write { sent, base, stamp }) });
}

/// The rows that a settling sees.
pub(super) fn seen_by_settle(state: &State, bounds: &Bounds, key: &OperationKey) -> Snapshot {
    let mut seen = state.snapshot.clone();
    if bounds.is(Bug::RefusalAfterDoubt)
        && let Some(intent) = seen.intent(key).cloned()
    {
        seen.insert_intent(IntentRow { doubt: false, ..intent });
    }
    seen
}
