//! The release before this one and this one on one file: what it wrote is read, what it writes is taken, and once an upgrade
//! is finished it is refused.

use fencegate::ledger::PROTOCOL;
use fencegate::ledger::sqlite::{OpenError, finish, migrate, migration_report};

use super::opening::BACK_TO_THE_THIRD_STEP;
use super::place::{Place, put};

/// What the release before inserts where this one has added columns, as it has it.
const NAMESPACE_INSERT: &str = "INSERT INTO namespaces (bucket, namespace, epoch, base_epoch, base_token, \
     base_incarnation, definition, version) \
     WITH RECURSIVE buckets (bucket) AS (VALUES (0) UNION ALL SELECT bucket + 1 FROM buckets WHERE bucket < 255) \
     SELECT bucket, ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM buckets";
const AUDIT_INSERT: &str = "INSERT INTO audit (bucket, resource, ledger_seq, ordinal, verb, position_epoch, \
     position_token, reason, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const STEP: &str = "UPDATE ledger SET ledger_seq = ledger_seq + 1, clock_ms = max(clock_ms, ?1), \
                    operations = operations + ?2 WHERE one = 1";

#[tokio::test]
async fn what_the_release_before_writes_is_taken_and_read() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "one", "7", 1)).await;
    running.close().await;
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    connection.execute_batch(BACK_TO_THE_THIRD_STEP).unwrap();
    drop(connection);
    let before = migration_report(&place.path()).await.unwrap();
    assert_eq!(before.least_protocol, None, "nothing demands anything yet");
    let after = migrate(&place.path()).await.unwrap();
    assert!(after.steps.iter().all(|step| step.applied));
    assert_eq!(after.least_protocol, Some(1), "both releases may work on it");

    let connection = rusqlite::Connection::open(place.path()).unwrap();
    let definition = "store=document policy=single contract=immediate issuer=gateway scope=0";
    let copies = connection.execute(NAMESPACE_INSERT, (&"older", 0, 0, 0, 0, definition, 1)).unwrap();
    assert_eq!(copies, 256);
    assert_eq!(connection.execute(STEP, (0, 0)).unwrap(), 1);
    let line = (0, "older", 1, 0, "acquired", 0, 1, None::<&str>, 0);
    assert_eq!(connection.execute(AUDIT_INSERT, line).unwrap(), 1);
    drop(connection);
    let running = place.run().await;
    running.put(&put("free/a", "two", "8", 1)).await;
    running.close().await;
    place.check().await;
}

/// A release that does not know what the rows mean by now must not touch them, however well it knows the columns.
#[tokio::test]
async fn once_an_upgrade_is_finished_an_earlier_release_is_refused() {
    let place = Place::new();
    place.database().await.unwrap().close().await.unwrap();
    let finished = finish(&place.path()).await.unwrap();
    assert_eq!(finished.least_protocol, Some(PROTOCOL));
    place.database().await.unwrap().close().await.unwrap();
    // A later release has finished its own: this one is the earlier release now.
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    connection.execute("UPDATE ledger SET least_protocol = ?1", (PROTOCOL + 1,)).unwrap();
    drop(connection);
    let refused = place.database().await.err();
    let Some(OpenError::Protocol { reason, .. }) = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("run that release or a later one"), "{reason}");
    let again = finish(&place.path()).await.unwrap();
    assert_eq!(again.least_protocol, Some(PROTOCOL + 1), "it is never lowered");
}
