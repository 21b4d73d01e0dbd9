//! Signals, orphans, and the end of `run` itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::upstream::{self, Upstream, granted};
use super::{RESOURCE, Scene, Started, children, is_alive, until, with_signals};
use crate::support::gateway::binary;

/// Grants for long, and takes back.
fn gateway() -> Upstream {
    Upstream::start(|asked, _| match asked.what {
        "acquire" => granted(60_000),
        _ => upstream::released(),
    })
}

/// A supervisor talks to the process that it has started; the command is behind it.
#[test]
fn signals_reach_the_command_and_what_it_has_started() {
    let (gateway, scene) = (gateway(), Scene::new());
    let script = "for name in TERM INT HUP QUIT USR1 USR2 WINCH; do trap \"echo $name >> $1\" $name; done
                  echo ready > $1.ready; while ! test -e end; do sleep 0.02; done";
    fs::write(scene.path().join("listen"), script).unwrap();
    // What is started with `&` ignores INT and QUIT from the beginning, and a shell cannot change that.
    let both = "sh ./listen grandchild & exec sh ./listen child";
    let run = scene.script(&gateway.base, &[], both);
    assert_eq!((scene.line("child.ready"), scene.line("grandchild.ready")), ("ready".into(), "ready".into()));
    for (signal, name) in [
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
    ] {
        run.signal(signal);
        until(name, || scene.read("child").contains(name));
        let hears = ![Signal::INT, Signal::QUIT].contains(&signal);
        until(name, || !hears || scene.read("grandchild").contains(name));
    }
    fs::write(scene.path().join("end"), "").unwrap();
    run.ended().with(0);
}

/// The usual way to stop a service: the command decides how it ends, and its code is the answer.
#[test]
fn a_command_that_is_told_to_end_gives_its_own_code() {
    let (gateway, scene) = (gateway(), Scene::new());
    let script = "exec 2> /dev/null; trap 'exit 11' TERM; echo ready > ready; while :; do sleep 0.02; done";
    let run = scene.script(&gateway.base, &[], script);
    scene.line("ready");
    run.signal(Signal::TERM);
    assert_eq!(run.ended().with(11), "");
    let run = scene.start(&gateway.base, &[], &["sleep", "60"]);
    run.becomes("sleep");
    run.signal(Signal::INT);
    run.ended().with(130);
    assert_eq!(gateway.order(), ["acquire", "release", "acquire", "release"]);
}

/// A signal that was switched off for `run` is switched off for the command.
#[test]
fn nohup_works() {
    let (gateway, scene) = (gateway(), Scene::new());
    let mut run = Command::new("sh");
    run.current_dir(scene.path()).stdin(Stdio::null()).args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    run.arg(binary()).args(["run", "--url", &gateway.base, "--resource", RESOURCE, "--", "sh", "-c"]);
    run.arg("echo ready > ready; while ! test -e end; do sleep 0.02; done; kill -HUP $$; exit 12");
    let run = Started::of(&mut run, scene.path());
    scene.line("ready");
    run.signal(Signal::HUP);
    fs::write(scene.path().join("end"), "").unwrap();
    run.ended().with(12);
}

/// Nobody renews for a command whose `run` was killed.
#[test]
fn the_command_does_not_outlive_a_killed_run() {
    let (gateway, scene) = (gateway(), Scene::new());
    let mut run =
        scene.script(&gateway.base, &[], "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done");
    let command = scene.pid("pid");
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    until("the command is gone", || !is_alive(command));
}

/// Orphans of the command become children of `run`; as the first process of a container it has to wait for them.
#[test]
fn orphans_are_waited_for() {
    let (gateway, scene) = (gateway(), Scene::new());
    let script =
        "(sh -c 'echo $$ > orphan; sleep 0.2' &); echo $$ > pid; while ! test -e end; do sleep 0.02; done";
    let run = scene.script(&gateway.base, &[], script);
    let (orphan, command) = (scene.pid("orphan"), scene.pid("pid"));
    until("it is adopted", || children(run.pid()).contains(&orphan.as_raw_nonzero().get()));
    fs::write(scene.path().join("go"), "").unwrap();
    until("the orphan is gone", || !is_alive(orphan));
    assert_eq!(children(run.pid()), [command.as_raw_nonzero().get()]);
    fs::write(scene.path().join("end"), "").unwrap();
    run.ended().with(0);
}

/// In a container `run` may be the first process: no signal has a default there, and nobody else waits for orphans.
#[test]
fn as_the_first_process_of_a_container_it_works_the_same() {
    let namespace = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let allowed = Command::new("unshare").args(namespace).arg("true").stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        println!("not tested: process namespaces are not allowed here");
        return;
    }
    let (gateway, scene) = (gateway(), Scene::new());
    let script =
        "exec 2> /dev/null; trap 'exit 13' TERM; (sh -c 'sleep 0.1' &); echo $PPID > parent; sleep 0.5
                  cat /proc/[0-9]*/stat | grep -c ') Z ' > zombies; while :; do sleep 0.02; done";
    let mut run = with_signals(scene.path(), Path::new("unshare"));
    run.args(namespace).arg(binary()).stdin(Stdio::null());
    run.args(["run", "--url", &gateway.base, "--resource", RESOURCE, "--", "sh", "-c", script]);
    let run = Started::of(&mut run, scene.path());
    assert_eq!((scene.line("zombies").as_str(), scene.line("parent").as_str()), ("0", "1"));
    let [first] = children(run.pid())[..] else { panic!("unshare has one child") };
    kill_process(Pid::from_raw(first).unwrap(), Signal::TERM).unwrap();
    assert_eq!(run.ended().with(13), "");
    assert_eq!(gateway.order(), ["acquire", "release"]);
}
