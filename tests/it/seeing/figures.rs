//! That the figures are right: of what happened, no more and no less.

use fencegate::ledger::Ledger;
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::Settled;
use serde_json::json;

use super::{scrape, value};
use crate::support::client::Answer;
use crate::support::commands::{acquire, granted};
use crate::support::engines::{Kind, Running};
use crate::support::forwards::{announced, draft, forward, settle, settled};
use crate::support::gateway::Gateway;

/// Broken: an operator sees a healthy system while owners lose their leases, or a refusal counted as a success. Must hold:
/// owners, renewals with their lateness, replays, mismatches and refusals are counted once each, with their reason.
#[tokio::test]
async fn what_happened_is_counted_once() {
    let gateway = Gateway::start().await;
    let client = &gateway.client;
    let alice = client.acquire("pages/a", "alice").await;
    client.put("pages/a", &alice.token, "one", "x", &[]).await.expect(201);
    client.put("pages/a", &alice.token, "one", "x", &[]).await.expect(201);
    client.put("pages/a", &alice.token, "one", "y", &[]).await.refused(422, "operation_mismatch", "none");
    // The usual ttl is 30 s: it is to be renewed after 10 s, and comes 5 s late.
    gateway.advance(15_000).await;
    client.renew(&alice).await.expect(200);
    client.release(&alice).await.expect(200);
    let bob = client.acquire("pages/a", "bob").await;
    client.put("pages/a", &bob.token, "two", "z", &[]).await.expect(200);
    client.put("pages/a", &alice.token, "three", "late", &[]).await.refused(412, "stale_token", "none");
    client.renew(&alice).await.refused(410, "lease_released", "none");
    let text = scrape(&gateway).await;
    for (series, count) in [
        ("fencegate_decisions_total{namespace=\"pages\",outcome=\"granted\"}", 2.0),
        ("fencegate_decisions_total{namespace=\"pages\",outcome=\"applied\"}", 2.0),
        ("fencegate_replays_total{namespace=\"pages\"}", 1.0),
        ("fencegate_mismatches_total{namespace=\"pages\"}", 1.0),
        ("fencegate_refusals_total{namespace=\"pages\",code=\"stale_token\"}", 1.0),
        ("fencegate_ownership_transfers_total{namespace=\"pages\"}", 1.0),
        ("fencegate_renewals_total{namespace=\"pages\"}", 1.0),
        ("fencegate_renewal_failures_total{namespace=\"/other\",code=\"lease_released\"}", 1.0),
        ("fencegate_renewal_lateness_seconds_sum{namespace=\"pages\"}", 5.0),
        ("fencegate_renewal_remaining_seconds_sum{namespace=\"pages\"}", 15.0),
        ("fencegate_acquire_duration_seconds_count{namespace=\"pages\"}", 2.0),
        ("fencegate_breaker_tripped{namespace=\"*\"}", 0.0),
        ("fencegate_breaker_tripped{namespace=\"pages\"}", 0.0),
        ("fencegate_http_requests_total{route=\"/v1/leases\",method=\"POST\",class=\"2xx\"}", 2.0),
        (
            "fencegate_http_requests_total{route=\"/fenced/{namespace}/{name}\",method=\"PUT\",class=\"4xx\"}",
            2.0,
        ),
        ("fencegate_http_requests_in_flight", 1.0),
        ("fencegate_queue_commands{committer=\"0\"}", 0.0),
    ] {
        assert_eq!(value(&text, series).to_bits(), f64::to_bits(count), "{series}\n{text}");
    }
    gateway.stop().await;
}

/// Broken: whoever scrapes learns who works at what, and each resource costs a series for ever. Must hold: no resource, no
/// holder, no operation and no id stands in a scrape.
#[tokio::test]
async fn nobody_and_nothing_is_named_but_namespaces() {
    let gateway = Gateway::start().await;
    let client = &gateway.client;
    let lease = client.acquire("pages/secret-plan", "worker-alice").await;
    client.put("pages/secret-plan", &lease.token, "operation-one", "x", &[]).await.expect(201);
    client.get("/nowhere/at-all").await;
    let strange = reqwest::Method::from_bytes(b"MADEUP").unwrap();
    Answer::of(client.request(strange, "/v1/leases")).await;
    let text = scrape(&gateway).await;
    for word in ["secret-plan", "worker-alice", "operation-one", "at-all", "MADEUP", &lease.id, "request_id"]
    {
        assert!(!text.contains(word), "{word}:\n{text}");
    }
    assert!(text.contains("route=\"unmatched\""), "{text}");
    gateway.stop().await;
}

/// Broken: two gateways of one process count together. Must hold: each counts for itself.
#[tokio::test]
async fn each_gateway_counts_for_itself() {
    let (one, other) = (Gateway::start().await, Gateway::start().await);
    one.client.acquire("pages/a", "alice").await;
    let granted = "fencegate_decisions_total{namespace=\"pages\",outcome=\"granted\"}";
    assert_eq!(value(&scrape(&one).await, granted).to_bits(), 1_f64.to_bits());
    assert!(!scrape(&other).await.contains(granted));
    one.stop().await;
    other.stop().await;
}

/// Broken: a wait counts as a slow acquire, or not at all. Must hold: it counts as a wait, by whether it was worth it.
#[tokio::test]
async fn waits_are_counted_by_how_they_ended() {
    let gateway = Gateway::start().await;
    gateway.client.acquire("pages/a", "alice").await;
    let ask = json!({"resource": "pages/a", "holder": "bob", "wait_ms": 1});
    assert_eq!(gateway.client.post("/v1/leases", &ask).await.status, 409);
    let text = scrape(&gateway).await;
    let waits = |result: &str| {
        format!("fencegate_acquire_wait_seconds_count{{namespace=\"pages\",result=\"{result}\"}}")
    };
    assert_eq!(value(&text, &waits("in_vain")).to_bits(), 1_f64.to_bits());
    assert_eq!(value(&text, &waits("granted")).to_bits(), 0_f64.to_bits());
    assert_eq!(value(&text, "fencegate_waiters").to_bits(), 0_f64.to_bits());
    gateway.stop().await;
}

fn text_of(ledger: &Ledger) -> String {
    ledger.metrics().text(ledger.now()).unwrap()
}

/// Broken: an operation whose outcome nobody knows is seen by nobody. Must hold: the next look at the database counts it,
/// with its age, and forgets it when it is decided; a database that is away is seen too.
#[tokio::test]
async fn what_waits_for_its_outcome_is_counted_with_its_age() {
    let running = Running::start(Kind::Sqlite).await;
    let ledger = &running.ledger;
    let counting = ledger.counting();
    let grant = granted(ledger, acquire("lane/a", "alice", 1)).await;
    let publish = draft("lane/a", &grant.fencing_tokens[0].0, "publish", 1);
    let attempt = announced(ledger, forward(ledger, &publish, 1)).await;
    counting.once().await.unwrap();
    let state = |state: &str| format!("fencegate_operations{{namespace=\"lane\",state=\"{state}\"}}");
    assert_eq!(value(&text_of(ledger), &state("intent")).to_bits(), 1_f64.to_bits());
    let unclear = settled(ledger, settle(&attempt.intent, Finding::Doubt)).await;
    assert!(matches!(unclear, Settled::Uncertain(_)), "{unclear:?}");
    running.clock.advance(7_000);
    counting.once().await.unwrap();
    let text = text_of(ledger);
    assert_eq!(value(&text, &state("intent")).to_bits(), 0_f64.to_bits());
    assert_eq!(value(&text, &state("uncertain")).to_bits(), 1_f64.to_bits());
    assert_eq!(value(&text, "fencegate_oldest_uncertain_seconds").to_bits(), 7_f64.to_bits());
    assert_eq!(value(&text, "fencegate_database_up").to_bits(), 1_f64.to_bits());
    running.stop().await;
}
