//! The breaker and epochs, as they are asked for and told.

use fencegate::domain::breaker::Detector;
use fencegate::domain::counter::{CommitNo, Epoch, MAX};
use fencegate::domain::subject::Subject;
use fencegate::ledger::changeset::ChangeSet;
use fencegate::protocol::rows::{Mark, ResourceRow};
use serde_json::{Value, json};

use super::codes::{Seen, note};
use super::house::{Ask, House, ask, write};
use super::ownership::control;
use super::rows::{add, at, in_doubt, resource, sealed, troubled};
use super::writing::{batch, member};

/// A new epoch of this namespace, well asked for.
pub(super) fn begun(namespace: &str, key: &str) -> Ask {
    let body = json!({"reason": "the database was restored", "confirm": namespace});
    ask("POST", &format!("/v1/namespaces/{}/epoch", namespace.replace('*', "%2A")))
        .with("idempotency-key", key)
        .json(&body)
}

const FOUND: &str = "the witness knows 41 and the database 17";

async fn trip(house: &House, subject: &str) {
    let subject = Subject::parse(subject).unwrap();
    house.ledger.trip(subject, Detector::Witness, FOUND.to_owned()).await.unwrap();
}

/// A body in place of the well-formed one.
fn told(namespace: &str, body: &Value) -> Ask {
    begun(namespace, "k").without("content-type").json(body)
}

async fn tried(seen: &mut Seen, house: &House, ask: Ask, status: u16, code: &str) -> String {
    let answer = house.call(ask.clone()).await;
    note(seen, &ask, &answer);
    answer.refused(status, code)
}

/// What epochs, the breaker and used up counters are refused with.
pub(super) async fn refused(seen: &mut Seen) {
    behind(seen).await;
    stopped(seen).await;
    used_up(seen).await;
    let house = House::over(in_doubt()).await;
    let open = tried(seen, &house, begun("store-pages", "a"), 409, "operations_open").await;
    assert!(open.contains("ahead on store-pages/lane") && open.contains("leave_open"), "{open}");
    tried(seen, &house, begun("nobody", "a"), 404, "unknown_namespace").await;
    tried(seen, &house, begun("a%2Fb", "a"), 400, "invalid_resource").await;
    tried(seen, &house, begun("pages", "a b"), 400, "invalid_operation_id").await;
    tried(seen, &house, begun("pages", "k").without("idempotency-key"), 428, "operation_id_required").await;
    tried(seen, &house, told("pages", &json!({"confirm": "pages"})), 422, "reason_required").await;
    for confirm in [json!(null), json!("page"), json!("*"), json!(""), json!(1)] {
        let body = json!({"reason": "r", "confirm": confirm});
        tried(seen, &house, told("pages", &body), 422, "invalid_field").await;
    }
    let odd = json!({"reason": "r", "confirm": "pages", "leave_open": "yes"});
    tried(seen, &house, told("pages", &odd), 422, "invalid_field").await;
    assert_eq!(house.get("/v1/namespaces/pages").await.expect(200)["epoch"], "0", "a refusal begins nothing");
    house.call(begun("pages", "k")).await.expect(200);
    let other = json!({"reason": "another", "confirm": "pages"});
    tried(seen, &house, told("pages", &other), 422, "operation_mismatch").await;
}

/// A token above all that the database issued stops everything, so each is tried at a house of its own.
async fn behind(seen: &mut Seen) {
    let token = |name: &str| sealed(name, 9);
    let body = json!({"reason": "r", "fencing_token": token("pages/busy")});
    let put = |method, name| {
        write(method, name, &token(name), "lost").body(if method == "DELETE" { "" } else { "x" })
    };
    let mut asks = vec![ask("POST", "/v1/advance/pages/busy").json(&body)];
    asks.extend(["revoke", "cancel", "reopen"].map(|verb| control(verb, "pages/busy", &body)));
    asks.extend(["PUT", "POST", "DELETE"].map(|method| put(method, "pages/busy")));
    asks.push(put("PATCH", "store-pages/busy"));
    asks.push(batch(&member("PUT", &put("PUT", "pages/busy"))));
    for ask in asks {
        let house = House::over(troubled()).await;
        tried(seen, &house, ask.clone(), 503, "issuer_behind").await;
        // What it proved is known from then on.
        let next = tried(seen, &house, ask, 503, "quarantined").await;
        assert!(next.contains("(detector seal") && next.contains("/epoch"), "{next}");
        assert_eq!(house.get("/readyz").await.status, 503);
    }
}

/// What is tried while everything is stopped.
async fn stopped(seen: &mut Seen) {
    let house = House::over(troubled()).await;
    let lease = house.acquire("pages/a").await;
    let stored = house.acquire("store-pages/a").await;
    trip(&house, "*").await;
    let put = |method| {
        write(method, "pages/a", &lease.token, "new").body(if method == "DELETE" { "" } else { "x" })
    };
    let reason = json!({"reason": "r"});
    let mut asks = vec![
        ask("POST", "/v1/leases").json(&json!({"resource": "pages/b"})),
        ask("POST", &format!("/v1/leases/{}/transfer", lease.id)).json(&json!({"holder": "b"})),
        ask("POST", "/v1/advance/pages/a").json(&json!({"reason": "r", "fencing_token": lease.token})),
        write("PATCH", "store-pages/a", &stored.token, "new").body("x"),
        batch(&member("PUT", &put("PUT"))),
    ];
    asks.extend(["PUT", "POST", "DELETE"].map(put));
    asks.extend(["revoke", "cancel", "reopen"].map(|verb| control(verb, "pages/a", &reason)));
    for ask in asks {
        let detail = tried(seen, &house, ask, 503, "quarantined").await;
        // What was found is told where one looks, to those who may.
        assert!(detail.contains("(detector witness") && !detail.contains("the witness knows 41"), "{detail}");
    }
}

/// Counters at their end.
async fn used_up(seen: &mut Seen) {
    let mut rows = ChangeSet::default();
    let full = |name: &str| ResourceRow {
        commit_no: CommitNo::new(MAX).unwrap(),
        applied: Some(Mark { position: at(4), sequence: None }),
        ..resource(name)
    };
    add(&mut rows, full("pages/full"));
    add(&mut rows, full("store-pages/full"));
    add(&mut rows, resource("drafts/a"));
    let drafts = rows.namespaces.values_mut().find(|row| row.after.namespace.as_str() == "drafts");
    drafts.unwrap().after.epoch = Epoch::new(MAX).unwrap();
    let house = House::over(rows).await;
    let (own, stored) = (house.acquire("pages/full").await, house.acquire("store-pages/full").await);
    let put = |method| {
        write(method, "pages/full", &own.token, "new").body(if method == "DELETE" { "" } else { "x" })
    };
    let mut asks = vec![batch(&member("PUT", &put("PUT"))), begun("drafts", "a"), begun("*", "a")];
    asks.extend(["PUT", "POST", "DELETE"].map(put));
    asks.push(write("PATCH", "store-pages/full", &stored.token, "new").body("x"));
    for ask in asks {
        tried(seen, &house, ask, 409, "counter_exhausted").await;
    }
}

/// Broken: an operator stops reading because nothing answers any more, or takes what is read for all that there was. Must
/// hold: reads and replays go on with a warning, of the namespace that is stopped and of no other; the reason stands where
/// one looks for it; a new epoch ends all of it.
#[tokio::test]
async fn what_is_stopped_is_read_with_a_warning_until_a_new_epoch() {
    let house = House::new().await;
    let lease = house.acquire("pages/a").await;
    house.put("pages/a", &lease.token, "done", "x").await.expect(201);
    let other = house.acquire("drafts/a").await;
    house.put("drafts/a", &other.token, "done", "x").await.expect(201);
    let put = |name: &str, token: &str| write("PUT", name, token, "done").body("x");
    let own = format!("/v1/leases/{}", lease.id);
    let answered = [
        ask("GET", "/fenced/pages/a"),
        ask("HEAD", "/fenced/pages/a"),
        ask("GET", "/fenced/pages/nothing"),
        put("pages/a", &lease.token),
        batch(&member("PUT", &put("pages/a", &lease.token))),
        ask("GET", "/v1/resources/pages/a"),
        ask("GET", "/v1/resources?namespace=pages"),
        ask("GET", "/v1/resources?prefix=pages/"),
        ask("GET", "/v1/resources"),
        ask("GET", "/v1/operations?resource=pages%2Fa"),
        ask("GET", "/v1/operations/done?resource=pages/a"),
        ask("GET", "/v1/namespaces/pages"),
        ask("GET", "/v1/namespaces"),
        ask("GET", &own),
        ask("POST", &format!("{own}/renew")).json(&json!({})),
    ];
    let unconcerned = [
        ask("GET", "/fenced/drafts/a"),
        put("drafts/a", &other.token),
        ask("GET", "/v1/resources/drafts/a"),
        ask("GET", "/v1/resources?namespace=drafts"),
        ask("GET", "/v1/operations?resource=drafts/a"),
        ask("GET", &format!("/v1/leases/{}", other.id)),
        ask("GET", "/v1/status"),
        ask("GET", "/readyz"),
    ];
    let warned = async |house: &House, ask: &Ask| {
        house.call(ask.clone()).await.header("fencing-warning").map(str::to_owned)
    };
    for ask in answered.iter().chain(&unconcerned) {
        assert_eq!(warned(&house, ask).await, None, "{ask:?}");
    }
    trip(&house, "pages").await;
    for ask in &answered {
        let answer = house.call(ask.clone()).await;
        assert_eq!(answer.header("fencing-warning"), Some("quarantined"), "{ask:?}");
        assert!(answer.status < 300 || answer.status == 404, "{ask:?}: {}", answer.status);
    }
    for ask in &unconcerned {
        assert_eq!(warned(&house, ask).await, None, "{ask:?}");
    }
    house.put("drafts/a", &other.token, "more", "x").await.refused(428, "precondition_required");
    is_named_where_one_looks(&house).await;
    let answer = house.call(begun("pages", "recovered")).await;
    let begun_now = answer.expect(200);
    assert_eq!((&begun_now["epoch"], &begun_now["breaker"]), (&json!("1"), &json!(null)));
    assert_eq!((answer.header("idempotent-replayed"), answer.header("fencing-warning")), (None, None));
    let again = house.call(begun("pages", "recovered")).await;
    assert_eq!((again.header("idempotent-replayed"), &again.bytes), (Some("true"), &answer.bytes));
    for ask in answered.iter().chain(&unconcerned) {
        assert_eq!(warned(&house, ask).await, None, "{ask:?}");
    }
    house.get("/readyz").await.expect(200);
    assert_eq!(house.get("/v1/status").await.expect(200)["quarantined"], json!([]));
    house.put("pages/a", &lease.token, "late", "x").await.refused(412, "stale_token");
    house.call(ask("POST", &format!("{own}/renew")).json(&json!({}))).await.refused(410, "lease_superseded");
    let new = house.call(ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"}))).await.expect(201);
    assert_eq!(new["position"], "1.2");
}

/// What is stopped and why stands in the health, in the status, and at the namespace.
async fn is_named_where_one_looks(house: &House) {
    let ready = house.get("/readyz?verbose").await.expect(503);
    let failing: Vec<&Value> =
        ready["checks"].as_array().unwrap().iter().filter(|one| one["ok"] == false).collect();
    assert_eq!(failing.len(), 1);
    assert_eq!(failing[0]["name"], "breaker");
    assert!(failing[0]["detail"].as_str().unwrap().contains("pages is stopped: the witness knows 41"));
    let status = house.get("/v1/status").await.expect(200);
    assert_eq!(status["quarantined"].as_array().unwrap().len(), 1);
    for shown in [&status["quarantined"][0], &house.get("/v1/namespaces/pages").await.expect(200)["breaker"]]
    {
        assert_eq!((&shown["detector"], &shown["found"]), (&json!("witness"), &json!(FOUND)));
    }
}

/// Broken: the first epoch of a namespace is the one that was lost. Must hold: the act on all of them shows every one, and
/// a name that is used later begins in the new epoch.
#[tokio::test]
async fn all_namespaces_begin_one_epoch() {
    let house = House::new().await;
    house.acquire("pages/a").await;
    house.call(begun("drafts", "a")).await.expect(200);
    trip(&house, "*").await;
    let all = house.call(begun("*", "a")).await.expect(200);
    assert_eq!(
        (&all["namespace"], &all["epoch"], &all["open_operations"]),
        (&json!("*"), &json!("2"), &json!([]))
    );
    let epochs: Vec<(&str, &str)> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["namespace"].as_str().unwrap(), one["epoch"].as_str().unwrap()))
        .collect();
    assert_eq!(epochs, [("drafts", "2"), ("pages", "2")]);
    let first = house.call(ask("POST", "/v1/leases").json(&json!({"resource": "bound/a"}))).await.expect(201);
    assert_eq!(first["position"], "2.1");
}
