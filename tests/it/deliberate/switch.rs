//! The switch: it is there in tests and nowhere else, it is loud, and it takes no slip of the pen.

use std::fs;
use std::path::Path;

use fencegate::deliberate::Bug;

use crate::support::gateway::{DELIBERATE_BUG, Process, command};

fn text_of(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn only_builds_for_tests_have_the_switches() {
    // Broken: a gateway that people run can be told to lose their writes. Must hold: only the tests ask for the feature;
    // `.ci/run` looks into what is released for the variable's name.
    let manifest: toml_edit::DocumentMut = text_of("Cargo.toml").parse().unwrap();
    let features = manifest["features"].as_table().unwrap();
    assert!(features.get("deliberate-bugs").is_some());
    let others = features.iter().filter(|(name, _)| *name != "deliberate-bugs");
    others
        .for_each(|(name, asks)| assert!(!asks.to_string().contains("deliberate"), "{name} switches it on"));
    for section in ["dependencies", "build-dependencies", "workspace"] {
        let asks = manifest.get(section).map(ToString::to_string).unwrap_or_default();
        assert!(!asks.contains("deliberate"), "{section} switches it on");
    }
    assert!(text_of(".ci/run").contains(DELIBERATE_BUG), "nobody looks into what is released");
}

#[test]
fn a_gateway_with_a_bug_says_so() {
    // Broken: somebody measures or tries a broken gateway and believes it. Must hold: it says which bug it has, as an error,
    // before it listens; and one without says nothing.
    let folder = tempfile::tempdir().unwrap();
    let mut broken = command(folder.path());
    broken.env(DELIBERATE_BUG, Bug::FloorNotStored.name());
    let process = Process::start_as(broken);
    let said = process.warnings();
    assert!(
        said.iter().any(|line| line.contains("\"ERROR\"")
            && line.contains("floor-not-stored")
            && line.contains("broken on purpose")),
        "{said:?}"
    );
    assert_eq!(process.terminate(), Some(0));
    let process = Process::start_as(command(folder.path()));
    assert!(!process.warnings().iter().any(|line| line.contains("on purpose")));
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_name_that_is_not_known_ends_the_process() {
    // Broken: a slip in a name switches on nothing, and the test that was to fail passes. Must hold: the process ends at once
    // and names those that there are.
    let folder = tempfile::tempdir().unwrap();
    let mut slip = command(folder.path());
    slip.args(["serve", "--listen", "127.0.0.1:0"]).env(DELIBERATE_BUG, "floor-not-stord");
    let ended = slip.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    for word in [DELIBERATE_BUG, "\"floor-not-stord\"", "floor-not-stored, "] {
        assert!(said.contains(word), "{word} in {said}");
    }
}
