//! Replicas whose files differ, and replicas of which one calls a job off.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client::{Answer, Client};
use crate::support::postgres::needed;
use crate::support::postgres::replica::Site;

async fn change(client: &Client, version: u64, key: &str) -> Answer {
    let body = json!({"reason": "several writes in one generation", "confirm": "jobs", "version": version});
    let request = client.request(Method::POST, "/v1/namespaces/jobs/definition");
    Answer::of(request.header("idempotency-key", key).json(&body)).await
}

async fn definitions(client: &Client) -> Value {
    client.get("/readyz?verbose").await.json()["checks"][2].clone()
}

/// A definition that is changed under a running replica must not be half in force: whoever has the old file serves the
/// namespace no more, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_the_old_file_stops_serving_the_namespace() {
    let Some(database) =
        needed("replicas::definitions::a_replica_with_the_old_file_stops_serving_the_namespace").await
    else {
        return;
    };
    let site = Site::new(&database.url, "max_connections = 4\n[namespaces.jobs]\npolicy = \"single\"\n");
    let old = site.start();
    let lease = old.client().acquire("jobs/a", "alice").await;
    old.client().put("jobs/a", &lease.token, "one", "x", &[]).await.expect(201);
    old.client().put("jobs/a", &lease.token, "two", "x", &[]).await.refused(412, "generation_spent", "none");

    site.configure(&database.url, "max_connections = 4\n[namespaces.jobs]\npolicy = \"session\"\n");
    let new = site.start();
    new.client().get("/fenced/jobs/a").await.refused(503, "definition_differs", "none");
    let shown = new.client().get("/v1/namespaces/jobs").await.expect(200);
    assert_eq!((&shown["version"], &shown["change"]["possible"]), (&json!(1), &json!(true)), "{shown:#}");
    assert_eq!(shown["change"]["parts"][0]["key"], "policy");
    change(&new.client(), 9, "k0").await.refused(409, "version_differs", "none");
    let changed = change(&new.client(), 1, "k1").await;
    assert_eq!(changed.expect(200)["version"], 2);
    assert_eq!(change(&new.client(), 2, "k1").await.header("idempotent-replayed"), Some("true"));

    // The fence is as it was: the owner goes on under the new policy, at the replica that knows it.
    let tag = new.client().get("/fenced/jobs/a").await.header("etag").unwrap().to_owned();
    new.client().put("jobs/a", &lease.token, "two", "y", &[("if-match", &tag)]).await.expect(200);
    old.client().put("jobs/a", &lease.token, "three", "z", &[]).await.refused(
        503,
        "definition_differs",
        "none",
    );
    old.client().get("/fenced/jobs/a").await.refused(503, "definition_differs", "none");
    let told = definitions(&old.client()).await;
    let detail = told["detail"].as_str().unwrap().to_owned();
    assert!(told["ok"] == false && detail.contains("policy=session"), "{told}");
    assert_eq!(definitions(&new.client()).await["ok"], true);
    let warned = old.warnings().iter().any(|line| line.contains("differs from the recorded definition"));
    assert!(warned, "{:?}", old.warnings());
    // Other namespaces are nobody's trouble; and who held the other file cannot turn it back without saying so.
    change(&old.client(), 1, "k2").await.refused(409, "version_differs", "none");
    let told = new.client().get("/v1/timeline/jobs/a").await.expect(200);
    let acts = told["items"].as_array().unwrap().iter().filter(|item| item["event"] == "definition_changed");
    let reasons: Vec<&str> = acts.map(|item| item["reason"].as_str().unwrap()).collect();
    assert!(reasons.len() == 1 && reasons[0].starts_with("several writes in one generation"), "{told:#}");
    assert_eq!((old.terminate(), new.terminate()), (Some(0), Some(0)));
}

/// One replica is told, and the worker and its replacement speak to the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_one_replica_called_off_is_off_at_all_of_them() {
    let Some(database) =
        needed("replicas::definitions::a_job_that_one_replica_called_off_is_off_at_all_of_them").await
    else {
        return;
    };
    let site = Site::new(&database.url, "max_connections = 4\n");
    let (one, other) = (site.start(), site.start());
    let alice = one.client().acquire("jobs/a", "alice").await;
    let body = json!({"reason": "the customer left"});
    other.client().post("/v1/cancel/jobs/a", &body).await.expect(200);
    one.client().put("jobs/a", &alice.token, "publish", "x", &[]).await.refused(409, "cancelled", "none");
    assert_eq!(
        one.client().renew(&alice).await.refused(410, "lease_superseded", "none")["cancel_requested"],
        true
    );
    one.client().try_acquire("jobs/a", "bob").await.refused(409, "cancelled", "none");
    // The one that was told dies; a new one takes its place.
    other.kill();
    let third = site.start();
    third.client().try_acquire("jobs/a", "bob").await.refused(409, "cancelled", "none");
    let request = third.client().request(Method::POST, "/v1/reopen/jobs/a");
    Answer::of(request.header("idempotency-key", "r").json(&body)).await.expect(200);
    one.client().put("jobs/a", &alice.token, "publish", "x", &[]).await.refused(412, "stale_token", "none");
    let bob = one.client().acquire("jobs/a", "bob").await;
    third.client().put("jobs/a", &bob.token, "publish", "x", &[]).await.expect(201);
    assert_eq!((one.terminate(), third.terminate()), (Some(0), Some(0)));
}
