//! The house rules of docs/ARCHITECTURE.md and docs/STYLE.md, held against the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file: its path from the project's root, and its text without comments and unit tests.
struct Source {
    path: String,
    text: String,
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources(folder: &str) -> Vec<Source> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        Source { path: path.strip_prefix(root()).unwrap().display().to_string(), text, code }
    };
    let found: Vec<Source> = files_below(folder, ".rs").into_iter().map(read).collect();
    assert!(!found.is_empty(), "nothing below {folder}: the rule would hold of nothing");
    found
}

/// Words that must not stand in the code of a folder.
fn banned(folder: &str, words: &[&str], except: &[&str]) {
    for source in sources(folder) {
        if except.iter().any(|path| source.path.ends_with(path)) {
            continue;
        }
        for word in words {
            assert!(!source.code.contains(word), "{} must not contain {word:?}", source.path);
        }
    }
}

/// Rooms that a room may call, beside itself.
const ARROWS: [(&str, &[&str]); 15] = [
    ("access", &["domain", "limits", "tls"]),
    ("tls", &["domain", "limits"]),
    ("deliberate", &[]),
    ("domain", &["deliberate"]),
    ("protocol", &["deliberate", "domain"]),
    ("ledger", &["deliberate", "protocol", "domain", "telemetry", "limits"]),
    ("backing", &["deliberate", "domain", "limits"]),
    ("dispatch", &["ledger", "backing", "protocol", "domain", "telemetry", "limits"]),
    ("http", &["access", "deliberate", "dispatch", "ledger", "protocol", "domain", "telemetry", "limits"]),
    ("telemetry", &["domain", "limits", "tls"]),
    ("config", &["access", "domain", "limits", "tls"]),
    (
        "app",
        &[
            "access",
            "deliberate",
            "http",
            "dispatch",
            "ledger",
            "backing",
            "config",
            "protocol",
            "domain",
            "telemetry",
            "tls",
            "limits",
        ],
    ),
    ("bench", &["access", "domain", "limits", "tls"]),
    ("exam", &["bench", "deliberate", "domain", "limits"]),
    ("cli", &["access", "app", "bench", "config", "domain", "limits", "telemetry", "tls"]),
];

#[test]
fn rooms_call_only_whom_they_may() {
    for source in sources("src") {
        let room =
            source.path.trim_start_matches("src/").split(['/', '.']).next().unwrap_or_default().to_owned();
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else { continue };
        for (_, after) in
            source.code.match_indices("crate::").map(|(at, word)| (at, &source.code[at + word.len()..]))
        {
            let called: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let fine = called == room || allowed.contains(&called.as_str());
            assert!(fine, "{} calls {called}, and {room} may call only {allowed:?}", source.path);
        }
    }
}

#[test]
fn domain_and_protocol_are_pure() {
    let impure = [
        "async ",
        ".await",
        "tokio",
        "sqlx",
        "axum",
        "reqwest",
        "hyper",
        "SystemTime",
        "Instant",
        "getrandom",
        "rand::",
        "tracing",
        "println",
        "\nstatic ",
        "std::fs",
        "std::net",
        "std::env",
        "new_v4",
        "now_v7",
        "thread_local",
    ];
    banned("src/domain", &impure, &[]);
    banned("src/protocol", &impure, &[]);
}

#[test]
fn only_the_ledger_knows_sql_and_it_knows_no_status() {
    let others = ["http", "dispatch", "backing", "domain", "protocol", "cli", "config"];
    for folder in others.map(|room| format!("src/{room}")) {
        let folder = folder.as_str();
        if root().join(folder).exists() {
            banned(folder, &["sqlx", "SELECT ", "INSERT ", "BEGIN IMMEDIATE"], &[]);
        }
    }
    banned("src/ledger", &["StatusCode", "axum", "http::"], &[]);
}

#[test]
fn only_position_compares_positions() {
    for folder in ["src/http", "src/dispatch", "src/backing", "src/ledger", "src/app", "src/cli"] {
        banned(folder, &["is_below(", "is_above(", "is_revoked_through("], &[]);
    }
    // The judge of an exam compares in its own words, and shares no rule with whom it judges.
    for source in sources("src").into_iter().filter(|source| !source.path.starts_with("src/exam/")) {
        let compares = [
            "position < ",
            "position > ",
            "position <= ",
            "position >= ",
            ".floor < ",
            ".floor <= ",
            ".floor > ",
        ];
        for word in compares {
            assert!(!source.code.contains(word), "{} compares positions with {word:?}", source.path);
        }
    }
}

#[test]
fn only_problem_maps_refusals_to_status_codes() {
    let codes = [
        "BAD_REQUEST",
        "FORBIDDEN",
        "NOT_FOUND",
        "CONFLICT",
        "GONE",
        "PRECONDITION",
        "PAYLOAD_TOO_LARGE",
        "UNPROCESSABLE",
        "SERVICE_UNAVAILABLE",
        "GATEWAY_TIMEOUT",
        "INTERNAL_SERVER_ERROR",
        "UNSUPPORTED_MEDIA_TYPE",
    ];
    let statuses: Vec<String> = codes.iter().map(|code| format!("StatusCode::{code}")).collect();
    let words: Vec<&str> = statuses.iter().map(String::as_str).collect();
    banned("src/http", &words, &["http/problem.rs", "http/problem/code.rs"]);
}

/// Dispatch carries and decides nothing; the client to stores sends once and knows nobody; and no handler reaches a store
/// but through dispatch.
#[test]
fn only_the_rules_say_what_is_sent_and_what_it_meant() {
    let web = ["axum", "hyper", "reqwest", "StatusCode"];
    banned("src/dispatch", &[&web[..], &["Decision", "Change::", "decide("]].concat(), &[]);
    banned(
        "src/backing",
        &["axum", "reqwest", "Outcome", "Refusal", "redirect", "HTTP_PROXY", "http_proxy"],
        &[],
    );
    banned("src/http", &["Upstream::open", "send_cell", ".rewrite_cell(", ".read_cell("], &[]);
    banned("src/protocol", &["crate::backing", "crate::dispatch"], &[]);
}

/// The judge of an exam looks from outside. A rule that it shared with the gateway would be wrong in both.
#[test]
fn the_exam_shares_nothing_with_whom_it_examines_but_the_clock() {
    for source in sources("src").into_iter().filter(|source| source.path.starts_with("src/exam")) {
        for (at, word) in source.code.match_indices("crate::domain::") {
            let rest = &source.code[at + word.len()..];
            assert!(rest.starts_with("time::Clock"), "{} uses {}", source.path, &rest[..rest.len().min(40)]);
        }
        assert!(!source.code.contains("sqlx"), "{} asks the database and not the gateway", source.path);
    }
    banned("src/bin", &["protocol", "ledger", "dispatch"], &[]);
}

#[test]
fn no_database_future_is_cancelled() {
    // The places that wait and give up: for the answer of a task or for a turn, never for a database.
    let patient = ["ledger/postgres/patience.rs", "ledger/watch.rs", "ledger/listening.rs"];
    banned("src/ledger", &["select!", "time::timeout", ".abort()"], &patient);
    for path in patient {
        let waits = sources("src/ledger").into_iter().find(|source| source.path.ends_with(path)).unwrap();
        for word in ["sqlx", "rusqlite", "Connection", "time::timeout", ".abort()"] {
            assert!(!waits.code.contains(word), "{path} must not contain {word:?}");
        }
    }
    banned("src/http", &["select!"], &[]);
}

#[test]
fn files_are_short_and_nothing_is_left_for_later() {
    for folder in ["src", "tests"] {
        for source in sources(folder) {
            let lines = source.text.lines().count();
            assert!(lines <= 400, "{} has {lines} lines; split it by what it does", source.path);
            if source.path.ends_with("architecture.rs") {
                continue;
            }
            for word in ["todo!(", "unimplemented!(", "#[ignore", "FIXME", "XXX", "#[allow("] {
                assert!(!source.text.contains(word), "{} contains {word:?}", source.path);
            }
        }
    }
}

#[test]
fn every_file_opens_with_the_reason_why_it_exists() {
    for source in sources("src") {
        assert!(source.text.starts_with("//!"), "{} has no module documentation", source.path);
    }
}

#[test]
fn every_file_is_part_of_a_module() {
    for folder in ["src", "tests/it"] {
        let all: String = sources(folder).iter().map(|source| source.text.clone()).collect();
        for source in sources(folder) {
            let path = Path::new(&source.path);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = if stem == "mod" {
                path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
            } else {
                stem
            };
            let is_program = path.parent().is_some_and(|folder| folder.ends_with("bin"));
            let root = is_program || ["main", "lib", "it", "src"].contains(&name.as_str());
            assert!(root || all.contains(&format!("mod {name};")), "{} is included by nobody", source.path);
        }
    }
}

#[test]
fn main_is_small_and_shipped_code_forbids_unsafe() {
    let main = fs::read_to_string(root().join("src/main.rs")).unwrap();
    assert!(main.lines().count() <= 40, "main.rs is more than a door");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for lint in
        ["unsafe_code = \"forbid\"", "unwrap_used", "expect_used", "panic", "as_conversions", "missing_docs"]
    {
        assert!(manifest.contains(lint), "the lint {lint} is not switched on");
    }
}
