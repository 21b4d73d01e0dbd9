//! Random command histories: every engine gives the outcomes of the memory engine, command for command.

use fencegate::domain::operation::Method;
use fencegate::ledger::Ledger;
use fencegate::protocol::Command;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::outcome::{Grant, Outcome};
use futures_util::future::join_all;

use crate::support::commands::{
    Draft, acquire, acquire_all, acquire_waiting, advance, control, goes_first, release, renew, transfer,
};
use crate::support::engines::{Kind, Running, on_engines};

on_engines!([sqlite Sqlite, postgres Postgres], [gives_the_outcomes_of_the_reference]);

pub(super) use crate::support::dice::Dice;

const NAMES: [&str; 11] = [
    "queued/a",
    "delayed/a",
    "single/a",
    "single/b",
    "ordered/a",
    "gapless/a",
    "session/a",
    "scoped/a",
    "scoped/a/x",
    "trusted/a",
    "registered/a",
];

/// What a worker remembers between its calls.
#[derive(Default)]
struct Memory {
    requests: Vec<(&'static str, u128)>,
    grants: Vec<(String, Grant)>,
    drafts: Vec<Draft>,
}

/// What concerns leases beside acquire, renew and release. Several resources only where commands come alone: two
/// committers may meet at them in either order.
fn about_leases(dice: &mut Dice, memory: &mut Memory, ledger: &Ledger, step: u128, alone: bool) -> Command {
    let request = step + 1;
    match dice.roll(8) {
        0 | 1 if alone => {
            let sets: [Vec<&str>; 3] = [
                vec!["single/a", "single/b"],
                vec!["session/a", "single/b", "queued/a"],
                vec!["scoped/a", "single/a"],
            ];
            let names: &Vec<&str> = dice.pick(&sets);
            acquire_all(names, "worker", request)
        }
        2 if !memory.grants.is_empty() => transfer(&dice.pick(&memory.grants).1, "heir", request),
        3 | 4 => {
            let wait = [1_000, 30_000][usize::try_from(dice.roll(2)).unwrap()];
            // A waiter asks again under its own request id.
            let request = if dice.roll(2) == 0 { 900 + u128::from(dice.roll(6)) } else { request };
            acquire_waiting("queued/a", "worker", request, wait)
        }
        5 => acquire("delayed/a", "worker", request),
        _ => {
            let verb = *dice.pick(&[ControlVerb::Revoke, ControlVerb::Cancel, ControlVerb::Reopen]);
            let name = *dice.pick(&["single/a", "single/b", "queued/a", "trusted/a", "session/a"]);
            let key = ["", "key-1", "key-2"][usize::try_from(dice.roll(3)).unwrap()];
            let mine = memory.grants.iter().rev().find(|(owned, _)| owned == name);
            let token = match (name, mine) {
                ("trusted/a", _) => (dice.roll(3) > 0).then(|| (1 + dice.roll(40)).to_string()),
                (_, Some((_, grant))) if dice.roll(2) == 0 => Some(grant.fencing_tokens[0].0.clone()),
                _ => None,
            };
            control(ledger, verb, name, token.as_deref(), key)
        }
    }
}

fn next(dice: &mut Dice, memory: &mut Memory, ledger: &Ledger, step: u128, alone: bool) -> Command {
    match dice.roll(13) {
        10..=12 => about_leases(dice, memory, ledger, step, alone),
        0 | 1 => {
            let holder = if dice.roll(10) == 0 { "somebody else" } else { "worker" };
            // Now and then a request comes again.
            if !memory.requests.is_empty() && dice.roll(5) == 0 {
                let (name, request) = *dice.pick(&memory.requests);
                return acquire(name, holder, request);
            }
            let name = *dice.pick(&[
                "single/a",
                "single/b",
                "ordered/a",
                "gapless/a",
                "session/a",
                "scoped/a",
                "trusted/a",
            ]);
            memory.requests.push((name, step + 1));
            acquire(name, holder, step + 1)
        }
        2 if !memory.grants.is_empty() => renew(&dice.pick(&memory.grants).1),
        3 if !memory.grants.is_empty() => release(&dice.pick(&memory.grants).1),
        4 => {
            let name = if dice.roll(2) == 0 { "trusted/a" } else { "registered/a" };
            advance(ledger, name, &(1 + dice.roll(20)).to_string())
        }
        5 if !memory.drafts.is_empty() => {
            let mut again = dice.pick(&memory.drafts).clone();
            if dice.roll(4) == 0 {
                again.body = b"another payload".to_vec();
            }
            again.command(ledger)
        }
        _ => write(dice, memory, step).command(ledger),
    }
}

fn write(dice: &mut Dice, memory: &mut Memory, step: u128) -> Draft {
    let name = *dice.pick(&NAMES);
    let resource = name.trim_end_matches("/x");
    let mine: Vec<&Grant> =
        memory.grants.iter().filter(|(owned, _)| owned == resource).map(|(_, grant)| grant).collect();
    let token = if mine.is_empty() || dice.roll(12) == 0 {
        (1 + dice.roll(30)).to_string()
    } else {
        // The newest grant most of the time, an older one sometimes.
        let back = usize::try_from(if dice.roll(4) == 0 {
            dice.roll(u64::try_from(mine.len()).unwrap())
        } else {
            0
        })
        .unwrap();
        mine[mine.len() - 1 - back].fencing_tokens[0].0.clone()
    };
    let mut draft = Draft::put(name, &token, &format!("op-{step}"), &format!("body {step}"));
    draft.scope = u16::from(name.starts_with("scoped"));
    if name.starts_with("ordered") || name.starts_with("gapless") {
        draft.sequence = Some(1 + dice.roll(4));
    }
    match dice.roll(8) {
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
    draft
}

async fn play(kind: Kind, seed: u64, steps: u128, batch: u64) -> (Vec<String>, Running) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let (mut dice, mut memory, mut outcomes) = (Dice(seed), Memory::default(), Vec::new());
    let (mut step, mut has_forgotten) = (0, false);
    while step < steps {
        let mut commands = Vec::new();
        for _ in 0..=dice.roll(batch) {
            commands.push(next(&mut dice, &mut memory, ledger, step, batch == 1));
            step += 1;
        }
        commands.sort_by_key(|command| !goes_first(command));
        // Polled in order, so they are queued in order.
        for outcome in join_all(commands.into_iter().map(|command| ledger.submit(command))).await {
            if let Ok(Outcome::Granted(grant)) = &outcome {
                let name = grant.view.lease.resource.to_string();
                memory.grants.push((name, grant.as_ref().clone()));
            }
            outcomes.push(format!("{outcome:?}"));
        }
        if dice.roll(3) == 0 {
            running.clock.advance(dice.roll(40_000));
        }
        if !has_forgotten && step > steps * 3 / 4 {
            // Long after: what is old goes, and everybody goes on.
            has_forgotten = true;
            running.clock.advance(31 * 86_400_000);
            super::retention::forget(ledger).await;
        }
    }
    (outcomes, running)
}

/// Everything that can be read of every name, as text.
async fn read_all(ledger: &Ledger) -> Vec<String> {
    let mut all = Vec::new();
    for name in NAMES {
        let scope = u16::from(name.starts_with("scoped"));
        let address = crate::support::commands::address(name, scope);
        let resource = address.resource.clone();
        all.push(format!("{:?}", ledger.read(move |reader| reader.document(address, true)).await));
        let one = resource.clone();
        all.push(format!("{:?}", ledger.read(move |reader| reader.resource(one)).await));
        let filter =
            fencegate::ledger::read::OperationFilter { resource, state: None, after: None, limit: 1_000 };
        all.push(format!("{:?}", ledger.read(move |reader| reader.operations(filter)).await));
    }
    let filter = fencegate::ledger::read::ResourceFilter { limit: 100, ..Default::default() };
    all.push(format!("{:?}", ledger.read(move |reader| reader.resources(filter)).await));
    all.push(format!("{:?}", ledger.read(|reader| reader.namespaces()).await));
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

/// An engine that loads too little, applies too much or forgets an order would differ from the reference somewhere in
/// these histories, whether commands come alone or many to a batch.
async fn gives_the_outcomes_of_the_reference(kind: Kind) {
    let mut all = String::new();
    for seed in 1..=16 {
        for batch in [1, 12] {
            all.push_str(&compare(kind, seed, 400, batch).await.join("\n"));
        }
    }
    // The histories are worth something only if they reach these.
    for word in [
        "Granted",
        "Renewed",
        "Released",
        "Written",
        "Advanced",
        "replayed: true",
        "repeated: true",
        "StaleToken",
        "GenerationSpent",
        "SequenceRegressed",
        "SequenceGap",
        "PreconditionRequired",
        "PreconditionFailed",
        "Deleted",
        "IncarnationGone",
        "OperationMismatch",
        "LeaseBlocked",
        "LeaseEnded",
        "RequestMismatch",
        "NothingToDelete",
        "TokenJump",
        "AdvanceForbidden",
        "SealMissing",
        "LeaseNotLive",
        "IssuerExternal",
        "Removed",
        "Queued",
        "LockDelay",
        "Controlled",
        "Cancelled",
        "cause: Some(Revoked)",
        "cause: Some(Transferred)",
        "place: Some(",
        "others: [LeaseMember",
        "FreshTokenRequired",
        "incarnation: Incarnation(3)",
        "OperationExpired",
    ] {
        assert!(all.contains(word), "no history reached {word}");
    }
}
