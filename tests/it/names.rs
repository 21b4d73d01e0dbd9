//! The grammars of the door: accepted exactly when a plain predicate, written apart from the parser, says so.

mod answers;
mod counters;
mod headers;
mod printed;
mod resources;
mod words;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy};
use proptest::sample::select;

/// Many short cases; a failing one is shrunk and printed, and becomes a named test.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Texts made of pieces that matter to a grammar, so that both answers come up often.
fn texts(pieces: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    vec(select(pieces), 0..most).prop_map(|pieces| pieces.concat())
}

/// A refusal that names a character names one that stands there, and its text shows it.
fn assert_named(text: &str, found: char, at: usize, message: &str) {
    assert_eq!(text.chars().nth(at - 1), Some(found), "{text:?}: {message}");
    assert!(message.contains(&format!("{found:?}")), "{message} does not show {found:?}");
    assert!(message.contains(&format!("position {at}")), "{message} does not show the place");
}
