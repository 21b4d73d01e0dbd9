//! What was acknowledged is there after a restart, and time has not gone back.

use std::fmt::Write as _;

use fencegate::domain::principal::PrincipalName;
use fencegate::domain::seal::{KeyFingerprint, KeyId};
use fencegate::domain::time::Timestamp;
use fencegate::ledger::engine::{Engine, RecordedKey};
use fencegate::ledger::read::{OperationFilter, ResourceFilter};
use fencegate::protocol::command::Acquire;
use fencegate::protocol::{Command, Outcome, Wanted};
use uuid::Uuid;

use super::place::{Hands, Place, Running, content, delete, name, put, together};

fn acquire(resource: &str, request: u128) -> Command {
    Command::Acquire(Acquire {
        resources: vec![name(resource)],
        wait: None,
        holder: None,
        ttl_ms: Some(5_000),
        request_id: Uuid::from_u128(request),
        principal: PrincipalName::anonymous(),
        nonce: request.to_be_bytes(),
    })
}

/// Everything that the readers can tell.
async fn told(running: &Running) -> String {
    let all = ResourceFilter { limit: 100, ..ResourceFilter::default() };
    let resources = running.ledger.read(|reader| reader.resources(all)).await.unwrap();
    let namespaces = running.ledger.read(|reader| reader.namespaces()).await.unwrap();
    let mut text = format!("{namespaces:?}\n");
    for read in resources {
        writeln!(text, "{:?} {:?} {:?}", read.resource, read.targets, read.lease).unwrap();
        let resource = read.resource.resource.clone();
        let filter = OperationFilter { resource, state: None, after: None, limit: 100 };
        let operations = running.ledger.read(|reader| reader.operations(filter)).await.unwrap();
        writeln!(text, "{operations:?}").unwrap();
    }
    text
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let place = Place::new();
    let running = place.run().await;
    let drafts = [put("tree/a", "one", "7", 1), put("tree/a//b/c", "two", "7", 1)];
    running.ledger.submit(together(&running.ledger, &drafts)).await.unwrap();
    running.put(&put("free/gone", "one", "7", 1)).await;
    running.put(&delete("free/gone", "two", "7", 2)).await;
    running.put(&put("free/gone", "three", "8", 1)).await;
    let Ok(Outcome::Granted(granted)) = running.ledger.submit(acquire("owned/a", 1)).await else { panic!() };
    let token = granted.fencing_tokens[0].0.clone();
    running.put(&put("owned/a", "one", &token, 0)).await;
    let before = told(&running).await;
    let reached = running.ledger.read(|reader| reader.ledger_seq()).await.unwrap();
    running.close().await;
    place.check().await;

    let again = place.run().await;
    assert_eq!(told(&again).await, before);
    assert_eq!(
        content(&again.ledger, "tree/a//b/c").await.as_deref(),
        Some(b"two of tree/a//b/c".as_slice())
    );
    let next = again.ledger.read(|reader| reader.ledger_seq()).await.unwrap();
    assert_eq!(Some(next), reached.next(), "a start is one commit");
    assert!(again.put(&put("owned/a", "one", &token, 0)).await.replayed);
    let Ok(Outcome::Granted(repeated)) = again.ledger.submit(acquire("owned/a", 1)).await else { panic!() };
    assert!(repeated.repeated && repeated.fencing_tokens[0].0.clone() == token);
    assert!(repeated.acquisition_id == granted.acquisition_id);
    again.close().await;
    place.check().await;
}

/// A lease that was granted until noon must not live again because the machine woke up in the morning.
#[tokio::test]
async fn the_clock_does_not_go_back_over_a_restart() {
    let mut place = Place::new();
    let (mut engine, _, _) = place.parts().await;
    place.clock.forward(60_000);
    assert_eq!(time_of(&mut engine).await, Timestamp::from_ms(1_060_000));
    engine.close().await;
    // A start is a commit, and writes down what it saw.
    let (engine, _, _) = place.parts().await;
    engine.close().await;

    place.clock = Hands::at(5_000);
    let (mut engine, reader, _) = place.parts().await;
    assert_eq!(time_of(&mut engine).await, Timestamp::from_ms(1_060_000));
    place.clock.forward(250);
    assert_eq!(time_of(&mut engine).await, Timestamp::from_ms(1_060_250));
    drop(reader);
    engine.close().await;
}

/// The time that a batch would be decided at.
async fn time_of(engine: &mut impl Engine) -> Timestamp {
    let now = engine.load(&Wanted::default()).await.unwrap().now;
    engine.rollback().await;
    now
}

#[tokio::test]
async fn seal_keys_are_recorded_once_and_never_changed() {
    let place = Place::new();
    let key =
        |id: u8, print: u8| RecordedKey { id: KeyId([id; 4]), fingerprint: KeyFingerprint([print; 32]) };
    let mut database = place.database().await.unwrap();
    assert_eq!(database.recorded_keys().await.unwrap(), []);
    database.record_key(key(9, 1)).await.unwrap();
    place.clock.forward(1);
    database.record_key(key(2, 2)).await.unwrap();
    database.record_key(key(9, 1)).await.unwrap();
    assert!(database.record_key(key(9, 3)).await.is_err(), "another key of that name");
    database.close().await.unwrap();

    let mut database = place.database().await.unwrap();
    assert_eq!(database.recorded_keys().await.unwrap(), [key(9, 1), key(2, 2)], "oldest first");
    database.close().await.unwrap();
    place.check().await;
}
