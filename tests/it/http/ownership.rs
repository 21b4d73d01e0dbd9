//! Ownership that changes hands by an act: transfer, revoke, cancel and reopen; and waiting for it.

use serde_json::{Value, json};

use super::codes::{Seen, note};
use super::house::{Answer, Ask, House, LOCK_DELAY_MS, ask, write};
use super::rows::troubled;

/// A control call of an operator, with a key.
pub(super) fn control(verb: &str, name: &str, body: &Value) -> Ask {
    ask("POST", &format!("/v1/{verb}/{name}")).with("idempotency-key", "call-1").json(body)
}

fn acquire(body: &Value) -> Ask {
    ask("POST", "/v1/leases").json(body)
}

fn transfer(id: &str, body: &Value) -> Ask {
    ask("POST", &format!("/v1/leases/{id}/transfer")).json(body)
}

async fn tried(seen: &mut Seen, house: &House, ask: Ask) -> Answer {
    let answer = house.call(ask.clone()).await;
    note(seen, &ask, &answer);
    answer
}

/// Every refusal that belongs to these calls alone.
pub(super) async fn refused(seen: &mut Seen) {
    let house = House::over(troubled()).await;
    calls_refused(seen, &house).await;
    transfers_refused(seen, &house).await;
    waits_refused(seen, &house).await;
    for path in ["/v1/leases/short/events", "/v1/resources/pages/a?wait_ms=30001"] {
        tried(seen, &house, ask("GET", path)).await.refused(400, "invalid_request");
    }
}

async fn calls_refused(seen: &mut Seen, house: &House) {
    let reason = json!({"reason": "r"});
    let by = |token: &str| json!({"reason": "r", "fencing_token": token});
    let late = house.acquire("bound/late").await;
    let gone = house.acquire("pages/gone").await;
    house.put("pages/gone", &gone.token, "one", "x").await.expect(201);
    house.clock.advance(30_000);
    let gone = house.acquire("pages/gone").await;
    house.call(write("DELETE", "pages/gone", &gone.token, "two")).await.expect(200);
    for verb in ["revoke", "cancel", "reopen"] {
        // What only an owner is told, it is told of what lives; and whoever reopens, of what is cancelled.
        let jobs = if verb == "reopen" { "jobs/cancelled" } else { "jobs/known" };
        let asks = [
            (control(verb, "pages//a", &reason), 400, "invalid_resource"),
            (control(verb, "nobody/a", &reason), 404, "unknown_namespace"),
            (control(verb, "pages/busy", &json!({})), 422, "reason_required"),
            (control(verb, "pages/busy", &json!({"reason": "\u{7}"})), 422, "invalid_field"),
            (control(verb, jobs, &by("01")), 400, "invalid_token"),
            (control(verb, jobs, &by("3.1")), 409, "epoch_ahead"),
            (control(verb, jobs, &by("4")), 412, "stale_token"),
            (control(verb, "pages/busy", &by("0.5")), 403, "token_not_yours"),
            (
                control(verb, "pages/busy", &reason)
                    .without("idempotency-key")
                    .with("idempotency-key", "a b"),
                400,
                "invalid_operation_id",
            ),
        ];
        for (ask, status, code) in asks {
            tried(seen, house, ask).await.refused(status, code);
        }
    }
    for verb in ["revoke", "reopen"] {
        tried(seen, house, control(verb, "pages/never", &reason)).await.refused(404, "not_found");
    }
    for verb in ["cancel", "reopen"] {
        tried(seen, house, control(verb, "pages/gone", &reason)).await.refused(410, "deleted");
    }
    // An operator may revoke what is deleted; an owner is told that it is.
    tried(seen, house, control("revoke", "pages/gone", &by(&gone.token))).await.refused(410, "deleted");
    for verb in ["revoke", "cancel"] {
        tried(seen, house, control(verb, "bound/late", &by(&late.token))).await.refused(412, "lease_expired");
        tried(seen, house, control(verb, "jobs/known", &by("900"))).await.refused(409, "token_jump");
        tried(seen, house, control(verb, "jobs/cancelled", &by("6"))).await.refused(409, "cancelled");
        tried(seen, house, control(verb, "elected/a", &by("1"))).await.refused(403, "advance_forbidden");
    }
    let keyless = control("reopen", "pages/cancelled", &reason).without("idempotency-key");
    tried(seen, house, keyless).await.refused(428, "operation_id_required");
    tried(seen, house, control("reopen", "jobs/cancelled", &reason)).await.refused(428, "token_required");
    for verb in ["cancel", "revoke", "reopen"] {
        house.call(control(verb, "pages/mixed", &json!({"reason": "one"}))).await.expect(200);
        let other = control(verb, "pages/mixed", &json!({"reason": "another"}));
        tried(seen, house, other).await.refused(422, "operation_mismatch");
    }
}

async fn transfers_refused(seen: &mut Seen, house: &House) {
    let id = "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d";
    let own = house.acquire("pages/handed").await;
    let done = json!({"holder": "b", "request_id": id});
    let next = house.call(transfer(&own.id, &done)).await.expect(201);
    let last = house.acquire("pages/almost").await;
    let expired = house.acquire("pages/lost").await;
    let released = house.acquire("pages/given-back").await;
    house.call(ask("DELETE", &format!("/v1/leases/{}", released.id))).await.expect(200);
    let to = json!({"holder": "b"});
    let asks = [
        (transfer("short", &to), 400, "invalid_request"),
        (transfer(&last.id, &to).with("idempotency-key", "no-uuid"), 400, "invalid_operation_id"),
        (transfer(&last.id, &json!({})), 422, "invalid_field"),
        (transfer(&last.id, &to), 409, "token_exhausted"),
        (transfer(&own.id, &json!({"holder": "c", "request_id": id})), 422, "request_mismatch"),
        (transfer(&own.id, &to), 410, "lease_superseded"),
        (transfer(&released.id, &to), 410, "lease_released"),
    ];
    for (ask, status, code) in asks {
        tried(seen, house, ask).await.refused(status, code);
    }
    house.clock.advance(30_000);
    tried(seen, house, transfer(&expired.id, &to)).await.refused(410, "lease_expired");
    assert_eq!(next["holder"], "b");
}

async fn waits_refused(seen: &mut Seen, house: &House) {
    house.acquire("queued/a").await;
    let waiting = tried(seen, house, acquire(&json!({"resource": "queued/a", "wait_ms": 1}))).await;
    waiting.refused(409, "wait_timeout");
    assert_eq!(waiting.json()["queue_position"], 1);
    house.clock.advance(30_000);
    let delayed = tried(seen, house, acquire(&json!({"resource": "queued/a"}))).await;
    delayed.refused(409, "lock_delay");
    assert_eq!(delayed.json()["blockers"][0]["free_in_ms"], LOCK_DELAY_MS);
}

/// Bob is handed what Alice owns: nobody comes between, and a repeat of the hand-over finds Bob's lease.
#[tokio::test]
async fn alice_hands_her_lease_to_bob() {
    let house = House::new().await;
    let alice = house.acquire("pages/a").await;
    let wanted =
        json!({"holder": "bob", "ttl_ms": 60_000, "request_id": "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d"});
    let answer = house.call(transfer(&alice.id, &wanted)).await;
    let bob = answer.expect(201);
    let id = bob["acquisition_id"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(format!("/v1/leases/{id}").as_str()));
    assert_eq!((bob["holder"].as_str(), bob["position"].as_str()), (Some("bob"), Some("0.2")));
    assert_eq!(bob["remaining_ms"], 60_000);
    let repeat = house.call(transfer(&alice.id, &wanted)).await.expect(200);
    assert_eq!(repeat["fencing_token"], bob["fencing_token"]);
    let renewal = house.call(ask("POST", &format!("/v1/leases/{}/renew", alice.id))).await;
    renewal.refused(410, "lease_superseded");
    house.put("pages/a", &alice.token, "one", "x").await.refused(412, "stale_token");
    house.put("pages/a", bob["fencing_token"].as_str().unwrap(), "two", "x").await.expect(201);
}

/// One acquire owns three resources or none: what stands in the way is listed, resource by resource.
#[tokio::test]
async fn several_resources_are_owned_together_or_not_at_all() {
    let house = House::new().await;
    let held = house.acquire("pages/b").await;
    let wanted = json!({"resources": ["pages/c", "pages/b", "pages/a"]});
    let refusal = house.call(acquire(&wanted)).await;
    refusal.refused(409, "lease_held");
    let blockers =
        json!([{"resource": "pages/b", "code": "lease_held", "position": "0.1", "free_in_ms": 30_000}]);
    assert_eq!(refusal.json()["blockers"], blockers);
    assert!(refusal.json()["resource"].is_null());
    house.call(ask("DELETE", &format!("/v1/leases/{}", held.id))).await.expect(200);
    let lease = house.call(acquire(&wanted)).await.expect(201);
    assert_eq!(lease["resources"], json!(["pages/a", "pages/b", "pages/c"]));
    assert_eq!(lease["tokens"]["pages/b"]["position"], "0.2");
    let path = format!("/v1/leases/{}", lease["acquisition_id"].as_str().unwrap());
    let shown = house.get(&path).await.expect(200);
    assert!(shown["tokens"]["pages/a"]["fencing_token"].is_null());
    house.call(ask("DELETE", &path)).await.expect(200);
    house.acquire("pages/a").await;
}

/// The work is called off while Alice works: she is told, nobody acquires or writes, and after the reopening her old
/// token is still worth nothing.
#[tokio::test]
async fn alice_is_told_that_the_work_was_called_off() {
    let house = House::new().await;
    let alice = house.acquire("pages/a").await;
    let call = control("cancel", "pages/a", &json!({"reason": "withdrawn"}));
    let first = house.call(call.clone()).await;
    let cancelled = first.expect(200);
    assert_eq!(
        (cancelled["life"].as_str(), cancelled["reason"].as_str()),
        (Some("cancelled"), Some("withdrawn"))
    );
    assert_eq!(cancelled["lease"]["state"], "superseded");
    let renewal = house.call(ask("POST", &format!("/v1/leases/{}/renew", alice.id))).await;
    renewal.refused(410, "lease_superseded");
    assert_eq!(renewal.json()["cancel_requested"], true);
    assert_eq!(house.get(&format!("/v1/leases/{}", alice.id)).await.expect(200)["cancel_requested"], true);
    house.call(acquire(&json!({"resource": "pages/a"}))).await.refused(409, "cancelled");
    house.put("pages/a", &alice.token, "one", "x").await.refused(409, "cancelled");
    house.clock.advance(1_000);
    house.call(control("reopen", "pages/a", &json!({"reason": "after all"}))).await.expect(200);
    let copy = house.call(call).await;
    assert_eq!((copy.bytes.clone(), copy.header("idempotent-replayed")), (first.bytes.clone(), Some("true")));
    assert_eq!(first.header("idempotent-replayed"), None);
    house.put("pages/a", &alice.token, "one", "x").await.refused(412, "stale_token");
    let bob = house.acquire("pages/a").await;
    house.put("pages/a", &bob.token, "one", "x").await.expect(201);
}

/// An owner revokes by its token; once somebody came after it, its token revokes nothing.
#[tokio::test]
async fn only_the_newest_owner_revokes_by_its_token() {
    let house = House::new().await;
    let alice = house.acquire("pages/a").await;
    let own = |token: &str| {
        let ask = ask("POST", "/v1/revoke/pages/a").with("fencing-token", token);
        ask.json(&json!({"reason": "done for today"}))
    };
    house.call(own(&alice.token)).await.expect(200);
    let bob = house.acquire("pages/a").await;
    house.call(own(&alice.token)).await.refused(412, "stale_token");
    house.put("pages/a", &bob.token, "one", "x").await.expect(201);
}

/// A resource keeps its tag while time passes, and gets another one with every change.
#[tokio::test]
async fn a_tag_says_whether_a_resource_has_changed() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    let path = "/v1/resources/pages/a";
    let tag = |answer: &Answer| answer.header("etag").unwrap().to_owned();
    let first = tag(&house.get(path).await);
    house.clock.advance(1_000);
    let known = |tag: &str, query: &str| ask("GET", &format!("{path}{query}")).with("if-none-match", tag);
    for query in ["", "?wait_ms=1"] {
        let still = house.call(known(&first, query)).await;
        assert_eq!((still.status, tag(&still)), (304, first.clone()));
    }
    for form in [format!("W/{first}"), format!("\"x\", {first}"), "*".to_owned()] {
        assert_eq!(house.call(known(&form, "")).await.status, 304, "{form}");
    }
    house.call(known(&first.replace('"', ""), "")).await.refused(400, "invalid_request");
    house.put("pages/a", &lease.token, "one", "x").await.expect(201);
    let second = house.call(known(&first, "?wait_ms=30000")).await;
    second.expect(200);
    assert_ne!(tag(&second), first);
    house.clock.advance(30_000);
    let third = house.call(known(&tag(&second), "?wait_ms=30000")).await;
    assert_eq!(third.expect(200)["lease"]["state"], "expired");
}

/// A lease that has ended says how, and the stream ends with it.
#[tokio::test]
async fn the_events_of_an_ended_lease_are_its_end() {
    let house = House::new().await;
    let (released, expired, cancelled) =
        (house.acquire("pages/a").await, house.acquire("pages/b").await, house.acquire("pages/c").await);
    house.call(ask("DELETE", &format!("/v1/leases/{}", released.id))).await.expect(200);
    house.call(control("cancel", "pages/c", &json!({"reason": "r"}))).await.expect(200);
    house.clock.advance(30_000);
    let ends = [
        (&released, vec!["released"]),
        (&expired, vec!["expired"]),
        (&cancelled, vec!["cancel_requested", "superseded"]),
    ];
    for (lease, names) in ends {
        let path = format!("/v1/leases/{}", lease.id);
        let stream = house.get(&format!("{path}/events")).await;
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
        let shown = house.get(&path).await.text();
        let events: Vec<String> =
            names.iter().map(|name| format!("event: {name}\ndata: {shown}\n\n")).collect();
        assert_eq!(stream.text(), events.concat());
    }
}
