//! Sixty-four tasks at once, on one resource and on many.

use fencegate::domain::counter::CommitNo;
use std::collections::BTreeSet;

use fencegate::protocol::outcome::{Outcome, Refusal};
use tokio::task::JoinSet;

use crate::support::commands::{Draft, acquire, granted, written};
use crate::support::engines::{Kind, Running, all_for};

/// Two owners at once would be the end of the product: one acquire of 64 wins, the others learn that it is held.
async fn one_of_many_owns(kind: Kind) {
    let running = Running::start(kind).await;
    let mut tasks = JoinSet::new();
    for request in 1..=64 {
        let ledger = running.ledger.clone();
        tasks.spawn(async move { ledger.submit(acquire("single/a", "worker", request)).await.unwrap() });
    }
    let (mut owners, mut held) = (0, 0);
    for outcome in tasks.join_all().await {
        match outcome {
            Outcome::Granted(_) => owners += 1,
            Outcome::Refused(Refusal::LeaseBlocked(_)) => held += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((owners, held), (1, 63));
    running.stop().await;
}

/// One generation is one publication: of 64 operations under one token one is applied. The same operation 64 times is
/// applied once and replayed 63 times with the same bytes.
async fn one_of_many_publishes(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = running.ledger.clone();
    let grant = granted(&ledger, acquire("single/a", "alice", 1)).await;
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let ledger = ledger.clone();
        let draft = Draft::put(
            "single/a",
            &grant.fencing_tokens[0].0,
            &format!("op-{number}"),
            &format!("body {number}"),
        );
        tasks.spawn(async move { ledger.submit(draft.command(&ledger)).await.unwrap() });
    }
    let outcomes = tasks.join_all().await;
    let applied = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Written(_))).count();
    let spent =
        outcomes.iter().filter(|outcome| outcome.refusal() == Some(&Refusal::GenerationSpent)).count();
    assert_eq!((applied, spent), (1, 63));

    let next = granted(&ledger, acquire("single/b", "bob", 2)).await;
    let draft = Draft::put("single/b", &next.fencing_tokens[0].0, "publish", "the report");
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let (ledger, draft) = (ledger.clone(), draft.clone());
        tasks.spawn(async move { written(&ledger, &draft).await });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    let bodies: BTreeSet<_> = answers.iter().map(|answer| answer.response.body.clone()).collect();
    assert_eq!(bodies.len(), 1);
    drop(ledger);
    running.stop().await;
}

/// Sixty-four owners of 64 resources do not disturb each other, and each commit number counts one effect.
async fn many_resources_do_not_disturb_each_other(kind: Kind) {
    let running = Running::start(kind).await;
    let mut tasks = JoinSet::new();
    for number in 0..64_u128 {
        let ledger = running.ledger.clone();
        tasks.spawn(async move {
            let name = format!("ordered/{number}");
            let grant = granted(&ledger, acquire(&name, "worker", number + 1)).await;
            for sequence in 1..=10 {
                let mut draft =
                    Draft::put(&name, &grant.fencing_tokens[0].0, &format!("op-{sequence}"), "body");
                draft.sequence = Some(sequence);
                let answer = written(&ledger, &draft).await;
                assert_eq!(answer.response.commit.map_or(0, CommitNo::get), sequence);
            }
        });
    }
    tasks.join_all().await;
    running.stop().await;
}

/// Positions are issued once each, in rising order, whoever asks and however often leases end.
async fn positions_are_unique_and_increasing(kind: Kind) {
    let running = Running::start(kind).await;
    let mut last = 0;
    for request in 1..=64_u128 {
        let grant = granted(&running.ledger, acquire("single/a", "worker", request)).await;
        let token = grant.view.lease.position.token.get();
        assert_eq!(token, last + 1);
        last = token;
        running.clock.advance(30_000);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_race_on_every_engine() {
    for kind in all_for("conformance::races::sixty_four_tasks_race_on_every_engine") {
        one_of_many_owns(kind).await;
        one_of_many_publishes(kind).await;
        many_resources_do_not_disturb_each_other(kind).await;
        positions_are_unique_and_increasing(kind).await;
    }
}
