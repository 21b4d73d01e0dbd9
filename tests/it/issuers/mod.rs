//! Positions that come from elsewhere: the recipes of docs/ISSUERS.md with the real etcd, Redis and PostgreSQL, what is
//! left when an issuer forgets, and that no number is ever rounded.

mod exact;
mod losses;
mod recipes;

use std::process::Command;

use crate::support::issuers::missing::{ALLOWED_BY, NEED_ETCD, NEED_REDIS, REMEDY, allowed};
use crate::support::issuers::programs::Programs;
use crate::support::postgres::binaries::say;

/// A test that was not run must not look like one that passed: where an issuer is missing this names and counts the
/// tests that need it, and fails unless that is allowed.
#[test]
fn what_could_not_run() {
    let (etcd, redis) = (Programs::etcd(), Programs::redis());
    let mut count = 0;
    let mut reasons = String::new();
    for (name, tests, reason) in [("etcd", NEED_ETCD, etcd.err()), ("Redis", NEED_REDIS, redis.err())] {
        let Some(reason) = reason else { continue };
        for test in tests {
            say(&format!("not run, {name} is missing: {test}"));
        }
        count += tests.len();
        reasons = format!("{reasons} ({reason})");
    }
    say(&format!("{count} tests could not run for want of an issuer{reasons}"));
    if count > 0 {
        assert!(allowed(), "{REMEDY}");
        say(&format!("{ALLOWED_BY}=1 allows it"));
    }
}

/// The lists are worth something only if they are true.
#[test]
fn the_lists_of_tests_that_need_an_issuer_are_true() {
    let listed = Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format", "terse"])
        .output()
        .unwrap();
    let tests = String::from_utf8(listed.stdout).unwrap();
    for name in NEED_ETCD.iter().chain(NEED_REDIS) {
        assert!(tests.lines().any(|line| line.strip_suffix(": test") == Some(name)), "{name} is no test");
    }
}
