//! The data plane, as a worker meets it.

use super::house::{Ask, House, ask, write};

/// The headers that a replay repeats.
const SAVED: [&str; 5] = ["etag", "content-type", "fencing-position", "fencing-commit", "location"];

#[tokio::test]
async fn a_write_is_answered_with_its_receipt_and_every_header() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    let answer = house.put("pages/a", &lease.token, "publish-1", "hello").await;
    let receipt = answer.expect(201);
    assert_eq!(receipt["applied_at"], "2026-09-13T08:00:00.000Z");
    let headers = [
        ("fencing-effect", "applied"),
        ("fencing-position", "0.1"),
        ("fencing-floor", "0.1"),
        ("fencing-commit", "1"),
        ("etag", "\"1.1\""),
        ("content-type", "application/json"),
        ("location", "/v1/operations/publish-1?resource=pages%2Fa&incarnation=1"),
    ];
    for (name, value) in headers {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert_eq!(answer.header("idempotent-replayed"), None);
    let operation = house.get(answer.header("location").unwrap()).await.expect(200);
    assert_eq!(operation["response"]["size"], answer.bytes.len());
}

#[tokio::test]
async fn a_replay_repeats_status_headers_and_bytes_under_any_later_position() {
    let house = House::new().await;
    let alice = house.acquire("pages/a").await;
    let first = house.put("pages/a", &alice.token, "publish-1", "hello").await;
    house.clock.advance(60_000);
    let bob = house.acquire("pages/a").await;
    let second = house.put("pages/a", &bob.token, "publish-2", "newer").await;
    assert_eq!(second.status, 200, "{}", second.text());
    // Alice lost her answer and is superseded by now; so is whoever took her work over without a seal of his own.
    for token in [alice.token.as_str(), bob.token.as_str(), "0.1", "0.1.forged", "7"] {
        let again = house.put("pages/a", token, "publish-1", "hello").await;
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "{token}");
        for name in SAVED {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.header("fencing-effect"), Some("applied"));
        assert_eq!(again.header("fencing-floor"), Some("0.2"), "the floor of now");
    }
    assert_eq!(house.get("/fenced/pages/a").await.text(), "newer");
    let other = house.put("pages/a", &bob.token, "publish-1", "other").await;
    assert!(other.refused(422, "operation_mismatch").contains("publish-1"));
}

#[tokio::test]
async fn what_was_written_is_read_back_byte_for_byte() {
    let house = House::new().await;
    let lease = house.acquire("drafts/a").await;
    let typed = |ask: Ask| ask.with("content-type", "application/pdf; version=2");
    let first =
        house.call(typed(write("PUT", "drafts/a", &lease.token, "one")).body("%PDF-1.7\u{0}\n")).await;
    let tag = first.header("etag").unwrap().to_owned();
    let read = house.get("/fenced/drafts/a").await;
    assert_eq!((read.status, read.text().as_str()), (200, "%PDF-1.7\u{0}\n"));
    let headers = [
        ("content-type", "application/pdf; version=2"),
        ("etag", "\"1.1\""),
        ("fencing-effect", "none"),
        ("fencing-position", "0.1"),
        ("fencing-floor", "0.1"),
        ("fencing-commit", "1"),
        ("content-length", "10"),
    ];
    let head = house.call(ask("HEAD", "/fenced/drafts/a")).await;
    for (name, value) in headers {
        assert_eq!((read.header(name), head.header(name)), (Some(value), Some(value)), "{name}");
    }
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    // Without a content type, and empty.
    house.call(write("POST", "drafts/a", &lease.token, "two").with("if-match", &tag)).await.expect(200);
    let read = house.get("/fenced/drafts/a").await;
    assert_eq!((read.text().as_str(), read.header("content-type")), ("", Some("application/octet-stream")));
    assert_eq!(read.header("fencing-commit"), Some("2"));
}

#[tokio::test]
async fn reading_takes_preconditions() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.put("pages/a", &lease.token, "one", "hello").await.expect(201);
    let read =
        |name: &'static str, value: &'static str| house.call(ask("GET", "/fenced/pages/a").with(name, value));
    for (value, status) in
        [("\"1.1\"", 304), ("W/\"1.1\"", 304), ("*", 304), ("\"x\", \"1.1\"", 304), ("\"1.2\"", 200)]
    {
        let answer = read("if-none-match", value).await;
        assert_eq!(answer.status, status, "{value}");
        assert_eq!((answer.header("etag"), answer.header("content-length")), (Some("\"1.1\""), Some("5")));
    }
    assert_eq!(read("if-match", "\"1.1\"").await.status, 200);
    assert_eq!(read("if-match", "*").await.status, 200);
    for value in ["\"1.2\"", "W/\"1.1\""] {
        assert!(read("if-match", value).await.refused(412, "precondition_failed").contains("\"1.1\""));
    }
    read("if-match", "1.1").await.refused(400, "invalid_request");
    // A precondition on nothing does not hide that there is nothing (RFC 9110 section 13.2.1).
    house.call(ask("GET", "/fenced/pages/b").with("if-match", "*")).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_deleted_document_is_gone_and_comes_back_as_another_incarnation() {
    let house = House::new().await;
    house.call(write("DELETE", "pages/a", "1", "none")).await.refused(403, "token_not_yours");
    let lease = house.acquire("pages/a").await;
    house.call(write("DELETE", "pages/a", &lease.token, "none")).await.refused(404, "not_found");
    house.put("pages/a", &lease.token, "one", "hello").await.expect(201);
    house.clock.advance(30_000);
    let lease = house.acquire("pages/a").await;
    let removed = house.call(write("DELETE", "pages/a", &lease.token, "remove")).await;
    assert_eq!(removed.expect(200)["etag"], serde_json::Value::Null);
    assert_eq!((removed.header("etag"), removed.header("fencing-commit")), (None, Some("2")));
    let gone = house.get("/fenced/pages/a").await;
    assert!(gone.refused(410, "deleted").contains("above 0.2"));
    assert_eq!(gone.json()["current"]["position"], "0.2");
    assert_eq!(house.call(ask("HEAD", "/fenced/pages/a")).await.status, 410);
    house.put("pages/a", &lease.token, "again", "x").await.refused(410, "deleted");
    let again = house.call(write("DELETE", "pages/a", &lease.token, "remove")).await;
    assert_eq!((again.status, again.bytes), (200, removed.bytes));
    let lease = house.acquire("pages/a").await;
    let named = write("PUT", "pages/a", &lease.token, "back").body("x").with("fencing-incarnation", "1");
    house.call(named.clone()).await.refused(410, "deleted");
    let back = house.call(named.without("fencing-incarnation")).await;
    assert_eq!(back.header("etag"), Some("\"2.3\""));
    assert_eq!(back.expect(201)["incarnation"], "2");
}

#[tokio::test]
async fn targets_below_one_resource_share_its_fence() {
    let house = House::new().await;
    let lease = house.acquire("tree/a").await;
    house.put("tree/a/one/x", &lease.token, "1", "first").await.expect(201);
    // Under `session` the second write of a generation names what it edits, even another target.
    let second = write("PUT", "tree/a/two", &lease.token, "2").body("second");
    house.call(second.clone()).await.refused(428, "precondition_required");
    house.clock.advance(30_000);
    // Acquiring a target's name is acquiring its resource.
    let lease = house.acquire("tree/a/two").await;
    let receipt = house.put("tree/a/two", &lease.token, "2", "second").await.expect(201);
    assert_eq!((receipt["resource"].as_str(), receipt["target"].as_str()), (Some("tree/a"), Some("two")));
    assert_eq!(house.get("/fenced/tree/a/one/x").await.text(), "first");
    house.get("/fenced/tree/a").await.refused(404, "not_found");
    let shown = house.get("/v1/resources/tree/a/one/x").await.expect(200);
    assert_eq!(shown["targets"].as_array().unwrap().len(), 2, "{shown}");
    let tag = house.get("/fenced/tree/a/two").await.header("etag").unwrap().to_owned();
    let remove = write("DELETE", "tree/a/two", &lease.token, "3").with("if-match", &tag);
    house.call(remove).await.expect(200);
    house.get("/fenced/tree/a/two").await.refused(404, "not_found");
    assert_eq!(house.get("/fenced/tree/a/one/x").await.status, 200);
    house.get("/fenced/tree").await.refused(400, "invalid_resource");
}

#[tokio::test]
async fn a_superseded_owner_is_told_where_things_stand() {
    let house = House::new().await;
    let alice = house.acquire("pages/a").await;
    house.clock.advance(30_000);
    house.acquire("pages/a").await;
    let stale = house.put("pages/a", &alice.token, "late", "x").await;
    stale.refused(412, "stale_token");
    let problem = stale.json();
    assert_eq!(problem["presented"], serde_json::json!({"position": "0.1", "sequence": null}));
    assert_eq!(problem["current"], serde_json::json!({"position": "0.2", "sequence": null}));
    assert_eq!(problem["resource"], "pages/a");
    assert_eq!(stale.header("fencing-floor"), Some("0.2"));
    assert!(!stale.text().contains(&alice.id), "an acquisition id stands in a problem");
}
