//! A renewal or release arrives when the lease is long over.

use crate::support::gateway::Gateway;

#[tokio::test]
async fn a_late_renewal_says_how_the_lease_ended_and_never_brings_it_back() {
    let gateway = Gateway::start().await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.clock.advance(30_000);
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

#[tokio::test]
async fn a_late_renewal_never_extends_the_others_lease() {
    let gateway = Gateway::start().await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.clock.advance(30_000);
    let bob = client.acquire("jobs/a", "bob").await;
    gateway.clock.advance(29_000);
    client.renew(&alice).await.refused(410, "lease_superseded", "none");
    let lease = client.get(&format!("/v1/leases/{}", bob.id)).await.expect(200);
    assert_eq!(lease["remaining_ms"], 1_000);
    gateway.clock.advance(1_000);
    client.renew(&bob).await.refused(410, "lease_expired", "none");
    gateway.stop().await;
}

#[tokio::test]
async fn a_late_release_does_not_end_the_others_lease() {
    let gateway = Gateway::start().await;
    let client = &gateway.client;
    let alice = client.acquire("jobs/a", "alice").await;
    gateway.clock.advance(30_000);
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
