//! Stores behind HTTP at the door: relays, refusals that only they bring about, what waits for them, and how a doubt ends.

use fencegate::http::routes;
use serde_json::{Value, json};

use super::codes::{Seen, note, resolve};
use super::house::{Answer, Ask, House, Owned, ask, write};
use super::ownership::control;
use super::rows::{at, in_doubt, sealed, troubled};
use super::stores::NOBODY;
use crate::support::client::Client;
use crate::support::upstream::{Fault, Kind, Tags, Upstream};
use fencegate::ledger::changeset::ChangeSet;

async fn tried(seen: &mut Seen, house: &House, ask: Ask) -> Answer {
    let answer = house.call(ask.clone()).await;
    note(seen, &ask, &answer);
    answer
}

async fn before(upstream: &Upstream) -> House {
    House::before(upstream.url(), ChangeSet::default()).await
}

/// A write that waits for nobody.
fn impatient(method: &str, name: &str, token: &str, operation: &str) -> Ask {
    let write = write(method, name, token, operation).with("prefer", "wait=0");
    if method == "DELETE" { write } else { write.body("x").with("content-type", "text/plain") }
}

const METHODS: [&str; 4] = ["PUT", "POST", "PATCH", "DELETE"];

/// Every refusal that belongs to these stores alone, and a read that fails.
pub(super) async fn refused(seen: &mut Seen) {
    let away = House::over(in_doubt()).await;
    let own = away.acquire("store-pages/a").await;
    for method in METHODS {
        let strange = sealed("store-pages/strange", 5);
        let one = impatient(method, "store-pages/strange", &strange, "one");
        tried(seen, &away, one).await.refused(503, "quarantined");
        let behind = impatient(method, "store-pages/lane", &sealed("store-pages/lane", 5), "one");
        let answer = tried(seen, &away, behind).await;
        answer.refused(409, "lane_busy");
        assert_eq!(answer.json()["operation"], "/v1/operations/ahead?resource=store-pages%2Flane");
        let unsent = impatient(method, "store-pages/a", &own.token, "one");
        tried(seen, &away, unsent).await.refused(503, "upstream_unreachable");
    }
    tried(seen, &away, ask("GET", "/fenced/store-pages/a")).await.refused(503, "upstream_unreachable");
    let acquire = ask("POST", "/v1/leases").json(&json!({"resource": "store-pages/strange"}));
    tried(seen, &away, acquire).await.refused(503, "quarantined");
    let advance = ask("POST", "/v1/advance/store-elected/strange");
    let advance = advance.json(&json!({"fencing_token": "6", "reason": "r"}));
    tried(seen, &away, advance).await.refused(503, "quarantined");
    for verb in ["revoke", "cancel"] {
        let call = control(verb, "store-pages/strange", &json!({"reason": "r"}));
        tried(seen, &away, call).await.refused(503, "quarantined");
    }
    let member = json!({"method": "PUT", "resource": "store-pages/a", "fencing_token": own.token, "operation_id": "o"});
    let batch = ask("POST", "/v1/writes").json(&json!({"writes": [member]}));
    tried(seen, &away, batch).await.refused(422, "batch_unsupported");
    let gone = House::over(troubled()).await;
    for method in METHODS {
        for name in ["pages/busy", "store-pages/busy"] {
            if (method, name) != ("PATCH", "pages/busy") {
                let one = impatient(method, name, &sealed(name, 5), &format!("gone-{method}"));
                tried(seen, &gone, one).await.refused(412, "operation_not_applied");
            }
        }
    }
    resolutions(seen, &away).await;
}

async fn resolutions(seen: &mut Seen, house: &House) {
    let lane = |id: &str, verdict: &str| resolve(id, "store-pages/lane", verdict);
    tried(seen, house, lane("under-way", "applied")).await.refused(409, "operation_in_progress");
    tried(seen, house, lane("nothing", "applied")).await.refused(404, "not_found");
    house.call(lane("ahead", "not_applied")).await.expect(200);
    house.call(lane("ahead", "not_applied")).await.expect(200);
    tried(seen, house, lane("ahead", "applied")).await.refused(409, "already_resolved");
}

/// The store's answer comes back as it was, and again byte for byte, while the store hears of the write once.
#[tokio::test]
async fn what_a_store_answers_is_relayed_and_replayed() {
    let upstream = Upstream::start(Kind::Idempotent);
    let house = before(&upstream).await;
    let own = house.acquire("keyed/a b").await;
    let patch = || {
        let ask = ask("PATCH", "/fenced/keyed/a%20b?part=2").with("fencing-token", &own.token);
        ask.with("idempotency-key", "one").with("accept-language", "de").with("cookie", "c=1").body("x")
    };
    let first = house.call(patch()).await;
    assert_eq!((first.status, first.text().as_str()), (201, "written 1"));
    for (name, value) in [
        ("fencing-source", "upstream"),
        ("fencing-guarantee", "G2"),
        ("fencing-effect", "applied"),
        ("fencing-position", "0.1"),
        ("fencing-commit", "1"),
        ("fencing-upstream-etag", "\"v1\""),
        ("etag", "\"1.1\""),
        ("location", "/v1/operations/one?resource=keyed%2Fa%20b&incarnation=1"),
    ] {
        assert_eq!(first.header(name), Some(value), "{name}");
    }
    let again = house.call(patch()).await;
    assert_eq!((again.status, &again.bytes), (201, &first.bytes));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let [arrived] = &upstream.log()[..] else { panic!("{:?}", upstream.log()) };
    assert_eq!((arrived.method.as_str(), arrived.target.as_str()), ("PATCH", "/base/a%20b?part=2"));
    assert_eq!((arrived.header("accept-language"), arrived.header("cookie")), (Some("de"), None));
    assert_eq!((arrived.header("fencing-token"), arrived.header("prefer")), (None, None));
    let shown = house.get("/v1/operations/one?resource=keyed%2Fa%20b").await.expect(200);
    let response = json!({"status": 201, "content_type": null, "size": 9, "source": "upstream"});
    assert_eq!((&shown["state"], &shown["response"]), (&json!("applied"), &response));
    let resource = house.get("/v1/resources/keyed%2Fa%20b").await.expect(200);
    assert_eq!((&resource["store"], &resource["targets"][0]["size"]), (&json!("http"), &Value::Null));
}

/// A refusal of the store is its answer and not the gateway's; one about who asks leaves the id free.
#[tokio::test]
async fn what_a_store_refuses_is_relayed_as_well() {
    let upstream = Upstream::start(Kind::Idempotent);
    let house = before(&upstream).await;
    let own = house.acquire("keyed/a").await;
    upstream.fault(Fault::Status(429));
    let put = || impatient("PUT", "keyed/a", &own.token, "one");
    let busy = house.call(put()).await;
    assert_eq!((busy.status, busy.text().as_str(), busy.is_relayed()), (429, "no", true));
    assert_eq!((busy.header("fencing-effect"), busy.header("location")), (Some("none"), None));
    house.get("/v1/operations/one?resource=keyed%2Fa").await.refused(404, "not_found");
    upstream.fault(Fault::Status(409));
    for replayed in [None, Some("true")] {
        let refused = house.call(put()).await;
        assert_eq!((refused.status, refused.is_relayed()), (409, true));
        assert_eq!(refused.header("idempotent-replayed"), replayed);
        assert_eq!(
            (refused.header("fencing-effect"), refused.header("fencing-commit")),
            (Some("none"), None)
        );
    }
    let shown = house.get("/v1/operations/one?resource=keyed%2Fa").await.expect(200);
    assert_eq!((&shown["state"], &shown["effect"]), (&json!("refused"), &json!("none")));
    assert_eq!(house.call(impatient("PUT", "keyed/a", &own.token, "two")).await.status, 201);
}

/// An answer that is too large to be kept comes whole the first time; a replay says what it was.
#[tokio::test]
async fn of_a_large_answer_the_digest_is_kept() {
    let upstream = Upstream::start(Kind::Idempotent);
    let house = before(&upstream).await;
    let own = house.acquire("keyed/a").await;
    upstream.fault(Fault::Bomb(65_537));
    let put = || impatient("PUT", "keyed/a", &own.token, "one");
    let first = house.call(put()).await;
    assert_eq!((first.bytes.len(), first.header("content-encoding")), (65_537, Some("gzip")));
    assert_eq!(first.header("repr-digest"), None);
    let again = house.call(put()).await;
    assert_eq!((again.status, again.bytes.len()), (first.status, 0));
    assert!(again.header("repr-digest").unwrap().starts_with("sha-256=:"));
    let shown = house.get("/v1/operations/one?resource=keyed%2Fa").await.expect(200);
    assert_eq!(shown["response"]["size"], 65_537);
}

/// A store that can tell nothing has taken a write and has not answered. Nobody else gets past it, until a person says
/// what became of it.
async fn in_doubt_at(upstream: &Upstream, house: &House) -> Owned {
    let own = house.acquire("store-pages/a").await;
    upstream.fault(Fault::DropAnswer);
    let doubt = house.call(impatient("PUT", "store-pages/a", &own.token, "one")).await;
    doubt.refused(504, "outcome_uncertain");
    assert_eq!(doubt.header("location"), Some("/v1/operations/one?resource=store-pages%2Fa"));
    own
}

#[tokio::test]
async fn a_doubt_is_ended_by_a_person() {
    let upstream = Upstream::start(Kind::Serial);
    let house = before(&upstream).await;
    let own = in_doubt_at(&upstream, &house).await;
    for state in ["uncertain", "intent"] {
        let listed = house.get(&format!("/v1/operations?state={state}")).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), usize::from(state == "uncertain"), "{state}");
    }
    for asked in ["", "?state=applied"] {
        house.get(&format!("/v1/operations{asked}")).await.refused(400, "invalid_request");
    }
    let resource = house.get("/v1/resources/store-pages/a").await.expect(200);
    assert_eq!((&resource["state"], &resource["lane"]), (&json!("needs_attention"), &json!("one")));
    // Whatever list it stands in, it is what it is where it is shown alone.
    house.acquire("pages/other").await;
    for (asked, found) in [
        ("state=needs_attention", 1),
        ("state=needs_attention&life=active", 1),
        ("state=needs_attention&life=cancelled", 0),
        ("state=needs_attention&namespace=pages", 0),
        ("state=generating&namespace=store-pages", 0),
        ("namespace=store-pages", 1),
    ] {
        let listed = house.get(&format!("/v1/resources?{asked}")).await.expect(200);
        let items = listed["items"].as_array().unwrap();
        assert_eq!(items.len(), found, "{asked}: {listed}");
        assert!(items.iter().all(|item| item["state"] == "needs_attention"), "{asked}: {listed}");
    }
    house.call(impatient("PUT", "store-pages/a", &own.token, "two")).await.refused(409, "lane_busy");
    let revoked = house.call(control("revoke", "store-pages/a", &json!({"reason": "r"}))).await.expect(202);
    assert_eq!((&revoked["lane"], &revoked["in_flight"]), (&json!("one"), &json!(["one"])));
    let verdict = resolve("one", "store-pages/a", "applied");
    let resolved = house.call(verdict).await.expect(200);
    assert_eq!(
        (&resolved["state"], &resolved["resolution"]["assumed"]),
        (&json!("resolved_applied"), &json!(false))
    );
    let replay = house.call(impatient("PUT", "store-pages/a", &own.token, "one")).await;
    assert_eq!((replay.expect(200)["operation_id"].clone(), replay.is_relayed()), (json!("one"), false));
    assert_eq!(house.get("/v1/resources/store-pages/a").await.expect(200)["lane"], Value::Null);
    house.acquire("store-pages/a").await;
}

/// Ownership is said only when nothing older can come: until then there is no token.
#[tokio::test]
async fn who_comes_behind_a_doubt_waits_for_its_end() {
    let upstream = Upstream::start(Kind::Serial);
    let house = before(&upstream).await;
    let own = in_doubt_at(&upstream, &house).await;
    house.impatient.cancel();
    let transfer = ask("POST", &format!("/v1/leases/{}/transfer", own.id)).json(&json!({"holder": "bob"}));
    let pending = house.call(transfer).await.expect(202);
    assert_eq!((&pending["state"], &pending["fencing_token"]), (&json!("pending_barrier"), &Value::Null));
    house.call(control("cancel", "store-pages/a", &json!({"reason": "r"}))).await.expect(202);
    house.call(control("reopen", "store-pages/a", &json!({"reason": "r"}))).await.expect(202);
    let wanted = json!({"resource": "store-pages/a", "request_id": "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d"});
    let acquire = || ask("POST", "/v1/leases").json(&wanted);
    let pending = house.call(acquire()).await;
    let id = pending.expect(202)["acquisition_id"].as_str().unwrap().to_owned();
    let shown = house.get(&format!("/v1/leases/{id}")).await.expect(200);
    assert_eq!(shown["state"], "pending_barrier");
    house.call(resolve("one", "store-pages/a", "not_applied")).await.expect(200);
    let granted = house.call(acquire()).await;
    assert!(granted.status == 200 || granted.status == 201, "{}", granted.text());
    assert!(granted.json()["fencing_token"].is_string());
    house
        .call(impatient("PUT", "store-pages/a", &own.token, "one"))
        .await
        .refused(412, "operation_not_applied");
}

/// An advance is complete when the store has confirmed it.
#[tokio::test]
async fn an_advance_that_the_store_has_not_confirmed_is_accepted_only() {
    let upstream = Upstream::start(Kind::FenceAware);
    let (near, away) =
        (before(&upstream).await, House::before(NOBODY.to_owned(), ChangeSet::default()).await);
    away.impatient.cancel();
    for (house, status) in [(&near, 200), (&away, 202)] {
        let body = json!({"fencing_token": "5", "reason": "elected"});
        let advanced =
            house.call(ask("POST", "/v1/advance/aware-elected/a").json(&body)).await.expect(status);
        assert_eq!(advanced["floor"], at(5).to_string());
    }
    let [arrived] = &upstream.log()[..] else { panic!("{:?}", upstream.log()) };
    assert_eq!(arrived.header("fencing-advance"), Some("true"));
}

/// Reads come through as they are; of cells the gateway tells what is empty and what it has written itself.
#[tokio::test]
async fn reads_come_through() {
    let upstream = Upstream::start(Kind::Conditional(Tags::Counter));
    let house = before(&upstream).await;
    let own = house.acquire("cells/a").await;
    house.get("/fenced/cells/a").await.refused(404, "not_found");
    assert_eq!(house.call(impatient("PUT", "cells/a", &own.token, "one")).await.status, 200);
    let read = house.get("/fenced/cells/a").await;
    assert_eq!((read.status, read.text().as_str(), read.is_relayed()), (200, "x", true));
    assert_eq!((read.header("etag"), read.header("fencing-guarantee")), (Some("\"1.1\""), Some("G3")));
    assert_eq!((read.header("fencing-position"), read.header("x-fencing-stamp")), (Some("0.1"), None));
    let head = house.call(ask("HEAD", "/fenced/cells/a")).await;
    assert_eq!((head.status, head.header("etag")), (200, Some("\"1.1\"")));
    let known = house.call(ask("GET", "/fenced/cells/a").with("if-none-match", "\"1.1\"")).await;
    assert_eq!((known.status, known.is_relayed()), (304, false));
    let other = house.call(ask("GET", "/fenced/cells/a").with("if-match", "\"1.7\"")).await;
    other.refused(412, "precondition_failed");
    house.clock.advance(30_000);
    let next = house.acquire("cells/a").await;
    assert_eq!(house.call(impatient("DELETE", "cells/a", &next.token, "two")).await.status, 200);
    house.get("/fenced/cells/a").await.refused(410, "deleted");
    let missing = house.get("/fenced/store-pages/nothing?x=1").await;
    assert_eq!((missing.status, missing.text().as_str(), missing.is_relayed()), (404, "not there", true));
}

/// Somebody deletes a cell around the gateway. Nothing is written until a person has looked into it.
#[tokio::test]
async fn a_store_that_contradicts_the_record_is_quarantined() {
    let upstream = Upstream::start(Kind::Conditional(Tags::Counter));
    let house = before(&upstream).await;
    let own = house.acquire("cells/a").await;
    assert_eq!(house.call(impatient("PUT", "cells/a", &own.token, "one")).await.status, 200);
    house.clock.advance(30_000);
    Client::to(upstream.url()).delete("a").await;
    let acquire = || ask("POST", "/v1/leases").json(&json!({"resource": "cells/a"}));
    house.call(acquire()).await.expect(202);
    let shown = house.get("/v1/resources/cells/a").await.expect(200);
    assert_eq!((&shown["life"], &shown["state"]), (&json!("quarantined"), &json!("needs_attention")));
    assert_eq!(shown["quarantined"], "the cell has vanished from the store");
    let listed = house.get("/v1/resources?state=needs_attention").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    house.call(acquire()).await.refused(503, "quarantined");
    house.call(control("reopen", "cells/a", &json!({"reason": "looked"}))).await.expect(200);
    assert_eq!(house.get("/v1/resources/cells/a").await.expect(200)["life"], "active");
}

/// What an address takes depends on the store behind it, and `Allow` says so.
#[tokio::test]
async fn each_store_takes_its_own_methods() {
    let house = House::new().await;
    let (document, cell) = ("GET, HEAD, PUT, POST, DELETE", "GET, HEAD, PUT, DELETE");
    let plain = "GET, HEAD, PUT, POST, PATCH, DELETE";
    for (method, name, allowed) in [
        ("PATCH", "pages/a", document),
        ("BREW", "pages/a", document),
        ("PATCH", "cells/a", cell),
        ("POST", "cells/a", cell),
        ("BREW", "cells/a", cell),
        ("BREW", "keyed/a", plain),
    ] {
        let answer = house.call(impatient(method, name, "1", "one")).await;
        answer.refused(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {name}");
    }
    for name in ["pages/a", "cells/a"] {
        let asked = house.call(impatient("PUT", &format!("{name}?x=1"), "1", "one")).await;
        asked.refused(400, "invalid_request");
    }
    assert!(routes()[0].calls.iter().any(|call| call.method == "PATCH"));
}
