//! The harness itself: what it says where a bug does nothing, or the test that should see it does not exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use fencegate::deliberate::Bug;

use super::child::run;
use super::kills::{KILLS, killer_of};

const MOST: Duration = Duration::from_mins(1);

/// Sees nothing of floors.
const BLIND: &str = "decision::fingerprint::parts_do_not_run_into_each_other";

#[test]
fn a_bug_that_does_nothing_is_said_to_survive() {
    // Broken: the switch leads nowhere, or the test is blind, and the table says "killed". Must hold: both are told apart.
    let survives =
        run(Bug::FloorNotStored.name(), &["--exact", BLIND], MOST).is_killed_by(BLIND).unwrap_err();
    assert!(survives.starts_with("it survives"), "{survives}");
    let nobody = run(Bug::FloorNotStored.name(), &["--exact", "decision::no_such_test"], MOST);
    let nobody = nobody.is_killed_by("decision::no_such_test").unwrap_err();
    assert!(nobody.starts_with("there is no test"), "{nobody}");
    // The child ended badly, but not by the test.
    let slip = run("no-such-bug", &["--exact", killer_of(Bug::FloorNotStored)], MOST);
    let slip = slip.is_killed_by(killer_of(Bug::FloorNotStored)).unwrap_err();
    assert!(slip.starts_with("not killed by") && slip.contains("no deliberate bug"), "{slip}");
    // Another test failed than the one that is named.
    let other = run(Bug::FloorNotStored.name(), &["--exact", killer_of(Bug::FloorNotStored)], MOST);
    let other = other.is_killed_by(BLIND).unwrap_err();
    assert!(other.starts_with("not killed by"), "{other}");
}

#[test]
fn every_bug_has_its_killer() {
    for bug in Bug::ALL {
        assert_ne!(killer_of(*bug), "nobody", "{} is killed by no test", bug.name());
    }
    assert_eq!(KILLS.len(), Bug::ALL.len(), "a bug stands twice in the list");
    let names: BTreeSet<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
    assert_eq!(names.len(), Bug::ALL.len());
}

/// Every source of the gateway, but the one with the switches.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if !path.ends_with("src/deliberate.rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn every_bug_stands_somewhere_and_only_one_file_reads_the_variable() {
    // Broken: a switch leads nowhere; or a rule asks the environment. Must hold: each is asked for in one file, by its name;
    // that one is given up which a store does not know, its client and the rules have to agree on.
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found).unwrap();
    let texts: Vec<(PathBuf, String)> =
        found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    for bug in Bug::ALL {
        let asks = format!("deliberate::on(Bug::{bug:?})");
        let places: Vec<_> =
            texts.iter().filter(|(_, text)| text.contains(&asks)).map(|(path, _)| path).collect();
        let most = if *bug == Bug::AbandonOnNotFound { 2 } else { 1 };
        assert_eq!(places.len(), most, "{} stands in {places:?}", bug.name());
    }
    for (path, text) in &texts {
        assert!(!text.contains("DELIBERATE_BUG"), "{} reads the variable", path.display());
        assert!(!text.contains("feature = \"deliberate"), "{} has a switch of its own", path.display());
    }
}

#[test]
fn the_page_names_every_bug_with_its_killer() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/VERIFICATION.md")).unwrap();
    for bug in Bug::ALL {
        let (name, killer) = (format!("`{}`", bug.name()), format!("`{}`", killer_of(*bug)));
        let row = page.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let row = row.unwrap_or_else(|| panic!("docs/VERIFICATION.md does not name {name}"));
        assert!(row.contains(&killer), "{name} is killed by {killer}, and the page says: {row}");
    }
}
