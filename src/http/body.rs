//! Bodies: bounded before they are read, while they are read and in time; whole before anything is decided.
//!
//! Memory is reserved before the first byte is read, so that many large bodies at once become 503 and not a process
//! that the kernel ends.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LINGER_BYTES, LINGER_TIME, OFFLOAD_BYTES};

use super::json::unreadable;
use super::problem::{Code, Problem};

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
        let expected = self.length.unwrap_or(allowance.limit);
        if expected > allowance.limit {
            return Err(too_large(allowance));
        }
        let memory = reserve(memory, expected.saturating_mul(allowance.copies))?;
        let Some(body) = &mut self.body else { return Ok(Held { bytes: Bytes::new(), memory }) };
        let reading = collect(body, self.length, allowance);
        let Ok(read) = tokio::time::timeout(patience, reading).await else {
            // Whoever sends this slowly is not read on.
            self.body = None;
            let seconds = patience.as_secs();
            let detail = format!("the body did not arrive within {seconds} s; send the request again");
            return Err(Problem::new(Code::RequestTimeout, detail));
        };
        let bytes = read?;
        self.body = None;
        Ok(Held { bytes, memory })
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
                        None => break,
                    }
                }
            };
            // Time over is as good an end as any.
            drop(tokio::time::timeout(LINGER_TIME, reading).await);
        });
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

fn reserve(memory: &Arc<Semaphore>, bytes: u64) -> Result<OwnedSemaphorePermit, Problem> {
    let kib = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX);
    memory.clone().try_acquire_many_owned(kib).map_err(|_| {
        Problem::new(Code::Overloaded, "too many large bodies are under way; send the request again in 1 s")
    })
}

/// A body of one piece is taken as it is; pieces are put together once, into a buffer of the declared length.
async fn collect(body: &mut Body, length: Option<u64>, allowance: &Allowance) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| cut_off())?.into_data() else { continue };
        let so_far = first.len().saturating_add(whole.len()).saturating_add(data.len());
        if u64::try_from(so_far).unwrap_or(u64::MAX) > allowance.limit {
            return Err(too_large(allowance));
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            let declared = length.and_then(|length| usize::try_from(length).ok());
            whole.reserve(declared.unwrap_or(so_far));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
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
        let memory = Arc::new(Semaphore::new(1));
        let mut payload = Payload::new(&HeaderMap::new(), pieces(&[], true));
        let answer = payload.read(&allowance(1_025), &memory, Duration::from_mins(1)).await;
        assert_eq!(answer.unwrap_err().code(), Code::Overloaded);
    }
}
