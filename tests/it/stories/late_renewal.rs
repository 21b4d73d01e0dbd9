//! A renewal or release arrives when the lease is long over.

use crate::support::engines::{Kind, on_engines};
use crate::support::gateway::Gateway;

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [a_late_renewal_says_how_the_lease_ended_and_never_brings_it_back, a_late_renewal_never_extends_the_others_lease, a_late_release_does_not_end_the_others_lease]);

async fn a_late_renewal_says_how_the_lease_ended_and_never_brings_it_back(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.advance(30_000).await;
    client.renew(&alice).await.refused(410, "lease_expired", "none");
    let bob = client.acquire("jobs/a", "bob").await;
    client.renew(&alice).await.refused(410, "lease_superseded", "none");
    let lease = client.get(&format!("/v1/leases/{}", bob.id)).await.expect(200);
    assert_eq!((lease["state"].as_str(), lease["remaining_ms"].as_u64()), (Some("held"), Some(30_000)));
    client.release(&bob).await.expect(200);
    client.renew(&bob).await.refused(410, "lease_released", "none");
    client.acquire("jobs/a", "carol").await;
    client.renew(&bob).await.refused(410, "lease_released", "none");
    client.renew(&alice).await.refused(410, "lease_superseded", "none");
    gateway.stop().await;
}

async fn a_late_renewal_never_extends_the_others_lease(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.advance(30_000).await;
    let bob = client.acquire("jobs/a", "bob").await;
    gateway.advance(29_000).await;
    client.renew(&alice).await.refused(410, "lease_superseded", "none");
    let lease = client.get(&format!("/v1/leases/{}", bob.id)).await.expect(200);
    assert_eq!(lease["remaining_ms"], 1_000);
    gateway.advance(1_000).await;
    client.renew(&bob).await.refused(410, "lease_expired", "none");
    gateway.stop().await;
}

async fn a_late_release_does_not_end_the_others_lease(kind: Kind) {
    let gateway = Gateway::on(kind).await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.advance(30_000).await;
    let bob = client.acquire("jobs/a", "bob").await;
    let released = client.release(&alice).await.expect(200);
    assert_eq!(released["state"], "superseded");
    client.try_acquire("jobs/a", "carol").await.refused(409, "lease_held", "none");
    let lease = client.get(&format!("/v1/leases/{}", bob.id)).await.expect(200);
    assert_eq!(lease["state"], "held");
    assert_eq!(client.release(&bob).await.expect(200)["state"], "released");
    assert_eq!(client.release(&bob).await.expect(200)["state"], "released");
    gateway.stop().await;
}
