//! What is to be owned, as `lease acquire` and `run` ask for it, and what may be expected of asking again.
//!
//! All attempts carry one request id: an answer that was lost is found by the next attempt, and a place in the gateway's
//! queue is kept from one to the next.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::client::Client;
use super::failure::Failure;
use super::pace::jittered;
use crate::domain::lease::Holder;
use crate::domain::resource::Path;
use crate::limits::{RUN_ANSWER_TIMEOUT, RUN_PAUSE_MOST, WAIT_MS};

/// The code of a wait at the gateway that ended without a lease.
const WAITED: &str = "wait_timeout";

/// What is to be owned, and how.
pub(super) struct Wish {
    /// One or several, all or none.
    pub(super) resources: Vec<Path>,
    pub(super) holder: Option<Holder>,
    pub(super) ttl_ms: Option<u64>,
    /// How long to try; zero tries once.
    pub(super) wait: Duration,
    /// The same for all attempts.
    pub(super) request_id: Uuid,
}

impl Wish {
    /// A request that waits at the gateway for as much of what is left as the gateway takes at once.
    pub(super) fn request(&self, client: &Client, left: Duration) -> RequestBuilder {
        let wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(WAIT_MS);
        let patience = RUN_ANSWER_TIMEOUT.saturating_add(Duration::from_millis(wait_ms));
        client.request(Method::POST, "/v1/leases").json(&self.body(wait_ms)).timeout(patience)
    }

    fn body(&self, wait_ms: u64) -> Map<String, Value> {
        let mut body = Map::new();
        let names: Vec<&str> = self.resources.iter().map(Path::as_str).collect();
        match names.as_slice() {
            [one] => body.insert("resource".to_owned(), (*one).into()),
            several => body.insert("resources".to_owned(), several.into()),
        };
        body.insert("request_id".to_owned(), self.request_id.to_string().into());
        body.extend(self.holder.as_ref().map(|holder| ("holder".to_owned(), holder.as_str().into())));
        body.extend(self.ttl_ms.map(|ms| ("ttl_ms".to_owned(), ms.into())));
        body.extend((wait_ms > 0).then(|| ("wait_ms".to_owned(), wait_ms.into())));
        body
    }
}

/// A lease that waits for a barrier has no token yet.
pub(super) fn is_pending(lease: &Value) -> bool {
    lease.get("state").and_then(Value::as_str) == Some("pending_barrier")
}

/// What is said of one.
pub(super) const PENDING: &str = "the lease is granted and waits until nothing older can become authoritative in the store (pending_barrier)";

/// What may be expected of a repetition.
pub(super) enum Outlook {
    /// The same answer.
    Settled,
    /// Another one, later.
    Open { pause: Duration },
    /// Another one, or a lease: nobody knows what became of this attempt.
    Doubtful { pause: Duration },
}

pub(super) fn outlook(failure: &Failure) -> Outlook {
    match failure {
        Failure::Refused(problem) if problem.is_open() => {
            let pause = match problem.retry_after() {
                // The time was waited at the gateway already. A longer pause would lose the place in its queue, and the
                // moment in which the lease is given back.
                Some(asked) if problem.code == WAITED => asked.min(jittered(RUN_PAUSE_MOST)),
                Some(asked) => asked,
                None => jittered(RUN_PAUSE_MOST),
            };
            if problem.is_doubtful() { Outlook::Doubtful { pause } } else { Outlook::Open { pause } }
        }
        Failure::Unreachable(_) => Outlook::Open { pause: jittered(RUN_PAUSE_MOST) },
        Failure::Lost(_) | Failure::Pending(_) => Outlook::Doubtful { pause: jittered(RUN_PAUSE_MOST) },
        Failure::Refused(_)
        | Failure::Relayed(_)
        | Failure::Usage(_)
        | Failure::Mistakes(_)
        | Failure::Start(_)
        | Failure::Output(_)
        | Failure::Story(_)
        | Failure::NeverOwned(_)
        | Failure::OwnershipLost(_) => Outlook::Settled,
    }
}
