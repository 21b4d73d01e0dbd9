//! kill -9 of gateways at any moment, under load: every store holds what was acknowledged, each write once and in the
//! order of its owner, and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use super::fleet::{Fleet, PATIENCE, Write, is_success, put};
use crate::support::client::{Answer, Client, Owned};
use crate::support::engines::{Kind, on_engines};
use crate::support::postgres::patience;
use crate::support::upstream::Applied;

on_engines!([sqlite Sqlite, postgres Postgres], [kills_at_any_moment_lose_and_double_nothing]);

/// Owners of each store, each with a resource of his own.
const OWNERS: usize = 3;

/// Writes of each owner.
const WRITES: u64 = 30;

const KILLS: usize = 6;

/// What all owners share.
#[derive(Clone)]
struct Shared {
    /// Where gateways listen.
    bases: Arc<Mutex<Vec<String>>>,
    acknowledged: Arc<AtomicUsize>,
}

struct Owner {
    shared: Shared,
    name: String,
    lease: Owned,
    /// What had an effect in his store: he has to say what became of a doubt.
    effects: Arc<dyn Fn() -> Vec<Applied> + Send + Sync>,
    turn: AtomicUsize,
    /// The digests of what was acknowledged, in order.
    written: Vec<String>,
}

impl Owner {
    /// Another gateway each time.
    fn client(&self) -> Client {
        let bases = self.shared.bases.lock().unwrap();
        Client::to(bases[self.turn.fetch_add(1, Ordering::SeqCst) % bases.len()].clone())
    }

    async fn work(mut self) -> (String, Vec<String>) {
        for sequence in 1..=WRITES {
            let mut number = 0;
            while !self.one_write(sequence, number).await {
                number += 1;
            }
            self.shared.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        (self.name, self.written)
    }

    /// Until it is acknowledged. `false` where it was found not to be in the store, and its id is used up.
    async fn one_write(&mut self, sequence: u64, number: u64) -> bool {
        let id = format!("p{sequence}-{number}");
        let body = format!("{} {id}", self.name);
        let digest = digest(&body);
        let write = Write { id: &id, sequence, body: &body, wait: 5 };
        let answer = patience::until(&format!("{body} is decided"), 3 * PATIENCE, async || {
            let answer = put(self.client(), self.name.clone(), self.lease.clone(), write).await?;
            if answer.header("fencing-effect") == Some("unknown") || answer.status == 409 {
                self.say_what_happened(&id, &digest).await;
                return None;
            }
            (answer.status != 503).then_some(answer)
        })
        .await;
        if is_success(&answer) {
            self.written.push(digest);
            return true;
        }
        assert_eq!(answer.json()["code"], "operation_not_applied", "{body}: {answer:?}");
        false
    }

    /// The verdict of a person who has read the store's log, where one is asked for.
    async fn say_what_happened(&self, id: &str, digest: &str) {
        let client = self.client();
        let path = format!("/v1/operations/{id}");
        let of = format!("?resource={}", self.name.replace('/', "%2F"));
        let shown = client.request(reqwest::Method::GET, &format!("{path}{of}"));
        let Some(shown) = Answer::unless_gone(shown).await.filter(|shown| shown.status == 200) else {
            return;
        };
        if shown.json()["state"] == "uncertain" {
            let applied = (self.effects)().iter().any(|one| one.digest == digest);
            let verdict = if applied { "applied" } else { "not_applied" };
            let body = json!({"verdict": verdict, "evidence": "the log of the store", "reason": "a test"});
            let resolve = client.request(reqwest::Method::POST, &format!("{path}/resolve{of}")).json(&body);
            drop(Answer::unless_gone(resolve).await);
        }
    }
}

fn digest(body: &str) -> String {
    Sha256::digest(body).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

async fn kills_at_any_moment_lose_and_double_nothing(engine: Kind) {
    let rules = "policy = \"ordered\"\ngapless = true\nlease = { ttl_ms = 3600000 }";
    let mut fleet = Fleet::start(engine, "timeout_ms = 500\nconnect_timeout_ms = 500", rules).await;
    let bases = fleet.gateways.iter().map(|gateway| gateway.base.clone()).collect();
    let shared = Shared { bases: Arc::new(Mutex::new(bases)), acknowledged: Arc::default() };
    let mut owners = JoinSet::new();
    for stand in &fleet.stands {
        for number in 0..OWNERS {
            let name = format!("{}/{number}", stand.namespace());
            let lease = fleet.first().acquire(&name, "alice").await;
            let owner = Owner {
                shared: shared.clone(),
                name,
                lease,
                effects: stand.store.witness(),
                turn: AtomicUsize::new(number),
                written: Vec::new(),
            };
            owners.spawn(owner.work());
        }
    }
    let total = fleet.stands.len() * OWNERS * usize::try_from(WRITES).unwrap();
    let mut ended = Vec::new();
    for kill in 1..=KILLS {
        while shared.acknowledged.load(Ordering::SeqCst) < total * kill / (KILLS + 1) {
            if let Some(owner) = owners.try_join_next() {
                ended.push(owner.unwrap());
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        fleet.strike();
        fleet.restart().await;
        *shared.bases.lock().unwrap() = fleet.gateways.iter().map(|gateway| gateway.base.clone()).collect();
    }
    while let Some(owner) = owners.join_next().await {
        ended.push(owner.unwrap());
    }
    for (name, written) in ended {
        let (namespace, below) = name.split_once('/').unwrap();
        let stand = fleet.stands.iter().find(|stand| stand.namespace() == namespace).unwrap();
        let target = format!("/base/{below}");
        let effects: Vec<String> =
            stand.effects().into_iter().filter(|one| one.target == target).map(|one| one.digest).collect();
        assert_eq!(effects, written, "{name}");
    }
    fleet.end();
}
