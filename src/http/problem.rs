//! Problems: what a refused request is told (RFC 9457), and the only place that turns reasons into status codes.
//!
//! A problem travels through the layers as an extension of its response and is rendered by the outermost one that knows
//! the request, so that every refusal, the framework's own and a panic included, reads the same. It never holds a seal,
//! a payload or another's acquisition id.

mod blockers;
mod code;
mod detail;
mod instance;
mod refusal;
mod status;

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use uuid::Uuid;

use crate::domain::operation::Effect;
use crate::domain::position::Position;
use crate::domain::trace::TraceId;
use crate::ledger::Unserved;
use crate::limits::{self, DETAIL_BYTES};
use crate::protocol::rows::Mark;

use super::wire::{self, MarkView, Shown};

use blockers::BlockerJson;
pub use code::Code;
pub(super) use instance::{Instance, elsewhere};
pub(super) use refusal::{
    About, code_of, effect_of, effect_of_done, refused, refused_call, refused_member, refused_write,
};
pub(super) use status::{status_of, status_relayed, status_saved};

/// Media type of a problem.
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why a request was refused, and what its sender is to do.
#[derive(Debug, Clone)]
pub struct Problem {
    code: Code,
    detail: String,
    more: Box<More>,
}

/// What only some problems know.
#[derive(Debug, Clone, Default)]
struct More {
    retry_after: Option<Duration>,
    resource: Option<String>,
    presented: Option<Mark>,
    current: Option<Mark>,
    floor: Option<Position>,
    operation: Option<String>,
    located: bool,
    allow: Option<String>,
    members: Vec<RefusedMember>,
    blockers: Vec<BlockerJson>,
    queue_position: Option<usize>,
    cancel_requested: bool,
}

/// One member of a write that was not made.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RefusedMember {
    pub(super) operation_id: String,
    pub(super) resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'static str>,
    pub(super) effect: &'static str,
}

#[derive(Serialize)]
struct ProblemJson<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    instance: Cow<'a, str>,
    code: &'static str,
    effect: &'static str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presented: Option<MarkView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<MarkView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    request_id: Shown<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<Shown<TraceId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<&'a [RefusedMember]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blockers: Option<&'a [BlockerJson]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancel_requested: bool,
}

impl Problem {
    /// A problem with the reason of this case and what to do next. What was sent may stand in it, and is cut where it is
    /// long: nobody gets megabytes of their own back.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let more = More { retry_after: usual_wait(code), ..More::default() };
        let mut detail = detail.into();
        if detail.len() > DETAIL_BYTES {
            let end = detail.floor_char_boundary(DETAIL_BYTES);
            detail.truncate(end);
            detail.push('…');
        }
        Self { code, detail, more: Box::new(more) }
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The reason, as the caller reads it.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Says which part of the request the reason is about.
    #[must_use]
    pub(super) fn within(mut self, prefix: &str) -> Self {
        self.detail.insert_str(0, prefix);
        self
    }

    /// Names the resource, unless it is named already.
    #[must_use]
    pub(super) fn about(mut self, resource: &(impl std::fmt::Display + ?Sized)) -> Self {
        self.more.resource.get_or_insert_with(|| resource.to_string());
        self
    }

    /// The resource that it is about.
    pub(super) fn resource(&self) -> Option<&str> {
        self.more.resource.as_deref()
    }

    /// Without anything that tells where the resource stands; the reason, which may tell it too, is then the title's.
    #[must_use]
    pub(super) fn without_standing(mut self) -> Self {
        if self.more.current.is_some() || self.more.floor.is_some() {
            self.more.current = None;
            self.more.floor = None;
            self.detail = format!("{}; where it stands is told to whoever may read it", self.code.title());
        }
        self
    }

    #[must_use]
    pub(super) fn presented(mut self, mark: Mark) -> Self {
        self.more.presented = Some(mark);
        self
    }

    #[must_use]
    pub(super) fn current(mut self, mark: Mark) -> Self {
        self.more.current = Some(mark);
        self
    }

    #[must_use]
    pub(super) fn floor(mut self, floor: Position) -> Self {
        self.more.floor = Some(floor);
        self
    }

    /// Links the operation.
    #[must_use]
    pub(super) fn operation(mut self, link: String) -> Self {
        self.more.operation = Some(link);
        self
    }

    /// Links the operation as the place where the outcome can be asked for.
    #[must_use]
    pub(super) fn located(mut self, link: String) -> Self {
        self.more.located = true;
        self.operation(link)
    }

    #[must_use]
    pub(super) fn retry_after(mut self, wait: Duration) -> Self {
        self.more.retry_after = Some(wait);
        self
    }

    #[must_use]
    pub(super) fn members(mut self, members: Vec<RefusedMember>) -> Self {
        self.more.members = members;
        self
    }

    /// Another method than those of the path.
    pub(super) fn method_not_allowed(detail: String, allow: String) -> Self {
        let mut problem = Self::new(Code::MethodNotAllowed, detail);
        problem.more.allow = Some(allow);
        problem
    }

    /// A fault of the gateway that may have come after a commit.
    pub(super) fn fault() -> Self {
        Self::new(
            Code::Internal,
            "the gateway failed while it carried the request out; the log has more under this request_id",
        )
    }

    /// A fault of the gateway that certainly changed nothing.
    pub(super) fn fault_without_change() -> Self {
        Self::new(
            Code::InternalUnchanged,
            "the gateway failed; nothing was changed; the log has more under this request_id",
        )
    }

    /// The whole answer.
    pub(super) fn render(mut self, instance: &Instance) -> Response {
        if self.code == Code::Internal && instance.safe {
            self.code = Code::InternalUnchanged;
        }
        if self.code == Code::Overloaded {
            self.more.retry_after = self.more.retry_after.map(|wait| spread(wait, instance.request_id));
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        self.fill(&mut headers, instance);
        let status = self.code.status();
        let body = wire::bytes(&self.json(instance));
        (status, headers, Body::from(body)).into_response()
    }

    fn fill(&self, headers: &mut HeaderMap, instance: &Instance) {
        let mut set = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        if instance.data_plane {
            set(wire::FENCING_EFFECT, self.code.effect().word());
        }
        if let Some(wait) = self.more.retry_after {
            set(RETRY_AFTER, &whole_seconds(wait).to_string());
        }
        if let (true, Some(floor)) = (instance.data_plane, self.more.floor) {
            set(wire::FENCING_FLOOR, &floor.to_string());
        }
        if self.code == Code::Unauthenticated {
            set(WWW_AUTHENTICATE, "Bearer realm=\"fencegate\"");
        }
        if let Some(allow) = &self.more.allow {
            set(ALLOW, allow);
        }
        if let (true, Some(link)) = (self.more.located, &self.more.operation) {
            set(LOCATION, link);
        }
    }

    fn json<'a>(&'a self, instance: &'a Instance) -> ProblemJson<'a> {
        let more = &self.more;
        ProblemJson {
            r#type: format!("/docs/errors/{}", self.code.word()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: &self.detail,
            instance: instance.shown(),
            code: self.code.word(),
            effect: self.code.effect().word(),
            retryable: self.code.retryable(),
            retry_after_ms: more.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            resource: more.resource.as_deref(),
            presented: more.presented.map(MarkView::of),
            current: more.current.map(MarkView::of),
            operation: more.operation.as_deref(),
            request_id: Shown(instance.request_id),
            trace_id: instance.trace_id.map(Shown),
            members: (!more.members.is_empty()).then_some(more.members.as_slice()),
            blockers: (!more.blockers.is_empty()).then_some(more.blockers.as_slice()),
            queue_position: more.queue_position,
            cancel_requested: more.cancel_requested,
        }
    }
}

/// Without the request nothing can be rendered: the layer that knows it finds the problem in the extensions.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What a caller is told to wait unless the case knows better.
fn usual_wait(code: Code) -> Option<Duration> {
    if matches!(code, Code::IssuerBehind | Code::DefinitionDiffers | Code::Quarantined | Code::QuotaExceeded)
    {
        return Some(limits::RETRY_AFTER_A_PERSON);
    }
    // After a time-out there is nothing to wait for: the client was slow, not the gateway.
    (code.retryable() && code != Code::RequestTimeout).then_some(limits::RETRY_AFTER)
}

/// Who was refused in one moment is told to come back in different ones: request ids are counted up, and the multiplication
/// spreads numbers that follow each other evenly (Knuth, volume 3, section 6.4).
fn spread(wait: Duration, request: Uuid) -> Duration {
    let (_, low) = request.as_u64_pair();
    let chance = low.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let span = limits::RETRY_SPREAD_SECONDS.saturating_mul(1_000);
    wait.saturating_add(Duration::from_millis(chance.checked_rem(span).unwrap_or_default()))
}

/// `Retry-After` counts whole seconds; less than one would mean "at once".
fn whole_seconds(wait: Duration) -> u64 {
    let whole = wait.as_secs();
    if wait.subsec_nanos() > 0 { whole.saturating_add(1) } else { whole.max(1) }
}

/// A command that got no outcome. `location` is where the outcome can be asked for, if it is one of an operation.
pub(super) fn unserved(unserved: &Unserved, location: Option<String>) -> Problem {
    match unserved {
        Unserved::Overloaded => Problem::new(
            Code::Overloaded,
            "the queue is full; send the request again after the time in Retry-After",
        ),
        Unserved::OverQuota { namespace, what, bound } => {
            let detail = format!(
                "namespace {namespace:?} may have {bound} {}, and this would be more; remove what is not needed any more, or \
                 have the quota raised",
                what.word()
            );
            Problem::new(Code::QuotaExceeded, detail)
        }
        Unserved::Draining => draining(),
        Unserved::Unavailable(Effect::None | Effect::Applied) | Unserved::Unready(_) => Problem::new(
            Code::DatabaseUnavailable,
            "the database cannot be used at the moment; nothing was changed; send the request again in 1 s",
        ),
        Unserved::Unavailable(Effect::Unknown) => {
            let problem = Problem::new(
                Code::CommitUnknown,
                "it is not known whether the commit succeeded; send the same request with the same operation id again",
            );
            match location {
                Some(link) => problem.located(link),
                None => problem,
            }
        }
        Unserved::Inconsistent => Problem::fault_without_change(),
    }
}

/// The process takes nothing new in.
pub(super) fn draining() -> Problem {
    Problem::new(Code::Draining, "the gateway is shutting down; send the request again in 1 s")
}

#[cfg(test)]
mod tests;
