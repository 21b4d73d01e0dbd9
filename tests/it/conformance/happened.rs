//! What happened, as every engine reads it back: once, in order, page by page, with who asked.

use fencegate::domain::principal::PrincipalName;
use fencegate::domain::time::Timestamp;
use fencegate::ledger::Ledger;
use fencegate::ledger::events::{EventPlace, Happening};
use fencegate::ledger::read::{AuditEntry, AuditFilter};
use fencegate::protocol::command::Finding;
use fencegate::protocol::control::ControlVerb;

use crate::support::commands::{Draft, acquire, control, granted, release, written};
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{announced, draft, forward, settle};

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [
    what_happened_is_read_back_in_order,
    whoever_asked_stands_on_the_line,
]);

fn line(what: &Happening) -> String {
    match what {
        Happening::Act(entry) => format!("{} {}", entry.row.verb.word(), entry.row.subject),
        Happening::Operation(entry) => {
            format!("{} {}", entry.record.state.word(), entry.record.operation_id)
        }
    }
}

/// Everything behind a place, and where it ends.
async fn told(ledger: &Ledger, from: EventPlace) -> (Vec<String>, EventPlace) {
    let page = ledger.events(from).await.unwrap();
    (page.told.iter().map(|one| line(&one.what)).collect(), page.place)
}

/// Broken: an engine forgets a kind of record, tells it twice or in another order, or a place that was given out leads
/// nowhere. Must hold: all of them tell the same, from the beginning, from every place between, and from the end.
async fn what_happened_is_read_back_in_order(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let before = ledger.events_end().await.unwrap();
    let alice = granted(ledger, acquire("single/a", "alice", 1)).await;
    running.clock.advance(1);
    written(ledger, &Draft::put("single/a", &alice.fencing_tokens[0].0, "publish", "body")).await;
    running.clock.advance(1);
    ledger.submit(release(&alice)).await.unwrap();
    running.clock.advance(1);
    let bob = granted(ledger, acquire("lane/b", "bob", 2)).await;
    running.clock.advance(1);
    let doubtful = draft("lane/b", &bob.fencing_tokens[0].0, "doubtful", 1);
    let intent = announced(ledger, forward(ledger, &doubtful, 1)).await.intent;
    ledger.submit(settle(&intent, Finding::Doubt)).await.unwrap();
    running.clock.advance(1);
    ledger.note_policy(None, "principals ci and ops".to_owned()).await.unwrap();
    let wanted = [
        "acquired single/a",
        "applied publish",
        "released single/a",
        "acquired lane/b",
        "uncertain lane/b",
        "policy_changed *",
    ];
    // A server tells only what no transaction that still runs could come before, and other tests run some on it.
    let mut tries = 0;
    while ledger.events(EventPlace::default()).await.unwrap().told.len() < wanted.len() && tries < 1_000 {
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(told(ledger, before.view).await.0, wanted);
    let (all, end) = told(ledger, EventPlace::default()).await;
    assert_eq!(all, wanted);
    assert_eq!(told(ledger, end).await.0, [""; 0]);
    assert!(!end.is_beyond(&ledger.events_end().await.unwrap().view) && end.is_beyond(&before.view));
    let places: Vec<EventPlace> =
        ledger.events(EventPlace::default()).await.unwrap().told.iter().map(|one| one.place).collect();
    for (number, place) in (1..).zip(places) {
        assert_eq!(told(ledger, place).await.0, wanted[number..], "after {number}");
    }
    running.stop().await;
}

/// Broken: a line says nobody asked, or names somebody for what the gateway found by itself. Must hold: acts carry the name of
/// their caller, also those that they bring about; what is found carries none.
async fn whoever_asked_stands_on_the_line(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let name = |text: &str| Some(PrincipalName::parse(text).unwrap());
    ledger.submit_by(name("worker-1"), acquire("single/a", "alice", 1)).await.unwrap();
    running.clock.advance(1);
    let cancel = control(ledger, ControlVerb::Cancel, "single/a", None, "k");
    ledger.submit_by(name("ops@example"), cancel).await.unwrap();
    running.clock.advance(1);
    ledger.submit_by(name("worker-2"), acquire("single/b", "bob", 2)).await.unwrap();
    running.clock.advance(40_000);
    ledger.sweeper().once().await.unwrap();
    ledger.note_policy(name("root"), "principal ci".to_owned()).await.unwrap();
    let filter = AuditFilter {
        since: Timestamp::default(),
        until: Timestamp::from_ms(i64::MAX),
        after: None,
        limit: 100,
    };
    let lines = ledger.read(move |reader| reader.audit_lines(filter)).await.unwrap();
    let told = |entry: &AuditEntry| {
        let actor = entry.row.actor.as_ref().map_or("-", PrincipalName::as_str);
        format!("{} {} {actor}", entry.row.verb.word(), entry.row.subject)
    };
    let wanted = [
        "acquired single/a worker-1",
        "superseded single/a ops@example",
        "cancelled single/a ops@example",
        "acquired single/b worker-2",
        "expired single/b -",
        "policy_changed * root",
    ];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), wanted);
    let rest = AuditFilter { after: Some(lines[1].place), until: lines[5].row.at, ..filter };
    let rest = ledger.read(move |reader| reader.audit_lines(rest)).await.unwrap();
    assert_eq!(rest.iter().map(told).collect::<Vec<_>>(), wanted[2..5]);
    running.stop().await;
}
