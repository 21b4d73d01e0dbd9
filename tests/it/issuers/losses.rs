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
use crate::support::issuers::etcd_cluster::Cluster;
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

/// What a write is told that its issuer has given a number from before.
async fn behind(client: &Client, name: &str, token: &str) -> String {
    let answer = client.put(name, token, "told", "x", &[("fencing-sequence", "1")]).await;
    detail(&answer.refused(412, "stale_token", "none"))
}

/// The same of an advance.
async fn advanced_behind(client: &Client, name: &str, token: &str) -> String {
    let body = json!({"fencing_token": token, "reason": "got the lock"});
    detail(&client.post(&format!("/v1/advance/{name}"), &body).await.refused(412, "stale_token", "none"))
}

fn detail(problem: &serde_json::Value) -> String {
    problem["detail"].as_str().unwrap().to_owned()
}

/// Broken: after a restore of its issuer a job stands still until the counter has caught up, or an operator lowers the
/// floor. Must hold: the way out is a new epoch, in which the low numbers are new; those of before are refused for ever,
/// bare ones above all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_epoch_is_the_way_out_of_an_etcd_that_was_restored() {
    let test = "issuers::losses::a_new_epoch_is_the_way_out_of_an_etcd_that_was_restored";
    let Some(programs) = missing::etcd(test) else { return };
    let etcd = Etcd::start(programs);
    let issuers = [("jobs", Issuer::Trusted { max_jump: None }), ("elected", Issuer::Registered)];
    let gateway = Gateway::with(Kind::Sqlite, external(&issuers)).await;
    let client = &gateway.client;
    let copy = etcd.save();
    etcd.create("locks/after");
    let last = etcd.create("locks/last");
    assert_eq!(write(client, "jobs/a", &last, "1").await, 201);
    assert_eq!(
        (register(client, "elected/a", &last).await, write(client, "elected/a", &last, "1").await),
        (200, 201)
    );

    let etcd = etcd.restored(&copy);
    let owner = etcd.create("locks/new-owner");
    assert_eq!(
        (write(client, "jobs/a", &owner, "1").await, register(client, "elected/a", &owner).await),
        (412, 412)
    );
    let body = json!({"reason": "etcd was restored from a snapshot", "confirm": "*"});
    let request =
        client.request(reqwest::Method::POST, "/v1/namespaces/*/epoch").header("idempotency-key", "restored");
    crate::support::client::Answer::of(request.json(&body)).await.expect(200);
    let spelt = format!("1.{owner}");
    assert_eq!(write(client, "jobs/a", &spelt, "1").await, 200);
    assert_eq!(
        (register(client, "elected/a", &spelt).await, write(client, "elected/a", &spelt, "1").await),
        (200, 200)
    );
    for name in ["jobs/a", "elected/a"] {
        for stale in [&*owner, &last, "900000"] {
            let told = [behind(client, name, stale).await, advanced_behind(client, name, stale).await];
            assert!(told.iter().all(|one| one.contains("means epoch 0 for ever")), "{told:?}");
        }
        assert_eq!(write(client, name, &format!("0.{last}"), "2").await, 412);
    }
    gateway.stop().await;
}

/// Broken: an election gives a number twice, and two owners pass the fence. Must hold: what the majority knows is never
/// forgotten, so the numbers rise on, and the owner of before is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_of_three_whose_leader_is_killed_goes_on_above() {
    let test = "issuers::losses::an_etcd_of_three_whose_leader_is_killed_goes_on_above";
    let Some(programs) = missing::etcd(test) else { return };
    let mut etcd = Cluster::start(programs);
    let gateway =
        Gateway::with(Kind::Sqlite, external(&[("jobs", Issuer::Trusted { max_jump: None })])).await;
    let client = &gateway.client;
    let mut last = etcd.create("locks/first");
    assert_eq!(write(client, "jobs/a", &last, "1").await, 201);
    for round in 0..3 {
        let owner = etcd.create(&format!("locks/{round}"));
        assert!(owner.parse::<u64>().unwrap() > last.parse().unwrap(), "{owner} after {last}");
        assert_eq!(write(client, "jobs/a", &owner, "1").await, 200);
        assert_eq!(write(client, "jobs/a", &last, "2").await, 412);
        last = owner;
        if round == 0 {
            etcd.kill_the_leader();
        }
    }
    gateway.stop().await;
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
    for refused in [behind(client, "jobs/a", &lower).await, advanced_behind(client, "jobs/a", &lower).await] {
        assert!(refused.contains("the issuer is behind") && refused.contains("new epoch"), "{refused}");
    }
    // One step further the number is there for the second time: this the gateway cannot see.
    let again = etcd.create("locks/another");
    assert_eq!(again, last);
    assert_eq!(write(client, "jobs/a", &again, "2").await, 200);
    let above = etcd.create("locks/above");
    assert_eq!(write(client, "jobs/a", &above, "1").await, 200);
    assert_eq!(write(client, "jobs/a", &last, "3").await, 412);
    gateway.stop().await;
}
