//! The code against a reference that was written apart from it.

mod histories;
mod reference;
mod table;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use self::histories::Pair;
use crate::support::code::Code;

/// A number from the environment, or the default.
fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_histories_have_the_same_verdicts_in_code_and_reference() {
    // Broken: a comparison, an order of rows or a register that the code and its tests got wrong together. Must hold:
    // every command of every random history gets the same word from both, and every word is met. FENCEGATE_SEED and
    // FENCEGATE_HISTORIES make other and more histories; a failing seed is printed by its own command line.
    let seed = asked("FENCEGATE_SEED", 2);
    let histories = u32::try_from(asked("FENCEGATE_HISTORIES", 3_000)).unwrap();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let config = Config { cases: histories, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let met: RefCell<BTreeMap<Code, u64>> = RefCell::default();
    let strategy = (any::<u16>(), vec(any::<histories::Step>(), 1..80));
    let result = runner.run(&strategy, |(number, steps)| {
        let mut pair = Pair::new(usize::from(number));
        for step in &steps {
            for code in pair.step(step) {
                *met.borrow_mut().entry(code).or_default() += 1;
            }
        }
        Ok::<(), TestCaseError>(())
    });
    assert!(result.is_ok(), "FENCEGATE_SEED={seed}: {result:?}");
    let met = met.into_inner();
    let missing: Vec<Code> = every_code().into_iter().filter(|code| !met.contains_key(code)).collect();
    assert!(missing.is_empty(), "never met: {missing:?} of {met:?}");
    println!("{histories} histories: {met:?}");
}

/// Rows 3 and 4 need a store that leaves something undecided, and definitions, unknown ids and the end of the counter
/// stand outside what a history is about: `decision` has them.
fn every_code() -> Vec<Code> {
    vec![
        Code::Admitted,
        Code::Replayed,
        Code::OperationMismatch,
        Code::IncarnationGone,
        Code::Deleted,
        Code::Cancelled,
        Code::SealMissing,
        Code::SealWrong,
        Code::IssuerBehind,
        Code::EpochAhead,
        Code::TokenJump,
        Code::AdvanceForbidden,
        Code::StaleToken,
        Code::OperationExpired,
        Code::LeaseNotLive,
        Code::GenerationSpent,
        Code::SequenceRegressed,
        Code::SequenceGap,
        Code::PreconditionRequired,
        Code::PreconditionFailed,
        Code::NothingToDelete,
        Code::Granted,
        Code::Repeated,
        Code::Renewed,
        Code::Released,
        Code::Advanced,
        Code::LeaseHeld,
        Code::RequestMismatch,
        Code::LeaseEnded,
        Code::IssuerExternal,
    ]
}
