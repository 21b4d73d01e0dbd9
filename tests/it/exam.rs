//! The exam in short: it is passed, it can fail, and its judge sees what somebody did to a history.

mod by_hand;
#[expect(clippy::ptr_arg, reason = "deeds have one type, and some of them add or remove lines")]
mod operators;
mod starts;
#[expect(clippy::ptr_arg, reason = "deeds have one type, and some of them add or remove lines")]
mod tampered;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::gateway::settings_around;
use crate::support::postgres::needed_binaries;

/// The program, without anybody's settings.
fn exam(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencegate-exam"));
    command.current_dir(folder).stdin(Stdio::null());
    for name in settings_around("FENCEGATE_") {
        command.env_remove(name);
    }
    command
}

/// A folder through which the user of a database server can walk.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    folder
}

/// Holds an exam that must pass, and gives its report.
fn passed(mut command: Command, out: &Path) -> Value {
    let ended = command.arg("--out").arg(out).output().unwrap();
    let said = [ended.stderr, ended.stdout].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&said));
    serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap()
}

/// Something was done, and something went wrong with it.
fn mattered(report: &Value) {
    let count = |name: &str| report[name].as_u64().unwrap();
    let done = ["acknowledged", "replayed", "lost_answers", "granted", "effects_in_stores", "resources"];
    for name in done.into_iter().chain(["transferred", "acts_of_operators", "epochs"]) {
        assert!(count(name) > 0, "no {name}: {report:#}");
    }
    assert_eq!(report["open"], 0, "{report:#}");
    let faults = report["faults"].as_object().unwrap();
    let mattered = faults.iter().filter(|(_, fault)| fault["mattered"].as_u64().unwrap() > 0);
    let kinds: Vec<&str> = mattered.map(|(kind, _)| kind.as_str()).collect();
    let met: u64 = faults.values().map(|fault| fault["mattered"].as_u64().unwrap()).sum();
    assert!(met >= 8 && kinds.len() >= 5 && kinds.contains(&"kill -9"), "{kinds:?} of {report:#}");
    assert!(kinds.iter().any(|kind| NETWORK.contains(kind)), "{report:#}");
}

/// What is done to the network, in every exam.
const NETWORK: [&str; 12] = [
    "cut",
    "delay",
    "duplicate",
    "half-close by who answers",
    "half-close by who asks",
    "hold and late release",
    "kept for up to 30 s",
    "late answers",
    "lost answers",
    "reset",
    "reset mid-body",
    "slow read",
];

/// The arguments with which an exam is held through the gateway, and past it. The first epochs of this seed leave open what is
/// under way: one that must not may wait for longer than a short exam lasts.
const ON_SQLITE: [&str; 6] = ["--seed", "18", "--seconds", "11", "--pace", "250"];

/// What this seed does to the network first, and for how many milliseconds.
const SCHEDULE: [(&str, u64); 4] =
    [("reset", 1_503), ("kept for up to 30 s", 588), ("reset", 816), ("delay", 768)];

/// The first faults of the network, as the history has them.
fn schedule(out: &Path) -> Vec<(String, u64)> {
    let history = fs::read_to_string(out.join("history.jsonl")).unwrap();
    let lines = history.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["is"].take());
    let faults = lines.filter(|line| line["event"] == "fault");
    let faults =
        faults.map(|fault| (fault["kind"].as_str().unwrap().to_owned(), fault["ms"].as_u64().unwrap()));
    faults.filter(|(kind, _)| NETWORK.contains(&kind.as_str())).take(SCHEDULE.len()).collect()
}

fn is_on_schedule(out: &Path) {
    assert_eq!(schedule(out), SCHEDULE.map(|(kind, ms)| (kind.to_owned(), ms)));
}

/// Judges a folder again: the invariants that it finds broken.
fn condemned(folder: &Path) -> Vec<String> {
    let ended = exam(folder).args(["judge", "--json"]).arg(folder).output().unwrap();
    let report = serde_json::from_slice::<Value>(&ended.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(ended.status.success(), report["passed"].as_bool().unwrap(), "{report:#}");
    report["violations"]["by_invariant"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn an_exam_on_sqlite_is_passed_and_whoever_changes_its_history_is_found_out() {
    // A judge that says "no violation" of everything would pass every gateway.
    let folder = folder();
    let out: PathBuf = folder.path().join("exam");
    let mut command = exam(folder.path());
    command.args(ON_SQLITE);
    mattered(&passed(command, &out));
    is_on_schedule(&out);
    assert_eq!(condemned(&out), Vec::<String>::new());
    tampered::each_is_condemned(&out);
}

#[test]
fn an_exam_of_three_replicas_on_postgresql_is_passed() {
    let test = "exam::an_exam_of_three_replicas_on_postgresql_is_passed";
    let Some(binaries) = needed_binaries(test) else { return };
    let folder = folder();
    let mut command = exam(folder.path());
    command.env("FENCEGATE_POSTGRES_BIN", binaries.path_of(""));
    command.args(["--seed", "6", "--seconds", "11", "--pace", "350"]);
    command.args(["--engine", "postgres", "--replicas", "3"]);
    let report = passed(command, &folder.path().join("exam"));
    mattered(&report);
    assert_eq!(report["planned"]["replicas"], 3);
}

#[test]
fn past_the_gateway_the_same_judge_finds_stale_writes() {
    // The same workers, the same schedule, the same judge, and nothing in between that could refuse.
    let folder = folder();
    let out = folder.path().join("exam");
    let mut command = exam(folder.path());
    command.args(ON_SQLITE).arg("--unfenced");
    let report = passed(command, &out);
    is_on_schedule(&out);
    assert!(report["violations"]["by_invariant"]["I1"].as_u64().unwrap() > 0, "{report:#}");
    assert!(report["acknowledged"].as_u64().unwrap() > 0, "{report:#}");
    assert_eq!(report["violations"]["first"].as_array().unwrap().len(), 1, "one story is enough");
}
