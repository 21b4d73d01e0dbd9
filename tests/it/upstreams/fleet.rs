//! Gateways in processes of their own, which can be killed and stopped, in front of one scripted store of each class:
//! one over SQLite, or two over PostgreSQL. A kill strikes the operations of all classes at once.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::scene::{CLASSES, is_probe, kind_of};
use crate::support::client::{Answer, Client, Owned};
use crate::support::engines::Kind as Engine;
use crate::support::gateway::Process;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{self, patience};
use crate::support::upstream::{Applied, Arrival, Gate, Upstream};

/// How long something may take that depends on an attempt's time-outs and on the looks of recovery.
pub(super) const PATIENCE: u64 = 40;

/// A store and the gate in front of it.
pub(super) struct Stand {
    pub(super) class: &'static str,
    pub(super) store: Upstream,
    pub(super) gate: Gate,
}

/// Gateways and stores.
pub(super) struct Fleet {
    place: Place,
    pub(super) gateways: Vec<Process>,
    pub(super) stands: Vec<Stand>,
}

enum Place {
    Folder(TempDir),
    Site(Box<Site>),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder.path(),
            Self::Site(site) => site.path(),
        }
    }
}

impl Fleet {
    /// With further keys of each store and of each namespace.
    pub(super) async fn start(engine: Engine, store: &str, namespace: &str) -> Self {
        let stands = CLASSES.map(|class| {
            let store = Upstream::start(kind_of(class));
            let gate = Gate::before(store.port());
            Stand { class, store, gate }
        });
        let stands = Vec::from(stands);
        let mut rules: String = stands.iter().map(|stand| stand.rules(store, namespace)).collect();
        rules.push_str("[namespaces.documents]\n");
        let place = match engine {
            Engine::Postgres => {
                let database = postgres::one_more().await;
                let rules = format!("max_connections = 6\n{rules}");
                Place::Site(Box::new(Site::new(&database.url, &rules)))
            }
            Engine::Sqlite | Engine::Memory => {
                let folder = tempfile::tempdir().unwrap();
                std::fs::write(folder.path().join("fencegate.toml"), rules).unwrap();
                Place::Folder(folder)
            }
        };
        let count = if engine == Engine::Postgres { 2 } else { 1 };
        let gateways = (0..count).map(|_| Process::start(place.path())).collect();
        let fleet = Self { place, gateways, stands };
        for gateway in &fleet.gateways {
            probed(&gateway.client()).await;
        }
        fleet
    }

    /// Who answers first.
    pub(super) fn first(&self) -> Client {
        self.gateways[0].client()
    }

    /// Who goes on after a kill or a stop of the first: the other replica, where there is one.
    pub(super) fn last(&self) -> Client {
        self.gateways[self.gateways.len() - 1].client()
    }

    /// kill -9 of the first, and somebody goes on.
    pub(super) async fn kill(&mut self) {
        self.strike();
        self.go_on().await;
    }

    /// kill -9 of the first.
    pub(super) fn strike(&mut self) {
        self.gateways.remove(0).kill();
    }

    /// Where the only gateway was killed, it starts again over what it has left.
    pub(super) async fn go_on(&mut self) {
        if self.gateways.is_empty() {
            self.restart().await;
        }
    }

    /// One more gateway over the same database.
    pub(super) async fn restart(&mut self) {
        let gateway = Process::start(self.place.path());
        probed(&gateway.client()).await;
        self.gateways.push(gateway);
    }

    /// The store of a class.
    pub(super) fn stand(&self, class: &str) -> &Stand {
        self.stands.iter().find(|stand| stand.class == class).unwrap()
    }

    /// Everything ends in good order.
    pub(super) fn end(self) {
        for gateway in self.gateways {
            assert_eq!(gateway.terminate(), Some(0));
        }
    }
}

/// A probe that is still under way would meet what a test scripts for its own requests.
async fn probed(client: &Client) {
    patience::until("all stores were probed", PATIENCE, async || {
        let status = client.get("/v1/status").await.json();
        let stores = status["stores"].as_array().unwrap();
        stores.iter().all(|store| store["probe"] == "passed" || store["probe"] == "off").then_some(())
    })
    .await;
}

impl Stand {
    fn rules(&self, store: &str, namespace: &str) -> String {
        let stamp =
            if self.class == "conditional" { "stamp = { header = \"x-fencing-stamp\" }\n" } else { "" };
        let (name, class, url) = (self.namespace(), self.class, self.gate.url());
        format!(
            "[namespaces.{name}]\n{namespace}\n[namespaces.{name}.store]\nhttp = \"{url}\"\nclass = \"{class}\"\n{stamp}{store}\n"
        )
    }

    pub(super) fn namespace(&self) -> String {
        self.class.replace('_', "-")
    }

    /// The resource of most stories.
    pub(super) fn name(&self) -> String {
        format!("{}/a", self.namespace())
    }

    /// What had an effect, probes left out.
    pub(super) fn effects(&self) -> Vec<Applied> {
        self.store.effects().into_iter().filter(|one| !is_probe(&one.target)).collect()
    }

    /// How often an operation had its effect: a stamp names it, or else its body, which no other has.
    pub(super) fn effects_of(&self, id: &str, body: &str) -> usize {
        let digest =
            Sha256::digest(body).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let writes = self.writes();
        let is_of = |one: &&Applied| match self.class {
            "conditional" => {
                let arrival = writes.iter().find(|arrival| arrival.number == one.arrival);
                let stamp = arrival.and_then(|arrival| arrival.header("x-fencing-stamp"));
                stamp.is_some_and(|stamp| stamp.rsplit(';').next() == Some(id))
            }
            _ => one.digest == digest,
        };
        self.effects().iter().filter(is_of).count()
    }

    /// Writes with a body that arrived, probes left out.
    pub(super) fn writes(&self) -> Vec<Arrival> {
        let arrived = self.store.log().into_iter();
        arrived.filter(|one| !one.reads() && !is_probe(&one.target) && one.length > 0).collect()
    }

    /// What the store holds.
    pub(super) fn content(&self) -> Option<String> {
        self.store.content("/base/a").map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// Where the operation stands, once it is in one of these states.
    pub(super) async fn operation(&self, client: &Client, id: &str, states: &[&str]) -> Value {
        let path = self.path_of(id, "");
        let what = format!("{} {id} becomes {states:?}", self.class);
        patience::until(&what, PATIENCE, async || {
            let answer = client.get(&path).await;
            let found = answer.status == 200 && states.iter().any(|state| answer.json()["state"] == *state);
            found.then(|| answer.json())
        })
        .await
    }

    /// A person's verdict on a doubt.
    pub(super) async fn resolve(&self, client: &Client, id: &str, verdict: &str) -> Value {
        let body = json!({"verdict": verdict, "evidence": "the log of the store", "reason": "a test"});
        client.post(&self.path_of(id, "/resolve"), &body).await.expect(200)
    }

    fn path_of(&self, id: &str, suffix: &str) -> String {
        format!("/v1/operations/{id}{suffix}?resource={}", self.name().replace('/', "%2F"))
    }

    /// What has been held at the store has been done with.
    pub(super) async fn until_nothing_is_under_way(&self) {
        let what = format!("{}: the store is done with what it held", self.class);
        patience::until(&what, PATIENCE, async || (self.store.under_way() == 0).then_some(())).await;
    }
}

/// A write of these stories.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) id: &'a str,
    pub(super) sequence: u64,
    pub(super) body: &'a str,
    pub(super) wait: u64,
}

/// One that does not wait for others.
pub(super) const fn write<'a>(id: &'a str, sequence: u64, body: &'a str) -> Write<'a> {
    Write { id, sequence, body, wait: 0 }
}

/// A PUT to a resource. None where the gateway has gone before it answered.
pub(super) async fn put(client: Client, name: String, owner: Owned, write: Write<'_>) -> Option<Answer> {
    let request = client
        .request(reqwest::Method::PUT, &format!("/fenced/{name}"))
        .header("fencing-token", &owner.token)
        .header("idempotency-key", write.id)
        .header("fencing-sequence", write.sequence.to_string())
        .header("prefer", format!("wait={}", write.wait))
        .body(write.body.to_owned());
    Answer::unless_gone(request).await
}

/// Whether an answer says that the write is in the store.
pub(super) fn is_success(answer: &Answer) -> bool {
    (200..300).contains(&answer.status)
}
