//! The harnesses of the gateway's own tests, for libFuzzer.

#[path = "../../tests/it/fuzz/targets/mod.rs"]
#[expect(dead_code, reason = "the tests of the gateway look at more of a target than its function")]
mod targets;

use targets::{Met, TARGETS};

/// Gives one input to a target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("there is no target {name}"));
    (target.run)(data, &mut Met::default());
}
