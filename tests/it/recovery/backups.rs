//! `fencegate backup` and `fencegate restore`, as an operator and a script meet them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::gateway::{Process, command};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

fn refused(output: &Output, code: i32, why: &str) {
    assert_eq!((output.status.code(), said(output).contains(why)), (Some(code), true), "{}", said(output));
}

async fn publish(process: &Process, name: &str) {
    let client = process.client();
    let lease = client.acquire(name, "alice").await;
    client.put(name, &lease.token, "op", "body", &[]).await.expect(201);
}

fn seq(json: &Value, key: &str) -> i64 {
    json[key].as_str().unwrap_or_else(|| panic!("{key} in {json}")).parse().unwrap()
}

/// The breakers of the namespaces and of what was never used, and the count.
fn rows(folder: &Path) -> (Vec<Option<String>>, i64) {
    let connection = Connection::open(folder.join("fencegate.db")).unwrap();
    let text = "SELECT breaker FROM namespaces UNION ALL SELECT breaker FROM everywhere";
    let mut statement = connection.prepare(text).unwrap();
    let found = statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let count = connection.query_row("SELECT ledger_seq FROM ledger", (), |row| row.get(0)).unwrap();
    (found, count)
}

/// A folder in which a gateway was used, backed up while it ran, used again, and stopped.
async fn used() -> (TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path());
    publish(&process, "jobs/a").await;
    let made = json(&run(folder.path(), &["backup", "--to", "b.db"]));
    publish(&process, "jobs/b").await;
    assert_eq!(process.terminate(), Some(0));
    (folder, made)
}

/// Broken: a copy that is no backup, that others can read, or that replaces the one of yesterday. Must hold: it is sound,
/// for its owner alone, says what it is a copy of, and never takes the place of a file.
#[tokio::test]
async fn a_backup_is_made_beside_a_running_gateway_and_replaces_nothing() {
    let (folder, made) = used().await;
    let file = folder.path().join("b.db");
    assert_eq!(made["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(&file).unwrap();
    refused(&run(folder.path(), &["backup", "--to", "b.db"]), 2, "exists and is not overwritten");
    assert_eq!(fs::read(&file).unwrap(), before);
    let later = json(&run(folder.path(), &["backup", "--to", "."]));
    assert!(seq(&later, "ledger_seq") > seq(&made, "ledger_seq"));
    assert_eq!(later["database"], made["database"]);
    let named = later["file"].as_str().unwrap();
    assert!(folder.path().join(named).is_file() && named.contains("fencegate-2"), "{named}");
    let parts = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().contains(".part")
    });
    assert_eq!(parts.count(), 0, "a draft was left");
    refused(&run(folder.path(), &["backup", "--to", "none/b.db"]), 2, "none/b.db");
}

/// Broken: a backup is restored under a running gateway, or over newer records without a word. Must hold: neither is done,
/// and nothing is changed by the try.
#[tokio::test]
async fn a_restore_changes_nothing_that_is_newer_without_being_told_to() {
    let (folder, _) = used().await;
    let process = Process::start(folder.path());
    refused(&run(folder.path(), &["restore", "--older", "b.db"]), 2, "stop that one first");
    assert_eq!(process.terminate(), Some(0));
    let before = fs::read(folder.path().join("fencegate.db")).unwrap();
    refused(&run(folder.path(), &["restore", "b.db"]), 1, "was reached");
    assert_eq!(fs::read(folder.path().join("fencegate.db")).unwrap(), before);
    assert_eq!(rows(folder.path()).0.iter().flatten().count(), 0);
    refused(&run(folder.path(), &["restore", "fencegate.key"]), 2, "cannot be used as a database");
    refused(&run(folder.path(), &["restore", "none.db"]), 2, "there is no database at");
    let broken = folder.path().join("broken.db");
    let mut bytes = fs::read(folder.path().join("b.db")).unwrap();
    bytes.truncate(bytes.len() / 4096 / 2 * 4096);
    fs::write(&broken, bytes).unwrap();
    refused(&run(folder.path(), &["restore", "--older", "broken.db"]), 2, "broken.db");
    assert_eq!(fs::read(folder.path().join("fencegate.db")).unwrap(), before);
}

/// Broken: a restored database admits what it has forgotten, counts on from the past, or the newer records are gone. Must
/// hold: every namespace is stopped and says why, the count goes on from what was reached, and the old file is kept.
#[tokio::test]
async fn an_older_backup_is_stopped_and_the_newer_records_are_kept() {
    let (folder, made) = used().await;
    let (_, reached) = rows(folder.path());
    let done = json(&run(folder.path(), &["restore", "--older", "b.db"]));
    let said =
        format!("restored from a backup at ledger_seq {}, {reached} was reached", seq(&made, "ledger_seq"));
    assert_eq!((&done["tripped"], done["found"].as_str()), (&true.into(), Some(said.as_str())));
    let (breakers, count) = rows(folder.path());
    assert_eq!(breakers.len(), 512);
    let stopped = |breaker: &Option<String>| breaker.as_ref().is_some_and(|text| text.ends_with(&said));
    assert!(breakers.iter().all(stopped), "{:?}", breakers[0]);
    assert!(count > reached, "{count} after {reached}");
    let kept = Connection::open(done["kept_aside"].as_str().unwrap()).unwrap();
    let names: i64 = kept.query_row("SELECT count(*) FROM resources", (), |row| row.get(0)).unwrap();
    assert_eq!(names, 2, "the newer records are in the old file");
    let process = Process::start(folder.path());
    assert_eq!(process.client().get("/fenced/jobs/a").await.status, 200, "reads go on");
    assert_eq!(process.client().get("/fenced/jobs/b").await.status, 404);
    assert_eq!(process.terminate(), Some(0));
    // The way back to the newer records is open, and leads through the same stop.
    let kept = done["kept_aside"].as_str().unwrap();
    refused(&run(folder.path(), &["restore", kept]), 1, "was reached");
    let back = json(&run(folder.path(), &["restore", "--older", kept]));
    assert_eq!((&back["tripped"], back["database"].as_str()), (&true.into(), made["database"].as_str()));
}

/// Broken: what cannot be compared is taken for complete. Must hold: over nothing, over a file that cannot be read, and over
/// one that counts no further (it may have gone on from an older copy, and hold what the backup never had) a backup is
/// restored stopped.
#[tokio::test]
async fn where_nobody_knows_what_was_reached_it_is_stopped_too() {
    let (folder, _) = used().await;
    let same = json(&run(folder.path(), &["backup", "--to", "same.db"]));
    let done = json(&run(folder.path(), &["restore", "same.db"]));
    let unknown = "what was done beside it or after it is not known";
    assert_eq!(done["tripped"], true);
    assert!(done["found"].as_str().unwrap().ends_with(unknown), "{done}");
    assert!(seq(&done, "ledger_seq") > seq(&same, "ledger_seq"));
    let process = Process::start(folder.path());
    process.client().try_acquire("jobs/a", "bob").await.refused(503, "quarantined", "none");
    assert_eq!(process.terminate(), Some(0));
    let database = folder.path().join("fencegate.db");
    fs::write(&database, b"not a database at all, but long enough to be looked at as one").unwrap();
    let over_ruins = json(&run(folder.path(), &["restore", "same.db"]));
    assert_eq!(over_ruins["tripped"], true);
    fs::remove_file(&database).unwrap();
    let over_nothing = json(&run(folder.path(), &["restore", "same.db"]));
    assert_eq!((&over_nothing["tripped"], &over_nothing["kept_aside"]), (&true.into(), &Value::Null));
    assert!(over_nothing["found"].as_str().unwrap().ends_with(unknown), "{over_nothing}");
}

/// Broken: the epoch that an operator began after the backup is forgotten with it and begun once more, and a write of the
/// lost one is admitted in it. Must hold: the next epoch lies above every one that the replaced file or the witness knows,
/// and `recover` tells of all namespaces together until `*` was advanced.
#[tokio::test]
async fn an_epoch_that_was_lost_is_never_begun_again() {
    for by_command in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("fencegate.toml"),
            "[namespaces.ext]\nissuer = { external = \"trusted\" }\n",
        )
        .unwrap();
        let advance = |process: &Process, name: &str| {
            let url = process.base.clone();
            json(&run(
                folder.path(),
                &["epoch", "advance", name, "--reason", "r", "--confirm", name, "--url", &url],
            ))
        };
        let process = Process::start(folder.path());
        process.client().put("ext/a", "5", "before", "body", &[]).await.expect(201);
        json(&run(folder.path(), &["backup", "--to", "b.db"]));
        assert_eq!(advance(&process, "*")["epoch"], "1");
        process.client().put("ext/a", "1.7", "lost", "body", &[]).await.expect(200);
        assert_eq!(process.terminate(), Some(0));
        if by_command {
            json(&run(folder.path(), &["restore", "--older", "b.db"]));
        } else {
            fs::copy(folder.path().join("b.db"), folder.path().join("fencegate.db")).unwrap();
        }
        let process = Process::start(folder.path());
        let early = process.client().put("ext/a", "1.7", "lost", "body", &[]).await;
        assert_eq!((early.status, early.header("fencing-effect")), (503, Some("none")), "{}", early.text());
        assert_eq!(advance(&process, "ext")["epoch"], "2", "by command: {by_command}");
        let told: Value = serde_json::from_slice(&run(folder.path(), &["recover"]).stdout).unwrap();
        let all = &told["namespaces"][0];
        assert_eq!((&all["namespace"], all["breaker"].is_null()), (&"*".into(), false), "{told}");
        assert_eq!(run(folder.path(), &["recover"]).status.code(), Some(1));
        assert_eq!(advance(&process, "*")["epoch"], "3");
        process.client().put("ext/a", "1.7", "lost", "body", &[]).await.refused(412, "stale_token", "none");
        process.client().put("ext/a", "3.1", "after", "body", &[]).await.expect(200);
        let unused = process.client().get("/v1/namespaces/ext").await.expect(200);
        assert_eq!((&unused["epoch"], &unused["breaker"]), (&"3".into(), &Value::Null));
        assert_eq!(run(folder.path(), &["recover", "nosuch"]).status.code(), Some(2));
        assert_eq!(process.terminate(), Some(0));
        let process = Process::start(folder.path());
        assert_eq!(process.client().get("/readyz").await.status, 200, "the witness follows");
        assert_eq!(process.terminate(), Some(0));
    }
}

/// Broken: the records of one gateway are put under another, or under a key that makes every token a stranger's. Must hold:
/// a backup of another database is refused whatever is said, and so is one whose key is not here.
#[tokio::test]
async fn another_database_and_another_key_are_refused() {
    let (folder, _) = used().await;
    let (other, _) = used().await;
    let foreign = other.path().join("b.db");
    let before = fs::read(folder.path().join("fencegate.db")).unwrap();
    refused(&run(folder.path(), &["restore", "--older", foreign.to_str().unwrap()]), 1, "another database");
    fs::copy(other.path().join("fencegate.key"), folder.path().join("fencegate.key")).unwrap();
    let without = run(folder.path(), &["restore", "--older", "b.db"]);
    assert_eq!(
        (without.status.code(), said(&without).contains("key")),
        (Some(2), true),
        "{}",
        said(&without)
    );
    assert_eq!(fs::read(folder.path().join("fencegate.db")).unwrap(), before);
}

/// Broken: a script believes that it has a backup. Must hold: where fencegate makes none it says who does, with exit code 2.
#[tokio::test]
async fn a_server_is_backed_up_by_its_own_tools() {
    let folder = tempfile::tempdir().unwrap();
    for (database, why) in [("postgres://u@127.0.0.1/d", "pg_basebackup"), ("memory", "nothing to back up")] {
        fs::write(folder.path().join("fencegate.toml"), format!("database = {database:?}\n")).unwrap();
        refused(&run(folder.path(), &["backup"]), 2, why);
    }
    fs::write(folder.path().join("fencegate.toml"), "database = \"postgres://u@127.0.0.1/d\"\n").unwrap();
    refused(&run(folder.path(), &["restore", "b.db"]), 1, "whose own tools restore it");
}
