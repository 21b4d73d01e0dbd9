//! What is told beside the operations, and the few that a person has to look at, over every engine.

use std::time::Duration;

use fencegate::domain::operation::OperationId;
use fencegate::domain::resource::ResourceName;
use fencegate::domain::time::{Clock, Timestamp};
use fencegate::ledger::Ledger;
use fencegate::ledger::read::{AuditEntry, AuditPlace, ResourceFilter};
use fencegate::ledger::refusals::Refused;
use fencegate::protocol::command::Finding;
use fencegate::protocol::control::ControlVerb;

use crate::support::commands::{
    Draft, acquire, acquire_all, control, granted, release, resource, transfer, written,
};
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{announced, draft, forward, settle};

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [acts_are_told_alike_and_in_pages, a_ring_holds_the_last_refusals_of_what_is_known, those_in_doubt_are_found_by_name]);

async fn acts(ledger: &Ledger, name: &str, before: AuditPlace, limit: u32) -> Vec<AuditEntry> {
    let name = resource(name);
    ledger.read(move |reader| reader.audit(name, before, limit)).await.unwrap()
}

fn the_end() -> AuditPlace {
    let last = u64::try_from(i64::MAX).unwrap();
    AuditPlace { at: Timestamp::from_ms(i64::MAX), transaction: last, ordinal: last }
}

/// Two engines that tell of different acts, or in another order, would make one of the timelines wrong.
async fn acts_are_told_alike_and_in_pages(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let alice = granted(ledger, acquire_all(&["single/a", "single/b"], "alice", 1)).await;
    running.clock.advance(1);
    let bob = granted(ledger, transfer(&alice, "bob", 2)).await;
    running.clock.advance(1);
    ledger.submit(control(ledger, ControlVerb::Cancel, "single/b", None, "k")).await.unwrap();
    running.clock.advance(1);
    let carol = granted(ledger, acquire("single/a", "carol", 3)).await;
    ledger.submit(release(&carol)).await.unwrap();
    running.clock.advance(1);
    granted(ledger, acquire("single/a", "dave", 4)).await;
    running.clock.advance(40_000);
    ledger.sweeper().once().await.unwrap();
    let told = |entries: &[AuditEntry]| -> Vec<String> {
        let line = |entry: &AuditEntry| {
            let row = &entry.row;
            let holder = row.holder.as_ref().map_or("-", |holder| holder.as_str());
            format!("{} {} {holder} {}", row.verb.word(), row.position, row.reason.as_deref().unwrap_or("-"))
        };
        entries.iter().rev().map(line).collect()
    };
    let all = acts(ledger, "single/a", the_end(), 100).await;
    let wanted = [
        "acquired 0.1 alice -",
        "superseded 0.1 alice transferred",
        "transferred 0.2 bob -",
        "superseded 0.2 bob cancelled",
        "acquired 0.3 carol -",
        "released 0.3 carol -",
        "acquired 0.4 dave -",
        "expired 0.4 dave -",
    ];
    assert_eq!(told(&all), wanted);
    let of_b = told(&acts(ledger, "single/b", the_end(), 100).await);
    assert_eq!(of_b[3..], ["superseded 0.2 bob cancelled", "cancelled 0.2 - test"]);
    for limit in [1, 2, 3] {
        let (mut found, mut before) = (Vec::new(), the_end());
        loop {
            let page = acts(ledger, "single/a", before, limit).await;
            let Some(last) = page.last() else { break };
            before = last.place;
            found.extend(page);
        }
        assert_eq!(found, all, "pages of {limit}");
    }
    drop(bob);
    running.stop().await;
}

fn refused(name: &str, code: &'static str, at: Duration) -> Refused {
    let operation_id = Some(OperationId::parse("late").unwrap());
    Refused { resource: resource(name), code, presented: None, operation_id, at }
}

/// A flood of refusals, or one for every name that somebody can think of, must not fill the database; and what is kept is
/// the newest.
async fn a_ring_holds_the_last_refusals_of_what_is_known(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    granted(ledger, acquire("single/a", "alice", 1)).await;
    let noter = ledger.noter(running.clock.clone());
    for round in 0..40 {
        for _ in 0..5 {
            ledger.refused(refused("single/a", "stale_token", running.clock.monotonic()));
        }
        if round % 2 == 0 {
            ledger.refused(refused("single/a", "generation_spent", running.clock.monotonic()));
        }
        ledger.refused(refused("single/never-heard-of", "stale_token", running.clock.monotonic()));
        running.clock.advance(300);
        noter.once().await.unwrap();
    }
    let of = async |name: &str| {
        let name = resource(name);
        let mut found = ledger.read(move |reader| reader.refusals(name)).await.unwrap();
        found.sort_by_key(|sample| sample.number);
        found
    };
    assert!(of("single/never-heard-of").await.is_empty());
    let kept = of("single/a").await;
    assert_eq!(kept.len(), 16);
    assert_eq!((kept[0].number, kept[15].number), (44, 59));
    assert!(kept.windows(2).all(|two| two[0].row.at <= two[1].row.at), "{kept:?}");
    let newest = &kept[15].row;
    assert_eq!((newest.code.as_str(), newest.times), ("stale_token", 5));
    let now = running.clock.wall();
    assert_eq!(
        newest.at.plus(fencegate::domain::time::Millis::new(300)),
        now,
        "it is dated when it was refused"
    );
    // It holds up nobody: a write goes on as before.
    let bob = granted(ledger, acquire("single/b", "bob", 2)).await;
    written(ledger, &Draft::put("single/b", &bob.fencing_tokens[0].0, "one", "x")).await;
    drop(noter);
    running.stop().await;
}

/// A list of what needs a person that leaves out doubts, or finds them only by looking at everything, is no help at night.
async fn those_in_doubt_are_found_by_name(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let doubted = ["lane/b", "lane/d"];
    for (number, name) in ["lane/a", "lane/b", "lane/c", "lane/d"].into_iter().enumerate() {
        let grant = granted(ledger, acquire(name, "alice", u128::try_from(number).unwrap())).await;
        let publish = draft(name, &grant.fencing_tokens[0].0, "publish", 1);
        let intent = announced(ledger, forward(ledger, &publish, 1)).await.intent;
        if doubted.contains(&name) {
            ledger.submit(settle(&intent, Finding::Doubt)).await.unwrap();
        }
    }
    granted(ledger, acquire("single/a", "alice", 9)).await;
    let all: Vec<ResourceName> = ["lane/d", "lane/c", "lane/b", "lane/a", "single/a"].map(resource).into();
    let mut uncertain = ledger.read(move |reader| reader.uncertain(all)).await.unwrap();
    uncertain.sort();
    let publish = OperationId::parse("publish").unwrap();
    assert_eq!(uncertain, doubted.map(|name| (resource(name), publish.clone())));
    let troubled =
        async |filter: ResourceFilter| ledger.read(move |reader| reader.troubled(filter)).await.unwrap();
    let all = ResourceFilter { limit: 10, ..ResourceFilter::default() };
    assert_eq!(troubled(all.clone()).await, doubted.map(resource));
    assert_eq!(troubled(ResourceFilter { limit: 1, ..all.clone() }).await, [resource("lane/b")]);
    let after = Some(resource("lane/b"));
    assert_eq!(troubled(ResourceFilter { after, ..all.clone() }).await, [resource("lane/d")]);
    let namespace = Some(resource("single/a").namespace());
    assert!(troubled(ResourceFilter { namespace, ..all.clone() }).await.is_empty());
    let prefix = Some("lane/d".to_owned());
    assert_eq!(troubled(ResourceFilter { prefix, ..all }).await, [resource("lane/d")]);
    running.stop().await;
}
