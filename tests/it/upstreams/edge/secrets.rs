//! What is nobody else's business: the credentials for the store, seals, and what is written. Planted, and looked for in
//! everything that a gateway leaves behind, at its most talkative.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use reqwest::Method;
use serde_json::json;

use super::super::fleet::PATIENCE;
use super::super::scene::{CLASSES, is_probe, kind_of};
use crate::support::client::{Answer, Client};
use crate::support::gateway::command;
use crate::support::postgres::patience;
use crate::support::upstream::{Fault, Upstream};

const SECRET: &str = "Bearer canary-of-the-store";
const BODY: &str = "canary-of-the-payload";
const CLIENTS: &str = "Bearer canary-of-the-client";

/// A gateway that writes down everything that can be logged.
struct Talkative {
    child: Child,
    client: Client,
}

impl Talkative {
    fn start(folder: &Path) -> Self {
        let log = File::create(folder.join("log")).unwrap();
        let child = command(folder)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("FENCEGATE_LOG", "trace")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let address = patience::blocking("the gateway listens", PATIENCE, || {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            let line = log.lines().find(|line| line.contains("\"listening\""))?;
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            line["address"].as_str().map(str::to_owned)
        });
        Self { child, client: Client::to(format!("http://{address}")) }
    }

    /// TERM, so that everything is written.
    fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Talkative {
    fn drop(&mut self) {
        // Already gone is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_left_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let stores = CLASSES.map(|class| (class, Upstream::start(kind_of(class))));
    plant(&folder.path().join("secret"));
    let rules: String = stores.iter().map(|(class, store)| rules(class, &store.url())).collect();
    fs::write(folder.path().join("fencegate.toml"), rules).unwrap();
    let gateway = Talkative::start(folder.path());
    let client = &gateway.client;
    patience::until("all stores were probed", PATIENCE, async || {
        (!client.get("/v1/status").await.text().contains("pending")).then_some(())
    })
    .await;
    let (mut answers, mut seals) = (Vec::new(), Vec::new());
    for (class, store) in &stores {
        let name = format!("{}/a", class.replace('_', "-"));
        let owner = client.acquire(&name, "alice").await;
        seals.push(owner.token.rsplit('.').next().unwrap().to_owned());
        answers.extend(all_that_goes_wrong(client, store, &name, &owner.token).await);
        for arrival in store.log() {
            let sent: Vec<&str> = arrival
                .headers
                .iter()
                .filter(|(name, _)| name == "authorization")
                .map(|(_, value)| value.as_str())
                .collect();
            assert_eq!(sent, [SECRET], "{class}: {arrival:?}");
            assert!(
                is_probe(&arrival.target) || !format!("{arrival:?}").contains("canary-of-the-client"),
                "{arrival:?}"
            );
        }
    }
    for path in [
        "/v1/status",
        "/v1/namespaces",
        "/v1/operations",
        "/v1/operations?state=uncertain",
        "/metrics",
        "/readyz?verbose",
    ] {
        answers.push(client.get(path).await);
    }
    for answer in &answers {
        let told = format!("{:?} {}", answer.headers, answer.text());
        nothing_of([SECRET, BODY, CLIENTS], seals.iter(), &told);
    }
    for arguments in [
        &["check"][..],
        &["check", "--json"],
        &["probe", "serial"],
        &["probe", "fence-aware", "--json"],
        &["namespaces", "--url", client.base()],
    ] {
        let said = command(folder.path()).args(arguments).output().unwrap();
        let said = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        assert!(!said.is_empty(), "{arguments:?}");
        nothing_of([SECRET, BODY, CLIENTS], seals.iter(), &said);
    }
    gateway.end();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("\"decided\"") && log.contains("may have acted"), "it says something");
    nothing_of([SECRET, BODY, CLIENTS], seals.iter(), &log);
    let kept = files_of(folder.path());
    assert!(!kept.is_empty());
    for (file, bytes) in kept {
        for secret in
            [SECRET, "canary-of-the-store", CLIENTS].into_iter().chain(seals.iter().map(String::as_str))
        {
            assert!(!contains(&bytes, secret), "{file} holds {secret:?}");
        }
    }
}

/// The secret in a file that nobody else can read.
fn plant(path: &Path) {
    fs::write(path, format!("{SECRET}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn rules(class: &str, url: &str) -> String {
    let stamp = if class == "conditional" { "stamp = { header = \"x-fencing-stamp\" }\n" } else { "" };
    let name = class.replace('_', "-");
    format!(
        "[namespaces.{name}]\npolicy = \"ordered\"\n[namespaces.{name}.store]\nhttp = \"{url}\"\nclass = \"{class}\"\n\
         {stamp}timeout_ms = 700\nconnect_timeout_ms = 700\ncredentials = {{ header = \"authorization\", file = \"secret\" }}\n"
    )
}

/// Refusals, doubts, answers that cannot be relayed, and a success.
async fn all_that_goes_wrong(client: &Client, store: &Upstream, name: &str, token: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    let faults = [
        Some(Fault::Status(401)),
        Some(Fault::Status(403)),
        None,
        Some(Fault::Status(404)),
        Some(Fault::ErrorAfterEffect),
        Some(Fault::Truncated),
        Some(Fault::Raw(b"what is this\r\n\r\n".to_vec())),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        if let Some(fault) = fault {
            store.fault(fault);
        }
        let request = client
            .request(Method::PUT, &format!("/fenced/{name}"))
            .header("fencing-token", token)
            .header("idempotency-key", format!("p{number}"))
            .header("fencing-sequence", (number + 1).to_string())
            .header("authorization", CLIENTS)
            .header("cookie", CLIENTS)
            .header("prefer", "wait=0")
            .body(format!("{BODY} {number}"));
        answers.push(Answer::of(request).await);
    }
    let advance = client
        .post(&format!("/v1/advance/{name}"), &json!({"fencing_token": token, "reason": "a test"}))
        .await;
    answers.push(advance);
    answers
}

fn nothing_of<'a>(secrets: [&'a str; 3], seals: impl Iterator<Item = &'a String>, text: &str) {
    for secret in secrets
        .into_iter()
        .map(|secret| secret.trim_start_matches("Bearer "))
        .chain(seals.map(String::as_str))
    {
        let at = text.find(secret);
        let around = at.map(|at| {
            text[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect::<String>()
        });
        assert!(at.is_none(), "{secret:?} stands after {around:?}");
    }
}

/// Everything below the folder but the secret itself and the log.
fn files_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name != "secret" && name != "log" {
            found.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
