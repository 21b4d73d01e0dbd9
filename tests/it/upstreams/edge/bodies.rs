//! Bodies: large ones, too large ones, compressed ones and parts.

use reqwest::Method;
use sha2::{Digest as _, Sha256};

use super::super::scene::{CLASSES, Scene, header};
use super::{put_and_close, said, status};
use crate::support::client::Answer;
use crate::support::engines::Kind as Engine;
use crate::support::upstream::Fault;

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 7 + at / 251) % 251).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Five MiB go over the disk and arrive as they were; one byte above the limit is refused, declared or not, and nothing
/// of it arrives.
#[tokio::test]
async fn a_large_body_arrives_whole_and_a_larger_one_not_at_all() {
    const LIMIT: usize = 5 * 1_048_576;
    for class in CLASSES {
        let scene =
            Scene::of(Engine::Sqlite, class, "", &format!("max_body_bytes = {LIMIT}\npolicy = \"ordered\""))
                .await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let write = |id: &str, sequence: &str| {
            let request = client.request(Method::PUT, "/fenced/shop/a");
            let request = request.header("fencing-token", &owner.token).header("idempotency-key", id);
            request.header("fencing-sequence", sequence)
        };
        let body = noise(LIMIT);
        let answer = Answer::of(write("p1", "1").body(body.clone())).await;
        assert!((200..300).contains(&answer.status), "{class}: {answer:?}");
        let arrived = scene.writes().pop().unwrap();
        assert_eq!((arrived.length, arrived.digest), (LIMIT, hex(&body)), "{class}");
        let read = client.get("/fenced/shop/a").await;
        assert!(read.bytes == body, "{class}: it is read as it was written");
        // Declared, and cut into chunks without a word of the length.
        let before = scene.arrivals().len();
        let declared = Answer::of(write("p2", "2").body(noise(LIMIT + 1))).await;
        declared.refused(413, "body_too_large", "none");
        let chunks = noise(LIMIT + 1).chunks(300_000).fold(Vec::new(), |all, piece| {
            [all.as_slice(), format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
        });
        let head = put_and_close("shop/a", &owner, "p2", 0, "Fencing-Sequence: 2\r\n");
        let head = head.replacen("Content-Length: 0", "Transfer-Encoding: chunked", 1);
        let chunked = said(&scene, &[head.as_bytes(), &chunks, b"0\r\n\r\n"].concat()).await;
        assert_eq!(status(&chunked), 413, "{class}: {chunked}");
        assert_eq!(scene.arrivals().len(), before, "{class}");
        scene.gateway.stop().await;
    }
}

/// A compressed body is refused where its coding could not go along, and otherwise goes and comes as it is.
#[tokio::test]
async fn a_compressed_body_is_nobodys_to_unpack() {
    for listed in [false, true] {
        let keys = if listed { "forward_headers = [\"content-encoding\"]" } else { "" };
        let scene = Scene::of(Engine::Sqlite, "fence_aware", keys, "").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let packed = "\u{1f}\u{8b}not really, and nobody looks";
        let answer = client.put("shop/a", &owner.token, "p1", packed, &[("content-encoding", "gzip")]).await;
        if listed {
            assert!((200..300).contains(&answer.status), "{answer:?}");
            let arrived = scene.writes().pop().unwrap();
            assert_eq!(
                (arrived.header("content-encoding"), arrived.digest.as_str()),
                (Some("gzip"), hex(packed.as_bytes()).as_str())
            );
            let read = client.get("/fenced/shop/a").await;
            assert_eq!((read.text().as_str(), header(&read, "content-encoding")), (packed, Some("gzip")));
        } else {
            answer.refused(415, "unsupported_media_type", "none");
            assert!(scene.writes().is_empty());
        }
        scene.gateway.stop().await;
    }
    // What the store packed comes back packed, with or without a client that would take it.
    let scene = Scene::of(Engine::Sqlite, "serial", "", "").await;
    let owner = scene.gateway.client.acquire("shop/a", "alice").await;
    scene.upstream.fault(Fault::Bomb(100_000));
    let written = scene.gateway.client.put("shop/a", &owner.token, "p1", "x", &[]).await;
    assert_eq!(
        (header(&written, "content-encoding"), written.bytes == vec![0x1f; 100_000]),
        (Some("gzip"), true)
    );
    assert!(
        !scene.arrivals().iter().any(|one| one.header("accept-encoding").is_some()),
        "the gateway asks for none"
    );
    scene.gateway.stop().await;
}

/// A part would be taken for the whole.
#[tokio::test]
async fn a_part_of_a_content_is_refused() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Sqlite, class, "", "").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let before = scene.arrivals().len();
        for range in ["bytes 0-4/10", "bytes */10", "anything"] {
            let part = client.put("shop/a", &owner.token, "p1", "hello", &[("content-range", range)]).await;
            part.refused(400, "invalid_request", "none");
        }
        assert_eq!(scene.arrivals().len(), before, "{class}");
        let whole = client.put("shop/a", &owner.token, "p1", "hello", &[]).await;
        assert!((200..300).contains(&whole.status), "{class}: its id was never bound: {whole:?}");
        scene.gateway.stop().await;
    }
}

/// A stamp inside the document needs a place there: where there is none, that is said at once.
#[tokio::test]
async fn a_document_without_a_place_for_the_stamp_is_refused_at_once() {
    let stamp = "stamp = { json = \"/meta/fence\" }";
    let scene = Scene::of(Engine::Sqlite, "conditional", stamp, "").await;
    let client = &scene.gateway.client;
    let owner = client.acquire("shop/a", "alice").await;
    let before = scene.arrivals().len();
    for body in [
        "no JSON",
        "[]",
        "\"text\"",
        "{\"meta\":",
        "{\"meta\":5}",
        "{\"meta\":{},\"meta\":[]}",
        "{\"a\":\"\u{0}\"}",
    ] {
        let answer = client.put("shop/a", &owner.token, "p1", body, &[]).await;
        assert_eq!(
            (answer.status, header(&answer, "fencing-effect")),
            (400, Some("none")),
            "{body}: {answer:?}"
        );
    }
    assert_eq!(scene.arrivals().len(), before);
    let whole = "{\"meta\":{\"fence\":\"mine\",\"b\":1.50},\"a\":1e2}";
    let answer = client.put("shop/a", &owner.token, "p1", whole, &[]).await;
    assert!((200..300).contains(&answer.status), "its id was never bound: {answer:?}");
    let read = client.get("/fenced/shop/a").await.text();
    assert!(read.contains("\"a\":1e2") && read.contains("\"b\":1.50") && !read.contains("mine"), "{read}");
    scene.gateway.stop().await;
}

/// A removal has no body, and a body that has none is as long as it says.
#[tokio::test]
async fn an_empty_body_is_a_body_and_a_removal_has_none() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Sqlite, class, "", "policy = \"ordered\"").await;
        let owner = scene.gateway.client.acquire("shop/a", "alice").await;
        let empty = put_and_close("shop/a", &owner, "p1", 0, "Fencing-Sequence: 1\r\n");
        let answer = said(&scene, empty.as_bytes()).await;
        assert!((200..300).contains(&status(&answer)), "{class}: {answer}");
        let arrived = scene.writes().pop().unwrap();
        assert_eq!((arrived.length, arrived.header("content-length")), (0, Some("0")), "{class}");
        let removal =
            put_and_close("shop/a", &owner, "p2", 5, "Fencing-Sequence: 2\r\n").replacen("PUT", "DELETE", 1);
        let before = scene.arrivals().len();
        let refused = said(&scene, format!("{removal}hello").as_bytes()).await;
        assert_eq!(status(&refused), 400, "{class}: {refused}");
        assert_eq!(scene.arrivals().len(), before, "{class}");
        scene.gateway.stop().await;
    }
}
