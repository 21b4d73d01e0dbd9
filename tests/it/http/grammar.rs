//! One grammar each: names, tokens, ids, sequences, headers, queries and JSON. Every refusal says which character and
//! why.

use serde_json::json;

use super::house::{House, ask, write};

#[tokio::test]
async fn names_are_canonical_or_refused() {
    let house = House::new().await;
    let refused = [
        ("/fenced", "empty"),
        ("/fenced/", "empty"),
        ("/fenced/pages", "after the namespace"),
        ("/fenced/pages/", "segment 2 is empty"),
        ("/fenced/pages/a/", "segment 3 is empty"),
        ("/fenced/pages//a", "segment 2 is empty"),
        ("/fenced/pages/%2e%2e/a", "\"..\""),
        ("/fenced/pages/a%252Fb", "'%'"),
        ("/fenced/pages/a%2", "'%'"),
        ("/fenced/pages/%ff", "byte 6"),
        ("/fenced/pages/a%00", "U+0000"),
        ("/fenced/pages/a%5Cb", "backslash"),
        ("/fenced/pages/%20a", "white space"),
        ("/fenced/*/a", "any other"),
    ];
    for (path, expected) in refused {
        for method in ["GET", "PUT"] {
            let detail = house.call(ask(method, path)).await.refused(400, "invalid_resource");
            assert!(detail.contains(expected), "{path}: {detail}");
        }
    }
    let long = format!("/fenced/pages/{}", "a".repeat(507));
    assert!(house.get(&long).await.refused(400, "invalid_resource").contains("513 bytes"));
    for path in ["/v1/resources/", "/v1/resources/pages", "/v1/namespaces/", "/v1/namespaces/a%2Fb"] {
        house.get(path).await.refused(400, "invalid_resource");
    }
    for path in ["/v1/advance", "/v1/advance/", "/v1/advance/jobs"] {
        let body = json!({"fencing_token": "1", "reason": "r"});
        house.call(ask("POST", path).json(&body)).await.refused(400, "invalid_resource");
    }
    assert!(house.get("/fenced/page/a").await.refused(404, "unknown_namespace").contains("\"pages\""));
}

#[tokio::test]
async fn one_name_is_one_resource_however_it_is_encoded() {
    let house = House::new().await;
    let lease = house.acquire("pages/ä b/c").await;
    house.put("pages/%C3%A4%20b%2Fc", &lease.token, "one", "x").await.expect(201);
    for path in ["/fenced/pages/%c3%a4%20b/c", "/fenced/pages%2Fä%20b%2Fc", "/fenced/%70ages/ä%20b/c"] {
        assert_eq!(house.get(path).await.text(), "x", "{path}");
    }
    let shown = house.get("/v1/resources/pages/%C3%A4%20b/c").await.expect(200);
    assert_eq!(shown["resource"], "pages/ä b/c");
}

#[tokio::test]
async fn a_header_that_stands_once_is_refused_twice() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    let good = write("PUT", "pages/a", &lease.token, "one").body("x");
    for name in [
        "fencing-token",
        "x-fencing-token",
        "fencing-sequence",
        "fencing-incarnation",
        "fencing-position",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "content-type",
        "prefer",
    ] {
        let twice = good.clone().without(name).with(name, "1").with(name, "1");
        assert!(house.call(twice).await.refused(400, "invalid_request").contains("twice"), "{name}");
    }
    let both = good.clone().with("x-fencing-token", &lease.token);
    assert!(house.call(both).await.refused(400, "invalid_request").contains("one of the two"));
    let alias = good.without("fencing-token").with("x-fencing-token", &lease.token);
    house.call(alias).await.expect(201);
}

#[tokio::test]
async fn tokens_ids_and_sequences_are_read_by_one_grammar() {
    let house = House::new().await;
    let lease = house.acquire("ledger/a").await;
    let good = write("PUT", "ledger/a", &lease.token, "one").with("fencing-sequence", "1").body("x");
    let refused = [
        ("fencing-token", "07", "invalid_token"),
        ("fencing-token", "0", "invalid_token"),
        ("fencing-token", "+1", "invalid_token"),
        ("fencing-token", "1 ", "invalid_token"),
        ("fencing-token", "0x1", "invalid_token"),
        ("fencing-token", "9223372036854775808", "invalid_token"),
        ("fencing-token", "a.1", "invalid_token"),
        ("fencing-token", "1..", "invalid_token"),
        ("fencing-token", "", "invalid_token"),
        ("idempotency-key", "a b", "invalid_operation_id"),
        ("idempotency-key", "\"a", "invalid_operation_id"),
        ("idempotency-key", "\"a\";b", "invalid_operation_id"),
        ("idempotency-key", "ä", "invalid_operation_id"),
        ("idempotency-key", "", "invalid_operation_id"),
        ("fencing-sequence", "0", "invalid_sequence"),
        ("fencing-sequence", "01", "invalid_sequence"),
        ("fencing-sequence", "1.0", "invalid_sequence"),
        ("fencing-incarnation", "0", "invalid_request"),
        ("fencing-incarnation", "x", "invalid_request"),
        ("if-match", "1.1", "invalid_request"),
        ("if-none-match", "\"1.1", "invalid_request"),
        ("content-type", "pdf", "invalid_request"),
        ("prefer", "wait=soon", "invalid_request"),
    ];
    for (name, value, code) in refused {
        let answer = house.call(good.clone().without(name).with(name, value)).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, code),
            "{name}: {value}: {}",
            answer.text()
        );
    }
    // Nothing of it happened, and the same operation id is free.
    house.call(good).await.expect(201);
}

#[tokio::test]
async fn what_is_missing_is_asked_for_in_order() {
    let house = House::new().await;
    let lease = house.acquire("ledger/a").await;
    let good = write("PUT", "ledger/a", &lease.token, "one").with("fencing-sequence", "1").body("x");
    let without = |names: &[&str]| names.iter().fold(good.clone(), |ask, name| ask.without(name));
    let all = ["fencing-token", "idempotency-key", "fencing-sequence"];
    house.call(without(&all)).await.refused(428, "token_required");
    house.call(without(&all[1..])).await.refused(428, "operation_id_required");
    let sequence = house.call(without(&all[2..])).await;
    sequence.refused(428, "sequence_required");
    assert_eq!(sequence.json()["presented"]["position"], "0.1");
    let page = house.acquire("pages/a").await;
    let unwanted = write("PUT", "pages/a", &page.token, "one").with("fencing-sequence", "1");
    assert!(house.call(unwanted).await.refused(400, "invalid_sequence").contains("single"));
}

#[tokio::test]
async fn seals_are_judged_by_the_issuer_of_the_namespace() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    for token in ["1", "0.1", "0.1.", "0.1.seal"] {
        house.put("pages/a", token, "one", "x").await.refused(403, "token_not_yours");
    }
    house.put("pages/b", &lease.token, "one", "x").await.refused(403, "token_not_yours");
    assert!(
        house.put("pages/a", "1", "one", "x").await.refused(403, "token_not_yours").contains("your acquire")
    );
    house.put("jobs/a", "0.1.seal", "one", "x").await.refused(400, "invalid_token");
    house.put("jobs/a", "0.1.", "one", "x").await.refused(400, "invalid_token");
    house.put("jobs/a", "1", "one", "x").await.expect(201);
}

#[tokio::test]
async fn queries_are_known_or_refused() {
    let house = House::new().await;
    for path in [
        "/fenced/pages/a?version=1",
        "/v1/resources?namespac=pages",
        "/v1/resources?limit=0",
        "/v1/resources?limit=1&limit=1",
        "/v1/resources?life=alive",
        "/v1/resources?state=done",
        "/v1/resources?cursor=%2B",
        "/v1/resources?cursor=cGFnZXM",
        "/v1/operations",
        "/v1/operations?resource=pages/a&cursor=YQ",
        "/v1/operations/one?resource=pages/a&incarnation=0",
        "/v1/status?verbose",
        "/livez?x",
        "/openapi.yaml?x=1",
    ] {
        house.get(path).await.refused(400, "invalid_request");
    }
    let put = ask("PUT", "/fenced/pages/a?x=1");
    assert!(house.call(put).await.refused(400, "invalid_request").contains("no query string"));
    house
        .call(ask("POST", "/v1/writes?dry_run=1").json(&json!({"writes": []})))
        .await
        .refused(400, "invalid_request");
}

#[tokio::test]
async fn media_types_and_malformed_json_are_told_apart() {
    let house = House::new().await;
    for path in ["/v1/leases", "/v1/writes", "/v1/advance/jobs/a"] {
        let plain = ask("POST", path).with("content-type", "text/plain").body("{}");
        let detail = house.call(plain).await.refused(415, "unsupported_media_type");
        assert!(detail.contains("add -H 'content-type: application/json'"), "{detail}");
        house.call(ask("POST", path)).await.refused(415, "unsupported_media_type");
        let json =
            |body: &str| ask("POST", path).with("content-type", "application/json; charset=utf-8").body(body);
        let detail = house.call(json("{\"a\":}")).await.refused(400, "invalid_body");
        assert!(detail.contains("line 1 column 6"), "{detail}");
        for body in ["", "[]", "{\"a\":1,\"a\":1}", "{} x"] {
            house.call(json(body)).await.refused(400, "invalid_body");
        }
        house.call(json("{}").with("content-encoding", "br")).await.refused(415, "unsupported_media_type");
    }
    let lease = house.acquire("pages/a").await;
    let encoded = write("PUT", "pages/a", &lease.token, "one").with("content-encoding", "gzip").body("x");
    house.call(encoded).await.refused(415, "unsupported_media_type");
    let identity =
        write("PUT", "pages/a", &lease.token, "one").with("content-encoding", "identity").body("x");
    house.call(identity).await.expect(201);
    house.call(write("DELETE", "pages/a", &lease.token, "two").body("x")).await.refused(400, "invalid_body");
    let renew = format!("/v1/leases/{}/renew", lease.id);
    house.call(ask("POST", &renew).body("{}")).await.refused(415, "unsupported_media_type");
    house.call(ask("POST", &renew).with("content-type", "text/plain")).await.expect(200);
}
