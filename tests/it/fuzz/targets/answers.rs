//! Answers of upstreams, any bytes at all: what comes of one is bounded, nothing of it is a fault, no header comes back that is
//! not allowed to, and a request that was written is never called one that was not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencegate::backing::fuzzing::forwarded;
use fencegate::backing::{CellRead, Deadline, Order, ReadOrder, Sent, Upstream};
use fencegate::dispatch::Upstreams;
use fencegate::domain::counter::{CommitNo, Incarnation};
use fencegate::domain::namespaces::NamespaceRules;
use fencegate::domain::operation::{Method, OperationId};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::Position;
use fencegate::domain::resource::{Namespace, Path};
use fencegate::domain::store::{
    FORWARD_HEADERS, HttpStore, KEY_HEADER, Protocol, RETURN_HEADERS, StampPlace,
};
use fencegate::domain::time::Millis;
use fencegate::domain::upstream::{
    Base, Class, Payload, REFUSED_STATUSES, Stamp, StampKind, StatusSet, Validator,
};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::house::House;
use super::play::{Ask, hold};
use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "answers",
    run,
    longest: 6_000,
    words: &[
        "send ",
        "read ",
        "cell ",
        "rewrite ",
        "advance ",
        "ask ",
        "put ",
        "get ",
        "header\n",
        "json\n",
        "pointer\n",
        "aware\n",
        "keyed\n",
        "serial\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 201 Created\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 304 Not Modified\r\n",
        "HTTP/1.1 404 Not Found\r\n",
        "HTTP/1.1 412 Precondition Failed\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 S\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /x\r\n",
        "HTTP/1.1 500 E\r\n",
        "HTTP/1.1 999 X\r\n",
        "HTTP/1.0 200 OK\r\n",
        "ETag: \"a\"\r\n",
        "ETag: W/\"a\"\r\n",
        "Content-Length: 2\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close, vary\r\n",
        "Vary: x\r\n",
        "Set-Cookie: a=b\r\n",
        "x-fencing-stamp: fg1;c;1;0.1;1;op-1\r\n",
        "fencing-position: 0.9\r\n",
        "Fencing-Effect: none\r\n",
        "Content-Type: application/json\r\n",
        "\r\n",
        "{}",
        "{\"_f\":\"fg1;c;1;0.1;1;op-1\"}",
        "{\"fencegate\":1,\"stamp\":\"fg1;c;1;0.1;1;op-1\",\"content\":\"1-0.1-00\"}",
        "0\r\n\r\n",
        "2\r\n{}\r\n",
        "\n---\n",
    ],
    meets: &[
        "answered",
        "doubt",
        "read answered",
        "read broken",
        "cell stamped",
        "cell absent",
        "cell strange",
        "cell unreadable",
        "put relayed",
        "put 504",
        "get relayed",
    ],
};

/// Most bytes of an answer to a write.
const MOST: u64 = 4_096;

/// How long a store is waited for, which always answers or hangs up.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the door is waited for, behind which a doubt may be looked into for longer.
const DOOR: Duration = Duration::from_millis(300);

/// What is asked for and of which kind of store in the first line; then what the store answers, one answer after another
/// with a line `---` between. Afterwards it hangs up.
fn run(data: &[u8], met: &mut Met) {
    let (first, rest) = cut(data, b'\n');
    let Some((call, kind)) = text(first).and_then(|line| line.split_once(' ')) else {
        return met.note("nothing");
    };
    let Some(class) = class_of(kind) else { return met.note("nothing") };
    let answers: Vec<Bytes> = answers_of(rest);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}/base/", listener.local_addr().expect("an address"));
        let received = Arc::new(AtomicUsize::new(0));
        let serving = tokio::spawn(serve(listener, answers, received.clone()));
        let store = store(class, kind, &base);
        match call {
            "put" | "get" => through_the_door(call, store, met).await,
            _ => alone(call, store, &received, met).await,
        }
        serving.abort();
    });
}

fn answers_of(mut rest: &[u8]) -> Vec<Bytes> {
    const BETWEEN: &[u8] = b"\n---\n";
    let mut answers = Vec::new();
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        answers.push(Bytes::copy_from_slice(&rest[..at]));
        rest = &rest[at + BETWEEN.len()..];
    }
    answers.push(Bytes::copy_from_slice(rest));
    answers
}

/// Answers the requests in order, whatever they are, and hangs up after each.
async fn serve(listener: TcpListener, answers: Vec<Bytes>, received: Arc<AtomicUsize>) {
    let mut answers = answers.into_iter();
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = Vec::new();
        while !super::play::has(&head, b"\r\n\r\n") {
            match stream.read_buf(&mut head).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        if head.is_empty() {
            continue;
        }
        received.fetch_add(1, Ordering::SeqCst);
        // Who has gone by now gets nothing.
        drop(stream.write_all(&answers.next().unwrap_or_default()).await);
        drop(stream.shutdown().await);
    }
}

fn class_of(kind: &str) -> Option<Class> {
    Some(match kind {
        "header" | "json" | "pointer" => Class::Conditional,
        "aware" => Class::FenceAware,
        "keyed" => Class::Idempotent,
        "serial" => Class::Serial,
        _ => return None,
    })
}

fn store(class: Class, kind: &str, base: &str) -> HttpStore {
    let stamp = match kind {
        "header" => Some(StampPlace::Header("x-fencing-stamp".to_owned())),
        "json" => Some(StampPlace::Json("/_f".to_owned())),
        "pointer" => Some(StampPlace::Pointer),
        _ => None,
    };
    let patience = Millis::of(PATIENCE);
    HttpStore {
        base: base.to_owned(),
        class,
        stamp,
        protocol: Protocol::Http1,
        timeout: patience,
        connect_timeout: patience,
        max_response_bytes: MOST,
        refused: StatusSet::of(&REFUSED_STATUSES),
        forward_headers: FORWARD_HEADERS.map(str::to_owned).to_vec(),
        return_headers: RETURN_HEADERS.map(str::to_owned).to_vec(),
        key_header: KEY_HEADER.to_owned(),
        status: Some("status/{key}".to_owned()),
        key_retention: Millis::new(86_400_000),
        max_uncertain: None,
        version_header: "server".to_owned(),
        probe: false,
        ca_file: None,
        credentials: None,
    }
}

/// One call of the client to stores.
async fn alone(call: &str, store: HttpStore, received: &AtomicUsize, met: &mut Met) {
    let allowed = store.return_headers.clone();
    let is_pointer = matches!(store.stamp, Some(StampPlace::Pointer));
    let upstream = Upstream::open(store).expect("a store");
    let address = Path::parse("s/a").and_then(|path| path.split(0)).expect("a name");
    let sent = match call {
        "send" => upstream.send(&order(&upstream, address)).await,
        "rewrite" => {
            let base = Base::Recorded(Validator::parse("\"a\"").expect("a validator"));
            upstream.rewrite_cell(&address.resource, &base, &stamp(StampKind::Barrier)).await
        }
        "advance" => upstream.advance(&address.resource, Incarnation::ONE, position()).await,
        "ask" => return met.note(word_of(&format!("{:?}", upstream.ask(&order(&upstream, address)).await))),
        "cell" => {
            let seen = upstream.read_cell(&address.resource).await;
            return met.note(match seen {
                CellRead::Seen(seen) => format!("cell {}", word_of(&format!("{seen:?}"))),
                CellRead::Unreadable(_) => "cell unreadable".to_owned(),
            });
        }
        "read" => return read(&upstream, &allowed, met).await,
        _ => return met.note("nothing"),
    };
    met.note(word_of(&format!("{sent:?}")));
    match sent {
        Sent::Answered(answer) => {
            assert!((200..=599).contains(&answer.relayed.status), "{}", answer.relayed.status);
            assert!(
                answer.relayed.body.len() <= usize::try_from(MOST).unwrap_or(usize::MAX),
                "more than was allowed"
            );
            for (name, value) in &answer.relayed.headers {
                let listed = allowed.contains(name) || name == "content-type";
                assert!(
                    listed && value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)),
                    "{name}: {value}"
                );
            }
        }
        Sent::NotSent(why) => {
            let written = received.load(Ordering::SeqCst);
            assert!(
                written == 0 || is_pointer || call == "rewrite",
                "{why}: and yet {written} requests arrived"
            );
        }
        Sent::Doubt(_) => {}
    }
}

/// The first word of what is printed for people who debug, in small letters.
fn word_of(shown: &str) -> String {
    shown.chars().take_while(|letter| letter.is_alphanumeric()).collect::<String>().to_lowercase()
}

async fn read(upstream: &Upstream, allowed: &[String], met: &mut Met) {
    let address = Path::parse("s/a").and_then(|path| path.split(0)).expect("a name");
    let order = ReadOrder { address, head: false, query: None, headers: Vec::new() };
    let Ok(answer) = upstream.read(order).await else { return met.note("read broken") };
    met.note("read answered");
    assert!((200..=599).contains(&answer.status), "{}", answer.status);
    for name in answer.headers.keys() {
        assert!(
            allowed.iter().any(|listed| listed == name.as_str()) || name == "content-type",
            "{name} comes back"
        );
    }
    let announced = answer.length;
    if let Ok(body) = answer.body.collect().await {
        let length = u64::try_from(body.to_bytes().len()).unwrap_or(u64::MAX);
        met.note("read whole");
        assert!(
            announced.is_none_or(|announced| announced == length || length == 0),
            "{length} of {announced:?}"
        );
    }
}

fn position() -> Position {
    Position::parse("0.1").expect("a position")
}

fn stamp(kind: StampKind) -> Stamp {
    let operation_id = matches!(kind, StampKind::Content).then(|| OperationId::parse("op-1").expect("an id"));
    Stamp { kind, incarnation: Incarnation::ONE, position: position(), commit: CommitNo::ONE, operation_id }
}

fn order(upstream: &Upstream, address: fencegate::domain::resource::Address) -> Order {
    let headers = vec![("accept".to_owned(), "a/b".to_owned()), ("if-match".to_owned(), "\"x\"".to_owned())];
    let going = forwarded(&headers, upstream.store()).expect("headers");
    assert!(going.contains_key("accept") && !going.contains_key("if-match"), "{going:?}");
    Order {
        address,
        method: Method::Put,
        query: None,
        headers,
        content_type: None,
        payload: Payload::of(Bytes::from_static(b"{}")),
        position: position(),
        sequence: None,
        incarnation: Incarnation::ONE,
        operation_id: OperationId::parse("op-1").expect("an id"),
        base: Base::Absent,
        stamp: upstream.store().stamp.is_some().then(|| stamp(StampKind::Content)),
        deadline: Deadline::default(),
    }
}

/// The same behind a door: an acquire, and a write or a read.
async fn through_the_door(call: &str, store: HttpStore, met: &mut Met) {
    let namespace = Namespace::parse("s").expect("a namespace");
    let definition = Definition {
        policy: Policy::Single,
        contract: Contract::Observed,
        issuer: Issuer::Gateway,
        store: Store::Http(store.class),
        scope: 0,
    };
    let rules = NamespaceRules { definition, upstream: Some(store.rules()), ..NamespaceRules::default() };
    let upstreams = Upstreams::from([(namespace.clone(), Arc::new(Upstream::open(store).expect("a store")))]);
    let house = House::before(&[(namespace, rules)], upstreams);
    let acquire = Ask::json("POST", "/v1/leases", b"{\"resource\":\"s/a\"}");
    let Some(lease) = house.answer(acquire.request().expect("a request")).await else {
        return met.note("no lease");
    };
    let token = lease.json()["fencing_token"].as_str().unwrap_or_default().to_owned();
    let ask = match call {
        "put" => Ask::json("PUT", "/fenced/s/a", b"{}")
            .with("fencing-token", &token)
            .with("idempotency-key", "op-1"),
        _ => Ask { method: b"GET".to_vec(), path: b"/fenced/s/a".to_vec(), ..Ask::default() },
    };
    let Some(answer) = house.patient_answer(ask.request().expect("a request"), DOOR).await else {
        return met.note(format!("{call} waits"));
    };
    hold(&ask, "/fenced/s/a", &answer);
    let relayed = answer.header("fencing-source") == Some("upstream");
    met.note(if relayed { format!("{call} relayed") } else { format!("{call} {}", answer.status) });
    for name in ["set-cookie", "location", "connection", "transfer-encoding", "x-fencing-stamp"] {
        assert!(
            !relayed || call == "put" && name == "location" || !answer.headers.contains_key(name),
            "{name} comes back: {answer:?}"
        );
    }
}
