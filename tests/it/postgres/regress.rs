//! The server's files go back in time, or a standby takes over that lacks what was acknowledged: it is noticed before
//! anything new is admitted. And what only crashes, or loses nothing, trips nothing.

use serde_json::Value;

use crate::support::client::{Client, Owned};
use crate::support::postgres::binaries::Binaries;
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::load::{Addresses, Load, RULES};
use crate::support::postgres::replica::{Site, recovered};
use crate::support::postgres::{fresh, needed_binaries, patience};

use super::failover::{failovers, strictly_replicated};
use super::opening::hosts;

/// What stopped each namespace.
async fn breakers(client: &Client) -> Vec<Value> {
    let found = client.get("/v1/namespaces").await;
    let items =
        if found.status == 200 { found.json()["items"].as_array().unwrap().clone() } else { Vec::new() };
    items.into_iter().map(|item| item["breaker"].clone()).collect()
}

/// Waits until everything is stopped; by what, and what was found.
async fn tripped(client: &Client) -> (String, String) {
    let breaker = patience::until("the breaker trips", 60, async || {
        // Somebody has to ask: a gateway that nobody uses has no connection that could notice.
        let probed = client.get("/readyz").await;
        drop(probed);
        let found = breakers(client).await;
        found.first().filter(|first| found.iter().all(|one| one == *first) && !first.is_null()).cloned()
    })
    .await;
    let text = |key: &str| breaker[key].as_str().unwrap().to_owned();
    (text("detector"), text("found"))
}

async fn is_whole(client: &Client) {
    let found = patience::until("the namespaces are listed", 30, async || {
        Some(breakers(client).await).filter(|found| !found.is_empty())
    })
    .await;
    assert!(found.iter().all(Value::is_null), "{found:?}");
}

async fn put(client: &Client, lease: &Owned, operation: &str) {
    let answer =
        client.put("ledger/a", &lease.token, operation, operation, &[("Fencing-Sequence", operation)]).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
}

/// Broken: a backup of the server's files was put back, and it lacks the last writes. Must hold: the gateway that starts
/// after it knows from its witness that more had been reached, whatever it lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_put_back_while_no_gateway_runs_are_found_out_by_the_witness() {
    let name =
        "postgres::regress::files_that_are_put_back_while_no_gateway_runs_are_found_out_by_the_witness";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await;
    let site = Site::new(&database.url, RULES);
    let gateway = site.start();
    let lease = gateway.client().acquire("ledger/a", "alice").await;
    put(&gateway.client(), &lease, "1").await;
    assert_eq!(gateway.terminate(), Some(0));
    cluster.stop();
    cluster.keep_files();
    cluster.begin();

    let gateway = site.start();
    is_whole(&gateway.client()).await;
    put(&gateway.client(), &lease, "2").await;
    assert_eq!(gateway.terminate(), Some(0));
    cluster.stop();
    cluster.restore_files();
    cluster.begin();
    let gateway = site.start();
    let (detector, found) = tripped(&gateway.client()).await;
    assert_eq!(detector, "witness");
    assert!(found.contains("was reached"), "{found}");
    assert_eq!(gateway.terminate(), Some(0));
}

/// The same under a gateway that lives on: it misses what it acknowledged itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_put_back_under_a_running_gateway_are_found_out() {
    let name = "postgres::regress::files_that_are_put_back_under_a_running_gateway_are_found_out";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await;
    // Without a witness: the ring alone must do.
    let site = Site::new(&database.url, &format!("witness = \"\"\n{RULES}"));
    let gateway = site.start();
    let client = gateway.client();
    assert!(gateway.warnings().iter().any(|line| line.contains("do not go without a witness")));
    let lease = client.acquire("ledger/a", "alice").await;
    put(&client, &lease, "1").await;
    cluster.stop();
    cluster.keep_files();
    cluster.begin();
    recovered(&client).await;
    put(&client, &lease, "2").await;
    is_whole(&client).await;
    cluster.stop();
    cluster.restore_files();
    cluster.begin();
    let (detector, found) = tripped(&client).await;
    assert_eq!(detector, "acks", "{found}");
    assert!(found.contains("\"2\" of \"ledger/a\""), "{found}");
    assert_eq!(gateway.terminate(), Some(0));
}

/// A primary, a standby that lags behind it, and writes that only the primary has: it is lost then, and the standby
/// takes over. So many writes are lost.
async fn promoted_with_lag(
    primary: &Cluster,
    standby: &Cluster,
    client: &Client,
    lease: &Owned,
    lost: usize,
) {
    put(client, lease, "1").await;
    patience::until("the standby has it", 30, async || {
        let caught_up =
            "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_flush_lsn()";
        let mut admin = primary.admin("postgres").await;
        let found: i64 = sqlx::query_scalar(caught_up).fetch_one(&mut admin).await.unwrap();
        (found == 1).then_some(())
    })
    .await;
    standby.stop();
    for number in 0..lost {
        put(client, lease, &(2 + number).to_string()).await;
    }
}

/// Broken: an asynchronous standby is promoted that lacks two acknowledged writes, and there is no witness. Must hold: the
/// gateway that acknowledged them misses them on its first new connection, and admits nothing before the breaker has tripped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_standby_that_is_promoted_is_found_out_by_what_was_acknowledged() {
    let name = "postgres::regress::a_lagging_standby_that_is_promoted_is_found_out_by_what_was_acknowledged";
    let Some(binaries) = needed_binaries(name) else { return };
    for trial in 0..failovers() {
        lost_under_a_gateway(binaries, 2 + trial * 7 % 31).await;
    }
    println!("{} lagging standbys promoted under a gateway, each of them found out", failovers());
}

async fn lost_under_a_gateway(binaries: &'static Binaries, lost: usize) {
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await.name;
    let standby = primary.standby("second", &[]);
    let site = Site::new(&hosts(&[&primary, &standby], &database), &format!("witness = \"\"\n{RULES}"));
    let gateway = site.start();
    let client = gateway.client();
    let lease = client.acquire("ledger/a", "alice").await;
    promoted_with_lag(&primary, &standby, &client, &lease, lost).await;
    primary.kill();
    standby.begin();
    standby.tell(&["SELECT pg_promote()"]).await;
    let (detector, found) = tripped(&client).await;
    assert_eq!(detector, "acks", "{found}");
    assert!(found.starts_with(&format!("{lost} of the last {}", lost + 1)), "{found}");
    assert_eq!(gateway.terminate(), Some(0));
}

/// The same, and the gateway went down with the primary: its witness knows how far the log had come, and the promoted
/// server says how far it had followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_standby_that_is_promoted_while_no_gateway_runs_is_found_out_by_the_witness() {
    let name = "postgres::regress::a_lagging_standby_that_is_promoted_while_no_gateway_runs_is_found_out_by_the_witness";
    let Some(binaries) = needed_binaries(name) else { return };
    for trial in 0..failovers() {
        lost_while_no_gateway_runs(binaries, 2 + trial * 7 % 31).await;
    }
    println!("{} lagging standbys promoted without a gateway, each of them found out", failovers());
}

async fn lost_while_no_gateway_runs(binaries: &'static Binaries, lost: usize) {
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await.name;
    let standby = primary.standby("second", &[]);
    let site = Site::new(&hosts(&[&primary, &standby], &database), RULES);
    let gateway = site.start();
    let lease = gateway.client().acquire("ledger/a", "alice").await;
    promoted_with_lag(&primary, &standby, &gateway.client(), &lease, lost).await;
    assert_eq!(gateway.terminate(), Some(0));
    primary.kill();
    standby.begin();
    // The new timeline soon comes further than the old one ever did: only where it began tells.
    standby
        .tell(&["SELECT pg_promote()", "CREATE TABLE bulk AS SELECT generate_series(1, 200000) AS number"])
        .await;
    let gateway = site.start();
    let (detector, found) = tripped(&gateway.client()).await;
    assert_eq!(detector, "witness", "{found}");
    assert!(found.contains("timeline 1 was reached"), "{found}");
    assert_eq!(gateway.terminate(), Some(0));
}

/// Broken: the one replica that acknowledged the lost writes went down with the primary; another one, which acknowledged
/// nothing, lives on. Must hold: they share a witness, and it is held against the new timeline before the survivor's own
/// blocks take its place there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_holds_the_shared_witness_against_the_new_primary() {
    let name = "postgres::regress::a_survivor_holds_the_shared_witness_against_the_new_primary";
    let Some(binaries) = needed_binaries(name) else { return };
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await.name;
    let standby = primary.standby("second", &[]);
    let site = Site::new(&hosts(&[&primary, &standby], &database), RULES);
    let (gateway, survivor) = (site.start(), site.start());
    let lease = gateway.client().acquire("ledger/a", "alice").await;
    promoted_with_lag(&primary, &standby, &gateway.client(), &lease, 2).await;
    assert_eq!(gateway.terminate(), Some(0));
    primary.kill();
    standby.begin();
    standby
        .tell(&["SELECT pg_promote()", "CREATE TABLE bulk AS SELECT generate_series(1, 200000) AS number"])
        .await;
    let (detector, found) = tripped(&survivor.client()).await;
    assert_eq!(detector, "witness", "{found}");
    assert!(found.contains("timeline 1 was reached"), "{found}");
    assert_eq!(survivor.terminate(), Some(0));
}

/// Broken: the primary is lost, and its synchronous standby takes over. Must hold: what nobody was promised may be missing
/// there, and that is no alarm, neither for those who live on nor for those who start later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_that_loses_nothing_trips_nothing() {
    let name = "postgres::regress::a_promotion_that_loses_nothing_trips_nothing";
    let Some(binaries) = needed_binaries(name) else { return };
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await.name;
    let standby = primary.standby("second", &[]);
    strictly_replicated(&primary).await;
    let site = Site::new(&hosts(&[&primary, &standby], &database), RULES);
    let (first, second) = (site.start(), site.start());
    let addresses = Addresses::of(&[&first.base, &second.base]);
    let mut load = Load::start(6, &addresses, &["database_unavailable"]);
    load.proceed(100, 30).await;
    // Its log goes on without the standby: flushed, and promised to nobody.
    primary.kill();
    standby.tell(&["SELECT pg_promote()"]).await;
    load.proceed(100, 60).await;
    load.finish_and_check(&second.client()).await;
    is_whole(&second.client()).await;
    assert_eq!((first.terminate(), second.terminate()), (Some(0), Some(0)));
    let third = site.start();
    is_whole(&third.client()).await;
    assert_eq!(third.terminate(), Some(0));
}

/// Broken: gateways that share a witness are killed at any moment, and so is the server. Must hold: a crash trips nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_of_gateways_and_servers_trip_nothing() {
    let name = "postgres::regress::crashes_of_gateways_and_servers_trip_nothing";
    let Some(binaries) = needed_binaries(name) else { return };
    let cluster = Cluster::start(binaries, &[]);
    let database = fresh(&cluster).await;
    let site = Site::new(&database.url, RULES);
    let (mut first, second) = (site.start(), site.start());
    let addresses = Addresses::of(&[&first.base, &second.base]);
    let mut load = Load::start(6, &addresses, &["database_unavailable"]);
    for _ in 0..3 {
        load.proceed(40, 60).await;
        cluster.kill();
        first.kill();
        cluster.begin();
        first = patience::blocking("a replica starts", 60, || Some(site.start()));
        addresses.replace(0, &first.base);
    }
    load.proceed(40, 60).await;
    load.finish_and_check(&first.client()).await;
    is_whole(&second.client()).await;
    assert_eq!((first.terminate(), second.terminate()), (Some(0), Some(0)));
    let witness = std::fs::read_to_string(site.path().join("fencegate.witness")).unwrap();
    assert!(witness.starts_with("fencegate witness 1\n") && witness.contains("timeline 1\n"), "{witness}");
    let last = site.start();
    is_whole(&last.client()).await;
    assert_eq!(last.terminate(), Some(0));
}
