//! What a worker sees when nothing goes wrong.

use reqwest::Method;

use super::scene::{CLASSES, Scene, header};
use crate::support::engines::Kind as Engine;

/// Every class: the answer is the upstream's, a retry gets it again byte for byte without a second request, another
/// payload under the same id is a conflict, and a superseded owner is refused without a byte to the store.
#[tokio::test]
async fn a_write_goes_through_once_and_its_answer_is_kept() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Memory, class, "", "contract = \"immediate\"").await;
        let client = &scene.gateway.client;
        let alice = client.acquire("shop/a", "alice").await;
        let first = client.put("shop/a", &alice.token, "p1", "hello", &[]).await;
        assert!((200..300).contains(&first.status), "{class}: {first:?}");
        assert_eq!(header(&first, "fencing-source"), Some("upstream"), "{class}");
        assert_eq!(header(&first, "fencing-effect"), Some("applied"), "{class}");
        let sent = scene.writes().len();
        let again = client.put("shop/a", &alice.token, "p1", "hello", &[]).await;
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "{class}");
        assert_eq!(header(&again, "idempotent-replayed"), Some("true"), "{class}");
        let other = client.put("shop/a", &alice.token, "p1", "other", &[]).await;
        assert_eq!(other.status, 422, "{class}");
        let (path, body) =
            (format!("/v1/leases/{}/transfer", alice.id), serde_json::json!({"holder": "bob"}));
        let bob = client.post(&path, &body).await.expect(201);
        let sent_for_bob = scene.writes().len();
        let late = client.put("shop/a", &alice.token, "p2", "late", &[]).await;
        assert_eq!((late.status, late.json()["code"].as_str()), (412, Some("stale_token")), "{class}");
        assert_eq!(scene.writes().len(), sent_for_bob, "{class}: nothing was sent for what was refused");
        let token = bob["fencing_token"].as_str().unwrap();
        let newer = client.put("shop/a", token, "p3", "newer", &[]).await;
        assert!((200..300).contains(&newer.status), "{class}: {newer:?}");
        assert!(sent >= 1, "{class}");
        let read = client.get("/fenced/shop/a").await;
        assert_eq!((read.status, read.bytes.as_slice()), (200, b"newer".as_slice()), "{class}");
        assert_eq!(header(&read, "fencing-source"), Some("upstream"), "{class}");
        scene.gateway.stop().await;
    }
}

/// Every class: a removal is answered, and what was removed is not found afterwards.
#[tokio::test]
async fn a_removal_goes_through_and_the_name_can_live_again() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Memory, class, "", "policy = \"ordered\"").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let sequence = |number: &'static str| [("fencing-sequence", number)];
        let put = client.put("shop/a", &owner.token, "p1", "hello", &sequence("1")).await;
        assert!((200..300).contains(&put.status), "{class}: {put:?}");
        let request = client
            .request(Method::DELETE, "/fenced/shop/a")
            .header("fencing-token", &owner.token)
            .header("idempotency-key", "d1")
            .header("fencing-sequence", "2");
        let gone = crate::support::client::Answer::of(request).await;
        assert!((200..300).contains(&gone.status), "{class}: {gone:?}");
        let read = client.get("/fenced/shop/a").await;
        assert!(matches!(read.status, 404 | 410), "{class}: {read:?}");
        let next = client.acquire("shop/a", "bob").await;
        let put = client.put("shop/a", &next.token, "p2", "again", &sequence("1")).await;
        assert!((200..300).contains(&put.status), "{class}: {put:?}");
        assert_eq!(header(&put, "etag"), Some("\"2.3\""), "{class}");
        scene.gateway.stop().await;
    }
}
