//! Reads: passed through, with the gateway's own validator only where the store shows what the gateway wrote last.

use reqwest::Method;

use super::super::scene::{CLASSES, Scene, header};
use crate::support::client::{Answer, Client};
use crate::support::engines::Kind as Engine;

async fn ask(client: &Client, method: Method, more: &[(&str, &str)]) -> Answer {
    let mut request = client.request(method, "/fenced/shop/a");
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    Answer::of(request).await
}

/// HEAD is a HEAD at the store, ranges go along, conditions do not.
#[tokio::test]
async fn a_read_is_passed_on_without_its_conditions() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Sqlite, class, "", "").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let written =
            client.put("shop/a", &owner.token, "p1", "hello", &[("content-type", "text/x-own")]).await;
        assert!((200..300).contains(&written.status), "{class}: {written:?}");
        let head = ask(client, Method::HEAD, &[]).await;
        assert_eq!(
            (head.status, header(&head, "content-length"), head.bytes.len()),
            (200, Some("5"), 0),
            "{class}"
        );
        assert_eq!(scene.arrivals().pop().unwrap().method, "HEAD", "{class}");
        let conditions = [
            ("range", "bytes=1-3"),
            ("if-range", "\"x\""),
            ("if-modified-since", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("if-unmodified-since", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("if-none-match", "\"x\""),
            ("authorization", "canary"),
            ("cookie", "canary"),
        ];
        let read = ask(client, Method::GET, &conditions).await;
        assert_eq!((read.status, read.text().as_str()), (200, "hello"), "{class}: {read:?}");
        assert_eq!(header(&read, "content-type"), Some("text/x-own"), "{class}");
        let arrived = scene.arrivals().pop().unwrap();
        let names: Vec<&str> =
            arrived.headers.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "accept").collect();
        assert_eq!(names, ["range", "host"], "{class}");
        assert_eq!(arrived.header("range"), Some("bytes=1-3"), "{class}");
        scene.gateway.stop().await;
    }
}

/// The gateway's `ETag` stands on a read only if the store shows the recorded validator.
#[tokio::test]
async fn a_cells_validator_is_shown_only_where_it_is_what_was_recorded() {
    let scene = Scene::of(Engine::Sqlite, "conditional", "", "policy = \"ordered\"").await;
    let client = &scene.gateway.client;
    let owner = client.acquire("shop/a", "alice").await;
    let written = client.put("shop/a", &owner.token, "p1", "one", &[("fencing-sequence", "1")]).await;
    let tag = header(&written, "etag").unwrap().to_owned();
    let read = ask(client, Method::GET, &[]).await;
    assert_eq!(header(&read, "etag"), Some(tag.as_str()));
    let theirs = header(&read, "fencing-upstream-etag").unwrap().to_owned();
    assert_ne!(theirs, tag);
    for method in [Method::GET, Method::HEAD] {
        let unchanged = ask(client, method.clone(), &[("if-none-match", tag.as_str())]).await;
        assert_eq!(
            (unchanged.status, unchanged.bytes.len(), header(&unchanged, "etag")),
            (304, 0, Some(tag.as_str()))
        );
        let weak = format!("W/{tag}, \"other\"");
        assert_eq!(ask(client, method.clone(), &[("if-none-match", weak.as_str())]).await.status, 304);
        assert_eq!(ask(client, method.clone(), &[("if-none-match", theirs.as_str())]).await.status, 200);
        assert_eq!(ask(client, method.clone(), &[("if-match", tag.as_str())]).await.status, 200);
        assert_eq!(ask(client, method.clone(), &[("if-match", theirs.as_str())]).await.status, 412);
    }
    // Somebody writes around the gateway: what is shown is no version of the gateway's any more.
    let around = Client::to(format!("http://127.0.0.1:{}", scene.upstream.port()));
    let other = around.request(Method::PUT, "/base/a").body("around");
    assert_eq!(Answer::of(other).await.status, 200);
    let read = ask(client, Method::GET, &[]).await;
    assert_eq!((read.status, read.text().as_str(), header(&read, "etag")), (200, "around", None));
    assert_eq!(ask(client, Method::GET, &[("if-none-match", tag.as_str())]).await.status, 200);
    assert_eq!(ask(client, Method::GET, &[("if-match", tag.as_str())]).await.status, 412);
    // And the next write stops, instead of burying it.
    let next = client
        .put("shop/a", &owner.token, "p2", "two", &[("fencing-sequence", "2"), ("prefer", "wait=0")])
        .await;
    assert!(!(200..300).contains(&next.status), "{next:?}");
    assert_eq!(client.get("/fenced/shop/a").await.text(), "around");
    scene.gateway.stop().await;
}

/// The other classes have no validator of the gateway's on a read: it could not be held against anything.
#[tokio::test]
async fn without_cells_a_read_has_the_stores_validator_only() {
    for class in ["fence_aware", "idempotent", "serial"] {
        let scene = Scene::of(Engine::Sqlite, class, "", "").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let written = client.put("shop/a", &owner.token, "p1", "one", &[]).await;
        let (tag, theirs) =
            (header(&written, "etag").unwrap(), header(&written, "fencing-upstream-etag").unwrap());
        let read = ask(client, Method::GET, &[("if-none-match", tag)]).await;
        assert_eq!((read.status, header(&read, "etag")), (200, None), "{class}");
        assert_eq!(header(&read, "fencing-upstream-etag"), Some(theirs), "{class}");
        scene.gateway.stop().await;
    }
}

/// A tombstone is nothing, also where only a part of it is asked for.
#[tokio::test]
async fn a_part_of_a_tombstone_is_nothing_too() {
    for stamp in ["{ json = \"/_fencegate\" }", "\"pointer\"", "{ header = \"x-fencing-stamp\" }"] {
        let scene = Scene::of(Engine::Sqlite, "conditional", &format!("stamp = {stamp}"), "").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let written = client.put("shop/a", &owner.token, "p1", "{}", &[]).await;
        assert!((200..300).contains(&written.status), "{stamp}: {written:?}");
        client.release(&owner).await.expect(200);
        let next = client.acquire("shop/a", "bob").await;
        let gone = client.remove("shop/a", &next.token, "d1").await;
        assert!((200..300).contains(&gone.status), "{stamp}: {gone:?}");
        for method in [Method::GET, Method::HEAD] {
            for more in [&[][..], &[("range", "bytes=0-3")], &[("range", "bytes=100-")]] {
                let before = scene.arrivals().len();
                assert_eq!(ask(client, method.clone(), more).await.status, 410, "{stamp} {method} {more:?}");
                let whole = scene.arrivals()[before..].iter().all(|one| one.header("range").is_none());
                // The stamp is inside what is read, so all of that is.
                assert!(whole || stamp.contains("header"), "{stamp} {method} {more:?}");
            }
        }
        scene.gateway.stop().await;
    }
}
