//! Becoming the owner, within a budget of time.
//!
//! All attempts carry one request id: an answer that was lost is found by the next attempt, and never leaves a lease
//! behind that nobody knows of.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::renew::{self, Attempt};
use super::signals::{self, Signals};
use super::tenure::{self, Tenure};
use crate::app::WakefulClock;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::pace::jittered;
use crate::cli::wish::{Outlook, PENDING, Wish, is_pending, outlook};
use crate::limits::{RUN_ANSWER_TIMEOUT, RUN_PAUSE_LEAST, RUN_PAUSE_MOST, RUN_RELEASE_PATIENCE};

/// Why there is no lease.
struct Refusal {
    failure: Failure,
    /// The last attempt may have taken effect all the same.
    doubtful: bool,
}

/// Acquires, or says why not. A signal that asks for the end ends the wait.
pub(super) async fn acquire(
    client: &Client,
    clock: &WakefulClock,
    wish: &Wish,
    signals: &mut Signals,
) -> Result<Tenure, Failure> {
    let refusal = tokio::select! {
        biased;
        signal = signals.ending() => {
            let why = format!("stopped by {} before it was acquired", signals::name(signal));
            Refusal { failure: Failure::NeverOwned(why), doubtful: true }
        }
        acquired = attempts(client, clock, wish) => match acquired {
            Ok(tenure) => return Ok(tenure),
            Err(refusal) => refusal,
        },
    };
    if refusal.doubtful {
        settle(client, wish).await;
    }
    Err(match refusal.failure {
        // The command line itself is wrong, and no gateway was asked.
        usage @ Failure::Usage(_) => usage,
        other @ (Failure::Mistakes(_)
        | Failure::Start(_)
        | Failure::Refused(_)
        | Failure::Unreachable(_)
        | Failure::Relayed(_)
        | Failure::Lost(_)
        | Failure::Output(_)
        | Failure::Pending(_)
        | Failure::Story(_)
        | Failure::NeverOwned(_)
        | Failure::OwnershipLost(_)) => {
            Failure::NeverOwned(format!("not acquired, the command was not started: {}", other.brief()))
        }
    })
}

async fn attempts(client: &Client, clock: &WakefulClock, wish: &Wish) -> Result<Tenure, Refusal> {
    let end = clock.elapsed().saturating_add(wish.wait);
    loop {
        let sent = clock.elapsed();
        let request = wish.request(client, end.saturating_sub(sent));
        let (failure, pause, doubtful) = match client.ask(request, "").await {
            Ok(answer) => match granted(client, clock, sent, &answer.json).await {
                Ok(tenure) => return Ok(tenure),
                Err(failure) => (failure, jittered(RUN_PAUSE_MOST), true),
            },
            Err(failure) => match outlook(&failure) {
                Outlook::Settled => return Err(Refusal { failure, doubtful: false }),
                Outlook::Open { pause } => (failure, pause, false),
                Outlook::Doubtful { pause } => (failure, pause, true),
            },
        };
        let left = end.saturating_sub(clock.elapsed());
        if left.is_zero() {
            return Err(Refusal { failure, doubtful });
        }
        // Once more at the very end: the owner may go at any moment.
        sleep(pause.max(RUN_PAUSE_LEAST).min(left)).await;
    }
}

/// Takes the lease of an answer. One that an earlier attempt got may be nearly over, and is renewed first.
async fn granted(
    client: &Client,
    clock: &WakefulClock,
    sent: Duration,
    lease: &Value,
) -> Result<Tenure, Failure> {
    if is_pending(lease) {
        return Err(Failure::Pending(PENDING.to_owned()));
    }
    let Some((mut tenure, terms)) = Tenure::read(sent, lease) else {
        return Err(Failure::Lost("the answer of the gateway gives no token".to_owned()));
    };
    if terms.is_old() {
        match renew::attempt(client, clock, &tenure, RUN_ANSWER_TIMEOUT).await {
            Attempt::Renewed(span) => tenure.span = span,
            Attempt::Lost(loss) => return Err(Failure::Lost(loss.to_string())),
            Attempt::Failed { why, .. } => return Err(Failure::Lost(why)),
        }
    }
    Ok(tenure)
}

/// After an attempt whose outcome is not known: a lease that it may have got would keep everybody waiting for its ttl.
async fn settle(client: &Client, wish: &Wish) {
    let settled = async {
        match client.ask(wish.request(client, Duration::ZERO), "").await {
            Ok(answer) => tenure::release_named(client, &answer.json).await,
            Err(failure) => Err(failure),
        }
    };
    // Whatever comes of it: what is left then ends by its ttl.
    drop(timeout(RUN_RELEASE_PATIENCE, settled).await);
}
