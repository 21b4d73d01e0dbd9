//! Exams that cannot be held say so at once, and leave nothing behind that the next one would meet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{exam, folder};
use crate::support::postgres::needed_binaries;

/// An exam that does not begin: what it says.
fn refused(mut command: Command, out: &Path) -> String {
    let ended = command.args(["--seconds", "1", "--out"]).arg(out).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    said
}

/// A program that says that it is a gateway, and is none. Its file is written by another process: one that is open for
/// writing here cannot be run, and neither can it while a process that was started meanwhile has it open.
fn pretender(folder: &Path) -> PathBuf {
    let path = folder.join("pretender");
    let script =
        "#!/bin/sh\ncase $1 in --version) echo fencegate 0.0.0;; *) echo no such luck >&2; exit 3;; esac\n";
    let write = "printf %s \"$1\" > \"$0\" && chmod +x \"$0\"";
    let written = Command::new("/bin/sh").args(["-c", write]).arg(&path).arg(script).status().unwrap();
    assert!(written.success());
    path
}

#[test]
fn a_program_that_is_no_gateway_is_refused_before_anything_is_made() {
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    command.args(["--gateway", "/bin/true"]);
    let said = refused(command, &out);
    assert!(said.contains("true is no gateway"), "{said}");
    assert!(!out.exists());
}

#[test]
fn a_gateway_that_does_not_start_says_why_at_once_and_leaves_nothing() {
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    command.arg("--gateway").arg(pretender(folder.path()));
    let said = refused(command, &out);
    for words in
        ["gateway 0: it ended while it started (exit status: 3)", "its log ends with:", "no such luck"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!out.exists());
}

#[test]
fn a_postgresql_that_does_not_start_says_so_at_once_and_leaves_nothing() {
    let test = "exam::starts::a_postgresql_that_does_not_start_says_so_at_once_and_leaves_nothing";
    let Some(binaries) = needed_binaries(test) else { return };
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    // The keeper of the server is a gateway's program.
    command.arg("--gateway").arg(pretender(folder.path())).args(["--engine", "postgres"]);
    command.env("FENCEGATE_POSTGRES_BIN", binaries.path_of(""));
    let said = refused(command, &out);
    assert!(said.contains("PostgreSQL ended while it started; its log ends with:"), "{said}");
    assert!(said.contains("no such luck"), "{said}");
    assert!(!out.exists());
}

#[test]
fn a_wrong_folder_of_postgresqls_programs_is_named() {
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    command.args(["--engine", "postgres"]).env("FENCEGATE_POSTGRES_BIN", "/nowhere");
    let said = refused(command, &out);
    assert!(said.contains("FENCEGATE_POSTGRES_BIN: /nowhere lacks initdb or postgres"), "{said}");
    assert!(!out.exists());
}

#[test]
fn a_folder_in_which_something_is_stays_as_it_is_and_another_one_is_asked_for() {
    let folder = folder();
    fs::write(folder.path().join("letter"), "kept").unwrap();
    let said = refused(exam(folder.path()), folder.path());
    assert!(said.contains("name another one with --out"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("letter")).unwrap(), "kept");
}
