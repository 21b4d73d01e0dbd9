//! What is sent to stores of each class: the caller's request, the class's headers, and nothing else.

use fencegate::backing::{Asked, Order, Sent, Upstream};
use fencegate::domain::counter::{Incarnation, Sequence};
use fencegate::domain::operation::Method;
use fencegate::domain::position::Position;
use fencegate::domain::store::Credentials;
use fencegate::domain::upstream::Class;
use std::process::Command;

use super::{address, answered, is_unsent, order, pair, pair_with, resource, store};
use crate::support::upstream::{Fault, Kind};

fn fields(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_plain_write_arrives_as_it_was_given() {
    let (scripted, upstream) = pair(Kind::Serial);
    let order = Order { query: Some("a=%20b&c".into()), ..order("jobs/a b/c", 1, "op", "hello") };
    let answer = answered(upstream.send(&order).await);
    assert_eq!((answer.relayed.status, &answer.relayed.body[..]), (201, b"written 1".as_slice()));
    let log = scripted.log();
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].method.as_str(), log[0].target.as_str()), ("PUT", "/base/a%20b/c?a=%20b&c"));
    let names: Vec<&str> = log[0].headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["content-type", "host", "content-length"], "nothing else is added");
    assert_eq!(log[0].header("host"), Some(format!("127.0.0.1:{}", scripted.port()).as_str()));
}

#[tokio::test]
async fn each_method_goes_as_itself_and_a_target_goes_below_its_resource() {
    let (scripted, upstream) = pair(Kind::Serial);
    for method in [Method::Put, Method::Post, Method::Patch, Method::Delete] {
        let body = if method == Method::Delete { "" } else { "x" };
        let order = Order { method, address: address("n/r/t/u", 1), ..order("n/x", 1, "op", body) };
        answered(upstream.send(&order).await);
    }
    let seen: Vec<(String, String)> =
        scripted.log().into_iter().map(|arrival| (arrival.method, arrival.target)).collect();
    assert_eq!(seen, ["PUT", "POST", "PATCH", "DELETE"].map(|method| (method.into(), "/base/r/t/u".into())));
}

#[tokio::test]
async fn a_client_cannot_speak_for_the_gateway() {
    // Even where a list allows them by mistake, these never reach the store.
    let (scripted, upstream) = pair_with(Kind::FenceAware, |store| {
        store.credentials = Some(Credentials { header: "authorization".into(), secret: "Bearer s".into() });
    });
    let headers = fields(&[
        ("fencing-position", "9.9"),
        ("Fencing-Advance", "true"),
        ("if-match", "*"),
        ("idempotency-key", "mine"),
        ("x-forwarded-for", "1.2.3.4"),
        ("connection", "x-kept"),
        ("transfer-encoding", "chunked"),
        ("content-length", "3"),
        ("host", "elsewhere"),
        ("authorization", "Bearer mine"),
        ("x-kept", "kept"),
    ]);
    let order = Order { headers, ..order("n/r", 7, "op", "hello") };
    answered(upstream.send(&order).await);
    let log = scripted.log();
    let names: Vec<&str> = log[0].headers.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["fencing-advance", "if-match", "idempotency-key", "x-forwarded-for", "connection"] {
        assert!(!names.contains(&name), "{name} was forwarded: {names:?}");
    }
    assert_eq!(log[0].header("fencing-position"), Some("0.7"));
    assert_eq!(log[0].header("authorization"), Some("Bearer s"));
    assert_eq!(log[0].header("x-kept"), Some("kept"));
    assert_eq!(log[0].length, 5);
}

#[tokio::test]
async fn a_value_that_would_break_a_header_is_not_sent() {
    let (scripted, upstream) = pair(Kind::Serial);
    let bad = Order { headers: fields(&[("x-a", "b\r\nx-c: d")]), ..order("n/r", 1, "op", "") };
    is_unsent(&upstream.send(&bad).await);
    let bad = Order { query: Some("a#b".into()), ..order("n/r", 1, "op", "") };
    is_unsent(&upstream.send(&bad).await);
    assert!(scripted.log().is_empty());
}

#[tokio::test]
async fn a_fence_aware_store_learns_the_position_and_says_what_it_holds() {
    let (scripted, upstream) = pair(Kind::FenceAware);
    let first = Order { sequence: Sequence::new(3), ..order("n/a b/ü", 108, "publish-1", "new") };
    let answer = answered(upstream.send(&first).await);
    assert_eq!(answer.holds, Position::parse("0.108").ok());
    let arrival = &scripted.log()[0];
    for (name, value) in [
        ("fencing-position", "0.108"),
        ("fencing-sequence", "3"),
        ("fencing-operation", "publish-1"),
        ("fencing-resource", "n/a%20b/%C3%BC"),
        ("fencing-incarnation", "1"),
    ] {
        assert_eq!(arrival.header(name), Some(value), "{name}");
    }
    let stale = answered(upstream.send(&order("n/a b/ü", 107, "old", "old")).await);
    assert_eq!((stale.relayed.status, stale.holds), (412, Position::parse("0.108").ok()));
    let name = resource("n/a b/ü");
    let advanced = upstream.advance(&name, Incarnation::ONE, Position::parse("1.1").unwrap()).await;
    assert_eq!(answered(advanced).holds, Position::parse("1.1").ok());
    let arrival = &scripted.log()[2];
    assert_eq!((arrival.method.as_str(), arrival.length), ("POST", 0));
    assert_eq!(arrival.header("fencing-advance"), Some("true"));
    assert_eq!(arrival.header("content-length"), Some("0"));
    assert_eq!(scripted.effects().len(), 1);
}

#[tokio::test]
async fn an_idempotent_store_gets_one_key_per_operation_and_can_be_asked() {
    let (scripted, upstream) =
        pair_with(Kind::Idempotent, |store| store.status = Some("status/{key}".into()));
    let first = order("n/r", 1, "pay-1", "100");
    assert_eq!(upstream.ask(&first).await, Asked::NotFound);
    let one = answered(upstream.send(&first).await);
    // A later delivery under a newer position is the same operation.
    let two =
        answered(upstream.send(&Order { position: Position::parse("0.9").unwrap(), ..first.clone() }).await);
    assert_eq!(one, two);
    assert!(matches!(upstream.ask(&first).await, Asked::Done(relayed) if relayed.body == one.relayed.body));
    answered(upstream.send(&order("n/r", 1, "pay-2", "100")).await);
    answered(upstream.send(&order("n/s", 1, "pay-1", "100")).await);
    let again = Order { incarnation: Incarnation::parse("2").unwrap(), ..first };
    answered(upstream.send(&again).await);
    assert_eq!(scripted.effects().len(), 4, "another operation, resource or incarnation is another key");
    let keys =
        scripted.log().into_iter().filter_map(|arrival| arrival.header("idempotency-key").map(str::to_owned));
    assert!(keys.into_iter().all(|key| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())));
    scripted.fault_of_read(Fault::Status(500));
    assert!(matches!(upstream.ask(&order("n/r", 1, "pay-1", "")).await, Asked::Unclear(_)));
}

#[tokio::test]
async fn a_refused_connection_is_not_sent() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let upstream = Upstream::open(store(Class::Serial, &base)).unwrap();
    is_unsent(&upstream.send(&order("n/r", 1, "op", "x")).await);
    let nowhere = Upstream::open(store(Class::Serial, "http://does-not-exist.invalid/")).unwrap();
    is_unsent(&nowhere.send(&order("n/r", 1, "op", "x")).await);
}

#[tokio::test]
async fn what_cannot_be_an_address_is_found_at_the_start() {
    for base in ["", "/a/", "ftp://a/", "http://user:pass@a/", "http://a/?q=1", "http:///a"] {
        assert!(Upstream::open(store(Class::Serial, base)).is_err(), "{base:?}");
    }
    let open = Upstream::open(store(Class::Serial, "http://[::1]:1/")).unwrap();
    assert!(matches!(open.send(&order("n/r", 1, "op", "x")).await, Sent::NotSent(_)));
}

#[test]
fn proxy_variables_are_not_looked_at() {
    // The same write again, in a process whose environment names a proxy that nobody runs.
    let dead = "http://127.0.0.1:9";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "backing::sends::a_plain_write_arrives_as_it_was_given"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(name, dead);
    }
    let output = child.env_remove("no_proxy").env_remove("NO_PROXY").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
