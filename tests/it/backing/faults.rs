//! What a store can do to the gateway, and what the gateway may conclude from it.

use std::time::Duration;

use fencegate::backing::{CellRead, Sent};
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{Base, CellSeen};

use super::{answered, cell_order, is_doubt, order, pair, pair_with, resource};
use crate::support::upstream::{Fault, Kind, Tags};

/// What is left in the log after the client had all the time to try again.
const WHILE: Duration = Duration::from_millis(150);

#[tokio::test]
async fn nothing_is_sent_twice_whatever_goes_wrong() {
    let raw = |text: &str| Fault::Raw(text.as_bytes().to_vec());
    let faults = [
        Fault::DropAnswer,
        Fault::Truncated,
        Fault::ErrorAfterEffect,
        Fault::Status(503),
        Fault::Status(429),
        Fault::Status(408),
        raw("nonsense\r\n\r\n"),
        raw("HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"),
    ];
    for fault in faults {
        let (scripted, upstream) = pair(Kind::FenceAware);
        // The connection is an idle one of the pool: where a client would retry first.
        answered(upstream.send(&order("n/r", 1, "first", "x")).await);
        scripted.fault(fault.clone());
        drop(upstream.send(&order("n/r", 1, "second", "x")).await);
        tokio::time::sleep(WHILE).await;
        assert_eq!(scripted.log().len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_whole_is_a_doubt() {
    let raw = |text: &str| Fault::Raw(text.as_bytes().to_vec());
    let faults = [
        Fault::DropAnswer,
        Fault::Truncated,
        Fault::Endless,
        Fault::Bomb(100 * 1_048_576),
        raw("nonsense\r\n\r\n"),
        raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"),
        raw("HTTP/1.1 200 OK\r\nX-Shown: a\rFencing-Effect: applied\r\nContent-Length: 0\r\n\r\n"),
        raw("HTTP/1.1 200 OK\r\nX-Shown: a\0b\r\nContent-Length: 0\r\n\r\n"),
        raw("HTTP/1.1 200 OK\r\nX-Shown: a\r\n folded\r\nContent-Length: 0\r\n\r\n"),
        raw("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
        raw("HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n"),
    ];
    for fault in faults {
        let (scripted, upstream) = pair(Kind::Serial);
        scripted.fault(fault.clone());
        let sent = upstream.send(&order("n/r", 1, "op", "x")).await;
        assert!(matches!(sent, Sent::Doubt(_)), "{fault:?}: {sent:?}");
        assert_eq!(scripted.log().len(), 1, "{fault:?}");
        assert_eq!(scripted.effects().len(), 1, "the store has acted: {fault:?}");
    }
}

#[tokio::test]
async fn silence_is_a_doubt_and_the_effect_may_come_later() {
    let (scripted, upstream) = pair_with(Kind::Serial, |store| store.timeout = Millis::new(200));
    scripted.fault(Fault::Hold);
    is_doubt(&upstream.send(&order("n/r", 1, "late", "late")).await);
    assert!(scripted.effects().is_empty());
    answered(upstream.send(&order("n/r", 2, "next", "next")).await);
    scripted.release();
    let later = tokio::time::timeout(Duration::from_secs(5), async {
        while scripted.effects().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    later.await.unwrap();
    let order_of_effects: Vec<usize> = scripted.effects().iter().map(|effect| effect.arrival).collect();
    assert_eq!(order_of_effects, [2, 1], "the older request landed behind the newer one");
    scripted.fault(Fault::NeverAnswer);
    is_doubt(&upstream.send(&order("n/r", 3, "mute", "mute")).await);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (scripted, upstream) = pair(Kind::Serial);
    let (elsewhere, _) = pair(Kind::Serial);
    let to = format!("{}secret", elsewhere.url());
    scripted.fault(Fault::Redirect(to.clone()));
    let answer = answered(upstream.send(&order("n/r", 1, "op", "x")).await);
    assert_eq!(answer.relayed.status, 307);
    assert_eq!(answer.relayed.headers, [("location".to_owned(), to)]);
    assert!(elsewhere.log().is_empty(), "nothing goes to where an answer points");
    assert_eq!(scripted.log().len(), 1);
}

#[tokio::test]
async fn compressed_bytes_are_given_back_as_they_came() {
    let (scripted, upstream) = pair(Kind::Serial);
    scripted.fault(Fault::Bomb(1_000));
    let answer = answered(upstream.send(&order("n/r", 1, "op", "x")).await);
    assert_eq!(answer.relayed.body, vec![0x1f; 1_000]);
    assert_eq!(answer.relayed.headers, [("content-encoding".to_owned(), "gzip".to_owned())]);
    assert_eq!(scripted.log()[0].header("accept-encoding"), None, "nothing compressed is asked for");
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let (scripted, upstream) = pair(Kind::Serial);
    scripted.fault(Fault::Interim);
    let answer = answered(upstream.send(&order("n/r", 1, "op", "x")).await);
    assert_eq!(answer.relayed.status, 201);
}

#[tokio::test]
async fn only_listed_headers_come_back_and_none_that_belongs_to_a_connection_or_to_us() {
    let (scripted, upstream) = pair_with(Kind::Serial, |store| {
        for name in ["fencing-effect", "keep-alive", "x-hop", "etag", "set-cookie"] {
            store.return_headers.push(name.to_owned());
        }
        store.return_headers.retain(|name| name != "set-cookie");
    });
    let answer = "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: a\r\n\
                  Fencing-Effect: applied\r\nFencing-Position: 0.5\r\nSet-Cookie: a=b\r\nX-Hidden: h\r\n\
                  X-Shown: 1\r\nX-Shown: 2\r\nETag: W/\"weak\"\r\nContent-Length: 2\r\n\r\nok";
    scripted.fault(Fault::Raw(answer.as_bytes().to_vec()));
    let answer = answered(upstream.send(&order("n/r", 1, "op", "x")).await);
    let shown = |value: &str| ("x-shown".to_owned(), value.to_owned());
    assert_eq!(answer.relayed.headers, [shown("1"), shown("2")]);
    assert_eq!(answer.relayed.etag.as_deref(), Some("W/\"weak\""));
    assert_eq!(answer.relayed.validator(), None);
    assert_eq!(answer.holds.map(|position| position.to_string()).as_deref(), Some("0.5"));
}

#[tokio::test]
async fn a_line_smuggled_into_a_header_is_never_given_back() {
    // A bare line feed ends a line for the parser, so what follows is a header of its own, which is not on the list.
    let (scripted, upstream) = pair(Kind::Serial);
    let answer = "HTTP/1.1 200 OK\r\nX-Shown: a\nFencing-Effect: applied\r\nContent-Length: 0\r\n\r\n";
    scripted.fault(Fault::Raw(answer.as_bytes().to_vec()));
    match upstream.send(&order("n/r", 1, "op", "x")).await {
        Sent::Answered(answer) => {
            assert_eq!(answer.relayed.headers, [("x-shown".to_owned(), "a".to_owned())]);
        }
        Sent::Doubt(_) => {}
        Sent::NotSent(why) => panic!("it was sent: {why}"),
    }
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_whole_and_one_byte_more_is_a_doubt() {
    let (scripted, upstream) = pair_with(Kind::Serial, |store| store.max_response_bytes = 1_000);
    scripted.fault(Fault::Bomb(1_000));
    answered(upstream.send(&order("n/r", 1, "op", "x")).await);
    // One that says how long it is, and one that goes on until somebody counts.
    for fault in [Fault::Bomb(1_001), Fault::Endless] {
        scripted.fault(fault.clone());
        let why = is_doubt(&upstream.send(&order("n/r", 1, "op", "x")).await);
        assert!(why.contains("larger than 1000 bytes"), "{fault:?}: {why}");
    }
}

#[tokio::test]
async fn a_connection_closed_before_reading_is_never_called_answered() {
    // Whether a byte was written depends on who is faster; the gateway claims no more than it knows.
    for _ in 0..20 {
        let (scripted, upstream) = pair(Kind::Serial);
        scripted.fault(Fault::CloseUnread);
        let sent = upstream.send(&order("n/r", 1, "op", "x")).await;
        assert!(!matches!(sent, Sent::Answered(_)), "{sent:?}");
        assert!(scripted.effects().is_empty());
    }
}

#[tokio::test]
async fn an_effect_that_a_store_has_twice_is_one_where_it_knows_the_key() {
    for (kind, effects) in [(Kind::Serial, 2), (Kind::Idempotent, 1), (Kind::FenceAware, 1)] {
        let (scripted, upstream) = pair(kind);
        scripted.fault(Fault::Duplicate);
        answered(upstream.send(&order("n/r", 1, "op", "x")).await);
        assert_eq!((scripted.log().len(), scripted.effects().len()), (1, effects), "{kind:?}");
    }
}

#[tokio::test]
async fn a_yes_without_an_effect_does_not_survive_a_look_at_the_cell() {
    let (scripted, upstream) = pair(Kind::Conditional(Tags::Counter));
    scripted.fault(Fault::SuccessWithoutEffect);
    let lie = cell_order("n/r", 1, "op", "x", Base::Absent);
    let validator = answered(upstream.send(&lie).await).relayed.validator().unwrap();
    assert_eq!(upstream.read_cell(&resource("n/r")).await, CellRead::Seen(CellSeen::Absent));
    let next = cell_order("n/r", 2, "next", "y", Base::Recorded(validator));
    assert_eq!(answered(upstream.send(&next).await).relayed.status, 412);
    assert!(scripted.effects().is_empty());
}
