//! What a restart must not change.

use fencegate::domain::lease::LeaseState;
use fencegate::protocol::outcome::{Outcome, Refusal};

use crate::support::commands::{Draft, acquire, granted, refused, renew, resource, written};
use crate::support::engines::{Kind, Running};

/// A restart that forgot a floor, a record or a counter would let an older write in, apply an operation twice or issue
/// a token again.
#[tokio::test]
async fn everything_that_fences_survives_a_restart() {
    let running = Running::start(Kind::Sqlite).await;
    let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(30_000);
    let bob = granted(&running.ledger, acquire("single/a", "bob", 2)).await;
    let publish = Draft::put("single/a", &bob.fencing_token.0, "publish", "newer");
    let first = written(&running.ledger, &publish).await;

    let running = running.restart().await;
    let late = Draft::put("single/a", &alice.fencing_token.0, "late", "older");
    assert!(matches!(
        refused(&running.ledger, late.command(&running.ledger)).await,
        Refusal::StaleToken { .. }
    ));
    let again = written(&running.ledger, &publish).await;
    assert!(again.replayed);
    assert_eq!(again.response, first.response);
    running.clock.advance(30_000);
    let carol = granted(&running.ledger, acquire("single/a", "carol", 3)).await;
    assert_eq!(carol.view.lease.position.token.get(), 3);
    running.stop().await;
}

/// A restart neither ends a lease nor stretches it: it expires when it would have expired, also when the wall clock is
/// set back in between.
#[tokio::test]
async fn a_restart_does_not_stretch_a_lease() {
    let running = Running::start(Kind::Sqlite).await;
    let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(20_000);
    let renewed = running.ledger.submit(renew(&alice)).await.unwrap();
    assert!(matches!(renewed, Outcome::Renewed(_)));
    running.clock.jump_wall(-3_600_000);
    let running = running.restart().await;
    running.clock.advance(29_999);
    assert!(matches!(
        refused(&running.ledger, acquire("single/a", "bob", 2)).await,
        Refusal::LeaseHeld { remaining, .. } if remaining.get() == 1
    ));
    running.clock.advance(1);
    let bob = granted(&running.ledger, acquire("single/a", "bob", 3)).await;
    assert_eq!(bob.view.state, LeaseState::Held);
    running.stop().await;
}

/// The record of an ended lease says how it ended, for as long as it is kept.
#[tokio::test]
async fn an_expiry_that_was_seen_stays_seen_after_a_restart() {
    let running = Running::start(Kind::Sqlite).await;
    let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(30_000);
    assert_eq!(refused(&running.ledger, renew(&alice)).await, Refusal::LeaseEnded(LeaseState::Expired));
    let running = running.restart().await;
    let (bucket, hash) = (alice.acquisition_id.bucket(), alice.acquisition_id.hash());
    let found = running.ledger.read(move |reader| reader.lease(bucket, hash)).await.unwrap().unwrap();
    assert_eq!(found.lease.state, LeaseState::Expired);
    assert_eq!(found.resource.resource, resource("single/a"));
    running.stop().await;
}
