//! Every `sh` block of the README, of the recipes and of the pages on leases and on upstreams runs, in order, in one shell, against a fresh
//! gateway, and gives what the page says.

use std::net::TcpListener;

use crate::support::gateway::Process;
use crate::support::pages::{Surroundings, blocks, configuration, fits, hold, page};
use crate::support::stores::receiver::{Kind, Receiver};

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

#[test]
fn every_shell_block_of_the_page_on_upstreams_does_what_it_says() {
    let Some(receiver) = Receiver::start(Kind::Sqlite, "readme::upstreams") else { return };
    // The printer begins to listen when the page starts it.
    let printer = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string();
    let settings = configuration(&page("docs/UPSTREAMS.md"));
    let settings =
        settings.replace("http://127.0.0.1:9090", receiver.base()).replace(":9091", &format!(":{printer}"));
    let variables = vec![
        ("STORE_URL", receiver.base().to_owned()),
        ("PRINTER_PORT", printer),
        ("receiver", receiver.pid().to_string()),
    ];
    let surroundings = Surroundings { variables, ..Surroundings::default() };
    does_what_it_says_in("docs/UPSTREAMS.md", (7, 6), &settings, &surroundings);
}

/// A page must have at least so many blocks, and so many with what they print: an empty page would hold.
fn does_what_it_says(name: &str, counts: (usize, usize), settings: &str) {
    does_what_it_says_in(name, counts, settings, &Surroundings::default());
}

fn does_what_it_says_in(
    name: &str,
    (scripts, answers): (usize, usize),
    settings: &str,
    surroundings: &Surroundings,
) {
    let blocks = blocks(&page(name));
    assert!(blocks.len() >= scripts, "blocks are missing");
    let expected = blocks.iter().filter(|block| block.expected.is_some()).count();
    assert!(expected >= answers, "the answers are missing");
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("fencegate.toml"), settings).unwrap();
    let gateway = Process::start(home.path());
    hold(&blocks, &gateway.base, work.path(), surroundings);
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
