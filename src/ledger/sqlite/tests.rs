//! What only a look behind the engine's back can show: the plans of its statements, and commits that fail.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::StatementStatus;
use uuid::Uuid;

use super::super::changeset::RowChange;
use super::*;
use crate::domain::counter::{Epoch, Token};
use crate::domain::policy::Definition;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::Clock;
use crate::protocol::rows::{EverywhereRow, NamespaceRow, ResourceRow};

struct Still;

impl Clock for Still {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(1_000)
    }
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

async fn open(path: &Path) -> SqliteEngine {
    let database = Database::open(path, OpenMode::Create, Uuid::nil(), Arc::new(Still)).await.unwrap();
    database.start().await.unwrap().0
}

fn name(text: &str) -> ResourceName {
    ResourceName::parse(text).unwrap()
}

/// A batch that asks for one resource.
fn wanted(resource: &ResourceName) -> Wanted {
    let mut wanted = Wanted::default();
    wanted.namespaces.insert(resource.namespace());
    wanted.resources.insert(resource.clone());
    wanted
}

/// The change that a first advance of a resource makes.
fn heard_of(resource: &ResourceName, token: u64) -> ChangeSet {
    let namespace =
        NamespaceRow::first_use(resource.namespace(), Definition::default(), &EverywhereRow::default());
    let mut after = ResourceRow::unheard(resource.clone(), &namespace);
    after.floor = Position::new(Epoch::ZERO, Token::new(token).unwrap());
    let mut changes = ChangeSet::default();
    changes.namespaces.insert(namespace.namespace.clone(), RowChange { before: None, after: namespace });
    changes.resources.insert(resource.clone(), RowChange { before: None, after });
    changes
}

async fn floor(engine: &mut SqliteEngine, resource: &ResourceName) -> Option<u64> {
    let loaded = engine.load(&wanted(resource)).await.unwrap();
    engine.rollback().await;
    loaded.snapshot.resource(resource).map(|row| row.floor.token.get())
}

async fn write(engine: &mut SqliteEngine, changes: &ChangeSet) -> CommitOutcome {
    let loaded = engine.load(&Wanted::default()).await.unwrap();
    engine.apply(changes, loaded.now).await.unwrap();
    engine.commit().await
}

fn run(engine: &SqliteEngine, statement: &str) {
    engine.open_connection().unwrap().execute_batch(statement).unwrap();
}

/// A statement that walks a whole table is fast in every test and slow in every use.
#[tokio::test]
async fn no_statement_walks_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder.path().join("f.db")).await;
    let texts = [load::texts(), apply::texts(), reader::texts()].concat();
    for text in texts {
        let connection = engine.open_connection().unwrap();
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let mut steps = plan.raw_query();
        while let Some(step) = steps.next().unwrap() {
            let detail: String = step.get("detail").unwrap();
            let walked = detail.strip_prefix("SCAN ").unwrap_or("k");
            let short = walked.contains("ROW") || walked.contains("subquery");
            // What namespaces have used is counted now and then, as a whole and beside the committer.
            let counted = ["operations", "o"].contains(&walked) && text.contains("GROUP BY resource_id");
            assert!(short || counted || ["k", "buckets"].contains(&walked), "{detail}: {text}");
        }
    }
    engine.close().await;
}

/// Where an index is limited to one word of a column, SQLite would look at each value that is held against that column, and
/// plan the statement anew.
#[tokio::test]
async fn no_statement_is_planned_twice() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder.path().join("f.db")).await;
    for text in [load::texts(), apply::texts(), reader::texts()].concat() {
        let mut statement = engine.open_connection().unwrap().prepare(text).unwrap();
        for place in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(place, "uncertain").unwrap();
        }
        // Most of them refuse such values, or find nothing.
        drop(statement.raw_query().next().err());
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{text}");
    }
    engine.close().await;
}

/// The disk is full while a batch is written: nothing is durable, that is sure, and the next batch finds the engine
/// in working order.
#[tokio::test]
async fn a_full_disk_fails_a_batch_for_sure() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = open(&folder.path().join("f.db")).await;
    let resource = name("s/a");
    run(&engine, "PRAGMA max_page_count = 1");
    let loaded = engine.load(&wanted(&resource)).await.unwrap();
    let refused = engine.apply(&heard_of(&resource, 7), loaded.now).await;
    assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
    engine.rollback().await;
    assert_eq!(floor(&mut engine, &resource).await, None);
    run(&engine, "PRAGMA max_page_count = 1000000");
    assert_eq!(write(&mut engine, &heard_of(&resource, 7)).await, CommitOutcome::Committed);
    assert_eq!(floor(&mut engine, &resource).await, Some(7));
    engine.close().await;
}

/// A commit that fails without a clear reason is unknown. Its connection is not used again, and the next one begins
/// behind a commit of its own.
#[tokio::test]
async fn an_unclear_commit_is_unknown_and_the_connection_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let mut engine = open(&path).await;
    let resource = name("s/a");
    engine.open_connection().unwrap().commit_hook(Some(|| true)).unwrap();
    let outcome = write(&mut engine, &heard_of(&resource, 7)).await;
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
    assert!(engine.connection.is_none());
    let again = Database::open(&path, OpenMode::Create, Uuid::nil(), Arc::new(Still)).await;
    assert!(matches!(again, Err(OpenError::Locked { .. })), "the lock must outlive the connection");

    assert_eq!(floor(&mut engine, &resource).await, None);
    assert_eq!(write(&mut engine, &heard_of(&resource, 7)).await, CommitOutcome::Committed);
    assert_eq!(floor(&mut engine, &resource).await, Some(7));
    engine.close().await;
}

/// While the file cannot be opened again every load says so; once it can, work goes on.
#[tokio::test]
async fn a_database_that_cannot_be_opened_again_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("f.db"), folder.path().join("away.db"));
    let mut engine = open(&path).await;
    let resource = name("s/a");
    assert_eq!(write(&mut engine, &heard_of(&resource, 7)).await, CommitOutcome::Committed);
    engine.set_aside("a test");
    std::fs::rename(&path, &away).unwrap();
    for _ in 0..2 {
        let refused = engine.load(&wanted(&resource)).await;
        assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
        engine.rollback().await;
    }
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(floor(&mut engine, &resource).await, Some(7));
    engine.close().await;
}

/// A backup that somebody put in the file's place has forgotten what was acknowledged; it must not be served.
#[tokio::test]
async fn an_older_or_another_database_in_its_place_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("f.db"), folder.path().join("backup.db"));
    let (resource, other) = (name("s/a"), folder.path().join("other.db"));
    let mut engine = open(&path).await;
    run(&engine, &format!("VACUUM INTO '{}'", backup.display()));
    for token in [7, 8] {
        let changes = heard_of(&name(&format!("s{token}/a")), token);
        assert_eq!(write(&mut engine, &changes).await, CommitOutcome::Committed);
    }
    let database = Database::open(&other, OpenMode::Create, Uuid::max(), Arc::new(Still)).await.unwrap();
    let mut another = database.start().await.unwrap().0;
    for token in 1..9 {
        let changes = heard_of(&name(&format!("s{token}/a")), token);
        assert_eq!(write(&mut another, &changes).await, CommitOutcome::Committed);
    }
    another.close().await;
    for replaced in [backup, other] {
        engine.set_aside("a test");
        std::fs::rename(&replaced, &path).unwrap();
        for suffix in ["-wal", "-shm"] {
            let left = folder.path().join(format!("f.db{suffix}"));
            assert!(!left.exists() || std::fs::remove_file(left).is_ok());
        }
        let refused = engine.load(&wanted(&resource)).await;
        assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
    }
    engine.close().await;
}

/// A transaction that ended behind the engine's back cannot be rolled back; nothing of it may stay open.
#[tokio::test]
async fn a_transaction_that_is_gone_leaves_a_clean_connection() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = open(&folder.path().join("f.db")).await;
    let resource = name("s/a");
    engine.load(&wanted(&resource)).await.unwrap();
    run(&engine, "ROLLBACK");
    engine.rollback().await;
    assert_eq!(write(&mut engine, &heard_of(&resource, 7)).await, CommitOutcome::Committed);
    // A load without an end is ended by the next one.
    engine.load(&wanted(&resource)).await.unwrap();
    assert_eq!(floor(&mut engine, &resource).await, Some(7));
    let idle = engine.apply(&heard_of(&name("s/b"), 7), Timestamp::default()).await;
    assert!(matches!(idle, Err(EngineError::Unavailable(_))), "{idle:?}");
    assert!(matches!(engine.commit().await, CommitOutcome::Failed(_)));
    engine.close().await;
}

/// Only a lock that cannot be had and a full disk are surely not a commit.
#[tokio::test]
async fn what_is_definite_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(&folder.path().join("f.db")).await;
    let connection = engine.open_connection().unwrap();
    let cases = [
        ("PRAGMA max_page_count = 1; CREATE TABLE filler (x INTEGER) STRICT", true),
        ("COMMIT", false),
        ("INSERT INTO ledger VALUES (1, '', 0, 0, 0)", false),
    ];
    for (statement, definite) in cases {
        let error = connection.execute_batch(statement).err();
        assert_eq!(error.map(|error| fault::is_definite(&error)), Some(definite), "{statement}");
    }
    engine.close().await;
}
