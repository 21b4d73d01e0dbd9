//! Strict synchronous replication: the primary is killed under load, its standby is promoted, and nothing that was
//! acknowledged is lost.
//!
//! `FENCEGATE_TEST_FAILOVERS=n` promotes n standbys instead of one, here and where a lagging one takes over (`regress`), each
//! time at another moment.

use crate::support::postgres::binaries::Binaries;
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::load::{Addresses, Load, RULES};
use crate::support::postgres::replica::{Site, recovered};
use crate::support::postgres::{fresh, needed_binaries, patience};

use super::opening::hosts;

/// How often a standby is promoted.
pub(super) fn failovers() -> usize {
    std::env::var("FENCEGATE_TEST_FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Waits until the primary holds every commit back until `second` has it.
pub(super) async fn strictly_replicated(primary: &Cluster) {
    primary
        .tell(&["ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (second)'", "SELECT pg_reload_conf()"])
        .await;
    patience::until("a synchronous standby", 20, async || {
        let mut admin = primary.admin("postgres").await;
        let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let found: i64 = sqlx::query_scalar(state).fetch_one(&mut admin).await.unwrap();
        (found == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_a_synchronous_standby_loses_nothing() {
    let name = "postgres::failover::a_failover_to_a_synchronous_standby_loses_nothing";
    let Some(binaries) = needed_binaries(name) else { return };
    let mut acknowledged = 0;
    for trial in 0..failovers() {
        acknowledged += lost_with_a_synchronous_standby(binaries, 200 + trial * 37 % 200).await;
    }
    println!("{} promoted, {acknowledged} acknowledged writes, all of them there", failovers());
}

/// How many writes were acknowledged before and after it, of which `before` are waited for before the primary is lost.
async fn lost_with_a_synchronous_standby(binaries: &'static Binaries, before: usize) -> usize {
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await.name;
    let standby = primary.standby("second", &[]);
    strictly_replicated(&primary).await;

    let site = Site::new(&hosts(&[&primary, &standby], &database), RULES);
    let (first, second) = (site.start(), site.start());
    let durability = async || {
        let status = first.client().get("/v1/status").await.expect(200);
        status["database"]["durability"].as_str().unwrap().to_owned()
    };
    let strict = durability().await;
    assert!(strict.contains("FIRST 1 (second)"), "{strict}");

    let addresses = Addresses::of(&[&first.base, &second.base]);
    let mut load = Load::start(8, &addresses, &["database_unavailable"]);
    load.proceed(before, 120).await;
    primary.kill();
    standby.tell(&["SELECT pg_promote()"]).await;
    load.proceed(200, 120).await;
    let acknowledged = load.acknowledged();
    load.finish_and_check(&second.client()).await;
    recovered(&first.client()).await;
    // What is in force now is said, not what was found at the start.
    let alone = durability().await;
    assert!(!alone.contains("FIRST 1 (second)"), "{alone}");
    assert_eq!((first.terminate(), second.terminate()), (Some(0), Some(0)));
    acknowledged
}

/// The standby is gone: no commit is confirmed, so none is acknowledged; with it they go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_standby_a_strict_primary_acknowledges_nothing() {
    let name = "postgres::failover::without_its_standby_a_strict_primary_acknowledges_nothing";
    let Some(binaries) = needed_binaries(name) else { return };
    let primary = Cluster::start(binaries, &[]);
    let database = fresh(&primary).await;
    let standby = primary.standby("second", &[]);
    strictly_replicated(&primary).await;
    let site = Site::new(&database.url, "");
    let gateway = site.start();
    let client = gateway.client();
    let lease = client.acquire("jobs/a", "alice").await;
    standby.stop();
    let doubtful = client.put("jobs/a", &lease.token, "op-1", "body", &[]).await;
    let problem = doubtful.refused(503, "database_unavailable", "unknown");
    assert_eq!(problem["retryable"], true);
    // A repeat must not be told "applied" either as long as no standby has it: it waits at the rows of the first one.
    let repeated = client.put("jobs/a", &lease.token, "op-1", "body", &[]).await.expect(503);
    assert_eq!(repeated["code"], "database_unavailable", "{repeated}");
    // The primary restarts, and shows the write that no standby has: it is still nobody's to promise.
    primary.kill();
    primary.begin();
    let shown = patience::until("the write is there", 30, async || {
        let answer = client.get("/fenced/jobs/a").await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(shown.text(), "body");
    let replayed = client.put("jobs/a", &lease.token, "op-1", "body", &[]).await;
    replayed.refused(503, "database_unavailable", "unknown");
    standby.begin();
    recovered(&client).await;
    let receipt = patience::until("the write is confirmed", 30, async || {
        let answer = client.put("jobs/a", &lease.token, "op-1", "body", &[]).await;
        (answer.status == 201).then_some(answer)
    })
    .await;
    assert_eq!(receipt.json()["commit"], "1");
    assert_eq!(gateway.terminate(), Some(0));
}
