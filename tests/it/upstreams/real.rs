//! Real servers behind a real gateway, judged from what they themselves say that they hold.

mod files;
mod objects;
mod receivers;

use reqwest::StatusCode;
use serde_json::Value;
use tempfile::TempDir;

use super::fleet::PATIENCE;
use crate::support::client::{Answer, Client};
use crate::support::gateway::{Process, command};
use crate::support::postgres::patience;

/// A gateway over SQLite with one namespace, `shop`, in front of one store.
pub(super) struct Alone {
    folder: TempDir,
    process: Process,
    pub(super) client: Client,
}

impl Alone {
    /// With these keys of the store, its address and class among them, and of the namespace.
    fn before(store: &str, namespace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[namespaces.shop]\n{namespace}\n[namespaces.shop.store]\n{store}\n");
        std::fs::write(folder.path().join("fencegate.toml"), text).unwrap();
        let process = Process::start(folder.path());
        let client = process.client();
        Self { folder, process, client }
    }

    /// How the store stands once its probe has ended.
    async fn earned(&self) -> Value {
        patience::until("the store was probed", PATIENCE, async || {
            let store = self.client.get("/v1/status").await.json()["stores"][0].clone();
            (store["probe"] != "pending" && store["probe"] != "unreachable").then_some(store)
        })
        .await
    }

    /// `fencegate probe` with these arguments: its exit code and its report.
    fn probe(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let said = command(self.folder.path()).arg("probe").args(arguments).arg("--json").output().unwrap();
        let report = serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        (said.status.code(), report)
    }

    fn end(self) {
        assert_eq!(self.process.terminate(), Some(0));
    }
}

/// A report in which everything holds, of this class.
#[track_caller]
fn passes((code, report): &(Option<i32>, Value), class: &str) {
    assert_eq!(
        (*code, &report["passed"], report["class"].as_str()),
        (Some(0), &true.into(), Some(class)),
        "{report}"
    );
    let checks = report["checks"].as_array().unwrap();
    assert!(!checks.is_empty() && checks.iter().all(|check| check["passed"] == true), "{report}");
}

/// A report in which something does not hold: the first check that failed, and what was seen.
#[track_caller]
fn fails((code, report): &(Option<i32>, Value)) -> (String, String) {
    assert_eq!((*code, &report["passed"]), (Some(1), &false.into()), "{report}");
    let checks = report["checks"].as_array().unwrap();
    let failed = checks.iter().find(|check| check["passed"] == false).unwrap();
    let text = |key: &str| failed[key].as_str().unwrap().to_owned();
    (text("check"), text("detail"))
}

/// What stands at an address of the store itself, past the gateway.
async fn beside(address: &str) -> Answer {
    let (base, path) = address.split_at(address.rfind('/').unwrap());
    Client::to(base.to_owned()).get(path).await
}

#[track_caller]
fn succeeds(answer: &Answer) {
    assert!(StatusCode::from_u16(answer.status).unwrap().is_success(), "{answer:?}");
    assert_eq!(answer.header("fencing-effect"), Some("applied"));
}
