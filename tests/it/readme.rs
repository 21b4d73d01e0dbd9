//! Every `sh` block of the README, of the recipes and of the page on leases runs, in order, in one shell, against a fresh
//! gateway, and gives what the page says.

use crate::support::gateway::Process;
use crate::support::pages::{Surroundings, blocks, configuration, fits, hold, page};

#[test]
fn every_shell_block_of_the_readme_does_what_it_says() {
    does_what_it_says("README.md", (6, 5), "");
}

#[test]
fn every_recipe_for_run_does_what_it_says() {
    does_what_it_says("docs/RUN.md", (3, 3), "");
}

#[test]
fn every_shell_block_of_the_page_on_leases_does_what_it_says() {
    does_what_it_says("docs/LEASES.md", (12, 11), &configuration(&page("docs/LEASES.md")));
}

/// A page must have at least so many blocks, and so many with what they print: an empty page would hold.
fn does_what_it_says(name: &str, (scripts, answers): (usize, usize), settings: &str) {
    let blocks = blocks(&page(name));
    assert!(blocks.len() >= scripts, "blocks are missing");
    let expected = blocks.iter().filter(|block| block.expected.is_some()).count();
    assert!(expected >= answers, "the answers are missing");
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("fencegate.toml"), settings).unwrap();
    let gateway = Process::start(home.path());
    hold(&blocks, &gateway.base, work.path(), &Surroundings::default());
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn the_comparison_can_fail() {
    assert!(fits("a…c", "a b c"));
    assert!(fits("…", ""));
    assert!(!fits("a…c", "a b"));
    assert!(!fits("abc", "abcd"));
    assert!(!fits("a…b…c", "a c b"));
}
