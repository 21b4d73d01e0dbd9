//! Exams that cannot be held say so at once, and leave nothing behind that the next one would meet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{exam, folder};
use crate::support::gateway::DELIBERATE_BUG;
use crate::support::postgres::needed_binaries;

/// An exam that does not begin: what it says.
fn refused(mut command: Command, out: &Path) -> String {
    let ended = command.args(["--seconds", "1", "--out"]).arg(out).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    said
}

/// The same of one that is asked for otherwise, and must leave nothing.
fn nothing_left(ask: impl FnOnce(&mut Command, &Path)) -> String {
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    ask(&mut command, folder.path());
    let said = refused(command, &out);
    assert!(!out.exists());
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
    let said = nothing_left(|exam, _| {
        exam.args(["--gateway", "/bin/true"]);
    });
    assert!(said.contains("true is no gateway"), "{said}");
}

#[test]
fn a_gateway_that_does_not_start_says_why_at_once_and_leaves_nothing() {
    let said = nothing_left(|exam, folder| {
        exam.arg("--gateway").arg(pretender(folder));
    });
    for words in
        ["gateway 0: it ended while it started (exit status: 3)", "its log ends with:", "no such luck"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_postgresql_that_does_not_start_says_so_at_once_and_leaves_nothing() {
    let test = "exam::starts::a_postgresql_that_does_not_start_says_so_at_once_and_leaves_nothing";
    let Some(binaries) = needed_binaries(test) else { return };
    let said = nothing_left(|exam, folder| {
        // The keeper of the server is a gateway's program.
        exam.arg("--gateway").arg(pretender(folder)).args(["--engine", "postgres"]);
        exam.env("FENCEGATE_POSTGRES_BIN", binaries.path_of(""));
    });
    assert!(said.contains("PostgreSQL ended while it started; its log ends with:"), "{said}");
    assert!(said.contains("no such luck"), "{said}");
}

#[test]
fn a_wrong_folder_of_postgresqls_programs_is_named() {
    let said = nothing_left(|exam, _| {
        exam.args(["--engine", "postgres"]).env("FENCEGATE_POSTGRES_BIN", "/nowhere");
    });
    assert!(said.contains("FENCEGATE_POSTGRES_BIN: /nowhere lacks initdb or postgres"), "{said}");
}

#[test]
fn a_folder_in_which_something_is_stays_as_it_is_and_another_one_is_asked_for() {
    let folder = folder();
    fs::write(folder.path().join("letter"), "kept").unwrap();
    let said = refused(exam(folder.path()), folder.path());
    assert!(said.contains("name another one with --out"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("letter")).unwrap(), "kept");
}

#[test]
fn the_bug_of_an_exam_is_that_of_its_gateways() {
    // Broken: gateways are started without the variables around them, and so without the bug that is switched on: the exam
    // would be said to see none. Must hold: they say that they are broken.
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    command.env(DELIBERATE_BUG, "revoked-itself-passes").args(["--seconds", "1", "--out"]).arg(&out);
    command.output().unwrap();
    let log = fs::read_to_string(out.join("site/gateway-0.log")).unwrap();
    assert!(log.contains("broken on purpose") && log.contains("revoked-itself-passes"), "{log}");
}
