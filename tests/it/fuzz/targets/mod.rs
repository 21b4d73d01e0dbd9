//! The harnesses. Each takes any bytes, gives them to the code that reads such bytes, and holds what must hold whatever they
//! are; it stops with a panic where something does not. `tests/it/fuzz` feeds them with the corpora and with changed copies of
//! those, and the crate `fuzz/` with what libFuzzer makes up; it includes this folder by its path, so nothing here may use
//! anything of the tests.

mod answers;
mod calls;
mod cells;
mod config;
pub(crate) mod corpus;
mod credentials;
mod framing;
mod house;
mod names;
mod play;
mod positions;
mod requests;
mod rows;
mod seals;
mod words;

use std::collections::BTreeMap;

/// Something that reads bytes of others.
pub(crate) struct Target {
    /// Its name, which its corpus has too.
    pub(crate) name: &'static str,
    /// What holds the rules.
    pub(crate) run: fn(&[u8], &mut Met),
    /// Longest input that is made up, in bytes.
    pub(crate) longest: usize,
    /// What means something to it, beside what stands in the corpus.
    pub(crate) words: &'static [&'static str],
    /// What the inputs of a run must lead to: without it the harness would not reach what it is there for.
    pub(crate) meets: &'static [&'static str],
}

/// All of them.
pub(crate) const TARGETS: &[&Target] = &[
    &names::TARGET,
    &positions::TARGET,
    &words::TARGET,
    &seals::TARGET,
    &credentials::TARGET,
    &requests::TARGET,
    &calls::TARGET,
    &answers::TARGET,
    &cells::TARGET,
    &rows::TARGET,
    &framing::TARGET,
    &config::TARGET,
];

/// What inputs led to, and how often.
#[derive(Debug, Default)]
pub(crate) struct Met(pub(crate) BTreeMap<String, u64>);

impl Met {
    /// An input led to this.
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// The same of something that was read or refused.
    pub(crate) fn read<T, E>(&mut self, what: &str, result: &Result<T, E>) {
        self.note(format!("{what} {}", if result.is_ok() { "read" } else { "refused" }));
    }
}

/// The columns of a row as it stands in the corpus.
#[cfg(test)]
pub(crate) fn row_values(row: &[u8]) -> Vec<fencegate::ledger::fuzzing::Value> {
    rows::values(cut(row, b'\n').1)
}

/// The text of an input, where it is one.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// What stands before the first of these bytes, and what stands behind it.
fn cut(data: &[u8], at: u8) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == at) {
        None => (data, &[]),
        Some(index) => (&data[..index], &data[index + 1..]),
    }
}
