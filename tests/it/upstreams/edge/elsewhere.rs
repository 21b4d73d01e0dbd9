//! No client and no answer leads the gateway to another address than the one that the operator has configured. Judged from
//! two listeners: the store, which may be asked, and somebody else, to whom not even a connection may be opened.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::scene::{CLASSES, Scene, config, kind_of};
use super::{said, status};
use crate::support::engines::Kind as Engine;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Fault, Upstream};

/// Somebody who counts who comes.
struct Elsewhere {
    address: SocketAddr,
    came: Arc<AtomicUsize>,
}

impl Elsewhere {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = came.clone();
        // It ends with the process: nobody waits for it.
        thread::spawn(move || {
            for _ in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, came }
    }

    #[track_caller]
    fn saw_nobody(&self, told: &str) {
        assert_eq!(self.came.load(Ordering::SeqCst), 0, "{told}");
    }
}

/// Request targets that name the other address in every way in which a target, a name or a query can name one.
fn targets(other: &str, port: u16) -> Vec<String> {
    let encoded = other.replace(':', "%3A");
    vec![
        format!("http://{other}/fenced/shop/a"),
        format!("http://{other}/"),
        format!("HTTP://{other}/fenced/shop/a"),
        format!("https://{other}/fenced/shop/a"),
        format!("http://localhost@{other}/fenced/shop/a"),
        format!("http://localhost:80@{other}/fenced/shop/a"),
        format!("http://{other}#@localhost/fenced/shop/a"),
        format!("//{other}/fenced/shop/a"),
        format!("///{other}/fenced/shop/a"),
        format!("\\\\{other}\\fenced\\shop\\a"),
        other.to_owned(),
        format!("/fenced/shop/@{other}/a"),
        format!("/fenced/shop/a@{other}"),
        format!("/fenced/shop/:{port}/a"),
        format!("/fenced/shop/%40{encoded}/a"),
        format!("/fenced/shop/{encoded}"),
        format!("/fenced/shop/%2F%2F{encoded}/a"),
        format!("/fenced/shop/%5C%5C{encoded}/a"),
        format!("/fenced/shop/http:%2F%2F{encoded}%2Fa"),
        format!("/fenced/shop//{other}/a"),
        format!("/fenced/shop/../../{other}/a"),
        format!("/fenced/shop/..%2f..%2f{encoded}"),
        format!("/fenced/shop/a?url=http://{other}/"),
        format!("/fenced/shop/a?@{other}"),
        format!("/fenced/shop/a?//{other}/"),
        format!("/fenced/shop/a?%20HTTP/1.1%0d%0aHost:%20{encoded}"),
        format!("/fenced/shop/a%0d%0aHost:%20{encoded}"),
        format!("/fenced/@{other}/a"),
        format!("/fenced/{encoded}/a"),
        format!("/fenced//{other}/a"),
    ]
}

/// Headers by which proxies are told to go elsewhere.
fn headers(other: &str) -> String {
    format!(
        "Forwarded: host={other};for={other}\r\nX-Forwarded-Host: {other}\r\nX-Forwarded-Server: {other}\r\n\
         X-Original-URL: http://{other}/a\r\nX-Rewrite-URL: http://{other}/a\r\nX-Host: {other}\r\n\
         Destination: http://{other}/a\r\nReferer: http://{other}/a\r\nOrigin: http://{other}\r\n\
         Content-Location: http://{other}/a\r\nAlt-Used: {other}\r\n"
    )
}

/// Reads and writes, of every class: what arrives is for the configured host and below the base, or nothing does.
#[tokio::test]
async fn nothing_that_a_client_sends_opens_a_connection_to_anybody_else() {
    for class in CLASSES {
        let elsewhere = Elsewhere::start();
        let scene = Scene::of(Engine::Sqlite, class, "", "contract = \"observed\"").await;
        let owner = scene.gateway.client.acquire("shop/a", "alice").await;
        let other = elsewhere.address.to_string();
        let own = format!("127.0.0.1:{}", scene.upstream.port());
        for (number, target) in targets(&other, elsewhere.address.port()).iter().enumerate() {
            for (method, length) in [("GET", 0), ("PUT", 2)] {
                for host in ["localhost", other.as_str()] {
                    let body = if length == 0 { "" } else { "{}" };
                    let request = format!(
                        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nFencing-Token: {}\r\n\
                         Idempotency-Key: p{number}\r\nPrefer: wait=0\r\nConnection: close\r\n\
                         Content-Length: {length}\r\n{}\r\n{body}",
                        owner.token,
                        headers(&other),
                    );
                    let answer = said(&scene, request.as_bytes()).await;
                    elsewhere.saw_nobody(&format!("{class} {request} {answer}"));
                }
            }
        }
        assert!(scene.arrivals().len() > 4, "{class}: names that only look odd are names");
        for arrival in scene.upstream.log() {
            assert_eq!(arrival.header("host"), Some(own.as_str()), "{class} {arrival:?}");
            assert!(arrival.target.starts_with("/base/"), "{class} {arrival:?}");
            let odd = ["forwarded", "x-forwarded-host", "x-original-url", "destination", "referer", "origin"];
            assert!(odd.iter().all(|name| arrival.header(name).is_none()), "{class} {arrival:?}");
        }
        scene.gateway.stop().await;
    }
}

/// A name of another host is refused before anybody asks a name server for it.
#[tokio::test]
async fn a_host_that_is_a_name_is_not_looked_up() {
    let scene = Scene::of(Engine::Sqlite, "serial", "", "").await;
    for host in ["store.invalid", "localhost.invalid", "127.0.0.1.invalid:80", "a@localhost", "localhost:x"] {
        let request = format!("GET /fenced/shop/a HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&said(&scene, request.as_bytes()).await), 400, "{host}");
    }
    assert!(scene.arrivals().is_empty());
    scene.gateway.stop().await;
}

/// What a store answers is no address for the gateway: redirects, whatever their status, and all other headers with one.
#[tokio::test]
async fn nothing_that_a_store_answers_is_followed() {
    for class in CLASSES {
        let elsewhere = Elsewhere::start();
        let other = elsewhere.address;
        let scene = Scene::of(Engine::Sqlite, class, "timeout_ms = 500", "contract = \"observed\"").await;
        let client = &scene.gateway.client;
        for status in [301, 302, 303, 307, 308, 300, 305, 201, 200, 503] {
            let wrong = format!(
                "HTTP/1.1 {status} There\r\nLocation: http://{other}/a\r\nContent-Location: http://{other}/a\r\n\
                 Refresh: 0; url=http://{other}/\r\nAlt-Svc: h2=\"{other}\"\r\nLink: <http://{other}/>; rel=next\r\n\
                 Content-Length: 0\r\n\r\n"
            );
            scene.upstream.fault_of_read(Fault::Raw(wrong.clone().into_bytes()));
            let read = client.get("/fenced/shop/a").await;
            assert!(read.headers.get("location").is_none(), "{class} {status} {read:?}");
            let name = format!("shop/b{status}");
            let owner = client.acquire(&name, "alice").await;
            scene.upstream.fault(Fault::Raw(wrong.into_bytes()));
            client.put(&name, &owner.token, "p1", "{}", &[("prefer", "wait=1")]).await;
            elsewhere.saw_nobody(&format!("{class} {status}"));
        }
        scene.upstream.fault_of_read(Fault::Redirect(format!("http://{other}/a")));
        client.get("/fenced/shop/a").await;
        elsewhere.saw_nobody(class);
        scene.gateway.stop().await;
    }
}

/// The name in the configuration is looked up for each connection: where it stands for several addresses, the first that
/// takes the connection gets the request, and only that one. What the name stands for is the operator's word.
#[tokio::test]
async fn a_name_with_several_addresses_is_one_store_at_a_time() {
    let upstream = Upstream::start(kind_of("serial"));
    let port = upstream.port();
    let settings = format!(
        "[namespaces.shop]\ncontract = \"observed\"\n[namespaces.shop.store]\nhttp = \"http://localhost:{port}/base/\"\n\
         class = \"serial\"\n"
    );
    let gateway = Gateway::configured(Engine::Sqlite, &config(&settings)).await;
    let owner = gateway.client.acquire("shop/a", "alice").await;
    let put = async |id: &str| gateway.client.put("shop/a", &owner.token, id, "x", &[]).await;
    // The name may stand for ::1 too, where nobody listens yet.
    assert!((200..300).contains(&put("p1").await.status));
    assert_eq!(upstream.log().len(), 1);
    // Its other address is somebody else from now on, who takes connections and never answers.
    let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, port)) else { return gateway.stop().await };
    let next = gateway.client.acquire("shop/b", "alice").await;
    let sent = gateway.client.put("shop/b", &next.token, "p2", "x", &[("prefer", "wait=1")]).await;
    other.set_nonblocking(true).unwrap();
    let went_there = other.accept().is_ok();
    let arrived = upstream.log().len() - 1;
    assert_eq!(usize::from(went_there) + arrived, 1, "one of them, once: {sent:?}");
    assert_eq!((200..300).contains(&sent.status), arrived == 1, "and the answer is its: {sent:?}");
    gateway.stop().await;
}
