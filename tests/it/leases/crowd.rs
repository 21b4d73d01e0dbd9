//! Thousands of callers that wait for one resource, each on a connection of its own.

use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::raw::request;
use super::scene::{FIFO, RACE, Scene, Shape, acquire, id_of, release, take_place, told_on, wanted};
use crate::support::client::Client;
use crate::support::gateway::Process;
use crate::support::postgres::binaries::say;
use crate::support::postgres::patience;

told_on!([sqlite Sqlite, postgres Postgres], [
    thousands_wait_and_one_is_granted,
    a_queue_that_leaves_at_once_keeps_nobody_from_renewing,
]);

const CROWD: u64 = 10_000;

/// Over PostgreSQL: enough to show that none of them has a connection to it.
const CROWD_OVER_POSTGRES: u64 = 4_000;

/// Memory of the gateway with all of them, in KiB.
const MOST_KIB: u64 = 600 * 1_024;

/// As many as the descriptors of this process and of the gateway, which inherits them, allow.
fn crowd() -> u64 {
    let found = getrlimit(Resource::Nofile);
    let most = found.maximum.unwrap_or(u64::MAX);
    let current = Some(most.min(CROWD + 2_000).max(found.current.unwrap_or(u64::MAX)));
    setrlimit(Resource::Nofile, Rlimit { current, ..found }).unwrap();
    let count = CROWD.min(most.saturating_sub(2_000));
    if count < CROWD {
        say(&format!("the crowd is {count} and not {CROWD}: no more than {most} descriptors are allowed"));
    }
    count
}

/// A line of what the system tells of a process, as a number.
fn told(gateway: &Process, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn waits(address: String, text: String) -> TcpStream {
    let mut stream =
        patience::until("a connection", 20, async || TcpStream::connect(&address).await.ok()).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// What has been answered to whom: the statuses. An end of the connection is 0.
fn answered(crowd: &[TcpStream]) -> Vec<(usize, String)> {
    let mut some = [0; 2_048];
    let mut found = Vec::new();
    for (number, stream) in crowd.iter().enumerate() {
        if let Ok(count) = stream.try_read(&mut some) {
            found.push((number, String::from_utf8_lossy(&some[..count]).into_owned()));
        }
    }
    found
}

/// Renews a lease on another resource until it is told to stop; the longest that one took.
async fn owner(client: Client, rounds: usize) -> Duration {
    let lease = acquire(&client, &wanted("jobs/other", 30_000, 0)).await.expect(201);
    let path = format!("/v1/leases/{}/renew", id_of(&lease));
    let mut most = Duration::ZERO;
    for _ in 0..rounds {
        let began = instant();
        client.post(&path, &json!({})).await.expect(200);
        most = most.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    release(&client, &lease).await;
    most
}

/// Broken: each waiter costs a thread, a database connection or a megabyte, and the owners of other resources are not heard
/// any more. Must hold: memory within a bound, no database connection for any of them, renewals in under a second, one
/// grant for one release, and an end at once when the gateway is told to stop.
async fn thousands_wait_and_one_is_granted(shape: Shape) {
    let count = if shape == Shape::Sqlite { crowd() } else { crowd().min(CROWD_OVER_POSTGRES) };
    let scene = Scene::start(shape, RACE).await;
    let (gateway, client) = (&scene.gateways[0], scene.client(0));
    let held = acquire(&client, &wanted("jobs/a", 120_000, 0)).await.expect(201);
    let (before, began) = (told(gateway, "VmRSS"), instant());
    let renewed = tokio::spawn(owner(client.clone(), 60));
    let mut coming = JoinSet::new();
    let mut crowd = Vec::new();
    for _ in 0..count {
        if coming.len() >= 512 {
            crowd.push(coming.join_next().await.unwrap().unwrap());
        }
        let text = request(&wanted("jobs/a", 60_000, 30_000));
        coming.spawn(waits(client.address().to_owned(), text));
    }
    crowd.extend(coming.join_all().await);
    let came = began.elapsed();
    assert!(answered(&crowd).is_empty(), "somebody was answered while the lease was held");
    let meanwhile = renewed.await.unwrap();
    let calm = owner(client.clone(), 20).await;
    let with_all = told(gateway, "VmRSS");
    if let Some(database) = &scene.database {
        let mut admin = PgConnection::connect(&database.admin).await.unwrap();
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'gateway'";
        let sessions: i64 = sqlx::query_scalar(sessions).fetch_one(&mut admin).await.unwrap();
        assert!(sessions <= 6, "{sessions} sessions");
    }
    release(&client, &held).await;
    let freed = instant();
    let mut granted = patience::until("one is granted", 5, async || {
        let some = answered(&crowd);
        (!some.is_empty()).then_some(some)
    })
    .await;
    let took = freed.elapsed();
    tokio::time::sleep(Duration::from_millis(300)).await;
    granted.extend(answered(&crowd));
    assert_eq!(granted.len(), 1, "{granted:?}");
    assert!(granted[0].1.starts_with("HTTP/1.1 201 "), "{granted:?}");
    say(&format!(
        "{shape:?}: {count} came in {came:?}; {before} KiB before and {with_all} KiB with all: {} bytes each; {} threads; \
         renewals took at most {meanwhile:?} as they came and {calm:?} as they waited; a release took {took:?}",
        (with_all - before) * 1_024 / count,
        told(gateway, "Threads"),
    ));
    assert!(with_all < MOST_KIB, "{with_all} KiB");
    // Thousands of new connections in one moment take both processors; a renewal is due when a third of 30 s is over, so
    // that half of this is early enough. Once they wait they cost nobody anything.
    assert!(meanwhile < Duration::from_secs(5) && calm < Duration::from_secs(1), "{meanwhile:?} {calm:?}");
    drained(scene, &crowd, granted[0].0).await;
}

/// Broken: all who wait in order are cut off at one moment, each gives its place up, and the queue of commands is full: owners
/// of other resources are told 503 and lose their leases. Must hold: renewals are answered meanwhile, and the places are
/// given up.
async fn a_queue_that_leaves_at_once_keeps_nobody_from_renewing(shape: Shape) {
    const PLACES: u64 = 600;
    let scene = Scene::start(shape, FIFO).await;
    let client = scene.client(0);
    let held = acquire(&client, &wanted("jobs/a", 120_000, 0)).await.expect(201);
    let mut crowd = Vec::new();
    for _ in 0..PLACES {
        let text = request(&wanted("jobs/a", 60_000, 30_000));
        crowd.push(waits(client.address().to_owned(), text).await);
    }
    patience::until("all have a place", 20, async || {
        let place = wanted("jobs/a", 60_000, 1);
        (take_place(&client, &place).await > PLACES).then_some(())
    })
    .await;
    let renewed = tokio::spawn(owner(client.clone(), 40));
    drop(crowd);
    patience::until("the places are given up", 10, async || {
        let place = wanted("jobs/a", 60_000, 1);
        // What asked here went away in good order: its places are kept for a while.
        (take_place(&client, &place).await < PLACES / 2).then_some(())
    })
    .await;
    let most = renewed.await.unwrap();
    say(&format!("{shape:?}: while {PLACES} places were given up a renewal took at most {most:?}"));
    assert!(most < Duration::from_secs(1), "{most:?}");
    release(&client, &held).await;
    scene.end();
}

/// Everybody is told to come back, and the process ends.
async fn drained(scene: Scene, crowd: &[TcpStream], owner: usize) {
    let began = instant();
    tokio::task::spawn_blocking(move || scene.end()).await.unwrap();
    say(&format!("a gateway with {} waiters stopped in {:?}", crowd.len() - 1, began.elapsed()));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let told = answered(crowd);
    let sent_away = told.iter().filter(|(_, text)| text.contains("\"draining\"")).count();
    assert_eq!(sent_away, crowd.len() - 1, "{:?}", told.iter().find(|(_, text)| !text.contains("draining")));
    assert!(told.iter().all(|(number, text)| *number != owner || text.is_empty()));
}

/// Broken: a gateway with few descriptors takes more connections than it can serve, and can then open no file. Must hold: it
/// says so, takes fewer at once, and the others wait to be accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_descriptors_are_fewer_connections() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Process::start_limited(folder.path(), 100);
    let warnings = patience::until("it says so", 5, async || {
        let warnings = gateway.warnings();
        (!warnings.is_empty()).then_some(warnings)
    })
    .await;
    let says = |line: &String| line.contains("\"descriptors\":100") && line.contains("\"connections\":36");
    assert!(warnings.iter().all(says), "{warnings:?}");
    let client = gateway.client();
    let held = acquire(&client, &wanted("jobs/a", 60_000, 0)).await.expect(201);
    let address = client.address().to_owned();
    let mut crowd = Vec::new();
    for _ in 0..60 {
        crowd.push(waits(address.clone(), request(&wanted("jobs/a", 60_000, 1_500))).await);
    }
    // The first connection is the client's own. Those that were not accepted are, once the others have ended.
    release(&client, &held).await;
    patience::until("one is granted", 5, async || {
        answered(&crowd).iter().any(|(_, text)| text.starts_with("HTTP/1.1 201 ")).then_some(())
    })
    .await;
    crowd.truncate(20);
    client.get("/v1/resources/jobs/a").await.expect(200);
    drop(crowd);
    assert_eq!(gateway.warnings().len(), warnings.len(), "{:?}", gateway.warnings());
    assert_eq!(gateway.terminate(), Some(0));
}
