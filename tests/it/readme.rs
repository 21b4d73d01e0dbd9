//! Every `sh` block of the README and of the page on leases runs, in order, in one shell, against a fresh gateway, and gives
//! what the page says.

use crate::support::gateway::Process;
use crate::support::pages::{Surroundings, blocks, configuration, fits, hold, page};

#[test]
fn every_shell_block_of_the_readme_does_what_it_says() {
    let blocks = blocks(&page("README.md"));
    assert!(blocks.len() >= 6, "the story is missing");
    assert!(blocks.iter().filter(|block| block.expected.is_some()).count() >= 5, "the answers are missing");
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    hold(&blocks, &gateway.base, work.path(), &Surroundings::default());
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn every_shell_block_of_the_page_on_leases_does_what_it_says() {
    let page = page("docs/LEASES.md");
    let blocks = blocks(&page);
    assert!(blocks.iter().filter(|block| block.expected.is_some()).count() >= 11, "the answers are missing");
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("fencegate.toml"), configuration(&page)).unwrap();
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
