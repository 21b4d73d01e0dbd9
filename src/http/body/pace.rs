//! How slowly a body may come: all of it in time, and after a moment of grace never below the least pace. Whoever sends a
//! byte now and then holds its place for seconds, and not for as long as a large body on a slow network may take.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use crate::limits::{BODY_BYTES_A_SECOND, BODY_GRACE};

use super::super::problem::{Code, Problem};
use super::cut_off;

/// Until when the next bytes have to be there.
pub(super) struct Pace {
    began: Instant,
    patience: Duration,
}

impl Pace {
    pub(super) fn begin(patience: Duration) -> Self {
        // A timer knows when it began; nothing is ever measured against another clock.
        let now: Sleep = sleep(Duration::ZERO);
        Self { began: now.deadline(), patience }
    }

    /// The next piece, in time; none at the end.
    pub(super) async fn next(&self, body: &mut Body, arrived: u64) -> Result<Option<Frame<Bytes>>, Problem> {
        let allowed = allowed(arrived).min(self.patience);
        match timeout_at(self.began + allowed, body.frame()).await {
            Ok(frame) => frame.transpose().map_err(|_| cut_off()),
            Err(_) => Err(self.too_slow(allowed)),
        }
    }

    fn too_slow(&self, allowed: Duration) -> Problem {
        let seconds = allowed.as_secs();
        let detail = if allowed < self.patience {
            format!(
                "the body came at less than {BODY_BYTES_A_SECOND} bytes a second and was given up after {seconds} s; send the request again"
            )
        } else {
            format!("the body did not arrive within {seconds} s; send the request again")
        };
        Problem::new(Code::RequestTimeout, detail)
    }
}

/// How long after its beginning more of a body must have come than this.
fn allowed(arrived: u64) -> Duration {
    let whole = arrived.checked_div(BODY_BYTES_A_SECOND).unwrap_or_default();
    BODY_GRACE.saturating_add(Duration::from_secs(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_gives_time_for_what_is_to_come() {
        assert_eq!(allowed(0), BODY_GRACE);
        assert_eq!(allowed(BODY_BYTES_A_SECOND - 1), BODY_GRACE);
        assert_eq!(allowed(10 * BODY_BYTES_A_SECOND), BODY_GRACE + Duration::from_secs(10));
        assert!(allowed(u64::MAX) > BODY_GRACE);
    }
}
