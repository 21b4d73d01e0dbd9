//! Stores behind HTTP from the command line: what a store answers in its own words, and how a person ends a doubt.

use std::fs;

use serde_json::{Value, json};

use super::{Gateway, code, json as answered, said};
use crate::support::upstream::{Fault, Kind, Upstream};

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

/// A gateway in front of a store that can tell nothing, and the token of an owner of `printer/a`.
fn before(upstream: &Upstream) -> (Gateway, String) {
    let settings =
        format!("[namespaces.printer]\nstore = {{ http = {:?}, class = \"serial\" }}\n", upstream.url());
    let gateway = Gateway::configured(&settings);
    fs::write(gateway.folder.path().join("f"), "x").unwrap();
    let lease = answered(&gateway.client(&["lease", "acquire", "printer/a"]));
    let token = text(&lease, "/fencing_token").to_owned();
    (gateway, token)
}

#[test]
fn a_person_ends_a_doubt_that_the_gateway_cannot_end() {
    let upstream = Upstream::start(Kind::Serial);
    let (gateway, token) = before(&upstream);
    let write = |id| gateway.client(&["write", "printer/a", "--token", &token, "--operation", id, "f"]);
    upstream.fault(Fault::DropAnswer);
    let doubt = write("one");
    assert_eq!((code(&doubt), said(&doubt).contains("504 outcome_uncertain")), (3, true), "{}", said(&doubt));

    let listed =
        |words: &[&str]| answered(&gateway.client(&[&["operations"], words].concat()))["items"].clone();
    let all = listed(&[]);
    assert_eq!((text(&all, "/0/resource"), text(&all, "/0/operation_id")), ("printer/a", "one"));
    assert_eq!(listed(&["--state", "uncertain"]), all);
    assert_eq!(listed(&["--state", "intent"]), json!([]));
    assert_eq!(listed(&["printer/a", "--state", "uncertain"]), all);
    let decided = gateway.client(&["operations", "--state", "applied"]);
    assert_eq!(
        (code(&decided), said(&decided).contains("name the resource")),
        (1, true),
        "{}",
        said(&decided)
    );
    let shown = answered(&gateway.client(&["inspect", "printer/a"]));
    assert_eq!((text(&shown, "/state"), text(&shown, "/lane")), ("needs_attention", "one"));

    let resolve = |verdict| {
        let why = ["--evidence", "nothing lies in the tray", "--reason", "the printer was switched off"];
        gateway.client(&[&["resolve", "printer/a", "one", "--verdict", verdict][..], &why].concat())
    };
    let resolved = answered(&resolve("not_applied"));
    assert_eq!(text(&resolved, "/state"), "resolved_not_applied");
    assert_eq!(text(&resolved, "/resolution/evidence"), "nothing lies in the tray");
    assert_eq!(answered(&resolve("not_applied")), resolved, "the same again is answered as once");
    let other = resolve("applied");
    assert_eq!((code(&other), said(&other).contains("409 already_resolved")), (1, true), "{}", said(&other));
    assert_eq!(listed(&[]), json!([]));
    let again = write("one");
    assert_eq!(
        (code(&again), said(&again).contains("412 operation_not_applied")),
        (1, true),
        "{}",
        said(&again)
    );
    assert_eq!(code(&write("two")), 0);
}

#[test]
fn what_a_store_answers_is_shown_and_ends_the_command() {
    let upstream = Upstream::start(Kind::Serial);
    let (gateway, token) = before(&upstream);
    let write = |id| gateway.client(&["write", "printer/a", "--token", &token, "--operation", id, "f"]);
    upstream.fault(Fault::Status(409));
    let refused =
        gateway.client(&["write", "printer/a", "--token", &token, "--operation", "one", "f", "--json"]);
    let told: Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!((code(&refused), &told["status"], &told["body"]), (1, &json!(409), &json!("no")));
    upstream.fault(Fault::Status(429));
    assert_eq!(code(&write("two")), 4, "the operation id is free");
    let written = answered(&write("two"));
    assert_eq!((text(&written, "/source"), text(&written, "/effect")), ("upstream", "applied"));
    assert_eq!((text(&written, "/body"), &written["replayed"]), ("written 1", &json!(false)));
    let again = answered(&write("two"));
    assert_eq!((text(&again, "/body"), &again["replayed"]), ("written 1", &json!(true)));
    assert_eq!(gateway.client(&["get", "printer/a"]).stdout, b"x");
    let missing = gateway.client(&["get", "printer/b"]);
    assert_eq!((code(&missing), said(&missing).contains("answered 404")), (1, true), "{}", said(&missing));
}

#[test]
fn a_verdict_needs_its_evidence_and_its_reason() {
    let gateway = Gateway::configured("");
    let whole = ["resolve", "printer/a", "one", "--verdict", "applied", "--evidence", "e", "--reason", "r"];
    assert_eq!(code(&gateway.client(&whole)), 1, "no such operation");
    for missing in [3, 5, 7] {
        let words: Vec<&str> = whole
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != missing && *at != missing + 1)
            .map(|(_, word)| *word)
            .collect();
        assert_eq!(code(&gateway.client(&words)), 2, "{words:?}");
    }
    let mut blank = whole;
    blank[6] = " ";
    assert_eq!(code(&gateway.client(&blank)), 2);
    assert_eq!(code(&gateway.client(&["operations", "--cursor", "x"])), 2, "all have one page");
}
