//! The write was applied, and its answer never arrived.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [the_owner_asks_again_and_gets_the_first_answer, the_owner_learns_it_although_superseded_a_millisecond_later, the_outcome_can_be_asked_for_without_sending_the_payload_again]);

async fn the_owner_asks_again_and_gets_the_first_answer(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    let first = client.put("jobs/a", &alice.token, "publish-1", "report", &[]).await;
    first.expect(201);
    assert!(first.header("idempotent-replayed").is_none());
    let again = client.put("jobs/a", &alice.token, "publish-1", "report", &[]).await;
    assert_eq!((again.status, &again.bytes), (201, &first.bytes));
    for header in ["etag", "fencing-position", "fencing-commit", "location", "content-type", "fencing-effect"]
    {
        assert_eq!(again.header(header), first.header(header), "{header}");
    }
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let resource = client.get("/v1/resources/jobs/a").await.expect(200);
    assert_eq!(resource["commit"], "1", "the retry was applied a second time");
    gateway.stop().await;
}

async fn the_owner_learns_it_although_superseded_a_millisecond_later(kind: Kind) {
    // Replay crosses generations; it must not raise the floor either.
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    client.put("jobs/a", &alice.token, "publish-1", "report", &[]).await.expect(201);
    gateway.advance(30_000).await;
    client.acquire("jobs/a", "bob").await;
    let before = client.get("/v1/resources/jobs/a").await.expect(200);
    let again = client.put("jobs/a", &alice.token, "publish-1", "report", &[]).await;
    again.expect(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let after = client.get("/v1/resources/jobs/a").await.expect(200);
    assert_eq!(
        (before["floor"].as_str(), before["commit"].as_str()),
        (after["floor"].as_str(), after["commit"].as_str())
    );
    gateway.stop().await;
}

async fn the_outcome_can_be_asked_for_without_sending_the_payload_again(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    let first = client.put("jobs/a", &alice.token, "publish/1?x=\"y\"", "report", &[]).await;
    first.expect(201);
    let operation = client.get(first.header("location").unwrap()).await.expect(200);
    assert_eq!(operation["operation_id"], "publish/1?x=\"y\"");
    assert_eq!(
        (operation["state"].as_str(), operation["effect"].as_str()),
        (Some("applied"), Some("applied"))
    );
    assert_eq!(operation["response"]["status"], 201);
    client.get("/v1/operations/never?resource=jobs/a").await.refused(404, "not_found", "none");
    gateway.stop().await;
}
