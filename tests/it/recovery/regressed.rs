//! A backup from the middle of the work is restored, and everything that was ever sent arrives once more.
//!
//! `FENCEGATE_TEST_RESTORES=n` restores n times on each engine instead of 3, each time from another moment.

use std::path::Path;

use serde_json::Value;

use super::workers::{Sent, Workers};
use crate::support::client::Client;
use crate::support::gateway::{Process, command};
use crate::support::postgres::cluster::Cluster;
use crate::support::postgres::needed_binaries;
use crate::support::postgres::replica::Site;

const WORKERS: usize = 6;

fn restores() -> u64 {
    std::env::var("FENCEGATE_TEST_RESTORES").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// A number below `below` that differs from trial to trial (splitmix64's mixer).
fn drawn(trial: u64, what: u64, below: u64) -> usize {
    let mut z = (trial * 8 + what).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    usize::try_from((z ^ (z >> 31)) % below).unwrap()
}

/// What the record of the namespace says of its breaker.
async fn breaker(client: &Client) -> Option<String> {
    let namespaces = client.get("/v1/namespaces").await.expect(200);
    let jobs = namespaces["items"].as_array().unwrap().iter().find(|one| one["namespace"] == "jobs").unwrap();
    jobs["breaker"]["detector"].as_str().map(str::to_owned)
}

/// A request from before the restore is answered from the record, or refused; it is never carried out.
async fn never_admitted(client: &Client, sent: &Sent, refusal: (u16, &str)) -> bool {
    let answer = sent.again(client).await;
    if matches!(answer.status, 200 | 201) {
        assert_eq!(answer.header("idempotent-replayed"), Some("true"), "admitted: {sent:?}");
        if let Some(receipt) = &sent.receipt {
            assert_eq!(&answer.json(), receipt, "another answer than the first");
        }
        return true;
    }
    answer.refused(refusal.0, refusal.1, "none");
    false
}

fn newest_of_each(sent: &[Sent]) -> impl Iterator<Item = &Sent> {
    let last = |one: &&Sent| {
        !sent.iter().rev().take_while(|other| !std::ptr::eq(*other, *one)).any(|other| other.name == one.name)
    };
    sent.iter().filter(last)
}

/// The restored database under a gateway: stopped, then in a new epoch, and never once deceived.
async fn hold(folder: &Path, sent: &[Sent], tripped_by: Option<&str>) {
    assert!(sent.len() > 100, "only {} requests", sent.len());
    let process = Process::start(folder);
    let client = process.client();
    if let Some(detector) = tripped_by {
        // Nobody has asked anything yet.
        assert_eq!(breaker(&client).await.as_deref(), Some(detector));
    } else {
        // The newest token of a resource is proof: the database does not know that it issued it.
        let proof = newest_of_each(sent).next().unwrap().again(&client).await;
        let problem = proof.expect(503);
        assert!(matches!(problem["code"].as_str(), Some("issuer_behind" | "quarantined")), "{problem}");
        assert_eq!(breaker(&client).await.as_deref(), Some("seal"));
    }
    for one in sent {
        never_admitted(&client, one, (503, "quarantined")).await;
    }
    client.try_acquire("jobs/0-0", "new").await.refused(503, "quarantined", "none");
    client.try_acquire("never-used/a", "new").await.refused(503, "quarantined", "none");
    // What an operator types at three in the morning; it survives that the gateway is killed at once.
    let reason = ["epoch", "advance", "*", "--reason", "restored", "--confirm", "*", "--url", &process.base];
    assert_eq!(fencegate(folder, &reason)["epoch"], "1");
    process.kill();
    let process = Process::start(folder);
    let client = process.client();
    assert_eq!(breaker(&client).await, None);
    let mut replayed = 0;
    // Twice: what the first copies did must not open the way for the second ones.
    for one in sent.iter().chain(sent) {
        replayed += usize::from(never_admitted(&client, one, (412, "stale_token")).await);
    }
    assert!(replayed > 0 && replayed < 2 * sent.len(), "{replayed} of {} are recorded", 2 * sent.len());
    let lease = client.acquire("jobs/0-0", "new").await;
    assert!(lease.position.starts_with("1."), "{}", lease.position);
    let published = client.put("jobs/0-0", &lease.token, "op-new", "new", &[]).await;
    assert!(matches!(published.status, 200 | 201), "{}", published.text());
    for one in sent.iter().filter(|one| one.name == "jobs/0-0") {
        never_admitted(&client, one, (412, "stale_token")).await;
    }
    assert_eq!(client.get("/fenced/jobs/0-0").await.text(), "new");
    println!("{} requests sent again, {replayed} replayed", 2 * sent.len());
    assert_eq!(process.terminate(), Some(0));
}

fn fencegate(folder: &Path, arguments: &[&str]) -> Value {
    let output = command(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Broken: a backup is restored, and tokens that were issued after it, or writes that were acknowledged after it, are
/// admitted once more. Must hold: the breaker has tripped before the first admission (by the restore itself, or, where
/// somebody copied a file, by the first token that proves it), and after the epoch advance all of it is stale for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_from_before_a_restored_file_is_admitted_again() {
    for trial in 0..restores() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path());
        let mut workers = Workers::start(WORKERS, &process.base);
        workers.proceed(40 + drawn(trial, 1, 200)).await;
        fencegate(folder.path(), &["backup", "--to", "b.db"]);
        workers.proceed(60 + drawn(trial, 2, 200)).await;
        process.kill();
        let sent = workers.ended().await;
        let by_command = trial % 3 != 1;
        if by_command {
            let done = fencegate(folder.path(), &["restore", "--older", "b.db"]);
            assert_eq!(done["tripped"], true);
        } else {
            for suffix in ["-wal", "-shm"] {
                drop(std::fs::remove_file(folder.path().join(format!("fencegate.db{suffix}"))));
            }
            std::fs::copy(folder.path().join("b.db"), folder.path().join("fencegate.db")).unwrap();
        }
        hold(folder.path(), &sent, by_command.then_some("identity")).await;
    }
}

/// The same of a server that was restored from a base backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_from_before_a_restored_server_is_admitted_again() {
    let test = "recovery::regressed::nothing_from_before_a_restored_server_is_admitted_again";
    let Some(binaries) = needed_binaries(test) else { return };
    for trial in 0..restores() {
        let server = Cluster::start(binaries, &[]);
        server.create_database("f").await;
        let site = Site::new(&server.url("f"), "");
        let process = site.start();
        let mut workers = Workers::start(WORKERS, &process.base);
        workers.proceed(40 + drawn(trial, 3, 200)).await;
        let backup = server.copied();
        workers.proceed(60 + drawn(trial, 4, 200)).await;
        process.kill();
        let sent = workers.ended().await;
        drop(server);
        backup.begin();
        site.configure(&backup.url("f"), "");
        hold(site.path(), &sent, None).await;
    }
}
