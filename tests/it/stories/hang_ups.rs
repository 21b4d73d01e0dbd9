//! Clients that hang up at every byte of their requests and of the answers: what they sent whole is decided once, what they
//! did not never was.
//!
//! `FENCEGATE_TEST_HANG_UPS=n` hangs up n times instead, here and with two connections to PostgreSQL
//! (`postgres::connections`).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::client::{Answer, Client};
use crate::support::gateway::{Gateway, Process};

/// Hang-ups over the whole test: more than there are bytes in a request and its answer.
const ROUNDS: usize = 2_400;

/// Clients at once.
const LANES: usize = 8;

/// Longer than any answer is.
const ANSWER: usize = 1_000;

pub(crate) const RULES: &str = "[namespaces.jobs]\npolicy = \"ordered\"\ngapless = true\n";

/// So many, or as many as the variable says.
pub(crate) fn rounds(usually: usize) -> usize {
    let named = std::env::var("FENCEGATE_TEST_HANG_UPS");
    named.map_or(usually, |number| number.parse().expect("FENCEGATE_TEST_HANG_UPS is a number"))
}

/// Sends the first `cut` bytes of a request, reads at most `read` bytes of the answer, and is gone.
fn hang_up(address: &str, request: &[u8], cut: usize, read: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    // The gateway may have refused half a request already; that is part of the game.
    drop(stream.write_all(&request[..cut]));
    if read > 0 {
        let mut answer = vec![0; read];
        drop(stream.read(&mut answer));
    }
    drop(stream.shutdown(Shutdown::Both));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_neither_loses_nor_doubles_a_write() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("fencegate.toml"), RULES).unwrap();
    let process = Process::start(folder.path());
    let each = hang_ups_in_lanes(&process.client(), rounds(ROUNDS)).await;
    println!("{} hang-ups", each * LANES);
    process.kill();
    // A second process reads all of it.
    let process = Process::start(folder.path());
    all_is_there(&process.client(), each).await;
    assert_eq!(process.terminate(), Some(0));
}

/// So many hang-ups by several clients, each with a resource of its own. Says how many each of them made.
pub(crate) async fn hang_ups_in_lanes(client: &Client, all: usize) -> usize {
    let each = all / LANES;
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let client = client.clone();
        // They begin at different bytes, so that all of them together are everywhere.
        lanes.spawn(async move { hang_ups_on(&format!("jobs/{lane}"), &client, each, lane * each).await });
    }
    lanes.join_all().await;
    each
}

/// The gateway has every write that was acknowledged, and nothing else.
pub(crate) async fn all_is_there(client: &Client, each: usize) {
    for lane in 0..LANES {
        let read = client.get(&format!("/fenced/jobs/{lane}")).await;
        assert_eq!(read.text(), format!("body of {each}"));
        let resource = client.get(&format!("/v1/resources/jobs/{lane}")).await.expect(200);
        assert_eq!(resource["commit"], each.to_string(), "a write was lost or doubled");
    }
}

/// Writes to one resource, each of them hung up on once; then none is lost and none doubled.
async fn hang_ups_on(name: &str, client: &Client, rounds: usize, first: usize) {
    let lease = client.post("/v1/leases", &json!({"resource": name, "ttl_ms": 3_600_000})).await.expect(201);
    let token = lease["fencing_token"].as_str().unwrap();
    for sequence in 1..=rounds {
        let body = format!("body of {sequence}");
        let request = format!(
            "PUT /fenced/{name} HTTP/1.1\r\nhost: localhost\r\nfencing-token: {token}\r\nidempotency-key: op-{sequence}\r\n\
             fencing-sequence: {sequence}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        // Every other one sends all of it and leaves before, in the middle of or after the answer; the others leave at some
        // byte of the request.
        let turn = first + sequence;
        let (whole, at) = (turn.is_multiple_of(2), turn / 2);
        let cut = if whole { request.len() } else { 1 + at % (request.len() - 1) };
        let (address, read) = (client.address().to_owned(), if whole { at % ANSWER } else { 0 });
        tokio::task::spawn_blocking(move || hang_up(&address, request.as_bytes(), cut, read)).await.unwrap();
        settle(client, name, token, sequence, &body).await;
    }
}

/// The caller comes back with the same operation: it is applied now, or it was, and one of the two is said.
async fn settle(client: &Client, name: &str, token: &str, sequence: usize, body: &str) {
    let path = format!("/fenced/{name}");
    let request = || {
        let request = client.request(Method::PUT, &path).header("fencing-token", token);
        let request = request.header("idempotency-key", format!("op-{sequence}"));
        request.header("fencing-sequence", sequence.to_string()).body(body.to_owned())
    };
    // A connection that had nothing to do may be closed in the moment in which it is used again.
    let answer = match Answer::unless_gone(request()).await {
        Some(answer) => answer,
        None => Answer::of(request()).await,
    };
    let receipt = if sequence == 1 { answer.expect(201) } else { answer.expect(200) };
    assert_eq!(receipt["commit"], sequence.to_string());
}

/// A client that asks for a large document and never reads would otherwise keep a stopping gateway for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_does_not_keep_the_gateway_from_stopping() {
    let gateway = Gateway::start().await;
    let lease = gateway.client.acquire("jobs/large", "alice").await;
    let large = "x".repeat(1_048_576);
    gateway.client.put("jobs/large", &lease.token, "op-1", &large, &[]).await.expect(201);
    let mut idle = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(gateway.client.address()).unwrap();
        stream.write_all(b"GET /fenced/jobs/large HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        // Something of the answer has come, so the request is under way.
        stream.read_exact(&mut [0; 64]).unwrap();
        idle.push(stream);
    }
    gateway.stop().await;
    drop(idle);
}

/// Whoever read the log is gone: a write must not fail because of that, and a stop must still end the process.
#[tokio::test]
async fn a_log_that_nobody_reads_fails_no_write() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start_unheard(folder.path());
    let client = process.client();
    for number in 0..20 {
        let name = format!("jobs/{number}");
        let lease = client.acquire(&name, "alice").await;
        client.put(&name, &lease.token, "op-1", "body", &[]).await.expect(201);
        client.put(&name, &lease.token, "op-2", "body", &[]).await.refused(412, "generation_spent", "none");
    }
    assert_eq!(process.terminate(), Some(0));
}
