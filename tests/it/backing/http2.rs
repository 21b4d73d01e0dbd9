//! HTTP/2 stores that break off, refuse or never end: not sent only where no byte of the request was, a doubt otherwise.

use std::time::Duration;

use fencegate::backing::{Sent, Upstream};
use fencegate::domain::store::Protocol;
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::Class;
use fencegate::ledger::wakeup::instant;

use super::{answered, is_doubt, is_unsent, order, store};
use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PUSH_PROMISE, Play, SETTINGS, STATUS_100,
    STATUS_200, Store, answer, frame, goaway, reset, setting,
};

/// Codes of errors (RFC 9113 section 7).
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

/// How long a store is waited for.
const TIMEOUT_MS: u64 = 600;

async fn pair(play: Play) -> (Store, Upstream) {
    let scripted = Store::start(play).await;
    let mut settings = store(Class::FenceAware, &format!("http://127.0.0.1:{}/base/", scripted.port));
    settings.protocol = Protocol::Http2;
    settings.timeout = Millis::new(TIMEOUT_MS);
    settings.connect_timeout = Millis::new(TIMEOUT_MS);
    (scripted, Upstream::open(settings).unwrap())
}

/// One write, and how long it took.
async fn sent(upstream: &Upstream, id: &str, body: &str) -> (Sent, Duration) {
    let began = instant();
    let sent = upstream.send(&order("n/r", 1, id, body)).await;
    (sent, instant().duration_since(began))
}

/// The request is with the store, and then it breaks off. Whatever it says of what it did not do (`REFUSED_STREAM`, a
/// GOAWAY below the stream): a byte was sent, somebody in between may have passed it on, and it is not sent again.
#[tokio::test]
async fn a_stream_that_is_broken_off_is_a_doubt_and_nothing_is_sent_again() {
    type Act = fn(usize, u32) -> Vec<Frame>;
    let acts: [(&str, Act); 9] = [
        ("reset", |_, stream| vec![reset(stream, INTERNAL_ERROR)]),
        ("reset without an error", |_, stream| vec![reset(stream, NO_ERROR)]),
        ("refused", |_, stream| vec![reset(stream, REFUSED_STREAM)]),
        ("calmed", |_, stream| vec![reset(stream, ENHANCE_YOUR_CALM)]),
        ("reset after the head", |_, stream| {
            vec![frame(HEADERS, END_HEADERS, stream, STATUS_200), reset(stream, INTERNAL_ERROR)]
        }),
        ("reset in the content", |_, stream| {
            vec![
                frame(HEADERS, END_HEADERS, stream, STATUS_200),
                frame(DATA, 0, stream, b"do"),
                reset(stream, INTERNAL_ERROR),
            ]
        }),
        ("going away below it", |_, _| vec![goaway(0, NO_ERROR)]),
        ("going away with an error", |_, stream| vec![goaway(stream, INTERNAL_ERROR)]),
        ("a push that was not asked for", |_, stream| {
            vec![frame(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, 0x82])]
        }),
    ];
    for (name, act) in acts {
        for at_head in [false, true] {
            let (scripted, upstream) = pair(Play { at_head, ..Play::frames(act) }).await;
            let (sent, _) = sent(&upstream, "op", "x").await;
            assert!(matches!(sent, Sent::Doubt(_)), "{name} {at_head}: {sent:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(scripted.arrived().len() <= 1, "{name}: {:?}", scripted.arrived());
        }
    }
    // The connection itself is closed, with and without a word before.
    for frames in [vec![], vec![frame(HEADERS, END_HEADERS, 1, STATUS_200)]] {
        let (scripted, upstream) =
            pair(Play { closes: true, ..Play::frames(move |_, _| frames.clone()) }).await;
        is_doubt(&sent(&upstream, "op", "x").await.0);
        assert_eq!(scripted.arrived().len(), 1);
    }
}

/// A store that says goodbye while it answers has answered, and one that has said it before is not sent anything: the
/// next request goes over a connection of its own.
#[tokio::test]
async fn a_store_that_goes_away_in_good_order_costs_nothing() {
    let goodbye = |_, stream| [answer(stream), vec![goaway(stream, NO_ERROR)]].concat();
    let early = |_, stream| [vec![goaway(stream, NO_ERROR)], answer(stream)].concat();
    let acts: [fn(usize, u32) -> Vec<Frame>; 2] = [goodbye, early];
    for act in acts {
        let (scripted, upstream) = pair(Play::frames(act)).await;
        for id in ["one", "two", "three"] {
            assert_eq!(answered(sent(&upstream, id, "x").await.0).relayed.body, "done");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(scripted.arrived(), [(1, 1), (2, 1), (3, 1)]);
    }
    // The whole answer is there; that nobody wants the rest of the body changes nothing.
    let (_scripted, upstream) =
        pair(Play::frames(|_, stream| [answer(stream), vec![reset(stream, NO_ERROR)]].concat())).await;
    answered(sent(&upstream, "op", "x").await.0);
}

/// Heads, interim answers and contents without an end: given up, soon or in time, and held in memory by nobody.
#[tokio::test]
async fn what_never_ends_is_given_up() {
    let field = {
        let value = [b'x'; 100];
        [&[0x00, 1, b'a', 100][..], &value].concat()
    };
    let fields = field.repeat(150);
    let open_head = |_, stream| vec![frame(HEADERS, 0, stream, STATUS_200)];
    let nothing = |_: usize, _: u32| Vec::new();
    let endless = [
        ("continuations", Play::frames(open_head), frame(CONTINUATION, 0, 0, &fields)),
        ("empty continuations", Play::frames(open_head), frame(CONTINUATION, 0, 0, &[])),
        ("interim answers", Play::frames(nothing), frame(HEADERS, END_HEADERS, 0, STATUS_100)),
        (
            "content",
            Play::frames(|_, stream| vec![frame(HEADERS, END_HEADERS, stream, STATUS_200)]),
            frame(DATA, 0, 0, &[b'x'; 16_000]),
        ),
        (
            "empty content",
            Play::frames(|_, stream| vec![frame(HEADERS, END_HEADERS, stream, STATUS_200)]),
            frame(DATA, 0, 0, &[]),
        ),
    ];
    for (name, play, again) in endless {
        let (scripted, upstream) = pair(Play { over_and_over: Some(again), ..play }).await;
        let (sent, took) = sent(&upstream, "op", "x").await;
        assert!(matches!(sent, Sent::Doubt(_)), "{name}: {sent:?}");
        assert!(took < Duration::from_millis(3 * TIMEOUT_MS), "{name}: {took:?}");
        assert_eq!(scripted.arrived().len(), 1, "{name}");
    }
    // Long and with an end: beyond what a head may have.
    let long = move |_: usize, stream: u32| {
        let mut frames = vec![frame(HEADERS, END_STREAM, stream, STATUS_200)];
        frames.extend((0..8).map(|_| frame(CONTINUATION, 0, stream, &fields)));
        frames.push(frame(CONTINUATION, END_HEADERS, stream, &[]));
        frames
    };
    let (_scripted, upstream) = pair(Play::frames(long)).await;
    is_doubt(&sent(&upstream, "op", "x").await.0);
}

/// A store that grants no room for the body, or no stream at all: in time, and no answer is made up.
#[tokio::test]
async fn a_store_that_lets_nothing_in_is_not_waited_for() {
    const STREAMS: u16 = 3;
    const WINDOW: u16 = 4;
    for (name, greeting) in [("window", setting(WINDOW, 0)), ("streams", setting(STREAMS, 0))] {
        let play = Play { greeting: vec![greeting], ..Play::frames(|_, stream| answer(stream)) };
        let (scripted, upstream) = pair(play).await;
        // The settings are known from the second request on.
        drop(sent(&upstream, "one", "x").await);
        let before = scripted.arrived().len();
        let (sent, took) = sent(&upstream, "op", &"x".repeat(200_000)).await;
        assert!(matches!(sent, Sent::Doubt(_)), "{name}: {sent:?}");
        assert!(took < Duration::from_millis(3 * TIMEOUT_MS), "{name}: {took:?}");
        assert_eq!(scripted.arrived().len(), before, "{name}: nothing was whole");
    }
}

/// Nobody is there, and somebody who hangs up or speaks something else before a request is taken: never an answer.
#[tokio::test]
async fn no_byte_was_sent_where_nobody_took_the_connection() {
    let (scripted, _) = pair(Play::frames(|_, stream| answer(stream))).await;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let nobody = listener.local_addr().unwrap().port();
    drop(listener);
    let mut settings = store(Class::FenceAware, &format!("http://127.0.0.1:{nobody}/base/"));
    settings.protocol = Protocol::Http2;
    is_unsent(&Upstream::open(settings).unwrap().send(&order("n/r", 1, "op", "x")).await);
    assert!(scripted.arrived().is_empty());
    // Frames that are none of HTTP/2 in this place: the connection is given up, and so is what was sent meanwhile.
    for greeting in
        [frame(SETTINGS, 0, 1, &[]), frame(DATA, 0, 1, b"x"), frame(0x48, 0x54, 0x5450, b"HTTP/1.1 400")]
    {
        let play = Play { greeting: vec![greeting], ..Play::frames(|_, _| Vec::new()) };
        let (_scripted, upstream) = pair(play).await;
        let (sent, _) = sent(&upstream, "op", "x").await;
        assert!(!matches!(sent, Sent::Answered(_)), "{sent:?}");
    }
}
