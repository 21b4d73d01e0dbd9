//! The breaker and epochs: what stops, what goes on, and what a new epoch leaves of the old one.

use fencegate::domain::breaker::Detector;
use fencegate::domain::counter::{Counter, Epoch};
use fencegate::domain::lease::LeaseState;
use fencegate::domain::resource::Namespace;
use fencegate::ledger::Ledger;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::{Acted, Outcome, Refusal};
use fencegate::protocol::{Command, NamespaceRow};

use crate::support::code::{Code, word};
use crate::support::commands::{
    Draft, acquire, advance, control, epoch, granted, refused, release, renew, transfer, trip, written,
};
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{announced, draft, forward};

on_engines!(
    [memory Memory, sqlite Sqlite, postgres Postgres],
    [
        a_tripped_namespace_stands_still_and_the_others_go_on,
        a_trip_of_everything_meets_whoever_comes_later,
        a_new_epoch_ends_the_old_one_for_ever,
        a_new_epoch_of_everything_lies_above_all_that_there_were,
        a_copy_of_an_advance_gets_the_first_answer,
        an_advance_waits_for_what_is_under_way_unless_it_is_told_not_to,
    ]
);

async fn told(ledger: &Ledger, command: Command) -> Outcome {
    ledger.submit(command).await.unwrap()
}

pub(super) async fn acted(ledger: &Ledger, command: Command) -> Acted {
    match told(ledger, command).await {
        Outcome::Acted(acted) => *acted,
        other => panic!("nothing was done: {other:?}"),
    }
}

/// A namespace as it is recorded.
async fn recorded(ledger: &Ledger, name: &str) -> Option<NamespaceRow> {
    let rows = ledger.read(|reader| reader.namespaces()).await.unwrap();
    rows.into_iter().find(|row| row.namespace == Namespace::parse(name).unwrap())
}

async fn epoch_of(ledger: &Ledger, name: &str) -> u64 {
    recorded(ledger, name).await.unwrap().epoch.get()
}

/// Broken: with the database gone back in time, somebody is let in whom a forgotten owner has superseded. Must hold: nothing
/// new is written or issued; what is recorded is answered; who owns may renew and give back; others are not concerned.
async fn a_tripped_namespace_stands_still_and_the_others_go_on(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let grant = granted(ledger, acquire("single/a", "alice", 1)).await;
    let token = grant.fencing_tokens[0].0.clone();
    let done = Draft::put("single/a", &token, "done", "x");
    written(ledger, &done).await;
    let cancel = control(ledger, ControlVerb::Cancel, "single/gone", None, "k");
    assert_eq!(word(&told(ledger, cancel.clone()).await), Code::Controlled);

    assert_eq!(told(ledger, trip("single", "the witness knows more")).await, Outcome::Tidied);
    assert_eq!(told(ledger, trip("single", "a second look")).await, Outcome::Tidied);
    let breaker = recorded(ledger, "single").await.unwrap().breaker.unwrap();
    assert_eq!((breaker.detector, &*breaker.found), (Detector::Witness, "the witness knows more"));
    let stopped = [
        Draft::put("single/a", &token, "new", "x").command(ledger),
        acquire("single/b", "bob", 2),
        transfer(&grant, "heir", 3),
        advance(ledger, "single/a", &token),
        control(ledger, ControlVerb::Revoke, "single/a", None, "k"),
        control(ledger, ControlVerb::Cancel, "single/a", None, ""),
        control(ledger, ControlVerb::Reopen, "single/gone", None, "k"),
    ];
    for command in stopped {
        let expected =
            Refusal::Stopped { namespace: Namespace::parse("single").unwrap(), breaker: breaker.clone() };
        assert_eq!(refused(ledger, command).await, expected);
    }
    assert!(written(ledger, &done).await.replayed);
    let other = Draft { body: b"y".to_vec(), ..done.clone() };
    assert_eq!(refused(ledger, other.command(ledger)).await, Refusal::OperationMismatch);
    assert_eq!(word(&told(ledger, cancel).await), Code::ControlReplayed);
    assert_eq!(word(&told(ledger, acquire("single/a", "alice", 1)).await), Code::Repeated);
    assert_eq!(word(&told(ledger, renew(&grant)).await), Code::Renewed);
    assert_eq!(word(&told(ledger, release(&grant)).await), Code::Released);
    granted(ledger, acquire("ordered/a", "alice", 4)).await;
    running.stop().await;
}

/// Broken: a namespace that is used for the first time after the loss was used before it, and starts from nothing. Must
/// hold: it is stopped too, and so after a restart, until everything begins a new epoch.
async fn a_trip_of_everything_meets_whoever_comes_later(kind: Kind) {
    let running = Running::start(kind).await;
    granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    told(&running.ledger, trip("*", "lost")).await;
    let running = if kind == Kind::Memory { running } else { running.restart().await };
    let ledger = &running.ledger;
    for (request, name) in [(2, "single/a"), (3, "ordered/a")] {
        assert_eq!(word(&told(ledger, acquire(name, "bob", request)).await), Code::Stopped);
    }
    let untouched = recorded(ledger, "ordered").await;
    assert_eq!(untouched, None, "who is refused records nothing");
    acted(ledger, epoch("ordered", "one", "looked", false)).await;
    let first = granted(ledger, acquire("ordered/a", "bob", 4)).await;
    assert_eq!(first.view.lease.position.to_string(), "1.1");
    assert_eq!(word(&told(ledger, acquire("single/a", "bob", 5)).await), Code::Stopped);
    acted(ledger, epoch("*", "all", "looked", false)).await;
    for (request, name, position) in
        [(6, "single/a", "2.2"), (7, "gapless/a", "2.1"), (8, "ordered/a", "2.2")]
    {
        let grant = granted(ledger, acquire(name, "carol", request)).await;
        assert_eq!(grant.view.lease.position.to_string(), position, "{name}");
    }
    running.stop().await;
}

/// Broken: an owner of before the loss writes over what came after it, or two owners get one token. Must hold: stale for
/// ever, whatever it asks for; what it did is answered; tokens go on.
async fn a_new_epoch_ends_the_old_one_for_ever(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    for request in 1..=6 {
        let grant = granted(ledger, acquire("single/a", "worker", request)).await;
        told(ledger, release(&grant)).await;
    }
    let old = granted(ledger, acquire("single/a", "alice", 7)).await;
    let token = old.fencing_tokens[0].0.clone();
    let done = Draft::put("single/a", &token, "done", "x");
    written(ledger, &done).await;
    told(ledger, trip("single", "lost")).await;
    assert!(!acted(ledger, epoch("single", "recovered", "looked", false)).await.replayed);
    let row = recorded(ledger, "single").await.unwrap();
    assert_eq!((row.epoch, row.breaker), (Epoch::ONE, None));

    let late = Draft::put("single/a", &token, "late", "y").command(ledger);
    assert_eq!(word(&told(ledger, late.clone()).await), Code::StaleToken);
    assert_eq!(word(&told(ledger, advance(ledger, "single/a", &token)).await), Code::StaleToken);
    let revoke = control(ledger, ControlVerb::Revoke, "single/a", Some(&token), "");
    assert_eq!(word(&told(ledger, revoke).await), Code::StaleToken);
    for command in [renew(&old), acquire("single/a", "alice", 7), transfer(&old, "heir", 8)] {
        let ended = Refusal::LeaseEnded { state: LeaseState::Superseded, cause: None };
        assert_eq!(refused(ledger, command).await, ended);
    }
    assert!(written(ledger, &done).await.replayed);
    let new = granted(ledger, acquire("single/a", "bob", 9)).await;
    assert_eq!(new.view.lease.position.to_string(), "1.8");
    written(ledger, &Draft::put("single/a", &new.fencing_tokens[0].0, "new", "z")).await;
    assert_eq!(word(&told(ledger, late).await), Code::StaleToken);
    running.stop().await;
}

/// Broken: the forgotten epoch of one namespace is begun a second time. Must hold: all of them, those that were never used
/// included, go to one epoch above every one that there was.
async fn a_new_epoch_of_everything_lies_above_all_that_there_were(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    granted(ledger, acquire("single/a", "alice", 1)).await;
    for key in ["a", "b", "c"] {
        acted(ledger, epoch("ordered", key, "test", false)).await;
    }
    acted(ledger, epoch("*", "a", "test", false)).await;
    assert_eq!((epoch_of(ledger, "single").await, epoch_of(ledger, "ordered").await), (4, 4));
    let first = granted(ledger, acquire("gapless/a", "alice", 2)).await;
    assert_eq!(first.view.lease.position.to_string(), "4.1");
    running.stop().await;
}

/// Broken: a copy that comes late begins another epoch, and fences the owners of this one. Must hold: one key, one epoch,
/// one answer; a key stands for one call.
async fn a_copy_of_an_advance_gets_the_first_answer(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    for subject in ["single", "*"] {
        let first = acted(ledger, epoch(subject, "key", "lost", false)).await;
        let before = epoch_of(ledger, "single").await;
        let again = acted(ledger, epoch(subject, "key", "lost", false)).await;
        assert_eq!((again.replayed, &again.body), (true, &first.body));
        assert_eq!(epoch_of(ledger, "single").await, before);
        for other in [epoch(subject, "key", "another", false), epoch(subject, "key", "lost", true)] {
            assert_eq!(refused(ledger, other).await, Refusal::OperationMismatch);
        }
    }
    assert_eq!(epoch_of(ledger, "single").await, 2, "a key of one namespace is none of all of them");
    running.stop().await;
}

/// Broken: a new epoch is begun over an effect that may still land. Must hold: it is named, and only who says so leaves it.
async fn an_advance_waits_for_what_is_under_way_unless_it_is_told_not_to(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let sent = announced(ledger, forward(ledger, &draft("aware/a", "7", "op", 1), 1)).await;
    for subject in ["aware", "*"] {
        let open = vec![sent.intent.key()];
        let command = epoch(subject, "key", "lost", false);
        assert_eq!(refused(ledger, command).await, Refusal::OperationsOpen { open });
    }
    acted(ledger, epoch("single", "key", "others are not concerned", false)).await;
    let left = acted(ledger, epoch("aware", "key", "lost", true)).await;
    assert!(String::from_utf8_lossy(&left.body).contains("op"), "{left:?}");
    assert_eq!(epoch_of(ledger, "aware").await, 1);
    running.stop().await;
}

/// Broken: the counter wraps, and everything that was ever issued is fresh again. Must hold: refused, and nothing changes.
#[tokio::test]
async fn the_last_epoch_is_the_last() {
    let running = Running::start(Kind::Sqlite).await;
    granted(&running.ledger, acquire("single/a", "alice", 1)).await;
    let running = running
        .meddle(|path| {
            let file = rusqlite::Connection::open(path).unwrap();
            file.execute("UPDATE namespaces SET epoch = 9223372036854775807", []).unwrap();
        })
        .await;
    let ledger = &running.ledger;
    told(ledger, trip("single", "lost")).await;
    let before = recorded(ledger, "single").await;
    for subject in ["single", "*"] {
        let refusal = refused(ledger, epoch(subject, "key", "lost", false)).await;
        assert_eq!(refusal, Refusal::CounterExhausted(Counter::Epoch));
    }
    assert_eq!(recorded(ledger, "single").await, before);
    running.stop().await;
}
