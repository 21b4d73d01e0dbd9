//! Epochs from the command line.

use serde_json::Value;

use super::{Gateway, code, json, said};

fn epoch_of(gateway: &Gateway) -> Value {
    let lease = json(&gateway.client(&["lease", "acquire", "jobs/probe"]));
    json(&gateway.client(&["lease", "release", lease["acquisition_id"].as_str().unwrap()]));
    lease["epoch"].clone()
}

/// Broken: a script, or a slip of the hand, refuses every owner for ever. Must hold: without a terminal the name is written
/// twice, and a command that was not meant does nothing; a copy of one that was is carried out once.
#[test]
fn an_epoch_is_begun_only_by_whoever_means_it() {
    let gateway = Gateway::start();
    std::fs::write(gateway.folder.path().join("f"), "x").unwrap();
    let lease = json(&gateway.client(&["lease", "acquire", "jobs/a"]));
    let token = lease["fencing_token"].as_str().unwrap().to_owned();
    let advance = |more: &[&str]| {
        gateway.client(&[&["epoch", "advance", "jobs", "--reason", "restored"][..], more].concat())
    };
    for unmeant in [&[][..], &["--yes"], &["--confirm", "job"], &["--confirm", "*"]] {
        let refused = advance(unmeant);
        assert_eq!(code(&refused), 2, "{unmeant:?}: {}", said(&refused));
    }
    assert!(said(&advance(&[])).contains("--confirm 'jobs'"));
    assert_eq!(epoch_of(&gateway), "0");
    let meant = ["--confirm", "jobs", "--key", "recovery"];
    let begun = json(&advance(&meant));
    assert_eq!((&begun["namespace"], &begun["epoch"]), (&Value::from("jobs"), &Value::from("1")));
    assert_eq!(json(&advance(&meant)), begun);
    assert_eq!(epoch_of(&gateway), "1");
    let late = gateway.client(&["write", "jobs/a", "--token", &token, "--operation", "late", "f"]);
    assert_eq!(code(&late), 1, "{}", said(&late));
    assert!(said(&late).contains("stale_token"), "{}", said(&late));
    let all = json(&gateway.client(&["epoch", "advance", "*", "--reason", "all", "--confirm", "*"]));
    assert_eq!((&all["epoch"], &all["items"][0]["epoch"]), (&Value::from("2"), &Value::from("2")));
    let wrong = gateway.client(&["epoch", "advance", "jobs/a", "--reason", "r", "--confirm", "jobs/a"]);
    assert_eq!(code(&wrong), 2, "{}", said(&wrong));
}
