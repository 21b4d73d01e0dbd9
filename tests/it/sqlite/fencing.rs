//! The fence stands in the predicates too: a decision that rests on rows which are not there any more is not written,
//! and nothing beside it.

use fencegate::domain::counter::{Epoch, Incarnation, Token};
use fencegate::domain::document::BodyDigest;
use fencegate::domain::lease::LeaseState;
use fencegate::domain::operation::{OperationId, OperationState};
use fencegate::domain::position::Position;
use fencegate::domain::precondition::Preconditions;
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::{Base, Payload};
use fencegate::ledger::changeset::{ChangeSet, IntentChange, RowChange, TargetChange};
use fencegate::ledger::engine::{CommitOutcome, Engine, EngineError};
use fencegate::ledger::sqlite::SqliteEngine;
use fencegate::protocol::command::Acquire;
use fencegate::protocol::rows::{EraRow, ForwardedHead, IntentRow, LeaseRow, OperationRecord, ResourceRow};
use fencegate::protocol::{Command, Snapshot, Wanted};
use uuid::Uuid;

use super::place::{Place, answer, meddle, name, put, together};

/// A database with one written resource and one held lease, and its rows as they are.
async fn furnished(place: &Place) -> (SqliteEngine, Snapshot) {
    let running = place.run().await;
    running.put(&put("free/a", "one", "7", 1)).await;
    let acquire = Acquire {
        resources: vec![name("owned/a")],
        wait: None,
        holder: None,
        ttl_ms: None,
        request_id: Uuid::nil(),
        principal: PrincipalName::anonymous(),
        nonce: [1; 16],
    };
    running.ledger.submit(Command::Acquire(acquire)).await.unwrap();
    let write = together(&running.ledger, &[put("free/a", "one", "7", 1)]);
    running.close().await;

    let mut wanted = Wanted::by(&write);
    wanted.resources.insert(name("owned/a"));
    let (mut engine, _, _) = place.parts().await;
    let loaded = engine.load(&wanted).await.unwrap();
    engine.rollback().await;
    (engine, loaded.snapshot)
}

fn raised(row: &ResourceRow, token: u64) -> ResourceRow {
    let mut after = row.clone();
    after.floor = Position::new(Epoch::ZERO, Token::new(token).unwrap());
    after
}

fn changed(before: &ResourceRow, after: ResourceRow) -> ChangeSet {
    let mut changes = ChangeSet::default();
    changes.resources.insert(before.resource.clone(), RowChange { before: Some(before.clone()), after });
    changes
}

fn ended(before: &LeaseRow) -> ChangeSet {
    let mut after = before.clone();
    after.state = LeaseState::Released;
    let mut changes = ChangeSet::default();
    changes.leases.insert(*after.acquisition.as_bytes(), RowChange { before: Some(before.clone()), after });
    changes
}

async fn attempt(engine: &mut SqliteEngine, changes: &ChangeSet) -> Result<CommitOutcome, EngineError> {
    let loaded = engine.load(&Wanted::default()).await?;
    if let Err(error) = engine.apply(changes, loaded.now).await {
        engine.rollback().await;
        return Err(error);
    }
    Ok(engine.commit().await)
}

async fn refuse(engine: &mut SqliteEngine, changes: &ChangeSet, why: &str) {
    let refused = attempt(engine, changes).await;
    assert!(matches!(refused, Err(EngineError::Inconsistent(_))), "{why}: {refused:?}");
}

/// Every register that a decision rests on is compared, also when the change itself is harmless.
#[tokio::test]
async fn a_resource_that_changed_behind_the_engine_is_not_written() {
    let meddlings = [
        "floor_token = 9",
        "floor_epoch = 1",
        "issued_token = 3",
        "commit_no = 2",
        "incarnation = 2",
        "life = 'cancelled'",
        "revoked_epoch = 0, revoked_token = 2",
        "applied_sequence = 5",
        "applied_token = 6",
        "lease = zeroblob(32)",
        "barrier_epoch = 0, barrier_token = 1",
    ];
    for meddling in meddlings {
        let place = Place::new();
        let (mut engine, rows) = furnished(&place).await;
        let row = rows.resource(&name("free/a")).unwrap();
        let changes = changed(row, raised(row, 90));
        meddle(&place.path(), &format!("UPDATE resources SET {meddling} WHERE resource = 'free/a'")).await;
        let seq: i64 = answer(&place.path(), "SELECT ledger_seq FROM ledger").await;
        refuse(&mut engine, &changes, meddling).await;
        assert_eq!(answer::<i64>(&place.path(), "SELECT ledger_seq FROM ledger").await, seq, "{meddling}");
        engine.close().await;
        place.check().await;
    }
}

/// The rows are as the decision saw them, and the decision itself would let a register go back.
#[tokio::test]
async fn no_register_goes_back_even_when_the_rules_say_so() {
    let place = Place::new();
    let (mut engine, rows) = furnished(&place).await;
    let row = rows.resource(&name("free/a")).unwrap();
    let mut lower = raised(row, 6);
    lower.applied = None;
    refuse(&mut engine, &changed(row, lower), "floor").await;
    let mut older = raised(row, 9);
    older.commit_no = fencegate::domain::counter::CommitNo::ZERO;
    refuse(&mut engine, &changed(row, older), "commit number").await;
    let mut published = row.clone();
    published.applied = row.applied.map(|mark| fencegate::protocol::rows::Mark {
        position: Position::new(Epoch::ONE, Token::ONE),
        ..mark
    });
    refuse(&mut engine, &changed(row, published), "what is published above the floor").await;
    assert_eq!(attempt(&mut engine, &changed(row, raised(row, 9))).await, Ok(CommitOutcome::Committed));
    engine.close().await;
    place.check().await;
}

#[tokio::test]
async fn rows_that_are_there_are_never_overwritten() {
    let place = Place::new();
    let (mut engine, rows) = furnished(&place).await;
    let mut set = ChangeSet::default();
    let row = rows.resource(&name("free/a")).unwrap().clone();
    set.resources.insert(row.resource.clone(), RowChange { before: None, after: raised(&row, 90) });
    refuse(&mut engine, &set, "a resource").await;

    let mut set = changed(&row, raised(&row, 90));
    let record = rows.operations().next().unwrap().clone();
    set.operations.push(record.clone());
    refuse(&mut engine, &set, "an operation").await;
    let other = OperationRecord { operation_id: OperationId::parse("other").unwrap(), ..record };
    set.operations = vec![other.clone(), other.clone()];
    refuse(&mut engine, &set, "an operation of the same batch").await;
    let mut set = ChangeSet::default();
    set.operations.push(other);
    refuse(&mut engine, &set, "an operation that leaves its resource as it is").await;

    let mut set = ChangeSet::default();
    let lease = rows.leases().next().unwrap().clone();
    set.leases.insert(*lease.acquisition.as_bytes(), RowChange { before: None, after: lease.clone() });
    refuse(&mut engine, &set, "a lease").await;

    let mut twin = lease;
    twin.acquisition = fencegate::domain::lease::AcquisitionHash::from_bytes([7; 32]);
    let mut set = ChangeSet::default();
    set.leases.insert([7; 32], RowChange { before: None, after: twin });
    refuse(&mut engine, &set, "a second lease of one request").await;

    let mut set = ChangeSet::default();
    let namespace = rows.namespaces().next().unwrap().clone();
    set.namespaces.insert(namespace.namespace.clone(), RowChange { before: None, after: namespace });
    refuse(&mut engine, &set, "a namespace").await;

    let mut set = changed(&row, raised(&row, 90));
    let (address, stored) = rows.targets().next().unwrap();
    let same = TargetChange::Stored { row: stored.clone(), body: "one of free/a".into() };
    set.targets.insert(address.clone(), same);
    refuse(&mut engine, &set, "the content of a commit that is not later").await;

    let mut set = ChangeSet::default();
    let era = EraRow { resource: row.resource, incarnation: Incarnation::ONE, born: Position::ZERO };
    set.eras = vec![era.clone(), era];
    refuse(&mut engine, &set, "an incarnation").await;
    engine.close().await;
    place.check().await;
}

#[tokio::test]
async fn a_lease_that_changed_behind_the_engine_is_not_written() {
    for meddling in ["state = 'superseded'", "expires_ms = expires_ms + 1"] {
        let place = Place::new();
        let (mut engine, rows) = furnished(&place).await;
        let lease = rows.leases().next().unwrap();
        meddle(&place.path(), &format!("UPDATE leases SET {meddling}")).await;
        refuse(&mut engine, &ended(lease), meddling).await;
        engine.close().await;
    }
    let place = Place::new();
    let (mut engine, rows) = furnished(&place).await;
    let changes = ended(rows.leases().next().unwrap());
    assert_eq!(attempt(&mut engine, &changes).await, Ok(CommitOutcome::Committed));
    refuse(&mut engine, &changes, "the same end twice").await;
    engine.close().await;
    place.check().await;
}

/// An announcement, made of the record that is there.
fn announcement(rows: &Snapshot) -> IntentRow {
    let record = rows.operations().next().unwrap().clone();
    IntentRow {
        record: OperationRecord {
            state: OperationState::Intent,
            operation_id: OperationId::parse("undecided").unwrap(),
            response: None,
            decided_at: None,
            ..record
        },
        named: None,
        preconditions: Preconditions::default(),
        request: ForwardedHead {
            query: None,
            headers: Vec::new(),
            content_type: None,
            length: 4,
            digest: BodyDigest::of(b"body"),
        },
        base: Base::Unread,
        doubt: false,
        due_at: Timestamp::from_ms(9),
        claim: 7,
    }
}

fn of_intent(before: Option<&IntentRow>, after: Option<&IntentRow>) -> ChangeSet {
    let payload = before.is_none().then(|| Payload::of("body".into()));
    let key = before.or(after).unwrap().key();
    let (before, after) = (before.cloned(), after.cloned());
    let mut changes = ChangeSet::default();
    changes.intents.insert(key, IntentChange { before, after, payload });
    changes
}

/// A step that somebody else has taken meanwhile is not taken a second time, and a decision not made twice.
#[tokio::test]
async fn an_announcement_that_moved_behind_the_engine_is_not_written() {
    let meddlings =
        ["state = 'uncertain'", "attempt = attempt + 1", "due_ms = due_ms + 1", "operation_id = 'x'"];
    for meddling in meddlings {
        let place = Place::new();
        let (mut engine, rows) = furnished(&place).await;
        let intent = announcement(&rows);
        let announced = of_intent(None, Some(&intent));
        assert_eq!(attempt(&mut engine, &announced).await, Ok(CommitOutcome::Committed));
        refuse(&mut engine, &announced, "an announcement that is there").await;
        meddle(&place.path(), &format!("UPDATE intents SET {meddling}")).await;
        let doubted = IntentRow { doubt: true, ..intent.clone() };
        refuse(&mut engine, &of_intent(Some(&intent), Some(&doubted)), meddling).await;
        refuse(&mut engine, &of_intent(Some(&intent), None), meddling).await;
        engine.close().await;
        place.check().await;
    }
    let place = Place::new();
    let (mut engine, rows) = furnished(&place).await;
    let intent = announcement(&rows);
    let doubted = IntentRow { doubt: true, due_at: Timestamp::from_ms(10), ..intent.clone() };
    let steps = [
        of_intent(None, Some(&intent)),
        of_intent(Some(&intent), Some(&doubted)),
        of_intent(Some(&doubted), None),
    ];
    for changes in steps {
        assert_eq!(attempt(&mut engine, &changes).await, Ok(CommitOutcome::Committed));
    }
    refuse(&mut engine, &of_intent(Some(&doubted), None), "the same end twice").await;
    engine.close().await;
    place.check().await;
}

/// What a newer version or a person wrote is not guessed at.
#[tokio::test]
async fn a_row_that_cannot_be_read_stops_the_batch() {
    let place = Place::new();
    let (mut engine, _) = furnished(&place).await;
    let mut wanted = Wanted::default();
    wanted.resources.insert(name("free/a"));
    let broken = [
        "UPDATE namespaces SET definition = 'store=of tomorrow' WHERE namespace = 'free'",
        "UPDATE resources SET life = 'quarantined' WHERE resource = 'free/a'",
    ];
    for meddling in broken {
        meddle(&place.path(), meddling).await;
        let refused = engine.load(&wanted).await;
        assert!(matches!(refused, Err(EngineError::Inconsistent(_))), "{meddling}: {refused:?}");
        engine.rollback().await;
    }
    engine.close().await;
}
