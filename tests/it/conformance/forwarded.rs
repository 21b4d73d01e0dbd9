//! Random histories of stores behind HTTP, with whatever an upstream may answer: every engine gives the outcomes of the
//! memory engine, command for command, and keeps the same rows.

use bytes::Bytes;
use fencegate::domain::operation::{Method, OperationId};
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::{Base, CellSeen, Stamp, StampKind};
use fencegate::ledger::Ledger;
use fencegate::protocol::Command;
use fencegate::protocol::command::{BarrierFinding, Finding, Resolve, ResolveVerdict};
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::{BarrierStep, Grant, Outcome, Settled};
use fencegate::protocol::rows::IntentRow;
use futures_util::future::join_all;

use super::histories::Dice;
use super::lists::listed;
use crate::support::commands::{Draft, acquire, control, epoch, goes_first, release, renew, resource};
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{answer, barrier, draft, forward, resume, settle, validator};

on_engines!([sqlite Sqlite, postgres Postgres], [gives_the_outcomes_of_the_reference]);

const NAMES: [&str; 8] =
    ["cells/a", "cells/b", "aware/a", "aware/b", "keyed/a", "lane/a", "guarded/a", "told/a"];

const OWNED: [&str; 3] = ["lane/a", "guarded/a", "told/a"];

/// What the gateway remembers between its steps.
#[derive(Default)]
struct Memory {
    requests: Vec<(&'static str, u128)>,
    grants: Vec<(String, Grant)>,
    drafts: Vec<Draft>,
    /// Announcements as they were last seen; older ones stay, for late answers.
    intents: Vec<IntentRow>,
    /// Whether commands come one at a time. A store that is ahead of the record trips the breaker, and of several that
    /// came together it is not said which of them still come before that.
    alone: bool,
    /// Epochs that were begun after that.
    epoch: u128,
    /// Rewrites that a barrier asked for.
    rewrites: Vec<(&'static str, Base, Stamp)>,
}

impl Memory {
    fn learn(&mut self, outcome: &Outcome, about: &'static str) {
        match outcome {
            Outcome::Granted(grant) => {
                self.grants.push((grant.view.lease.resource.to_string(), grant.as_ref().clone()));
            }
            Outcome::Announced(attempt) => self.intents.push(attempt.intent.clone()),
            Outcome::Settled(settled) => {
                if let Settled::Again(attempt) = settled.as_ref() {
                    self.intents.push(attempt.intent.clone());
                }
            }
            Outcome::Barrier(step) => {
                if let BarrierStep::Rewrite(base, stamp) = step.as_ref() {
                    self.rewrites.push((about, base.clone(), stamp.clone()));
                }
            }
            _ => {}
        }
    }

    /// An announcement, mostly a late one.
    fn intent(&self, dice: &mut Dice) -> Option<&IntentRow> {
        let back = if dice.roll(4) == 0 { 40 } else { 6 };
        let some = self.intents.iter().rev().take(back).collect::<Vec<_>>();
        (!some.is_empty()).then(|| *dice.pick(&some))
    }
}

/// A stamp: the one that this announcement writes, or one that is nearly it.
fn stamp(dice: &mut Dice, intent: &IntentRow) -> Stamp {
    let record = &intent.record;
    let kind =
        *dice.pick(&[StampKind::Content, StampKind::Content, StampKind::Tombstone, StampKind::Barrier]);
    let ours = matches!(kind, StampKind::Content | StampKind::Tombstone);
    Stamp {
        kind,
        incarnation: record.incarnation,
        position: record.position,
        commit: fencegate::domain::counter::CommitNo::new(1 + dice.roll(3)).unwrap(),
        operation_id: ours.then(|| record.operation_id.clone()),
    }
}

fn seen(dice: &mut Dice, memory: &Memory, intent: &IntentRow) -> CellSeen {
    let found = validator(&format!("v{}", dice.roll(4)));
    match dice.roll(8) {
        0 => CellSeen::Absent,
        1 => CellSeen::Unstamped(found),
        2 => CellSeen::Strange("no validator".to_owned()),
        3 => match memory.intent(dice) {
            Some(other) if memory.alone => CellSeen::Stamped(found, stamp(dice, other)),
            Some(_) | None => CellSeen::Absent,
        },
        // As it was recorded when the send was announced.
        4 | 5 => match &intent.base {
            Base::Recorded(recorded) => CellSeen::Unstamped(recorded.clone()),
            Base::Absent | Base::Unread => CellSeen::Absent,
        },
        _ => {
            let stamp = stamp(dice, intent);
            let ours = stamp.operation_id.is_some();
            if memory.alone || ours { CellSeen::Stamped(found, stamp) } else { CellSeen::Unstamped(found) }
        }
    }
}

fn finding(dice: &mut Dice, memory: &Memory, intent: &IntentRow) -> Finding {
    let relayed = |dice: &mut Dice| {
        let status = *dice.pick(&[200, 201, 204, 200, 400, 401, 404, 409, 412, 422, 500, 503]);
        let etag = ["\"v0\"", "\"v1\"", "W/\"v2\""][usize::try_from(dice.roll(3)).unwrap()];
        let body = vec![b'x'; [0, 5, 70_000][usize::try_from(dice.roll(3)).unwrap()]];
        Box::new(answer(status, (dice.roll(4) > 0).then_some(etag), Bytes::from(body)))
    };
    match dice.roll(12) {
        0..=4 => {
            let answer = relayed(dice);
            let holds = (dice.roll(4) == 0).then_some(intent.record.position);
            Finding::Answered(answer, holds.and_then(|at| at.following_in(at.epoch)))
        }
        5 => Finding::NotSent,
        6 => Finding::Doubt,
        7 => Finding::Unreadable,
        8 => Finding::Known(relayed(dice)),
        _ => Finding::Cell(seen(dice, memory, intent)),
    }
}

fn step(dice: &mut Dice, memory: &Memory) -> Option<(Command, &'static str)> {
    let intent = memory.intent(dice)?;
    let about = NAMES.into_iter().find(|name| *name == intent.record.resource.as_str())?;
    let command = match dice.roll(10) {
        0 | 1 => resume(intent),
        2 => Command::Resolve(Resolve {
            resource: intent.record.resource.clone(),
            operation_id: intent.record.operation_id.clone(),
            incarnation: intent.record.incarnation,
            verdict: *dice.pick(&[ResolveVerdict::Applied, ResolveVerdict::NotApplied]),
            evidence: "seen".to_owned(),
            reason: "a test".to_owned(),
        }),
        _ => settle(intent, finding(dice, memory, intent)),
    };
    Some((command, about))
}

fn barrier_step(dice: &mut Dice, memory: &Memory) -> (Command, &'static str) {
    let about = *dice.pick(&NAMES);
    let grant =
        memory.grants.iter().rev().find(|(name, _)| name == about).map(|(_, grant)| &grant.view.lease);
    let wish = memory.rewrites.iter().rev().find(|(name, _, _)| *name == about);
    let learnt = match (dice.roll(6), grant, wish) {
        (0, _, _) => BarrierFinding::Nothing,
        (1 | 2, _, Some((_, base, stamp))) => BarrierFinding::Rewritten {
            position: stamp.position,
            base: base.clone(),
            validator: validator(&format!("b{}", dice.roll(3))),
        },
        (3, Some(lease), _) => BarrierFinding::Acknowledged(lease.position),
        (4, Some(lease), _) if dice.roll(4) == 0 => BarrierFinding::Holds(lease.position),
        _ => {
            let recorded = (dice.roll(3) > 0).then(|| validator("v0"));
            let seen = match dice.roll(3) {
                0 => CellSeen::Absent,
                1 => CellSeen::Unstamped(validator(&format!("v{}", dice.roll(2)))),
                _ if !memory.alone => CellSeen::Unstamped(validator("v0")),
                _ => memory.intent(dice).map_or(CellSeen::Absent, |intent| {
                    CellSeen::Stamped(validator("v0"), stamp(dice, intent))
                }),
            };
            BarrierFinding::Cell { recorded, seen }
        }
    };
    (barrier(about, grant.map(fencegate::protocol::rows::LeaseRow::place), learnt), about)
}

fn write(dice: &mut Dice, memory: &mut Memory, step: u128) -> (Draft, &'static str) {
    let name = *dice.pick(&NAMES);
    let mut own = memory.grants.iter().rev().filter(|(owned, _)| owned == name);
    let sealed = own.find_map(|(_, grant)| grant.fencing_tokens.first());
    let token = match sealed {
        Some(token) if dice.roll(12) > 0 => token.0.clone(),
        _ => format!("{}.{}", memory.epoch, 1 + u64::try_from(step).unwrap() / 12 + dice.roll(5)),
    };
    let ordered = name.starts_with("aware") || name.starts_with("keyed") || name.starts_with("lane");
    let mut draft = draft(name, &token, &format!("op-{step}"), if ordered { 1 + dice.roll(6) } else { 0 });
    match dice.roll(9) {
        0 | 1 => {
            draft.method = Method::Delete;
            draft.body.clear();
        }
        2 => draft.if_match = Some(format!("\"1.{}\"", 1 + dice.roll(4))),
        3 => draft.if_none_match = Some("*".to_owned()),
        4 => draft.incarnation = Some(1 + dice.roll(2)),
        _ => {}
    }
    memory.drafts.push(draft.clone());
    (draft, name)
}

fn next(dice: &mut Dice, memory: &mut Memory, ledger: &Ledger, number: u128) -> (Command, &'static str) {
    let claim = u64::try_from(number).unwrap() + 1;
    match dice.roll(16) {
        0 | 1 => {
            if !memory.requests.is_empty() && dice.roll(2) == 0 {
                let (name, request) = *memory.requests.last().unwrap();
                return (acquire(name, "worker", request), name);
            }
            let name = *dice.pick(&OWNED);
            memory.requests.push((name, number + 1));
            (acquire(name, "worker", number + 1), name)
        }
        2 if !memory.grants.is_empty() => {
            let (_, grant) = dice.pick(&memory.grants);
            (if dice.roll(2) == 0 { release(grant) } else { renew(grant) }, "")
        }
        3 if dice.roll(2) == 0 => {
            let name = *dice.pick(&NAMES);
            let verb = *dice.pick(&[ControlVerb::Revoke, ControlVerb::Cancel, ControlVerb::Reopen]);
            (control(ledger, verb, name, None, ""), name)
        }
        4 | 5 => barrier_step(dice, memory),
        6 if !memory.drafts.is_empty() => {
            let late: Vec<Draft> = memory.drafts.iter().rev().take(12).cloned().collect();
            let mut again = dice.pick(&late).clone();
            if dice.roll(6) == 0 {
                again.body = b"another payload".to_vec();
            }
            (forward(ledger, &again, claim - dice.roll(2)), "")
        }
        7..=12 => match step(dice, memory) {
            Some(step) => step,
            None => barrier_step(dice, memory),
        },
        _ => {
            let (draft, name) = write(dice, memory, number);
            (forward(ledger, &draft, claim), name)
        }
    }
}

async fn play(kind: Kind, seed: u64, steps: u128, batch: u64) -> (Vec<String>, Running) {
    let mut running = Running::start(kind).await;
    let (mut dice, mut outcomes) = (Dice(seed), Vec::new());
    let mut memory = Memory { alone: batch == 1, ..Memory::default() };
    let mut number = 0;
    while number < steps {
        let mut commands = Vec::new();
        for _ in 0..=dice.roll(batch) {
            commands.push(next(&mut dice, &mut memory, &running.ledger, number));
            number += 1;
        }
        commands.sort_by_key(|(command, _)| !goes_first(command));
        let about: Vec<&str> = commands.iter().map(|(_, about)| *about).collect();
        let ledger = &running.ledger;
        let answers = join_all(commands.into_iter().map(|(command, _)| ledger.submit(command))).await;
        for (outcome, about) in answers.iter().zip(about) {
            if let Ok(outcome) = outcome {
                memory.learn(outcome, about);
            }
            outcomes.push(format!("{outcome:?}"));
        }
        if memory.alone && dice.roll(8) == 0 && !running.ledger.stopped().await.unwrap().is_empty() {
            memory.epoch += 1;
            let begun = epoch("*", &memory.epoch.to_string(), "a test", true);
            outcomes.push(format!("{:?}", running.ledger.submit(begun).await));
        }
        if dice.roll(3) == 0 {
            running.clock.advance(*dice.pick(&[1, 100, 2_000, 7_000, 30_000]));
        }
        if kind != Kind::Memory && dice.0 % 97 == 0 {
            running = running.restart().await;
        }
    }
    (outcomes, running)
}

/// Everything that can be read of every name, as text.
async fn read_all(ledger: &Ledger) -> Vec<String> {
    let mut all = Vec::new();
    for name in NAMES {
        let one = resource(name);
        all.push(format!("{:?}", ledger.read(move |reader| reader.resource(one)).await));
        let one = resource(name);
        let undecided = ledger.read(move |reader| reader.intents(one)).await.unwrap();
        for intent in &undecided {
            let key = intent.key();
            let body = ledger.read(move |reader| reader.payload(key)).await.unwrap();
            all.push(format!("{:?} {body:?}", intent.key()));
        }
        all.push(format!("{undecided:?}"));
        let whole = listed(ledger, name, None, 1_000).await;
        for limit in [1, 3, 10] {
            assert_eq!(listed(ledger, name, None, limit).await, whole);
        }
        for record in &whole {
            let (one, id): (_, OperationId) = (resource(name), record.operation_id.clone());
            all.push(format!("{:?}", ledger.read(move |reader| reader.operation(one, id, None)).await));
        }
        for state in fencegate::domain::operation::OperationState::ALL {
            all.push(format!("{:?}", listed(ledger, name, Some(state), 2).await));
        }
        all.push(format!("{whole:?}"));
    }
    let now = ledger.read(|reader| reader.time()).await.unwrap();
    all.push(format!("{:?}", ledger.read(move |reader| reader.due(now, None, 3)).await));
    all.push(format!(
        "{:?}",
        ledger.read(move |reader| reader.due(Timestamp::from_ms(i64::MAX), None, 100)).await
    ));
    all.push(format!("{:?}", ledger.read(move |reader| reader.pending(now, None, 10)).await));
    all
}

async fn compare(kind: Kind, seed: u64, steps: u128, batch: u64) -> Vec<String> {
    let (expected, memory) = play(Kind::Memory, seed, steps, batch).await;
    let (found, other) = play(kind, seed, steps, batch).await;
    for (step, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(found, expected, "seed {seed}, command {step}");
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(
        read_all(&other.ledger).await,
        read_all(&memory.ledger).await,
        "seed {seed}: what can be read"
    );
    memory.stop().await;
    other.stop().await;
    expected
}

async fn gives_the_outcomes_of_the_reference(kind: Kind) {
    let mut all = String::new();
    for seed in 1..=16 {
        for batch in [1, 12] {
            all.push_str(&compare(kind, seed, 300, batch).await.join("\n"));
        }
    }
    // The histories are worth something only if they reach these.
    for word in [
        "Announced",
        "Done(",
        "Withdrawn(",
        "Again(",
        "Later(",
        "Uncertain(",
        "Moved",
        "Resolved(",
        "AlreadyResolved",
        "NotUncertain",
        "Stands(",
        "Rewrite(",
        "Advance(",
        "Undecided(",
        "Quarantined",
        "Stopped",
        "Acted",
        "PendingBarrier",
        "replayed: true",
        "OperationInProgress",
        "OutcomeUncertain",
        "NotApplied",
        "OperationMismatch",
        "LaneBusy",
        "StaleToken",
        "omitted: Some",
        "done: Nothing",
        "done: Removed",
        "incarnation: Incarnation(2)",
        "assumed: true",
        "assumed: false",
    ] {
        assert!(all.contains(word), "no history reached {word}");
    }
}
