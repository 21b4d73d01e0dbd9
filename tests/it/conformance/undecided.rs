//! The life of an announced operation over every engine, with a restart at every turn where an engine keeps anything.

use std::slice::from_ref;

use bytes::Bytes;
use fencegate::domain::breaker::Detector;
use fencegate::domain::lease::LeaseState;
use fencegate::domain::operation::{OperationId, OperationState};
use fencegate::domain::upstream::{CellSeen, Stamp, StampKind};
use fencegate::ledger::Ledger;
use fencegate::protocol::command::{BarrierFinding, Finding, Resolve, ResolveVerdict};
use fencegate::protocol::outcome::{BarrierStep, Outcome, Refusal, Settled, Withdrawal};
use fencegate::protocol::rows::{Done, IntentRow, OperationRecord, ResourceRow};

use crate::support::commands::{acquire, epoch, granted, refused, resource};
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{
    announced, answer, answered, barrier, draft, forward, position, resume, settle, settled, unstamped,
    validator,
};

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [
    an_announced_operation_is_found_by_its_retry,
    an_announcement_comes_back_as_it_was,
    what_is_due_is_paged_through,
    a_floor_stands_with_the_announcement_that_raised_it,
    what_an_upstream_answered_is_given_again,
    a_withdrawn_id_is_free_again,
    of_two_who_settle_one_attempt_one_is_right,
    a_person_ends_a_doubt_once,
    what_is_known_of_a_cell_is_kept,
    a_lease_waits_for_its_barrier,
    a_refused_re_creation_stays_refused,
]);

/// What a restart must not change; the memory engine keeps nothing.
async fn again(running: Running, kind: Kind) -> Running {
    if kind == Kind::Memory { running } else { running.restart().await }
}

async fn intents(ledger: &Ledger, name: &str) -> Vec<IntentRow> {
    let resource = resource(name);
    ledger.read(move |reader| reader.intents(resource)).await.unwrap()
}

async fn row(ledger: &Ledger, name: &str) -> ResourceRow {
    let resource = resource(name);
    ledger.read(move |reader| reader.resource(resource)).await.unwrap().unwrap().resource
}

async fn operation(ledger: &Ledger, name: &str, id: &str) -> Option<OperationRecord> {
    let (resource, id) = (resource(name), OperationId::parse(id).unwrap());
    ledger.read(move |reader| reader.operation(resource, id, None)).await.unwrap()
}

/// A retry that found nothing would send the effect a second time. The delivery that announced it knows its own
/// announcement again, when the commit of it was in doubt.
async fn an_announced_operation_is_found_by_its_retry(kind: Kind) {
    let running = Running::start(kind).await;
    let publish = draft("aware/a", "7", "publish", 1);
    let first = announced(&running.ledger, forward(&running.ledger, &publish, u64::MAX)).await;
    let running = again(running, kind).await;
    let ledger = &running.ledger;
    assert_eq!(announced(ledger, forward(ledger, &publish, u64::MAX)).await.intent, first.intent);
    assert_eq!(refused(ledger, forward(ledger, &publish, 2)).await, Refusal::OperationInProgress);
    let mut other = publish.clone();
    other.body = b"another payload".to_vec();
    assert_eq!(refused(ledger, forward(ledger, &other, 3)).await, Refusal::OperationMismatch);
    assert_eq!(operation(ledger, "aware/a", "publish").await, Some(first.intent.record));
    running.stop().await;
}

/// Broken: the announcement of a newer owner is durable, and after a crash an older one is let in, since the floor was
/// nowhere but in memory. Must hold: it is as high as what was announced, however it is looked at, and stays so when that
/// was withdrawn in the very millisecond in which it was announced.
async fn a_floor_stands_with_the_announcement_that_raised_it(kind: Kind) {
    let running = Running::start(kind).await;
    let old = announced(&running.ledger, forward(&running.ledger, &draft("aware/a", "5", "old", 1), 1)).await;
    settled(&running.ledger, settle(&old.intent, answered(200))).await;
    let newer =
        announced(&running.ledger, forward(&running.ledger, &draft("aware/a", "9", "newer", 1), 2)).await;
    let running = again(running, kind).await;
    assert_eq!(row(&running.ledger, "aware/a").await.floor, position("0.9"));
    let stale =
        refused(&running.ledger, forward(&running.ledger, &draft("aware/a", "7", "stale", 1), 3)).await;
    assert!(matches!(stale, Refusal::StaleToken { .. }), "{stale:?}");
    settled(&running.ledger, settle(&newer.intent, Finding::NotSent)).await;
    let running = again(running, kind).await;
    assert_eq!(row(&running.ledger, "aware/a").await.floor, position("0.9"));
    let stale =
        refused(&running.ledger, forward(&running.ledger, &draft("aware/a", "7", "stale", 1), 4)).await;
    assert!(matches!(stale, Refusal::StaleToken { .. }), "{stale:?}");
    running.stop().await;
}

/// Whoever takes the next step after a crash has nothing but what the database kept.
async fn an_announcement_comes_back_as_it_was(kind: Kind) {
    let running = Running::start(kind).await;
    let mut publish = draft("cells/a", "7", "publish", 0);
    publish.if_match = Some("\"1.2\", W/\"a\"".to_owned());
    publish.if_none_match = Some("\"9.9\"".to_owned());
    publish.incarnation = Some(1);
    let refused_one = refused(&running.ledger, forward(&running.ledger, &publish, 1)).await;
    assert!(matches!(refused_one, Refusal::PreconditionFailed { .. }));
    publish.if_match = None;
    let first = announced(&running.ledger, forward(&running.ledger, &publish, 1 << 63)).await;
    running.clock.advance(10);
    let read = settled(&running.ledger, settle(&first.intent, unstamped("v0"))).await;
    let Settled::Again(second) = read else { panic!("{read:?}") };
    assert_eq!(second.intent.record.attempt, 2);
    let running = again(running, kind).await;
    assert_eq!(intents(&running.ledger, "cells/a").await, from_ref(&second.intent));
    let due = |at| running.ledger.read(move |reader| reader.due(at, None, 10));
    assert_eq!(due(second.intent.due_at).await.unwrap(), from_ref(&second.intent));
    let before = fencegate::domain::time::Timestamp::from_ms(second.intent.due_at.ms() - 1);
    assert_eq!(due(before).await.unwrap(), []);
    let key = second.intent.key();
    let body = running.ledger.read(move |reader| reader.payload(key)).await.unwrap().unwrap();
    assert_eq!(crate::support::forwards::bytes_of(&body), "body of publish");
    running.stop().await;
}

/// Whoever looks for what is due comes past what stays due, however much falls due at the same time.
async fn what_is_due_is_paged_through(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let mut all = Vec::new();
    for (number, name) in ["aware/b", "aware/a", "aware/c", "keyed/a", "keyed/b"].into_iter().enumerate() {
        let publish = draft(name, "7", "publish", 1);
        all.push(announced(ledger, forward(ledger, &publish, 1)).await.intent);
        running.clock.advance(u64::from(number == 3));
    }
    let now = all[4].due_at;
    all.sort_by_key(|intent| (intent.due_at, intent.key()));
    for limit in 1..=6 {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = ledger.read(move |reader| reader.due(now, after, limit)).await.unwrap();
            after = page.last().map(|intent| (intent.due_at, intent.key()));
            found.extend(page);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, all, "{limit} at once");
    }
    running.stop().await;
}

/// A replay gives what the upstream answered, byte for byte, also where its body was too large to be kept.
async fn what_an_upstream_answered_is_given_again(kind: Kind) {
    let mut running = Running::start(kind).await;
    let large = Bytes::from(vec![b'x'; 64 * 1024 + 1]);
    let kept = Bytes::from(vec![0; 64 * 1024]);
    for (id, sequence, relayed) in [
        ("one", 1, answer(201, Some("W/\"weak\""), Bytes::from_static(b"\xff\0"))),
        ("two", 2, answer(200, None, large)),
        ("three", 3, answer(299, Some("\"v\""), kept)),
        ("four", 4, answer(422, None, Bytes::new())),
    ] {
        let publish = draft("aware/a", "7", id, sequence);
        let first = announced(&running.ledger, forward(&running.ledger, &publish, 1)).await;
        let finding = Finding::Answered(Box::new(relayed.clone()), None);
        let decided = settled(&running.ledger, settle(&first.intent, finding)).await;
        let Settled::Done(written) = decided else { panic!("{decided:?}") };
        running = again(running, kind).await;
        let replay = running.ledger.submit(forward(&running.ledger, &publish, 2)).await.unwrap();
        let Outcome::Written(members) = replay else { panic!("{replay:?}") };
        assert!(members[0].replayed);
        assert_eq!(members[0].response, written.response);
        let head = members[0].response.relayed.clone().unwrap();
        assert_eq!(
            (head.status, &head.headers, &head.etag),
            (relayed.status, &relayed.headers, &relayed.etag)
        );
        assert_eq!(head.omitted.is_some(), id == "two");
        assert_eq!(members[0].response.commit.is_none(), id == "four");
        let key = first.intent.key();
        assert_eq!(running.ledger.read(move |reader| reader.payload(key)).await, Ok(None));
    }
    assert_eq!(intents(&running.ledger, "aware/a").await, []);
    let last = operation(&running.ledger, "aware/a", "four").await.unwrap();
    assert_eq!((last.state, last.response.unwrap().done), (OperationState::Refused, Done::Nothing));
    running.stop().await;
}

/// Nothing was sent, so nothing happened, and the same id may try again: in a batch of its own or in the same one.
async fn a_withdrawn_id_is_free_again(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let publish = draft("lane/a", "1", "publish", 1);
    let grant = granted(ledger, acquire("lane/a", "alice", 1)).await;
    let publish = crate::support::commands::Draft { token: grant.fencing_tokens[0].0.clone(), ..publish };
    let mut intent = announced(ledger, forward(ledger, &publish, 1)).await.intent;
    for claim in 2..30 {
        // The first of them occupies the committer, so that the other two are decided in one batch.
        let busy = [draft("aware/b", &claim.to_string(), &format!("op-{claim}"), 1)];
        let mut commands = vec![forward(ledger, &busy[0], claim)];
        commands.push(settle(&intent, Finding::NotSent));
        commands.push(forward(ledger, &publish, claim));
        let mut outcomes =
            futures_util::future::join_all(commands.into_iter().map(|command| ledger.submit(command))).await;
        let Ok(Outcome::Announced(attempt)) = outcomes.pop().unwrap() else { panic!("{claim}") };
        let Ok(Outcome::Settled(one)) = outcomes.pop().unwrap() else { panic!("{claim}") };
        assert!(matches!(*one, Settled::Withdrawn(_, Withdrawal::Unreachable, _)), "{one:?}");
        assert_eq!(attempt.intent.claim, claim);
        assert_eq!(intents(ledger, "lane/a").await, from_ref(&attempt.intent));
        let Ok(Outcome::Announced(other)) = outcomes.pop().unwrap() else { panic!("{claim}") };
        settled(ledger, settle(&other.intent, answered(200))).await;
        intent = attempt.intent;
    }
    assert!(matches!(settled(ledger, settle(&intent, answered(200))).await, Settled::Done(_)));
    assert_eq!(intents(ledger, "lane/a").await, []);
    running.stop().await;
}

/// Two who judge the same attempt, one of them late, must not both be believed.
async fn of_two_who_settle_one_attempt_one_is_right(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let mut intent = announced(ledger, forward(ledger, &draft("keyed/a", "7", "publish", 1), 1)).await.intent;
    // One attempt and the grace, then twice what also asks first.
    for wait in [6_000, 11_000, 11_000] {
        running.clock.advance(wait);
        let both = [resume(&intent), resume(&intent)].map(|command| ledger.submit(command));
        let outcomes = futures_util::future::join_all(both).await;
        let moved = outcomes
            .iter()
            .filter(|one| matches!(one, Ok(Outcome::Settled(settled)) if **settled == Settled::Moved));
        assert_eq!(moved.count(), 1, "{outcomes:?}");
        let found = intents(ledger, "keyed/a").await.remove(0);
        assert_eq!((found.record.attempt, found.doubt), (intent.record.attempt + 1, true));
        assert_eq!(settled(ledger, settle(&intent, answered(200))).await, Settled::Moved);
        intent = found;
    }
    let both = [settle(&intent, answered(200)), settle(&intent, answered(400))];
    let outcomes = futures_util::future::join_all(both.map(|command| ledger.submit(command))).await;
    let [Ok(Outcome::Settled(first)), Ok(Outcome::Settled(second))] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert!(matches!(**first, Settled::Done(_)));
    assert_eq!(**second, Settled::Moved);
    running.stop().await;
}

/// What a person said stands for ever, with evidence and reason.
async fn a_person_ends_a_doubt_once(kind: Kind) {
    let mut running = Running::start(kind).await;
    for (number, verdict) in [(1, ResolveVerdict::Applied), (2, ResolveVerdict::NotApplied)] {
        let name = format!("lane/{number}");
        let grant = granted(&running.ledger, acquire(&name, "alice", number)).await;
        let publish = draft(&name, &grant.fencing_tokens[0].0, "publish", 1);
        let intent = announced(&running.ledger, forward(&running.ledger, &publish, 1)).await.intent;
        let doubt = settled(&running.ledger, settle(&intent, Finding::Doubt)).await;
        assert!(matches!(doubt, Settled::Uncertain(_)));
        running = again(running, kind).await;
        let ledger = &running.ledger;
        assert_eq!(refused(ledger, forward(ledger, &publish, 2)).await, Refusal::OutcomeUncertain);
        let resolve = |verdict| {
            fencegate::protocol::Command::Resolve(Resolve {
                resource: resource(&name),
                operation_id: OperationId::parse("publish").unwrap(),
                incarnation: intent.record.incarnation,
                verdict,
                evidence: "seen\nin the log".to_owned(),
                reason: "ticket 7".to_owned(),
            })
        };
        let said = ledger.submit(resolve(verdict)).await.unwrap();
        let Outcome::Resolved(record) = said else { panic!("{said:?}") };
        running = again(running, kind).await;
        let ledger = &running.ledger;
        assert_eq!(operation(ledger, &name, "publish").await, Some(record.as_ref().clone()));
        assert_eq!(record.resolution.as_ref().unwrap().evidence, "seen\nin the log");
        assert_eq!(ledger.submit(resolve(verdict)).await, Ok(Outcome::Resolved(record)));
        let other = match verdict {
            ResolveVerdict::Applied => ResolveVerdict::NotApplied,
            ResolveVerdict::NotApplied => ResolveVerdict::Applied,
        };
        assert!(matches!(refused(ledger, resolve(other)).await, Refusal::AlreadyResolved { .. }));
        assert_eq!(intents(ledger, &name).await, []);
    }
    running.stop().await;
}

/// A gateway that forgot which state of a cell it knows would send on any state, and one that forgot a barrier or a
/// quarantine would let older writes through.
async fn what_is_known_of_a_cell_is_kept(kind: Kind) {
    let running = Running::start(kind).await;
    let grant = granted(&running.ledger, acquire("guarded/a", "alice", 1)).await;
    assert_eq!(grant.view.state, LeaseState::PendingBarrier);
    let seen = BarrierFinding::Cell { recorded: None, seen: CellSeen::Unstamped(validator("v0")) };
    let step = running.ledger.submit(barrier("guarded/a", None, seen)).await.unwrap();
    let Outcome::Barrier(step) = step else { panic!("{step:?}") };
    let BarrierStep::Rewrite(base, stamp) = *step else { panic!("{step:?}") };
    let running = again(running, kind).await;
    assert_eq!(row(&running.ledger, "guarded/a").await.cell, Some(validator("v0")));
    let (at, new) = (stamp.position, validator("v1"));
    let rewritten = BarrierFinding::Rewritten { position: at, base, validator: new.clone() };
    let stands = running.ledger.submit(barrier("guarded/a", None, rewritten)).await.unwrap();
    let Outcome::Barrier(stands) = stands else { panic!("{stands:?}") };
    let running = again(running, kind).await;
    let found = row(&running.ledger, "guarded/a").await;
    assert_eq!(*stands, BarrierStep::Stands(found.clone()));
    assert_eq!((found.cell, found.barrier, found.quarantined), (Some(new), at, None));
    let foreign = Stamp { kind: StampKind::EmptyBarrier, position: position("9.9"), ..stamp };
    let seen = BarrierFinding::Cell {
        recorded: Some(validator("v1")),
        seen: CellSeen::Stamped(validator("v9"), foreign),
    };
    running.ledger.submit(barrier("guarded/a", None, seen)).await.unwrap();
    let running = again(running, kind).await;
    let found = row(&running.ledger, "guarded/a").await.quarantined.unwrap();
    // A barrier that nobody here has set: the record is behind, and the whole namespace stands still until a new epoch.
    let stopped = refused(&running.ledger, acquire("guarded/b", "bob", 2)).await;
    let Refusal::Stopped { breaker, .. } = stopped else { panic!("{stopped:?}") };
    assert!(breaker.detector == Detector::Store && breaker.found.contains(&found), "{breaker:?}");
    running.ledger.submit(epoch("guarded", "key", "looked", false)).await.unwrap();
    assert_eq!(
        refused(&running.ledger, acquire("guarded/a", "bob", 3)).await,
        Refusal::Quarantined { found }
    );
    running.stop().await;
}

/// An owner waits until nothing older can come; the gateway finds the waiting one, and its end.
async fn a_lease_waits_for_its_barrier(kind: Kind) {
    let running = Running::start(kind).await;
    let alice = granted(&running.ledger, acquire("guarded/a", "alice", 1)).await;
    running.clock.advance(1);
    let bob = granted(&running.ledger, acquire("told/b", "bob", 2)).await;
    let running = again(running, kind).await;
    let ledger = &running.ledger;
    let now = ledger.read(|reader| reader.time()).await.unwrap();
    let pending = |limit| ledger.read(move |reader| reader.pending(now, None, limit));
    assert_eq!(pending(9).await.unwrap(), [alice.view.lease.clone(), bob.view.lease.clone()]);
    assert_eq!(pending(1).await.unwrap(), from_ref(&alice.view.lease));
    let behind = (alice.view.lease.granted_at, alice.view.lease.acquisition);
    let rest = ledger.read(move |reader| reader.pending(now, Some(behind), 9)).await.unwrap();
    assert_eq!(rest, from_ref(&bob.view.lease));
    let place = bob.view.lease.place();
    let reached = BarrierFinding::Acknowledged(bob.view.lease.position);
    ledger.submit(barrier("told/b", Some(place), reached)).await.unwrap();
    assert_eq!(pending(9).await.unwrap(), from_ref(&alice.view.lease));
    let held = granted(ledger, acquire("told/b", "bob", 2)).await;
    assert!(held.repeated && held.view.state == LeaseState::Held && held.fencing_tokens.len() == 1);
    running.clock.advance(30_000);
    let now = ledger.read(|reader| reader.time()).await.unwrap();
    assert_eq!(ledger.read(move |reader| reader.pending(now, None, 9)).await.unwrap(), []);
    let expired = ledger.read(move |reader| reader.expired(now, 9)).await.unwrap();
    assert_eq!(expired, [alice.view.lease.place(), place]);
    let first = ledger.read(move |reader| reader.expired(now, 1)).await.unwrap();
    assert_eq!(first, [alice.view.lease.place()]);
    running.stop().await;
}

/// A deleted resource is created again only if the store takes it. Where it does not, the refusal is bound to the id: a
/// retry is told the same and is not sent a second time.
async fn a_refused_re_creation_stays_refused(kind: Kind) {
    let running = Running::start(kind).await;
    let mut remove = draft("aware/a", "7", "remove", 1);
    remove.method = fencegate::domain::operation::Method::Delete;
    remove.body.clear();
    let intent = announced(&running.ledger, forward(&running.ledger, &remove, 1)).await.intent;
    settled(&running.ledger, settle(&intent, answered(204))).await;
    let create = draft("aware/a", "8", "create", 1);
    let intent = announced(&running.ledger, forward(&running.ledger, &create, 1)).await.intent;
    assert_eq!(intent.record.incarnation.get(), 2);
    let decided = settled(&running.ledger, settle(&intent, answered(400))).await;
    let Settled::Done(written) = decided else { panic!("{decided:?}") };
    let running = again(running, kind).await;
    let ledger = &running.ledger;
    let replay = ledger.submit(forward(ledger, &create, 2)).await.unwrap();
    let Outcome::Written(members) = replay else { panic!("{replay:?}") };
    assert!(members[0].replayed && members[0].response == written.response);
    assert_eq!(operation(ledger, "aware/a", "create").await.unwrap().state, OperationState::Refused);
    running.stop().await;
}
