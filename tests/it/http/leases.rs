//! Leases over the control plane.

use serde_json::json;

use super::house::{House, ask};

const ID: &str = "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d";

#[tokio::test]
async fn an_acquire_is_answered_with_the_lease_and_a_repeat_with_the_same() {
    let house = House::new().await;
    let wanted = json!({"resource": "pages/a", "holder": "worker-a", "ttl_ms": 20_000, "request_id": ID});
    let first = house.call(ask("POST", "/v1/leases").json(&wanted)).await;
    let lease = first.expect(201);
    let id = lease["acquisition_id"].as_str().unwrap();
    assert_eq!(first.header("location"), Some(format!("/v1/leases/{id}").as_str()));
    let rest = json!({
        "acquisition_id": id, "resource": "pages/a", "holder": "worker-a", "request_id": ID,
        "fencing_token": lease["fencing_token"], "epoch": "0", "token": "1", "position": "0.1", "incarnation": "1",
        "life": "active", "state": "held", "ttl_ms": 20_000, "remaining_ms": 20_000, "renew_after_ms": 6_667,
        "expires_at": "2026-09-13T08:00:20.000Z", "contract": "immediate", "policy": "single",
        "cancel_requested": false,
    });
    assert_eq!(lease, rest);
    house.clock.advance(5_000);
    let repeat =
        house.call(ask("POST", "/v1/leases").with("idempotency-key", &ID.to_uppercase()).json(&wanted)).await;
    let repeated = repeat.expect(200);
    assert_eq!(repeated["fencing_token"], lease["fencing_token"]);
    assert_eq!(
        (repeated["remaining_ms"].as_u64(), repeated["renew_after_ms"].as_u64()),
        (Some(15_000), Some(1_667))
    );
    let mut other = wanted.clone();
    other["holder"] = json!("worker-b");
    house.call(ask("POST", "/v1/leases").json(&other)).await.refused(422, "request_mismatch");
    house.clock.advance(15_000);
    house.call(ask("POST", "/v1/leases").json(&wanted)).await.refused(410, "lease_expired");
}

#[tokio::test]
async fn a_request_id_may_come_in_the_header_in_the_body_or_be_made() {
    let house = House::new().await;
    let quoted = ask("POST", "/v1/leases").with("idempotency-key", &format!("\"{ID}\""));
    let lease = house.call(quoted.json(&json!({"resources": ["pages/a"]}))).await.expect(201);
    assert_eq!(lease["request_id"], ID);
    let made = house.call(ask("POST", "/v1/leases").json(&json!({"resource": "pages/b"}))).await.expect(201);
    assert_eq!(uuid::Uuid::parse_str(made["request_id"].as_str().unwrap()).unwrap().get_version_num(), 4);
    let differ = ask("POST", "/v1/leases").with("idempotency-key", ID);
    let other = json!({"resource": "pages/c", "request_id": ID.replace('5', "6")});
    house.call(differ.json(&other)).await.refused(400, "invalid_request");
    let bare = ask("POST", "/v1/leases").with("idempotency-key", "publish-1");
    let detail =
        house.call(bare.json(&json!({"resource": "pages/c"}))).await.refused(400, "invalid_operation_id");
    assert!(detail.contains("UUID"), "{detail}");
}

#[tokio::test]
async fn a_held_lease_says_when_to_come_back_and_not_whose_it_is() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.clock.advance(9_000);
    let answer = house.call(ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"}))).await;
    answer.refused(409, "lease_held");
    let problem = answer.json();
    assert_eq!(problem["current"]["position"], "0.1");
    let wait = problem["retry_after_ms"].as_u64().unwrap();
    assert!((50..=21_000).contains(&wait), "{wait}");
    assert!(!answer.text().contains(&lease.id));
}

#[tokio::test]
async fn only_an_acquire_shows_the_sealed_token() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    let path = format!("/v1/leases/{}", lease.id);
    house.clock.advance(10_000);
    let shown = house.get(&path).await;
    assert_eq!(shown.expect(200)["remaining_ms"], 20_000);
    let renewed = house.call(ask("POST", &format!("{path}/renew"))).await;
    assert_eq!(renewed.expect(200)["remaining_ms"], 30_000);
    let longer = house.call(ask("POST", &format!("{path}/renew")).json(&json!({"ttl_ms": 60_000}))).await;
    assert_eq!(longer.expect(200)["ttl_ms"], 60_000);
    let released = house.call(ask("DELETE", &path)).await;
    assert_eq!(released.expect(200)["state"], "released");
    let again = house.call(ask("DELETE", &path)).await.expect(200);
    assert_eq!((again["state"].as_str(), again["renew_after_ms"].as_u64()), (Some("released"), Some(0)));
    house.call(ask("POST", &format!("{path}/renew"))).await.refused(410, "lease_released");
    for answer in [shown, renewed, longer, released] {
        let seal = lease.token.rsplit('.').next().unwrap();
        assert!(!answer.text().contains(seal), "{}", answer.text());
    }
}

#[tokio::test]
async fn an_ended_lease_says_how_it_ended() {
    let house = House::new().await;
    let alice = house.acquire("pages/a").await;
    house.clock.advance(30_000);
    let renew = |id: &str| ask("POST", &format!("/v1/leases/{id}/renew"));
    house.call(renew(&alice.id)).await.refused(410, "lease_expired");
    house.acquire("pages/a").await;
    house.call(renew(&alice.id)).await.refused(410, "lease_superseded");
    assert_eq!(house.get(&format!("/v1/leases/{}", alice.id)).await.expect(200)["state"], "superseded");
    let unknown = format!("{}{}", &alice.id[..2], "A".repeat(22));
    house.call(renew(&unknown)).await.refused(404, "not_found");
    house.get(&format!("/v1/leases/{unknown}")).await.refused(404, "not_found");
    house.call(ask("DELETE", &format!("/v1/leases/{unknown}"))).await.refused(404, "not_found");
    house.get("/v1/leases/short").await.refused(400, "invalid_request");
    house.get(&format!("/v1/leases/zz{}", &alice.id[2..])).await.refused(400, "invalid_request");
}

#[tokio::test]
async fn what_an_acquire_cannot_do_is_refused_by_name() {
    let house = House::new().await;
    let refused = [
        (json!({"resource": "pages/a", "wait_ms": 30_001}), "waits at most 30000 ms"),
        (json!({"resources": ["pages/a", "pages/a"]}), "resources: it names pages/a twice"),
        (json!({"resources": vec!["pages/a"; 17]}), "resources: it names 17"),
        (json!({"resources": []}), "resources: it names 0"),
        (json!({"resources": [1]}), "resources[0]"),
        (json!({"resource": "pages/a", "resources": ["pages/a"]}), "in one of the two"),
        (json!({}), "resource: it is missing"),
        (json!({"resource": "pages/a", "ttl_ms": 999}), "1000 to 3600000"),
        (json!({"resource": "pages/a", "ttl_ms": "30000"}), "ttl_ms: it is a string"),
        (json!({"resource": "pages/a", "ttl_ms": -1}), "ttl_ms: it is -1"),
        (json!({"resource": 7}), "resource: it is the number 7; give it as a string"),
        (json!({"resource": "pages/a", "ttl": 1}), "did you mean \"ttl_ms\"?"),
        (json!({"resource": "pages/a", "holder": "a\u{7}"}), "holder"),
        (json!({"resource": "pages/a", "holder": "x".repeat(256)}), "at most 255"),
        (json!({"resource": "pages/a", "request_id": "1"}), "request_id: it is not a UUID"),
    ];
    for (body, expected) in refused {
        let detail = house.call(ask("POST", "/v1/leases").json(&body)).await.refused(422, "invalid_field");
        assert!(detail.contains(expected), "{body}: {detail}");
    }
    let external = house.call(ask("POST", "/v1/leases").json(&json!({"resource": "jobs/a"}))).await;
    assert!(external.refused(422, "issuer_external").contains("/v1/advance/jobs/a"));
    // Nulls are the same as nothing.
    let nulls =
        json!({"resource": "pages/n", "resources": null, "holder": null, "ttl_ms": null, "wait_ms": 0});
    house.call(ask("POST", "/v1/leases").json(&nulls)).await.expect(201);
}
