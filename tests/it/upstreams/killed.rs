//! kill -9 of the gateway at each step of an operation's life, judged from the store's own log: whoever comes after
//! decides the operation, it has one effect, and what was acknowledged is in the store.

use super::fleet::{is_success, put};
use super::struck::{STRUCK, Story};
use crate::support::client::Answer;
use crate::support::engines::{Kind, on_engines};
use crate::support::upstream::Fault;

on_engines!(
    [sqlite Sqlite, postgres Postgres],
    [
        a_write_that_was_announced_and_never_sent_is_decided_by_whoever_comes_after,
        a_write_that_lies_at_the_store_is_decided_and_the_late_request_changes_nothing,
        an_effect_whose_answer_died_with_the_gateway_is_found_out,
        an_outcome_that_was_recorded_and_never_told_is_told_by_whoever_comes_after,
    ]
);

const TIMES: &str = "timeout_ms = 1000\nconnect_timeout_ms = 1000";

/// Nothing of it has left the gateway. The classes that can send it; `serial` cannot know that it was not sent.
async fn a_write_that_was_announced_and_never_sent_is_decided_by_whoever_comes_after(engine: Kind) {
    let mut story = Story::begin(engine, "timeout_ms = 1000\nconnect_timeout_ms = 5000").await;
    for stand in &mut story.fleet.stands {
        stand.gate.shut().await;
    }
    let asked = story.ask();
    for stand in &story.fleet.stands {
        stand.operation(&story.fleet.first(), "p1", &["intent"]).await;
    }
    story.fleet.strike();
    for stand in &mut story.fleet.stands {
        assert_eq!(stand.writes().len(), 1, "{}: it was sent", stand.class);
        stand.gate.open();
    }
    story.fleet.go_on().await;
    gone(asked).await;
    story.decided("not_applied").await;
    story.judged(|class| usize::from(class != "serial")).await;
    story.fleet.end();
}

/// It lies in front of the store when the gateway dies, and goes on only after everything was decided.
async fn a_write_that_lies_at_the_store_is_decided_and_the_late_request_changes_nothing(engine: Kind) {
    let mut story = Story::begin(engine, TIMES).await;
    story.fleet.stands.iter().for_each(|stand| stand.store.fault(Fault::Hold));
    let asked = story.ask();
    story.until("it is at the store", |stand| stand.writes().len() == 2).await;
    story.fleet.kill().await;
    gone(asked).await;
    story.decided("applied").await;
    // The late one is let go now, behind the outcome.
    for stand in story.fleet.stands.iter().filter(|stand| stand.class != "serial") {
        assert_eq!(stand.store.under_way(), 1, "{}", stand.class);
        stand.store.release();
        stand.until_nothing_is_under_way().await;
    }
    story.judged(|_| 1).await;
    story.fleet.end();
}

/// The store has acted, and its answer reached nobody.
async fn an_effect_whose_answer_died_with_the_gateway_is_found_out(engine: Kind) {
    let mut story = Story::begin(engine, TIMES).await;
    story.fleet.stands.iter().for_each(|stand| stand.store.fault(Fault::NeverAnswer));
    let asked = story.ask();
    story.until("the store has acted", |stand| stand.effects().len() == 2).await;
    story.fleet.kill().await;
    gone(asked).await;
    story.decided("applied").await;
    let conditional = story.fleet.stand("conditional");
    assert_eq!(
        conditional.writes().len(),
        2,
        "its stamp told that it was applied: {:?}",
        conditional.writes()
    );
    story.judged(|_| 1).await;
    story.fleet.end();
}

/// The outcome stands in the database, and the client has hung up before it was told.
async fn an_outcome_that_was_recorded_and_never_told_is_told_by_whoever_comes_after(engine: Kind) {
    let mut story = Story::begin(engine, "timeout_ms = 20000\nconnect_timeout_ms = 1000").await;
    story.fleet.stands.iter().for_each(|stand| stand.store.fault(Fault::Hold));
    let asked = story.ask();
    story.until("it is at the store", |stand| stand.writes().len() == 2).await;
    for asked in asked {
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
    }
    for stand in &story.fleet.stands {
        stand.store.release();
        stand.operation(&story.fleet.first(), "p1", &["applied"]).await;
    }
    story.fleet.kill().await;
    for (stand, owner) in story.each() {
        let again = put(story.fleet.last(), stand.name(), owner.clone(), STRUCK).await.unwrap();
        assert!(is_success(&again), "{}: {again:?}", stand.class);
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{}", stand.class);
        assert_eq!(
            again.header("fencing-source"),
            Some("upstream"),
            "{}: the store's own answer",
            stand.class
        );
        assert_eq!(stand.writes().len(), 2, "{}: asked once", stand.class);
    }
    story.judged(|_| 1).await;
    story.fleet.end();
}

/// Nobody was answered by the gateway that was killed.
async fn gone(asked: Vec<tokio::task::JoinHandle<Option<Answer>>>) {
    for asked in asked {
        assert!(asked.await.unwrap().is_none(), "it was answered before it was killed");
    }
}
