//! `fencegate events --follow` beside a gateway that stops, is killed, and comes back as another one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{Gateway, code, fencegate, json, run, said};

/// How long anything may take to be told.
const SOON: Duration = Duration::from_secs(20);

/// A follower in a process of its own; it ends with the test.
struct Follower {
    child: Child,
    told: Receiver<String>,
    remarks: Receiver<String>,
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Follower {
    fn of(gateway: &Gateway, arguments: &[&str]) -> Self {
        let url = format!("http://{}", gateway.address);
        let arguments = [&["--url", &url, "events", "--follow"], arguments].concat();
        let mut command = fencegate(gateway.folder.path(), &arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (told, remarks) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Self { child, told, remarks }
    }

    fn event(&self) -> Value {
        let line = self.told.recv_timeout(SOON).expect("nothing was told");
        serde_json::from_str(&line).unwrap()
    }

    /// What so many events tell.
    fn events(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| brief(&self.event())).collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn brief(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap().to_owned();
    format!("{} {}", text("type").trim_start_matches("fencegate."), text("subject"))
}

fn acquire(gateway: &Gateway, name: &str) {
    json(&gateway.client(&["lease", "acquire", name]));
}

/// Broken: a follower that loses its gateway begins anew with what comes, and nobody hears of what happened in between; or it
/// is told twice what it has heard. Must hold: over a stop in good order and over a kill it goes on behind the last that it
/// heard, and has printed each thing once, in order, when it is ended.
#[test]
fn a_follower_hears_of_each_thing_once_over_a_stop_and_a_kill() {
    let mut gateway = Gateway::start();
    acquire(&gateway, "jobs/before");
    let follower = Follower::of(&gateway, &["--from", "0"]);
    let mut heard = follower.events(1);
    for (round, signal) in [Signal::TERM, Signal::KILL].into_iter().enumerate() {
        acquire(&gateway, &format!("jobs/heard-{round}"));
        heard.extend(follower.events(1));
        // The follower may have heard of this, or not, when its gateway goes.
        acquire(&gateway, &format!("jobs/last-{round}"));
        gateway.replace(signal, |_| {});
        // It has not come back yet: it rests before it tries again.
        acquire(&gateway, &format!("jobs/meanwhile-{round}"));
        fs::write(gateway.folder.path().join("f"), "x").unwrap();
        let lease = json(&gateway.client(&["lease", "acquire", &format!("jobs/written-{round}")]));
        let token = lease["fencing_token"].as_str().unwrap();
        let name = format!("jobs/written-{round}");
        json(&gateway.client(&["write", &name, "--token", token, "--operation", "op", "f"]));
        heard.extend(follower.events(4));
    }
    let all = gateway.client(&["events"]);
    let kept: Vec<Value> = said(&all).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code(&all), heard), (0, kept.iter().map(brief).collect()), "{}", said(&all));
    let ids: BTreeSet<&str> = kept.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 11);
    assert!(follower.told.try_recv().is_err(), "something was told twice");
    assert!(follower.remarks.try_recv().is_err(), "nothing was missed");
}

/// Broken: the records are replaced by others, and a follower prints on as if nothing were missing, or waits for ever for what
/// will not come. Must hold: it says that something may have been missed, not among the events, and tells what comes.
#[test]
fn a_follower_is_told_when_its_place_leads_nowhere() {
    let mut gateway = Gateway::start();
    acquire(&gateway, "jobs/old");
    let follower = Follower::of(&gateway, &["--from", "no place at all"]);
    let remark = || follower.remarks.recv_timeout(SOON).expect("nothing was remarked");
    assert!(remark().contains("something may have been missed: this is no id of this stream"));
    acquire(&gateway, "jobs/new");
    assert_eq!(follower.events(1), ["lease.granted jobs/new"]);

    gateway.replace(Signal::TERM, |folder| {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_name() != "fencegate.key" && entry.file_name() != "fencegate.toml" {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    });
    assert!(remark().contains("something may have been missed: the id is of another database"));
    acquire(&gateway, "jobs/other");
    assert_eq!(follower.events(1), ["lease.granted jobs/other"]);
    assert!(follower.told.try_recv().is_err());
}

/// Broken: a follower that may not listen tries for ever; a command that ends by itself hangs. Must hold: what is refused for
/// good ends it with its code, and so does a gateway that is not there, unless it is followed.
#[test]
fn what_cannot_be_followed_ends_the_command() {
    let gateway = Gateway::configured("[namespaces.jobs]\n");
    let refused = gateway.client(&["events", "--follow", "--namespace", "mail"]);
    assert_eq!(code(&refused), 1, "{}", said(&refused));
    assert!(said(&refused).contains("unknown_namespace"), "{}", said(&refused));
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = run(gateway.folder.path(), &["--url", &format!("http://{nowhere}"), "events"]);
    assert_eq!(code(&gone), 3, "{}", said(&gone));
}
