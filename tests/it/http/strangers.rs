//! What somebody with few rights, or with none, can cost the others and learn of them.

use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::permission::Permission;
use fencegate::domain::time::Clock as _;
use fencegate::limits::DETAIL_BYTES;
use serde_json::json;
use uuid::Uuid;

use super::house::{House, Plan, ask};
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
