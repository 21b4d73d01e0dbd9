//! The PostgreSQL engine and the gateway over it, on servers that the tests start themselves.

mod cluster;
mod commits;
mod connections;
mod failover;
mod faults;
mod locks;
mod opening;
mod regress;
mod upgrade;

use std::process::Command;

use crate::support::postgres::binaries::{Binaries, say};
use crate::support::postgres::missing::{ALLOWED_BY, NEED_POSTGRES, REMEDY, allowed};

/// A test that was not run must not look like one that passed: where there is no PostgreSQL this names and counts all
/// of them, and fails unless that is allowed.
#[test]
fn what_could_not_run() {
    let Err(reason) = Binaries::found() else {
        say("0 tests could not run for want of PostgreSQL");
        return;
    };
    for name in NEED_POSTGRES {
        say(&format!("not run, PostgreSQL is missing: {name}"));
    }
    say(&format!("{} tests could not run for want of PostgreSQL ({reason})", NEED_POSTGRES.len()));
    assert!(allowed(), "{REMEDY}");
    say(&format!("{ALLOWED_BY}=1 allows it"));
}

/// The list is worth something only if it is true: each name in it is a test. That each test's name is in it, it finds
/// out itself when it asks for a server.
#[test]
fn the_list_of_tests_that_need_postgresql_is_true() {
    let listed = Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format", "terse"])
        .output()
        .unwrap();
    let tests = String::from_utf8(listed.stdout).unwrap();
    for name in NEED_POSTGRES {
        assert!(tests.lines().any(|line| line.strip_suffix(": test") == Some(name)), "{name} is no test");
    }
}
