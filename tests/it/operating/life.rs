//! The end of a process, stage by stage, and what a fault of one request may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencegate::app::{Surroundings, run};
use fencegate::config::{Config, Flags, Nowhere, Sources, Variables};
use fencegate::domain::entropy::{Entropy, EntropyFailed};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::listener::Listener;
use crate::leases::scene::{Scene, Shape, acquire, told_on, wanted};
use crate::support::client::{Client, Owned};
use crate::support::clock::ManualClock;
use crate::support::postgres::patience;
use crate::support::postgres::replica::failing;

told_on!([sqlite Sqlite, postgres Postgres], [
    a_stop_goes_by_stages,
]);

const RULES: &str = "drain_delay = \"2s\"\n[namespaces.jobs]\nlease = { ttl_ms = 30000, min_ttl_ms = 50 }\n";

/// A connection that is kept open, and what is said on it.
struct Line(TcpStream);

impl Line {
    async fn to(client: &Client) -> Self {
        let mut line = Self(TcpStream::connect(client.address()).await.unwrap());
        let alive = line.ask("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(alive.starts_with("HTTP/1.1 200 ") && !alive.contains("connection: close"), "{alive}");
        line
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// The answer, with a body of the length that it names.
    async fn hear(&mut self) -> String {
        let mut bytes = Vec::new();
        loop {
            let mut some = [0; 4_096];
            let read = tokio::time::timeout(Duration::from_secs(10), self.0.read(&mut some)).await;
            let count = read.expect("no answer").unwrap();
            assert!(count > 0, "closed after {}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&some[..count]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
                return text;
            }
        }
    }

    async fn ask(&mut self, text: &str) -> String {
        self.say(text).await;
        self.hear().await
    }
}

fn put(lease: &Owned, name: &str, operation: &str, length: usize) -> String {
    format!(
        "PUT /fenced/{name} HTTP/1.1\r\nhost: localhost\r\nfencing-token: {}\r\nidempotency-key: {operation}\r\ncontent-length: {length}\r\n\r\n",
        lease.token
    )
}

/// Broken: a gateway that is told to stop refuses what a balancer still sends, cuts what is under way, or takes the leases of
/// its owners with it. Must hold: first it is not ready and serves on; then it accepts nothing, and on open connections owners
/// still renew, release and hand over while all else that would change something is refused; what was under way is finished;
/// streams are told; and then it is gone.
async fn a_stop_goes_by_stages(shape: Shape) {
    let scene = Scene::start(shape, RULES).await;
    let client = scene.client(0);
    let mut listener = Listener::begin(&client, "", None).await;
    let (kept, released, handed) = (
        client.acquire("jobs/kept", "alice").await,
        client.acquire("jobs/released", "bob").await,
        client.acquire("jobs/handed", "carol").await,
    );
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(Line::to(&client).await);
    }
    let ended = tokio::task::spawn_blocking(move || scene.end());

    patience::until("it is not ready", 5, async || (failing(&client).await == ["accepting"]).then_some(()))
        .await;
    acquire(&client, &wanted("jobs/late", 1_000, 0)).await.expect(201);
    let mut under_way = lines.pop().unwrap();
    under_way.say(&put(&kept, "jobs/kept", "op-1", 4)).await;
    under_way.say("ha").await;

    patience::until("nothing new is accepted", 10, async || {
        TcpStream::connect(client.address()).await.is_err().then_some(())
    })
    .await;
    let renew = format!("POST /v1/leases/{}/renew HTTP/1.1\r\nhost: localhost\r\n\r\n", kept.id);
    let body = json!({"holder": "dave"}).to_string();
    let hand_over = format!(
        "POST /v1/leases/{}/transfer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        handed.id,
        body.len()
    );
    let release = format!("DELETE /v1/leases/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", released.id);
    let write = format!("{}late", put(&kept, "jobs/kept", "op-2", 4));
    for (text, status) in [(renew, "200"), (release, "200"), (hand_over, "201"), (write, "503")] {
        let answer = lines.pop().unwrap().ask(&text).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "the next request goes elsewhere: {answer}");
        assert!(status != "503" || answer.contains("\"code\":\"draining\""), "{answer}");
    }
    under_way.say("lf").await;
    let answer = under_way.hear().await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "what was under way is finished: {answer}");
    let heard = listener.comment("draining").await;
    assert!(heard.iter().any(|one| one.told() == "lease.released jobs/released"), "{}", listener.all);
    listener.ends().await;
    ended.await.unwrap();
}

/// Panics once when it is armed, in the middle of a request.
#[derive(Default)]
struct Trap {
    armed: AtomicBool,
    drawn: AtomicU64,
}

impl Entropy for Trap {
    fn draw(&self) -> Result<[u8; 16], EntropyFailed> {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "a fault of ours");
        Ok(u128::from(self.drawn.fetch_add(1, Ordering::SeqCst)).to_be_bytes())
    }
}

/// Broken: a fault in one request ends the process, a connection of somebody else, or the committer. Must hold: that request
/// is 500, and whoever waits, writes or listens meanwhile hears nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_costs_one_request_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::to(format!("http://{}", socket.local_addr().unwrap()));
    let database = format!("sqlite://{}/fencegate.db", folder.path().display());
    let seal_key_file = Some(format!("{}/fencegate.key", folder.path().display()));
    let flags = Flags { database: Some(database), seal_key_file, ..Flags::default() };
    let sources = Sources { file: None, variables: &Variables::default(), flags: &flags, outside: &Nowhere };
    let config = Config::parse(&sources).unwrap();
    let trap = Arc::new(Trap::default());
    let surroundings = Surroundings {
        clock: Arc::new(ManualClock::new()),
        entropy: trap.clone(),
        drain_time: Duration::from_secs(2),
    };
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(run(socket, config, surroundings, shutdown.clone()));
    let alice = client.acquire("jobs/a", "alice").await;
    let mut listener = Listener::begin(&client, "", None).await;
    let waits = {
        let client = client.clone();
        tokio::spawn(async move { acquire(&client, &wanted("jobs/a", 20_000, 20_000)).await })
    };
    let mut half = Line::to(&client).await;
    half.say(&put(&alice, "jobs/a", "op-1", 4)).await;
    half.say("ha").await;
    let mut open = Line::to(&client).await;
    for round in 0..3 {
        trap.armed.store(true, Ordering::SeqCst);
        let lost = client.try_acquire(&format!("jobs/lost-{round}"), "bob").await;
        assert_eq!(lost.status, 500, "{}", lost.text());
        assert!(!lost.text().contains("a fault of ours"), "{}", lost.text());
        client.renew(&alice).await.expect(200);
        client.acquire(&format!("jobs/next-{round}"), "bob").await;
    }
    half.say("lf").await;
    assert!(half.hear().await.starts_with("HTTP/1.1 201 "));
    let ready = open.ask("GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    client.release(&alice).await.expect(200);
    waits.await.unwrap().expect(201);
    let heard = listener.events(6).await;
    assert!(heard.iter().all(|one| !one.told().contains("lost")), "{}", listener.all);
    drop((listener, open, half));
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
