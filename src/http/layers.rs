//! What is done around every request.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use sha2::{Digest as _, Sha256};
use tracing::field::Empty;
use tracing::{Instrument, error, info_span};
use uuid::Uuid;

use crate::domain::trace::{Trace, TraceId};
use crate::telemetry::spans::{Side, Span};

use super::problem::{Instance, Problem};
use super::routes::is_data_plane;
use super::wire::{
    FENCING_GUARANTEE, FENCING_SOURCE, FENCING_WARNING, RATELIMIT, RATELIMIT_POLICY, X_REQUEST_ID,
};
use super::{Door, Hall, extract};

/// W3C Trace Context.
pub(super) const TRACEPARENT: &str = "traceparent";
/// What vendors wrote about it.
pub(super) const TRACESTATE: &str = "tracestate";

const GATEWAY: HeaderValue = HeaderValue::from_static("gateway");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// What is served runs nothing in a browser and loads nothing.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// The template of the path that the router chose.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path(pub(super) &'static str);

/// A panic is a fault of ours: loud in the log, and nothing of it in the answer.
#[expect(clippy::needless_pass_by_value, reason = "whoever caught the panic hands it over")]
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let reason = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    error!(reason = reason.unwrap_or("no text"), "a request panicked");
    Problem::fault().into_response()
}

/// All that is done around every request. From the inside out: a panic becomes a problem, headers are bounded, problems
/// are rendered, headers that protect are added, and the request gets its id and its span.
pub(super) async fn around(
    hall: &Hall,
    mut request: Request,
    path: Option<&'static str>,
    serve: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let id = hall.request_ids.next(&hall.door);
    let trace = traced(hall, id, request.headers());
    let shown = trace.map(|(trace, _)| trace.id());
    let trace_id = shown.map(tracing::field::display);
    if let Some((trace, _)) = trace {
        request.extensions_mut().insert(trace);
    }
    // It holds the path's template, never the path: an acquisition id may stand in it.
    let span = info_span!("request", method = %request.method(), request_id = %id, trace_id, path, principal = Empty);
    let (clock, meters) = (&hall.door.clock, &hall.door.ledger.metrics().http);
    let _answering = meters.in_flight.hold();
    let (began, method) = (clock.monotonic(), request.method().clone());
    let is_draining = hall.door.stopping.draining.is_cancelled();
    let mut response = rendered(request, (id, shown), is_draining, serve).instrument(span).await;
    let path = path.or_else(|| response.extensions_mut().remove::<Path>().map(|path| path.0));
    let took = clock.monotonic().saturating_sub(began);
    meters.answered(path, method.as_str(), response.status().as_u16(), took);
    if let (Some((trace, parent)), Some(spans)) = (trace, hall.door.ledger.metrics().spans()) {
        let status = response.status();
        spans.tell(&trace, || told(trace, parent, path, &method, status, took));
    }
    let mut text = Uuid::encode_buffer();
    if let Ok(value) = HeaderValue::from_str(id.hyphenated().encode_lower(&mut text)) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}

/// Turns problems into answers, says on every answer of the data plane who composed it, and adds headers that keep
/// answers out of caches and their content from being run.
async fn rendered(
    request: Request,
    (request_id, trace_id): (Uuid, Option<TraceId>),
    is_draining: bool,
    serve: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let uri = request.uri().clone();
    let (safe, head) = (request.method().is_safe(), request.method() == Method::HEAD);
    let data_plane = is_data_plane(uri.path());
    let mut response = guarded(request, serve).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let known = [FENCING_GUARANTEE, FENCING_WARNING, RATELIMIT, RATELIMIT_POLICY];
        let kept = known.map(|name| (response.headers_mut().remove(&name), name));
        let (path, found) =
            (uri.path().to_owned(), data_plane || response.extensions().get::<Path>().is_some());
        response = problem.render(&Instance { path, found, request_id, trace_id, safe, data_plane });
        for (value, name) in kept {
            if let Some(value) = value {
                response.headers_mut().insert(name, value);
            }
        }
    }
    let headers = response.headers_mut();
    // The next request goes to another process.
    if is_draining {
        headers.insert(CONNECTION, CLOSE);
    }
    if data_plane {
        // The effect stands there already: whoever made the answer knows it, and here it could only be guessed.
        headers.entry(FENCING_SOURCE).or_insert(GATEWAY);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    if uri.path().starts_with("/v1") {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
    if head { without_body(response) } else { response }
}

/// Refuses heads beyond the bounds, and bodies without one clear end, before anything looks at them.
async fn guarded(request: Request, serve: impl AsyncFnOnce(Request) -> Response) -> Response {
    let headers = request.headers();
    if let Err(problem) =
        extract::bounded(headers).and_then(|()| extract::framed(headers, request.extensions()))
    {
        return problem.into_response();
    }
    // What a panic leaves behind is not used again: the request goes with it.
    AssertUnwindSafe(serve(request)).catch_unwind().await.unwrap_or_else(panicked)
}

/// Names requests in the log and in answers: UUIDs of version 7. What is random in them is drawn once and counted up, since
/// they need only differ; without randomness they are still dated.
#[derive(Debug, Default)]
pub(super) struct RequestIds {
    drawn: OnceLock<[u8; 16]>,
    count: AtomicU64,
}

impl RequestIds {
    fn next(&self, door: &Door) -> Uuid {
        let drawn = self.drawn.get_or_init(|| door.entropy.draw().unwrap_or_default());
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // No id tells how many there were before it.
        let digest = Sha256::new().chain_update(drawn).chain_update(count.to_be_bytes()).finalize();
        let mut last = [0; 10];
        for (to, from) in last.iter_mut().zip(digest) {
            *to = from;
        }
        let now = u64::try_from(door.clock.wall().ms()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(now, &last).into_uuid()
    }
}

/// The trace that a request belongs to under the span that serves it, and the span above that: the caller's trace where it
/// names one, and one of the gateway's own where spans are collected.
fn traced(hall: &Hall, request_id: Uuid, headers: &HeaderMap) -> Option<(Trace, Option<[u8; 8]>)> {
    let number = request_id.as_u64_pair().1;
    if let Some(given) = given_trace(headers) {
        return Some((given.below(number), Some(given.span())));
    }
    let spans = hall.door.ledger.metrics().spans()?;
    // It is as rare as the request id, and reads the same.
    let begun = Trace::begun(request_id.as_u128(), false);
    Some((begun.with_sampling(spans.samples(&begun)), None))
}

/// The span of a request.
fn told(
    trace: Trace,
    parent: Option<[u8; 8]>,
    path: Option<&'static str>,
    method: &Method,
    status: StatusCode,
    took: Duration,
) -> Span {
    // A method that is none of ours is the caller's own text.
    let method = if method_is_known(method) { method.as_str() } else { "other" };
    let route = path.unwrap_or("unmatched");
    let known = vec![
        ("http.request.method", method.to_owned()),
        ("http.route", route.to_owned()),
        ("http.response.status_code", status.as_str().to_owned()),
    ];
    let (name, failed) = (format!("{method} {route}"), status.is_server_error());
    Span { trace, parent, side: Side::Serves, name, took, known, failed }
}

fn method_is_known(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::PATCH, Method::DELETE].contains(method)
}

/// The trace that the caller names (W3C Trace Context); one that is not well formed is none.
fn given_trace(headers: &HeaderMap) -> Option<Trace> {
    Trace::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
}

/// The head of an answer. Its length is that of the body it does not have.
fn without_body(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let length = axum::body::HttpBody::size_hint(&body).exact();
    if let (Some(length), false) = (length, head.headers.contains_key(CONTENT_LENGTH)) {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Body::empty())
}
