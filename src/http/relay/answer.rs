//! What the caller of a forwarded write gets: the upstream's answer as it came, and the gateway's word on it in headers.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tracing::info;

use crate::domain::operation::Effect;
use crate::domain::upstream::{Field, Relayed};
use crate::ledger::Ledger;
use crate::ledger::refusals::Refused;
use crate::protocol::command::Member;
use crate::protocol::outcome::{Standing, Written};
use crate::protocol::rows::RelayedHead;
use crate::telemetry::metrics::Metrics;

use super::super::count;
use super::super::fenced::set;
use super::super::problem::{self, Problem};
use super::super::wire::{
    self, FENCING_COMMIT, FENCING_EFFECT, FENCING_FLOOR, FENCING_POSITION, FENCING_SOURCE,
    FENCING_UPSTREAM_ETAG, IDEMPOTENT_REPLAYED,
};
use super::carry::Carried;

/// Who composed status and body.
const UPSTREAM: HeaderValue = HeaderValue::from_static("upstream");

/// On a replay whose saved answer has no body because it was too large: the digest of what it was (RFC 9530).
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

impl Carried {
    /// The answer, or the problem.
    pub(super) fn answered(self) -> Result<Response, Problem> {
        match self {
            Self::Decided(written, body) => Ok(decided(&written, body)),
            Self::Unbound(relayed, standing) => Ok(unbound(relayed, standing)),
            Self::Refused(problem) => Err(*problem),
        }
    }

    /// The one log line of the decision, and the counts.
    pub(super) fn note(&self, metrics: &Metrics, member: &Member, latency: Duration) {
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let (outcome, effect) = match self {
            Self::Decided(written, _) => {
                let effect = problem::effect_of_done(written.response.done);
                let outcome = match (written.replayed, effect) {
                    (true, _) => "replayed",
                    (false, Effect::Applied) => "applied",
                    (false, Effect::None | Effect::Unknown) => "refused by the upstream",
                };
                (outcome, effect)
            }
            Self::Unbound(..) => ("refused by the upstream", Effect::None),
            Self::Refused(problem) => (problem.code().word(), problem.code().effect()),
        };
        let told = match self {
            Self::Decided(written, _) => Ok((written.replayed, outcome)),
            Self::Unbound(..) => Ok((false, outcome)),
            Self::Refused(problem) => Err(problem.code()),
        };
        count::carried(metrics, member, told, latency);
        info!(
            resource = member.address.resource.as_str(),
            token = %member.claim.position,
            operation = member.operation_id.as_str(),
            acquisition = count::acquisition_of(member).map(|tag| tag.short()),
            outcome,
            effect = effect.word(),
            latency_us,
            "decided"
        );
    }

    /// Remembers what the gateway refused, for the timeline of the resource. What the store refused is told by the record of
    /// the operation.
    pub(super) fn remember(&self, ledger: &Ledger, member: &Member, at: Duration) {
        let Self::Refused(problem) = self else { return };
        if !problem.code().is_verdict() {
            return;
        }
        ledger.refused(Refused {
            resource: member.address.resource.clone(),
            code: problem.code().word(),
            presented: Some(member.claim.position),
            operation_id: Some(member.operation_id.clone()),
            at,
        });
    }
}

/// A decided operation. What it takes from the record is the same on a replay.
fn decided(written: &Written, whole: Option<Bytes>) -> Response {
    let saved = &written.response;
    let mut headers = HeaderMap::new();
    let link =
        wire::operation_link(&written.operation_id, &written.address.resource, Some(written.incarnation));
    set(&mut headers, LOCATION, &link);
    let mut body = saved.body.clone();
    match &saved.relayed {
        None => {
            headers.insert(CONTENT_TYPE, wire::JSON);
        }
        Some(head) => {
            relay(&mut headers, &head.headers, head.etag.as_deref());
            if head.omitted.is_some() {
                match whole {
                    Some(whole) => body = whole,
                    None => omitted(&mut headers, head),
                }
            }
        }
    }
    set(&mut headers, FENCING_EFFECT, problem::effect_of_done(saved.done).word());
    set(&mut headers, FENCING_POSITION, &written.position.to_string());
    set(&mut headers, FENCING_FLOOR, &written.floor.to_string());
    if let Some(commit) = saved.commit {
        set(&mut headers, FENCING_COMMIT, &commit.to_string());
    }
    if let Some(tag) = saved.etag {
        set(&mut headers, ETAG, &tag.to_string());
    }
    if written.replayed {
        set(&mut headers, IDEMPOTENT_REPLAYED, "true");
    }
    (problem::status_saved(saved), headers, Body::from(body)).into_response()
}

/// A refusal that says nothing about the operation.
fn unbound(relayed: Relayed, standing: Standing) -> Response {
    let mut headers = HeaderMap::new();
    relay(&mut headers, &relayed.headers, relayed.etag.as_deref());
    set(&mut headers, FENCING_EFFECT, Effect::None.word());
    set(&mut headers, FENCING_FLOOR, &standing.floor.to_string());
    (problem::status_relayed(relayed.status), headers, Body::from(relayed.body)).into_response()
}

/// The upstream's headers, and the mark that they are its.
fn relay(headers: &mut HeaderMap, fields: &[Field], etag: Option<&str>) {
    let mut seen: Vec<HeaderName> = Vec::new();
    for (name, value) in fields {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value))
        else {
            continue;
        };
        if seen.contains(&name) {
            headers.append(name, value);
        } else {
            headers.insert(name.clone(), value);
            seen.push(name);
        }
    }
    relayed(headers, etag);
}

/// The mark alone.
pub(super) fn relayed(headers: &mut HeaderMap, etag: Option<&str>) {
    if let Some(etag) = etag {
        set(headers, FENCING_UPSTREAM_ETAG, etag);
    }
    headers.insert(FENCING_SOURCE, UPSTREAM);
}

/// The body was too large to be kept: its digest says what it was.
fn omitted(headers: &mut HeaderMap, head: &RelayedHead) {
    if let Some((_, digest)) = &head.omitted {
        let digest = STANDARD.encode(digest.as_bytes());
        set(headers, REPR_DIGEST, &format!("sha-256=:{digest}:"));
    }
}
