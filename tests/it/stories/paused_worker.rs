//! The owner is paused past its lease, another takes over and publishes, and the first one wakes.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [alice_resumes_after_bob_published, alice_resumes_after_bob_acquired_and_before_he_wrote, alice_resumes_and_nobody_came_after_her]);

async fn alice_resumes_after_bob_published(kind: Kind) {
    // Broken without a fence: Alice's older result replaces Bob's newer one. Must hold: Bob's stands, and Alice learns it.
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("statements/a", "alice").await;
    gateway.advance(30_000).await;
    let bob = client.acquire("statements/a", "bob").await;
    client.put("statements/a", &bob.token, "bob-1", "newer", &[]).await.expect(201);

    let late = client.put("statements/a", &alice.token, "alice-1", "older", &[]).await;
    let problem = late.refused(412, "stale_token", "none");
    assert_eq!(problem["retryable"], false);
    assert_eq!(problem["presented"]["position"], "0.1");
    assert_eq!(problem["current"]["position"], "0.2");
    assert_eq!(late.header("fencing-effect"), Some("none"));
    assert_eq!(late.header("fencing-floor"), Some("0.2"));
    assert!(late.header("retry-after").is_none());
    assert!(!late.text().contains(&bob.id) && !late.text().contains(&bob.token));
    assert_eq!(client.get("/fenced/statements/a").await.text(), "newer");
    gateway.stop().await;
}

async fn alice_resumes_after_bob_acquired_and_before_he_wrote(kind: Kind) {
    // `immediate`: from the moment that Bob's acquire was answered nothing of Alice is admitted.
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("statements/a", "alice").await;
    gateway.advance(30_000).await;
    let bob = client.acquire("statements/a", "bob").await;
    client.put("statements/a", &alice.token, "alice-1", "older", &[]).await.refused(
        412,
        "stale_token",
        "none",
    );
    client.get("/fenced/statements/a").await.refused(404, "not_found", "none");
    client.put("statements/a", &bob.token, "bob-1", "newer", &[]).await.expect(201);
    gateway.stop().await;
}

async fn alice_resumes_and_nobody_came_after_her(kind: Kind) {
    // An expired owner may still write until someone comes after it: that is what `immediate` says.
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("statements/a", "alice").await;
    gateway.advance(300_000).await;
    client.put("statements/a", &alice.token, "alice-1", "only", &[]).await.expect(201);
    gateway.stop().await;
}
