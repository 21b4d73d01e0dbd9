//! The benchmark runs: every cell is measured, and a wrong answer is not counted as a fast one. The figures mean nothing
//! here.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::gateway::command;
use crate::support::postgres::needed_binaries;

/// The shortest run of it, in a folder.
fn quick(folder: &TempDir, only: &str) -> Command {
    quick_at(folder, only, "1,64")
}

fn quick_at(folder: &TempDir, only: &str, connections: &str) -> Command {
    let mut bench = command(folder.path());
    bench.args(["bench", "--quick", "--only", only, "--connections", connections]);
    bench.args(["--folder", ".", "--no-strace"]);
    bench.args(["--report", "report.json"]).stdin(Stdio::null());
    bench
}

/// Runs it to its end, and gives what it printed and its report.
fn ended(folder: &TempDir, bench: &mut Command) -> (String, Value) {
    let ended = bench.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["report.json"], "the run leaves something behind");
    let report = fs::read(folder.path().join("report.json")).unwrap();
    (String::from_utf8(ended.stdout).unwrap(), serde_json::from_slice(&report).unwrap())
}

/// Holds the cells of a report against those that must be there; each counted something and failed in nothing.
fn measured(report: &Value, expected: &[&str]) {
    let cells = report["cells"].as_array().unwrap();
    let name = |cell: &Value| {
        format!("{} {} {}", cell["way"].as_str().unwrap(), cell["kind"].as_str().unwrap(), cell["at"])
    };
    let found: BTreeSet<String> = cells.iter().map(name).collect();
    assert_eq!(found, expected.iter().map(|cell| (*cell).to_owned()).collect(), "{}", report["conditions"]);
    for cell in cells {
        let sample = &cell["rounds"][0];
        assert_eq!(sample["fault"], Value::Null, "{cell}");
        assert!(sample["writes"].as_u64().unwrap() > 0, "{cell}");
        assert!(cell["rate"]["median"].as_f64().unwrap() > 0.0, "{cell}");
    }
}

fn goal<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["goals"].as_array().unwrap().iter().find(|goal| goal["id"] == id).unwrap()
}

#[test]
fn every_cell_of_the_embedded_part_is_measured() {
    // A benchmark that is never run is broken on the day it is needed.
    let folder = tempfile::tempdir().unwrap();
    let (told, report) = ended(&folder, &mut quick(&folder, "sqlite"));
    measured(
        &report,
        &[
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
        ],
    );
    assert!(goal(&report, "P1")["reached"]["median"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(goal(&report, "P8")["met"], Value::Null, "nothing was measured on PostgreSQL");
    assert!(told.contains("pool-sqlite distinct 64"), "{told}");
}

#[test]
fn every_cell_of_the_proxies_is_measured() {
    // nginx has processes of its own: the folder is gone only when they have ended.
    let folder = tempfile::tempdir().unwrap();
    let (told, report) = ended(&folder, &mut quick(&folder, "upstreams"));
    let left_out = report["conditions"]["left_out"].to_string();
    let has_nginx = !left_out.contains("nginx: there is no such program");
    let mut expected = Vec::new();
    for way in ["upstream", "gateway-upstream", "nginx"] {
        for cell in ["read 1", "read 64", "forward 1", "forward 64"] {
            if way != "nginx" || has_nginx {
                expected.push(format!("{way} {cell}"));
            }
        }
    }
    measured(&report, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    for id in ["P16", "P17"] {
        assert_eq!(goal(&report, id)["reached"].is_object(), has_nginx, "{report}");
    }
    assert!(told.contains("gateway-upstream forward 64"), "{told}");
}

#[test]
fn what_credentials_cost_is_measured() {
    // Broken: one of the credentials is refused, and a fast refusal is counted. Must hold: each is let in by a gateway that asks
    // for it, and its figures stand beside those of callers without any.
    let folder = tempfile::tempdir().unwrap();
    let (told, report) = ended(&folder, &mut quick_at(&folder, "access", "8"));
    let figures = report["figures"].as_array().unwrap();
    let figure = |name: &str| {
        let found = figures.iter().find(|figure| figure["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is missing: {told}"))["rounds"][0].as_f64().unwrap()
    };
    let without_tls = ["nothing", "key", "RS256", "ES256", "EdDSA"];
    let left_out = &report["conditions"]["left_out"];
    let is_whole = left_out.as_array().unwrap().is_empty();
    assert!(is_whole || left_out.to_string().contains("openssl cannot be run"), "{left_out}");
    let with_tls = ["key, TLS", "certificate, TLS"];
    for name in without_tls.iter().chain(with_tls.iter().filter(|_| is_whole)) {
        for kind in ["reads", "writes"] {
            for what in ["per second", "of those without"] {
                assert!(figure(&format!("access: {kind} at 8, {name}: {what}")) > 0.0);
            }
        }
    }
    for what in ["a key", "a certificate", "RS256, the first time", "ES256, again"] {
        assert!(figure(&format!("access: looking at {what}, us")) > 0.0);
    }
}

#[test]
fn every_cell_on_the_server_is_measured() {
    // It starts a server of its own, as root under another user, and ends it.
    let Some(binaries) = needed_binaries("bench::every_cell_on_the_server_is_measured") else { return };
    let folder = tempfile::tempdir().unwrap();
    // The server's user must be able to walk through it.
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let mut bench = quick(&folder, "postgres");
    let (_, report) = ended(&folder, bench.env("FENCEGATE_POSTGRES_BIN", binaries.path_of("")));
    let mut cells = vec![
        "hello distinct 1",
        "hello distinct 64",
        "gateway-postgres distinct 1",
        "gateway-postgres distinct 64",
        "gateway-postgres hot 1",
        "gateway-postgres hot 64",
        "gateway-postgres batch 16",
        "gateway-postgres pace-50 64",
        "gateway-postgres pace-80 64",
        "pool-postgres distinct 1",
        "pool-postgres distinct 64",
        "pool-postgres hot 64",
    ];
    let left_out = report["conditions"]["left_out"].to_string();
    if left_out.contains("pgbench: there is no such program") {
        assert!(!binaries.path_of("pgbench").is_file(), "{left_out}");
    } else {
        cells.extend([
            "pgbench-naive distinct 1",
            "pgbench-naive distinct 16",
            "pgbench-naive distinct 64",
            "pgbench-naive hot 64",
            "pgbench-cte distinct 1",
            "pgbench-cte distinct 16",
            "pgbench-cte distinct 64",
            "pgbench-cte hot 64",
            "pgbench-batch batch 2",
        ]);
    }
    measured(&report, &cells);
    assert!(goal(&report, "P8")["reached"]["median"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["conditions"]["settings"]["PostgreSQL"]["fsync"], "on");
}
