//! Bounds: what is too large, too many or too late is refused early, and nothing of it happens.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::Request;
use bytes::Bytes;
use fencegate::ledger::engine::CommitOutcome;
use fencegate::limits::{
    BATCH_COMMANDS, CONTROL_BODY_BYTES, HEADER_BYTES, HEADER_FIELDS, QUEUE_COMMANDS, READS_IN_FLIGHT,
};
use hyper::body::Frame;
use serde_json::json;

use super::house::{Ask, House, SMALL_BYTES, ask, write};

/// A body that counts how often it is asked, gives so many pieces and then never ends.
struct Endless {
    asked: Arc<AtomicUsize>,
    piece: Bytes,
    pieces: usize,
}

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.pieces.checked_sub(1) {
            Some(left) => {
                self.pieces = left;
                Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
            }
            None => Poll::Pending,
        }
    }
}

fn endless(ask: &Ask, pieces: usize) -> (Request<Body>, Arc<AtomicUsize>) {
    endless_of(ask, Bytes::from_static(b"0123456789"), pieces)
}

fn endless_of(ask: &Ask, piece: Bytes, pieces: usize) -> (Request<Body>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (head, _) = ask.request().into_parts();
    let body = Body::new(Endless { asked: asked.clone(), piece, pieces });
    (Request::from_parts(head, body), asked)
}

#[tokio::test]
async fn a_body_that_says_that_it_is_too_large_is_not_read() {
    let house = House::new().await;
    let lease = house.acquire("small/a").await;
    let put =
        write("PUT", "small/a", &lease.token, "one").with("content-length", &(SMALL_BYTES + 1).to_string());
    let (request, asked) = endless(&put, 0);
    // What follows reads on in a task of its own, so that the client gets to read the answer.
    let answer = house.send(request).await;
    assert!(answer.refused(413, "body_too_large").contains("namespace \"small\""));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let fits = "x".repeat(usize::try_from(SMALL_BYTES).unwrap());
    house.put("small/a", &lease.token, "one", &fits).await.expect(201);
}

#[tokio::test]
async fn a_body_without_a_length_is_stopped_at_the_limit() {
    let house = House::new().await;
    let (request, asked) = endless(&write("PUT", "small/a", "1", "one"), 1_000);
    house.send(request).await.refused(413, "body_too_large");
    assert!(asked.load(Ordering::SeqCst) <= 3, "it was read on");
    let (request, _) = endless(&write("DELETE", "small/a", "1", "one"), 1);
    house.send(request).await.refused(400, "invalid_body");
    let large = "x".repeat(CONTROL_BODY_BYTES + 1);
    for path in ["/v1/leases", "/v1/advance/jobs/a"] {
        let ask = ask("POST", path).with("content-type", "application/json").body(&large);
        house.call(ask).await.refused(413, "body_too_large");
    }
    let writes =
        ask("POST", "/v1/writes").with("content-type", "application/json").with("content-length", "67108865");
    house.send(writes.request()).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn large_bodies_beyond_the_memory_for_them_are_put_off() {
    let house = House::new().await;
    let mut under_way = Vec::new();
    let piece = Bytes::from(vec![0; 64 * 1_048_576]);
    // Four of 64 MiB take all that there is.
    for _ in 0..4 {
        let put = write("PUT", "large/a", "1", "one");
        let (request, asked) = endless_of(&put, piece.clone(), 1);
        under_way.push(tokio::spawn(house.answering(request)));
        while asked.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    }
    let refused = house.put("pages/a", "1", "one", "x").await;
    refused.refused(503, "overloaded");
    assert!(matches!(refused.header("retry-after"), Some("1" | "2" | "3" | "4")));
    under_way.pop().unwrap().abort();
    while house.put("pages/a", "1", "one", "x").await.status == 503 {
        tokio::task::yield_now().await;
    }
    house.put("pages/a", "1", "one", "x").await.refused(403, "token_not_yours");
}

#[tokio::test]
async fn heads_are_bounded() {
    let house = House::new().await;
    for path in ["/fenced/pages/a", "/v1/status", "/livez", "/nothing"] {
        let long = ask("GET", path).with("x-long", &"x".repeat(HEADER_BYTES));
        house.call(long).await.refused(431, "headers_too_large");
        let many =
            (0..=HEADER_FIELDS).fold(ask("GET", path), |ask, index| ask.with(&format!("x-{index}"), ""));
        house.call(many).await.refused(431, "headers_too_large");
    }
}

#[tokio::test]
async fn while_draining_nothing_new_is_taken_in() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.draining.cancel();
    let refused = house.put("pages/a", &lease.token, "one", "x").await;
    refused.refused(503, "draining");
    assert_eq!(refused.header("retry-after"), Some("1"));
    house.call(write("DELETE", "pages/a", &lease.token, "one")).await.refused(503, "draining");
    // What keeps a lease or ends it is served to the last.
    house.call(ask("POST", &format!("/v1/leases/{}/renew", lease.id))).await.expect(200);
    house.call(ask("POST", "/v1/writes").json(&json!({"writes": []}))).await.refused(503, "draining");
    house.get("/fenced/pages/a").await.refused(404, "not_found");
    house.call(ask("DELETE", &format!("/v1/leases/{}", lease.id))).await.expect(200);
}

#[tokio::test]
async fn a_database_that_cannot_commit_says_whether_anything_happened() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.script.commit_with(CommitOutcome::Failed("the disk is full".to_owned()));
    let failed = house.put("pages/a", &lease.token, "one", "x").await;
    failed.refused(503, "database_unavailable");
    assert_eq!((failed.header("fencing-effect"), failed.header("location")), (Some("none"), None));
    assert!(!failed.text().contains("disk"), "the database's own words are for the log");
    house.script.commit_with(CommitOutcome::Unknown("the connection is gone".to_owned()));
    let unknown = house.put("pages/a", &lease.token, "one", "x").await;
    assert!(unknown.refused(503, "database_unavailable").contains("same operation id"));
    assert_eq!(unknown.header("fencing-effect"), Some("unknown"));
    assert_eq!(unknown.header("location"), Some("/v1/operations/one?resource=pages%2Fa"));
    // A refusal had no effect whatever becomes of the batch.
    house.put("pages/a", "1", "two", "x").await.refused(403, "token_not_yours");
    house.script.reads_fail.store(true, Ordering::SeqCst);
    house.get("/fenced/pages/a").await.refused(503, "database_unavailable");
}

#[tokio::test]
async fn a_standstill_fills_the_queue_and_then_refuses() {
    let house = House::new().await;
    house.script.stands_still.store(true, Ordering::SeqCst);
    let one = write("PUT", "pages/a", "1", "one").body("x");
    let mut waiting = Vec::new();
    for _ in 0..QUEUE_COMMANDS {
        waiting.push(tokio::spawn(house.answering(one.request())));
        tokio::task::yield_now().await;
    }
    let refused = loop {
        tokio::task::yield_now().await;
        let one_more = tokio::spawn(house.answering(one.request()));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        if one_more.is_finished() {
            break one_more.await.unwrap();
        }
        waiting.push(one_more);
        assert!(waiting.len() <= QUEUE_COMMANDS + BATCH_COMMANDS, "the queue has no end");
    };
    assert_eq!(refused.status(), 503);
    assert!(["1", "2", "3", "4"].iter().any(|wait| refused.headers()["retry-after"] == *wait));
    // Reads have a bound of their own.
    let mut reading = Vec::new();
    for _ in 0..READS_IN_FLIGHT {
        reading.push(tokio::spawn(house.answering(ask("GET", "/v1/resources").request())));
    }
    while reading.len() < 2 * READS_IN_FLIGHT {
        tokio::task::yield_now().await;
        let one_more = tokio::spawn(house.answering(ask("GET", "/v1/resources").request()));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        if one_more.is_finished() {
            assert_eq!(one_more.await.unwrap().status(), 503);
            return;
        }
        reading.push(one_more);
    }
    panic!("reads have no end");
}
