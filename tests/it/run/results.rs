//! What the command finds, and what becomes of its result.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::upstream::{self, Reply, Upstream};
use super::{RESOURCE, Scene, Started, is_alive, until};
use crate::support::gateway::{Process, binary, command};

/// A script that gets no token cannot be fenced.
#[test]
fn the_command_finds_its_token_and_writes_with_it() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let script = "printf '%s\\n' \"$FENCING_TOKEN\" \"$FENCEGATE_ACQUISITION\" \"$FENCEGATE_URL\" \
                  \"$FENCEGATE_RESOURCE\" > exports
                  tr '\\0' ' ' < /proc/$$/cmdline > lines; tr '\\0' ' ' < /proc/$PPID/cmdline >> lines
                  echo done | fencegate write \"$FENCEGATE_RESOURCE\" --operation once - > receipt";
    assert_eq!(scene.script(&gateway.base, &["--holder", "me"], script).ended().with(0), "");
    let exports = scene.read("exports");
    let exports: Vec<&str> = exports.lines().collect();
    let [token, acquisition, url, resource] = exports.as_slice() else { panic!("{exports:?}") };
    assert!(token.starts_with("0.1."), "{token}");
    assert!(acquisition.len() >= 20, "{acquisition}");
    assert_eq!((*url, *resource), (gateway.base.as_str(), RESOURCE));
    let receipt: Value = serde_json::from_str(&scene.read("receipt")).unwrap();
    assert_eq!(receipt["position"], "0.1");
    // Everybody on the machine can read a command line.
    let lines = scene.read("lines");
    assert!(lines.contains("fencegate run"), "{lines}");
    assert!(!lines.contains(token) && !lines.contains(acquisition), "{lines}");
}

/// At night somebody looks at a lease without a name and has nowhere to go; and a script that owns several resources has
/// to take its tokens apart before it can write.
#[test]
fn a_lease_names_its_process_and_each_write_finds_its_token() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let script = "fencegate --json inspect jobs/other > seen
                  for name in \"$@\" jobs/other; do echo done | fencegate write \"$name\" --operation once - > /dev/null; done
                  echo done | fencegate write jobs/c --operation once - 2> refused; echo $? > code; true";
    let words = ["sh", "-c", script, "sh", RESOURCE];
    let ended = scene.start(&gateway.base, &["--resource", "jobs/other"], &words).ended();
    assert_eq!(ended.with(0), "");
    assert_eq!(scene.read("code"), "2\n");
    let seen: Value = serde_json::from_str(&scene.read("seen")).unwrap();
    let holder = seen["lease"]["holder"].as_str().unwrap();
    let (host, process) = holder.rsplit_once(':').unwrap();
    assert!(!host.is_empty() && process.parse::<u32>().is_ok(), "{holder}");
    assert!(scene.read("refused").contains("no token for jobs/c"), "{}", scene.read("refused"));
}

/// A script around `run` must not be able to tell that it is there.
#[test]
fn the_commands_own_end_is_passed_on() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    // Each of them needs the lease that the one before has given back.
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -USR1 $$", 138),
    ] {
        assert_eq!(scene.script(&gateway.base, &[], script).ended().with(code), "", "{script}");
    }
    let missing = scene.start(&gateway.base, &[], &["no-such-command"]).ended();
    assert!(missing.with_one_line(127).contains("cannot start no-such-command"), "{}", missing.err);
    std::fs::write(scene.path().join("plain"), "text").unwrap();
    let plain = scene.start(&gateway.base, &[], &["./plain"]).ended();
    assert!(plain.with_one_line(126).contains("cannot start ./plain"), "{}", plain.err);
    scene.script(&gateway.base, &[], "exit 0").ended().with(0);
}

#[test]
fn the_standard_streams_are_the_commands() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let mut run = scene.command(&gateway.base, &[], &["sh", "-c", "cat; echo aside >&2"]);
    let mut started = Started::of(run.stdin(Stdio::piped()), scene.path());
    started.child.stdin.take().unwrap().write_all(b"given\n").unwrap();
    let ended = started.ended();
    assert_eq!((ended.with(0), ended.out.as_str()), ("aside\n", "given\n"));
}

/// The token of an outer `run` is for something else, and must not be taken for the inner one's.
#[test]
fn several_resources_have_a_token_each_and_none_is_inherited() {
    let lease = json!({
        "acquisition_id": upstream::ID, "state": "held", "ttl_ms": 30_000, "remaining_ms": 30_000,
        "renew_after_ms": 10_000, "resources": [RESOURCE, "jobs/other"],
        "tokens": {RESOURCE: {"fencing_token": "0.7.x"}, "jobs/other": {"fencing_token": "0.9.y"}},
    });
    let gateway = Upstream::start(move |asked, _| match asked.what {
        "acquire" => Reply::Json(201, lease.clone()),
        _ => upstream::released(),
    });
    let scene = Scene::new();
    let script = "printf '%s' \"$FENCING_TOKENS\"; echo \"|${FENCING_TOKEN-}|${FENCEGATE_RESOURCE-}|\"";
    let mut run = scene.command(&gateway.base, &["--resource", "jobs/other"], &["sh", "-c", script]);
    run.stdin(Stdio::null()).env("FENCING_TOKEN", "0.1.outer").env("FENCEGATE_RESOURCE", "jobs/outer");
    let ended = Started::of(&mut run, scene.path()).ended();
    assert_eq!(ended.with(0), "");
    let (tokens, rest) = ended.out.split_once('|').unwrap();
    let tokens: Value = serde_json::from_str(tokens).unwrap();
    assert_eq!(tokens, json!({RESOURCE: "0.7.x", "jobs/other": "0.9.y"}));
    assert_eq!(rest, "||\n");
    assert_eq!(gateway.asked("acquire")[0].body["resources"], json!([RESOURCE, "jobs/other"]));
    assert_eq!(gateway.order(), ["acquire", "release"]);
}

/// Each token writes what it is for, and both resources are free at the end.
#[test]
fn the_token_of_each_of_several_resources_writes_it() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let script = "for name in \"$@\"; do
                    token=$(printf '%s' \"$FENCING_TOKENS\" | sed \"s|.*\\\"$name\\\":\\\"\\([^\\\"]*\\).*|\\1|\")
                    echo \"$name\" | fencegate write \"$name\" --token \"$token\" --operation once - > /dev/null || exit 1
                  done";
    let words = ["sh", "-c", script, "sh", RESOURCE, "jobs/other"];
    let ended = scene.start(&gateway.base, &["--resource", "jobs/other"], &words).ended();
    assert_eq!(ended.with(0), "");
    for name in [RESOURCE, "jobs/other"] {
        let mut get = command(scene.path());
        let got = get.args(["get", "--url", &gateway.base, name]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&got.stdout), format!("{name}\n"));
    }
    scene.start(&gateway.base, &["--resource", "jobs/other"], &["true"]).ended().with(0);
}

/// A gateway that is away at the end must neither change the result nor hold it up.
#[test]
fn a_release_that_fails_changes_nothing_about_the_result() {
    for silent in [false, true] {
        let gateway = Upstream::start(move |asked, _| match asked.what {
            "acquire" => upstream::granted(30_000),
            _ if silent => Reply::Silence,
            _ => Reply::HangUp,
        });
        let ended = Scene::new().script(&gateway.base, &[], "exit 5").ended();
        assert!(ended.with_one_line(5).contains("is not released"), "{}", ended.err);
        assert!(ended.took.as_millis() < 4_000, "{ended:?}");
    }
}

/// Cron gives no terminal, no home and hardly an environment.
#[test]
fn under_cron_it_works_the_same() {
    let (scene, home) = (Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let mut cron = Command::new("setsid");
    cron.arg("--wait").arg(binary()).args(["run", "--url", &gateway.base, "--resource", RESOURCE, "--"]);
    cron.args(["sh", "-c", "echo \"home=${HOME-none}\"; exit 7"]);
    cron.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null());
    let ended = Started::of(&mut cron, scene.path()).ended();
    assert_eq!((ended.with(7), ended.out.as_str()), ("", "home=none\n"));
}

/// A lease that is shorter than the work must live as long as the work.
#[test]
fn renewals_keep_a_short_lease_alive() {
    let (scene, other, home) = (Scene::new(), Scene::new(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let options = ["--ttl", "1s"];
    let owner = scene.script(&gateway.base, &options, "echo $$ > pid; sleep 3; exit 4");
    let command = scene.pid("pid");
    until("two lives of the lease", || owner.elapsed().as_millis() > 2_300);
    assert!(other.script(&gateway.base, &[], "true").ended().with(75).contains("lease_held"));
    assert_eq!(owner.ended().with(4), "");
    assert!(!is_alive(command));
    other.script(&gateway.base, &[], "true").ended().with(0);
}
