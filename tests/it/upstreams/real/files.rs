//! An nginx with `WebDAV`: it takes what it is given, so it can be `serial`, and nothing else.

use reqwest::Method;

use crate::support::client::{Answer, Client};
use crate::support::postgres::patience;
use crate::support::stores::missing;
use crate::support::stores::nginx::Nginx;

use super::super::fleet::PATIENCE;
use super::{Alone, beside, fails, passes, succeeds};

/// What its own log has of a file, in order, once there is so much.
async fn logged(nginx: &Nginx, file: &str, count: usize) -> Vec<String> {
    patience::until("it was logged", PATIENCE, async || {
        let lines = nginx.arrivals();
        let of: Vec<String> = lines.into_iter().filter(|line| line.contains(file)).collect();
        (of.len() >= count).then_some(of)
    })
    .await
}

async fn removed(client: &Client, name: &str, token: &str, id: &str, sequence: &str) -> Answer {
    let request = client
        .request(Method::DELETE, &format!("/fenced/{name}"))
        .header("fencing-token", token)
        .header("idempotency-key", id)
        .header("fencing-sequence", sequence);
    Answer::of(request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_nginx_gets_exactly_one_request_for_each_operation() {
    let test = "upstreams::real::files::an_nginx_gets_exactly_one_request_for_each_operation";
    let Some(program) = missing::nginx(test) else { return };
    let nginx = Nginx::start(program);
    let store = format!("http = \"{}files/\"\nclass = \"serial\"\n", nginx.base());
    let alone = Alone::before(&store, "policy = \"ordered\"");
    let client = &alone.client;
    let owner = client.acquire("shop/a b", "alice").await;
    for (sequence, body) in [("1", "one"), ("2", "two")] {
        for _ in 0..2 {
            let id = format!("p{sequence}");
            succeeds(
                &client.put("shop/a b", &owner.token, &id, body, &[("fencing-sequence", sequence)]).await,
            );
        }
    }
    let read = client.get("/fenced/shop/a%20b").await;
    assert_eq!((read.status, read.text().as_str()), (200, "two"));
    assert_eq!(read.header("fencing-source"), Some("upstream"));
    assert!(read.header("fencing-upstream-etag").is_some() && read.header("etag").is_none(), "{read:?}");
    let part = client.request(Method::GET, "/fenced/shop/a%20b").header("range", "bytes=1-");
    let part = Answer::of(part).await;
    assert_eq!((part.status, part.text().as_str()), (206, "wo"));
    assert_eq!(part.header("content-range"), Some("bytes 1-2/3"));
    let head = client.request(Method::HEAD, "/fenced/shop/a%20b");
    let head = Answer::of(head).await;
    assert_eq!((head.status, head.header("content-length"), head.bytes.len()), (200, Some("3"), 0));
    succeeds(&removed(client, "shop/a%20b", &owner.token, "p3", "3").await);
    assert_eq!(client.get("/fenced/shop/a%20b").await.status, 404);
    assert_eq!(beside(&format!("{}files/a%20b", nginx.base())).await.status, 404);
    // A removal of what is not there is the store's own refusal, and stays one.
    let next = client.acquire("shop/b", "bob").await;
    let refused = removed(client, "shop/b", &next.token, "d1", "1").await;
    assert_eq!((refused.status, refused.header("fencing-effect")), (404, Some("none")), "{refused:?}");
    let arrived = logged(&nginx, "/files/a", 8).await;
    let expected =
        ["PUT 201", "PUT 204", "GET 200", "GET 206", "HEAD 200", "DELETE 204", "GET 404", "GET 404"];
    let expected: Vec<String> = expected.map(|line| line.replacen(' ', " /files/a b ", 1)).into();
    assert_eq!(arrived, expected, "one request each");
    alone.end();
}

/// It looks at no condition on a PUT, so a late write would land: the probe says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_nginx_is_refused_as_a_store_that_compares() {
    let test = "upstreams::real::files::an_nginx_is_refused_as_a_store_that_compares";
    let Some(program) = missing::nginx(test) else { return };
    let nginx = Nginx::start(program);
    let base = format!("{}files/", nginx.base());
    let store = format!("http = \"{base}\"\nclass = \"conditional\"\nstamp = \"pointer\"\n");
    let alone = Alone::before(&store, "");
    assert_eq!(alone.earned().await["probe"], "failed");
    let (check, detail) = fails(&alone.probe(&["shop"]));
    assert_eq!(check, "a wrong If-Match is refused", "{detail}");
    assert!(detail.contains("it was not refused"), "{detail}");
    let (check, detail) =
        fails(&alone.probe(&["--class", "conditional", "--set", "stamp={header=\"x-stamp\"}", &base]));
    assert!(!check.is_empty() && !detail.is_empty());
    // As a receiver it keeps no positions.
    let (check, detail) = fails(&alone.probe(&["--class", "fence_aware", &base]));
    assert_eq!(check, "position 0.1 is refused after it", "{detail}");
    passes(&alone.probe(&["--class", "serial", &base]), "serial");
    let owner = alone.client.acquire("shop/a", "alice").await;
    let refused = alone.client.put("shop/a", &owner.token, "p1", "{}", &[]).await;
    refused.refused(503, "quarantined", "none");
    assert_eq!(beside(&format!("{base}a")).await.status, 404);
    alone.end();
}
