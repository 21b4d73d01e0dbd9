//! Transfer, revoke, cancel and reopen, with copies that come again at another gateway.

use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{RACE, Scene, Shape, acquire, id_of, release, request_id, slack, told_on, wanted};
use crate::support::client::{Answer, Client};

told_on!([sqlite Sqlite, postgres Postgres, replicas Replicas], [
    a_transfer_makes_the_successor_the_owner_once,
    a_revoke_ends_the_generation_once,
    a_cancel_stops_the_work_and_a_reopen_lets_it_begin_anew,
    a_cancel_sends_those_who_wait_away,
]);

/// A control call under a key.
async fn control(client: &Client, call: &str, key: &str, body: &Value) -> Answer {
    let request = client.request(Method::POST, &format!("/v1/{call}")).header("idempotency-key", key);
    Answer::of(request.json(body)).await
}

async fn renew(client: &Client, lease: &Value) -> Answer {
    client.post(&format!("/v1/leases/{}/renew", id_of(lease)), &json!({})).await
}

fn token(lease: &Value) -> &str {
    lease["fencing_token"].as_str().unwrap()
}

/// Broken: a transfer leaves a moment in which a third one gets the lease, two owners, or on a repeat a second successor.
/// Must hold: the successor's token is above, the old owner is told that it was superseded and can write no more, and each
/// copy of the call is the same successor.
async fn a_transfer_makes_the_successor_the_owner_once(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    let alice = acquire(&scene.client(0), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let path = format!("/v1/leases/{}/transfer", id_of(&alice));
    let handed = json!({"holder": "bob", "request_id": request_id(), "ttl_ms": 9_000});
    let bob = scene.client(1).post(&path, &handed).await.expect(201);
    assert_eq!((&bob["position"], &bob["holder"]), (&json!("0.2"), &json!("bob")));
    assert_eq!((&bob["state"], &bob["remaining_ms"]), (&json!("held"), &json!(9_000)));
    for number in 0..3 {
        let copy = scene.client(number).post(&path, &handed).await.expect(200);
        assert_eq!((id_of(&copy), token(&copy)), (id_of(&bob), token(&bob)));
    }
    let mut other = handed.clone();
    other["holder"] = json!("carol");
    scene.client(2).post(&path, &other).await.refused(422, "request_mismatch", "none");
    let problem = renew(&scene.client(2), &alice).await.refused(410, "lease_superseded", "none");
    assert!(problem["cancel_requested"].is_null() || problem["cancel_requested"] == false, "{problem}");
    let carol = json!({"holder": "carol", "request_id": request_id()});
    scene.client(0).post(&path, &carol).await.refused(410, "lease_superseded", "none");
    scene.client(1).put("jobs/a", token(&alice), "late", "alice", &[]).await.refused(
        412,
        "stale_token",
        "none",
    );
    scene.client(2).put("jobs/a", token(&bob), "op-1", "bob", &[]).await.expect(201);
    release(&scene.client(0), &bob).await;
    scene.client(1).post(&path, &handed).await.refused(410, "lease_released", "none");
    assert_eq!(acquire(&scene.client(1), &wanted("jobs/a", 20_000, 0)).await.expect(201)["position"], "0.3");
    scene.end();
}

/// Broken: a revoked owner goes on, or a delayed copy of the revoke ends the next owner too. Must hold: renewals and writes
/// of the revoked generation are refused, the next owner is let in at once, and a copy changes nothing and is answered with
/// the first answer.
async fn a_revoke_ends_the_generation_once(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    control(&scene.client(0), "revoke/jobs/a", "r-0", &json!({"reason": "x"})).await.refused(
        404,
        "not_found",
        "none",
    );
    let alice = acquire(&scene.client(0), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let why = json!({"reason": "alice is not to be reached"});
    let first = control(&scene.client(0), "revoke/jobs/a", "r-1", &why).await;
    assert_eq!(first.expect(200)["revoked_through"], "0.1");
    let problem = renew(&scene.client(1), &alice).await.refused(410, "lease_superseded", "none");
    assert!(problem["cancel_requested"].is_null() || problem["cancel_requested"] == false, "{problem}");
    scene.client(1).put("jobs/a", token(&alice), "late", "alice", &[]).await.refused(
        412,
        "stale_token",
        "none",
    );
    let bob = acquire(&scene.client(2), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    for number in 0..3 {
        let copy = control(&scene.client(number), "revoke/jobs/a", "r-1", &why).await;
        assert_eq!((copy.status, &copy.bytes), (200, &first.bytes), "{}", copy.text());
        assert_eq!(copy.header("idempotent-replayed"), Some("true"));
    }
    let other = json!({"reason": "another"});
    control(&scene.client(1), "revoke/jobs/a", "r-1", &other).await.refused(
        422,
        "operation_mismatch",
        "none",
    );
    renew(&scene.client(0), &bob).await.expect(200);
    // An owner that was superseded ends nothing; the owner itself does.
    let as_owner = |lease: &Value| json!({"reason": "done", "fencing_token": token(lease)});
    let late = control(&scene.client(1), "revoke/jobs/a", "r-2", &as_owner(&alice)).await;
    late.refused(412, "stale_token", "none");
    control(&scene.client(1), "revoke/jobs/a", "r-3", &as_owner(&bob)).await.expect(200);
    renew(&scene.client(2), &bob).await.refused(410, "lease_superseded", "none");
    scene.end();
}

/// Broken: cancelled work goes on, is taken up by the next one, or a late copy of the cancel stops the work that was begun
/// anew. Must hold: the owner is told that it was cancelled, nobody acquires until it is reopened, and each copy of each call
/// is answered with its first answer.
async fn a_cancel_stops_the_work_and_a_reopen_lets_it_begin_anew(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    let alice = acquire(&scene.client(0), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let why = json!({"reason": "the customer left", "fencing_token": token(&alice)});
    let first = control(&scene.client(1), "cancel/jobs/a", "c-1", &why).await;
    let cancelled = first.expect(200);
    assert_eq!((&cancelled["life"], &cancelled["reason"]), (&json!("cancelled"), &why["reason"]));
    for number in 0..3 {
        let problem = renew(&scene.client(number), &alice).await.refused(410, "lease_superseded", "none");
        assert_eq!(problem["cancel_requested"], true, "{problem}");
        let copy = control(&scene.client(number), "cancel/jobs/a", "c-1", &why).await;
        assert_eq!((copy.status, &copy.bytes), (200, &first.bytes), "{}", copy.text());
    }
    let shown = scene.client(2).get(&format!("/v1/leases/{}", id_of(&alice))).await.expect(200);
    assert_eq!((&shown["state"], &shown["cancel_requested"]), (&json!("superseded"), &json!(true)));
    let refused = acquire(&scene.client(2), &wanted("jobs/a", 20_000, 10_000)).await;
    assert_eq!(refused.refused(409, "cancelled", "none")["retryable"], false);
    let write = scene.client(2).put("jobs/a", token(&alice), "late", "alice", &[]).await;
    assert!([409, 412].contains(&write.status), "{}", write.text());

    let again = json!({"reason": "the customer is back"});
    scene.client(0).post("/v1/reopen/jobs/a", &again).await.refused(428, "operation_id_required", "none");
    let reopened = control(&scene.client(0), "reopen/jobs/a", "o-1", &again).await;
    assert_eq!(reopened.expect(200)["life"], "active");
    let bob = acquire(&scene.client(1), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    for number in 0..3 {
        for (call, key, body, first) in
            [("cancel/jobs/a", "c-1", &why, &first), ("reopen/jobs/a", "o-1", &again, &reopened)]
        {
            let copy = control(&scene.client(number), call, key, body).await;
            assert_eq!((copy.status, &copy.bytes), (200, &first.bytes), "{}", copy.text());
        }
        renew(&scene.client(number), &bob).await.expect(200);
    }
    scene.end();
}

/// Broken: those who wait for cancelled work wait on for nothing. Must hold: they are told at once, at every gateway.
async fn a_cancel_sends_those_who_wait_away(shape: Shape) {
    let scene = Scene::start(shape, RACE).await;
    acquire(&scene.client(0), &wanted("jobs/a", 20_000, 0)).await.expect(201);
    let mut waits = tokio::task::JoinSet::new();
    for client in scene.clients(6) {
        waits.spawn(async move { (acquire(&client, &wanted("jobs/a", 20_000, 20_000)).await, instant()) });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    control(&scene.client(0), "cancel/jobs/a", "c-1", &json!({"reason": "x"})).await.expect(200);
    let cancelled = instant();
    let slack = slack(&scene.client(0)).await;
    for (answer, at) in waits.join_all().await {
        answer.refused(409, "cancelled", "none");
        let took = at.saturating_duration_since(cancelled);
        assert!(took <= Duration::from_millis(600) + slack, "{took:?}");
    }
    scene.end();
}
