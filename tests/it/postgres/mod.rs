//! The PostgreSQL engine and the gateway over it, on servers that the tests start themselves.

mod cluster;

use std::fs;
use std::path::{Path, PathBuf};

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

/// The list is worth something only if it is complete: each name in it stands in a test, each test's name in it.
#[test]
fn the_list_of_tests_that_need_postgresql_is_true() {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it")];
    let mut sources = String::new();
    while let Some(folder) = open.pop() {
        let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
        open.extend(folders);
        let files = files.iter().filter(|path| !path.ends_with("missing.rs"));
        files.for_each(|file| sources.push_str(&fs::read_to_string(file).unwrap()));
    }
    for name in NEED_POSTGRES {
        assert!(sources.contains(&format!("\"{name}\"")), "no test says that it is {name}");
        let function = name.rsplit("::").next().unwrap();
        assert!(sources.contains(&format!("fn {function}(")), "there is no test {function}");
    }
}
