//! Batches: many at once, one hot resource, and bodies that come back byte for byte.

use bytes::Bytes;
use fencegate::domain::counter::CommitNo;
use fencegate::protocol::{Command, Outcome};

use super::place::{Place, answer, content, delete, put, together};

/// Every member is in the table that it belongs to, and nobody was answered with another's outcome.
#[tokio::test]
async fn a_full_batch_of_distinct_resources() {
    let place = Place::new();
    let running = place.run().await;
    for round in 1..=2_u64 {
        let draft = |index: u64| put(&format!("free/job-{index}"), &format!("op-{round}"), "7", round);
        let commands = (0..300).map(|index| draft(index).command(&running.ledger)).collect();
        let outcomes = running.submit_together(commands).await;
        for (index, outcome) in outcomes.iter().enumerate() {
            let Outcome::Written(written) = outcome else { panic!("{outcome:?}") };
            assert_eq!(written[0].address.resource.as_str(), format!("free/job-{index}"));
            assert_eq!(written[0].response.commit.map_or(0, CommitNo::get), round);
        }
    }
    for index in [0, 63, 64, 255, 256, 299] {
        let found = content(&running.ledger, &format!("free/job-{index}")).await.unwrap();
        assert_eq!(found, format!("op-2 of free/job-{index}"));
    }
    running.close().await;
    assert_eq!(answer::<i64>(&place.path(), "SELECT count(*) FROM operations").await, 600);
    assert_eq!(answer::<i64>(&place.path(), "SELECT count(doc_body) FROM resources").await, 300);
    assert_eq!(answer::<i64>(&place.path(), "SELECT count(*) FROM namespaces").await, 256);
    let steps: i64 = answer(&place.path(), "SELECT ledger_seq FROM ledger").await;
    assert!(steps < 12, "300 writes at once are a few commits, not {steps}");
    place.check().await;
}

/// Writes of one batch to one resource see each other, keep a record each, and cost one row.
#[tokio::test]
async fn a_hot_resource_keeps_every_record_and_the_last_content() {
    let place = Place::new();
    let running = place.run().await;
    let draft = |sequence: u64| put("free/hot", &format!("op-{sequence}"), "7", sequence);
    let commands = (1..=256).map(|sequence| draft(sequence).command(&running.ledger)).collect();
    for (outcome, commit) in running.submit_together(commands).await.iter().zip(1_u64..) {
        let Outcome::Written(written) = outcome else { panic!("{outcome:?}") };
        assert_eq!(
            (written[0].response.commit.map_or(0, CommitNo::get), written[0].replayed),
            (commit, false)
        );
    }
    assert_eq!(content(&running.ledger, "free/hot").await.unwrap(), "op-256 of free/hot");
    let twice = vec![draft(100).command(&running.ledger), draft(256).command(&running.ledger)];
    for outcome in running.submit_together(twice).await {
        let Outcome::Written(written) = outcome else { panic!("{outcome:?}") };
        assert!(written[0].replayed);
    }
    running.close().await;
    assert_eq!(answer::<i64>(&place.path(), "SELECT count(*) FROM operations").await, 256);
    assert_eq!(answer::<i64>(&place.path(), "SELECT commit_no FROM resources").await, 256);
    place.check().await;
}

/// Broken: an effect is committed and its record is not, so a retry has a second effect (I2). Must hold: where the record cannot
/// be written there is no effect, and the retry has the first one.
#[tokio::test]
async fn where_the_record_fails_there_is_no_effect() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "one", "7", 1)).await;
    let two = put("free/a", "two", "7", 2);
    let somebody = rusqlite::Connection::open(place.path()).unwrap();
    let fails = "CREATE TRIGGER fails BEFORE INSERT ON operations WHEN NEW.operation_id = 'two' \
                 BEGIN SELECT RAISE(ABORT, 'the record fails'); END";
    somebody.execute_batch(fails).unwrap();
    let outcome = running.ledger.submit(two.command(&running.ledger)).await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(content(&running.ledger, "free/a").await.unwrap(), "one of free/a");
    somebody.execute_batch("DROP TRIGGER fails").unwrap();
    drop(somebody);
    let made = running.put(&two).await;
    assert_eq!((made.response.commit.map_or(0, CommitNo::get), made.replayed), (2, false));
    running.close().await;
    place.check().await;
}

/// One batch deletes, re-creates and writes again: the targets of the old life are gone, those of the new one stay.
#[tokio::test]
async fn a_life_that_ends_and_begins_inside_one_batch() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("tree/a//old", "one", "7", 1)).await;
    running.put(&put("tree/a//kept", "two", "7", 2)).await;
    let ledger = &running.ledger;
    let commands: Vec<Command> = vec![
        put("tree/a//other", "three", "7", 3).command(ledger),
        delete("tree/a", "four", "7", 4).command(ledger),
        put("tree/a//kept", "five", "8", 1).command(ledger),
        // An honest late retry finds the record of its own incarnation.
        put("tree/a//old", "one", "7", 1).command(ledger),
        delete("tree/a//kept", "six", "8", 2).command(ledger),
        put("tree/a//new", "seven", "8", 3).command(ledger),
    ];
    for (index, outcome) in running.submit_together(commands).await.iter().enumerate() {
        let Outcome::Written(written) = outcome else { panic!("{index}: {outcome:?}") };
        assert_eq!(written[0].replayed, index == 3);
        assert_eq!(written[0].incarnation.get(), if [2, 4, 5].contains(&index) { 2 } else { 1 });
    }
    for (target, there) in [("old", false), ("other", false), ("kept", false), ("new", true)] {
        let found = content(&running.ledger, &format!("tree/a//{target}")).await;
        assert_eq!(found.is_some(), there, "{target}");
    }
    assert!(running.put(&put("tree/a//kept", "two", "7", 2)).await.replayed, "and finds it later too");
    running.close().await;
    place.check().await;
}

/// Bytes are bytes: empty, with NUL, not text, one megabyte and more, alone and in company.
#[tokio::test]
async fn bodies_come_back_byte_for_byte() {
    let place = Place::new();
    let running = place.run().await;
    let noise = |length: usize, seed: u8| -> Bytes {
        let mut state = u32::from(seed) + 1;
        let byte = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..length).map(byte).collect()
    };
    let lengths = [0, 1, 4_096, 65_537, 1_048_576, 3_000_000, 5_000_000];
    let drafts: Vec<_> = lengths
        .iter()
        .zip(0_u8..)
        .map(|(length, seed)| {
            put(&format!("tree/a//{length}"), &format!("op-{length}"), "7", 1).body(noise(*length, seed))
        })
        .collect();
    let outcome = running.ledger.submit(together(&running.ledger, &drafts)).await.unwrap();
    assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
    for draft in &drafts {
        let target = draft.address.target.as_ref().unwrap();
        let found = content(&running.ledger, &format!("tree/a//{target}")).await.unwrap();
        assert!(found == draft.body, "{target} bytes");
    }
    running.put(&put("tree/a//5000000", "shorter", "7", 2).body("short")).await;
    assert_eq!(content(&running.ledger, "tree/a//5000000").await.unwrap(), "short");
    running.close().await;
    place.check().await;
}
