//! The harnesses of the gateway's own tests, for libFuzzer.

#[path = "../../tests/it/fuzz/targets/mod.rs"]
mod targets;

use targets::{Met, TARGETS, Target, corpus};

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target {name}"))
}

/// Gives one input to a target.
pub fn run(name: &str, data: &[u8]) {
    (target(name).run)(data, &mut Met::default());
}

/// The names of all targets, each with the greatest length of its inputs.
pub fn names() -> impl Iterator<Item = (&'static str, usize)> {
    TARGETS.iter().map(|target| (target.name, target.longest))
}

/// The inputs of a target's committed corpus.
pub fn inputs(text: &str) -> Vec<Vec<u8>> {
    corpus::inputs(text)
}

/// The line of a corpus that stands for an input.
pub fn line(input: &[u8]) -> String {
    corpus::line(input)
}

/// What means something to a target, as libFuzzer's dictionaries have it.
pub fn dictionary(name: &str) -> String {
    let quoted = |word: &&str| {
        let bytes: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{bytes}\"\n")
    };
    target(name).words.iter().filter(|word| !word.is_empty()).map(quoted).collect()
}

/// What the inputs of a corpus lead to, and what of that is missing which must be there.
pub fn met(name: &str, inputs: &[Vec<u8>]) -> (String, Vec<&'static str>) {
    let mut met = Met::default();
    inputs.iter().for_each(|input| (target(name).run)(input, &mut met));
    let missing = target(name).meets.iter().copied().filter(|what| !met.0.contains_key(*what)).collect();
    (format!("{:?}", met.0), missing)
}
