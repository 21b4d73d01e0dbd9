//! How many may watch, and what that costs the others.

use std::sync::atomic::Ordering;

use axum::response::Response;
use fencegate::domain::permission::Permission;
use fencegate::limits::{READS_IN_FLIGHT, WATCHERS_EACH};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::task::{JoinHandle, yield_now};

use super::house::{Ask, House, Owned, Plan, ask};
use super::permissions::principal;

/// A long poll on `pages/a` as it stands.
async fn long_poll(house: &House, credentials: &str) -> Ask {
    let shown = house.call(ask("GET", "/v1/resources/pages/a").with("authorization", credentials)).await;
    let tag = shown.header("etag").unwrap().to_owned();
    ask("GET", "/v1/resources/pages/a?wait_ms=30000").with("if-none-match", &tag)
}

/// Lets everybody come as far as they can. The runtime lets some sixty tasks run for each time that this one waits.
async fn settle() {
    for _ in 0..READS_IN_FLIGHT / 8 {
        yield_now().await;
    }
}

/// Asks, until it waits or has its answer.
async fn asked(house: &House, one: &Ask) -> JoinHandle<Response> {
    let asking = tokio::spawn(house.answering(one.request()));
    settle().await;
    asking
}

/// Broken: a tenant opens thousands of streams of one lease, and nobody else may watch anything. Must hold: it has a share, in
/// which streams of leases and long polls are counted together, and what it ends it may begin again; whoever asks without
/// waiting needs no place.
#[tokio::test]
async fn one_caller_leaves_places_to_watch_to_the_others() {
    let may: [(&str, &[Permission]); 1] = [("pages", &[Permission::Lease, Permission::Read])];
    let ((alice, of_alice), (bob, of_bob)) = (principal("alice", 1, &may), principal("bob", 2, &may));
    let house = House::built(Plan { principals: vec![alice, bob], ..Plan::default() }).await;
    let acquire = ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"}));
    let lease = house.call(acquire.with("authorization", &of_alice)).await.expect(201);
    let events = ask("GET", &format!("/v1/leases/{}/events", lease["acquisition_id"].as_str().unwrap()));
    let poll = long_poll(&house, &of_alice).await;
    let by = |one: &Ask, who: &str| one.clone().with("authorization", who);

    let mut open = Vec::new();
    for _ in 1..WATCHERS_EACH {
        open.push(house.answering(by(&events, &of_alice).request()).await);
    }
    let polling = asked(&house, &by(&poll, &of_alice)).await;
    assert!(!polling.is_finished());
    for one in [&events, &poll] {
        // Who is let in waits, and is never answered to the end.
        let refused = asked(&house, &by(one, &of_alice)).await;
        assert!(refused.is_finished() && refused.await.unwrap().status() == 503, "{}", one.path);
        let refused = house.call(by(one, &of_alice)).await;
        assert!(refused.refused(503, "overloaded").contains("another replica"), "{}", refused.text());
        assert!(refused.header("retry-after").is_some());
    }
    let at_once = Ask { path: "/v1/resources/pages/a".to_owned(), ..by(&poll, &of_alice) };
    assert_eq!(house.call(at_once).await.status, 304);
    assert_eq!(house.answering(by(&events, &of_bob).request()).await.status(), 200);
    open.pop();
    open.push(house.answering(by(&events, &of_alice).request()).await);
    assert!(open.iter().all(|stream| stream.status() == 200));
    polling.abort();
    assert!(polling.await.is_err());
    let again = asked(&house, &by(&poll, &of_alice)).await;
    assert!(!again.is_finished(), "the place of a poll that was given up is free");
}

/// Those who watch by streams of the lease.
async fn streams(house: &House, lease: &Owned) -> Vec<JoinHandle<()>> {
    let mut watching = Vec::new();
    for _ in 0..READS_IN_FLIGHT {
        let stream = house.answering(ask("GET", &format!("/v1/leases/{}/events", lease.id)).request()).await;
        watching.push(tokio::spawn(async move { drop(stream.into_body().frame().await) }));
    }
    watching
}

/// Those who watch by long polls.
async fn polls(house: &House) -> Vec<JoinHandle<()>> {
    let poll = long_poll(house, "").await;
    let mut watching = Vec::new();
    for _ in 0..READS_IN_FLIGHT {
        let polling = asked(house, &poll).await;
        watching.push(tokio::spawn(async move { drop(polling.await) }));
    }
    watching
}

/// Broken: one renewal wakes everybody who watches, their looks take all reads that there are, and everybody else is told that
/// the gateway is overloaded. Must hold: they wait for each other, and the others find room.
#[tokio::test]
async fn those_who_watch_look_one_after_the_other() {
    for by_streams in [true, false] {
        let house = House::new().await;
        let lease = house.acquire("pages/a").await;
        let watching = if by_streams { streams(&house, &lease).await } else { polls(&house).await };
        settle().await;
        house.script.reads_stand_still.store(true, Ordering::SeqCst);
        house.clock.advance(1_000);
        house.call(ask("POST", &format!("/v1/leases/{}/renew", lease.id))).await.expect(200);
        settle().await;
        let other = asked(&house, &ask("GET", "/v1/resources")).await;
        assert!(!other.is_finished(), "it was refused: streams {by_streams}");
        assert!(watching.iter().all(|watches| !watches.is_finished()), "streams {by_streams}");
    }
}
