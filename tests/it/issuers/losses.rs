//! What is left when an issuer forgets: the gateway lets nothing in below the floor, so the new owners cannot write until
//! the counter is above it. Only between two owners of one number there is no fence.

use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::resource::Namespace;
use serde_json::json;

use crate::support::client::Client;
use crate::support::engines::Kind;
use crate::support::gateway::Gateway;
use crate::support::issuers::etcd::Etcd;
use crate::support::issuers::missing;
use crate::support::issuers::redis::{Keeps, Redis};

/// Several writes of one owner, under positions from elsewhere.
pub(super) fn external(issuers: &[(&str, Issuer)]) -> Namespaces {
    let define = |(name, issuer): &(&str, Issuer)| {
        let (policy, contract) = (Policy::Ordered { gapless: false }, Contract::Observed);
        let definition = Definition { policy, contract, issuer: *issuer, store: Store::Document, scope: 0 };
        definition.check().unwrap();
        (Namespace::parse(name).unwrap(), NamespaceRules { definition, ..NamespaceRules::default() })
    };
    Namespaces::new(issuers.iter().map(define).collect(), None)
}

async fn write(client: &Client, name: &str, token: &str, sequence: &str) -> u16 {
    let operation = format!("{token}-{sequence}");
    let answer = client.put(name, token, &operation, "x", &[("fencing-sequence", sequence)]).await;
    if answer.status == 412 {
        answer.refused(412, "stale_token", "none");
    }
    answer.status
}

async fn register(client: &Client, name: &str, token: &str) -> u16 {
    let body = json!({"fencing_token": token, "reason": "got the lock"});
    client.post(&format!("/v1/advance/{name}"), &body).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_forgot_is_refused_until_its_counter_is_above_the_floor() {
    let test = "issuers::losses::a_redis_that_forgot_is_refused_until_its_counter_is_above_the_floor";
    let Some(programs) = missing::redis(test) else { return };
    let redis = Redis::start(programs, Keeps::Nothing);
    let gateway = Gateway::with(Kind::Sqlite, external(&[("jobs", Issuer::Registered)])).await;
    let client = &gateway.client;
    redis.cli(&["INCRBY", "token", "40"]);
    let last = redis.cli(&["INCR", "token"]);
    assert_eq!(
        (register(client, "jobs/a", &last).await, write(client, "jobs/a", &last, "1").await),
        (200, 201)
    );

    redis.killed_and_started();
    let first = redis.cli(&["INCR", "token"]);
    assert_eq!(first, "1");
    assert_eq!(register(client, "jobs/a", &first).await, 412);
    assert_eq!(write(client, "jobs/a", &first, "1").await, 412);
    assert_eq!(client.get("/v1/resources/jobs/a").await.expect(200)["floor"], "0.41");

    redis.cli(&["SET", "token", "1041"]);
    let next = redis.cli(&["INCR", "token"]);
    assert_eq!(
        (register(client, "jobs/a", &next).await, write(client, "jobs/a", &next, "1").await),
        (200, 200)
    );
    assert_eq!(write(client, "jobs/a", &last, "2").await, 412);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_writes_down_everything_goes_on_above() {
    let test = "issuers::losses::a_redis_that_writes_down_everything_goes_on_above";
    let Some(programs) = missing::redis(test) else { return };
    let redis = Redis::start(programs, Keeps::Everything);
    redis.cli(&["SET", "token", "9007199254740992"]);
    assert_eq!(redis.cli(&["INCR", "token"]), "9007199254740993");
    redis.killed_and_started();
    assert_eq!(redis.cli(&["INCR", "token"]), "9007199254740994");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_restored_from_an_older_snapshot_is_refused_until_it_has_caught_up() {
    let test = "issuers::losses::an_etcd_restored_from_an_older_snapshot_is_refused_until_it_has_caught_up";
    let Some(programs) = missing::etcd(test) else { return };
    let etcd = Etcd::start(programs);
    let gateway =
        Gateway::with(Kind::Sqlite, external(&[("jobs", Issuer::Trusted { max_jump: None })])).await;
    let client = &gateway.client;
    etcd.create("locks/before");
    let copy = etcd.save();
    etcd.create("locks/after");
    let last = etcd.create("locks/last");
    assert_eq!(write(client, "jobs/a", &last, "1").await, 201);

    let etcd = etcd.restored(&copy);
    let lower = etcd.create("locks/new-owner");
    assert!(lower.parse::<u64>().unwrap() < last.parse().unwrap(), "{lower} is not below {last}");
    assert_eq!(write(client, "jobs/a", &lower, "1").await, 412);
    // One step further the number is there for the second time: this the gateway cannot see.
    let again = etcd.create("locks/another");
    assert_eq!(again, last);
    assert_eq!(write(client, "jobs/a", &again, "2").await, 200);
    let above = etcd.create("locks/above");
    assert_eq!(write(client, "jobs/a", &above, "1").await, 200);
    assert_eq!(write(client, "jobs/a", &last, "3").await, 412);
    gateway.stop().await;
}
