//! The lease is lost while the command runs.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::upstream::{Reply, Upstream, granted, held, problem, released};
use super::{PATIENCE, Scene, is_alive, post, until};
use crate::support::gateway::Process;

const WORKS: &str = "echo $$ > pid; sleep 60";

/// Grants, and refuses every renewal.
fn refuses(status: u16, code: &'static str, more: serde_json::Value) -> Upstream {
    Upstream::start(move |asked, _| match asked.what {
        "acquire" => granted(600),
        "renew" => problem(status, code, status >= 500, &more),
        _ => released(),
    })
}

/// The gateway knows best: what it says is over is over at once, long before the lease would end.
#[test]
fn what_the_gateway_says_is_over_is_over_at_once() {
    for (status, code) in
        [(410, "lease_superseded"), (410, "lease_expired"), (404, "not_found"), (403, "forbidden")]
    {
        let gateway = refuses(status, code, json!({}));
        let scene = Scene::new();
        let ended = scene.script(&gateway.base, &[], WORKS).ended();
        let said = ended.with_one_line(79);
        assert!(said.starts_with("fencegate run: lost ") && said.contains(code), "{said}");
        assert!(!is_alive(scene.pid("pid")));
        // The lease is another's, or nobody's: there is nothing to give back.
        assert_eq!(gateway.order(), ["acquire", "renew"], "{code}");
    }
}

#[test]
fn a_cancelled_resource_is_said_to_be_cancelled() {
    let gateway = refuses(410, "lease_superseded", json!({"cancel_requested": true}));
    let ended = Scene::new().script(&gateway.base, &[], WORKS).ended();
    assert!(ended.with_one_line(79).contains("it was cancelled"), "{}", ended.err);
}

/// An operator takes the resource away from an owner that is at work.
#[test]
fn what_an_operator_revokes_or_cancels_is_lost() {
    for (call, says) in [("revoke", "lease_superseded"), ("cancel", "it was cancelled")] {
        let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
        let gateway = Process::start(home.path());
        let run = scene.script(&gateway.base, &["--ttl", "1500ms"], WORKS);
        let command = scene.pid("pid");
        post(&gateway, &format!("/v1/{call}/jobs/nightly%20report"), &json!({"reason": "wrong input"}))
            .expect(200);
        let ended = run.ended();
        assert!(ended.with_one_line(79).contains(says), "{call}: {}", ended.err);
        assert!(!is_alive(command));
    }
}

/// The command is asked first: it may clean up behind itself.
#[test]
fn the_command_may_clean_up_within_its_grace() {
    let gateway = refuses(410, "lease_superseded", json!({}));
    let scene = Scene::new();
    let script =
        "exec 2> /dev/null; trap 'sleep 0.3; echo clean > clean; exit 0' TERM; while :; do sleep 0.02; done";
    scene.script(&gateway.base, &["--grace", "20s"], script).ended().with_one_line(79);
    assert_eq!(scene.read("clean"), "clean\n");
}

/// A worker that ignores TERM must not go on for ever, and neither must what it has started.
#[test]
fn whoever_ignores_term_is_killed_after_the_grace_with_all_of_its_group() {
    let gateway = refuses(410, "lease_superseded", json!({}));
    let scene = Scene::new();
    let script = "trap '' TERM; sh -c 'echo $$ > grandchild; while :; do sleep 0.02; done' & 
                  echo $$ > pid; while :; do sleep 0.02; done";
    let run = scene.script(&gateway.base, &["--grace", "400ms"], script);
    let (child, grandchild) = (scene.pid("pid"), scene.pid("grandchild"));
    let ended = run.ended();
    ended.with_one_line(79);
    assert!(!is_alive(child) && !is_alive(grandchild));
    assert!(ended.took >= Duration::from_millis(600), "killed before the grace was over: {ended:?}");
    assert!(ended.took < Duration::from_secs(10), "{ended:?}");
}

/// The command ends as asked; what it has started does not, and would go on without a lease.
#[test]
fn what_the_command_leaves_behind_is_ended_too() {
    let gateway = refuses(410, "lease_superseded", json!({}));
    let scene = Scene::new();
    let script = "(trap '' TERM; sh -c 'echo $$ > grandchild; while :; do sleep 0.02; done') & 
                  echo $$ > pid; wait";
    let run = scene.script(&gateway.base, &["--grace", "300ms"], script);
    let grandchild = scene.pid("grandchild");
    run.ended().with_one_line(79);
    assert!(!is_alive(grandchild));
}

/// A stopped process hears no TERM.
#[test]
fn a_stopped_command_is_ended_too() {
    let gateway = refuses(410, "lease_superseded", json!({}));
    let scene = Scene::new();
    let ended = scene.script(&gateway.base, &["--grace", "60s"], "echo $$ > pid; kill -STOP $$").ended();
    ended.with_one_line(79);
    assert!(ended.took < PATIENCE, "{ended:?}");
}

/// Nobody is left to say that the lease is over. The command must be stopped before somebody else can be the owner.
#[test]
fn when_the_gateway_dies_the_command_is_stopped_before_the_lease_ends() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let run = scene.script(&gateway.base, &["--ttl", "3s"], WORKS);
    let command = scene.pid("pid");
    let started_at = run.elapsed();
    gateway.kill();
    until("the command is stopped", || !is_alive(command));
    let lived = run.elapsed().saturating_sub(started_at);
    // Granted before the command could start: 2.7 s is what is relied on, of 3 s.
    assert!(lived < Duration::from_millis(2_900), "the lease was over first: {lived:?}");
    assert!(lived > Duration::from_millis(1_500), "the lease was not made use of: {lived:?}");
    let ended = run.ended();
    let said = ended.with_one_line(79);
    assert!(said.contains("could not be renewed in time") && said.contains("cannot reach"), "{said}");
}

/// A gateway that takes connections and says nothing is no different, and is asked more than once.
#[test]
fn when_the_gateway_falls_silent_the_command_is_stopped_before_the_lease_ends() {
    let gateway = Upstream::start(|asked, _| match asked.what {
        "acquire" => granted(2_000),
        "renew" => Reply::Silence,
        _ => released(),
    });
    let ended = Scene::new().script(&gateway.base, &[], WORKS).ended();
    assert!(ended.with_one_line(79).contains("could not be renewed in time"), "{}", ended.err);
    let (granted_at, given_back) = (gateway.asked("acquire")[0].at, gateway.asked("release")[0].at);
    assert!(given_back.saturating_sub(granted_at) < Duration::from_secs(2), "the lease was over first");
    assert!(gateway.asked("renew").len() >= 2, "{:?}", gateway.order());
}

/// The gateway counts from when it granted, which is some time after it was asked and before it was heard.
#[test]
fn the_time_that_an_answer_takes_counts() {
    let gateway = Upstream::start(|asked, before| match (asked.what, before) {
        ("acquire", _) => granted(3_000),
        ("renew", 0) => Reply::Late(Duration::from_millis(500), 200, held(1_500)),
        ("renew", _) => Reply::HangUp,
        _ => released(),
    });
    let ended = Scene::new().script(&gateway.base, &[], WORKS).ended();
    ended.with_one_line(79);
    let (renewed, given_back) = (gateway.asked("renew")[0].at, gateway.asked("release")[0].at);
    // Sent at 0, answered at 0.5 s, over at 1.35 s.
    let lived = given_back.saturating_sub(renewed);
    assert!(lived < Duration::from_millis(1_500), "{lived:?}");
}

#[test]
fn a_renewal_that_fails_is_tried_again() {
    let gateway = Upstream::start(|asked, before| match (asked.what, before) {
        ("acquire", _) => granted(1_500),
        ("renew", 0) => Reply::HangUp,
        ("renew", 1) => problem(503, "overloaded", true, &json!({"retry_after_ms": 60_000})),
        ("renew", 2) => problem(500, "internal", false, &json!({"effect": "unknown"})),
        ("renew", _) => Reply::Json(200, held(1_500)),
        _ => released(),
    });
    assert_eq!(Scene::new().script(&gateway.base, &[], "sleep 2; exit 8").ended().with(8), "");
    assert!(gateway.asked("renew").len() >= 4, "{:?}", gateway.order());
}

/// Whoever was stopped for longer than its lease has lost it, even if a gateway would still renew.
#[test]
fn whoever_slept_past_its_lease_has_lost_it() {
    let gateway = Upstream::start(|asked, _| match asked.what {
        "acquire" => granted(1_000),
        "renew" => Reply::Json(200, held(1_000)),
        _ => released(),
    });
    let scene = Scene::new();
    let run = scene.script(&gateway.base, &[], WORKS);
    let command = scene.pid("pid");
    run.signal(Signal::STOP);
    let stopped_at = run.elapsed();
    until("the lease is over", || run.elapsed().saturating_sub(stopped_at) > Duration::from_millis(1_200));
    run.signal(Signal::CONT);
    run.ended().with_one_line(79);
    assert!(kill_process(command, Signal::CONT).is_err(), "the command goes on");
}
