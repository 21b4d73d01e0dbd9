//! What the gateway asks of an upstream, and what it learns.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;

use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::ContentType;
use crate::domain::operation::{Method, OperationId};
use crate::domain::position::Position;
use crate::domain::resource::Address;
use crate::domain::upstream::{Base, CellSeen, Field, Payload, Relayed, Stamp};

use super::incoming::ReadBody;

/// Until when the first byte of an attempt may be written. Afterwards somebody else may have taken the next step, or the
/// store may have forgotten the key, and whoever was stopped while a connection came to stand must not write to it.
///
/// It is looked at with the connection in hand, as the last thing before the request is given to it. Nothing can be done
/// about a process that is stopped between that look and the write.
#[derive(Clone, Default)]
pub struct Deadline(Option<(Arc<dyn Fn() -> Duration + Send + Sync>, Duration)>);

impl Deadline {
    /// At this time of a clock that goes on while the process or the machine sleeps.
    #[must_use]
    pub fn at(time: Duration, clock: Arc<dyn Fn() -> Duration + Send + Sync>) -> Self {
        Self(Some((clock, time)))
    }

    /// Whether it is over.
    pub(super) fn has_passed(&self) -> bool {
        self.0.as_ref().is_some_and(|(clock, time)| clock() > *time)
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deadline").field(&self.0.as_ref().map(|(_, time)| time)).finish()
    }
}

/// One attempt of one operation.
#[derive(Debug, Clone)]
pub struct Order {
    /// What is written.
    pub address: Address,
    /// How.
    pub method: Method,
    /// The query as it came; visible ASCII.
    pub query: Option<String>,
    /// The caller's headers that may be forwarded.
    pub headers: Vec<Field>,
    /// The content type, where one was sent.
    pub content_type: Option<ContentType>,
    /// The body.
    pub payload: Payload,
    /// Under which position.
    pub position: Position,
    /// The sequence, where the policy has one.
    pub sequence: Option<Sequence>,
    /// Of the resource.
    pub incarnation: Incarnation,
    /// The operation.
    pub operation_id: OperationId,
    /// What a conditional send rests on; other classes do not look at it.
    pub base: Base,
    /// What is written into a cell together with the bytes; of `conditional` only.
    pub stamp: Option<Stamp>,
    /// Until when it may be begun.
    pub deadline: Deadline,
}

/// What became of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The upstream answered, completely.
    Answered(Answer),
    /// Not one byte of the request was written, so there is no effect and there will be none. The text says why.
    NotSent(String),
    /// Anything else: the upstream may have acted, or may yet. The text says what was seen.
    Doubt(String),
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What may be given back.
    pub relayed: Relayed,
    /// The position that the upstream says it holds.
    pub holds: Option<Position>,
    /// What the cell showed where it had to be read back, because the success came without a strong validator.
    pub stamp: Option<Stamp>,
}

/// What reading a cell came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellRead {
    /// This is what it shows.
    Seen(CellSeen),
    /// It could not be read now. The text says why.
    Unreadable(String),
}

/// What an upstream says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The outcome that it keeps.
    Done(Relayed),
    /// It does not know the key. The request may still arrive, so this settles nothing.
    NotFound,
    /// Neither. The text says what was seen.
    Unclear(String),
}

/// A read.
#[derive(Debug, Clone)]
pub struct ReadOrder {
    /// What is read.
    pub address: Address,
    /// HEAD instead of GET.
    pub head: bool,
    /// The query as it came; visible ASCII.
    pub query: Option<String>,
    /// The caller's headers that may be forwarded.
    pub headers: Vec<Field>,
}

/// The answer to a read.
#[derive(Debug)]
pub struct ReadAnswer {
    /// Its status.
    pub status: u16,
    /// Its allow-listed headers, without its `ETag`.
    pub headers: HeaderMap,
    /// Its `ETag` as it came; with `pointer` that of the cell.
    pub etag: Option<String>,
    /// The cell's stamp; of `conditional` only.
    pub stamp: Option<Stamp>,
    /// Its body.
    pub body: ReadBody,
    /// The length that it announced, in bytes.
    pub length: Option<u64>,
}

/// Why a read has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailed {
    /// The upstream was not reached.
    Unreachable(String),
    /// It did not answer in time.
    TimedOut(String),
    /// It answered with what cannot be understood or given back.
    Broken(String),
}
