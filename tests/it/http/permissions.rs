//! Who may do what: every call of the router with every permission, and what a caller learns of what is not its own.

use fencegate::access::key::ApiKey;
use fencegate::access::{HeldKey, Principal};
use fencegate::domain::permission::{Permission, Prefix, Rule, Rules};
use fencegate::domain::principal::PrincipalName;
use fencegate::http::{Gate, routes};
use serde_json::json;

use super::codes::{Seen, calls, note};
use super::contract;
use super::house::{Answer, Ask, House, Owned, Plan, ask, write};
use super::ownership::control;
use super::rows::troubled;

/// A principal with a key of its own.
pub(super) fn principal(name: &str, number: u8, rules: &[(&str, &[Permission])]) -> (Principal, String) {
    let key = ApiKey::of([number; 6], [number; 32]);
    let rules = rules.iter().map(|(prefix, permissions)| Rule {
        prefix: Prefix::parse(prefix).unwrap(),
        permissions: permissions.iter().copied().collect(),
    });
    let held = HeldKey { id: key.id().clone(), digest: key.digest(), expires_at: None };
    let principal = Principal {
        keys: vec![held],
        ..Principal::new(PrincipalName::parse(name).unwrap(), Rules::new(rules))
    };
    (principal, format!("Bearer {}", key.reveal().as_str()))
}

/// A principal for each permission everywhere, one for all, and one that may do everything elsewhere.
struct Cast {
    house: House,
    with: Vec<(Permission, String)>,
    root: String,
    stranger: String,
}

impl Cast {
    async fn new() -> Self {
        let (mut principals, mut with) = (Vec::new(), Vec::new());
        for (number, permission) in (1..).zip(Permission::ALL) {
            let (one, key) = principal(permission.word(), number, &[("*", &[permission])]);
            principals.push(one);
            with.push((permission, key));
        }
        let (all, root) = principal("root", 100, &[("*", &Permission::ALL)]);
        let (other, stranger) = principal("stranger", 101, &[("elsewhere", &Permission::ALL)]);
        principals.extend([all, other]);
        let house = House::built(Plan { principals, rows: troubled(), ..Plan::default() }).await;
        Self { house, with, root, stranger }
    }

    async fn asked(&self, who: &str, ask: &Ask) -> Answer {
        self.house.call(ask.clone().with("authorization", who)).await
    }

    async fn lease(&self, resource: &str) -> Owned {
        let wanted = ask("POST", "/v1/leases").json(&json!({"resource": resource}));
        let lease = self.asked(&self.root, &wanted).await.expect(201);
        let text = |name: &str| lease[name].as_str().unwrap().to_owned();
        Owned { id: text("acquisition_id"), token: text("fencing_token") }
    }
}

/// The permissions that let a call through, as its gate says; owners and operators are told apart by the token.
fn letting(gate: Gate, ask: &Ask) -> Vec<Permission> {
    match gate {
        Gate::Open | Gate::Known => Permission::ALL.to_vec(),
        Gate::Permitted(&[Permission::Write, Permission::Operate]) => {
            let owner = ask.headers.iter().any(|(name, _)| name == "fencing-token");
            vec![if owner { Permission::Write } else { Permission::Operate }]
        }
        Gate::Permitted(list) => list.to_vec(),
    }
}

fn gate_of(ask: &Ask) -> Gate {
    let route = contract::route_of(&ask.path).unwrap();
    let call = route.calls.iter().find(|call| call.method == ask.method.as_str());
    call.unwrap_or_else(|| panic!("{} {}", ask.method, ask.path)).gate
}

/// Broken: a route that somebody added is open to every caller. Must hold: each call of the router goes through exactly with
/// the permissions that its gate names, and without credentials only where it is open.
#[tokio::test]
async fn every_call_takes_exactly_the_permissions_of_its_gate() {
    let cast = Cast::new().await;
    let owner =
        |verb: &str| control(verb, "pages/held", &json!({"reason": "r"})).with("fencing-token", "0.1.x");
    let mut asks = calls();
    asks.extend(["revoke", "cancel", "reopen"].map(owner));
    for route in routes() {
        for call in route.calls.iter().filter(|call| call.method != "HEAD") {
            let made = |ask: &Ask| {
                ask.method == call.method
                    && contract::route_of(&ask.path).is_some_and(|one| one.path == route.path)
            };
            assert!(asks.iter().any(made), "{} {} is not tried", call.method, route.path);
        }
    }
    for ask in &asks {
        let gate = gate_of(ask);
        let shown = format!("{} {}", ask.method, ask.path);
        let without = cast.house.call(ask.clone()).await;
        assert_eq!(without.status == 401, gate != Gate::Open, "{shown}: {}", without.text());
        let of_lease = ask.path.contains("/v1/leases/");
        for (permission, key) in &cast.with {
            // Leases by their ids are answered as unknown ones; one is made for each attempt, and has expired by then, so
            // that its events end.
            let mut ask = ask.clone();
            if of_lease {
                let lease = cast.lease(&format!("pages/{}", permission.word())).await;
                cast.house.clock.advance(40_000);
                ask.path = ask.path.replace(&format!("00{}", "A".repeat(22)), &lease.id);
            }
            let answer = cast.asked(key, &ask).await;
            let refused = if of_lease { answer.status == 404 } else { code_of(&answer) == "forbidden" };
            let wanted = letting(gate, &ask).contains(permission);
            assert_eq!(!refused, wanted, "{shown} with {permission:?}: {}", answer.text());
        }
        let answer = cast.asked(&cast.stranger, ask).await;
        let refused = code_of(&answer) == "forbidden" || (of_lease && answer.status == 404);
        let named = ["/v1/namespaces/pages", "/v1/events?namespace=nobody"].contains(&ask.path.as_str());
        let wanted = matches!(gate, Gate::Permitted(_)) || named;
        assert_eq!(refused, wanted, "{shown} by a stranger: {}", answer.text());
    }
}

fn code_of(answer: &Answer) -> String {
    if answer.header("content-type") == Some("application/problem+json") {
        answer.code()
    } else {
        String::new()
    }
}

/// The refusals that only credentials make, for each call.
pub(super) async fn refused(seen: &mut Seen) {
    let cast = Cast::new().await;
    let odd = ask("GET", "/v1/whoami?permission=write&resource=pages//a");
    note(seen, &odd, &cast.asked(&cast.root, &odd).await);
    for call in calls() {
        note(seen, &call, &cast.house.call(call.clone()).await);
        note(seen, &call, &cast.asked(&cast.stranger, &call).await);
    }
}

/// Broken: a tenant reads from the answers which of its neighbour's resources and namespaces exist. Must hold: forbidden and
/// unknown names are answered alike, whatever is asked.
#[tokio::test]
async fn a_stranger_cannot_tell_what_exists() {
    let cast = Cast::new().await;
    let lease = cast.lease("pages/there").await;
    let put = write("PUT", "pages/there", &lease.token, "op-1").body("x");
    cast.asked(&cast.root, &put).await.expect(201);
    let asks = |name: &str| {
        vec![
            ask("GET", &format!("/fenced/{name}")),
            ask("HEAD", &format!("/fenced/{name}")),
            ask("BREW", &format!("/fenced/{name}")),
            write("PUT", name, &lease.token, "op-1").body("x"),
            write("PUT", name, "0.1.x", "op-2").body("x"),
            write("DELETE", name, &lease.token, "op-3"),
            ask("GET", &format!("/v1/resources/{name}")),
            ask("GET", &format!("/v1/timeline/{name}")),
            ask("GET", &format!("/v1/operations?resource={name}")),
            ask("GET", &format!("/v1/operations/op-1?resource={name}")),
            ask("POST", "/v1/leases").json(&json!({"resource": name})),
            control("cancel", name, &json!({"reason": "r"})),
            control("revoke", name, &json!({"reason": "r"})).with("fencing-token", &lease.token),
            ask("GET", &format!("/v1/resources?prefix={name}")),
            ask("GET", &format!("/v1/namespaces/{}", name.split('/').next().unwrap())),
        ]
    };
    for other in ["pages/gone", "nowhere/there", "store-pages/there"] {
        for (one, another) in asks("pages/there").into_iter().zip(asks(other)) {
            let shown = format!("{} {} and {}", one.method, one.path, another.path);
            let one = cast.asked(&cast.stranger, &one).await;
            let another = cast.asked(&cast.stranger, &another).await;
            assert_eq!(one.status, another.status, "{shown}");
            let plain = |answer: &Answer, name: &str| {
                let text =
                    answer.text().replace(name, "NAME").replace(name.split('/').next().unwrap(), "SPACE");
                let mut json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                json["request_id"] = serde_json::Value::Null;
                let headers: Vec<String> = answer.headers.keys().map(ToString::to_string).collect();
                (json, headers)
            };
            assert_eq!(plain(&one, "pages/there"), plain(&another, other), "{shown}");
        }
    }
    // Of a lease that is not its own it learns as much as of one that never was.
    let known = cast.asked(&cast.stranger, &ask("GET", &format!("/v1/leases/{}", lease.id))).await;
    let made_up = ask("GET", &format!("/v1/leases/00{}", "A".repeat(22)));
    let unknown = cast.asked(&cast.stranger, &made_up).await;
    assert_eq!((known.status, known.json()["detail"].clone()), (404, unknown.json()["detail"].clone()));
    let renew = ask("POST", &format!("/v1/leases/{}/renew", lease.id)).json(&json!({}));
    assert_eq!(cast.asked(&cast.stranger, &renew).await.status, 404);
    let list = cast.asked(&cast.stranger, &ask("GET", "/v1/namespaces")).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

/// Broken: a worker that may write and not read learns the position of its successor from a refusal. Must hold: where a
/// resource stands is told only to those who may read it.
#[tokio::test]
async fn where_a_resource_stands_is_told_to_readers_only() {
    let (blind, blind_key) = principal("blind", 1, &[("pages", &[Permission::Write, Permission::Lease])]);
    let all = [Permission::Write, Permission::Lease, Permission::Read];
    let (seeing, seeing_key) = principal("seeing", 2, &[("pages", &all)]);
    let house = House::built(Plan { principals: vec![blind, seeing], ..Plan::default() }).await;
    let acquire = ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"}));
    let old = house.call(acquire.clone().with("authorization", &blind_key)).await.expect(201);
    house.clock.advance(31_000);
    house.call(acquire.with("authorization", &seeing_key)).await.expect(201);
    let late = write("PUT", "pages/a", old["fencing_token"].as_str().unwrap(), "op-1").body("x");
    let told = house.call(late.clone().with("authorization", &blind_key)).await;
    told.refused(412, "stale_token");
    assert!(
        told.json().get("current").is_none() && told.header("fencing-floor").is_none(),
        "{}",
        told.text()
    );
    assert!(!told.json()["detail"].as_str().unwrap().contains("0.2"), "{}", told.text());
    let told = house.call(late.with("authorization", &seeing_key)).await;
    told.refused(412, "stale_token");
    assert!(
        told.json().get("current").is_some() && told.header("fencing-floor") == Some("0.2"),
        "{}",
        told.text()
    );
}

/// Broken: a page of names with gaps tells what stands in the gaps. Must hold: a list is given of what the caller may read as a
/// whole, or refused.
#[tokio::test]
async fn a_list_is_of_what_the_caller_may_read_as_a_whole() {
    let rules: [(&str, &[Permission]); 2] = [("pages", &[Permission::Read]), ("pages/secret", &[])];
    let (reader, key) = principal("reader", 1, &rules);
    let house = House::built(Plan { principals: vec![reader], ..Plan::default() }).await;
    let list = async |query: &str| {
        house.call(ask("GET", &format!("/v1/resources{query}")).with("authorization", &key)).await
    };
    for query in
        ["", "?namespace=pages", "?prefix=pages%2Fsec", "?prefix=pages%2Fsecret%2F", "?namespace=jobs"]
    {
        list(query).await.refused(403, "forbidden");
    }
    for query in ["?prefix=pages%2Fopen", "?namespace=pages&prefix=pages%2Fopen%2F"] {
        list(query).await.expect(200);
    }
}

/// Broken: a writer of a trusted issuer's namespace names a huge token and locks everybody out. Must hold: only with `advance`
/// does a write raise the floor.
#[tokio::test]
async fn only_who_may_advance_raises_a_trusted_floor_by_writing() {
    let (writer, low) = principal("writer", 1, &[("jobs", &[Permission::Write, Permission::Read])]);
    let (raiser, high) = principal("raiser", 2, &[("jobs", &[Permission::Write, Permission::Advance])]);
    let house = House::built(Plan { principals: vec![writer, raiser], ..Plan::default() }).await;
    let put = |token: &str, operation: &str, key: &str| {
        house.call(write("PUT", "jobs/a", token, operation).body("x").with("authorization", key))
    };
    put("7", "op-1", &low).await.refused(403, "advance_forbidden");
    put("7", "op-1", &high).await.expect(201);
    put("8", "op-2", &low).await.refused(403, "advance_forbidden");
    put("7", "op-3", &low).await.refused(412, "generation_spent");
    // Nothing proves that a caller owns what an unsealed position names.
    let cancel = control("cancel", "jobs/a", &json!({"reason": "r"})).with("fencing-token", "9");
    house.call(cancel.with("authorization", &low)).await.refused(403, "forbidden");
}

/// Broken: two tenants use one request id, and one gets the other's lease with its sealed token. Must hold: a request id means
/// something only to the principal that made it.
#[tokio::test]
async fn a_request_id_of_another_principal_is_another_request() {
    let may: [(&str, &[Permission]); 1] = [("pages", &[Permission::Lease])];
    let ((alice, of_alice), (bob, of_bob)) = (principal("alice", 1, &may), principal("bob", 2, &may));
    let house = House::built(Plan { principals: vec![alice, bob], ..Plan::default() }).await;
    let id = "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d";
    let acquire = ask("POST", "/v1/leases").json(&json!({"resource": "pages/a", "request_id": id}));
    let mine = house.call(acquire.clone().with("authorization", &of_alice)).await.expect(201);
    let again = house.call(acquire.clone().with("authorization", &of_alice)).await.expect(200);
    assert_eq!(mine["fencing_token"], again["fencing_token"]);
    let other = house.call(acquire.with("authorization", &of_bob)).await;
    other.refused(409, "lease_held");
    assert!(!other.text().contains(mine["fencing_token"].as_str().unwrap()));
}

/// Broken: the record is looked up before the permission: whoever may read repeats a writer's request and gets its receipt, or
/// writes with a token that it has come across. Must hold: without the permission to write a recorded answer is nobody's.
#[tokio::test]
async fn a_recorded_answer_is_given_to_those_only_who_may_write() {
    let (reader, of_reader) = principal("reader", 1, &[("pages", &[Permission::Read])]);
    let may = [Permission::Read, Permission::Write, Permission::Lease];
    let (writer, of_writer) = principal("writer", 2, &[("pages", &may)]);
    let house = House::built(Plan { principals: vec![reader, writer], ..Plan::default() }).await;
    let acquire = ask("POST", "/v1/leases").json(&json!({"resource": "pages/a"}));
    let lease = house.call(acquire.with("authorization", &of_writer)).await.expect(201);
    let put = write("PUT", "pages/a", lease["fencing_token"].as_str().unwrap(), "op-1").body("x");
    house.call(put.clone().with("authorization", &of_writer)).await.expect(201);
    let told = house.call(put.clone().with("authorization", &of_reader)).await;
    told.refused(403, "forbidden");
    assert_eq!(told.header("idempotent-replayed"), None);
    house.call(put.with("authorization", &of_writer)).await.expect(201);
}

/// Whoami tells a caller its own rules, and explains a verdict without telling whether there is anything of that name.
#[tokio::test]
async fn whoami_explains_a_verdict_by_the_rule_that_decides() {
    let rules: [(&str, &[Permission]); 2] =
        [("pages", &[Permission::Read, Permission::Write]), ("pages/frozen", &[Permission::Read])];
    let (worker, key) = principal("worker", 1, &rules);
    let house = House::built(Plan { principals: vec![worker], ..Plan::default() }).await;
    let who = async |query: &str| {
        house.call(ask("GET", &format!("/v1/whoami{query}")).with("authorization", &key)).await
    };
    let told = who("").await.expect(200);
    assert_eq!(
        (&told["principal"], &told["credential"], &told["key"]),
        (&json!("worker"), &json!("key"), &json!("010101010101"))
    );
    assert_eq!(told["rules"][0], json!({"prefix": "pages/frozen", "permissions": ["read"]}));
    let told = who("?permission=write&resource=pages/frozen/x").await.expect(200);
    assert_eq!(told["verdict"]["allowed"], false);
    assert_eq!(told["verdict"]["rule"]["prefix"], "pages/frozen");
    let told = who("?permission=write&resource=elsewhere/x").await.expect(200);
    assert_eq!((&told["verdict"]["allowed"], &told["verdict"]["rule"]), (&json!(false), &json!(null)));
    who("?permission=write").await.refused(400, "invalid_request");
    who("?permission=own&resource=pages/a").await.refused(400, "invalid_request");
    who("?permission=write&resource=pages//a").await.refused(400, "invalid_resource");
}

/// The page tells of each call what its gate asks for.
#[test]
fn the_page_says_what_each_call_needs() {
    let page = include_str!("../../../docs/PERMISSIONS.md");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
        .filter(|(call, _)| call.contains(" /"))
        .collect();
    let told = |call: &str| rows.iter().find(|(one, _)| *one == call).map(|(_, needs)| *needs);
    let mut count = 0;
    for route in routes() {
        for call in route.calls {
            let name = format!("{} {}", call.method, route.path);
            let needs = told(&name).unwrap_or_else(|| panic!("{name} is not on the page"));
            let fits = match call.gate {
                Gate::Open => needs == "none, and no credentials",
                Gate::Known => needs.starts_with("any"),
                Gate::Permitted(list) => {
                    let words: Vec<String> = list.iter().map(|one| format!("`{}`", one.word())).collect();
                    needs.starts_with(&words.join(" or "))
                }
            };
            assert!(fits, "{name}: {needs}");
            count += 1;
        }
    }
    assert_eq!(rows.len(), count, "the page has calls that are none");
}
