//! The power fails under the embedded database: what was acknowledged is there, and the file is sound.
//!
//! `FENCEGATE_TEST_POWER_CUTS=n` looks at about n moments of each run instead of 60.

mod disk;
mod writer;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::client::Client;
use crate::support::gateway::{Process, command};
use disk::{Luck, mixed};

/// An acknowledged write, and how far the notes went when its answer was there.
type Acknowledged = Vec<(u64, String)>;

/// What was found at all moments together.
#[derive(Debug, Default)]
struct Found {
    failures: usize,
    /// Failures in which something lay on the disk that was not synced.
    in_the_middle: usize,
    lost: BTreeSet<String>,
}

fn cuts() -> u64 {
    std::env::var("FENCEGATE_TEST_POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Lets the power fail at moments of a run, the ends of its syncs above all, with each kind of luck.
fn fail_everywhere(notes: &Path, acknowledged: &Acknowledged, listed: &str) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("f.db");
    let (mut records, mut syncs) = (0_u64, 0_u64);
    disk::replay(notes, |_, ends, _| if ends { syncs += 1 } else { records += 1 });
    let (between, apart) = ((syncs / cuts()).max(1), (records / cuts()).max(1));
    let (mut found, mut record, mut sync) = (Found::default(), 0_u64, 0_u64);
    disk::replay(notes, |at, ends, disk| {
        let chosen = if ends {
            sync += 1;
            sync % between == 0
        } else {
            record += 1;
            (record + mixed(record / apart) % apart).is_multiple_of(apart)
        };
        if !chosen {
            return;
        }
        let seed = mixed(at);
        let part = u8::try_from(seed % 256).unwrap();
        let lucks: &[Luck] = match disk.unsynced() {
            0 => &[Luck::None],
            _ => &[Luck::None, Luck::All, Luck::Prefix(part), Luck::Any(seed)],
        };
        for luck in lucks {
            disk.fail(&database, *luck);
            found.failures += 1;
            found.in_the_middle += usize::from(disk.unsynced() > 0);
            let there = recovered(&database, listed);
            let missing = acknowledged.iter().filter(|(by, id)| *by <= at && !there.contains(id));
            found.lost.extend(missing.map(|(_, id)| id.clone()));
        }
    });
    found
}

/// Opens what is left, which must be sound, and lists what it holds.
fn recovered(database: &Path, listed: &str) -> BTreeSet<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "the file is broken");
    let Ok(mut statement) = connection.prepare(listed) else {
        // The power failed before there was a schema.
        return BTreeSet::new();
    };
    statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// One client: generations with a few writes each, some too large for one page.
async fn client(base: String, number: usize, notes: Arc<Path>, acknowledged: Arc<Mutex<Acknowledged>>) {
    let client = Client::to(base);
    for generation in 0..6 {
        let name = format!("ledger/account-{number}");
        let lease = client.post("/v1/leases", &json!({"resource": name})).await.expect(201);
        let token = lease["fencing_token"].as_str().unwrap().to_owned();
        for sequence in 1..=8_usize {
            let operation = format!("op-{number}-{generation}-{sequence}");
            let body = "x".repeat(1 + sequence * sequence * 500);
            let order = sequence.to_string();
            let answer = client.put(&name, &token, &operation, &body, &[("fencing-sequence", &order)]).await;
            assert!(answer.status == 200 || answer.status == 201, "{}", answer.text());
            let by = disk::length(&notes);
            acknowledged.lock().unwrap().push((by, operation));
        }
        client.delete(&format!("/v1/leases/{}", lease["acquisition_id"].as_str().unwrap())).await.expect(200);
    }
}

/// Broken: a write is acknowledged before it is synced, or a checkpoint is made in an order that a power failure breaks.
/// Must hold: at every moment, whatever the disk has kept of what was not synced, the file is sound and every write that was
/// acknowledged by then is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_power_failure() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    std::fs::write(place.join("fencegate.toml"), "[namespaces.ledger]\npolicy = \"ordered\"\n").unwrap();
    let notes: Arc<Path> = place.join("notes").into();
    let mut serve = command(&place);
    disk::under(&mut serve, &place.join("fencegate.db"), &notes);
    let process = Process::start_as(serve);
    let acknowledged = Arc::new(Mutex::new(Acknowledged::new()));
    let mut clients = JoinSet::new();
    for number in 0..6 {
        clients.spawn(client(process.base.clone(), number, notes.clone(), acknowledged.clone()));
    }
    clients.join_all().await;
    process.kill();
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert_eq!(acknowledged.len(), 6 * 6 * 8);
    let found = fail_everywhere(&notes, &acknowledged, "SELECT operation_id FROM operations");
    println!("{} power failures, {} of them with something unsynced", found.failures, found.in_the_middle);
    assert!(found.in_the_middle > 100, "hardly anything was in the balance: {found:?}");
    assert_eq!(found.lost, BTreeSet::new(), "acknowledged, and lost with the power");
}

/// Broken: the test above could not fail. Must hold: a writer with `synchronous = FULL` loses nothing on that disk, and the
/// same writer with `synchronous = NORMAL` is caught.
#[test]
fn a_writer_that_does_not_sync_its_commits_is_caught() {
    let run = |synchronous: &str| {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let (database, notes, told) = (place.join("w.db"), place.join("notes"), place.join("told"));
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["power::writer::writes_where_it_is_told_to", "--exact"]).stdout(Stdio::null());
        child.env(writer::SYNCHRONOUS, synchronous).env(writer::TOLD, &told);
        let ended = disk::under(&mut child, &database, &notes).status().unwrap();
        assert!(ended.success());
        let told = std::fs::read_to_string(told).unwrap();
        let acknowledged: Acknowledged = told
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(by, id)| (by.parse().unwrap(), id.to_owned()))
            .collect();
        assert_eq!(acknowledged.len(), writer::COMMITS);
        fail_everywhere(&notes, &acknowledged, "SELECT id FROM written")
    };
    let full = run("FULL");
    assert_eq!(full.lost, BTreeSet::new(), "{full:?}");
    let normal = run("NORMAL");
    assert!(!normal.lost.is_empty(), "the disk keeps what was never synced: {normal:?}");
}
