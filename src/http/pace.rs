//! How often somebody may ask: what a call takes from its caller's allowance, and what it is told of it.

use std::net::IpAddr;

use axum::http::header::{CONNECTION, HeaderMap, HeaderValue};
use axum::http::request::Parts;
use axum::response::Response;

use crate::access::Caller;
use crate::access::pace::{Passed, Rate, Share, Spent};

use super::Hall;
use super::gate::Stranger;
use super::problem::{Code, Problem};
use super::wire::{RATELIMIT, RATELIMIT_POLICY};

/// Where a request comes from; it travels in the extensions of a request that is asked for credentials.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Who asks, or why it is nobody; an address that has shown wrong credentials too often is told to wait.
///
/// Right ones always open: behind one address there may be many, and none of them can shut the others out.
pub(super) async fn identified(hall: &Hall, head: &Parts) -> Result<Caller, Problem> {
    super::gate::identified(hall, head).await.map_err(|Stranger { problem, counts }| {
        let peer = head.extensions.get::<Peer>().filter(|_| counts);
        match peer.map(|Peer(address)| hall.door.access.failed(*address)) {
            Some(Err(spent)) => {
                let detail =
                    "credentials from this address were refused too often; wait, and look at what is sent";
                Problem::new(Code::RateLimited, detail).retry_after(spent.wait)
            }
            Some(Ok(())) | None => problem,
        }
    })
}

/// Takes a call from the allowance of its caller.
pub(super) fn take(hall: &Hall, share: Share, caller: &Caller) -> Result<Option<Passed>, Spent> {
    hall.door.access.take(caller, share)
}

/// What a caller is told whose allowance is used up.
pub(super) fn too_often(caller: &Caller, spent: Spent) -> Problem {
    let Rate { per_second, burst } = spent.rate;
    let detail = format!(
        "{} may ask {per_second} times a second, and {burst} times at once; send the request again after the time in \
         Retry-After",
        caller.name()
    );
    Problem::new(Code::RateLimited, detail).retry_after(spent.wait)
}

/// Says what is left (draft-ietf-httpapi-ratelimit-headers), where that is switched on.
pub(super) fn tell(hall: &Hall, pace: Result<Option<Passed>, Spent>, response: &mut Response) {
    if !hall.door.access.tells_rates() {
        return;
    }
    let (rate, now) = match pace {
        Ok(None) => return,
        Ok(Some(passed)) => (passed.rate, format!("\"default\";r={}", passed.left)),
        Err(spent) => {
            let seconds = spent.wait.as_secs().saturating_add(u64::from(spent.wait.subsec_nanos() > 0));
            (spent.rate, format!("\"default\";r=0;t={}", seconds.max(1)))
        }
    };
    let policy = format!("\"default\";q={};w={}", rate.burst, rate.window());
    for (name, text) in [(RATELIMIT_POLICY, policy), (RATELIMIT, now)] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// The next request needs a connection of its own.
pub(super) fn last_of_connection(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}
