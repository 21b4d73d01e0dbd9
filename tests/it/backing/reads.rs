//! Reads through the gateway.

use std::time::Duration;

use fencegate::backing::{Order, ReadAnswer, ReadFailed, ReadOrder, Upstream};
use fencegate::domain::operation::Method;
use fencegate::domain::store::StampPlace;
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{Base, Class, Payload, StampKind};
use http_body_util::BodyExt as _;

use super::{
    answered, bytes, cell_order, cells_at, header_stamp, order, pair, pair_with, reading, stamp, store,
    validator,
};
use crate::support::upstream::{Fault, Kind};

/// What came with an answer.
fn headers(answer: &ReadAnswer) -> Vec<(&str, &str)> {
    answer.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
}

#[tokio::test]
async fn a_read_gives_back_what_was_written() {
    let (scripted, upstream) = pair(Kind::Serial);
    answered(upstream.send(&order("n/r", 1, "op", "hello")).await);
    let order = ReadOrder { query: Some("v=1".into()), ..reading("n/r") };
    let answer = upstream.read(order).await.unwrap();
    assert_eq!((answer.status, answer.length), (200, Some(5)));
    assert_eq!(answer.etag.as_deref(), Some("\"v1\""));
    assert_eq!(headers(&answer), [("content-type", "text/plain")]);
    assert_eq!(bytes(answer).await, b"hello");
    assert_eq!(scripted.log()[1].target, "/base/r?v=1");
    let head = upstream.read(ReadOrder { head: true, ..reading("n/r") }).await.unwrap();
    assert_eq!((head.status, head.length), (200, Some(5)));
    assert_eq!(bytes(head).await, b"");
    assert_eq!(upstream.read(reading("n/none")).await.unwrap().status, 404);
}

#[tokio::test]
async fn the_stamp_is_read_wherever_it_lies_and_its_header_is_not_shown() {
    let body = r#"{"a":1}"#;
    for place in [header_stamp(), StampPlace::Json("/_f".to_owned()), StampPlace::Pointer] {
        let scripted = crate::support::upstream::Upstream::start(Kind::Conditional(
            crate::support::upstream::Tags::Counter,
        ));
        let mut settings = store(Class::Conditional, &scripted.url());
        settings.stamp = Some(place.clone());
        settings.return_headers.push("x-fencing-stamp".to_owned());
        let upstream = Upstream::open(settings).unwrap();
        let first = cell_order("n/r", 1, "a", body, Base::Absent);
        let one = validator(upstream.send(&first).await);
        let answer = upstream.read(reading("n/r")).await.unwrap();
        assert_eq!(answer.stamp, first.stamp, "{place:?}");
        assert_eq!(answer.etag.as_deref(), Some(one.as_str()), "{place:?}");
        assert_eq!(headers(&answer), [("content-type", "text/plain")], "{place:?}");
        let shown = String::from_utf8(bytes(answer).await).unwrap();
        let expected = if place == StampPlace::Json("/_f".to_owned()) {
            r#"{"a":1,"_f":"fg1;c;1;0.1;1;a"}"#
        } else {
            body
        };
        assert_eq!(shown, expected, "{place:?}");
    }
}

#[tokio::test]
async fn a_tombstone_is_told_by_its_stamp() {
    for place in [header_stamp(), StampPlace::Json("/_f".to_owned()), StampPlace::Pointer] {
        let (_scripted, upstream) = cells_at(place.clone());
        let tombstone = stamp(StampKind::Tombstone, 1, Some("gone"));
        let removal = Order {
            method: Method::Delete,
            payload: Payload::of(bytes::Bytes::new()),
            stamp: Some(tombstone.clone()),
            ..cell_order("n/r", 1, "gone", "", Base::Absent)
        };
        answered(upstream.send(&removal).await);
        let answer = upstream.read(reading("n/r")).await.unwrap();
        assert_eq!(answer.stamp, Some(tombstone), "{place:?}");
        assert_eq!(upstream.read(reading("n/none")).await.unwrap().stamp, None);
    }
}

#[tokio::test]
async fn a_read_says_how_far_it_came() {
    let nowhere = Upstream::open(store(Class::Serial, "http://127.0.0.1:1/")).unwrap();
    assert!(matches!(nowhere.read(reading("n/r")).await, Err(ReadFailed::Unreachable(_))));
    let (scripted, upstream) = pair_with(Kind::Serial, |store| store.timeout = Millis::new(150));
    scripted.fault_of_read(Fault::NeverAnswer);
    assert!(matches!(upstream.read(reading("n/r")).await, Err(ReadFailed::TimedOut(_))));
    scripted.fault_of_read(Fault::DropAnswer);
    assert!(matches!(upstream.read(reading("n/r")).await, Err(ReadFailed::Broken(_))));
    // A cut body is an error of the body, never a short body.
    scripted.fault_of_read(Fault::Truncated);
    let cut = upstream.read(reading("n/r")).await.unwrap();
    assert!(cut.body.collect().await.is_err());
    // A body that stands still is given up.
    let silent = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec();
    scripted.fault_of_read(Fault::Raw(silent));
    let stuck = upstream.read(reading("n/r")).await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_secs(5), stuck.body.collect()).await.unwrap();
    assert!(given_up.is_err());
}

#[tokio::test]
async fn a_read_of_more_than_an_answer_may_hold_is_streamed() {
    let (_scripted, upstream) = pair_with(Kind::Serial, |store| store.max_response_bytes = 1_000);
    let large = "y".repeat(5_000_000);
    answered(upstream.send(&order("n/r", 1, "op", &large)).await);
    assert_eq!(bytes(upstream.read(reading("n/r")).await.unwrap()).await, large.as_bytes());
}
