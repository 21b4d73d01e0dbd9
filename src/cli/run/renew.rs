//! Staying the owner: renewing, and noticing that it is over.

use std::fmt;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value};

use super::tenure::{Span, Tenure, Terms};
use crate::app::WakefulClock;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::pace::{jittered, reaches};
use crate::limits::{RUN_ATTEMPT_LEAST, RUN_ATTEMPT_PART, RUN_PAUSE_LEAST, RUN_PAUSE_MOST};

/// Why no renewal lengthens a lease any more.
const HELD_LONGEST: &str = "its namespace allows no longer hold (max_hold_ms)";

/// Why the lease must no longer be relied on.
#[derive(Debug)]
pub(super) enum Loss {
    /// The gateway says that it is over.
    Ended(String),
    /// The resource was cancelled.
    Cancelled(String),
    /// No renewal succeeded in time; what the last one failed of.
    Late(Option<String>),
}

/// What came of one attempt to renew.
pub(super) enum Attempt {
    /// It goes on.
    Renewed(Span),
    /// It is over.
    Lost(Loss),
    /// Nobody knows; the next attempt may succeed.
    Failed {
        /// On one line.
        why: String,
        /// How long the gateway asks to wait.
        retry_after: Option<Duration>,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(why) => write!(f, "{why}"),
            Self::Cancelled(why) => write!(f, "it was cancelled: {why}"),
            Self::Late(None) => write!(f, "it could not be renewed in time"),
            Self::Late(Some(why)) => write!(f, "it could not be renewed in time: {why}"),
        }
    }
}

/// Renews for as long as that goes well. It comes back when the lease is lost, at the latest when it ends by this
/// machine's clock, whatever a request that is under way would still bring.
pub(super) async fn until_lost(client: &Client, clock: &WakefulClock, tenure: &Tenure) -> Loss {
    let (mut span, mut failed) = (tenure.span, None);
    loop {
        let next = async {
            reaches(clock, span.renew_at).await;
            let left = span.ends_at.saturating_sub(clock.elapsed());
            attempt(client, clock, tenure, (left / RUN_ATTEMPT_PART).max(RUN_ATTEMPT_LEAST)).await
        };
        let attempt = tokio::select! {
            biased;
            () = reaches(clock, span.ends_at) => {
                return Loss::Late(if span.is_last { Some(HELD_LONGEST.to_owned()) } else { failed });
            }
            attempt = next => attempt,
        };
        match attempt {
            Attempt::Renewed(renewed) => (span, failed) = (renewed, None),
            Attempt::Lost(loss) => return loss,
            Attempt::Failed { why, retry_after } => {
                let now = clock.elapsed();
                // Several more attempts must fit in, whatever pause the gateway would like.
                let most = span.ends_at.saturating_sub(now) / 4;
                let pause = retry_after.unwrap_or_else(|| jittered(RUN_PAUSE_MOST)).min(most);
                span.renew_at = now.saturating_add(pause.max(RUN_PAUSE_LEAST));
                failed = Some(why);
            }
        }
    }
}

/// One attempt to renew, which takes at most so long.
pub(super) async fn attempt(
    client: &Client,
    clock: &WakefulClock,
    tenure: &Tenure,
    patience: Duration,
) -> Attempt {
    let path = format!("{}/renew", tenure.path());
    // Before it is sent: the gateway counts from some later moment.
    let sent = clock.elapsed();
    let request = client.request(Method::POST, &path).json(&Map::new()).timeout(patience);
    match client.ask(request, "").await {
        Ok(answer) => renewed(sent, &answer.json),
        Err(failure) => not_renewed(&failure),
    }
}

fn renewed(sent: Duration, lease: &Value) -> Attempt {
    if lease.pointer("/cancel_requested") == Some(&Value::Bool(true)) {
        return Attempt::Lost(Loss::Cancelled("the gateway asks to stop".to_owned()));
    }
    match Terms::read(lease) {
        Some(terms) => Attempt::Renewed(Span::of(sent, &terms)),
        None => Attempt::Failed { why: "the answer shows no held lease".to_owned(), retry_after: None },
    }
}

fn not_renewed(failure: &Failure) -> Attempt {
    let why = failure.brief();
    match failure {
        Failure::Refused(problem) if problem.cancel_requested() => Attempt::Lost(Loss::Cancelled(why)),
        // Gone, unknown, forbidden: no later attempt can be answered better.
        Failure::Refused(problem) if [403, 404, 410].contains(&problem.status()) => {
            Attempt::Lost(Loss::Ended(why))
        }
        Failure::Refused(problem) => Attempt::Failed { why, retry_after: problem.retry_after() },
        Failure::Usage(_)
        | Failure::Mistakes(_)
        | Failure::Start(_)
        | Failure::Unreachable(_)
        | Failure::Relayed(_)
        | Failure::Lost(_)
        | Failure::Output(_)
        | Failure::Pending(_)
        | Failure::Story(_)
        | Failure::NeverOwned(_)
        | Failure::OwnershipLost(_) => Attempt::Failed { why, retry_after: None },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::failure::Problem;

    fn refused(status: u16, code: &str, more: &Value) -> Attempt {
        let mut body = json!({"type": "/x", "title": "Title", "status": status, "detail": "Detail.", "code": code,
            "effect": "none", "retryable": status >= 500, "retry_after_ms": 700});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let problem = Problem::read(body.to_string().as_bytes(), "http://gate").unwrap();
        not_renewed(&Failure::Refused(Box::new(problem)))
    }

    #[test]
    fn what_is_gone_unknown_or_forbidden_is_lost_at_once() {
        for (status, code) in [(410, "lease_superseded"), (404, "not_found"), (403, "forbidden")] {
            let Attempt::Lost(loss) = refused(status, code, &json!({})) else { panic!("{code}") };
            assert_eq!(loss.to_string(), format!("{code} ({status}): Detail."));
        }
    }

    #[test]
    fn a_cancelled_resource_is_said_to_be_cancelled() {
        let refused = refused(410, "lease_superseded", &json!({"cancel_requested": true}));
        let Attempt::Lost(loss) = refused else { panic!("not lost") };
        assert_eq!(loss.to_string(), "it was cancelled: lease_superseded (410): Detail.");
        let asked = renewed(Duration::ZERO, &json!({"state": "held", "cancel_requested": true}));
        assert!(matches!(asked, Attempt::Lost(Loss::Cancelled(_))));
    }

    #[test]
    fn everything_else_is_tried_again() {
        for (status, code) in [(503, "overloaded"), (409, "operation_in_progress"), (422, "invalid_field")] {
            let Attempt::Failed { retry_after, .. } = refused(status, code, &json!({})) else {
                panic!("{code}")
            };
            assert_eq!(retry_after, Some(Duration::from_millis(700)));
        }
        for failure in [Failure::Lost("x".to_owned()), Failure::Unreachable("x".to_owned())] {
            assert!(matches!(not_renewed(&failure), Attempt::Failed { .. }));
        }
        assert!(matches!(renewed(Duration::ZERO, &json!({})), Attempt::Failed { .. }));
    }
}
