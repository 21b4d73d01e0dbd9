//! A lease of one's own: how long it may be relied on, and giving it back.
//!
//! All instants are of this machine's clock and count from before the request was sent, less a margin: this side must
//! always think that the lease ends earlier than the gateway does.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use crate::cli::client::{Client, segment};
use crate::cli::failure::Failure;
use crate::cli::pace::jittered;
use crate::domain::lease::AcquisitionId;
use crate::limits::{
    RUN_MARGIN_PART, RUN_PAUSE_MOST, RUN_RELEASE_ATTEMPTS, RUN_RELEASE_PATIENCE, RUN_RENEW_LEAST,
};

/// What an answer says about a held lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    ttl: Duration,
    remaining: Duration,
    renew_after: Duration,
}

/// From when to when something is to be done about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// When to renew.
    pub(super) renew_at: Duration,
    /// From when on it must be taken as lost.
    pub(super) ends_at: Duration,
    /// No renewal lengthens it any more: its namespace allows no longer hold.
    pub(super) is_last: bool,
}

/// An acquisition of this process. Its tokens are credentials, so it cannot be printed.
pub(super) struct Tenure {
    acquisition: AcquisitionId,
    tokens: Tokens,
    /// As the answer to the acquire had it.
    pub(super) span: Span,
}

/// The tokens of an acquisition, with what each is for.
enum Tokens {
    One { resource: String, token: String },
    Several(Map<String, Value>),
}

impl Terms {
    /// Reads a lease as an answer shows it. `None`: it is not held, or it is no lease.
    pub(super) fn read(lease: &Value) -> Option<Self> {
        let ms = |path| lease.pointer(path).and_then(Value::as_u64).map(Duration::from_millis);
        let held = lease.pointer("/state").and_then(Value::as_str) == Some("held");
        let (ttl, remaining) = (ms("/ttl_ms")?, ms("/remaining_ms")?);
        held.then_some(Self { ttl, remaining, renew_after: ms("/renew_after_ms")? })
    }

    /// Whether so little is left that it has to be renewed before anything is begun under it.
    pub(super) fn is_old(&self) -> bool {
        self.remaining < self.ttl / 2
    }
}

impl Span {
    /// What follows from an answer whose request was sent at this instant.
    pub(super) fn of(sent: Duration, terms: &Terms) -> Self {
        let kept = terms.remaining.saturating_sub(terms.ttl / RUN_MARGIN_PART);
        let renew_after = terms.renew_after.max(RUN_RENEW_LEAST).min(kept / 2);
        Self {
            renew_at: sent.saturating_add(renew_after),
            ends_at: sent.saturating_add(kept),
            is_last: terms.renew_after >= terms.remaining,
        }
    }
}

impl Tenure {
    /// Reads the answer to an acquire that was sent at this instant. `None`: it gives no token.
    pub(super) fn read(sent: Duration, lease: &Value) -> Option<(Self, Terms)> {
        let terms = Terms::read(lease)?;
        let text = |path| lease.pointer(path).and_then(Value::as_str);
        let acquisition = AcquisitionId::parse(text("/acquisition_id")?).ok()?;
        let tokens = match text("/fencing_token") {
            Some(token) => {
                Tokens::One { resource: text("/resource")?.to_owned(), token: sendable(token)?.to_owned() }
            }
            None => Tokens::Several(several(lease.pointer("/tokens")?)?),
        };
        Some((Self { acquisition, tokens, span: Span::of(sent, &terms) }, terms))
    }

    /// What the command finds in its environment. `None` takes away what an outer `run` has put there: its token is for
    /// something else.
    pub(super) fn exports(&self, url: &str) -> Vec<(&'static str, Option<String>)> {
        let (token, tokens, resource) = match &self.tokens {
            Tokens::One { resource, token } => (Some(token.clone()), None, Some(resource.clone())),
            Tokens::Several(tokens) => (None, Some(Value::Object(tokens.clone()).to_string()), None),
        };
        vec![
            ("FENCING_TOKEN", token),
            ("FENCING_TOKENS", tokens),
            ("FENCEGATE_RESOURCE", resource),
            ("FENCEGATE_ACQUISITION", Some(self.acquisition.reveal().to_owned())),
            ("FENCEGATE_URL", Some(url.to_owned())),
        ]
    }

    /// What is owned, for messages.
    pub(super) fn names(&self) -> String {
        match &self.tokens {
            Tokens::One { resource, .. } => resource.clone(),
            Tokens::Several(tokens) => tokens.keys().cloned().collect::<Vec<_>>().join(", "),
        }
    }

    /// Its address at the gateway.
    pub(super) fn path(&self) -> String {
        path(&self.acquisition)
    }

    /// Gives it back, within [`RUN_RELEASE_PATIENCE`].
    pub(super) async fn release(&self, client: &Client) -> Result<(), Failure> {
        release(client, &self.path()).await
    }
}

/// Gives back what an answer names, whether or not it is held yet.
pub(super) async fn release_named(client: &Client, lease: &Value) -> Result<(), Failure> {
    let named = lease.pointer("/acquisition_id").and_then(Value::as_str);
    match named.and_then(|id| AcquisitionId::parse(id).ok()) {
        Some(acquisition) => release(client, &path(&acquisition)).await,
        None => Ok(()),
    }
}

async fn release(client: &Client, path: &str) -> Result<(), Failure> {
    let attempts = async {
        let mut left = RUN_RELEASE_ATTEMPTS;
        loop {
            left = left.saturating_sub(1);
            match client.ask(client.request(Method::DELETE, path), "").await {
                Ok(_) => return Ok(()),
                Err(Failure::Refused(problem)) if !problem.is_open() => {
                    return Err(Failure::Refused(problem));
                }
                Err(failure) if left == 0 => return Err(failure),
                Err(_) => sleep(jittered(RUN_PAUSE_MOST / 2)).await,
            }
        }
    };
    timeout(RUN_RELEASE_PATIENCE, attempts)
        .await
        .unwrap_or_else(|_| Err(Failure::Lost("the gateway did not answer in time".to_owned())))
}

fn path(acquisition: &AcquisitionId) -> String {
    format!("/v1/leases/{}", segment(acquisition.reveal()))
}

/// What can stand in a header and in the environment; the gateway seals nothing else.
fn sendable(token: &str) -> Option<&str> {
    (!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())).then_some(token)
}

fn several(tokens: &Value) -> Option<Map<String, Value>> {
    let named = tokens.as_object()?.iter().map(|(name, token)| {
        let token = sendable(token.pointer("/fencing_token")?.as_str()?)?;
        Some((name.clone(), Value::from(token)))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "edkP3vX0cS1uV7yRk2mTbQw5";

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn span(ttl: u64, remaining: u64, renew_after: u64) -> (u64, u64) {
        let lease =
            json!({"state": "held", "ttl_ms": ttl, "remaining_ms": remaining, "renew_after_ms": renew_after});
        let span = Span::of(ms(1_000), &Terms::read(&lease).unwrap());
        let since = |instant: Duration| u64::try_from(instant.saturating_sub(ms(1_000)).as_millis()).unwrap();
        (since(span.renew_at), since(span.ends_at))
    }

    #[test]
    fn a_lease_ends_here_before_it_ends_there() {
        assert_eq!(span(30_000, 30_000, 10_000), (10_000, 27_000));
        assert_eq!(span(30_000, 20_000, 0), (100, 17_000));
        assert_eq!(span(1_000, 1_000, 333), (333, 900));
        assert_eq!(span(30_000, 2_000, 0), (0, 0), "less is left than the margin");
    }

    #[test]
    fn it_is_renewed_while_there_is_still_time() {
        assert_eq!(span(120, 120, 40), (54, 108), "never in a circle, and in time all the same");
        assert_eq!(span(30_000, 30_000, 60_000), (13_500, 27_000), "an answer that asks for too late");
    }

    #[test]
    fn a_lease_that_is_not_held_has_no_terms() {
        let lease = |state| json!({"state": state, "ttl_ms": 1, "remaining_ms": 1, "renew_after_ms": 0});
        assert!(Terms::read(&lease("held")).is_some());
        for state in ["released", "expired", "superseded", "pending_barrier"] {
            assert!(Terms::read(&lease(state)).is_none(), "{state}");
        }
        assert!(Terms::read(&json!({"state": "held"})).is_none());
    }

    fn granted(more: &Value) -> Option<Tenure> {
        let mut lease = json!({"acquisition_id": ID, "state": "held", "ttl_ms": 30_000, "remaining_ms": 30_000,
            "renew_after_ms": 10_000});
        lease.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Tenure::read(Duration::ZERO, &lease).map(|(tenure, _)| tenure)
    }

    fn exported(tenure: &Tenure, name: &str) -> Option<String> {
        tenure.exports("http://gate").into_iter().find(|(given, _)| *given == name).unwrap().1
    }

    #[test]
    fn one_resource_exports_its_token() {
        let tenure = granted(&json!({"resource": "jobs/a", "fencing_token": "0.7.x"})).unwrap();
        assert_eq!(exported(&tenure, "FENCING_TOKEN").as_deref(), Some("0.7.x"));
        assert_eq!(exported(&tenure, "FENCEGATE_RESOURCE").as_deref(), Some("jobs/a"));
        assert_eq!(exported(&tenure, "FENCEGATE_ACQUISITION").as_deref(), Some(ID));
        assert_eq!(exported(&tenure, "FENCEGATE_URL").as_deref(), Some("http://gate"));
        assert_eq!(exported(&tenure, "FENCING_TOKENS"), None);
        assert_eq!(tenure.names(), "jobs/a");
    }

    #[test]
    fn several_resources_export_a_token_for_each_name_and_none_alone() {
        let tokens = json!({"jobs/a": {"fencing_token": "0.7.x"}, "jobs/b": {"fencing_token": "0.9.y"}});
        let tenure = granted(&json!({"resources": ["jobs/a", "jobs/b"], "tokens": tokens})).unwrap();
        let given: Value = serde_json::from_str(&exported(&tenure, "FENCING_TOKENS").unwrap()).unwrap();
        assert_eq!(given, json!({"jobs/a": "0.7.x", "jobs/b": "0.9.y"}));
        assert_eq!(exported(&tenure, "FENCING_TOKEN"), None);
        assert_eq!(exported(&tenure, "FENCEGATE_RESOURCE"), None);
        assert_eq!(tenure.names(), "jobs/a, jobs/b");
    }

    #[test]
    fn an_answer_without_a_usable_token_makes_no_owner() {
        assert!(granted(&json!({"resource": "jobs/a"})).is_none());
        assert!(granted(&json!({"resource": "jobs/a", "fencing_token": "a\u{0}b"})).is_none());
        assert!(granted(&json!({"resource": "jobs/a", "fencing_token": ""})).is_none());
        assert!(granted(&json!({"tokens": {"jobs/a": {}}})).is_none());
    }
}
