//! The problem itself: a request of the older owner lies somewhere behind the gateway while the newer one takes over.

use super::scene::{CLASSES, Scene, header};
use crate::support::client::{Answer, Client, Owned};
use crate::support::engines::all_for;
use crate::support::upstream::Fault;

const LONG: &str = "timeout_ms = 20000\nconnect_timeout_ms = 2000";

/// Alice's write lies in front of the store; her lease goes to Bob, who writes; then her write is let go. What the store
/// holds at the end is Bob's, in every class, and nobody was told otherwise.
#[tokio::test]
async fn alices_delayed_write_never_overwrites_what_bob_published() {
    for engine in all_for("upstreams::delayed::alices_delayed_write_never_overwrites_what_bob_published") {
        for class in CLASSES {
            let scene = Scene::of(engine, class, LONG, "contract = \"immediate\"").await;
            let client = scene.gateway.client.clone();
            let alice = client.acquire("shop/a", "alice").await;
            let first = client.put("shop/a", &alice.token, "before", "before", &[]).await;
            assert!((200..300).contains(&first.status), "{engine:?} {class}: {first:?}");
            let alice = handed_over(&client, &alice, "alice again").await;
            scene.upstream.fault(Fault::Hold);
            let late = tokio::spawn(write(client.clone(), alice.token.clone(), "late", "alice"));
            scene.until("alice's write is at the store", |scene| held(scene) == 1).await;
            // She is believed dead; her lease is taken away.
            let reason = serde_json::json!({"reason": "no sign of life"});
            let revoked = client.post("/v1/revoke/shop/a", &reason).await;
            assert_eq!(revoked.status, 202, "{engine:?} {class}: an effect is under way: {revoked:?}");
            assert_eq!(revoked.json()["in_flight"], serde_json::json!(["late"]));
            let bob = tokio::spawn(owned(client.clone()));
            if matches!(class, "idempotent" | "serial") {
                // There is one lane: nobody owns before what is in it is decided.
                scene.until("bob waits", |scene| held(scene) == 1).await;
                let lease = client.get("/v1/resources/shop/a").await.json()["lease"].clone();
                assert!(lease["state"] != "held" || lease["holder"] != "bob", "{engine:?} {class}: {lease}");
                scene.upstream.release();
            }
            let bob = bob.await.unwrap();
            let newer = write(client.clone(), bob.token.clone(), "newer", "bob").await;
            assert!((200..300).contains(&newer.status), "{engine:?} {class}: {newer:?}");
            if matches!(class, "conditional" | "fence_aware") {
                scene.upstream.release();
            }
            let late = late.await.unwrap();
            let decided = scene.gateway.client.get("/v1/operations/late?resource=shop%2Fa").await;
            match class {
                "conditional" | "fence_aware" => {
                    assert_eq!(late.status, 412, "{engine:?} {class}: {late:?}");
                    assert_eq!(header(&late, "fencing-effect"), Some("none"));
                    assert_eq!(decided.status, 404, "{engine:?} {class}: its id is free");
                }
                _ => {
                    assert!((200..300).contains(&late.status), "{engine:?} {class}: {late:?}");
                    assert_eq!(decided.json()["state"], "applied");
                }
            }
            let read = client.get("/fenced/shop/a").await;
            assert_eq!(read.bytes.as_slice(), b"bob", "{engine:?} {class}");
            scene.gateway.stop().await;
        }
    }
}

/// The same without a barrier: under `observed` Bob's first write is what fences.
#[tokio::test]
async fn a_newer_write_passes_or_waits_and_the_older_one_never_lands_after_it() {
    for engine in
        all_for("upstreams::delayed::a_newer_write_passes_or_waits_and_the_older_one_never_lands_after_it")
    {
        for class in CLASSES {
            let scene = Scene::of(engine, class, LONG, "contract = \"observed\"").await;
            let client = scene.gateway.client.clone();
            let alice = client.acquire("shop/a", "alice").await;
            scene.upstream.fault(Fault::Hold);
            let late = tokio::spawn(write(client.clone(), alice.token.clone(), "late", "alice"));
            scene.until("alice's write is at the store", |scene| held(scene) == 1).await;
            let bob = handed_over(&client, &alice, "bob").await;
            let newer = tokio::spawn(write(client.clone(), bob.token.clone(), "newer", "bob"));
            if matches!(class, "idempotent" | "serial") {
                scene.upstream.release();
            }
            let newer = newer.await.unwrap();
            assert!((200..300).contains(&newer.status), "{engine:?} {class}: {newer:?}");
            scene.upstream.release();
            let late = late.await.unwrap();
            let read = client.get("/fenced/shop/a").await;
            assert_eq!(read.bytes.as_slice(), b"bob", "{engine:?} {class}: {late:?}");
            let landed = scene.effects().len() == 2;
            assert_eq!((200..300).contains(&late.status), landed, "{engine:?} {class}: {late:?}");
            scene.gateway.stop().await;
        }
    }
}

/// A client that hangs up after it has sent its write changes nothing: the write is carried to its end.
#[tokio::test]
async fn a_client_that_hangs_up_leaves_its_write_to_the_gateway() {
    for class in CLASSES {
        let scene = Scene::of(crate::support::engines::Kind::Sqlite, class, LONG, "").await;
        let client = scene.gateway.client.clone();
        let alice = client.acquire("shop/a", "alice").await;
        scene.upstream.fault(Fault::Hold);
        let hasty = tokio::spawn(write(client.clone(), alice.token.clone(), "p1", "hello"));
        scene.until("the write is at the store", |scene| held(scene) == 1).await;
        hasty.abort();
        assert!(hasty.await.unwrap_err().is_cancelled());
        scene.upstream.release();
        let decided = scene.decided("shop/a", "p1").await;
        assert_eq!((decided["state"].as_str(), scene.effects().len()), (Some("applied"), 1), "{class}");
        scene.gateway.stop().await;
    }
}

/// Content that has arrived and has not had its effect yet.
fn held(scene: &Scene) -> usize {
    let sent = |arrival: &&crate::support::upstream::Arrival| arrival.length > 0;
    scene.writes().iter().filter(sent).count().saturating_sub(
        scene
            .effects()
            .iter()
            .filter(|one| scene.writes().iter().any(|sent| sent.number == one.arrival && sent.length > 0))
            .count(),
    )
}

async fn write(client: Client, token: String, operation: &'static str, body: &'static str) -> Answer {
    client.put("shop/a", &token, operation, body, &[("prefer", "wait=20")]).await
}

async fn handed_over(client: &Client, from: &Owned, to: &str) -> Owned {
    let path = format!("/v1/leases/{}/transfer", from.id);
    let lease = client.post(&path, &serde_json::json!({"holder": to})).await.expect(201);
    let text = |key: &str| lease[key].as_str().unwrap().to_owned();
    Owned { id: text("acquisition_id"), token: text("fencing_token"), position: text("position") }
}

/// Bob's lease, as soon as he owns.
async fn owned(client: Client) -> Owned {
    let request = serde_json::json!({
        "resource": "shop/a", "holder": "bob", "request_id": "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d", "wait_ms": 20_000
    });
    loop {
        let answer = client.post("/v1/leases", &request).await;
        if answer.status == 202 {
            continue;
        }
        let lease = answer.json();
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        let text = |key: &str| lease[key].as_str().unwrap().to_owned();
        return Owned {
            id: text("acquisition_id"),
            token: text("fencing_token"),
            position: text("position"),
        };
    }
}
