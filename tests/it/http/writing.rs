//! Every refusal of a write, by each method and as a member of a batch.

use serde_json::{Value, json};

use super::codes::{Seen, note};
use super::house::{Ask, House, Owned, ask, write};
use super::rows::{sealed, troubled};
use super::stores::NOBODY;
use crate::support::upstream::{Kind, Upstream};

/// A write that is refused: what it addresses, with which token and further headers, and as what.
struct Case {
    name: String,
    token: String,
    headers: &'static [(&'static str, &'static str)],
    code: &'static str,
    status: u16,
}

/// A house in which something stands against everything, with the tokens of its owners. The namespaces are those whose
/// names begin so.
async fn house(twin: &str, base: &str) -> (House, Vec<Case>) {
    let house = House::before(base.to_owned(), troubled()).await;
    let own = async |name: &str| house.acquire(&format!("{twin}{name}")).await;
    let first = async |name: &str, owner: &Owned| {
        let write = write("PUT", &format!("{twin}{name}"), &owner.token, "first").body("x");
        let write = if name == "ledger/a" { write.with("fencing-sequence", "1") } else { write };
        // The twins have one upstream, where their names meet.
        assert!([200, 201].contains(&house.call(write).await.status), "{twin}{name}");
    };
    let bound = own("bound/a").await;
    house.clock.advance(30_000);
    let ledger = own("ledger/a").await;
    first("ledger/a", &ledger).await;
    let drafts = own("drafts/a").await;
    first("drafts/a", &drafts).await;
    let spent = own("pages/spent").await;
    first("pages/spent", &spent).await;
    let deleted = own("pages/deleted").await;
    first("pages/deleted", &deleted).await;
    house.clock.advance(30_000);
    let deleted = own("pages/deleted").await;
    let removal = write("DELETE", &format!("{twin}pages/deleted"), &deleted.token, "last");
    assert_eq!(house.call(removal).await.status, 200);
    let fresh = own("pages/fresh").await;
    let cases = cases(twin, &bound, &ledger, &drafts, &spent, &deleted, &fresh);
    (house, cases)
}

fn cases(
    twin: &str,
    bound: &Owned,
    ledger: &Owned,
    drafts: &Owned,
    spent: &Owned,
    deleted: &Owned,
    fresh: &Owned,
) -> Vec<Case> {
    let case = |name: &str, token: &str, headers, code, status| Case {
        name: format!("{twin}{name}"),
        token: token.to_owned(),
        headers,
        code,
        status,
    };
    let own = |name: &str, token: u64, code, status| {
        let name = format!("{twin}{name}");
        Case { token: sealed(&name, token), name, headers: &[], code, status }
    };
    vec![
        case("pages//a", "1", &[], "invalid_resource", 400),
        case("pages/a", "01", &[], "invalid_token", 400),
        case("pages/a", "1", &[("idempotency-key", "a b")], "invalid_operation_id", 400),
        case("ledger/a", "1", &[("fencing-sequence", "01")], "invalid_sequence", 400),
        case("pages/a", "1", &[], "token_not_yours", 403),
        case("elected/a", "7", &[], "advance_forbidden", 403),
        case("nobody/a", "1", &[], "unknown_namespace", 404),
        case("ledger/a", &ledger.token, &[("fencing-sequence", "3")], "sequence_gap", 409),
        own("pages/cancelled", 5, "cancelled", 409),
        case("jobs/a", "3.1", &[], "epoch_ahead", 409),
        case("jobs/a", "1000", &[], "token_jump", 409),
        case("pages/deleted", &deleted.token, &[], "deleted", 410),
        case("pages/spent", &spent.token, &[("fencing-incarnation", "7")], "incarnation_gone", 410),
        own("pages/pruned", 4, "operation_expired", 410),
        own("pages/busy", 4, "stale_token", 412),
        case("bound/a", &bound.token, &[], "lease_expired", 412),
        case("pages/spent", &spent.token, &[], "generation_spent", 412),
        case("ledger/a", &ledger.token, &[("fencing-sequence", "1")], "sequence_regressed", 412),
        case("pages/fresh", &fresh.token, &[("if-match", "\"1.1\"")], "precondition_failed", 412),
        case("pages/fresh", "", &[], "token_required", 428),
        case("pages/fresh", &fresh.token, &[("idempotency-key", "")], "operation_id_required", 428),
        case("ledger/a", &ledger.token, &[], "sequence_required", 428),
        case("drafts/a", &drafts.token, &[], "precondition_required", 428),
    ]
}

/// The case as a request of its own; an empty token or id is left out.
fn request(method: &str, case: &Case) -> Ask {
    let given = |name: &str| case.headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
    let mut ask = ask(method, &format!("/fenced/{}", case.name)).with("prefer", "wait=0");
    if !case.token.is_empty() {
        ask = ask.with("fencing-token", &case.token);
    }
    match given("idempotency-key") {
        Some("") => {}
        Some(id) => ask = ask.with("idempotency-key", id),
        None => ask = ask.with("idempotency-key", "new"),
    }
    let others = case.headers.iter().filter(|(name, _)| *name != "idempotency-key");
    ask = others.fold(ask, |ask, (name, value)| ask.with(name, value));
    if method == "DELETE" { ask } else { ask.body("x").with("content-type", "text/plain") }
}

/// The same request as the member of a batch.
pub(super) fn member(method: &str, request: &Ask) -> Value {
    let mut member = json!({"method": method, "resource": request.path.trim_start_matches("/fenced/")});
    for (name, value) in request.headers.iter().filter(|(name, _)| name != "prefer") {
        let field = match name.as_str() {
            "idempotency-key" => "operation_id".to_owned(),
            "fencing-token" => "fencing_token".to_owned(),
            other => other.trim_start_matches("fencing-").replace('-', "_"),
        };
        member[field] = json!(value);
    }
    member["body"] = request.body.as_ref().map_or(Value::Null, |body| json!(String::from_utf8_lossy(body)));
    member
}

pub(super) fn batch(member: &Value) -> Ask {
    ask("POST", "/v1/writes").json(&json!({"writes": [member]}))
}

/// Sends each case by each method and as a member, and notes what it sees.
pub(super) async fn refused(seen: &mut Seen) {
    let (house, cases) = house("", NOBODY).await;
    each(seen, (&house, &cases), "", &["PUT", "POST", "DELETE"]).await;
    others(seen, &house).await;
    // Nothing of it happened: what was free is free, and what stood stands.
    house.get("/fenced/pages/fresh").await.refused(404, "not_found");
    assert_eq!(house.get("/v1/resources/ledger/a").await.expect(200)["commit"], "1");
}

/// The same in front of an upstream, to which nothing of it gets.
pub(super) async fn refused_before_a_store(seen: &mut Seen) {
    let upstream = Upstream::start(Kind::Serial);
    let (house, cases) = house("store-", &upstream.url()).await;
    let before = upstream.log().len();
    each(seen, (&house, &cases), "store-", &["PATCH", "PUT", "POST", "DELETE"]).await;
    let large = write("PATCH", "store-small/a", "1", "one").body(&"x".repeat(17));
    let answer = house.call(large.clone()).await;
    answer.refused(413, "body_too_large");
    note(seen, &large, &answer);
    assert_eq!(upstream.log().len(), before);
    assert_eq!(house.get("/v1/resources/store-ledger/a").await.expect(200)["commit"], "1");
}

async fn each(seen: &mut Seen, (house, cases): (&House, &[Case]), twin: &str, methods: &[&str]) {
    let busy = format!("{twin}pages/busy");
    // An upstream takes no batches.
    let asked = |method: &str, alone: Ask| {
        let batched = twin.is_empty().then(|| batch(&member(method, &alone)));
        [Some(alone), batched].into_iter().flatten()
    };
    for method in methods {
        for case in cases {
            for ask in asked(method, request(method, case)) {
                let answer = house.call(ask.clone()).await;
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (case.status, case.code),
                    "{method} {ask:?}: {}",
                    answer.text()
                );
                note(seen, &ask, &answer);
            }
        }
        for (id, code, status) in
            [("busy", "operation_in_progress", 409), ("doubt", "outcome_uncertain", 504)]
        {
            let case = Case { name: busy.clone(), token: sealed(&busy, 5), headers: &[], code, status };
            let id = format!("{id}-{method}");
            let alone = request(method, &case).without("idempotency-key").with("idempotency-key", &id);
            for ask in asked(method, alone.clone()) {
                let answer = house.call(ask.clone()).await;
                answer.refused(status, code);
                let link = format!("/v1/operations/{id}?resource={twin}pages%2Fbusy");
                assert_eq!(answer.header("location"), Some(link.as_str()));
                note(seen, &ask, &answer);
            }
            for ask in asked(method, alone.with("if-none-match", "*")) {
                let answer = house.call(ask.clone()).await;
                answer.refused(422, "operation_mismatch");
                note(seen, &ask, &answer);
            }
        }
    }
}

/// What not all methods can be refused with.
async fn others(seen: &mut Seen, house: &House) {
    let fresh = house.acquire("pages/absent").await;
    let absent = write("DELETE", "pages/absent", &fresh.token, "none");
    let mut large =
        json!({"method": "PUT", "resource": "small/a", "fencing_token": "1", "operation_id": "o"});
    large["body"] = json!("x".repeat(17));
    let asks = [
        write("PUT", "small/a", "1", "one").body(&"x".repeat(17)),
        write("POST", "small/a", "1", "one").body(&"x".repeat(17)),
        write("DELETE", "small/a", "1", "one").body("x"),
        ask("GET", "/fenced/pages/deleted"),
        ask("GET", "/fenced/pages/spent").with("if-match", "\"9.9\""),
        batch(&member("DELETE", &absent)),
        batch(&large),
        absent,
        // The rows contradict each other: the request stops, and nothing happened.
        write("PUT", "bound/broken", &sealed("bound/broken", 5), "one").body("x"),
    ];
    for ask in asks {
        let answer = house.call(ask.clone()).await;
        note(seen, &ask, &answer);
    }
}
