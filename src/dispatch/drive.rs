//! An operation from its announcement to its decision, one step after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::backing::Upstream;
use crate::domain::time::Timestamp;
use crate::ledger::Unserved;
use crate::limits::{SETTLE_PATIENCE, SETTLE_PAUSE};
use crate::protocol::command::{Finding, Resume};
use crate::protocol::outcome::{Attempt, Settled};
use crate::protocol::snapshot::OperationKey;
use crate::protocol::{Command, Outcome};

use super::step::{Taken, take};
use super::{Ended, Shop};

/// Carries an operation to its end, unless this process is working at it already.
/// `since` is when its announcement was asked for: a task that was stopped afterwards knows by it that it was. Once it is
/// `alone`, with nobody who waits, it ends at the next pause: one whose store is away would last as long as that.
pub(super) async fn drive(
    shop: &Arc<Shop>,
    attempt: Attempt,
    since: Duration,
    alone: &CancellationToken,
) -> Ended {
    let key = attempt.intent.key();
    let Some(upstream) = shop.upstream_of(&key.0).cloned() else { return Ended::Uncertain };
    if !shop.driven().insert(key.clone()) {
        return Ended::Moved;
    }
    let _done = Working { shop, key: &key };
    let _busy = shop.meters(&key.0.namespace()).lanes.hold();
    driven(shop, &upstream, attempt, since, alone).await
}

/// Forgets that this process works at an operation, however that ends.
struct Working<'a> {
    shop: &'a Shop,
    key: &'a OperationKey,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.shop.driven().remove(self.key);
    }
}

async fn driven(
    shop: &Arc<Shop>,
    upstream: &Arc<Upstream>,
    mut attempt: Attempt,
    mut since: Duration,
    alone: &CancellationToken,
) -> Ended {
    let mut payload = attempt.payload.take();
    loop {
        let resume = Resume { key: attempt.intent.key(), attempt: attempt.intent.record.attempt };
        let finding = match take(shop, upstream, &attempt, &mut payload, since).await {
            Taken::Learnt(finding) => finding,
            Taken::NotOurs => return Ended::Moved,
        };
        let body = whole_body(&finding);
        let settle = Command::Settle(attempt.taught(finding));
        since = (shop.elapsed)();
        let settled = match submit(shop, settle).await {
            Ok(Outcome::Settled(settled)) => *settled,
            Ok(Outcome::Resolved(_)) => return Ended::Moved,
            Ok(_) => return Ended::Uncertain,
            Err(unserved) => return Ended::Unserved(unserved),
        };
        attempt = match next(shop, resume, settled, body, &mut since, alone).await {
            Ok(attempt) => attempt,
            Err(ended) => return ended,
        };
    }
}

/// The body that an upstream answered: all of it, though only a part may be kept.
fn whole_body(finding: &Finding) -> Bytes {
    match finding {
        Finding::Answered(relayed, _) | Finding::Known(relayed) => relayed.body.clone(),
        Finding::NotSent | Finding::Doubt | Finding::Cell(_) | Finding::Unreadable => Bytes::new(),
    }
}

/// The attempt that comes next, after a pause where one is due; or the end.
async fn next(
    shop: &Shop,
    resume: Resume,
    settled: Settled,
    body: Bytes,
    since: &mut Duration,
    alone: &CancellationToken,
) -> Result<Attempt, Ended> {
    let mut settled = settled;
    loop {
        match settled {
            Settled::Done(written) => return Err(Ended::Decided(Box::new(written), body)),
            Settled::Withdrawn(intent, why, standing) => {
                return Err(Ended::Withdrawn(Box::new(intent), why, standing));
            }
            Settled::Again(attempt) => return Ok(attempt),
            Settled::Uncertain(_) => return Err(Ended::Uncertain),
            Settled::Moved => return Err(Ended::Moved),
            Settled::Later(at) => {
                let pause = async { shop.pause(until(shop, at).await).await };
                let goes_on = tokio::select! {
                    biased;
                    () = alone.cancelled() => false,
                    goes_on = pause => goes_on,
                };
                if !goes_on {
                    return Err(Ended::Moved);
                }
                *since = (shop.elapsed)();
                settled = match submit(shop, Command::Resume(resume.clone())).await {
                    Ok(Outcome::Settled(settled)) => *settled,
                    Ok(_) => return Err(Ended::Moved),
                    Err(unserved) => return Err(Ended::Unserved(unserved)),
                };
            }
        }
    }
}

/// How long it is until then, by the database's clock.
async fn until(shop: &Shop, at: Timestamp) -> Duration {
    let now = shop.ledger.read(|reader| reader.time()).await;
    // Without a clock to ask, a pause; the rules judge again whether it is due.
    now.map_or(SETTLE_PAUSE, |now| now.until(at).duration())
}

/// Submits for as long as the database may come back: only this process knows what was learnt.
async fn submit(shop: &Shop, command: Command) -> Result<Outcome, Unserved> {
    let began = (shop.elapsed)();
    loop {
        let unserved = match shop.ledger.submit(command.clone()).await {
            Ok(outcome) => return Ok(outcome),
            Err(unserved) => unserved,
        };
        let patient = (shop.elapsed)().saturating_sub(began) < SETTLE_PATIENCE;
        if matches!(unserved, Unserved::Inconsistent) || !patient || !shop.pause(SETTLE_PAUSE).await {
            return Err(unserved);
        }
    }
}
