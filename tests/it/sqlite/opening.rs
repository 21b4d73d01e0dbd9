//! The way into a file: locks, modes, schema, and every refusal with what to do.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use fencegate::ledger::sqlite::{Database, OpenError, OpenMode, migrate, migration_report};
use fencegate::protocol::outcome::Settled;
use uuid::Uuid;

use super::place::{DATABASE, Place, answer, meddle, put};
use crate::support::commands::{Draft, acquire, granted, transfer, written};
use crate::support::forwards::{announced, answered, draft, forward, settle, settled};

/// Names the database to the test that runs as another process.
const CHILD: &str = "FENCEGATE_TEST_LOCKED_DATABASE";

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_fresh_database_says_how_it_keeps_writes() {
    let place = Place::new();
    let (engine, _, identity) = place.parts().await;
    assert_eq!((identity.engine, identity.database), ("sqlite", DATABASE));
    assert_eq!(identity.schema_version, Some(5));
    assert!(identity.durability.contains("journal_mode=wal, synchronous=FULL"), "{}", identity.durability);
    for file in ["f.db", "f.db-wal", "f.db-shm", "f.db.lock"] {
        assert_eq!(mode(&place.folder.path().join(file)), 0o600, "{file} is for its owner alone");
    }
    fencegate::ledger::engine::Engine::close(engine).await;
    place.check().await;
}

#[tokio::test]
async fn only_an_existing_database_is_opened_when_none_may_be_made() {
    let place = Place::new();
    let refused = Database::open(&place.path(), OpenMode::ExistingOnly, DATABASE, place.clock.clone()).await;
    assert!(matches!(refused, Err(OpenError::Missing { .. })));
    assert!(!place.path().exists());
    place.database().await.unwrap().close().await.unwrap();
    let again = Database::open(&place.path(), OpenMode::ExistingOnly, Uuid::max(), place.clock.clone()).await;
    let again = again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.id(), DATABASE, "the id is made once");
    again.close().await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let place = Place::new();
    let path = place.folder.path().join("nowhere/f.db");
    let refused = Database::open(&path, OpenMode::Create, DATABASE, place.clock.clone()).await;
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("nowhere/f.db") && text.contains("check that its folder exists"), "{text}");
}

/// Two processes on one file would each answer from a clock and a queue of its own.
#[tokio::test]
async fn a_second_process_is_refused_by_every_name_of_the_file() {
    let place = Place::new();
    let link = place.folder.path().join("link.db");
    let (engine, _, _) = place.parts().await;
    symlink(place.path(), &link).unwrap();
    let roundabout = place.folder.path().join(".").join("f.db");
    for path in [place.path(), link, roundabout] {
        let refused = Database::open(&path, OpenMode::Create, DATABASE, place.clock.clone()).await.err();
        let Some(OpenError::Locked { holder, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(*holder, Some(std::process::id()));
        assert!(matches!(migrate(&path).await, Err(OpenError::Locked { .. })));
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::opening::as_another_process", "--nocapture"])
        .env(CHILD, place.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let said = std::fs::read_to_string(place.folder.path().join("report")).unwrap();
    assert!(said.contains("in use by process") && said.contains("stop that one first"), "{said}");

    fencegate::ledger::engine::Engine::close(engine).await;
    place.database().await.unwrap().close().await.unwrap();
}

/// The other process of the test above; alone it has nothing to do.
#[tokio::test]
async fn as_another_process() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let path = Path::new(&path);
    let refused = Database::open(path, OpenMode::Create, DATABASE, Place::new().clock).await.err();
    std::fs::write(path.with_file_name("report"), refused.unwrap().to_string()).unwrap();
}

#[tokio::test]
async fn the_schema_of_a_newer_version_is_refused() {
    let place = Place::new();
    place.database().await.unwrap().close().await.unwrap();
    meddle(
        &place.path(),
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (999, 'of tomorrow', TRUE, x'00', 0)",
    )
    .await;
    let refused = place.database().await.err();
    assert!(matches!(refused, Some(OpenError::Newer { found: 999, known: 5, .. })), "{refused:?}");
    assert!(matches!(migration_report(&place.path()).await, Err(OpenError::Newer { .. })));
    assert!(refused.unwrap().to_string().contains("run the newer version"));
}

#[tokio::test]
async fn a_schema_that_was_made_otherwise_is_refused() {
    let place = Place::new();
    place.database().await.unwrap().close().await.unwrap();
    meddle(&place.path(), "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 1").await;
    let refused = place.database().await.err();
    assert!(matches!(refused, Some(OpenError::Edited { version: 1, .. })), "{refused:?}");
}

/// A database of an earlier release, with rows in it, is brought forward by the first start, and nothing in it is lost: a
/// lease is still its owner's, and a repeat of a write is a replay.
#[tokio::test]
async fn a_database_of_the_release_before_is_brought_forward() {
    let to_the_second = [BACK_TO_THE_THIRD_STEP, BACK_TO_THE_SECOND_STEP].concat();
    let to_the_first = [&to_the_second, BACK_TO_THE_FIRST_STEP].concat();
    let to_the_fourth = BACK_TO_THE_FOURTH_STEP.to_owned();
    for back in [to_the_fourth, BACK_TO_THE_THIRD_STEP.to_owned(), to_the_second, to_the_first] {
        let running = crate::support::engines::Running::start(crate::support::engines::Kind::Sqlite).await;
        let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
        let publish = Draft::put("single/a", &alice.fencing_tokens[0].0, "publish", "body");
        written(&running.ledger, &publish).await;
        let running = running
            .meddle(|path| {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.execute_batch(&back).unwrap();
            })
            .await;
        let again = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
        assert!(again.repeated && again.acquisition_id == alice.acquisition_id);
        assert!(written(&running.ledger, &publish).await.replayed);
        let handed = granted(&running.ledger, transfer(&alice, "bob", 2)).await;
        assert!(handed.view.lease.position > alice.view.lease.position);
        let forwarded = draft("aware/a", "7", "publish", 1);
        let intent = announced(&running.ledger, forward(&running.ledger, &forwarded, 1)).await.intent;
        assert!(matches!(settled(&running.ledger, settle(&intent, answered(200))).await, Settled::Done(_)));
        running.stop().await;
    }
}

/// What the fourth step adds, taken away again.
pub(super) const BACK_TO_THE_THIRD_STEP: &str = "DROP INDEX audit_in_order; ALTER TABLE audit DROP COLUMN actor; \
    DELETE FROM _sqlx_migrations WHERE version = 5; DROP TABLE everywhere; ALTER TABLE namespaces DROP COLUMN breaker; \
    ALTER TABLE ledger DROP COLUMN least_protocol; DROP INDEX audit_of_resource; ALTER TABLE audit DROP COLUMN holder; \
    DROP INDEX audit_by_time; DROP INDEX controls_by_time; \
    DROP TABLE refusals; DROP INDEX resources_quarantined; DROP INDEX intents_uncertain; \
    DELETE FROM _sqlx_migrations WHERE version = 4;";

/// What the fifth step adds, taken away again.
const BACK_TO_THE_FOURTH_STEP: &str = "DROP INDEX audit_in_order; ALTER TABLE audit DROP COLUMN actor; \
    DELETE FROM _sqlx_migrations WHERE version = 5;";

/// What the third step adds, taken away again.
const BACK_TO_THE_SECOND_STEP: &str = "DROP TABLE intents; DROP TABLE intent_pieces; DROP INDEX leases_pending; \
    DROP INDEX operations_late; ALTER TABLE resources DROP COLUMN quarantined; \
    ALTER TABLE resources DROP COLUMN cell; ALTER TABLE resources DROP COLUMN barrier_token; \
    ALTER TABLE resources DROP COLUMN barrier_epoch; ALTER TABLE operations DROP COLUMN relayed_status; \
    ALTER TABLE operations DROP COLUMN relayed_headers; ALTER TABLE operations DROP COLUMN relayed_etag; \
    ALTER TABLE operations DROP COLUMN omitted_length; ALTER TABLE operations DROP COLUMN omitted_digest; \
    ALTER TABLE operations DROP COLUMN resolution; DELETE FROM _sqlx_migrations WHERE version = 3;";

/// What the second step adds, taken away again: the columns, the table, the index and the word that it was done.
const BACK_TO_THE_FIRST_STEP: &str = "DROP TABLE controls; DROP INDEX leases_held; \
    ALTER TABLE leases DROP COLUMN others; ALTER TABLE leases DROP COLUMN ended_ms; \
    ALTER TABLE leases DROP COLUMN cause; ALTER TABLE resources DROP COLUMN lease_bucket; \
    ALTER TABLE resources DROP COLUMN queue; ALTER TABLE resources DROP COLUMN reason; \
    DELETE FROM _sqlx_migrations WHERE version = 2;";

/// A wrong path must not turn somebody's database into a ledger.
#[tokio::test]
async fn the_database_of_somebody_else_is_left_alone() {
    let place = Place::new();
    std::fs::File::create(place.path()).unwrap();
    meddle(&place.path(), "CREATE TABLE accounts (balance INTEGER)").await;
    let before = std::fs::read(place.path()).unwrap();
    let refused = place.database().await.err();
    assert!(matches!(refused, Some(OpenError::NotOurs { .. })), "{refused:?}");
    assert!(std::fs::read(place.path()).unwrap() == before, "not one byte of it was changed");

    std::fs::write(place.path(), "not a database at all, but long enough to look like one\n".repeat(100))
        .unwrap();
    let refused = place.database().await.err();
    assert!(matches!(refused, Some(OpenError::Database { .. })), "{refused:?}");
}

#[tokio::test]
async fn the_steps_of_the_schema_are_listed_and_applied() {
    let place = Place::new();
    let before = migration_report(&place.path()).await.unwrap().steps;
    assert!(!before.is_empty() && before.iter().all(|step| !step.applied));
    assert!(!place.path().exists(), "asking makes no file");
    let after = migrate(&place.path()).await.unwrap().steps;
    assert!(after.iter().all(|step| step.applied) && after.len() == before.len());
    assert_eq!(mode(&place.path()), 0o600);
    assert_eq!(migrate(&place.path()).await.unwrap().steps, after);

    let running = place.run().await;
    running.put(&put("free/a", "one", "7", 1)).await;
    assert_eq!(migration_report(&place.path()).await.unwrap().steps, after, "a database in use can be asked");
    running.close().await;
    place.check().await;
}

/// The steps are embedded when the binary is compiled: one that was added without that would be missing in it.
#[tokio::test]
async fn every_step_in_the_folder_is_in_the_binary() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite");
    let embedded = migration_report(Path::new("there is no such file")).await.unwrap().steps;
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), embedded.len());
}

/// `bucket` leads every table and every key, so that the tables can be spread over several servers.
#[tokio::test]
async fn bucket_is_the_first_column_of_every_table_and_key() {
    let place = Place::new();
    place.database().await.unwrap().close().await.unwrap();
    let without: String = answer(
        &place.path(),
        "SELECT coalesce(group_concat(t.name), '') FROM sqlite_schema AS t \
         JOIN pragma_table_info(t.name) AS c ON c.cid = 0 WHERE t.type = 'table' AND c.name <> 'bucket' \
         AND t.name NOT IN ('ledger', 'seal_keys', '_sqlx_migrations') AND t.name NOT GLOB 'sqlite_*'",
    )
    .await;
    assert_eq!(without, "");
    let keys: String = answer(
        &place.path(),
        "SELECT coalesce(group_concat(t.name), '') FROM sqlite_schema AS t JOIN pragma_index_list(t.name) AS i \
         JOIN pragma_index_info(i.name) AS c ON c.seqno = 0 WHERE t.type = 'table' AND i.\"unique\" = 1 \
         AND c.name <> 'bucket' AND t.name NOT IN ('ledger', 'seal_keys', '_sqlx_migrations')",
    )
    .await;
    assert_eq!(keys, "");
    let loose: i64 = answer(
        &place.path(),
        "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 \
         AND name NOT IN ('_sqlx_migrations', 'sqlite_schema')",
    )
    .await;
    assert_eq!(loose, 0, "every table is STRICT");
}
