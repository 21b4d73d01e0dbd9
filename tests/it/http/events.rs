//! Streams of events and the retention: what is told of what need not be there any more.

use axum::body::Body;
use http_body_util::BodyExt as _;

use super::house::{House, ask};

/// More than one page.
const MANY: usize = 300;

/// Beyond the retention, in milliseconds.
const LONG: u64 = 31 * 86_400_000;

/// A stream of everything from the oldest record on.
async fn from_the_oldest(house: &House) -> Body {
    house.answering(ask("GET", "/v1/events").with("last-event-id", "0").request()).await.into_body()
}

/// What a stream says up to this.
async fn up_to(stream: &mut Body, what: &str) -> String {
    let mut said = String::new();
    while !said.contains(what) {
        let some = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        said.push_str(std::str::from_utf8(&some).unwrap());
    }
    said
}

/// Broken: whoever asks for all that is kept gets the first page of it, and for the second one a reset, since what is older than
/// the retention and still there counts as lost. Must hold: all of it is told; and a listener that had heard everything and falls
/// behind the retention is told that it may have missed something.
#[tokio::test]
async fn all_that_is_still_there_is_told_however_old_it_is() {
    let house = House::new().await;
    for number in 0..MANY {
        house.acquire(&format!("drafts/{number}")).await;
    }
    let mut listening = from_the_oldest(&house).await;
    let granted = |said: &str| said.matches("event: fencegate.lease.granted\n").count();
    assert_eq!(granted(&up_to(&mut listening, "all is told").await), MANY);
    house.clock.advance(LONG);
    let said = up_to(&mut from_the_oldest(&house).await, "all is told").await;
    assert_eq!((granted(&said), said.contains("event: reset")), (MANY, false));
    house.acquire("drafts/late").await;
    up_to(&mut listening, "the listener was too slow").await;
}
