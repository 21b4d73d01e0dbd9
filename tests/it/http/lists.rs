//! Lists, page by page, and what is shown of one thing.

use serde_json::{Value, json};

use super::house::{House, ask, write};

/// All items of a list, and how many pages it had.
async fn all(house: &House, path: &str) -> (Vec<Value>, usize) {
    let (mut items, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = house.get(&format!("{path}{cursor}")).await.expect(200);
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, pages),
        }
    }
}

fn names(items: &[Value], key: &str) -> Vec<String> {
    items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
}

/// Five resources: published, generating, pending, deleted, and one of another namespace.
async fn village() -> House {
    let house = House::new().await;
    let lease = house.acquire("pages/a-published").await;
    house.put("pages/a-published", &lease.token, "one", "x").await.expect(201);
    let lease = house.acquire("pages/c-pending").await;
    house.call(ask("DELETE", &format!("/v1/leases/{}", lease.id))).await.expect(200);
    let lease = house.acquire("pages/d-deleted").await;
    house.put("pages/d-deleted", &lease.token, "one", "x").await.expect(201);
    house.clock.advance(30_000);
    let lease = house.acquire("pages/d-deleted").await;
    house.call(write("DELETE", "pages/d-deleted", &lease.token, "two")).await.expect(200);
    house.acquire("pages/b-generating").await;
    house.put("jobs/z", "7", "one", "x").await.expect(201);
    house
}

#[tokio::test]
async fn resources_are_listed_in_order_and_filtered() {
    let house = village().await;
    let (every, pages) = all(&house, "/v1/resources?limit=2").await;
    let in_order =
        ["jobs/z", "pages/a-published", "pages/b-generating", "pages/c-pending", "pages/d-deleted"];
    assert_eq!((names(&every, "resource"), pages), (in_order.map(str::to_owned).to_vec(), 3));
    let filtered = [
        ("namespace=jobs", vec!["jobs/z"]),
        ("prefix=pages/b", vec!["pages/b-generating"]),
        ("prefix=nothing", vec![]),
        ("life=deleted", vec!["pages/d-deleted"]),
        ("state=published", vec!["jobs/z", "pages/a-published"]),
        ("state=generating", vec!["pages/b-generating"]),
        ("state=pending", vec!["pages/c-pending"]),
        ("state=deleted&namespace=pages", vec!["pages/d-deleted"]),
        ("state=deleted&life=active", vec![]),
        ("state=cancelled", vec![]),
    ];
    for (query, expected) in filtered {
        let (found, _) = all(&house, &format!("/v1/resources?limit=1&{query}")).await;
        assert_eq!(names(&found, "resource"), expected, "{query}");
    }
    house.get("/v1/resources?namespace=nobody").await.refused(404, "unknown_namespace");
    house.get("/v1/resources?namespace=a/b").await.refused(400, "invalid_resource");
    house.get(&format!("/v1/resources?prefix={}", "x".repeat(513))).await.refused(400, "invalid_request");
}

#[tokio::test]
async fn a_page_that_finds_little_ends_early_and_goes_on() {
    let house = House::new().await;
    for round in 0..11 {
        let members: Vec<Value> = (0..100)
            .map(|index| {
                let resource = format!("jobs/{round:02}-{index:02}");
                json!({"method": "PUT", "resource": resource, "fencing_token": "1", "operation_id": "o", "body": ""})
            })
            .collect();
        house.call(ask("POST", "/v1/writes").json(&json!({"writes": members}))).await.expect(200);
    }
    // Not one of 1,100 is pending: the first page looks at a thousand and says where to go on.
    let (found, pages) = all(&house, "/v1/resources?state=pending").await;
    assert_eq!((found.len(), pages), (0, 2));
    let (found, pages) = all(&house, "/v1/resources?state=published").await;
    assert_eq!((found.len(), pages), (1_100, 11));
}

#[tokio::test]
async fn a_resource_shows_everything_that_is_decided_about_it() {
    let house = village().await;
    let shown = house.get("/v1/resources/pages/a-published").await.expect(200);
    let expected = json!({
        "resource": "pages/a-published", "namespace": "pages", "incarnation": "1", "life": "active", "state": "published",
        "contract": "immediate", "policy": "single", "issuer": "gateway", "store": "document", "epoch": "0",
        "issued": "0.1", "floor": "0.1", "revoked_through": null, "applied": {"position": "0.1", "sequence": null},
        "commit": "1", "targets": [{"target": null, "etag": "\"1.1\"", "content_type": null, "size": 1}],
        "lease": {"holder": null, "position": "0.1", "state": "expired", "remaining_ms": 0}, "waiting": 0, "lane": null,
        "last_operation": "one",
    });
    assert_eq!(shown, expected);
    // In a list too: who holds what is asked of all at once.
    let listed = house.get("/v1/resources?prefix=pages/a-published").await.expect(200);
    assert_eq!(
        (&listed["items"][0]["lease"], &listed["items"][0]["waiting"]),
        (&expected["lease"], &json!(0))
    );
    let gone = house.get("/v1/resources/pages/d-deleted").await.expect(200);
    assert_eq!((gone["state"].as_str(), gone["revoked_through"].as_str()), (Some("deleted"), Some("0.2")));
    assert_eq!((gone["targets"].clone(), gone["lease"]["state"].as_str()), (json!([]), Some("released")));
    house.get("/v1/resources/pages/never").await.refused(404, "not_found");
}

#[tokio::test]
async fn operations_are_listed_newest_first_and_found_by_name() {
    let house = House::new().await;
    let lease = house.acquire("ledger/a").await;
    for sequence in 1..=5 {
        house.clock.advance(10);
        let write = write("PUT", "ledger/a", &lease.token, &format!("a/b?{sequence}")).body("x");
        house.call(write.with("fencing-sequence", &sequence.to_string())).await;
    }
    let (items, pages) = all(&house, "/v1/operations?resource=ledger%2Fa&limit=2").await;
    assert_eq!(
        (names(&items, "operation_id"), pages),
        (vec!["a/b?5", "a/b?4", "a/b?3", "a/b?2", "a/b?1"].into_iter().map(str::to_owned).collect(), 3)
    );
    let (none, _) = all(&house, "/v1/operations?resource=ledger/a&state=refused").await;
    assert!(none.is_empty());
    let (none, _) = all(&house, "/v1/operations?resource=ledger/never&limit=1").await;
    assert!(none.is_empty());
    let shown = house.get("/v1/operations/a%2Fb%3F5?resource=ledger/a&incarnation=1").await.expect(200);
    assert_eq!(shown, items[0]);
    let expected = json!({
        "operation_id": "a/b?5", "resource": "ledger/a", "target": null, "incarnation": "1", "state": "applied",
        "effect": "applied", "position": "0.1", "sequence": "5", "commit": "5", "fingerprint": shown["fingerprint"],
        "attempt": 1, "created_at": "2026-09-13T08:00:00.050Z", "decided_at": "2026-09-13T08:00:00.050Z",
        "response": {
            "status": 200, "content_type": "application/json", "size": shown["response"]["size"], "source": "gateway",
        },
    });
    assert_eq!(shown, expected);
    house.get("/v1/operations/a%2Fb%3F5?resource=ledger/a&incarnation=2").await.refused(404, "not_found");
    house.get("/v1/operations/never?resource=ledger/a").await.refused(404, "not_found");
    house.get("/v1/operations/a%20b?resource=ledger/a").await.refused(400, "invalid_operation_id");
    house.get("/v1/operations?resource=nobody/a").await.refused(404, "unknown_namespace");
    house.get("/v1/operations?resource=ledger").await.refused(400, "invalid_resource");
}

#[tokio::test]
async fn advancing_answers_with_the_resource_and_takes_a_reason() {
    let house = House::new().await;
    let advance = |name: &str, body: Value| ask("POST", &format!("/v1/advance/{name}")).json(&body);
    let body = json!({"fencing_token": "12", "reason": "elected in term 12"});
    let shown = house.call(advance("elected/a", body.clone())).await.expect(200);
    assert_eq!((shown["floor"].as_str(), shown["state"].as_str()), (Some("0.12"), Some("pending")));
    assert_eq!(house.call(advance("elected/a", body)).await.expect(200)["floor"], "0.12");
    let lower = json!({"fencing_token": "0.11", "reason": "late"});
    let stale = house.call(advance("elected/a", lower)).await;
    stale.refused(412, "stale_token");
    assert_eq!(stale.json()["presented"]["position"], "0.11");
    house.put("elected/a", "13", "one", "x").await.refused(403, "advance_forbidden");
    house.put("elected/a", "12", "one", "x").await.expect(201);
    let refused = [
        (json!({"fencing_token": "13"}), 422, "reason_required"),
        (json!({"fencing_token": "13", "reason": " "}), 422, "reason_required"),
        (json!({"fencing_token": "13", "reason": "a\nb"}), 422, "invalid_field"),
        (json!({"fencing_token": "13", "reason": "x".repeat(1_025)}), 422, "invalid_field"),
        (json!({"fencing_token": "13", "reason": 1}), 422, "invalid_field"),
        (json!({"fencing_token": "13", "reason": "r", "force": true}), 422, "invalid_field"),
        (json!({"fencing_token": 13, "reason": "r"}), 422, "invalid_field"),
        (json!({"reason": "r"}), 428, "token_required"),
        (json!({"fencing_token": "0.13.seal", "reason": "r"}), 400, "invalid_token"),
        (json!({"fencing_token": "3.13", "reason": "r"}), 409, "epoch_ahead"),
    ];
    for (body, status, code) in refused {
        house.call(advance("elected/a", body)).await.refused(status, code);
    }
    let unsealed = json!({"fencing_token": "13", "reason": "r"});
    house.call(advance("pages/a", unsealed)).await.refused(403, "token_not_yours");
}
