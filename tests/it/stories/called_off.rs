//! A job is called off: it stays so, whoever comes after, and through whatever happens to the gateway.

use serde_json::{Value, json};

use crate::support::client::{Answer, Client};
use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([sqlite Sqlite, postgres Postgres], [a_cancelled_job_stays_cancelled_through_restarts_and_expiries, a_worker_that_misses_the_signal_is_refused_and_its_replacement_does_not_begin]);

async fn called(client: &Client, verb: &str, name: &str, key: &str) -> Answer {
    let request = client.request(reqwest::Method::POST, &format!("/v1/{verb}/{name}"));
    Answer::of(request.header("idempotency-key", key).json(&json!({"reason": "the customer left"}))).await
}

async fn state(client: &Client, name: &str) -> Value {
    client.get(&format!("/v1/resources/{name}")).await.expect(200)["state"].clone()
}

async fn a_cancelled_job_stays_cancelled_through_restarts_and_expiries(kind: Kind) {
    // Broken: the cancellation lives in the lease or in the process, and with the end of either the next worker begins the
    // job anew. Must hold: cancelled until it is reopened, and then every token of before stays refused.
    let gateway = Gateway::on(kind).await;
    let alice = gateway.client.acquire("jobs/a", "alice").await;
    assert_eq!(state(&gateway.client, "jobs/a").await, "generating");
    called(&gateway.client, "cancel", "jobs/a", "c1").await.expect(200);
    called(&gateway.client, "cancel", "jobs/never-begun", "c1").await.expect(200);
    let gateway = gateway.restart().await;
    gateway.advance(7_200_000).await;
    let client = &gateway.client;
    for name in ["jobs/a", "jobs/never-begun"] {
        assert_eq!(state(client, name).await, "cancelled");
        client.try_acquire(name, "bob").await.refused(409, "cancelled", "none");
    }
    client.put("jobs/a", &alice.token, "late", "x", &[]).await.refused(409, "cancelled", "none");
    let listed = client.get("/v1/resources?state=cancelled").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");

    let reopened = called(client, "reopen", "jobs/a", "r1").await.expect(200);
    assert_eq!(reopened["state"], "pending");
    let gateway = gateway.restart().await;
    let client = &gateway.client;
    client.put("jobs/a", &alice.token, "late", "x", &[]).await.refused(412, "stale_token", "none");
    // The copies that come late do nothing, in whatever order.
    let again = called(client, "cancel", "jobs/a", "c1").await;
    assert_eq!(
        (again.header("idempotent-replayed"), &again.json()["life"]),
        (Some("true"), &"cancelled".into())
    );
    let bob = client.acquire("jobs/a", "bob").await;
    client.put("jobs/a", &bob.token, "publish", "x", &[]).await.expect(201);
    called(client, "cancel", "jobs/a", "c2").await.expect(200);
    assert_eq!(called(client, "reopen", "jobs/a", "r1").await.header("idempotent-replayed"), Some("true"));
    assert_eq!(state(client, "jobs/a").await, "cancelled", "a delayed reopen has opened it again");
    assert_eq!(client.get("/fenced/jobs/a").await.text(), "x", "what was published stays");
    gateway.stop().await;
}

async fn a_worker_that_misses_the_signal_is_refused_and_its_replacement_does_not_begin(kind: Kind) {
    // Broken: the worker that hears nothing publishes after all, or the one that follows it starts the job again. Must hold:
    // its writes are refused, its renewal tells it why, and the replacement is told at its acquire; also after its lease
    // would have ended, and after a restart.
    let mut gateway = Gateway::on(kind).await;
    let alice = gateway.client.acquire("jobs/a", "alice").await;
    called(&gateway.client, "cancel", "jobs/a", "c1").await.expect(200);
    for round in 0..3 {
        let client = &gateway.client;
        client.put("jobs/a", &alice.token, "publish", "x", &[]).await.refused(409, "cancelled", "none");
        let renewal = client.renew(&alice).await.refused(410, "lease_superseded", "none");
        assert_eq!(renewal["cancel_requested"], true, "round {round}: {renewal}");
        client.try_acquire("jobs/a", "replacement").await.refused(409, "cancelled", "none");
        client.get("/fenced/jobs/a").await.refused(404, "not_found", "none");
        if round == 0 {
            gateway.advance(40_000).await;
        } else if round == 1 {
            gateway = gateway.restart().await;
        }
    }
    // Revoking is for the generation alone: the next one may begin at once.
    called(&gateway.client, "reopen", "jobs/a", "r1").await.expect(200);
    let bob = gateway.client.acquire("jobs/a", "bob").await;
    called(&gateway.client, "revoke", "jobs/a", "v1").await.expect(200);
    gateway = gateway.restart().await;
    gateway.client.put("jobs/a", &bob.token, "publish", "x", &[]).await.refused(412, "stale_token", "none");
    let carol = gateway.client.acquire("jobs/a", "carol").await;
    gateway.client.put("jobs/a", &carol.token, "publish", "x", &[]).await.expect(201);
    gateway.stop().await;
}
