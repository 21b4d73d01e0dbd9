//! Random histories that can be told again: gateways, workers, operators and stores in virtual time on one thread, over
//! the reference engine. Each seed is a world and a schedule of what happens in it: requests that are late, doubled or
//! lost, commits without an outcome, gateways that stop, a database that goes back to an earlier commit.
//!
//! `FENCEGATE_SIMULATION_SEEDS=n` runs n seeds, from `FENCEGATE_SIMULATION_FROM=s` on where that is given;
//! `FENCEGATE_SIMULATION_SEED=s` runs one and prints its trace. A
//! seed that fails is made short by leaving events out, and printed as a story.

mod bugs;
mod clients;
mod database;
mod durable;
mod events;
mod gateway;
mod judge;
mod reduce;
mod run;
mod sim;
mod store;
mod upstream;
mod variants;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock as _;

use self::bugs::Bug;
use self::events::Schedule;
use self::reduce::{reduce, story};
use self::run::run;
use self::sim::Reached;
use crate::support::code::Code;

/// Seeds of an ordinary run.
const SEEDS: u64 = 300;

/// Within so many seeds each wrong gateway is found out.
const SEEDS_PER_BUG: u64 = 300;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// What every set of seeds must have reached, so that it is known to have tried it.
const CODES: [Code; 31] = [
    Code::Admitted,
    Code::Replayed,
    Code::Announced,
    Code::Settled,
    Code::Resolved,
    Code::Barrier,
    Code::OperationMismatch,
    Code::OperationInProgress,
    Code::OutcomeUncertain,
    Code::Deleted,
    Code::Cancelled,
    Code::StaleToken,
    Code::OperationExpired,
    Code::LeaseNotLive,
    Code::GenerationSpent,
    Code::SequenceRegressed,
    Code::LaneBusy,
    Code::NothingToDelete,
    Code::AdvanceForbidden,
    Code::Stopped,
    Code::Granted,
    Code::Repeated,
    Code::Renewed,
    Code::Released,
    Code::LeaseHeld,
    Code::LeaseEnded,
    Code::Advanced,
    Code::Controlled,
    Code::ControlReplayed,
    Code::Acted,
    Code::Tidied,
];

/// Steps that must have been taken.
const STEPS: [&str; 14] = [
    "send",
    "read the cell",
    "decided",
    "withdrawn",
    "later",
    "uncertain",
    "moved",
    "resolved",
    "barrier stands",
    "commit unknown",
    "forbidden",
    "witness",
    "acks",
    "seal",
];

#[test]
fn every_seed_keeps_the_promises() {
    // Broken: some order of delays, duplicates, crashes, commits without an outcome, losses and restores makes a promise
    // fail. Must hold: what `judge` looks at after every step, and at rest, for every seed.
    if let Some(seed) = number("FENCEGATE_SIMULATION_SEED") {
        let ran = run(&Schedule::of(seed, None));
        println!("{}", ran.trace);
        assert_eq!(ran.failure, None, "{}", story(&Schedule::of(seed, None)));
        return;
    }
    let given = number("FENCEGATE_SIMULATION_SEEDS");
    let (seeds, mut reached, began) = (given.unwrap_or(SEEDS), Reached::default(), SystemClock::started());
    let from = number("FENCEGATE_SIMULATION_FROM").unwrap_or(0);
    for seed in from..from + seeds {
        let schedule = Schedule::of(seed, None);
        let ran = run(&schedule);
        assert_eq!(ran.failure, None, "{}", story(&schedule));
        reached.add(&ran.reached);
    }
    let seconds = began.monotonic().as_secs_f64();
    let rate = f64::from(u32::try_from(seeds).unwrap()) * 60.0 / seconds;
    println!("{seeds} seeds in {seconds:.1} s, {rate:.0} a minute");
    println!("verdicts: {:?}\nsteps: {:?}\nevents: {:?}", reached.codes, reached.steps, reached.kinds);
    if seeds >= SEEDS {
        let missing: Vec<_> = CODES.iter().filter(|code| !reached.codes.contains_key(code)).collect();
        assert!(missing.is_empty(), "never answered: {missing:?}");
        let missing: Vec<_> = STEPS.iter().filter(|step| !reached.steps.contains_key(**step)).collect();
        assert!(missing.is_empty(), "never done: {missing:?}");
    }
}

#[test]
fn a_seed_gives_the_same_trace_twice() {
    // Broken: something depends on the machine, on time or on memory. Must hold: a seed is a history.
    for seed in 0..20 {
        let (one, two) = (run(&Schedule::of(seed, None)), run(&Schedule::of(seed, None)));
        assert!(one.trace.lines().count() > 20, "{seed}: {}", one.trace);
        assert_eq!(one.hash(), two.hash(), "{seed}");
        assert_eq!(one.trace, two.trace, "{seed}");
    }
}

/// The first seed that finds a wrong gateway out.
fn found(bug: Bug) -> Option<Schedule> {
    (0..SEEDS_PER_BUG).map(|seed| Schedule::of(seed, Some(bug))).find(|one| run(one).failure.is_some())
}

#[test]
fn wrong_gateways_are_found_out() {
    // Broken: the judge sees nothing. Must hold: each of these is seen to break a promise, within so many seeds.
    let mut unseen = Vec::new();
    for bug in Bug::ALL {
        match found(bug) {
            None => unseen.push(bug),
            Some(schedule) => {
                let violation = run(&schedule).failure.unwrap();
                println!("{bug:?}: {} at seed {}", violation.rule, schedule.seed);
            }
        }
    }
    assert!(unseen.is_empty(), "not found out within {SEEDS_PER_BUG} seeds: {unseen:?}");
}

#[test]
fn a_loss_that_only_a_store_shows_is_heeded() {
    // Broken: what a store knows and the database has forgotten is never met, and nobody sees whether it is heeded. Must hold:
    // it is met where no witness looks, and everything is stopped before anything else is decided.
    let mut reached = Reached::default();
    for seed in 0..100 {
        let mut schedule = Schedule::of(seed, Some(Bug::StoreProofIgnored));
        schedule.setup.bug = None;
        let ran = run(&schedule);
        assert_eq!(ran.failure, None, "{}", story(&schedule));
        reached.add(&ran.reached);
    }
    println!("steps: {:?}", reached.steps);
    assert!(reached.steps.contains_key("store"), "{:?}", reached.steps);
}

#[test]
fn a_failing_seed_becomes_a_short_story() {
    // Broken: a failure is 170 events long and nobody understands it. Must hold: what does not matter is left out.
    let schedule = found(Bug::AnswerBeforeCommit).unwrap();
    let (shortest, ran) = reduce(&schedule);
    println!("{}", ran.trace);
    assert!(shortest.events.len() <= 12, "{:?}", shortest.events);
    assert_eq!(ran.failure.unwrap().rule, run(&schedule).failure.unwrap().rule);
}
