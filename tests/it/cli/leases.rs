//! Leases and control calls from the command line.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock as _;
use serde_json::Value;

use super::{Gateway, code, fencegate, json, said};

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer} in {value}"))
        .to_owned()
}

#[test]
fn one_lease_over_several_resources_has_a_token_for_each() {
    let gateway = Gateway::start();
    std::fs::write(gateway.folder.path().join("f"), "x").unwrap();
    let lease = json(&gateway.client(&[
        "lease",
        "acquire",
        "jobs/b",
        "--resource",
        "jobs/c",
        "--resource",
        "jobs/a",
    ]));
    assert_eq!(lease.pointer("/resources"), Some(&serde_json::json!(["jobs/a", "jobs/b", "jobs/c"])));
    for name in ["a", "b", "c"] {
        let token = text(&lease, &format!("/tokens/jobs~1{name}/fencing_token"));
        let write = ["write", &format!("jobs/{name}"), "--token", &token, "--operation", "one", "f"];
        assert_eq!(code(&gateway.client(&write)), 0, "{name}");
    }
    let held = gateway.client(&["lease", "acquire", "--resource", "jobs/d", "--resource", "jobs/c"]);
    assert_eq!(code(&held), 4, "{}", said(&held));
    let id = text(&lease, "/acquisition_id");
    let renewed = json(&gateway.client(&["lease", "renew", &id]));
    assert_eq!(renewed.pointer("/tokens/jobs~1a/fencing_token"), None);
    assert_eq!(text(&json(&gateway.client(&["lease", "release", &id])), "/state"), "released");
    assert_eq!(
        code(&gateway.client(&["lease", "acquire", "--resource", "jobs/d", "--resource", "jobs/c"])),
        0
    );
    let many: Vec<String> = (0..17).map(|number| format!("--resource=jobs/{number}")).collect();
    let many: Vec<&str> = ["lease", "acquire"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(code(&gateway.client(&many)), 2);
}

#[test]
fn an_acquire_waits_for_as_long_as_it_is_told_to() {
    let gateway = Gateway::start();
    let first = json(&gateway.client(&["lease", "acquire", "jobs/a"]));
    let clock = SystemClock::started();
    let late = gateway.client(&["lease", "acquire", "jobs/a", "--wait", "300ms"]);
    assert_eq!(code(&late), 4, "{}", said(&late));
    assert!(said(&late).contains("409"), "{}", said(&late));
    assert!(clock.monotonic() >= Duration::from_millis(300));

    let url = format!("http://{}", gateway.address);
    let words = ["--url", &url, "lease", "acquire", "jobs/a", "--wait", "60s"];
    let mut waiting = fencegate(gateway.folder.path(), &words);
    let mut waiting = waiting.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(200));
    assert!(waiting.try_wait().unwrap().is_none(), "it does not wait");
    gateway.client(&["lease", "release", &text(&first, "/acquisition_id")]);
    let second = json(&waiting.wait_with_output().unwrap());
    assert_eq!(text(&second, "/position"), "0.2");
}

#[test]
fn an_acquire_does_not_wait_for_what_will_not_come() {
    let gateway = Gateway::start();
    json(&gateway.client(&["cancel", "jobs/a", "--reason", "not needed"]));
    let clock = SystemClock::started();
    let refused = gateway.client(&["lease", "acquire", "jobs/a", "--wait", "60s"]);
    assert_eq!(code(&refused), 1, "{}", said(&refused));
    assert!(said(&refused).contains("409 cancelled"), "{}", said(&refused));
    assert!(clock.monotonic() < Duration::from_secs(30));
}

#[test]
fn a_lease_is_handed_to_its_successor() {
    let gateway = Gateway::start();
    let alice =
        text(&json(&gateway.client(&["lease", "acquire", "jobs/a", "--holder", "alice"])), "/acquisition_id");
    let request = "5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d";
    let transfer = |holder| {
        gateway.client(&[
            "lease",
            "transfer",
            &alice,
            "--holder",
            holder,
            "--ttl",
            "60s",
            "--request-id",
            request,
        ])
    };
    let bob = json(&transfer("bob"));
    assert_eq!((text(&bob, "/holder"), text(&bob, "/position")), ("bob".to_owned(), "0.2".to_owned()));
    assert_eq!(bob.pointer("/ttl_ms"), Some(&60_000.into()));
    let again = json(&transfer("bob"));
    for same in ["/acquisition_id", "/fencing_token"] {
        assert_eq!(text(&again, same), text(&bob, same));
    }
    let other = transfer("carol");
    assert_eq!((code(&other), said(&other).contains("422 request_mismatch")), (1, true), "{}", said(&other));
    let late = gateway.client(&["lease", "renew", &alice]);
    assert_eq!((code(&late), said(&late).contains("410 lease_superseded")), (1, true), "{}", said(&late));
    let nobody = gateway.client(&["lease", "transfer", "00AAAAAAAAAAAAAAAAAAAAAA", "--holder", "bob"]);
    assert_eq!(code(&nobody), 1, "{}", said(&nobody));
}

#[test]
fn an_operator_revokes_cancels_and_reopens() {
    let gateway = Gateway::start();
    let unheard = gateway.client(&["revoke", "jobs/a", "--reason", "a typing error"]);
    assert_eq!((code(&unheard), said(&unheard).contains("404")), (1, true), "{}", said(&unheard));

    let alice = json(&gateway.client(&["lease", "acquire", "jobs/a"]));
    let revoked = json(&gateway.client(&["revoke", "jobs/a", "--reason", "stuck"]));
    assert_eq!(
        (text(&revoked, "/revoked_through"), text(&revoked, "/lease/state")),
        ("0.1".into(), "superseded".into())
    );
    let late = gateway.client(&["lease", "renew", &text(&alice, "/acquisition_id")]);
    assert_eq!(code(&late), 1, "{}", said(&late));

    let bob = json(&gateway.client(&["lease", "acquire", "jobs/a"]));
    let cancel = ["cancel", "jobs/a", "--reason", "the customer left", "--key", "c-1"];
    let cancelled = gateway.client(&cancel);
    assert_eq!(text(&json(&cancelled), "/life"), "cancelled");
    let shown = json(&gateway.client(&["inspect", "jobs/a"]));
    assert_eq!(
        (text(&shown, "/state"), text(&shown, "/reason")),
        ("cancelled".into(), "the customer left".into())
    );
    let stopped = gateway.client(&["lease", "renew", &text(&bob, "/acquisition_id"), "--json"]);
    let problem: Value = serde_json::from_slice(&stopped.stderr).unwrap();
    assert_eq!((code(&stopped), problem.pointer("/cancel_requested")), (1, Some(&true.into())));

    let reopened = json(&gateway.client(&["reopen", "jobs/a", "--reason", "the customer is back"]));
    assert_eq!((text(&reopened, "/life"), reopened.pointer("/reason")), ("active".into(), None));
    assert_eq!(gateway.client(&cancel).stdout, cancelled.stdout, "a repetition gets the first answer");
    assert_eq!(text(&json(&gateway.client(&["inspect", "jobs/a"])), "/life"), "active", "and does nothing");
    let mixed = gateway.client(&["cancel", "jobs/a", "--reason", "another", "--key", "c-1"]);
    assert_eq!(
        (code(&mixed), said(&mixed).contains("422 operation_mismatch")),
        (1, true),
        "{}",
        said(&mixed)
    );
    assert_eq!(text(&json(&gateway.client(&["lease", "acquire", "jobs/a"])), "/position"), "0.3");
}

#[test]
fn an_owner_calls_its_own_job_off_and_a_superseded_one_does_not() {
    let gateway = Gateway::start();
    let alice = json(&gateway.client(&["lease", "acquire", "jobs/a"]));
    let transfer = ["lease", "transfer", &text(&alice, "/acquisition_id"), "--holder", "bob"];
    let bob = json(&gateway.client(&transfer));
    let cancel = |token: &str| {
        gateway.client(&["cancel", "jobs/a", "--reason", "wrong input", "--fencing-token", token])
    };
    let stale = cancel(&text(&alice, "/fencing_token"));
    assert_eq!((code(&stale), said(&stale).contains("412 stale_token")), (1, true), "{}", said(&stale));
    assert_eq!(text(&json(&cancel(&text(&bob, "/fencing_token"))), "/life"), "cancelled");
    let url = format!("http://{}", gateway.address);
    let mut operator =
        fencegate(gateway.folder.path(), &["--url", &url, "revoke", "jobs/a", "--reason", "again"]);
    let output = operator.env("FENCING_TOKEN", text(&alice, "/fencing_token")).output().unwrap();
    assert_eq!(code(&output), 0, "the environment says nothing: {}", said(&output));
}
