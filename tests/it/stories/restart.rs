//! The gateway stops in good order and comes back.

use serde_json::json;

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([sqlite Sqlite, postgres Postgres], [leases_tokens_floors_and_answers_survive]);

async fn leases_tokens_floors_and_answers_survive(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let request = json!({"resource": "jobs/a", "holder": "alice", "request_id": "018f4e9a-0000-7000-8000-000000000001"});
    let lease = gateway.client.post("/v1/leases", &request).await.expect(201);
    let token = lease["fencing_token"].as_str().unwrap().to_owned();
    let first = gateway.client.put("jobs/a", &token, "publish", "before", &[]).await;
    first.expect(201);

    let gateway = gateway.restart().await;
    let client = &gateway.client;
    let again = client.post("/v1/leases", &request).await.expect(200);
    assert_eq!(again["acquisition_id"], lease["acquisition_id"]);
    assert_eq!(again["fencing_token"], lease["fencing_token"]);
    let replay = client.put("jobs/a", &token, "publish", "before", &[]).await;
    assert_eq!((replay.status, &replay.bytes), (201, &first.bytes));
    let read = client.get("/fenced/jobs/a").await;
    assert_eq!((read.text().as_str(), read.header("etag")), ("before", first.header("etag")));
    client.try_acquire("jobs/a", "bob").await.refused(409, "lease_held", "none");
    gateway.advance(30_000).await;
    assert_eq!(client.acquire("jobs/a", "bob").await.position, "0.2");
    gateway.stop().await;
}
