//! Batches: all or none, replays, refusals member by member, and dry runs that change nothing.

use serde_json::{Value, json};

use super::house::{Ask, House, SMALL_BYTES, ask};

fn member(resource: &str, token: &str, id: &str) -> Value {
    json!({"method": "PUT", "resource": resource, "fencing_token": token, "operation_id": id, "body": "x"})
}

fn batch(members: &[Value]) -> Ask {
    ask("POST", "/v1/writes").json(&json!({"writes": members}))
}

fn dry(members: &[Value]) -> Ask {
    ask("POST", "/v1/writes?dry_run=true").json(&json!({"writes": members}))
}

#[tokio::test]
async fn all_are_written_and_a_repeat_replays_all() {
    let house = House::new().await;
    let (a, b) = (house.acquire("pages/a").await, house.acquire("ledger/b").await);
    let mut second = member("ledger/b", &b.token, "two");
    second["sequence"] = json!("1");
    let members = [member("pages/a", &a.token, "one"), second];
    let written = house.call(batch(&members)).await.expect(200);
    let one = json!({"operation_id": "one", "resource": "pages/a", "status": 201, "effect": "applied", "replayed": false,
        "position": "0.1", "sequence": null, "commit": "1", "etag": "\"1.1\""});
    assert_eq!((written["effect"].as_str(), &written["members"][0]), (Some("applied"), &one));
    assert_eq!(written["members"][1]["sequence"], "1");
    let mut again = house.call(batch(&members)).await.expect(200);
    for member in again["members"].as_array_mut().unwrap() {
        assert_eq!(member["replayed"], true);
        member["replayed"] = json!(false);
    }
    assert_eq!(again, written);
    // Each member is the same operation as the same request to the data plane.
    let put = house.put("pages/a", &a.token, "one", "x").await;
    assert_eq!((put.status, put.header("idempotent-replayed")), (201, Some("true")));
}

#[tokio::test]
async fn targets_of_one_resource_are_one_effect() {
    let house = House::new().await;
    let lease = house.acquire("tree/a").await;
    let members = [member("tree/a/x", &lease.token, "one"), member("tree/a/y", &lease.token, "two")];
    let written = house.call(batch(&members)).await.expect(200);
    let commits: Vec<&Value> =
        written["members"].as_array().unwrap().iter().map(|one| &one["commit"]).collect();
    assert_eq!(commits, ["1", "1"]);
    assert_eq!(written["members"][1]["resource"], "tree/a/y");
    assert_eq!(house.get("/fenced/tree/a/y").await.header("etag"), Some("\"1.1\""));
}

#[tokio::test]
async fn one_refused_member_stops_all_new_ones() {
    let house = House::new().await;
    let (old, other) = (house.acquire("pages/a").await, house.acquire("pages/b").await);
    let recorded = house.put("pages/a", &old.token, "recorded", "x").await;
    recorded.expect(201);
    house.clock.advance(30_000);
    house.acquire("pages/a").await;
    let members = [
        member("pages/b", &other.token, "new"),
        member("pages/a", &old.token, "stale"),
        member("pages/c", "1", "unsealed"),
    ];
    let refused = house.call(batch(&members)).await;
    assert!(refused.refused(412, "stale_token").starts_with("writes[1]: "));
    let problem = refused.json();
    assert_eq!(problem["resource"], "pages/a");
    let expected = json!([
        {"operation_id": "new", "resource": "pages/b", "effect": "none"},
        {"operation_id": "stale", "resource": "pages/a", "code": "stale_token", "effect": "none"},
        {"operation_id": "unsealed", "resource": "pages/c", "code": "token_not_yours", "effect": "none"},
    ]);
    assert_eq!(problem["members"], expected);
    house.get("/fenced/pages/b").await.refused(404, "not_found");
    // With a recorded member beside it: that one is in the store, and the refusal says so.
    let mixed = [member("pages/a", &old.token, "recorded"), member("pages/c", "1", "unsealed")];
    let mut mixed = mixed.to_vec();
    mixed[0]["content_type"] = Value::Null;
    let problem = house.call(batch(&mixed)).await;
    problem.refused(403, "token_not_yours");
    assert_eq!(
        problem.json()["members"][0],
        json!({"operation_id": "recorded", "resource": "pages/a", "effect": "applied"})
    );
}

#[tokio::test]
async fn a_dry_run_explains_each_member_and_changes_nothing() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    let other = house.acquire("pages/b").await;
    house.put("pages/b", &other.token, "there", "x").await.expect(201);
    let mut removal = member("pages/c", "1", "gone");
    removal["method"] = json!("DELETE");
    removal["body"] = Value::Null;
    let members = [
        member("pages/a", &lease.token, "new"),
        member("pages/b", &other.token, "there"),
        member("pages/d", "1", "unsealed"),
        removal,
    ];
    let answer = house.call(dry(&members)).await.expect(200);
    assert_eq!(answer.get("effect"), None);
    let seen: Vec<(&str, u64, Option<&str>, Option<u64>)> = answer["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let verdict = one["verdict"].as_str().unwrap();
            assert!(!one["why"].as_str().unwrap().is_empty());
            (verdict, one["status"].as_u64().unwrap(), one["code"].as_str(), one["row"].as_u64())
        })
        .collect();
    let unsealed = ("refuse", 403, Some("token_not_yours"), Some(8));
    assert_eq!(seen, [("admit", 201, None, Some(19)), ("replay", 201, None, Some(2)), unsealed, unsealed]);
    house.get("/fenced/pages/a").await.refused(404, "not_found");
    house.get("/v1/operations/new?resource=pages/a").await.refused(404, "not_found");
    // What it said holds.
    house.call(batch(&members[..1])).await.expect(200);
}

#[tokio::test]
async fn a_member_that_cannot_be_read_is_named() {
    let house = House::new().await;
    let good = member("pages/a", "1", "one");
    let with = |field: &str, value: Value| {
        let mut member = member("pages/b", "1", "two");
        member[field] = value;
        member
    };
    let refused = [
        (with("method", json!("PATCH")), 422, "invalid_field", "writes[1].method: it is \"PATCH\""),
        (with("method", Value::Null), 422, "invalid_field", "writes[1].method: it is missing"),
        (
            with("resource", json!("pages//b")),
            400,
            "invalid_resource",
            "writes[1].resource: segment 2 is empty",
        ),
        (with("resource", json!("nobody/b")), 404, "unknown_namespace", "writes[1].resource: "),
        (with("resource", Value::Null), 422, "invalid_field", "writes[1].resource: it is missing"),
        (with("fencing_token", json!("01")), 400, "invalid_token", "writes[1].fencing_token: "),
        (with("fencing_token", json!(1)), 422, "invalid_field", "give it as a string: \"1\""),
        (with("fencing_token", Value::Null), 428, "token_required", "writes[1]: send fencing_token"),
        (with("operation_id", json!("a b")), 400, "invalid_operation_id", "writes[1].operation_id: "),
        (with("operation_id", Value::Null), 428, "operation_id_required", "writes[1]: send operation_id"),
        (with("sequence", json!("1")), 400, "invalid_sequence", "writes[1]: the policy"),
        (with("sequence", json!("01")), 400, "invalid_sequence", "writes[1].sequence: "),
        (with("incarnation", json!("0")), 422, "invalid_field", "writes[1].incarnation: "),
        (with("if_match", json!("1.1")), 422, "invalid_field", "writes[1].if_match: "),
        (with("content_type", json!("pdf")), 422, "invalid_field", "writes[1].content_type: "),
        (
            with("body_base64", json!("eA==")),
            422,
            "invalid_field",
            "writes[1].body_base64: body is given too",
        ),
        (
            with("bodi", json!("x")),
            422,
            "invalid_field",
            "writes[1].bodi: there is no such field; did you mean \"body\"?",
        ),
        (json!("x"), 422, "invalid_field", "writes[1]: it is a string"),
        (good.clone(), 422, "invalid_field", "writes[1] addresses the same target as writes[0]"),
    ];
    for (bad, status, code, expected) in refused {
        let detail = house.call(batch(&[good.clone(), bad.clone()])).await.refused(status, code);
        assert!(detail.contains(expected), "{bad}: {detail}");
    }
    let encoded = |text: &str| {
        let mut member = with("body", Value::Null);
        member["body_base64"] = json!(text);
        member
    };
    for text in ["eA", "eA=", "e A=", "eA==\n", "e-_=", "eB=="] {
        house.call(batch(&[encoded(text)])).await.refused(422, "invalid_field");
    }
    let mut removal = with("method", json!("DELETE"));
    house.call(batch(&[removal.clone()])).await.refused(400, "invalid_body");
    removal["body"] = json!("");
    house.call(batch(&[removal])).await.refused(403, "token_not_yours");
    for writes in [json!([]), json!({}), json!(null), json!("x")] {
        house
            .call(ask("POST", "/v1/writes").json(&json!({"writes": writes})))
            .await
            .refused(422, "invalid_field");
    }
    let many: Vec<Value> = (0..101).map(|index| member(&format!("pages/{index}"), "1", "one")).collect();
    assert!(house.call(batch(&many)).await.refused(422, "invalid_field").contains("101"));
}

#[tokio::test]
async fn bytes_come_in_base64_and_keep_their_namespace_s_limit() {
    let house = House::new().await;
    let lease = house.acquire("small/a").await;
    let mut bytes = member("small/a", &lease.token, "one");
    bytes["body"] = Value::Null;
    bytes["body_base64"] = json!("AAECAw==");
    bytes["content_type"] = json!("application/octet-stream");
    house.call(batch(&[bytes])).await.expect(200);
    assert_eq!(&house.get("/fenced/small/a").await.bytes[..], [0, 1, 2, 3]);
    let mut long = member("small/b", "1", "two");
    long["body"] = json!("x".repeat(usize::try_from(SMALL_BYTES).unwrap() + 1));
    let detail =
        house.call(batch(&[member("pages/a", "1", "one"), long])).await.refused(413, "body_too_large");
    assert!(detail.starts_with("writes[1].body: "), "{detail}");
}

#[tokio::test]
async fn a_batch_of_a_hundred_goes_through_at_once() {
    let house = House::new().await;
    let members: Vec<Value> =
        (0..100).map(|index| member(&format!("jobs/{index}"), "1", &format!("op-{index}"))).collect();
    let written = house.call(batch(&members)).await.expect(200);
    assert_eq!(written["members"].as_array().unwrap().len(), 100);
    assert_eq!(house.get("/fenced/jobs/99").await.text(), "x");
}
