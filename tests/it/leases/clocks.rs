//! Clocks that are wrong: a lease may end early by them, and never late.

use std::time::Duration;

use fencegate::ledger::wakeup::instant;

use super::scene::{acquire, id_of, wanted};
use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([sqlite Sqlite, postgres Postgres], [
    a_restart_under_an_older_clock_does_not_stretch_a_lease,
    a_clock_that_is_set_back_does_not_stretch_a_lease,
    a_jump_forward_ends_a_lease_for_those_who_wait_too,
]);

const HOUR: i64 = 3_600_000;

async fn remaining(gateway: &Gateway, id: &str) -> u64 {
    let lease = gateway.client.get(&format!("/v1/leases/{id}")).await.expect(200);
    lease["remaining_ms"].as_u64().unwrap()
}

/// Broken: the machine restarts with its clock an hour back, and every lease lives an hour longer. Must hold: time goes on
/// from where it was, and the lease ends after its ttl.
async fn a_restart_under_an_older_clock_does_not_stretch_a_lease(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let lease = acquire(&gateway.client, &wanted("jobs/a", 30_000, 0)).await.expect(201);
    gateway.advance(20_000).await;
    // Something is committed, so that the time is known to the database.
    gateway.client.acquire("jobs/b", "carol").await;
    // On PostgreSQL it is the gateway's machine alone that is wrong: the database's clock is the one that counts.
    gateway.clock.jump_wall(-HOUR);
    let gateway = gateway.restart().await;
    let left = remaining(&gateway, id_of(&lease)).await;
    assert!(left <= 10_000, "{left} ms are left of 10000");
    acquire(&gateway.client, &wanted("jobs/a", 30_000, 0)).await.refused(409, "lease_held", "none");
    gateway.clock.jump_wall(HOUR);
    gateway.advance(10_000).await;
    let next = acquire(&gateway.client, &wanted("jobs/a", 30_000, 0)).await.expect(201);
    assert_eq!(next["position"], "0.2");
    gateway.stop().await;
}

/// Broken: the clock is set back while the gateway runs. Must hold: no lease has more time than before, and none of it
/// comes back.
async fn a_clock_that_is_set_back_does_not_stretch_a_lease(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let lease = acquire(&gateway.client, &wanted("jobs/a", 30_000, 0)).await.expect(201);
    gateway.advance(29_000).await;
    assert_eq!(remaining(&gateway, id_of(&lease)).await, 1_000);
    gateway.clock.jump_wall(-HOUR);
    gateway.advance(0).await;
    let left = remaining(&gateway, id_of(&lease)).await;
    assert!(left <= 1_000, "{left} ms are left of 1000");
    // An expiry that was seen stays seen.
    gateway.clock.jump_wall(HOUR);
    gateway.advance(1_000).await;
    let renew = format!("/v1/leases/{}/renew", id_of(&lease));
    gateway.client.post(&renew, &serde_json::json!({})).await.refused(410, "lease_expired", "none");
    gateway.clock.jump_wall(-HOUR);
    gateway.advance(0).await;
    gateway.client.post(&renew, &serde_json::json!({})).await.refused(410, "lease_expired", "none");
    acquire(&gateway.client, &wanted("jobs/a", 30_000, 0)).await.expect(201);
    gateway.stop().await;
}

/// Broken: the clock jumps forward, the lease is over by every clock, and the waiters sleep until its end by their own
/// clocks. Must hold: they are granted at once.
async fn a_jump_forward_ends_a_lease_for_those_who_wait_too(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let lease = acquire(&gateway.client, &wanted("jobs/a", 30_000, 0)).await.expect(201);
    let waits = {
        let client = gateway.client.clone();
        tokio::spawn(async move { (acquire(&client, &wanted("jobs/a", 30_000, 20_000)).await, instant()) })
    };
    tokio::time::sleep(Duration::from_millis(250)).await;
    gateway.clock.jump_wall(HOUR);
    gateway.advance(0).await;
    let jumped = instant();
    let (answer, at) = waits.await.unwrap();
    assert_eq!(answer.expect(201)["remaining_ms"], 30_000);
    let took = at.saturating_duration_since(jumped);
    assert!(took < Duration::from_secs(2), "{took:?}");
    let renew = format!("/v1/leases/{}/renew", id_of(&lease));
    gateway.client.post(&renew, &serde_json::json!({})).await.refused(410, "lease_superseded", "none");
    gateway.stop().await;
}
