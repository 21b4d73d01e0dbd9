//! The benchmark runs: every cell of the embedded part is measured, and a wrong answer is not counted as a fast one.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::gateway::command;

/// Runs it on SQLite with short cells, and gives what it printed and its report.
fn quick(arguments: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let mut bench = command(folder.path());
    bench.args(["bench", "--quick", "--only", "sqlite", "--no-strace", "--folder", "."]).args(arguments);
    bench.arg("--report").arg(&report).stdin(Stdio::null());
    let ended = bench.output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["report.json"], "the run leaves something behind");
    (String::from_utf8(ended.stdout).unwrap(), serde_json::from_slice(&fs::read(&report).unwrap()).unwrap())
}

#[test]
fn every_cell_of_the_embedded_part_is_measured() {
    // A benchmark that is never run is broken on the day it is needed.
    let (told, report) = quick(&["--connections", "1,64"]);
    let cells = report["cells"].as_array().unwrap();
    let found: BTreeSet<String> = cells
        .iter()
        .map(|cell| {
            format!("{} {} {}", cell["way"].as_str().unwrap(), cell["kind"].as_str().unwrap(), cell["at"])
        })
        .collect();
    let expected = [
        "hello distinct 1",
        "hello distinct 64",
        "gateway-sqlite distinct 1",
        "gateway-sqlite distinct 64",
        "gateway-sqlite hot 1",
        "gateway-sqlite hot 64",
        "gateway-sqlite batch 16",
        "gateway-sqlite pace-50 64",
        "gateway-sqlite pace-80 64",
        "pool-sqlite distinct 1",
        "pool-sqlite distinct 64",
        "pool-sqlite hot 64",
        "raw-sqlite batch 64",
        "raw-sqlite batch 256",
    ];
    assert_eq!(found, expected.into_iter().map(str::to_owned).collect());
    for cell in cells {
        let sample = &cell["rounds"][0];
        assert_eq!(sample["fault"], Value::Null, "{cell}");
        assert!(sample["writes"].as_u64().unwrap() > 0, "{cell}");
        assert!(cell["rate"]["median"].as_f64().unwrap() > 0.0, "{cell}");
    }
    let goal =
        |id: &str| report["goals"].as_array().unwrap().iter().find(|goal| goal["id"] == id).cloned().unwrap();
    assert!(goal("P1")["reached"]["median"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(goal("P8")["met"], Value::Null, "nothing was measured on PostgreSQL");
    assert!(told.contains("pool-sqlite distinct 64"), "{told}");
}
