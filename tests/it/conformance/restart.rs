//! What a restart must not change.

use fencegate::domain::lease::LeaseState;
use fencegate::protocol::outcome::{Outcome, Refusal};

use crate::support::commands::{Draft, acquire, granted, refused, renew, resource, written};
use crate::support::engines::{Kind, Running, on_engines};

on_engines!([sqlite Sqlite, postgres Postgres], [everything_that_fences_survives_a_restart, a_restart_does_not_stretch_a_lease, an_expiry_that_was_seen_stays_seen_after_a_restart, a_position_that_was_issued_again_belongs_to_its_new_owner]);

/// A restart that forgot a floor, a record or a counter would let an older write in, apply an operation twice or issue
/// a token again.
async fn everything_that_fences_survives_a_restart(kind: Kind) {
    let running = Running::start(kind).await;
    let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(30_000);
    let bob = granted(&running.ledger, acquire("single/a", "bob", 2)).await;
    let publish = Draft::put("single/a", &bob.fencing_tokens[0].0, "publish", "newer");
    let first = written(&running.ledger, &publish).await;

    let running = running.restart().await;
    let late = Draft::put("single/a", &alice.fencing_tokens[0].0, "late", "older");
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

/// A restart neither ends a lease nor stretches it: it expires when it would have expired; on an engine that keeps the
/// time itself also when the wall clock is set back in between.
async fn a_restart_does_not_stretch_a_lease(kind: Kind) {
    let running = Running::start(kind).await;
    let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(20_000);
    let renewed = running.ledger.submit(renew(&alice)).await.unwrap();
    assert!(matches!(renewed, Outcome::Renewed(_)));
    if kind == Kind::Sqlite {
        running.clock.jump_wall(-3_600_000);
    }
    let running = running.restart().await;
    running.clock.advance(29_999);
    assert!(matches!(
        refused(&running.ledger, acquire("single/a", "bob", 2)).await,
        Refusal::LeaseBlocked(blockers) if blockers[0].free_in.get() == 1
    ));
    running.clock.advance(1);
    let bob = granted(&running.ledger, acquire("single/a", "bob", 3)).await;
    assert_eq!(bob.view.state, LeaseState::Held);
    running.stop().await;
}

/// The record of an ended lease says how it ended, for as long as it is kept.
async fn an_expiry_that_was_seen_stays_seen_after_a_restart(kind: Kind) {
    let running = Running::start(kind).await;
    let alice = granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(30_000);
    assert_eq!(
        refused(&running.ledger, renew(&alice)).await,
        Refusal::LeaseEnded { state: LeaseState::Expired, cause: None }
    );
    let running = running.restart().await;
    let (bucket, hash) = (alice.acquisition_id.bucket(), alice.acquisition_id.hash());
    let found = running.ledger.read(move |reader| reader.lease(bucket, hash)).await.unwrap().unwrap();
    assert_eq!(found.lease.state, LeaseState::Expired);
    assert_eq!(found.resource.resource, resource("single/a"));
    running.stop().await;
}

/// An older backup was restored, and a position was issued again: the token of the time that is forgotten must not
/// write in the place of the new owner, although its seal is our own and its position is the newest.
async fn a_position_that_was_issued_again_belongs_to_its_new_owner(kind: Kind) {
    let (forgotten, restored) = (Running::start(Kind::Memory).await, Running::start(kind).await);
    let old = granted(&forgotten.ledger, acquire("single/a", "alice", 1)).await;
    let behind = Draft::put("single/a", &old.fencing_tokens[0].0, "late", "older");
    let new = granted(&restored.ledger, acquire("single/a", "bob", 2)).await;
    assert_eq!(new.view.lease.position, old.view.lease.position);
    assert_eq!(refused(&restored.ledger, behind.command(&restored.ledger)).await, Refusal::SealWrong);
    written(&restored.ledger, &Draft::put("single/a", &new.fencing_tokens[0].0, "publish", "newer")).await;
    forgotten.stop().await;
    restored.stop().await;
}
