//! Becoming the owner, or not.

use std::net::TcpListener;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::upstream::{self, Reply, Upstream, granted, problem, released};
use super::{RESOURCE, Scene, until};
use crate::support::gateway::Process;

const STARTED: &str = "echo started > started";

fn lease_held(retry_after_ms: u64) -> Reply {
    problem(409, "lease_held", true, &json!({"retry_after_ms": retry_after_ms}))
}

/// Cron on two hosts: the one that comes second must not do the work too.
#[test]
fn whoever_comes_second_does_not_start_its_command() {
    let (scene, other, home) = (Scene::new(), Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let owner = scene.script(&gateway.base, &[], "echo $$ > pid; while ! test -e end; do sleep 0.02; done");
    scene.pid("pid");
    let second = other.script(&gateway.base, &[], STARTED).ended();
    let said = second.with_one_line(75);
    assert!(said.starts_with("fencegate run: ") && said.contains("lease_held"), "{said}");
    assert!(second.took < Duration::from_secs(5), "{second:?}");
    assert_eq!(other.read("started"), "");
    std::fs::write(scene.path().join("end"), "").unwrap();
    owner.ended().with(0);
    other.script(&gateway.base, &[], STARTED).ended().with(0);
}

#[test]
fn whoever_waits_gets_it_when_it_is_free() {
    let (scene, other, home) = (Scene::new(), Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let until_end = "echo $$ > pid; while ! test -e end; do sleep 0.02; done";
    let owner = scene.script(&gateway.base, &["--ttl", "1h"], until_end);
    scene.pid("pid");
    let second = other.script(&gateway.base, &["--wait", "1h"], STARTED);
    until("it has waited for a moment", || second.elapsed() > Duration::from_millis(500));
    std::fs::write(scene.path().join("end"), "").unwrap();
    owner.ended().with(0);
    // Long before the lease would have ended: the gateway tells whoever waits.
    assert_eq!(second.ended().with(0), "");
    assert_eq!(other.read("started"), "started\n");
}

#[test]
fn without_a_gateway_nothing_is_started() {
    let nowhere = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let scene = Scene::new();
    let ended = scene.script(&nowhere, &[], STARTED).ended();
    assert!(ended.with_one_line(75).contains("cannot reach a gateway"), "{}", ended.err);
    assert!(ended.took < Duration::from_secs(5), "{ended:?}");
    assert_eq!(scene.read("started"), "");
    scene.script("ftp://127.0.0.1", &[], STARTED).ended().with(2);
}

/// A lost answer may have been a grant: a new request id would then wait for its own lease.
#[test]
fn what_was_not_answered_is_asked_again_with_the_same_request_id() {
    let gateway = Upstream::start(|asked, before| match (asked.what, before) {
        ("acquire", 0) => Reply::HangUp,
        ("acquire", 1) => problem(503, "overloaded", true, &json!({"retry_after_ms": 60})),
        ("acquire", 2) => {
            problem(500, "outcome_uncertain", false, &json!({"effect": "unknown", "retry_after_ms": 60}))
        }
        ("acquire", _) => granted(30_000),
        _ => released(),
    });
    let scene = Scene::new();
    let options = ["--wait", "20s", "--holder", "me", "--ttl", "30s"];
    assert_eq!(scene.script(&gateway.base, &options, STARTED).ended().with(0), "");
    assert_eq!(gateway.order(), ["acquire", "acquire", "acquire", "acquire", "release"]);
    let bodies: Vec<Value> = gateway.asked("acquire").into_iter().map(|asked| asked.body).collect();
    for body in &bodies {
        assert_eq!(body["request_id"], bodies[0]["request_id"]);
        assert_eq!(
            (&body["resource"], &body["holder"], &body["ttl_ms"]),
            (&json!(RESOURCE), &json!("me"), &json!(30_000))
        );
    }
    assert!(bodies[0]["request_id"].as_str().is_some_and(|id| id.len() == 36), "{}", bodies[0]);
}

#[test]
fn what_no_repetition_can_change_is_not_repeated() {
    for code in ["cancelled", "invalid_field", "unknown_namespace"] {
        let gateway = Upstream::start(move |_, _| problem(409, code, false, &json!({})));
        let scene = Scene::new();
        let ended = scene.script(&gateway.base, &["--wait", "20s"], STARTED).ended();
        assert!(ended.with_one_line(75).contains(code), "{}", ended.err);
        assert_eq!(gateway.order(), ["acquire"], "{code}");
    }
}

#[test]
fn the_pause_is_the_gateways_and_the_last_try_is_at_the_end_of_the_budget() {
    let gateway = Upstream::start(|_, before| lease_held(if before == 0 { 300 } else { 60_000 }));
    let ended = Scene::new().script(&gateway.base, &["--wait", "800ms"], STARTED).ended();
    assert!(ended.with_one_line(75).contains("lease_held"), "{}", ended.err);
    let at: Vec<Duration> = gateway.asked("acquire").into_iter().map(|asked| asked.at).collect();
    let [first, second, third] = at.as_slice() else { panic!("{at:?}") };
    assert!(second.saturating_sub(*first) >= Duration::from_millis(300), "{at:?}");
    assert!(third > second, "{at:?}");
    let budget = Duration::from_millis(800);
    assert!(ended.took >= budget && ended.took < Duration::from_secs(10), "{ended:?}");
}

/// The gateway waits for at most 30 s at once, and keeps a place in its queue for a moment only.
#[test]
fn the_wait_is_the_gateways_and_goes_on_at_once_with_what_is_left() {
    let gateway = Upstream::start(|asked, before| match (asked.what, before) {
        ("acquire", 0) => problem(409, "wait_timeout", true, &json!({"retry_after_ms": 20_000})),
        ("acquire", 1) => Reply::HangUp,
        ("acquire", _) => granted(30_000),
        _ => released(),
    });
    Scene::new().script(&gateway.base, &["--wait", "40s"], "exit 0").ended().with(0);
    let asked = gateway.asked("acquire");
    let waits: Vec<u64> = asked.iter().map(|asked| asked.body["wait_ms"].as_u64().unwrap()).collect();
    assert_eq!(waits[..2], [30_000, 30_000]);
    assert!(asked[1].at.saturating_sub(asked[0].at) < Duration::from_secs(5), "{asked:?}");

    let gateway = Upstream::start(|_, _| lease_held(50));
    let ended = Scene::new().script(&gateway.base, &["--wait", "400ms"], STARTED).ended();
    ended.with_one_line(75);
    let waits: Vec<Value> =
        gateway.asked("acquire").into_iter().map(|asked| asked.body["wait_ms"].clone()).collect();
    let first = waits[0].as_u64().unwrap();
    assert!((350..=400).contains(&first), "{waits:?}");
    assert!(waits.windows(2).all(|two| two[1].as_u64() < two[0].as_u64()), "{waits:?}");

    let gateway = Upstream::start(|_, _| lease_held(50));
    Scene::new().script(&gateway.base, &[], STARTED).ended().with_one_line(75);
    assert_eq!(gateway.asked("acquire")[0].body["wait_ms"], Value::Null);
}

/// One attempt whose answer is lost may leave a lease that keeps everybody waiting for its ttl.
#[test]
fn a_lease_that_nobody_uses_is_given_back() {
    let gateway = Upstream::start(|asked, before| match (asked.what, before) {
        ("acquire", 0) => Reply::HangUp,
        ("acquire", _) => Reply::Json(200, upstream::held(30_000)),
        _ => released(),
    });
    let scene = Scene::new();
    scene.script(&gateway.base, &[], STARTED).ended().with_one_line(75);
    assert_eq!(gateway.order(), ["acquire", "acquire", "release"]);
    let asked = gateway.asked("acquire");
    assert_eq!(asked[0].body["request_id"], asked[1].body["request_id"]);
    assert_eq!(scene.read("started"), "");
}

#[test]
fn a_signal_ends_the_wait() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let gateway = Upstream::start(|_, _| lease_held(60_000));
        let scene = Scene::new();
        let waiting = scene.script(&gateway.base, &["--wait", "1h"], STARTED);
        until("it asks", || !gateway.asked("acquire").is_empty());
        waiting.signal(Signal::USR1);
        waiting.signal(signal);
        let ended = waiting.ended();
        assert!(ended.with_one_line(75).contains(&format!("stopped by {name}")), "{}", ended.err);
        assert_eq!(scene.read("started"), "");
    }
}

/// A repeat may find the lease of an earlier attempt nearly over: nothing is begun on what is left.
#[test]
fn a_lease_that_is_nearly_over_is_renewed_before_the_command_starts() {
    let mut old = upstream::held(30_000);
    old["remaining_ms"] = json!(2_000);
    let gateway = Upstream::start(move |asked, _| match asked.what {
        "acquire" => Reply::Json(200, old.clone()),
        "renew" => Reply::Json(200, upstream::held(30_000)),
        _ => released(),
    });
    Scene::new().script(&gateway.base, &[], "exit 6").ended().with(6);
    assert_eq!(gateway.order(), ["acquire", "renew", "release"]);
}
