//! What somebody with few rights, or with none, can cost the others and learn of them.

use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::breaker::Detector;
use fencegate::domain::permission::Permission;
use fencegate::domain::subject::Subject;
use fencegate::domain::time::Clock as _;
use fencegate::limits::DETAIL_BYTES;
use serde_json::json;
use uuid::Uuid;

use super::house::{Ask, House, Plan, ask};
use super::lasting::Stream;
use super::permissions::principal;

/// Far more than it takes, and far less than the product of the lengths would.
const QUICK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn what_is_wrong_is_said_quickly_and_shortly_however_long_it_is() {
    // Broken: a mistyped name is compared with all that could have been meant in a time that grows with the square of its
    // length, and comes back whole: a few requests take every thread. Must hold: no longer than reading it takes.
    let house = House::new().await;
    let long = "k".repeat(2_000_000);
    let began = SystemClock::started();
    let field = house
        .call(ask("POST", "/v1/leases").json(&json!({"resource": "pages/a", (&long[..60_000]): 1})))
        .await;
    let refusals = [
        field.refused(422, "invalid_field"),
        house
            .call(ask("POST", "/v1/writes").json(&json!({"writes": [{(&long): 1}]})))
            .await
            .refused(422, "invalid_field"),
        house
            .call(
                ask("POST", "/v1/writes")
                    .json(&json!({"writes": [{"resource": "pages/a", "method": &long}]})),
            )
            .await
            .refused(422, "invalid_field"),
        house.get(&format!("/docs/errors/{}", &long[..15_000])).await.refused(404, "not_found"),
        house.get(&format!("/v1/resources?{}=1", &long[..15_000])).await.refused(400, "invalid_request"),
        house.get(&format!("/fenced/{}/a", &long[..15_000])).await.refused(400, "invalid_resource"),
    ];
    let took = began.monotonic();
    assert!(took < QUICK, "{took:?}");
    for detail in refusals {
        assert!(detail.len() < DETAIL_BYTES + 64, "{} bytes", detail.len());
    }
}

#[tokio::test]
async fn who_may_do_nothing_of_the_kind_is_not_listened_to() {
    // Broken: megabytes are read and taken apart for a caller that may write nothing. Must hold: it is refused before that.
    let (reader, key) = principal("reader", 1, &[("pages", &[Permission::Read])]);
    let house = House::built(Plan { principals: vec![reader], ..Plan::default() }).await;
    for (method, path) in [("POST", "/v1/writes"), ("POST", "/v1/leases")] {
        let nonsense = ask(method, path)
            .with("content-type", "application/json")
            .body("{{{")
            .with("authorization", &key);
        assert!(house.call(nonsense).await.refused(403, "forbidden").contains("anything"), "{path}");
    }
}

#[tokio::test]
async fn numbers_and_names_are_not_for_those_who_show_nothing() {
    // Broken: without credentials everybody reads how many writes there were, and which namespaces are in trouble. Must hold: who
    // shows nothing learns whether each check is well, and who may read everything learns the rest.
    let (root, key) = principal("root", 1, &[("*", &[Permission::Read])]);
    let (tenant, narrow) = principal("tenant", 2, &[("pages", &[Permission::Read])]);
    let house = House::built(Plan { principals: vec![root, tenant], ..Plan::default() }).await;
    let asked = async |key: Option<&str>| {
        let asking = ask("GET", "/readyz?verbose");
        let asking = key.into_iter().fold(asking, |asking, key| asking.with("authorization", key));
        let checks = house.call(asking).await.expect(200)["checks"].as_array().unwrap().clone();
        assert!(checks.len() == 7 && checks.iter().all(|check| check["ok"] == true), "{checks:?}");
        checks.iter().filter(|check| check.get("detail").is_some()).count()
    };
    assert_eq!((asked(None).await, asked(Some(&narrow)).await), (0, 0));
    assert_eq!(asked(Some("Bearer fg_live_nothing")).await, 0);
    assert_eq!(asked(Some(&key)).await, 7);
}

#[tokio::test]
async fn a_request_id_tells_nothing_of_how_many_there_were() {
    // Broken: each id is the one before it and one more, so that two of them count the requests of everybody between. Must
    // hold: what differs is as if it had been drawn.
    let house = House::new().await;
    let mut last = Vec::new();
    for _ in 0..8 {
        let answer = house.get("/livez").await;
        let id: Uuid = answer.header("x-request-id").unwrap().parse().unwrap();
        last.push(id.as_u64_pair().1 & 0x3fff_ffff_ffff_ffff);
    }
    let near = last.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 1 << 32).count();
    assert_eq!(near, 0, "{last:x?}");
}

/// All that callers can read of acts on everything: the timeline, the namespaces, the events, and why a write is refused.
async fn told_of_everything(house: &House, key: &str) -> [String; 4] {
    let asked = async |asking: Ask| house.call(asking.with("authorization", key)).await;
    let timeline = asked(ask("GET", "/v1/timeline/pages/mine")).await;
    timeline.expect(200);
    let namespaces = asked(ask("GET", "/v1/namespaces")).await.text();
    let one = asked(ask("GET", "/v1/namespaces/drafts")).await.text();
    let wanted = ask("POST", "/v1/leases").json(&json!({"resource": "drafts/mine"}));
    let refused = asked(wanted).await.refused(503, "quarantined");
    let from = ask("GET", "/v1/events").with("last-event-id", "0").with("authorization", key);
    let mut stream = Stream::asked(house, &from).await;
    stream.until("all is told").await;
    [timeline.text(), format!("{namespaces}{one}"), stream.text, refused]
}

#[tokio::test]
async fn what_is_done_to_everything_names_nobody_to_a_tenant() {
    // Broken: each reload tells every tenant who else there is, and an alarm tells all of them the resource and the operation of
    // one. Must hold: that it was done and by which detector is told to everybody; names are for those who may look after
    // everything, whether they read it or operate it.
    let own = [Permission::Read, Permission::Lease, Permission::Admin];
    let (root, by_root) = principal("root", 1, &[("*", &Permission::ALL)]);
    let (tenant, by_tenant) = principal("tenant", 2, &[("pages", &own), ("drafts", &own)]);
    let nearly: [(&str, &[Permission]); 2] = [("*", &own), ("secret", &[])];
    let (nearly, by_nearly) = principal("nearly", 3, &nearly);
    let (watchman, by_watchman) =
        principal("watchman", 4, &[("*", &[Permission::Operate, Permission::Read, Permission::Lease])]);
    let (blind, by_blind) = principal("blind", 5, &[("pages", &[Permission::Lease])]);
    let principals = vec![root, tenant, nearly, watchman, blind];
    let house = House::built(Plan { principals, ..Plan::default() }).await;
    let wanted = ask("POST", "/v1/leases").json(&json!({"resource": "pages/mine"}));
    house.call(wanted.with("authorization", &by_tenant)).await.expect(201);
    house.ledger.note_policy(None, "principals: added tenant-two".to_owned()).await.unwrap();
    let begun = ask("POST", "/v1/namespaces/*/epoch")
        .with("idempotency-key", "1")
        .json(&json!({"reason": "tenant-two lost its disk", "confirm": "*"}));
    house.call(begun.with("authorization", &by_root)).await.expect(200);
    let found = "1 of the last 3 operations is missing, among them \"pay-17\" of \"mail/two\"";
    house.ledger.trip(Subject::Everywhere, Detector::Acks, found.to_owned()).await.unwrap();

    let names = ["tenant-two", "pay-17", "mail/two"];
    for key in [&by_tenant, &by_nearly] {
        let told = told_of_everything(&house, key).await;
        for text in &told {
            assert!(names.iter().all(|name| !text.contains(name)), "{text}");
            assert!(text.contains("acks"), "{text}");
        }
        let [timeline, _, events, _] = told;
        for act in ["policy_changed", "epoch_advanced", "tripped"] {
            assert!(timeline.contains(act) && events.contains(act), "{act}: {timeline}");
        }
        assert!(!timeline.contains("\"root\"") && !events.contains("\"root\""), "{timeline}{events}");
    }
    for key in [&by_root, &by_watchman] {
        let [timeline, namespaces, events, refused] = told_of_everything(&house, key).await;
        assert!(names.iter().all(|name| timeline.contains(name) && events.contains(name)), "{timeline}");
        assert!(namespaces.contains("pay-17") && timeline.contains("\"root\""), "{namespaces}");
        assert!(!refused.contains("pay-17"), "a worker's refusal stands in logs: {refused}");
    }
    let from = ask("GET", "/v1/events").with("last-event-id", "0").with("authorization", &by_blind);
    let mut stream = Stream::asked(&house, &from).await;
    stream.until("all is told").await;
    assert!(stream.text.contains("policy_changed") && !stream.text.contains("tenant-two"), "{}", stream.text);
}

#[tokio::test]
async fn what_a_store_shows_is_for_those_who_look_after_its_namespace() {
    // Broken: a store that is ahead names the resource of one to another who shares the namespace. Must hold: who may read the
    // whole namespace is told, and who may read a part of it learns that a store was the reason.
    let (whole, by_whole) = principal("whole", 1, &[("pages", &[Permission::Read])]);
    let (part, by_part) = principal("part", 2, &[("pages/mine", &[Permission::Read, Permission::Lease])]);
    let house = House::built(Plan { principals: vec![whole, part], ..Plan::default() }).await;
    let wanted = ask("POST", "/v1/leases").json(&json!({"resource": "pages/mine"}));
    house.call(wanted.with("authorization", &by_part)).await.expect(201);
    let pages = Subject::parse("pages").unwrap();
    house.ledger.trip(pages, Detector::Store, "pages/other is ahead".to_owned()).await.unwrap();
    for (key, is_told) in [(&by_whole, true), (&by_part, false)] {
        let asked = async |path: &str| house.call(ask("GET", path).with("authorization", key)).await;
        let shown = asked("/v1/namespaces/pages").await.expect(200);
        let found = if is_told { "pages/other is ahead" } else { "store" };
        assert_eq!(
            (&shown["breaker"]["detector"], &shown["breaker"]["found"]),
            (&json!("store"), &json!(found))
        );
        let timeline = asked("/v1/timeline/pages/mine").await.text();
        assert!(timeline.contains("tripped") && timeline.contains("pages/other") == is_told, "{timeline}");
    }
}
