//! Rates, quotas and reserved lanes at the door.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use fencegate::access::pace::Rate;
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::quota::Quota;
use fencegate::domain::resource::Namespace;
use fencegate::limits::{
    QUEUE_COMMANDS, QUEUE_OPERATORS, QUEUE_RESERVED, REFUSAL_PAUSE, REFUSED_AT_ONCE, RETRY_AFTER,
    RETRY_SPREAD_SECONDS,
};
use serde_json::json;

use super::codes::{Seen, calls, note};
use super::house::{Answer, Ask, House, Plan, ask, write};
use super::ownership::control;

const OPEN: [&str; 3] = ["/livez", "/readyz", "/openapi.yaml"];

fn rate(per_second: u32, burst: u32) -> Rate {
    let number = |number| NonZeroU32::new(number).unwrap();
    Rate { per_second: number(per_second), burst: number(burst) }
}

async fn paced(per_second: u32, burst: u32) -> House {
    House::built(Plan { rate: Some(rate(per_second, burst)), ..Plan::default() }).await
}

/// The namespaces of the house, some of which may not have much.
async fn metered() -> House {
    let quota = |name: &str, quota| (Namespace::parse(name).unwrap(), quota);
    let quotas = [
        quota("pages", Quota { resources: Some(1), operations: Some(0), bytes: None }),
        quota("store-pages", Quota { operations: Some(0), ..Quota::default() }),
        quota("jobs", Quota { resources: Some(0), ..Quota::default() }),
        quota("drafts", Quota { bytes: Some(5), ..Quota::default() }),
    ];
    let plain = super::house::namespaces();
    let rules = |(name, rules): (&Namespace, &NamespaceRules)| {
        let quota = quotas.iter().find(|(other, _)| other == name);
        (
            name.clone(),
            NamespaceRules { quota: quota.map_or_else(Quota::default, |(_, quota)| *quota), ..*rules },
        )
    };
    let named = plain.named().map(rules).collect();
    House::built(Plan { namespaces: Namespaces::new(named, None), ..Plan::default() }).await
}

/// What every call is refused with whose caller asks too often, and what would add beyond a quota.
pub(super) async fn refused(seen: &mut Seen) {
    let house = paced(1, 1).await;
    for call in calls() {
        if OPEN.contains(&call.path.as_str()) || call.path.starts_with("/docs") {
            continue;
        }
        house.call(call.clone()).await;
        let answer = house.call(call.clone()).await;
        answer.refused(429, "rate_limited");
        note(seen, &call, &answer);
    }
    let house = metered().await;
    let (own, store) = (house.acquire("pages/a").await, house.acquire("store-pages/a").await);
    let member = json!({"method": "PUT", "resource": "pages/a", "fencing_token": own.token, "operation_id": "o", "body": "x"});
    for call in [
        ask("POST", "/v1/leases").json(&json!({"resource": "pages/b"})),
        write("PUT", "pages/a", &own.token, "one").body("x"),
        write("POST", "pages/a", &own.token, "one").body("x"),
        write("PATCH", "store-pages/a", &store.token, "one").body("x"),
        ask("POST", "/v1/writes").json(&json!({"writes": [member]})),
        ask("POST", "/v1/advance/jobs/a").json(&json!({"fencing_token": "1", "reason": "r"})),
    ] {
        let answer = house.call(call.clone()).await;
        answer.refused(429, "quota_exceeded");
        note(seen, &call, &answer);
    }
}

#[tokio::test]
async fn after_the_time_that_is_told_a_caller_is_let_through_and_not_before() {
    // Broken: Retry-After is a constant, so that callers come back too early or wait for nothing. Must hold: one
    // millisecond before the time that is told a request is refused, and at that time it is let through.
    let house = paced(4, 2).await;
    let asked = async || house.get("/v1/resources").await;
    assert_eq!(asked().await.header("ratelimit"), Some("\"default\";r=1"));
    let second = asked().await;
    assert_eq!(second.header("ratelimit"), Some("\"default\";r=0"));
    assert_eq!(second.header("ratelimit-policy"), Some("\"default\";q=2;w=1"));
    let refused = asked().await;
    assert!(refused.refused(429, "rate_limited").contains("4 times a second"));
    assert_eq!(refused.header("ratelimit"), Some("\"default\";r=0;t=1"));
    let wait = refused.json()["retry_after_ms"].as_u64().unwrap();
    assert_eq!(wait, 250);
    house.clock.advance(wait - 1);
    asked().await.refused(429, "rate_limited");
    house.clock.advance(1);
    asked().await.expect(200);
}

#[tokio::test]
async fn alice_writes_too_often_and_keeps_her_lease() {
    // Broken: one allowance for everything, so that a worker that writes too often can neither renew nor give back, and an
    // operator under the same name cannot stop it. Must hold: these take from an allowance of their own.
    let house = paced(1, 4).await;
    let own = house.acquire("pages/a").await;
    let mut refused = 0;
    for number in 0..8 {
        let answer = house.put("pages/a", &own.token, &format!("o{number}"), "x").await;
        refused += u32::from(answer.status == 429);
    }
    assert_eq!(refused, 5);
    let renew = ask("POST", &format!("/v1/leases/{}/renew", own.id));
    house.call(renew.clone()).await.expect(200);
    house.call(control("revoke", "pages/a", &json!({"reason": "r"}))).await.expect(200);
    house.call(ask("DELETE", &format!("/v1/leases/{}", own.id))).await;
    // It is an allowance all the same.
    house.call(renew.clone()).await;
    house.call(renew).await.refused(429, "rate_limited");
}

#[tokio::test]
async fn a_quota_lets_everything_through_that_adds_nothing() {
    // Broken: a namespace at its bound is frozen, and what would make room is refused too. Must hold: only what adds is
    // refused; renewals, releases, removals, repeats and smaller documents are not.
    let house = metered().await;
    let own = house.acquire("drafts/a").await;
    let tagged = |answer: &Answer| answer.header("etag").unwrap().to_owned();
    let first = house.put("drafts/a", &own.token, "one", "12345").await;
    assert_eq!(first.status, 201);
    let edit = |operation: &str, body: &str, tag: &str| {
        write("PUT", "drafts/a", &own.token, operation).with("if-match", tag).body(body)
    };
    let more = house.call(edit("two", "123456", &tagged(&first))).await;
    assert!(more.refused(429, "quota_exceeded").contains("5 bytes"));
    assert_eq!(more.header("retry-after"), Some("30"));
    let repeated = house.put("drafts/a", &own.token, "one", "12345").await;
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    let less = house.call(edit("two", "1234", &tagged(&first))).await;
    assert_eq!(less.status, 200, "{}", less.text());
    let other = house.acquire("drafts/b").await;
    house.put("drafts/b", &other.token, "one", "12").await.refused(429, "quota_exceeded");
    house.call(ask("POST", &format!("/v1/leases/{}/renew", own.id))).await.expect(200);
    let gone = write("DELETE", "drafts/a", &own.token, "three").with("if-match", &tagged(&less));
    let gone = house.call(gone).await;
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(house.put("drafts/b", &other.token, "one", "12").await.status, 201);
    house.call(ask("DELETE", &format!("/v1/leases/{}", other.id))).await.expect(200);
    let used = house.ledger.usage(&Namespace::parse("drafts").unwrap()).unwrap();
    assert_eq!((used.resources, used.operations, used.bytes), (2, 4, 2));
    house.ledger.count().await.unwrap();
    assert_eq!(house.ledger.usage(&Namespace::parse("drafts").unwrap()), Some(used));
}

#[tokio::test]
async fn what_is_removed_while_the_gateway_counts_is_taken_off_once() {
    // Broken: a removal is seen by the count and taken off by the books as well, so that whoever removes at the right time may
    // have its quota twice. Must hold: it makes room for as much as was removed.
    let house = metered().await;
    let own = house.acquire("drafts/a").await;
    let first = house.put("drafts/a", &own.token, "one", "12345").await;
    let stopped = house.script.counting.lock().await;
    let ledger = house.ledger.clone();
    let counting = tokio::spawn(async move { ledger.count().await });
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    let gone = write("DELETE", "drafts/a", &own.token, "two").with("if-match", first.header("etag").unwrap());
    assert_eq!(house.call(gone).await.status, 200);
    drop(stopped);
    counting.await.unwrap().unwrap();
    let used = house.ledger.usage(&Namespace::parse("drafts").unwrap()).unwrap();
    assert_eq!((used.resources, used.bytes), (1, 0));
    let other = house.acquire("drafts/b").await;
    house.put("drafts/b", &other.token, "one", "123456").await.refused(429, "quota_exceeded");
}

/// Whether a request is answered at once; otherwise it goes on waiting.
async fn answered(house: &House, one: &Ask) -> Option<u16> {
    let mut asking = tokio::spawn(house.answering(one.request()));
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    if asking.is_finished() { Some((&mut asking).await.unwrap().status().as_u16()) } else { None }
}

#[tokio::test]
async fn a_full_queue_has_room_for_renewals_releases_and_operators() {
    // Broken: writes fill the queue, and a renewal that comes last is refused until its lease is lost. Must hold: when
    // writes are refused, renewals, releases and operators' calls are still queued.
    let house = House::new().await;
    house.script.stands_still.store(true, Ordering::SeqCst);
    let writing = write("PUT", "pages/a", "1", "one").body("x");
    let mut tries = 0;
    while answered(&house, &writing).await.is_none() {
        tries += 1;
        assert!(tries < 10_000, "the queue has no end");
    }
    let lease = format!("/v1/leases/00{}", "A".repeat(22));
    for one in [
        ask("POST", &format!("{lease}/renew")),
        ask("DELETE", &lease),
        control("revoke", "pages/a", &json!({"reason": "r"})),
        control("cancel", "pages/a", &json!({"reason": "r"})),
    ] {
        assert_eq!(answered(&house, &one).await, None, "{} {}", one.method, one.path);
    }
    // Their room has an end too.
    let release = ask("DELETE", &lease);
    let mut queued = 4;
    while answered(&house, &release).await.is_none() {
        queued += 1;
        assert!(queued <= QUEUE_RESERVED, "the reserve has no end");
    }
    assert_eq!(queued, QUEUE_RESERVED);
    assert_eq!(answered(&house, &writing).await, Some(503));
    // And an operator's call finds some that nobody else takes.
    let revoke = control("revoke", "pages/a", &json!({"reason": "r"}));
    let mut of_operators = 0;
    while answered(&house, &revoke).await.is_none() {
        of_operators += 1;
        assert!(of_operators <= QUEUE_OPERATORS, "the operators' room has no end");
    }
    assert_eq!(of_operators, QUEUE_OPERATORS);
}

#[tokio::test]
async fn renewals_and_operators_calls_stand_in_order_where_too_many_go_past() {
    // Broken: a thousand places are empty, and a renewal is refused since two hundred others stand before it; or renewals take
    // the last place from an operator. Must hold: they take the places of the others while there are any, and after that there is
    // still room for an operator.
    let house = House::new().await;
    house.script.stands_still.store(true, Ordering::SeqCst);
    let release = ask("DELETE", &format!("/v1/leases/00{}", "A".repeat(22)));
    // One is with the committer.
    assert_eq!(answered(&house, &release).await, None);
    let mut queued = 0;
    while answered(&house, &release).await.is_none() {
        queued += 1;
        assert!(queued <= QUEUE_RESERVED + QUEUE_COMMANDS, "the queue has no end");
    }
    assert_eq!(queued, QUEUE_RESERVED + QUEUE_COMMANDS);
    assert_eq!(answered(&house, &control("revoke", "pages/a", &json!({"reason": "r"}))).await, None);
}

#[tokio::test]
async fn a_flood_of_refusals_is_told_at_a_pace() {
    // Broken: callers that come back at once are refused at once, and refusing takes what serving needs. Must hold: after some
    // the next ones wait for their turn; who comes later is told at once again.
    let house = House::new().await;
    house.script.stands_still.store(true, Ordering::SeqCst);
    let writing = write("PUT", "pages/a", "1", "one").body("x");
    while answered(&house, &writing).await.is_none() {}
    let mut told = 1;
    while answered(&house, &writing).await == Some(503) {
        told += 1;
        assert!(told < 4 * REFUSED_AT_ONCE, "nobody ever waits");
    }
    assert!(told >= REFUSED_AT_ONCE, "{told}");
    house.clock.advance(u64::try_from((2 * REFUSAL_PAUSE).as_millis()).unwrap());
    assert_eq!(answered(&house, &writing).await, Some(503));
}

#[tokio::test]
async fn who_is_refused_together_is_told_different_times() {
    // Broken: everybody comes back in the same second, and is refused again. Must hold: the times are spread.
    let house = House::new().await;
    house.script.stands_still.store(true, Ordering::SeqCst);
    let writing = write("PUT", "pages/a", "1", "one").body("x");
    while answered(&house, &writing).await.is_none() {}
    let mut waits = Vec::new();
    for _ in 0..64 {
        let refused = house.send(writing.request()).await;
        refused.refused(503, "overloaded");
        waits.push(refused.header("retry-after").unwrap().parse::<u64>().unwrap());
    }
    waits.sort_unstable();
    let (least, most) = (waits[0], waits[63]);
    assert!(
        least >= RETRY_AFTER.as_secs() && most <= RETRY_AFTER.as_secs() + RETRY_SPREAD_SECONDS,
        "{waits:?}"
    );
    waits.dedup();
    assert!(waits.len() >= 3, "{waits:?}");
}
