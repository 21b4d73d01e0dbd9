//! One operation id, two payloads: a bug of the caller that must never be guessed away.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [the_same_id_with_another_payload_is_a_conflict_and_the_first_stands, a_refused_id_is_not_bound]);

async fn the_same_id_with_another_payload_is_a_conflict_and_the_first_stands(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    client.put("jobs/a", &alice.token, "publish-1", "first", &[]).await.expect(201);
    client.put("jobs/a", &alice.token, "publish-1", "second", &[]).await.refused(
        422,
        "operation_mismatch",
        "none",
    );
    client
        .put("jobs/a", &alice.token, "publish-1", "first", &[("content-type", "text/plain")])
        .await
        .refused(422, "operation_mismatch", "none");
    client.put("jobs/a", &alice.token, "publish-1", "first", &[("if-none-match", "*")]).await.refused(
        422,
        "operation_mismatch",
        "none",
    );
    client.remove("jobs/a", &alice.token, "publish-1").await.refused(422, "operation_mismatch", "none");
    assert_eq!(client.get("/fenced/jobs/a").await.text(), "first");
    gateway.stop().await;
}

async fn a_refused_id_is_not_bound(kind: Kind) {
    // A delivery answered `none` had no effect: the operation may succeed later under a newer position.
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.advance(30_000).await;
    let bob = client.acquire("jobs/a", "bob").await;
    client.put("jobs/a", &alice.token, "publish-1", "older", &[]).await.refused(412, "stale_token", "none");
    client.put("jobs/a", &bob.token, "publish-1", "newer", &[]).await.expect(201);
    assert_eq!(client.get("/fenced/jobs/a").await.text(), "newer");
    gateway.stop().await;
}
