//! The layers, in the order of `router`, innermost first: a panic becomes a problem, headers are bounded, problems are
//! rendered, headers that protect are added, and every request gets its id and its span.

use std::any::Any;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, error, field, info_span};
use uuid::Uuid;

use super::problem::{Instance, Problem};
use super::routes::is_data_plane;
use super::wire::{FENCING_GUARANTEE, FENCING_SOURCE, FENCING_WARNING, X_REQUEST_ID};
use super::{Hall, extract};

const GATEWAY: HeaderValue = HeaderValue::from_static("gateway");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// What is served runs nothing in a browser and loads nothing.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// The gateway's own name for a request.
#[derive(Debug, Clone, Copy)]
struct RequestId(Uuid);

/// A panic is a fault of ours: loud in the log, and nothing of it in the answer.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let reason = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    error!(reason = reason.unwrap_or("no text"), "a request panicked");
    Problem::fault().into_response()
}

/// Refuses heads beyond the bounds, and bodies without one clear end, before anything looks at them.
pub(super) async fn bound_headers(request: Request, next: Next) -> Response {
    let headers = request.headers();
    match extract::bounded(headers).and_then(|()| extract::framed(headers)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Turns problems into answers, and says on every answer of the data plane who composed it.
pub(super) async fn render(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let request_id = request.extensions().get().map_or(Uuid::nil(), |RequestId(id)| *id);
    let (safe, head) = (request.method().is_safe(), request.method() == Method::HEAD);
    let data_plane = is_data_plane(&path);
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let known = [FENCING_GUARANTEE, FENCING_WARNING];
        let kept = known.map(|name| (response.headers_mut().remove(&name), name));
        response = problem.render(&Instance { path, request_id, safe, data_plane });
        for (value, name) in kept {
            if let Some(value) = value {
                response.headers_mut().insert(name, value);
            }
        }
    }
    if data_plane {
        // The effect stands there already: whoever made the answer knows it, and here it could only be guessed.
        response.headers_mut().entry(FENCING_SOURCE).or_insert(GATEWAY);
    }
    if head { without_body(response) } else { response }
}

/// Headers that keep answers out of caches and their content from being run.
pub(super) async fn protect(request: Request, next: Next) -> Response {
    let control_plane = request.uri().path().starts_with("/v1");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    if control_plane {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
    response
}

/// Gives the request an id of our own and a span. The span holds the path's template, never the path: an acquisition id
/// may stand in it.
pub(super) async fn identify(State(hall): State<Arc<Hall>>, mut request: Request, next: Next) -> Response {
    let id = request_id(&hall);
    request.extensions_mut().insert(RequestId(id));
    let trace_id = trace_id(request.headers());
    let span =
        info_span!("request", method = %request.method(), path = field::Empty, request_id = %id, trace_id);
    let mut response = next.run(request).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}

/// A UUID of version 7. It only names a request in the log: without randomness it is still dated.
fn request_id(hall: &Hall) -> Uuid {
    let drawn = hall.door.entropy.draw().unwrap_or_default();
    let mut random = [0; 10];
    for (to, from) in random.iter_mut().zip(drawn) {
        *to = from;
    }
    let now = u64::try_from(hall.door.clock.wall().ms()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(now, &random).into_uuid()
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
