//! An older copy of the file is put in the place of the database while the gateway runs.

use fencegate::domain::breaker::Detector;
use fencegate::domain::operation::Effect;
use fencegate::ledger::Unserved;
use fencegate::protocol::{Command, Outcome, Refusal};

use super::place::{Place, Running, content, meddle, put};
use crate::support::commands::{acquire, epoch, granted};

/// The next write meets another file, and is not acknowledged, neither in the old one nor in the new one.
async fn stumbles(running: &Running) {
    let draft = put("free/a", "op-new", "9", 1);
    let answer = running.ledger.submit(draft.command(&running.ledger)).await;
    assert_eq!(answer, Err(Unserved::Unavailable(Effect::None)));
}

/// Broken: the file was replaced by an older one, and the gateway had the old one open and would have written into it for
/// ever. Must hold: the commit that follows is refused, the operations that were acknowledged since are missed, and the
/// breaker trips in the file that stands there now. No witness is needed for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_under_a_running_gateway_is_noticed_before_the_next_commit() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "op-1", "7", 1)).await;
    let copy = place.back_up("older").await;
    running.put(&put("free/a", "op-2", "7", 2)).await;
    running.put(&put("free/b", "op-3", "7", 1)).await;
    place.restore(&copy);
    stumbles(&running).await;
    let tripped = running.tripped(&place).await;
    assert_eq!(tripped.detector, Detector::Acks);
    assert!(tripped.found.starts_with("2 of the last 3 acknowledged operations"), "{}", tripped.found);
    assert_eq!(content(&running.ledger, "free/b").await, None, "what is read is read from that file too");
    running.close().await;
    let running = place.run().await;
    assert_eq!(running.tripped(&place).await, tripped);
    running.close().await;
}

/// The same after acts that leave no operation behind: the count of commits tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_file_that_lacks_only_leases_is_noticed_by_its_count() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "op-1", "7", 1)).await;
    let copy = place.back_up("older").await;
    for token in ["8", "9", "10"] {
        let resource = super::place::name("free/a");
        let token = fencegate::domain::position::PresentedToken::parse(token).unwrap();
        let claim = running.ledger.claim(&resource, &token);
        let advance = fencegate::protocol::command::Advance { resource, claim, reason: "test".to_owned() };
        running.ledger.submit(fencegate::protocol::Command::Advance(advance)).await.unwrap();
    }
    place.restore(&copy);
    stumbles(&running).await;
    let tripped = running.tripped(&place).await;
    assert_eq!(tripped.detector, Detector::Identity);
    assert!(tripped.found.contains("an older database stands in the place of"), "{}", tripped.found);
    running.close().await;
}

/// Broken: the same database was copied and put back with nothing missing. Must hold: it goes on, without a breaker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_by_an_equal_one_goes_on() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "op-1", "7", 1)).await;
    let copy = place.back_up("equal").await;
    place.restore(&copy);
    assert!(running.put(&put("free/a", "op-1", "7", 1)).await.replayed);
    running.put(&put("free/a", "op-2", "7", 2)).await;
    running.is_whole(&place).await;
    running.close().await;
    place.check().await;
    let running = place.run().await;
    assert!(running.put(&put("free/a", "op-2", "7", 2)).await.replayed);
    running.close().await;
}

/// Another database stands there. Its breaker is not ours to trip: nothing is written into it, and nothing is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_by_another_database_is_left_alone() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "op-1", "7", 1)).await;
    let copy = place.back_up("other").await;
    meddle(&copy, "UPDATE ledger SET database_id = '00000000-0000-0000-0000-000000000001'").await;
    place.restore(&copy);
    for _ in 0..3 {
        stumbles(&running).await;
    }
    let answer: String =
        super::place::answer(&place.path(), "SELECT coalesce(max(breaker), 'none') FROM namespaces").await;
    assert_eq!(answer, "none");
    running.close().await;
}

/// An operation that was recorded long ago may have been pruned: that it is gone proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_may_have_been_pruned_is_not_missed() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "op-1", "7", 1)).await;
    place.clock.forward(3_600_001);
    running.put(&put("free/b", "op-2", "7", 1)).await;
    meddle(&place.path(), "DELETE FROM operations WHERE operation_id = 'op-1'").await;
    let copy = place.back_up("pruned").await;
    place.restore(&copy);
    let outcome = running.ledger.submit(put("free/b", "op-3", "7", 2).command(&running.ledger)).await;
    assert!(matches!(outcome, Ok(Outcome::Written(_))), "{outcome:?}");
    running.is_whole(&place).await;
    running.close().await;
}

/// The epoch of a namespace as it is recorded.
async fn epoch_of(running: &Running, name: &str) -> u64 {
    let rows = running.ledger.read(|reader| reader.namespaces()).await.unwrap();
    rows.iter().find(|row| row.namespace.as_str() == name).unwrap().epoch.get()
}

async fn begun(running: &Running, act: Command) {
    let outcome = running.ledger.submit(act).await;
    assert!(matches!(outcome, Ok(Outcome::Acted(_))), "{outcome:?}");
}

/// Broken: two operators begin an epoch; the first one is answered, the file goes back behind it, and the second call, which
/// was asked for before and is decided after, begins the same epoch again: what was issued in the forgotten one is admissible
/// once more. Must hold without a witness, too: whatever this process has seen by then binds it, for one namespace and for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_a_restored_file_has_forgotten_is_not_begun_again() {
    for (subject, epochs) in [("free", 2), ("*", 2)] {
        let place = Place::new();
        let running = place.run().await;
        running.put(&put("free/a", "op-1", "7", 1)).await;
        let copy = place.back_up("older").await;
        let late = epoch(subject, "second", "asked for before", true);
        begun(&running, epoch(subject, "first", "answered", true)).await;
        assert_eq!(epoch_of(&running, "free").await, 1);
        place.restore(&copy);
        stumbles(&running).await;
        running.tripped(&place).await;
        assert_eq!(epoch_of(&running, "free").await, 0, "{subject}: it went back");
        begun(&running, late).await;
        assert_eq!(epoch_of(&running, "free").await, epochs, "{subject}");
        running.close().await;
    }
}

/// Broken: a process that was started after the loss knows nothing of the forgotten epoch, trips over a seal of it, and
/// begins it again. Must hold: what the seal proves binds the next epoch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_of_a_forgotten_epoch_tells_that_it_was_begun() {
    let place = Place::new();
    let running = place.run().await;
    granted(&running.ledger, acquire("owned/a", "alice", 1)).await;
    let copy = place.back_up("older").await;
    for key in ["first", "second"] {
        begun(&running, epoch("owned", key, "answered", true)).await;
    }
    let lost = granted(&running.ledger, acquire("owned/a", "bob", 2)).await;
    assert_eq!(lost.view.lease.position.to_string(), "2.2");
    running.close().await;

    place.restore(&copy);
    let running = place.run().await;
    let token = lost.fencing_tokens[0].0.clone();
    let written = running.ledger.submit(put("owned/a", "op-1", &token, 0).command(&running.ledger)).await;
    let refusal = written.unwrap().refusal().cloned();
    assert!(matches!(refusal, Some(Refusal::IssuerBehind { .. })), "{refusal:?}");
    assert_eq!(running.tripped(&place).await.detector, Detector::Seal);
    begun(&running, epoch("owned", "third", "looked", true)).await;
    assert_eq!(epoch_of(&running, "owned").await, 3);
    running.close().await;
}
