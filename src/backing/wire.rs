//! One request and its whole answer: put together, sent, collected within bounds.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap};
use hyper::http::uri::PathAndQuery;
use hyper::{Method as Verb, Request, Response, Uri};
use tokio::time::timeout;

use super::headers;
use super::incoming::ReadBody;
use super::order::{Answer, Deadline, Sent};
use super::outgoing::Outgoing;
use super::pool::Fault;
use super::{Upstream, read::length_of};
use crate::domain::position::Position;
use crate::domain::upstream::Relayed;

/// A request before the connection is known that it goes over.
pub(super) struct Draft {
    verb: Verb,
    path: String,
    pub(super) headers: HeaderMap,
    body: Outgoing,
    deadline: Deadline,
}

impl Draft {
    /// A request for a path, without headers.
    pub(super) fn new(verb: Verb, path: String, body: Outgoing) -> Self {
        Self { verb, path, headers: HeaderMap::new(), body, deadline: Deadline::default() }
    }

    /// Not begun after that.
    pub(super) fn before(self, deadline: &Deadline) -> Self {
        Self { deadline: deadline.clone(), ..self }
    }

    /// Sets a header of the gateway's own.
    pub(super) fn with(mut self, name: &str, value: &str) -> Result<Self, String> {
        headers::set(&mut self.headers, name, value)?;
        Ok(self)
    }

    /// Sets the content type, where there is one.
    pub(super) fn of_type(self, kind: Option<&str>) -> Result<Self, String> {
        match kind {
            None => Ok(self),
            Some(kind) => self.with(CONTENT_TYPE.as_str(), kind),
        }
    }
}

/// An answer that was read to its end.
pub(super) struct Whole {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Whole {
    /// 200 to 299.
    pub(super) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// Its validator as it came.
    pub(super) fn etag(&self) -> Option<&str> {
        headers::one(&self.headers, ETAG.as_str())
    }
}

impl Upstream {
    /// Sends a request and waits for the head of its answer.
    pub(super) async fn exchange(&self, draft: Draft) -> Result<Response<ReadBody>, Fault> {
        let path = PathAndQuery::from_maybe_shared(Bytes::from(draft.path));
        let path = path.map_err(|_| Fault::Unsent("the path is none".to_owned()))?;
        let mut request = Request::new(draft.body);
        *request.method_mut() = draft.verb;
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = draft.headers;
        if request.body().left() == 0 && !matches!(*request.method(), Verb::GET | Verb::HEAD | Verb::DELETE) {
            request.headers_mut().insert(CONTENT_LENGTH, 0_u64.into());
        }
        headers::identify(request.headers_mut(), &self.store).map_err(Fault::Unsent)?;
        self.pool.exchange(request, &draft.deadline).await.inspect_err(|fault| self.note_silence(fault.why()))
    }

    /// Sends a request and reads its answer, at most `most` bytes of body, all within the store's time-out.
    pub(super) async fn whole(&self, draft: Draft, most: u64) -> Result<Whole, Fault> {
        let (head, body) = self.exchange(draft).await?.into_parts();
        let length = length_of(&head.headers);
        let body = collected(body, most, length, self.store.timeout.duration()).await;
        let body = body.inspect_err(|fault| self.note_silence(fault.why()))?;
        Ok(Whole { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// The outcome of a request that may have an effect.
    pub(super) async fn outcome(&self, draft: Result<Draft, String>) -> Sent {
        let draft = match draft {
            Ok(draft) => draft,
            Err(why) => return Sent::NotSent(why),
        };
        match self.whole(draft, self.store.max_response_bytes).await {
            Ok(whole) => Sent::Answered(self.answer(whole)),
            Err(Fault::Unsent(why)) => Sent::NotSent(why),
            Err(Fault::TimedOut(why) | Fault::Broken(why)) => Sent::Doubt(why),
        }
    }

    /// What of an answer may be given back, and what it says to the gateway.
    fn answer(&self, whole: Whole) -> Answer {
        let holds = headers::one(&whole.headers, "fencing-position");
        let holds = holds.and_then(|text| Position::parse(text).ok());
        Answer { holds, stamp: None, relayed: self.relayed(whole) }
    }

    /// What of an answer may be given back.
    pub(super) fn relayed(&self, whole: Whole) -> Relayed {
        Relayed {
            status: whole.status,
            headers: headers::returned(&whole.headers, &self.store),
            etag: whole.etag().map(str::to_owned),
            body: whole.body,
        }
    }
}

/// A body as a whole. One piece is passed on as it is, without a copy.
pub(super) async fn collected(
    body: ReadBody,
    most: u64,
    announced: Option<u64>,
    patience: Duration,
) -> Result<Bytes, Fault> {
    let large = || Fault::Broken(format!("the answer is larger than {most} bytes"));
    if announced.is_some_and(|length| length > most) {
        return Err(large());
    }
    match timeout(patience, gathered(body, most)).await {
        Err(_) => Err(Fault::TimedOut(format!("no whole answer in {} ms", patience.as_millis()))),
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(large()),
        Ok(Err(error)) => Err(Fault::Broken(format!("the answer was cut off: {error}"))),
    }
}

/// None where there is more than `most`.
async fn gathered(body: ReadBody, most: u64) -> Result<Option<Bytes>, std::io::Error> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut body = body;
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = Pin::new(&mut body).frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if first.len().saturating_add(rest.len()).saturating_add(piece.len()) > most {
            return Ok(None);
        }
        if first.is_empty() {
            first = piece;
        } else {
            rest.extend_from_slice(&piece);
        }
    }
    if rest.is_empty() {
        return Ok(Some(first));
    }
    let mut all = BytesMut::with_capacity(first.len().saturating_add(rest.len()));
    all.extend_from_slice(&first);
    all.unsplit(rest);
    Ok(Some(all.freeze()))
}
