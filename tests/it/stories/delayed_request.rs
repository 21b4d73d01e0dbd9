//! A request is held up by the network and arrives after newer ones.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [the_first_delivery_arrives_after_the_second_generation_wrote, a_copy_of_an_applied_request_arrives_after_newer_writes]);

async fn the_first_delivery_arrives_after_the_second_generation_wrote(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    client.release(&alice).await.expect(200);
    let bob = client.acquire("jobs/a", "bob").await;
    client.put("jobs/a", &bob.token, "bob-1", "bob's", &[]).await.expect(201);
    for _ in 0..3 {
        client.put("jobs/a", &alice.token, "alice-1", "alice's", &[]).await.refused(
            412,
            "stale_token",
            "none",
        );
    }
    assert_eq!(client.get("/fenced/jobs/a").await.text(), "bob's");
    gateway.stop().await;
}

async fn a_copy_of_an_applied_request_arrives_after_newer_writes(kind: Kind) {
    // A delayed copy must neither act again nor be told "no": it is told what became of the operation.
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    let first = client.put("jobs/a", &alice.token, "alice-1", "alice's", &[]).await;
    client.release(&alice).await.expect(200);
    let bob = client.acquire("jobs/a", "bob").await;
    client.put("jobs/a", &bob.token, "bob-1", "bob's", &[]).await.expect(200);
    let copy = client.put("jobs/a", &alice.token, "alice-1", "alice's", &[]).await;
    assert_eq!((copy.status, &copy.bytes), (first.status, &first.bytes));
    assert_eq!(copy.header("idempotent-replayed"), Some("true"));
    assert_eq!(copy.header("fencing-position"), Some("0.1"));
    assert_eq!(copy.header("fencing-floor"), Some("0.2"));
    assert_eq!(client.get("/fenced/jobs/a").await.text(), "bob's");
    gateway.stop().await;
}
