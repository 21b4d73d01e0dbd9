//! Cells of conditional stores: content and stamp together, on what was recorded.

use fencegate::backing::{CellRead, Order, Sent, Upstream};
use fencegate::domain::document::ContentType;
use fencegate::domain::operation::Method;
use fencegate::domain::store::StampPlace;
use fencegate::domain::upstream::{Base, CellSeen, Payload, StampKind, Validator};

use super::{
    answered, cell_order, cells_at, header_stamp, is_doubt, is_unsent, order, pair, pair_with, resource,
    stamp, validator,
};
use crate::support::upstream::{Fault, Kind, Tags, Upstream as Scripted};

fn places() -> [StampPlace; 3] {
    [header_stamp(), StampPlace::Json("/_fencegate".to_owned()), StampPlace::Pointer]
}

/// Content that is fit for every place.
fn json(text: &str) -> String {
    format!("{{\"text\":\"{text}\",\"n\":1.50}}")
}

async fn seen(upstream: &Upstream, name: &str) -> CellSeen {
    match upstream.read_cell(&resource(name)).await {
        CellRead::Seen(seen) => seen,
        CellRead::Unreadable(why) => panic!("{why}"),
    }
}

fn writes(scripted: &Scripted) -> usize {
    scripted.log().iter().filter(|arrival| !arrival.reads()).count()
}

#[tokio::test]
async fn a_cell_shows_who_wrote_it_last_wherever_the_stamp_lies() {
    for place in places() {
        let (_scripted, upstream) = cells_at(place.clone());
        assert_eq!(seen(&upstream, "n/r").await, CellSeen::Absent, "{place:?}");
        let first = cell_order("n/r", 1, "first", &json("one"), Base::Absent);
        let one = validator(upstream.send(&first).await);
        assert_eq!(
            seen(&upstream, "n/r").await,
            CellSeen::Stamped(one.clone(), first.stamp.clone().unwrap())
        );
        let second = cell_order("n/r", 2, "second", &json("two"), Base::Recorded(one.clone()));
        let two = validator(upstream.send(&second).await);
        assert_eq!(seen(&upstream, "n/r").await, CellSeen::Stamped(two.clone(), second.stamp.unwrap()));
        // The older one, sent late on its dead base, changes nothing.
        for base in [Base::Recorded(one), Base::Absent] {
            let late = cell_order("n/r", 1, "late", &json("late"), base);
            assert_eq!(answered(upstream.send(&late).await).relayed.status, 412, "{place:?}");
        }
        assert!(matches!(seen(&upstream, "n/r").await, CellSeen::Stamped(now, _) if now == two));
    }
}

#[tokio::test]
async fn an_unread_cell_is_never_written() {
    for place in places() {
        let (scripted, upstream) = cells_at(place);
        is_unsent(&upstream.send(&cell_order("n/r", 1, "op", &json("x"), Base::Unread)).await);
        let without = Order { base: Base::Absent, ..order("n/r", 1, "op", &json("x")) };
        is_unsent(&upstream.send(&without).await);
        let barrier = stamp(StampKind::EmptyBarrier, 1, None);
        is_unsent(&upstream.rewrite_cell(&resource("n/r"), &Base::Unread, &barrier).await);
        assert!(scripted.log().is_empty());
    }
}

#[tokio::test]
async fn a_removal_leaves_a_tombstone() {
    for place in places() {
        let (scripted, upstream) = cells_at(place.clone());
        let one = validator(upstream.send(&cell_order("n/r", 1, "a", &json("x"), Base::Absent)).await);
        let tombstone = stamp(StampKind::Tombstone, 2, Some("gone"));
        let removal = Order {
            method: Method::Delete,
            content_type: None,
            payload: Payload::of(bytes::Bytes::new()),
            stamp: Some(tombstone.clone()),
            ..cell_order("n/r", 2, "gone", "", Base::Recorded(one))
        };
        let two = validator(upstream.send(&removal).await);
        assert_eq!(seen(&upstream, "n/r").await, CellSeen::Stamped(two, tombstone), "{place:?}");
        assert!(scripted.log().iter().all(|arrival| arrival.method != "DELETE"), "a cell is never deleted");
    }
}

#[tokio::test]
async fn a_barrier_keeps_the_content_and_kills_the_old_base() {
    for place in places() {
        let (scripted, upstream) = cells_at(place.clone());
        let first = cell_order("n/r", 1, "a", &json("kept"), Base::Absent);
        let one = validator(upstream.send(&first).await);
        let before = scripted.content("/base/r").unwrap();
        let barrier = stamp(StampKind::Barrier, 2, None);
        let base = Base::Recorded(one.clone());
        let two = validator(upstream.rewrite_cell(&resource("n/r"), &base, &barrier).await);
        assert_ne!(one, two);
        assert_eq!(seen(&upstream, "n/r").await, CellSeen::Stamped(two, barrier.clone()), "{place:?}");
        if place == header_stamp() {
            assert_eq!(scripted.content("/base/r").unwrap(), before);
            let put = scripted.log().into_iter().rfind(|arrival| arrival.method == "PUT").unwrap();
            assert_eq!(put.header("content-type"), Some("text/plain"), "the content's type stays with it");
        }
        let late = cell_order("n/r", 1, "late", &json("late"), base.clone());
        assert_eq!(answered(upstream.send(&late).await).relayed.status, 412);
        let again = writes(&scripted);
        is_doubt(&upstream.rewrite_cell(&resource("n/r"), &base, &barrier).await);
        assert_eq!(writes(&scripted), again, "nothing is written on a base that is seen to be dead");
    }
}

#[tokio::test]
async fn a_barrier_over_nothing_is_an_empty_cell() {
    for place in places() {
        let (_scripted, upstream) = cells_at(place.clone());
        let barrier = stamp(StampKind::EmptyBarrier, 1, None);
        let one = validator(upstream.rewrite_cell(&resource("n/r"), &Base::Absent, &barrier).await);
        assert_eq!(seen(&upstream, "n/r").await, CellSeen::Stamped(one.clone(), barrier), "{place:?}");
        let late = cell_order("n/r", 1, "late", &json("late"), Base::Absent);
        assert_eq!(answered(upstream.send(&late).await).relayed.status, 412);
        let next = stamp(StampKind::EmptyBarrier, 2, None);
        validator(upstream.rewrite_cell(&resource("n/r"), &Base::Recorded(one), &next).await);
    }
}

#[tokio::test]
async fn a_large_cell_is_kept_by_a_barrier_without_being_held() {
    let (scripted, upstream) = pair_with(Kind::Conditional(Tags::Counter), |store| {
        store.max_response_bytes = 10_000;
    });
    let large = "x".repeat(3_000_000);
    let one = validator(upstream.send(&cell_order("n/r", 1, "a", &large, Base::Absent)).await);
    let barrier = stamp(StampKind::Barrier, 2, None);
    validator(upstream.rewrite_cell(&resource("n/r"), &Base::Recorded(one), &barrier).await);
    assert_eq!(scripted.content("/base/r").unwrap(), large.as_bytes());
}

#[tokio::test]
async fn a_success_without_a_validator_is_read_back() {
    let (scripted, upstream) = pair(Kind::Conditional(Tags::Silent));
    let first = cell_order("n/r", 1, "a", "x", Base::Absent);
    let answer = answered(upstream.send(&first).await);
    assert_eq!(answer.stamp, first.stamp);
    assert_eq!(answer.relayed.etag.as_deref(), Some("\"v1\""));
    assert_eq!(writes(&scripted), 1);
    // Where the cell cannot be read, nobody knows what a later send could rest on.
    scripted.fault_of_read(Fault::Status(500));
    let base = Base::Recorded(Validator::parse("\"v1\"").unwrap());
    is_doubt(&upstream.send(&cell_order("n/r", 2, "b", "y", base)).await);
}

#[tokio::test]
async fn a_success_without_the_stamp_in_the_cell_is_a_doubt() {
    let (_scripted, upstream) = pair(Kind::Conditional(Tags::Weak));
    is_doubt(&upstream.send(&cell_order("n/r", 1, "a", "x", Base::Absent)).await);
    assert!(matches!(seen(&upstream, "n/r").await, CellSeen::Strange(_)));
    let (scripted, upstream) = pair(Kind::Conditional(Tags::Silent));
    scripted.fault(Fault::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()));
    scripted.fault_of_read(Fault::Status(404));
    is_doubt(&upstream.send(&cell_order("n/r", 1, "a", "x", Base::Absent)).await);
}

#[tokio::test]
async fn what_others_wrote_is_seen_as_theirs() {
    // Somebody went around the gateway.
    let (scripted, upstream) = cells_at(header_stamp());
    scripted
        .fault_of_read(Fault::Raw(b"HTTP/1.1 200 OK\r\nETag: \"t\"\r\nContent-Length: 9\r\n\r\n".to_vec()));
    assert!(matches!(seen(&upstream, "n/r").await, CellSeen::Unstamped(_)));
    let forged = b"HTTP/1.1 200 OK\r\nETag: \"t\"\r\nX-Fencing-Stamp: fg9\r\nContent-Length: 0\r\n\r\n";
    let (scripted, upstream) = cells_at(header_stamp());
    scripted.fault_of_read(Fault::Raw(forged.to_vec()));
    assert!(matches!(seen(&upstream, "n/r").await, CellSeen::Strange(_)));
}

#[tokio::test]
async fn a_body_that_has_no_place_for_a_stamp_is_not_sent() {
    let (scripted, upstream) = cells_at(StampPlace::Json("/_fencegate".to_owned()));
    for body in ["", "[1]", "text", "{} x"] {
        is_unsent(&upstream.send(&cell_order("n/r", 1, "a", body, Base::Absent)).await);
    }
    assert!(scripted.log().is_empty());
    let kind = ContentType::parse("application/vnd.x+json").unwrap();
    let fit = Order { content_type: Some(kind), ..cell_order("n/r", 1, "a", &json("x"), Base::Absent) };
    answered(upstream.send(&fit).await);
    let stored = String::from_utf8(scripted.content("/base/r").unwrap()).unwrap();
    assert_eq!(stored, r#"{"text":"x","n":1.50,"_fencegate":"fg1;c;1;0.1;1;a"}"#);
    assert_eq!(scripted.log()[0].header("content-type"), Some("application/vnd.x+json"));
}

#[tokio::test]
async fn a_pointer_names_content_that_was_there_before_it() {
    let (scripted, upstream) = cells_at(StampPlace::Pointer);
    let first = cell_order("n/r", 1, "a", "content", Base::Absent);
    answered(upstream.send(&first).await);
    let log = scripted.log();
    assert_eq!(log.len(), 2);
    assert!(log[0].target.starts_with("/base/r.fencegate/1-0.1-"), "{}", log[0].target);
    assert_eq!(log[0].header("if-none-match"), Some("*"));
    assert_eq!(scripted.content(&log[0].target).unwrap(), b"content");
    assert_eq!(log[1].target, "/base/r");
    // Sent again after a doubt: the content is there already, and the cell decides.
    assert_eq!(answered(upstream.send(&first).await).relayed.status, 412);
    // The id was free again and came with other bytes: they must not meet the old ones.
    let one = Validator::parse("\"v2\"").unwrap();
    let other = cell_order("n/r", 1, "a", "other", Base::Recorded(one));
    answered(upstream.send(&other).await);
    let contents: Vec<String> = scripted.log().into_iter().map(|arrival| arrival.target).collect();
    assert_eq!(scripted.content(&contents[4]).unwrap(), b"other");
}

#[tokio::test]
async fn a_content_that_cannot_be_uploaded_leaves_the_cell_alone() {
    for fault in [Fault::Status(500), Fault::DropAnswer, Fault::Truncated] {
        let (scripted, upstream) = cells_at(StampPlace::Pointer);
        scripted.fault(fault.clone());
        let sent = upstream.send(&cell_order("n/r", 1, "a", "content", Base::Absent)).await;
        let success = matches!(&sent, Sent::Answered(answer) if answer.relayed.is_success());
        assert!(!success, "{fault:?}: {sent:?}");
        assert_eq!(scripted.content("/base/r"), None, "{fault:?}");
    }
}

#[tokio::test]
async fn nobody_writes_content_objects_but_through_their_cell() {
    let (scripted, upstream) = cells_at(StampPlace::Pointer);
    let name = "n/r.fencegate/1-0.1-00";
    is_unsent(&upstream.send(&cell_order(name, 1, "a", "x", Base::Absent)).await);
    assert!(scripted.log().is_empty());
    // Elsewhere it is a name like any other.
    let (_scripted, upstream) = cells_at(header_stamp());
    answered(upstream.send(&cell_order(name, 1, "a", "x", Base::Absent)).await);
}
