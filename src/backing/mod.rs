//! PLACEHOLDER until the backing branch is merged.
use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::ContentType;
use crate::domain::operation::{Method, OperationId};
use crate::domain::position::Position;
use crate::domain::resource::{Address, ResourceName};
use crate::domain::store::HttpStore;
use crate::domain::upstream::{Base, CellSeen, Field, Payload, Relayed, Stamp};
pub struct Upstream;
impl Upstream {
    pub fn store(&self) -> &HttpStore {
        loop {}
    }
    pub async fn send(&self, _o: &Order) -> Sent {
        loop {}
    }
    pub async fn read_cell(&self, _r: &ResourceName) -> CellRead {
        loop {}
    }
    pub async fn rewrite_cell(&self, _r: &ResourceName, _b: &Base, _s: &Stamp) -> Sent {
        loop {}
    }
    pub async fn advance(&self, _r: &ResourceName, _i: Incarnation, _p: Position) -> Sent {
        loop {}
    }
    pub async fn ask(&self, _o: &Order) -> Asked {
        loop {}
    }
    pub async fn read(&self, _o: ReadOrder) -> Result<ReadAnswer, ReadFailed> {
        loop {}
    }
}
pub struct Order {
    pub address: Address,
    pub method: Method,
    pub query: Option<String>,
    pub headers: Vec<Field>,
    pub content_type: Option<ContentType>,
    pub payload: Payload,
    pub position: Position,
    pub sequence: Option<Sequence>,
    pub incarnation: Incarnation,
    pub operation_id: OperationId,
    pub base: Base,
    pub stamp: Option<Stamp>,
}
pub enum Sent {
    Answered(Answer),
    NotSent(String),
    Doubt(String),
}
pub struct Answer {
    pub relayed: Relayed,
    pub holds: Option<Position>,
    pub stamp: Option<Stamp>,
}
pub enum CellRead {
    Seen(CellSeen),
    Unreadable(String),
}
pub enum Asked {
    Done(Relayed),
    NotFound,
    Unclear(String),
}
pub struct ReadOrder {
    pub address: Address,
    pub head: bool,
    pub query: Option<String>,
    pub headers: Vec<Field>,
}
pub type ReadBody = http_body_util::Empty<bytes::Bytes>;
pub struct ReadAnswer {
    pub status: u16,
    pub headers: Vec<Field>,
    pub etag: Option<String>,
    pub stamp: Option<Stamp>,
    pub body: ReadBody,
    pub length: Option<u64>,
}
pub enum ReadFailed {
    Unreachable(String),
    TimedOut(String),
    Broken(String),
}
