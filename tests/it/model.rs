//! Every history of a small world, searched to the end: what holds in all of them holds whatever a network does.
//!
//! Each world is searched until nothing new is found. `FENCEGATE_MODEL_DEPTH=n` gives every world of one page n generations
//! more; each test prints how many states it met.

mod bounds;
mod calls;
mod forgetting;
mod forward;
mod frontier;
mod history;
mod key;
mod odd;
mod owners;
mod promises;
mod regress;
mod search;
mod steps;
mod verdicts;
mod wrong;

use std::collections::BTreeSet;

use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};

use self::bounds::Bounds;
use self::search::{Met, search};
use self::verdicts::Word;
use crate::support::code::Code;

const SINGLE: Policy = Policy::Single;
const ORDERED: Policy = Policy::Ordered { gapless: false };
const GAPLESS: Policy = Policy::Ordered { gapless: true };
const SESSION: Policy = Policy::Session;

fn deeper(generations: u64) -> u64 {
    let more = std::env::var("FENCEGATE_MODEL_DEPTH").ok().and_then(|text| text.parse().ok());
    generations + more.unwrap_or(0_u64)
}

fn definition(policy: Policy, contract: Contract, issuer: Issuer) -> Definition {
    Definition { policy, contract, issuer, store: Store::Document, scope: 1 }
}

fn explored(name: &str, bounds: &Bounds) -> Met {
    let met = search(bounds);
    let definition = bounds.world.definition();
    let (states, transitions, depth) = (met.states, met.transitions, met.depth);
    println!("{name}: {definition}: {states} states, {transitions} transitions, depth {depth}, complete");
    let codes = met.codes.keys().chain(met.acts.keys()).map(|code| Word::Told(*code));
    verdicts::met(&format!("documents: {name}"), states, transitions, codes);
    met
}

/// Searches one page under a definition to the end and asserts that exactly the verdicts were met that it can give.
fn one_page(definition: Definition, generations: u64, epochs: u64) {
    let more = deeper(generations);
    let epochs = if more > generations { 1 } else { epochs };
    let bounds = Bounds { epochs, ..Bounds::one_page(definition, more) };
    let met = explored("one page", &bounds);
    let codes: BTreeSet<Code> = met.codes.keys().copied().collect();
    assert_eq!(codes, reachable(&definition), "{definition}");
}

/// The same page, whose breaker may trip at any time: nothing is admitted or issued then until the epoch advances.
fn stopped_page(definition: Definition, generations: u64) {
    let bounds = Bounds { trips: true, ..Bounds::one_page(definition, deeper(generations)) };
    let met = explored("stopped page", &bounds);
    for code in [Code::Stopped, Code::Replayed, Code::StaleToken, Code::Admitted] {
        assert!(met.codes.contains_key(&code), "{definition}: {code:?} in {:?}", met.codes);
    }
}

/// Searches a world of control calls to the end and asserts that each answer to them was met.
fn calls(definition: Definition, generations: u64, epochs: u64) {
    let bounds = Bounds {
        epochs,
        trips: epochs > 0 && definition.issuer.is_external(),
        ..Bounds::calls(definition, deeper(generations))
    };
    let met = explored("calls", &bounds);
    let mut expected = vec![
        Code::Controlled,
        Code::ControlReplayed,
        Code::NothingToControl,
        Code::OperationMismatch,
        Code::Cancelled,
        Code::Deleted,
        Code::StaleToken,
    ];
    if definition.issuer.is_external() {
        expected.push(Code::FreshTokenRequired);
    } else {
        expected.extend([Code::Granted, Code::Repeated, Code::LeaseEnded, Code::SealWrong]);
    }
    for code in expected {
        assert!(met.codes.contains_key(&code), "{definition}: {code:?} in {:?}", met.codes);
    }
}

/// Searches a world of batches to the end and asserts that every mixture of verdicts was met.
fn batches(definition: Definition, pages: &[&'static str], generations: u64) {
    let met = explored("batches", &Bounds::batches(definition, pages.to_vec(), generations));
    let mixtures = [
        [Code::Admitted, Code::Admitted],
        [Code::Replayed, Code::Admitted],
        [Code::Replayed, Code::Replayed],
        [Code::Admitted, Code::OperationMismatch],
        [Code::Replayed, Code::OperationMismatch],
        [Code::NothingToDelete, Code::Admitted],
    ];
    for mixture in mixtures {
        assert!(met.mixtures.contains(mixture.as_slice()), "{mixture:?} in {:?}", met.mixtures);
    }
}

/// Every verdict that a definition can give in these worlds.
fn reachable(definition: &Definition) -> BTreeSet<Code> {
    let mut codes = BTreeSet::from([
        Code::Admitted,
        Code::Replayed,
        Code::OperationMismatch,
        Code::IncarnationGone,
        Code::Deleted,
        Code::StaleToken,
        Code::NothingToDelete,
        Code::Advanced,
    ]);
    match definition.issuer {
        Issuer::Gateway => codes.extend([
            Code::SealMissing,
            Code::SealWrong,
            Code::IssuerBehind,
            Code::Granted,
            Code::Repeated,
            Code::Renewed,
            Code::Released,
            Code::LeaseHeld,
            Code::LeaseEnded,
        ]),
        Issuer::Trusted { max_jump } => {
            codes.extend([Code::EpochAhead, Code::IssuerExternal, Code::AdvanceForbidden]);
            codes.extend(max_jump.map(|_| Code::TokenJump));
        }
        Issuer::Registered => codes.extend([Code::EpochAhead, Code::IssuerExternal, Code::AdvanceForbidden]),
    }
    match definition.policy {
        Policy::Single => codes.extend([Code::GenerationSpent, Code::PreconditionFailed]),
        Policy::Ordered { gapless: false } => codes.extend([Code::SequenceRegressed]),
        Policy::Ordered { gapless: true } => codes.extend([Code::SequenceRegressed, Code::SequenceGap]),
        Policy::Session => codes.extend([Code::PreconditionRequired, Code::PreconditionFailed]),
    }
    if definition.contract == Contract::LeaseBound {
        codes.insert(Code::LeaseNotLive);
    }
    codes
}

// What is broken in each: some order of pauses, duplicates, late deliveries, expiries, deletions, re-creations and one
// epoch advance makes an invariant fail. What must hold: I1-I10, I14 and I16-I19 on every transition, and every
// verdict of the definition is met.

#[test]
fn gateway_observed() {
    // Under `observed` old owners go on, so these worlds are the largest.
    for (policy, generations, epochs) in [(SINGLE, 3, 0), (ORDERED, 2, 0), (GAPLESS, 2, 1), (SESSION, 2, 1)] {
        one_page(definition(policy, Contract::Observed, Issuer::Gateway), generations, epochs);
    }
    verdicts::ended("gateway_observed");
}

#[test]
fn gateway_immediate() {
    for (policy, generations) in [(SINGLE, 3), (ORDERED, 2), (GAPLESS, 2), (SESSION, 2)] {
        one_page(definition(policy, Contract::Immediate, Issuer::Gateway), generations, 1);
    }
    verdicts::ended("gateway_immediate");
}

#[test]
fn gateway_lease_bound() {
    for (policy, generations) in [(SINGLE, 3), (ORDERED, 2), (GAPLESS, 2), (SESSION, 2)] {
        one_page(definition(policy, Contract::LeaseBound, Issuer::Gateway), generations, 1);
    }
    verdicts::ended("gateway_lease_bound");
}

#[test]
fn trusted_issuers() {
    for (policy, generations) in [(SINGLE, 3), (ORDERED, 2), (GAPLESS, 3), (SESSION, 2)] {
        one_page(definition(policy, Contract::Observed, Issuer::Trusted { max_jump: None }), generations, 1);
    }
    // Two positions leave nothing to jump over.
    for policy in [SINGLE, GAPLESS, SESSION] {
        one_page(definition(policy, Contract::Observed, Issuer::Trusted { max_jump: Some(1) }), 3, 0);
    }
    verdicts::ended("trusted_issuers");
}

#[test]
fn registered_issuers() {
    for contract in [Contract::Observed, Contract::Immediate] {
        for (policy, generations) in [(SINGLE, 3), (ORDERED, 2), (GAPLESS, 3), (SESSION, 2)] {
            one_page(definition(policy, contract, Issuer::Registered), generations, 1);
        }
    }
    verdicts::ended("registered_issuers");
}

#[test]
fn breakers_that_trip_at_any_time() {
    // Broken: a delivery that was under way, a renewal, or the first request of a new epoch gets past a tripped breaker, or
    // the breaker hides what was done. Must hold: what is recorded is answered, and nothing else happens before an advance.
    for (policy, contract) in [(SINGLE, Contract::Immediate), (ORDERED, Contract::LeaseBound)] {
        stopped_page(definition(policy, contract, Issuer::Gateway), 2);
    }
    stopped_page(definition(SINGLE, Contract::Observed, Issuer::Trusted { max_jump: None }), 2);
    stopped_page(definition(GAPLESS, Contract::Immediate, Issuer::Registered), 2);
    verdicts::ended("breakers_that_trip_at_any_time");
}

#[test]
fn transfers_and_control_calls() {
    // Broken: a cancelled owner comes back with the reopen, a delayed copy of a control call undoes a later one, or a
    // lease that was handed over has two owners. Must hold: what a revoke or cancel has ended is never admitted again,
    // nobody owns or writes what is cancelled, and every copy gets the first answer.
    for (contract, epochs) in [(Contract::Observed, 0), (Contract::Immediate, 1), (Contract::LeaseBound, 0)] {
        calls(definition(SINGLE, contract, Issuer::Gateway), 2, epochs);
    }
    for (issuer, epochs) in [
        (Issuer::Trusted { max_jump: None }, 1),
        (Issuer::Trusted { max_jump: Some(1) }, 0),
        (Issuer::Registered, 1),
    ] {
        calls(definition(SINGLE, Contract::Observed, issuer), 3, epochs);
    }
    verdicts::ended("transfers_and_control_calls");
}

#[test]
fn records_are_forgotten_at_any_time() {
    // Broken: a record goes while its request would be admitted again, or its retry is told `none` (I15). Must hold in
    // every history with a forgetful gateway: I1-I10 as before; what is forgotten is refused as `operation_expired`.
    for (policy, contract, issuer) in [
        (SINGLE, Contract::Immediate, Issuer::Gateway),
        (ORDERED, Contract::Immediate, Issuer::Gateway),
        (SESSION, Contract::LeaseBound, Issuer::Gateway),
        (SINGLE, Contract::Observed, Issuer::Trusted { max_jump: None }),
        (GAPLESS, Contract::Observed, Issuer::Registered),
    ] {
        let definition = definition(policy, contract, issuer);
        let bounds = Bounds { prunes: true, epochs: 0, ..Bounds::one_page(definition, deeper(2)) };
        let met = explored("forgetting", &bounds);
        for code in [Code::OperationExpired, Code::Replayed, Code::Admitted, Code::Tidied] {
            assert!(met.codes.contains_key(&code), "{definition}: {code:?} in {:?}", met.codes);
        }
    }
    verdicts::ended("records_are_forgotten_at_any_time");
}

#[test]
fn records_of_control_calls_are_forgotten_at_any_time() {
    // Broken: something besides the record goes with it, or a copy after it brings back what a later call has ended. Must
    // hold: such a copy is a new call, judged like any other, and what was revoked stays revoked.
    for (issuer, generations) in [(Issuer::Gateway, 1), (Issuer::Trusted { max_jump: None }, 2)] {
        let contract = if issuer == Issuer::Gateway { Contract::Immediate } else { Contract::Observed };
        let definition = definition(SINGLE, contract, issuer);
        let bounds =
            Bounds { forgets_calls: true, epochs: 0, ..Bounds::calls(definition, deeper(generations)) };
        let met = explored("forgotten calls", &bounds);
        for code in [Code::Controlled, Code::ControlReplayed, Code::Tidied] {
            assert!(met.codes.contains_key(&code), "{definition}: {code:?} in {:?}", met.codes);
        }
    }
    verdicts::ended("records_of_control_calls_are_forgotten_at_any_time");
}

#[test]
fn batches_over_targets_of_one_page() {
    for policy in [SINGLE, ORDERED, GAPLESS, SESSION] {
        batches(definition(policy, Contract::Immediate, Issuer::Gateway), &["w/a"], deeper(2));
        batches(
            definition(policy, Contract::Observed, Issuer::Trusted { max_jump: None }),
            &["w/a"],
            deeper(2),
        );
    }
    verdicts::ended("batches_over_targets_of_one_page");
}

#[test]
fn batches_over_two_pages() {
    // Always within this bound: what is independent in two pages multiplies, and one generation more was never seen to its end.
    for policy in [SINGLE, ORDERED, GAPLESS, SESSION] {
        batches(definition(policy, Contract::LeaseBound, Issuer::Gateway), &["w/a", "w/b"], 1);
        batches(definition(policy, Contract::Immediate, Issuer::Registered), &["w/a", "w/b"], 2);
    }
    verdicts::ended("batches_over_two_pages");
}
