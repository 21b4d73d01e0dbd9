//! From a name in a request line to a path at the store: one to one, or 400; never another path, never another host.

use super::super::scene::{Scene, kind_of};
use super::{put_and_close, said, status};
use crate::support::engines::Kind as Engine;
use crate::support::upstream::Upstream;

/// Targets, and the path that arrives; none where the request is refused.
const TARGETS: [(&str, Option<&str>); 44] = [
    ("/fenced/shop/a", Some("/base/a")),
    ("/fenced/shop/a/b", Some("/base/a/b")),
    ("/fenced/shop/a%2Fb", Some("/base/a/b")),
    ("/fenced/shop/a%2fb", Some("/base/a/b")),
    ("/fenced/sh%6Fp/%61", Some("/base/a")),
    ("/fenced/shop/a.b", Some("/base/a.b")),
    ("/fenced/shop/a%2eb", Some("/base/a.b")),
    ("/fenced/shop/...", Some("/base/...")),
    ("/fenced/shop/a;b=c", Some("/base/a%3Bb%3Dc")),
    ("/fenced/shop/a:80", Some("/base/a%3A80")),
    ("/fenced/shop/@evil", Some("/base/%40evil")),
    ("/fenced/shop/a@b:c@d", Some("/base/a%40b%3Ac%40d")),
    ("/fenced/shop/http:evil", Some("/base/http%3Aevil")),
    ("/fenced/shop/a+b", Some("/base/a%2Bb")),
    ("/fenced/shop/a&b=c,d!e*f", Some("/base/a%26b%3Dc%2Cd%21e%2Af")),
    ("/fenced/shop/a%20b", Some("/base/a%20b")),
    ("/fenced/shop/%C3%A4", Some("/base/%C3%A4")),
    ("/fenced/shop/a?b=c&d=%20&e", Some("/base/a?b=c&d=%20&e")),
    ("/fenced/shop/a?", Some("/base/a?")),
    ("/fenced/shop/a?b?c/d//..%2f", Some("/base/a?b?c/d//..%2f")),
    ("/fenced/shop/a?%00%0d%0aX-Evil:%201", Some("/base/a?%00%0d%0aX-Evil:%201")),
    ("/fenced/shop/.", None),
    ("/fenced/shop/..", None),
    ("/fenced/shop/../a", None),
    ("/fenced/shop/a/../../b", None),
    ("/fenced/shop/a/%2e%2e/b", None),
    ("/fenced/shop/a/%2E./b", None),
    ("/fenced/shop/a%2f..%2fb", None),
    ("/fenced/shop/%252e%252e/b", None),
    ("/fenced/shop/a%252Fb", None),
    ("/fenced/shop/a%00", None),
    ("/fenced/shop/a%0d%0aX-Evil:%201", None),
    ("/fenced/shop/a%0a", None),
    ("/fenced/shop/a%09b%7f", None),
    ("/fenced/shop/a%3Fb", None),
    ("/fenced/shop/a%23b", None),
    ("/fenced/shop/a%5Cb", None),
    ("/fenced/shop//a", None),
    ("/fenced/shop/a//b", None),
    ("/fenced/shop/a/", None),
    ("/fenced/shop/http://127.0.0.1:1/x", None),
    ("/fenced/shop/%c0%ae%c0%ae/b", None),
    ("/fenced/shop/a%CC%88", None),
    ("/fenced/shop/%E2%80%AEa", None),
];

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Every way in which a name can be written, read and written: what arrives is the one path, or nothing does.
#[tokio::test]
async fn a_name_leads_to_one_path_or_nowhere() {
    let scene = Scene::of(Engine::Sqlite, "serial", "", "").await;
    let owner = scene.gateway.client.acquire("shop/none", "alice").await;
    for (target, path) in TARGETS {
        let before = scene.arrivals().len();
        let read = said(&scene, &get(target)).await;
        let arrived: Vec<String> = scene.arrivals()[before..].iter().map(|one| one.target.clone()).collect();
        assert_eq!(arrived, path.into_iter().collect::<Vec<_>>(), "{target}: {read}");
        assert_eq!(status(&read) == 400, path.is_none(), "{target}: {read}");
        assert!(!read.to_ascii_lowercase().contains("\r\nx-evil"), "{target}: {read}");
        if path.is_some() {
            continue;
        }
        let name = target.trim_start_matches("/fenced/");
        let refused = said(&scene, put_and_close(name, &owner, "p1", 0, "").as_bytes()).await;
        assert_eq!(status(&refused), 400, "{target}: {refused}");
        assert!(scene.arrivals().len() == before, "{target}");
    }
    scene.gateway.stop().await;
}

/// A write of an odd name goes to the path of that name, and its query goes along as it came.
#[tokio::test]
async fn a_write_arrives_where_a_read_looks() {
    let scene = Scene::of(Engine::Sqlite, "idempotent", "", "").await;
    let client = &scene.gateway.client;
    for (name, encoded, path) in [
        ("shop/a;b=c", "shop/a;b=c", "/base/a%3Bb%3Dc"),
        ("shop/ä b", "shop/%C3%A4%20b", "/base/%C3%A4%20b"),
        ("shop/@x:1", "shop/@x:1", "/base/%40x%3A1"),
    ] {
        let owner = client.acquire(name, "alice").await;
        let answer = client.put(&format!("{encoded}?q=%2F..%2F&r"), &owner.token, "p1", "x", &[]).await;
        assert!((200..300).contains(&answer.status), "{name}: {answer:?}");
        let last = scene.writes().pop().unwrap();
        assert_eq!(last.target, format!("{path}?q=%2F..%2F&r"));
        // Another query is another request.
        let other = client.put(&format!("{encoded}?q=other"), &owner.token, "p1", "x", &[]).await;
        other.refused(422, "operation_mismatch", "none");
    }
    scene.gateway.stop().await;
}

/// A cell is one resource: with a query it would be another, so it is refused before anything is announced.
#[tokio::test]
async fn a_cell_has_no_query() {
    let scene = Scene::of(Engine::Sqlite, "conditional", "", "").await;
    let client = &scene.gateway.client;
    let owner = client.acquire("shop/a", "alice").await;
    let before = scene.arrivals().len();
    client.put("shop/a?b=c", &owner.token, "p1", "x", &[]).await.refused(400, "invalid_request", "none");
    assert_eq!(scene.arrivals().len(), before);
    let answer = client.put("shop/a", &owner.token, "p1", "x", &[]).await;
    assert!((200..300).contains(&answer.status), "its id was never bound: {answer:?}");
    scene.gateway.stop().await;
}

/// Queries that are no text of an address: refused, or passed as they came.
#[tokio::test]
async fn a_query_goes_as_it_came_or_not_at_all() {
    let scene = Scene::of(Engine::Sqlite, "serial", "", "").await;
    let owner = scene.gateway.client.acquire("shop/a", "alice").await;
    let queries: [&[u8]; 8] =
        [b"a\"b", b"a<b>", b"a`b", b"{a}", b"a|b\\c^d", b"a\xffb", b"\xc3\xa4", b"a\x01b"];
    for query in queries {
        let before = scene.arrivals().len();
        let head = put_and_close("shop/a?QUERY", &owner, "p1", 1, "");
        let (start, end) = head.split_once("QUERY").unwrap();
        let read = [
            b"GET /fenced/shop/a?".as_slice(),
            query,
            b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        ];
        for request in [read.concat(), [start.as_bytes(), query, end.as_bytes(), b"x"].concat()] {
            let answer = said(&scene, &request).await;
            let arrived = scene.arrivals()[before..].to_vec();
            let told = format!("{:?}: {answer} {arrived:?}", String::from_utf8_lossy(query));
            for one in &arrived {
                let came = String::from_utf8_lossy(query);
                assert_eq!(one.target, format!("/base/a?{came}"), "{told}");
            }
            // Nothing in between: a refusal that promises a success later would have everybody try for ever.
            assert!([200, 201, 400, 404, 412, 422].contains(&status(&answer)), "{told}");
        }
    }
    scene.gateway.stop().await;
}

/// The whole length of a name, and beyond.
#[tokio::test]
async fn a_long_name_is_a_name_and_a_longer_one_is_none() {
    let scene = Scene::of(Engine::Sqlite, "serial", "", "").await;
    let longest = "ä".repeat(253);
    let answer = said(&scene, &get(&format!("/fenced/shop/{}", "%C3%A4".repeat(253)))).await;
    assert_eq!(status(&answer), 404, "{answer}");
    assert_eq!(longest.len() + "shop/".len(), 511);
    assert_eq!(scene.arrivals().pop().unwrap().target, format!("/base/{}", "%C3%A4".repeat(253)));
    let before = scene.arrivals().len();
    for length in [513 - 5, 8_000, 65_536, 200_000] {
        let answer = said(&scene, &get(&format!("/fenced/shop/{}", "a".repeat(length)))).await;
        assert!([400, 414, 431, 0].contains(&status(&answer)), "{length}: {answer}");
    }
    assert_eq!(scene.arrivals().len(), before);
    scene.gateway.stop().await;
}

/// A target with a host in it is about this gateway's own names, or refused: no host but the configured one is asked.
#[tokio::test]
async fn no_request_names_another_host() {
    let elsewhere = Upstream::start(kind_of("serial"));
    let scene = Scene::of(Engine::Sqlite, "serial", "", "").await;
    let other = format!("127.0.0.1:{}", elsewhere.port());
    let targets = [
        format!("http://{other}/fenced/shop/a"),
        format!("http://{other}/base/a"),
        format!("http://user@{other}/fenced/shop/a"),
        format!("//{other}/fenced/shop/a"),
        format!("/fenced/shop/{other}/a"),
        format!("/fenced/{other}/a"),
        other.clone(),
        "http://example.org/fenced/shop/a".to_owned(),
        "*".to_owned(),
    ];
    let own = format!("127.0.0.1:{}", scene.upstream.port());
    for method in ["GET", "CONNECT", "OPTIONS", "TRACE"] {
        for target in &targets {
            for host in ["localhost", other.as_str()] {
                let request =
                    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
                let answer = said(&scene, request.as_bytes()).await;
                assert!(elsewhere.log().is_empty(), "{request} {answer}");
                for arrival in scene.arrivals() {
                    assert_eq!(arrival.header("host"), Some(own.as_str()), "{request}");
                    assert!(arrival.target.starts_with("/base/") && arrival.reads(), "{arrival:?}");
                }
            }
        }
    }
    // A name that looks like an address is a name.
    assert!(scene.arrivals().iter().any(|one| one.target.starts_with("/base/127.0.0.1%3A")));
    let foreign = "GET /fenced/shop/a HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&said(&scene, foreign.as_bytes()).await), 400);
    scene.gateway.stop().await;
}
