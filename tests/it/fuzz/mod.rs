//! What reads bytes of others is fed with bytes of others: the inputs of `fuzz/corpora`, and changed copies of them for some
//! seconds. The rules that must hold stand in `targets`, which the crate `fuzz/` gives to libFuzzer too.
//!
//! `FENCEGATE_TEST_FUZZ_SECONDS=n` goes on for n seconds with each target instead of 2, `FENCEGATE_TEST_FUZZ_SEED=n` changes in
//! another way, and `FENCEGATE_TEST_FUZZ_INPUT='…'` gives one target one input, spelt as it is in a corpus.

mod changes;
mod child;
mod folders;
mod regressions;
mod targets;

use std::path::Path;

use targets::TARGETS;

/// A test for each target.
macro_rules! fed {
    ($($name:ident),+ $(,)?) => {
        const FED: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                child::feed(stringify!($name));
            }
        )+
    };
}

fed!(names, positions, words, seals, credentials, requests, calls, answers, cells, rows, framing, config);

/// Broken: a harness that nobody runs, or that libFuzzer does not know. Must hold: each has a test here, a corpus, and a program
/// in `fuzz/`.
#[test]
fn every_harness_is_run_in_both_ways() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, FED);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml does not list {name}");
        let program = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("\"{name}\"")), "the program of {name} runs something else");
        assert!(!child::corpus(name).is_empty(), "{name} has no corpus");
    }
}
