//! What the rules can answer, word by word, and in which worlds of the model each of it was met. The last of its tests to
//! end prints the table, and asserts that it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencegate::protocol::Outcome;
use fencegate::protocol::outcome::{Act, BarrierStep, Settled, Withdrawal};

use crate::support::code::{Code, listed, words};

listed! {
    /// What an undecided operation or a barrier can be told to do next, or how it can end.
    Step:
    Send, ReadTheCell, Done, WithdrawnUnreachable, WithdrawnRelayed, WithdrawnRefused, Later, Uncertain, Moved,
    BarrierStands, BarrierReadsTheCell, BarrierRewrites, BarrierAdvances, BarrierWaits, BarrierQuarantined
}

/// One answer of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Word {
    Told(Code),
    Next(Step),
}

/// Everything that an outcome says.
pub(super) fn heard(outcome: &Outcome) -> Vec<Word> {
    match outcome {
        Outcome::Settled(settled) => vec![Word::Next(settled_as(settled))],
        Outcome::Barrier(step) => vec![Word::Next(barrier_as(step))],
        Outcome::Announced(attempt) => vec![Word::Told(Code::Announced), Word::Next(acts_as(&attempt.act))],
        Outcome::Ahead(ahead) => heard(&ahead.outcome),
        Outcome::Granted(_)
        | Outcome::Renewed(_)
        | Outcome::Released(_)
        | Outcome::Written(_)
        | Outcome::NotWritten(_)
        | Outcome::Explained(_)
        | Outcome::Advanced(_)
        | Outcome::Controlled(_)
        | Outcome::Acted(_)
        | Outcome::Tidied
        | Outcome::Resolved(_)
        | Outcome::Refused(_) => words(outcome).into_iter().map(Word::Told).collect(),
    }
}

const fn acts_as(act: &Act) -> Step {
    match act {
        Act::Send(_) => Step::Send,
        Act::ReadCell => Step::ReadTheCell,
    }
}

const fn settled_as(settled: &Settled) -> Step {
    match settled {
        Settled::Done(_) => Step::Done,
        Settled::Withdrawn(_, Withdrawal::Unreachable, _) => Step::WithdrawnUnreachable,
        Settled::Withdrawn(_, Withdrawal::Relayed(_), _) => Step::WithdrawnRelayed,
        Settled::Withdrawn(_, Withdrawal::Refused(_), _) => Step::WithdrawnRefused,
        Settled::Again(attempt) => acts_as(&attempt.act),
        Settled::Later(_) => Step::Later,
        Settled::Uncertain(_) => Step::Uncertain,
        Settled::Moved => Step::Moved,
    }
}

const fn barrier_as(step: &BarrierStep) -> Step {
    match step {
        BarrierStep::Stands(_) => Step::BarrierStands,
        BarrierStep::ReadCell(_) => Step::BarrierReadsTheCell,
        BarrierStep::Rewrite(_, _) => Step::BarrierRewrites,
        BarrierStep::Advance(_, _) => Step::BarrierAdvances,
        BarrierStep::Undecided(_) => Step::BarrierWaits,
        BarrierStep::Quarantined(_) => Step::BarrierQuarantined,
    }
}

/// Every answer that there is. What is settled and what becomes of a barrier is told by its own words.
fn all() -> impl Iterator<Item = Word> {
    let told = Code::ALL.iter().filter(|code| !matches!(code, Code::Settled | Code::Barrier));
    told.map(|code| Word::Told(*code)).chain(Step::ALL.iter().map(|step| Word::Next(*step)))
}

/// What no world of the model leads to, and why.
const ELSEWHERE: [(&[Word], &str); 4] = [
    (
        &[
            Word::Told(Code::DefinitionDiffers),
            Word::Told(Code::VersionDiffers),
            Word::Told(Code::ChangeUnsafe),
        ],
        "definitions stay as they are here (`decision::redefine`)",
    ),
    (
        &[Word::Told(Code::TokenExhausted), Word::Told(Code::CounterExhausted)],
        "no counter comes near its end here (`decision::exhausted`)",
    ),
    (
        &[Word::Told(Code::WaitTimeout)],
        "the rules never say it: the ledger does, to whoever has waited for a lease (`leases::waiting`)",
    ),
    (
        &[Word::Told(Code::Quarantined), Word::Next(Step::BarrierQuarantined)],
        "nobody writes around the gateway here, so it would be a violation (`decision::forward::quarantine`)",
    ),
];

/// The tests that search: all of them, but for the protocols that are wrong on purpose.
const TESTS: [&str; 24] = [
    "gateway_observed",
    "gateway_immediate",
    "gateway_lease_bound",
    "trusted_issuers",
    "registered_issuers",
    "breakers_that_trip_at_any_time",
    "transfers_and_control_calls",
    "records_are_forgotten_at_any_time",
    "records_of_control_calls_are_forgotten_at_any_time",
    "batches_over_targets_of_one_page",
    "batches_over_two_pages",
    "a_database_that_went_back_admits_nothing_of_before",
    "a_database_that_went_back_admits_no_number_of_before",
    "the_breaker_trips_and_an_epoch_begins_at_any_time",
    "records_of_forwarded_operations_are_forgotten_at_any_time",
    "a_store_forgets_its_keys",
    "two_owners_race",
    "three_operations_at_once",
    "a_cell_from_before_the_gateways_time",
    "requests_arrive_twice",
    "stores_refuse_and_connections_fail",
    "a_second_owner_waits_for_its_barrier",
    "a_cancel_is_complete_when_nothing_can_come_any_more",
    "a_removal_and_a_re_creation",
];

#[derive(Default)]
struct Table {
    reached: BTreeMap<Word, BTreeSet<String>>,
    worlds: usize,
    states: usize,
    transitions: u64,
    ended: BTreeSet<&'static str>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A world was searched to its end.
pub(super) fn met(world: &str, states: usize, transitions: u64, words: impl Iterator<Item = Word>) {
    let mut table = table();
    let table = table.get_or_insert_default();
    table.worlds += 1;
    table.states += states;
    table.transitions += transitions;
    for word in words {
        table.reached.entry(word).or_default().insert(world.to_owned());
    }
}

/// A test has ended; the last one judges the whole.
pub(super) fn ended(test: &'static str) {
    assert!(TESTS.contains(&test), "{test} is not in the list of those that search");
    let mut table = table();
    let table = table.get_or_insert_default();
    table.ended.insert(test);
    if table.ended.len() == TESTS.len() {
        is_whole(table);
    }
}

fn is_whole(table: &Table) {
    let (worlds, states, transitions) = (table.worlds, table.states, table.transitions);
    println!("the model: {worlds} worlds, {states} states, {transitions} transitions, all complete");
    let mut missing = Vec::new();
    for word in all() {
        let why = ELSEWHERE.iter().find(|(words, _)| words.contains(&word)).map(|(_, why)| *why);
        match (table.reached.get(&word), why) {
            (Some(worlds), None) => {
                let worlds: Vec<&str> = worlds.iter().map(String::as_str).collect();
                println!("| {} | {} |", plain(word), worlds.join(", "));
            }
            (None, Some(why)) => println!("| {} | not in the model: {why} |", plain(word)),
            (found, why) => {
                println!("| {} | ? |", plain(word));
                missing.push((word, found, why));
            }
        }
    }
    assert!(missing.is_empty(), "met and said not to be, or neither met nor explained: {missing:?}");
}

fn plain(word: Word) -> String {
    match word {
        Word::Told(code) => format!("`{code:?}`"),
        Word::Next(step) => format!("`{step:?}` (next step)"),
    }
}

#[test]
fn every_test_that_searches_takes_part_in_the_table() {
    let sources =
        [include_str!("../model.rs"), include_str!("regress.rs"), include_str!("forward/worlds.rs")];
    let found: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.split("#[test]\nfn ").skip(1))
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
        .collect();
    assert_eq!(found, BTreeSet::from(TESTS));
    let ends: usize = sources.iter().map(|source| source.matches("verdicts::ended(\"").count()).sum();
    assert_eq!(ends, TESTS.len());
}
