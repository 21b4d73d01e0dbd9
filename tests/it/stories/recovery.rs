//! The publisher dies before its bookkeeping; its replacement must find that the work is done.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [the_replacement_repeats_the_operation_and_no_second_commit_happens]);

async fn the_replacement_repeats_the_operation_and_no_second_commit_happens(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/invoice-7", "alice").await;
    let first = client.put("jobs/invoice-7", &alice.token, "publish-invoice-7", "the invoice", &[]).await;
    first.expect(201);
    // Alice dies here: her own database never learns that it is published. Bob repeats under a newer position.
    gateway.advance(30_000).await;
    let bob = client.acquire("jobs/invoice-7", "bob").await;
    let found = client.put("jobs/invoice-7", &bob.token, "publish-invoice-7", "the invoice", &[]).await;
    assert_eq!((found.status, &found.bytes), (201, &first.bytes));
    assert_eq!(found.header("idempotent-replayed"), Some("true"));
    assert_eq!(found.header("fencing-position"), Some("0.1"));
    let resource = client.get("/v1/resources/jobs/invoice-7").await.expect(200);
    assert_eq!(
        (resource["commit"].as_str(), resource["applied"]["position"].as_str()),
        (Some("1"), Some("0.1"))
    );
    let operations = client.get("/v1/operations?resource=jobs/invoice-7").await.expect(200);
    assert_eq!(operations["items"].as_array().unwrap().len(), 1);
    gateway.stop().await;
}
