//! Bodies: bounded before they are read, while they are read and in time; whole before anything is decided.
//!
//! Memory is reserved before more is read, so that many large bodies at once become 503 and not a process that the
//! kernel ends.

mod pace;
mod spooled;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{BODY_STEP_BYTES, LINGER_BYTES, LINGER_PAUSE, LINGER_TIME, OFFLOAD_BYTES};

use super::json::unreadable;
use super::problem::{Code, Problem};

use pace::Pace;

pub(super) use spooled::Spooled;

/// The body of a request, until it is read.
#[derive(Debug)]
pub(super) struct Payload {
    body: Option<Body>,
    length: Option<u64>,
}

/// A body with the memory that is reserved for it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    pub(super) memory: OwnedSemaphorePermit,
}

/// How much may be read, and who allows it.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    /// Bytes of the body.
    pub(super) limit: u64,
    /// Whose limit it is, for the refusal.
    pub(super) whose: String,
    /// How many times its length a body costs in memory.
    pub(super) copies: u64,
}

impl Payload {
    /// The body behind these headers. Which length they declare has been checked by the server.
    pub(super) fn new(headers: &HeaderMap, body: Body) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length = declared.or_else(|| body.size_hint().exact());
        Self { body: Some(body), length }
    }

    /// Whether there is certainly nothing in it.
    pub(super) fn is_absent(&self) -> bool {
        self.length == Some(0) || self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    /// Reads the whole body, within `patience`.
    pub(super) async fn read(
        &mut self,
        allowance: &Allowance,
        memory: &Arc<Semaphore>,
        patience: Duration,
    ) -> Result<Held, Problem> {
        let declared = self.length.unwrap_or_default();
        if declared > allowance.limit {
            return Err(too_large(allowance));
        }
        let mut room = Room::first(memory, allowance.copies, declared)?;
        let Some(body) = &mut self.body else { return Ok(Held { bytes: Bytes::new(), memory: room.held }) };
        let read = collect(body, declared, allowance, &mut room, &Pace::begin(patience)).await;
        if is_too_slow(&read) {
            // Whoever sends this slowly is not read on.
            self.body = None;
        }
        let bytes = read?;
        self.body = None;
        Ok(Held { bytes, memory: room.held })
    }

    /// After an early answer: reads on for a while and throws away what comes, so that a client that is still sending
    /// gets to the answer before its connection is reset.
    pub(super) fn linger(self) {
        let Some(mut body) = self.body.filter(|body| !body.is_end_stream()) else { return };
        tokio::spawn(async move {
            let reading = async {
                let mut left = LINGER_BYTES;
                while let Some(Ok(frame)) = body.frame().await {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    match left.checked_sub(length) {
                        Some(rest) => left = rest,
                        None => return tokio::time::sleep(LINGER_PAUSE).await,
                    }
                }
            };
            // Time over is as good an end as any.
            drop(tokio::time::timeout(LINGER_TIME, reading).await);
        });
    }
}

/// An answer whose body holds its share of the memory for bodies until the client has taken it: clients that ask for
/// large documents and do not read them get 503 in the end, and do not take the memory of everybody else.
pub(super) fn kept_in_bounds(answer: Response, memory: &Arc<Semaphore>) -> Result<Response, Problem> {
    let (head, body) = answer.into_parts();
    let length = body.size_hint().exact().unwrap_or_default();
    if length == 0 {
        return Ok(Response::from_parts(head, body));
    }
    let permit = memory.clone().try_acquire_many_owned(kib(length, 1)).map_err(|_| no_room())?;
    Ok(Response::from_parts(head, Body::new(Kept { body, _memory: permit })))
}

/// A body with the memory that is reserved for it.
struct Kept {
    body: Body,
    _memory: OwnedSemaphorePermit,
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs work on a body at once, or on a thread of its own when the body is large.
pub(super) async fn worked<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    if length < OFFLOAD_BYTES {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::fault_without_change())
}

/// Memory for one body. It grows with what has arrived and not with what was announced: otherwise a few clients that
/// announce much and send nothing would keep everybody out.
struct Room<'a> {
    memory: &'a Arc<Semaphore>,
    copies: u64,
    held: OwnedSemaphorePermit,
}

impl<'a> Room<'a> {
    /// Room for the first step; none when what was announced would not fit now.
    fn first(memory: &'a Arc<Semaphore>, copies: u64, declared: u64) -> Result<Self, Problem> {
        let announced = usize::try_from(kib(declared, copies)).unwrap_or(usize::MAX);
        if announced > memory.available_permits() {
            return Err(no_room());
        }
        let first = kib(declared.clamp(1, BODY_STEP_BYTES), copies);
        let held = memory.clone().try_acquire_many_owned(first).map_err(|_| no_room())?;
        Ok(Self { memory, copies, held })
    }

    /// Room for so many bytes in all.
    fn grow_to(&mut self, bytes: u64) -> Result<(), Problem> {
        let held = u32::try_from(self.held.num_permits()).unwrap_or(u32::MAX);
        let missing = kib(bytes, self.copies).saturating_sub(held);
        if missing > 0 {
            let more = self.memory.clone().try_acquire_many_owned(missing).map_err(|_| no_room())?;
            self.held.merge(more);
        }
        Ok(())
    }
}

fn kib(bytes: u64, copies: u64) -> u32 {
    u32::try_from(bytes.saturating_mul(copies).div_ceil(1_024)).unwrap_or(u32::MAX)
}

fn no_room() -> Problem {
    Problem::new(
        Code::Overloaded,
        "too many large bodies are under way; send the request again after the time in Retry-After",
    )
}

/// A body of one piece is taken as it is; pieces are put together as they come.
async fn collect(
    body: &mut Body,
    declared: u64,
    allowance: &Allowance,
    room: &mut Room<'_>,
    pace: &Pace,
) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut arrived = 0_u64;
    while let Some(frame) = pace.next(body, arrived).await? {
        let Ok(data) = frame.into_data() else { continue };
        let so_far = first.len().saturating_add(whole.len()).saturating_add(data.len());
        arrived = u64::try_from(so_far).unwrap_or(u64::MAX);
        if arrived > allowance.limit {
            return Err(too_large(allowance));
        }
        room.grow_to(arrived)?;
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            // Beyond a step the buffer grows with what arrives, for the same reason as the room.
            let ahead = usize::try_from(declared.min(BODY_STEP_BYTES)).unwrap_or_default();
            whole.reserve(ahead.max(so_far));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

fn is_too_slow<T>(read: &Result<T, Problem>) -> bool {
    read.as_ref().is_err_and(|problem| problem.code() == Code::RequestTimeout)
}

fn too_large(allowance: &Allowance) -> Problem {
    let detail =
        format!("the body has more than {} bytes, the most that {} takes", allowance.limit, allowance.whose);
    Problem::new(Code::BodyTooLarge, detail)
}

/// The connection is most likely gone; whoever still reads gets to know why.
fn cut_off() -> Problem {
    unreadable("the body ended before its announced length, or is not well framed; send it whole")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allowance(limit: u64) -> Allowance {
        Allowance { limit, whose: "a test".to_owned(), copies: 1 }
    }

    /// A body of these pieces whose end never comes when `endless`.
    fn pieces(pieces: &[&'static str], endless: bool) -> Body {
        struct Pieces(Vec<&'static str>, bool);
        impl HttpBody for Pieces {
            type Data = Bytes;
            type Error = std::io::Error;
            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, std::io::Error>>> {
                match (self.0.pop(), self.1) {
                    (Some(piece), _) => {
                        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(Bytes::from(piece)))))
                    }
                    (None, true) => std::task::Poll::Pending,
                    (None, false) => std::task::Poll::Ready(None),
                }
            }
        }
        Body::new(Pieces(pieces.iter().rev().copied().collect(), endless))
    }

    async fn read(body: Body, limit: u64, patience: Duration) -> Result<Bytes, Code> {
        let memory = Arc::new(Semaphore::new(16));
        let mut payload = Payload::new(&HeaderMap::new(), body);
        let held = payload.read(&allowance(limit), &memory, patience).await;
        held.map(|held| held.bytes).map_err(|problem| problem.code())
    }

    #[tokio::test]
    async fn pieces_are_put_together_and_the_limit_is_the_last_byte_allowed() {
        let long = Duration::from_mins(1);
        assert_eq!(read(pieces(&["ab", "", "cd", "e"], false), 5, long).await, Ok(Bytes::from("abcde")));
        assert_eq!(read(pieces(&["ab", "cd", "ef"], true), 5, long).await, Err(Code::BodyTooLarge));
        assert_eq!(read(Body::empty(), 0, long).await, Ok(Bytes::new()));
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        assert_eq!(read(pieces(&["ab"], true), 5, Duration::ZERO).await, Err(Code::RequestTimeout));
    }

    #[tokio::test]
    async fn a_declared_length_above_the_limit_is_refused_before_a_byte_is_read() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("6"));
        let memory = Arc::new(Semaphore::new(0));
        let mut payload = Payload::new(&headers, pieces(&[], true));
        let answer = payload.read(&allowance(5), &memory, Duration::from_mins(1)).await;
        assert_eq!(answer.unwrap_err().code(), Code::BodyTooLarge);
    }

    #[tokio::test]
    async fn without_memory_nothing_is_read() {
        let long = Duration::from_mins(1);
        let memory = Arc::new(Semaphore::new(1));
        let read = async |headers: &HeaderMap, body: Body, copies: u64| {
            let allowance = Allowance { copies, ..allowance(100_000) };
            let held = Payload::new(headers, body).read(&allowance, &memory, long).await;
            held.map(|held| held.bytes.len()).map_err(|problem| problem.code())
        };
        let mut announced = HeaderMap::new();
        announced.insert(CONTENT_LENGTH, HeaderValue::from_static("1025"));
        assert_eq!(read(&announced, pieces(&[], true), 1).await, Err(Code::Overloaded));
        // Without an announcement it shows when it comes; what was reserved is given back.
        let long: &'static str = "0123456789".repeat(103).leak();
        assert_eq!(read(&HeaderMap::new(), pieces(&[long], true), 1).await, Err(Code::Overloaded));
        assert_eq!(read(&HeaderMap::new(), pieces(&["ab"], false), 1).await, Ok(2));
        assert_eq!(read(&HeaderMap::new(), pieces(&["ab"], false), 1_024).await, Err(Code::Overloaded));
        assert_eq!(memory.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_slow_client_holds_only_what_it_has_sent() {
        let memory = Arc::new(Semaphore::new(1_024));
        let mut announced = HeaderMap::new();
        announced.insert(CONTENT_LENGTH, HeaderValue::from_static("1000000"));
        let mut payload = Payload::new(&announced, pieces(&["ab", "cd"], true));
        let allowance = allowance(1_000_000);
        let mut reading = std::pin::pin!(payload.read(&allowance, &memory, Duration::from_mins(1)));
        assert!(futures_util::poll!(&mut reading).is_pending());
        assert_eq!(memory.available_permits(), 1_024 - 64);
    }
}
