//! What is done around every request.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use tracing::field::Empty;
use tracing::{Instrument, error, info_span};
use uuid::Uuid;

use super::problem::{Instance, Problem};
use super::routes::is_data_plane;
use super::wire::{
    FENCING_GUARANTEE, FENCING_SOURCE, FENCING_WARNING, RATELIMIT, RATELIMIT_POLICY, X_REQUEST_ID,
};
use super::{Door, Hall, extract};

const GATEWAY: HeaderValue = HeaderValue::from_static("gateway");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// What is served runs nothing in a browser and loads nothing.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

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
    request: Request,
    path: Option<&'static str>,
    serve: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let id = hall.request_ids.next(&hall.door);
    let trace_id = trace_id(request.headers());
    // It holds the path's template, never the path: an acquisition id may stand in it.
    let span = info_span!("request", method = %request.method(), request_id = %id, trace_id, path, principal = Empty);
    let mut response = rendered(request, id, serve).instrument(span).await;
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
    request_id: Uuid,
    serve: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let uri = request.uri().clone();
    let (safe, head) = (request.method().is_safe(), request.method() == Method::HEAD);
    let data_plane = is_data_plane(uri.path());
    let mut response = guarded(request, serve).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let known = [FENCING_GUARANTEE, FENCING_WARNING, RATELIMIT, RATELIMIT_POLICY];
        let kept = known.map(|name| (response.headers_mut().remove(&name), name));
        response = problem.render(&Instance { path: uri.path().to_owned(), request_id, safe, data_plane });
        for (value, name) in kept {
            if let Some(value) = value {
                response.headers_mut().insert(name, value);
            }
        }
    }
    let headers = response.headers_mut();
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
    if let Err(problem) = extract::bounded(headers).and_then(|()| extract::framed(headers)) {
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
        let count = u128::from(self.count.fetch_add(1, Ordering::Relaxed));
        let random = u128::from_be_bytes(*drawn).wrapping_add(count).to_be_bytes();
        let mut last = [0; 10];
        for (to, from) in last.iter_mut().rev().zip(random.into_iter().rev()) {
            *to = from;
        }
        let now = u64::try_from(door.clock.wall().ms()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(now, &last).into_uuid()
    }
}

/// The trace that the caller's request belongs to (W3C Trace Context, version 00); one that is not well formed is
/// none.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
    };
    let given = |text: &str| text.chars().any(|c| c != '0');
    let form =
        version == "00" && hex(trace, 32) && hex(parent, 16) && hex(flags, 2) && parts.next().is_none();
    (form && given(trace) && given(parent)).then_some(trace)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_over_only_when_it_is_well_formed() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_static(text));
            trace_id(&headers).map(str::to_owned)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").as_deref(), Some(trace));
        assert_eq!(read("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), None);
        assert_eq!(read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"), None);
        assert_eq!(read("secret"), None);
    }
}
