//! A replica is stopped for longer than a lease, and others take over. When it wakes, nothing of what it was about to do
//! may replace what was done since.

use rustix::process::Signal;
use serde_json::json;
use sqlx::{Connection, Executor, PgConnection};

use super::Three;
use crate::support::postgres::load::{Addresses, Load, RULES};
use crate::support::postgres::patience;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_wakes_after_a_take_over_changes_nothing() {
    let name = "replicas::pauses::a_replica_that_wakes_after_a_take_over_changes_nothing";
    let Some(three) = Three::start(name, "[namespaces.jobs]\n").await else { return };
    let (paused, other) = (three.replicas[0].client(), three.replicas[1].client());
    let lease = json!({"resource": "jobs/a", "holder": "alice", "ttl_ms": 1_000});
    let alice = paused.post("/v1/leases", &lease).await.expect(201);
    let token = alice["fencing_token"].as_str().unwrap().to_owned();

    three.replicas[0].signal(Signal::STOP);
    // The kernel takes the request in; the replica does not see it yet.
    let late = {
        let (client, token) = (paused.clone(), token.clone());
        tokio::spawn(async move { client.put("jobs/a", &token, "alice-1", "older", &[]).await })
    };
    let bob = patience::until("Bob takes over", 5, async || {
        let answer = other.try_acquire("jobs/a", "bob").await;
        (answer.status == 201).then(|| answer.json())
    })
    .await;
    assert_eq!(bob["position"], "0.2");
    let token = bob["fencing_token"].as_str().unwrap();
    other.put("jobs/a", token, "bob-1", "newer", &[]).await.expect(201);
    three.replicas[0].signal(Signal::CONT);

    late.await.unwrap().refused(412, "stale_token", "none");
    let renewed = paused
        .post(&format!("/v1/leases/{}/renew", alice["acquisition_id"].as_str().unwrap()), &json!({}))
        .await;
    assert_eq!(renewed.status, 410, "{}", renewed.text());
    for replica in &three.replicas {
        assert_eq!(replica.client().get("/fenced/jobs/a").await.text(), "newer");
    }
    three.end();
}

/// Stopped between two steps of a transaction it holds the row, and can neither go on nor let go. The database ends its
/// transaction after some seconds; the same write through another replica is made then, and made once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_stopped_with_a_row_in_its_hands_loses_it() {
    let name = "replicas::pauses::a_replica_that_is_stopped_with_a_row_in_its_hands_loses_it";
    let Some(three) = Three::start(name, "[namespaces.jobs]\n").await else { return };
    let (paused, other) = (three.replicas[0].client(), three.replicas[1].client());
    let alice = paused.acquire("jobs/a", "alice").await;
    // Somebody holds the row until the replica waits for it and is stopped; then the replica gets it, and does not know.
    let mut somebody = PgConnection::connect(&three.database.admin).await.unwrap();
    somebody.execute("BEGIN").await.unwrap();
    somebody.execute("SELECT 1 FROM resources WHERE resource = 'jobs/a' FOR UPDATE").await.unwrap();
    let first = {
        let (client, token) = (paused.clone(), alice.token.clone());
        tokio::spawn(async move { client.put("jobs/a", &token, "op-1", "body", &[]).await })
    };
    patience::until("the replica waits for the row", 5, async || {
        let mut look = PgConnection::connect(&three.database.admin).await.unwrap();
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event_type = 'Lock')";
        let waits: bool = sqlx::query_scalar(waits).fetch_one(&mut look).await.unwrap();
        waits.then_some(())
    })
    .await;
    three.replicas[0].signal(Signal::STOP);
    somebody.execute("COMMIT").await.unwrap();

    let made = patience::until("another replica makes the write", 10, async || {
        let answer = other.put("jobs/a", &alice.token, "op-1", "body", &[]).await;
        (answer.status == 201).then_some(answer)
    })
    .await;
    assert_eq!(made.json()["commit"], "1");
    three.replicas[0].signal(Signal::CONT);
    // The first caller hears that it is not known, or is told of the one write; and there is one.
    let first = first.await.unwrap();
    assert!([201, 503].contains(&first.status), "{}", first.text());
    let again = paused.put("jobs/a", &alice.token, "op-1", "body", &[]).await;
    assert_eq!((again.status, &again.bytes), (201, &made.bytes), "{}", again.text());
    assert_eq!(other.get("/v1/resources/jobs/a").await.expect(200)["commit"], "1");
    three.end();
}

/// Stopped under load, whatever it was doing: others go on with the same rows, nothing that was half done appears when it
/// wakes, and no acknowledged write is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_stopped_in_the_middle_of_its_work_holds_nobody_up_for_ever() {
    let name =
        "replicas::pauses::a_replica_that_is_stopped_in_the_middle_of_its_work_holds_nobody_up_for_ever";
    let Some(three) = Three::start(name, RULES).await else { return };
    let addresses = Addresses::of(&three.bases());
    let mut load = Load::start(12, &addresses, &["database_unavailable"]);
    load.proceed(100, 30).await;
    for replica in &three.replicas[..2] {
        replica.signal(Signal::STOP);
        load.proceed(150, 30).await;
        replica.signal(Signal::CONT);
        load.proceed(50, 30).await;
    }
    load.finish_and_check(&three.replicas[2].client()).await;
    three.end();
}
