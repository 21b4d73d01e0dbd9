//! Gateways in processes of their own over one PostgreSQL database, with one seal key.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use super::patience;
use crate::support::client::Client;
use crate::support::gateway::{Process, command};

/// The folder in which replicas start: their configuration and their key.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    /// For this database; `further` follows in the configuration.
    pub(crate) fn new(url: &str, further: &str) -> Self {
        let site = Self { folder: tempfile::tempdir().unwrap() };
        site.configure(url, further);
        site
    }

    /// Writes the configuration anew, for the replicas that start from now on.
    pub(crate) fn configure(&self, url: &str, further: &str) {
        let mut text = format!("database = \"{url}\"\n");
        text.write_str(further).unwrap();
        std::fs::write(self.path().join("fencegate.toml"), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// One more replica; it listens when this returns.
    pub(crate) fn start(&self) -> Process {
        Process::start(self.path())
    }

    /// A start that must fail by itself: what it says.
    pub(crate) fn refused(&self) -> String {
        let mut serve = command(self.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = serve.spawn().unwrap();
        let ended = patience::within(30, || child.try_wait().unwrap());
        if ended.is_none() {
            child.kill().unwrap();
        }
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(ended.is_some_and(|status| !status.success()), "it started all the same: {said}");
        said
    }

    /// `fencegate` with these arguments: whether it succeeded, and all that it said.
    pub(crate) fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = command(self.path()).args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// The checks of `/readyz?verbose` that fail, by name; none when it is ready.
pub(crate) async fn failing(client: &Client) -> Vec<String> {
    let answer = client.get("/readyz?verbose").await;
    let checks = answer.json()["checks"].as_array().unwrap().clone();
    let failing = |check: &&Value| check["ok"] == false;
    let names = checks.iter().filter(failing).map(|check| check["name"].as_str().unwrap().to_owned());
    let names: Vec<String> = names.collect();
    assert_eq!(answer.status == 200, names.is_empty(), "{}", answer.text());
    names
}

/// Waits until a gateway is ready again, by itself.
pub(crate) async fn recovered(client: &Client) {
    patience::until("the gateway recovers by itself", 30, async || {
        failing(client).await.is_empty().then_some(())
    })
    .await;
}
