//! What is kept no longer, over every engine: it goes, what is needed stays, and the database stays as large as that.

use fencegate::domain::operation::{Method, OperationId};
use fencegate::domain::time::Millis;
use fencegate::ledger::Ledger;
use fencegate::ledger::prune::Round;
use fencegate::ledger::read::OperationFilter;
use fencegate::protocol::Outcome;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::Refusal;
use fencegate::protocol::rows::OperationRecord;

use crate::support::commands::{
    Draft, acquire, control, granted, refused, release, renew, resource, written,
};
use crate::support::engines::{Kind, Place, Running, on_engines};

on_engines!(
    [memory Memory, sqlite Sqlite, postgres Postgres],
    [
        an_old_operation_is_forgotten_and_the_live_one_stays,
        a_chain_is_taken_away_from_its_old_end,
        a_recreated_resource_forgets_its_earlier_lives,
        old_tombstones_are_folded_into_the_base,
        a_control_call_is_answered_within_the_retention
    ]
);

const KEPT: Millis = Millis::new(30 * 86_400_000);

/// Forgets all that may be forgotten now.
pub(super) async fn forget(ledger: &Ledger) {
    let mut pruner = ledger.pruner(KEPT);
    while pruner.once().await == Some(Round::Goes) {}
    let mut compactor = ledger.compactor(KEPT);
    while compactor.once().await == Some(Round::Goes) {}
}

async fn operations(ledger: &Ledger, name: &str) -> Vec<OperationRecord> {
    let filter = OperationFilter { resource: resource(name), state: None, after: None, limit: 1_000 };
    ledger.read(move |reader| reader.operations(filter)).await.unwrap()
}

fn ids(records: &[OperationRecord]) -> Vec<&str> {
    records.iter().map(|record| record.operation_id.as_str()).collect()
}

async fn has(ledger: &Ledger, name: &str) -> bool {
    let name = resource(name);
    ledger.read(move |reader| reader.resource(name)).await.unwrap().is_some()
}

/// One generation: a lease, a write under it, and its end.
async fn generation(running: &Running, name: &str, id: &str, request: u128) -> Draft {
    let grant = granted(&running.ledger, acquire(name, "worker", request)).await;
    let draft = Draft::put(name, &grant.fencing_tokens[0].0, id, "content");
    written(&running.ledger, &draft).await;
    assert!(running.ledger.submit(release(&grant)).await.is_ok());
    draft
}

/// Broken: records are kept for ever, or one goes whose retry would be admitted a second time. Must hold: within the
/// retention every retry is replayed; afterwards an old one is `operation_expired`, also where its resource has been
/// removed since, and that of the live generation is still replayed.
async fn an_old_operation_is_forgotten_and_the_live_one_stays(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let old = generation(&running, "single/a", "old", 1).await;
    let live = generation(&running, "single/a", "live", 2).await;
    running.clock.advance(KEPT.get() - 1);
    forget(ledger).await;
    assert!(written(ledger, &old).await.replayed && written(ledger, &live).await.replayed);
    running.clock.advance(1);
    forget(ledger).await;
    assert_eq!(ids(&operations(ledger, "single/a").await), ["live"]);
    assert_eq!(refused(ledger, old.command(ledger)).await, Refusal::OperationExpired);
    assert!(written(ledger, &live).await.replayed);
    // A generation that may still write is not over either, however old it is.
    let grant = granted(ledger, acquire("session/a", "worker", 3)).await;
    let edit = Draft::put("session/a", &grant.fencing_tokens[0].0, "edit", "content");
    written(ledger, &edit).await;
    running.clock.advance(2 * KEPT.get());
    forget(ledger).await;
    assert!(written(ledger, &edit).await.replayed);
    assert_eq!(refused(ledger, old.command(ledger)).await, Refusal::OperationExpired);
    running.stop().await;
}

/// Broken: a record in the middle of a resource's chain goes and the list of its operations ends there, or a key leads to
/// a row that is gone. Must hold: whatever was pruned, every operation that is left is listed and found, through the keys
/// in its resource's row and through the index, and new ones go on.
async fn a_chain_is_taken_away_from_its_old_end(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let mut drafts = Vec::new();
    for step in 0..40_u128 {
        drafts.push(generation(&running, "single/a", &format!("op-{step:02}"), step + 1).await);
        drafts.push(generation(&running, "single/b", &format!("op-{step:02}"), step + 1).await);
        running.clock.advance(86_400_000);
        forget(ledger).await;
        let left = operations(ledger, "single/a").await;
        // The one that was just written is a day old; what is 30 days old has gone.
        let first = (step + 2).saturating_sub(30).min(step);
        let expected: Vec<String> = (first..=step).rev().map(|step| format!("op-{step:02}")).collect();
        assert_eq!(ids(&left), expected, "{step}");
        for one in &left {
            let (id, name) = (one.operation_id.clone(), resource("single/a"));
            let found = ledger.read(move |reader| reader.operation(name, id, None)).await.unwrap();
            assert_eq!(found.as_ref(), Some(one));
        }
        let gone = OperationId::parse("op-00").unwrap();
        let name = resource("single/b");
        let found = ledger.read(move |reader| reader.operation(name, gone, None)).await.unwrap();
        assert_eq!(found.is_some(), first == 0, "{step}");
    }
    for (number, draft) in drafts.iter().enumerate() {
        let outcome = ledger.submit(draft.command(ledger)).await.unwrap();
        let is_old = number / 2 < 11;
        assert_eq!(outcome.refusal() == Some(&Refusal::OperationExpired), is_old, "{number}: {outcome:?}");
        assert_eq!(matches!(outcome, Outcome::Written(_)), !is_old, "{number}: {outcome:?}");
    }
    running.restart().await.stop().await;
}

/// Broken: a resource that is removed and created again leaves a row of each of its lives for ever, or a late retry of an
/// old life is taken for one of another. Must hold: lives of which nothing is recorded go; a retry is `operation_expired`
/// under its position and under its incarnation.
async fn a_recreated_resource_forgets_its_earlier_lives(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let mut drafts = Vec::new();
    for life in 1..=4_u128 {
        drafts.push(generation(&running, "single/a", &format!("write-{life}"), 2 * life).await);
        let grant = granted(ledger, acquire("single/a", "worker", 2 * life + 1)).await;
        let end = Draft::put("single/a", &grant.fencing_tokens[0].0, &format!("end-{life}"), "");
        let end = Draft { method: Method::Delete, ..end };
        written(ledger, &end).await;
        drafts.push(end);
    }
    let live = generation(&running, "single/a", "write", 100).await;
    running.clock.advance(KEPT.get());
    forget(ledger).await;
    assert_eq!(operations(ledger, "single/a").await.len(), 1);
    for (number, draft) in drafts.iter().enumerate() {
        let named = Draft { incarnation: Some(u64::try_from(number / 2).unwrap() + 1), ..draft.clone() };
        for draft in [draft.clone(), named] {
            assert_eq!(refused(ledger, draft.command(ledger)).await, Refusal::OperationExpired, "{number}");
        }
    }
    let replayed = written(ledger, &live).await;
    assert!(replayed.replayed && replayed.incarnation.get() == 5);
    running.stop().await;
}

/// Broken: tombstones stay for ever; or one goes, its counters restart, and an old write is admitted. Must hold: an old
/// one goes into the base, its old writes stay refused after a restart too, pages that live are untouched, and a page of
/// that name goes on above everything that was issued.
async fn old_tombstones_are_folded_into_the_base(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let mut ends = Vec::new();
    for number in 0..20_u128 {
        let name = format!("single/gone-{number}");
        generation(&running, &name, "write", 100 * number + 1).await;
        let grant = granted(ledger, acquire(&name, "worker", 100 * number + 2)).await;
        let end = Draft::put(&name, &grant.fencing_tokens[0].0, "end", "");
        let end = Draft { method: Method::Delete, ..end };
        written(ledger, &end).await;
        ends.push((end, grant));
    }
    let live = generation(&running, "single/live", "write", 9_000).await;
    running.clock.advance(KEPT.get());
    forget(ledger).await;
    let all_gone = async |running: &Running| {
        for (end, grant) in &ends {
            let ledger = &running.ledger;
            assert!(!has(ledger, &end.name).await, "{}", end.name);
            assert_eq!(refused(ledger, end.command(ledger)).await, Refusal::OperationExpired);
            assert_eq!(refused(ledger, renew(grant)).await, Refusal::NoSuchLease);
        }
        assert!(written(&running.ledger, &live).await.replayed);
    };
    all_gone(&running).await;
    let running = if kind == Kind::Memory { running } else { running.restart().await };
    if kind != Kind::Memory {
        all_gone(&running).await;
    }
    let ledger = &running.ledger;
    let grant = granted(ledger, acquire("single/gone-3", "worker", 9_001)).await;
    assert_eq!(grant.view.lease.position.to_string(), "0.3");
    assert_eq!(grant.view.incarnation.get(), 2);
    let again = Draft::put("single/gone-3", &grant.fencing_tokens[0].0, "write", "content");
    assert!(!written(ledger, &again).await.replayed);
    assert_eq!(refused(ledger, ends[3].0.command(ledger)).await, Refusal::OperationExpired);
    running.stop().await;
}

/// Broken: records of control calls stay for ever, or a delayed copy acts within the retention. Must hold: it is answered
/// from the record until that is old, and then the record is gone.
async fn a_control_call_is_answered_within_the_retention(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    generation(&running, "single/a", "write", 1).await;
    let call = || control(ledger, ControlVerb::Revoke, "single/a", None, "once");
    let is_replay = async || match ledger.submit(call()).await.unwrap() {
        Outcome::Controlled(done) => done.replayed,
        other => panic!("{other:?}"),
    };
    assert!(!is_replay().await);
    running.clock.advance(KEPT.get() - 1);
    forget(ledger).await;
    assert!(is_replay().await);
    running.clock.advance(2);
    forget(ledger).await;
    assert!(!is_replay().await);
    running.stop().await;
}

/// Rows of the tables that grow, and pages of the file.
async fn sizes(place: &Place) -> (Vec<i64>, i64) {
    const TABLES: [&str; 8] = [
        "resources",
        "operations",
        "operation_keys",
        "incarnations",
        "leases",
        "audit",
        "controls",
        "bodies",
    ];
    match place {
        Place::Nowhere => (Vec::new(), 0),
        Place::Folder(folder) => {
            let connection = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
            let number = |text: &str| connection.query_row(text, [], |row| row.get::<_, i64>(0)).unwrap();
            let rows = TABLES.iter().map(|table| number(&format!("SELECT count(*) FROM {table}"))).collect();
            (rows, number("PRAGMA page_count"))
        }
        Place::Server(fresh) => {
            let pool = sqlx::PgPool::connect(&fresh.url).await.unwrap();
            let mut rows = Vec::new();
            for table in TABLES.iter().filter(|table| !["operation_keys", "bodies"].contains(*table)) {
                let text = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
                rows.push(sqlx::query_scalar(text).fetch_one(&pool).await.unwrap());
            }
            pool.close().await;
            (rows, 0)
        }
    }
}

mod flat {
    use super::*;

    on_engines!([sqlite Sqlite, postgres Postgres], [ten_times_what_is_kept_takes_no_more_room]);

    /// Broken: a ledger grows for as long as it is written to. Must hold: with as many writes a day, removals among them,
    /// the rows of every table and the pages of the file are as many after 300 days as after 30.
    async fn ten_times_what_is_kept_takes_no_more_room(kind: Kind) {
        let mut running = Running::start(kind).await;
        let (mut after_one, mut after_ten) = (None, None);
        for day in (0..330_u128).step_by(3) {
            a_day(&running, day).await;
            running.clock.advance(3 * 86_400_000);
            // Leases that are over go by buckets, one in each round.
            if day % 15 == 12 {
                let mut sweeper = running.ledger.sweeper();
                for _ in 0..=u8::MAX {
                    sweeper.once().await.unwrap();
                }
                forget(&running.ledger).await;
            }
            if day == 57 || day == 327 {
                let clock = running.clock.clone();
                let place = running.stop().await;
                let sizes = sizes(&place).await;
                if day == 57 {
                    after_one = Some(sizes);
                } else {
                    after_ten = Some(sizes);
                }
                running = Running::over(place, clock).await;
            }
        }
        running.stop().await;
        let (after_one, after_ten) = (after_one.unwrap(), after_ten.unwrap());
        println!("{kind:?}: rows and pages after 60 days {after_one:?}, after 330 days {after_ten:?}");
        for (one, ten) in after_one.0.iter().zip(&after_ten.0) {
            assert!(*ten <= one + one / 10 + 8, "{after_one:?} {after_ten:?}");
        }
        assert!(after_ten.1 <= after_one.1 + after_one.1 / 10, "{after_one:?} {after_ten:?}");
    }

    /// Ten writes of one page, some pages of that day alone, one of which is removed at once and one the day after.
    async fn a_day(running: &Running, day: u128) {
        let ledger = &running.ledger;
        for number in 0..4 {
            generation(running, "single/page", &format!("op-{day}-{number}"), day * 100 + number + 1).await;
        }
        let name = format!("single/of-day-{day}");
        generation(running, &name, "write", day * 100 + 50).await;
        let grant = granted(ledger, acquire(&name, "worker", day * 100 + 51)).await;
        let end = Draft::put(&name, &grant.fencing_tokens[0].0, "end", "");
        written(ledger, &Draft { method: Method::Delete, ..end }).await;
        let key = format!("key-{day}");
        assert!(ledger.submit(control(ledger, ControlVerb::Revoke, "single/page", None, &key)).await.is_ok());
    }
}
