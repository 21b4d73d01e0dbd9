//! The client to stores behind HTTP, against a scripted one; judged by the store's own log wherever it matters what was
//! sent.

mod cells;
mod faults;
mod http2;
mod pooling;
mod probes;
mod reads;
mod secure;
mod sends;
mod spool;

use fencegate::backing::{Answer, Deadline, Order, ReadAnswer, ReadOrder, Sent, Upstream};
use fencegate::domain::counter::{CommitNo, Incarnation};
use fencegate::domain::document::ContentType;
use fencegate::domain::operation::{Method, OperationId};
use fencegate::domain::position::Position;
use fencegate::domain::resource::{Address, Path, ResourceName};
use fencegate::domain::store::{HttpStore, Protocol, StampPlace};
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{
    Base, Class, Payload, REFUSED_STATUSES, Stamp, StampKind, StatusSet, Validator,
};
use http_body_util::BodyExt as _;

use crate::support::upstream::{Kind, Tags, Upstream as Scripted};

/// A store's configuration, as plain as it can be.
pub(super) fn store(class: Class, base: &str) -> HttpStore {
    HttpStore {
        base: base.to_owned(),
        class,
        stamp: None,
        protocol: Protocol::Auto,
        timeout: Millis::new(5_000),
        connect_timeout: Millis::new(2_000),
        max_response_bytes: 1_048_576,
        refused: StatusSet::of(&REFUSED_STATUSES),
        forward_headers: Vec::new(),
        return_headers: ["content-type", "content-encoding", "location", "x-shown"]
            .map(str::to_owned)
            .to_vec(),
        key_header: "Idempotency-Key".to_owned(),
        status: None,
        key_retention: Millis::new(86_400_000),
        max_uncertain: None,
        version_header: "server".to_owned(),
        probe: true,
        ca_file: None,
        credentials: None,
    }
}

pub(super) fn header_stamp() -> StampPlace {
    StampPlace::Header("x-fencing-stamp".to_owned())
}

/// A scripted store and a client of it.
pub(super) fn pair(kind: Kind) -> (Scripted, Upstream) {
    pair_with(kind, |_| {})
}

pub(super) fn pair_with(kind: Kind, change: impl FnOnce(&mut HttpStore)) -> (Scripted, Upstream) {
    let scripted = Scripted::start(kind);
    let class = match kind {
        Kind::Conditional(_) => Class::Conditional,
        Kind::FenceAware | Kind::FenceAwareWithoutIds | Kind::FenceAwareWithoutLives => Class::FenceAware,
        Kind::Idempotent | Kind::OneAnswer { .. } => Class::Idempotent,
        Kind::Serial => Class::Serial,
    };
    let mut store = store(class, &scripted.url());
    if class == Class::Conditional {
        store.stamp = Some(header_stamp());
    }
    change(&mut store);
    (scripted, Upstream::open(store).unwrap())
}

/// A cell store that keeps its stamps at this place.
pub(super) fn cells_at(place: StampPlace) -> (Scripted, Upstream) {
    pair_with(Kind::Conditional(Tags::Counter), |store| store.stamp = Some(place))
}

pub(super) fn resource(name: &str) -> ResourceName {
    ResourceName::parse(name).unwrap()
}

pub(super) fn address(name: &str, scope: u16) -> Address {
    Path::parse(name).unwrap().split(scope).unwrap()
}

/// A PUT of these bytes at position `0.token`.
pub(super) fn order(name: &str, token: u64, id: &str, body: &str) -> Order {
    Order {
        address: address(name, 0),
        method: Method::Put,
        query: None,
        headers: Vec::new(),
        content_type: Some(ContentType::parse("text/plain").unwrap()),
        payload: Payload::of(body.to_owned().into()),
        position: Position::parse(&format!("0.{token}")).unwrap(),
        sequence: None,
        incarnation: Incarnation::ONE,
        operation_id: OperationId::parse(id).unwrap(),
        base: Base::Unread,
        stamp: None,
        deadline: Deadline::default(),
    }
}

/// The same for a cell.
pub(super) fn cell_order(name: &str, token: u64, id: &str, body: &str, base: Base) -> Order {
    let stamp = stamp(StampKind::Content, token, Some(id));
    Order { base, stamp: Some(stamp), ..order(name, token, id, body) }
}

pub(super) fn stamp(kind: StampKind, token: u64, id: Option<&str>) -> Stamp {
    Stamp {
        kind,
        incarnation: Incarnation::ONE,
        position: Position::parse(&format!("0.{token}")).unwrap(),
        commit: CommitNo::ONE,
        operation_id: id.map(|id| OperationId::parse(id).unwrap()),
    }
}

pub(super) fn reading(name: &str) -> ReadOrder {
    ReadOrder { address: address(name, 0), head: false, query: None, headers: Vec::new() }
}

/// The answer, where there is one.
#[track_caller]
pub(super) fn answered(sent: Sent) -> Answer {
    match sent {
        Sent::Answered(answer) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

#[track_caller]
pub(super) fn is_doubt(sent: &Sent) -> String {
    match sent {
        Sent::Doubt(why) => why.clone(),
        other => panic!("no doubt: {other:?}"),
    }
}

#[track_caller]
pub(super) fn is_unsent(sent: &Sent) -> String {
    match sent {
        Sent::NotSent(why) => why.clone(),
        other => panic!("it may have been sent: {other:?}"),
    }
}

#[track_caller]
pub(super) fn validator(sent: Sent) -> Validator {
    answered(sent).relayed.validator().unwrap()
}

/// All bytes of a read.
pub(super) async fn bytes(answer: ReadAnswer) -> Vec<u8> {
    answer.body.collect().await.unwrap().to_bytes().to_vec()
}
