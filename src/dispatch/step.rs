//! One step: an attempt becomes a call to the store, and the answer becomes a finding.

use std::sync::Arc;
use std::time::Duration;

use crate::backing::{Answer, Asked, CellRead, Deadline, Order, Sent, Upstream};
use crate::domain::resource::Address;
use crate::domain::time::Millis;
use crate::domain::upstream::{Base, Payload, Stamp};
use crate::ledger::Unserved;
use crate::protocol::command::Finding;
use crate::protocol::outcome::{Act, Attempt};
use crate::protocol::rows::IntentRow;

use super::{Shop, trace};

/// How old an announced attempt may be before it is looked at again: whoever was stopped in between may have been given
/// up, and somebody else may have gone on.
const FRESH: Duration = Duration::from_millis(250);

/// How much later than within its time-outs an attempt may be begun: less than the grace after which others take the
/// next step, and long enough for a database that is slow to confirm the announcement.
const LATE: Duration = Duration::from_millis(500);

/// What a step came to.
pub(super) enum Taken {
    /// It was taken, and this was learnt.
    Learnt(Finding),
    /// It is somebody else's by now, or its body is gone because it is decided.
    NotOurs,
}

/// Takes a step that was announced after `since`, by the clock that does not sleep.
pub(super) async fn take(
    shop: &Shop,
    upstream: &Arc<Upstream>,
    attempt: &Attempt,
    payload: &mut Option<Payload>,
    since: Duration,
) -> Taken {
    let stamp = match &attempt.act {
        Act::ReadCell => return Taken::Learnt(read_cell(shop, upstream, &attempt.intent).await),
        Act::Send(stamp) => stamp.clone(),
    };
    let namespace = attempt.intent.record.resource.namespace();
    if payload.is_none() {
        *payload = match body(shop, &attempt.intent).await {
            Ok(found) => found,
            Err(()) => return Taken::Learnt(Finding::Unreadable),
        };
    }
    let Some(body) = payload.clone() else { return Taken::NotOurs };
    let mut order = order(&attempt.intent, body, stamp);
    order.deadline = deadline(shop, upstream, attempt, since);
    if attempt.ask_first
        && let Asked::Done(relayed) = shop.timing(&namespace, "ask").over(upstream.ask(&order).await)
    {
        return Taken::Learnt(Finding::Known(Box::new(relayed)));
    }
    // The gateway is a stale worker too: one that was paused looks again before it writes to a socket.
    if (shop.elapsed)().saturating_sub(since) > FRESH {
        match is_still_ours(shop, &attempt.intent).await {
            Ok(true) => {}
            Ok(false) => return Taken::NotOurs,
            // Whoever goes on with it could not know that nothing was sent: for a serial store that would be a doubt. Where
            // it is somebody else's by now, telling changes nothing.
            Err(unserved) => {
                tracing::warn!(%unserved, "nothing was sent: the announcement could not be looked at again");
                return Taken::Learnt(Finding::NotSent);
            }
        }
    }
    let (span, began) = (trace::enter(&mut order, attempt.intent.record.attempt), (shop.elapsed)());
    let sent = shop.timing(&namespace, "send").over(upstream.send(&order).await);
    trace::leave(shop, span, &attempt.intent, &sent, (shop.elapsed)().saturating_sub(began));
    Taken::Learnt(learnt(sent))
}

/// Until when an attempt may be begun. From then on others may go on with it, or its store may forget its key: what
/// arrives then would come after what they have decided, or act a second time.
fn deadline(shop: &Shop, upstream: &Upstream, attempt: &Attempt, since: Duration) -> Deadline {
    let one = upstream.store().rules().timeout.duration();
    let all = if attempt.ask_first { one.saturating_mul(2) } else { one };
    let left = attempt.left.map_or(Duration::MAX, Millis::duration);
    Deadline::at(since.saturating_add(all.saturating_add(LATE).min(left)), shop.elapsed.clone())
}

/// What a call taught.
fn learnt(sent: Sent) -> Finding {
    match sent {
        Sent::Answered(Answer { relayed, holds, .. }) => Finding::Answered(Box::new(relayed), holds),
        Sent::NotSent(reason) => {
            tracing::info!(reason, "an upstream was not reached");
            Finding::NotSent
        }
        Sent::Doubt(reason) => {
            tracing::warn!(reason, "an upstream may have acted and did not say so");
            Finding::Doubt
        }
    }
}

async fn read_cell(shop: &Shop, upstream: &Arc<Upstream>, intent: &IntentRow) -> Finding {
    let resource = &intent.record.resource;
    match shop.timing(&resource.namespace(), "read_cell").over(upstream.read_cell(resource).await) {
        CellRead::Seen(seen) => Finding::Cell(seen),
        CellRead::Unreadable(reason) => {
            tracing::info!(reason, resource = %intent.record.resource, "a cell could not be read");
            // Nothing was sent by this step, so there is no new doubt; without an old one nothing ever was.
            if intent.base == Base::Unread && !intent.doubt { Finding::NotSent } else { Finding::Unreadable }
        }
    }
}

async fn body(shop: &Shop, intent: &IntentRow) -> Result<Option<Payload>, ()> {
    let key = intent.key();
    shop.ledger.read(move |reader| reader.payload(key)).await.map_err(|_| ())
}

async fn is_still_ours(shop: &Shop, intent: &IntentRow) -> Result<bool, Unserved> {
    let resource = intent.record.resource.clone();
    let all = shop.ledger.read_reserved(move |reader| reader.intents(resource)).await?;
    Ok(all.iter().any(|one| one.key() == intent.key() && one.record == intent.record))
}

fn order(intent: &IntentRow, payload: Payload, stamp: Option<Stamp>) -> Order {
    let record = &intent.record;
    Order {
        address: Address { resource: record.resource.clone(), target: record.target.clone() },
        method: record.method,
        query: intent.request.query.clone(),
        headers: intent.request.headers.clone(),
        content_type: intent.request.content_type.clone(),
        payload,
        position: record.position,
        sequence: record.sequence,
        incarnation: record.incarnation,
        operation_id: record.operation_id.clone(),
        base: intent.base.clone(),
        stamp,
        deadline: Deadline::default(),
    }
}
