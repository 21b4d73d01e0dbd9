//! What the gateway says of itself, and how it refuses what it does not have.

use std::collections::BTreeMap;

use serde_json::json;

use super::house::{House, LOCK_DELAY_MS, Plan, ask};
use super::rows::{recorded_differently, resource};
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Definition, Store};
use fencegate::domain::resource::Namespace;
use fencegate::domain::upstream::Class;
use fencegate::http::routes;

#[tokio::test]
async fn what_there_is_not_is_a_problem_too() {
    let house = House::new().await;
    for path in
        ["/", "/nothing", "/v1", "/v1/", "/v1/effects", "/v1/operations/a/b", "/fencedx/a", "/v1/leases/a/b"]
    {
        assert!(house.get(path).await.refused(404, "not_found").contains("openapi.yaml"), "{path}");
    }
    assert!(house.get("/docs/errors/stale").await.refused(404, "not_found").contains("stale_token"));
}

#[tokio::test]
async fn other_methods_are_refused_with_those_that_are_taken() {
    let house = House::new().await;
    for route in routes() {
        let path = route
            .path
            .replace("{namespace}", "pages")
            .replace("{name}", "pages/a")
            .replace("{code}", "deleted");
        let path = path.replace("{acquisition_id}", &"a".repeat(24)).replace("{operation_id}", "a");
        let taken: Vec<&str> = route.calls.iter().map(|call| call.method).collect();
        for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            if taken.contains(&method) || method == "HEAD" {
                continue;
            }
            let answer = house.call(ask(method, &path)).await;
            answer.refused(405, "method_not_allowed");
            let allow = answer.header("allow").unwrap();
            // Documents are not patched.
            let taken = taken.iter().filter(|word| **word != "PATCH");
            assert!(taken.into_iter().all(|word| allow.split(", ").any(|other| other == *word)), "{allow}");
        }
    }
    let patch = house.call(ask("PATCH", "/fenced/pages/a")).await;
    assert_eq!(patch.header("allow"), Some("GET, HEAD, PUT, POST, DELETE"));
    assert!(patch.refused(405, "method_not_allowed").contains("PUT or POST"));
}

#[tokio::test]
async fn head_is_answered_wherever_get_is() {
    let house = House::new().await;
    for path in ["/livez", "/readyz", "/openapi.yaml", "/v1/status", "/v1/resources", "/docs/errors/deleted"]
    {
        let (get, head) = (house.get(path).await, house.call(ask("HEAD", path)).await);
        assert_eq!((head.status, head.bytes.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"));
        assert_eq!(head.header("content-length"), Some(get.bytes.len().to_string().as_str()), "{path}");
    }
}

#[tokio::test]
async fn every_code_has_its_page_where_type_leads() {
    let house = House::new().await;
    for code in fencegate::http::problem::Code::ALL {
        let page = house.get(&format!("/docs/errors/{}", code.word())).await;
        assert!(page.text().starts_with(&format!("# `{}`", code.word())));
        assert_eq!(page.header("content-type"), Some("text/markdown; charset=utf-8"));
    }
    let openapi = house.get("/openapi.yaml").await;
    assert_eq!(openapi.header("content-type"), Some("application/yaml"));
    assert!(openapi.text().contains("openapi: 3.1"));
}

#[tokio::test]
async fn namespaces_show_what_is_in_force() {
    let house = House::new().await;
    let all = house.get("/v1/namespaces").await.expect(200);
    assert_eq!((all["any"].as_bool(), all["items"].as_array().unwrap().len()), (Some(false), 21));
    let jobs = house.get("/v1/namespaces/jobs").await.expect(200);
    assert_eq!(jobs["issuer"], json!({"external": "trusted", "max_jump": "50"}));
    assert_eq!((jobs["recorded"].as_bool(), jobs["guarantee"].as_str()), (Some(false), Some("G4")));
    let keyed = house.get("/v1/namespaces/keyed").await.expect(200);
    assert_eq!((keyed["class"].as_str(), keyed["guarantee"].as_str()), (Some("idempotent"), Some("G2")));
    let ledger = house.get("/v1/namespaces/ledger").await.expect(200);
    assert_eq!((ledger["policy"].as_str(), ledger["gapless"].as_bool()), (Some("ordered"), Some(true)));
    let patient = json!({
        "ttl_ms": 30_000, "min_ttl_ms": 1_000, "max_ttl_ms": 3_600_000,
        "lock_delay_ms": LOCK_DELAY_MS, "max_hold_ms": 0, "order": "fifo",
    });
    assert_eq!(house.get("/v1/namespaces/queued").await.expect(200)["lease"], patient);
    house.get("/v1/namespaces/nobody").await.refused(404, "unknown_namespace");
    house.acquire("ledger/a").await;
    assert_eq!(house.get("/v1/namespaces/ledger").await.expect(200)["recorded"], true);
    // Where any name is taken, those that were used are listed.
    let open = House::built(Plan { namespaces: Namespaces::default(), ..Plan::default() }).await;
    assert_eq!(open.get("/v1/namespaces").await.expect(200), json!({"items": [], "any": true}));
    open.acquire("anything/a").await;
    let all = open.get("/v1/namespaces").await.expect(200);
    assert_eq!(all["items"][0]["namespace"], "anything");
    open.get("/v1/namespaces/unused").await.expect(200);
}

/// Whoever looks at an upstream's namespace sees what it can promise and where it is.
#[tokio::test]
async fn a_namespace_with_an_upstream_shows_its_class_and_its_guarantee() {
    for class in Class::ALL {
        let name = Namespace::parse("orders").unwrap();
        let definition = Definition { store: Store::Http(class), ..Definition::default() };
        let rules = NamespaceRules { definition, ..NamespaceRules::default() };
        let bases = BTreeMap::from([(name.clone(), "https://orders.internal/".to_owned())]);
        let namespaces = Namespaces::new(BTreeMap::from([(name, rules)]), None).with_bases(bases);
        let house = House::built(Plan { namespaces, ..Plan::default() }).await;
        let shown = house.get("/v1/namespaces/orders").await.expect(200);
        assert_eq!(house.get("/v1/namespaces").await.expect(200)["items"][0], shown);
        assert_eq!((&shown["store"], &shown["class"]), (&json!("http"), &json!(class.word())));
        assert_eq!(shown["guarantee"], class.guarantee());
        assert_eq!(shown["base"], "https://orders.internal/");
    }
    let house = House::new().await;
    let jobs = house.get("/v1/namespaces/jobs").await.expect(200);
    assert_eq!(
        (&jobs["store"], &jobs["class"], &jobs["base"]),
        (&json!("document"), &json!(null), &json!(null))
    );
}

#[tokio::test]
async fn a_namespace_that_is_configured_differently_is_named_and_not_served() {
    let house = House::over(recorded_differently().0).await;
    let shown = house.get("/v1/namespaces/pages").await.expect(200);
    let differs = "is recorded with policy=session and configured with policy=single";
    assert_eq!(shown["differs"], differs);
    assert_eq!(
        house.get("/v1/status").await.expect(200)["namespaces"]["differing"],
        json!(["pages", "store-pages", "tree"])
    );
    let ready = house.get("/readyz?verbose").await.expect(200);
    assert_eq!((ready["ready"].as_bool(), ready["checks"][2]["ok"].as_bool()), (Some(true), Some(false)));
    assert!(ready["checks"][2]["detail"].as_str().unwrap().contains(differs));
    for path in
        ["/fenced/pages/a", "/fenced/pages/never", "/v1/resources/pages/a", "/v1/operations?resource=pages/a"]
    {
        assert!(house.get(path).await.refused(503, "definition_differs").contains(differs), "{path}");
    }
    house.get("/v1/operations/a?resource=pages/a").await.refused(503, "definition_differs");
    let write = super::house::write("PUT", "pages/a", "1", "one");
    assert_eq!(house.call(write).await.header("retry-after"), Some("30"));
    house.acquire("drafts/a").await;
}

#[tokio::test]
async fn status_and_health_say_what_runs() {
    let house = House::over({
        let mut rows = fencegate::ledger::changeset::ChangeSet::default();
        super::rows::add(&mut rows, resource("pages/a"));
        rows
    })
    .await;
    let status = house.get("/v1/status").await.expect(200);
    assert_eq!(
        (status["api_version"].as_str(), status["database"]["engine"].as_str()),
        (Some("v1"), Some("memory"))
    );
    assert_eq!(status["database"]["ledger_seq"], "1");
    assert_eq!(status["started_at"], "2026-09-13T08:00:00.000Z");
    assert_eq!(house.get("/livez").await.expect(200), json!({"alive": true}));
    assert_eq!(house.get("/readyz").await.expect(200), json!({"ready": true}));
    let verbose = house.get("/readyz?verbose=1").await.expect(200);
    let names: Vec<&str> =
        verbose["checks"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ledger", "reads", "definitions", "accepting", "breaker", "queue", "stores"]);
    house.script.reads_fail.store(true, std::sync::atomic::Ordering::SeqCst);
    let unready = house.get("/readyz?verbose").await.expect(503);
    let failing: Vec<bool> =
        unready["checks"].as_array().unwrap().iter().map(|one| one["ok"].as_bool().unwrap()).collect();
    assert_eq!(failing, [true, false, false, true, false, true, true]);
    assert_eq!(house.get("/livez").await.status, 200);
    house.script.reads_fail.store(false, std::sync::atomic::Ordering::SeqCst);
    house.draining.cancel();
    let verbose = house.get("/readyz?verbose").await.expect(503);
    assert_eq!(
        verbose["checks"][3],
        json!({"name": "accepting", "ok": false, "detail": "draining: it stops, and serves what still comes"})
    );
    // Reads go on to the end; nothing new is taken in.
    assert_eq!(house.get("/v1/resources").await.status, 200);
    house
        .call(ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"})))
        .await
        .refused(503, "draining");
}

#[tokio::test]
async fn request_ids_are_ours_and_dated() {
    let house = House::new().await;
    let answer = house.call(ask("GET", "/livez").with("x-request-id", "theirs")).await;
    let id = uuid::Uuid::parse_str(answer.header("x-request-id").unwrap()).unwrap();
    let (seconds, _) = id.get_timestamp().unwrap().to_unix();
    assert_eq!(i64::try_from(seconds).unwrap() * 1_000, crate::support::clock::START_MS);
}
