//! A resource is deleted and created again; nothing of its first life reaches into the second.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [a_tombstone_keeps_its_counters_and_an_old_write_stays_out, an_honest_late_retry_finds_its_own_life, deleting_what_never_was_changes_nothing]);

async fn a_tombstone_keeps_its_counters_and_an_old_write_stays_out(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    client.put("jobs/a", &alice.token, "create", "first life", &[]).await.expect(201);
    client.release(&alice).await.expect(200);
    let bob = client.acquire("jobs/a", "bob").await;
    let gone = client.remove("jobs/a", &bob.token, "delete").await;
    gone.expect(200);
    assert_eq!(gone.header("etag"), None);
    client.get("/fenced/jobs/a").await.refused(410, "deleted", "none");
    // The lease of the deleting position ended with the deletion.
    assert_eq!(client.get(&format!("/v1/leases/{}", bob.id)).await.expect(200)["state"], "released");
    client.put("jobs/a", &bob.token, "again", "same generation", &[]).await.refused(410, "deleted", "none");
    client.put("jobs/a", &alice.token, "again", "older", &[]).await.refused(410, "deleted", "none");

    let carol = client.acquire("jobs/a", "carol").await;
    assert_eq!(carol.position, "0.3", "the counter restarted");
    client
        .put("jobs/a", &carol.token, "update", "x", &[("fencing-incarnation", "1")])
        .await
        .refused(410, "deleted", "none");
    client.put("jobs/a", &carol.token, "update", "x", &[("if-match", "\"1.1\"")]).await.refused(
        412,
        "precondition_failed",
        "none",
    );
    let reborn = client.put("jobs/a", &carol.token, "create", "second life", &[("if-none-match", "*")]).await;
    let problem = reborn.refused(422, "operation_mismatch", "none");
    assert!(problem["detail"].as_str().unwrap().len() > 20);
    let reborn =
        client.put("jobs/a", &carol.token, "create-2", "second life", &[("if-none-match", "*")]).await;
    let receipt = reborn.expect(201);
    assert_eq!((receipt["incarnation"].as_str(), receipt["etag"].as_str()), (Some("2"), Some("\"2.3\"")));
    gateway.stop().await;
}

async fn an_honest_late_retry_finds_its_own_life(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    let first = client.put("jobs/a", &alice.token, "create", "first life", &[]).await;
    client.release(&alice).await.expect(200);
    let bob = client.acquire("jobs/a", "bob").await;
    client.remove("jobs/a", &bob.token, "delete").await.expect(200);
    let carol = client.acquire("jobs/a", "carol").await;
    client.put("jobs/a", &carol.token, "create-2", "second life", &[]).await.expect(201);
    let dave = {
        client.release(&carol).await.expect(200);
        client.acquire("jobs/a", "dave").await
    };
    // The same name in the second life is an operation of its own.
    let own = client.put("jobs/a", &dave.token, "create", "second life, second edit", &[]).await;
    assert_eq!(own.expect(200)["incarnation"], "2");
    let late = client.put("jobs/a", &alice.token, "create", "first life", &[]).await;
    assert_eq!((late.status, &late.bytes), (201, &first.bytes));
    assert_eq!(late.header("idempotent-replayed"), Some("true"));
    let named =
        client.put("jobs/a", &dave.token, "create", "first life", &[("fencing-incarnation", "1")]).await;
    assert_eq!(named.bytes, first.bytes);
    client.put("jobs/a", &dave.token, "new", "x", &[("fencing-incarnation", "1")]).await.refused(
        410,
        "incarnation_gone",
        "none",
    );
    gateway.stop().await;
}

async fn deleting_what_never_was_changes_nothing(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    client.remove("jobs/a", &alice.token, "delete").await.refused(404, "not_found", "none");
    client.put("jobs/a", &alice.token, "delete", "the id is free", &[]).await.expect(201);
    gateway.stop().await;
}
