//! Writers that go on through every fault: one resource each, one operation after the other, each repeated under the same
//! id until it is answered. They remember every receipt, and hold the gateway to it afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::client::Client;

/// The writers' namespace: a gap or a doubled write would be refused, and so seen.
pub(crate) const RULES: &str = "[namespaces.ledger]\npolicy = \"ordered\"\ngapless = true\n";

/// Longest wait for one answer: a replica that is stopped does not answer, and another is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// Replicas by their addresses; a writer that is refused a connection asks the next.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<Vec<String>>>);

impl Addresses {
    pub(crate) fn of(bases: &[&str]) -> Self {
        Self(Arc::new(Mutex::new(bases.iter().map(|base| (*base).to_owned()).collect())))
    }

    /// One replica takes the place of another.
    pub(crate) fn replace(&self, index: usize, base: &str) {
        base.clone_into(&mut self.0.lock().unwrap()[index]);
    }

    fn pick(&self, number: usize) -> Client {
        let bases = self.0.lock().unwrap();
        Client::to(bases[number % bases.len()].clone())
    }
}

/// What a writer was told of each of its operations.
type Receipts = BTreeMap<String, Value>;

/// Writers at work.
pub(crate) struct Load {
    writers: JoinSet<(String, Receipts)>,
    shared: Arc<Shared>,
}

struct Shared {
    addresses: Addresses,
    /// What else but success may be answered, by code.
    allowed: &'static [&'static str],
    acknowledged: AtomicUsize,
    enough: AtomicBool,
}

impl Load {
    /// Starts so many writers. Beside success they accept answers with these codes, which must be 503 and retryable.
    pub(crate) fn start(writers: usize, addresses: &Addresses, allowed: &'static [&'static str]) -> Self {
        let shared = Arc::new(Shared {
            addresses: addresses.clone(),
            allowed,
            acknowledged: AtomicUsize::new(0),
            enough: AtomicBool::new(false),
        });
        let mut set = JoinSet::new();
        for number in 0..writers {
            set.spawn(write(number, shared.clone()));
        }
        Self { writers: set, shared }
    }

    /// How many writes have been acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// Waits until so many more are acknowledged; a writer that saw something that must not be ends the test here.
    pub(crate) async fn proceed(&mut self, more: usize, seconds: u64) {
        let goal = self.acknowledged() + more;
        let mut ended = None;
        super::patience::until("the writers go on", seconds, || {
            ended = self.writers.try_join_next();
            let there = ended.is_some() || self.acknowledged() >= goal;
            async move { there.then_some(()) }
        })
        .await;
        if let Some(ended) = ended {
            ended.unwrap();
            panic!("a writer ended early");
        }
    }

    /// Lets each writer finish its operation, and holds a gateway to every receipt: each is there, once, as told.
    pub(crate) async fn finish_and_check(self, client: &Client) {
        self.shared.enough.store(true, Ordering::SeqCst);
        let all = self.writers.join_all().await;
        assert!(all.iter().any(|(_, receipts)| !receipts.is_empty()), "nothing was written");
        for (name, receipts) in all {
            check(client, &name, &receipts).await;
        }
    }
}

async fn write(number: usize, shared: Arc<Shared>) -> (String, Receipts) {
    let name = format!("ledger/account-{number}");
    let mut receipts = Receipts::new();
    let mut turn = number;
    let request = uuid::Uuid::from_u128(u128::try_from(number).unwrap() + 1).to_string();
    let body = json!({"resource": name, "request_id": request, "ttl_ms": 3_600_000});
    let lease =
        insist(&shared, &mut turn, |client| client.request(Method::POST, "/v1/leases").json(&body)).await;
    let token = lease["fencing_token"].as_str().unwrap().to_owned();
    for sequence in 1_u64.. {
        if shared.enough.load(Ordering::SeqCst) {
            break;
        }
        let operation = format!("op-{sequence}");
        let receipt = insist(&shared, &mut turn, |client| {
            client
                .request(Method::PUT, &format!("/fenced/{name}"))
                .header("fencing-token", &token)
                .header("idempotency-key", &operation)
                .header("fencing-sequence", sequence.to_string())
                .body(format!("{name} {operation}"))
        })
        .await;
        assert_eq!(receipt["commit"], sequence.to_string(), "{name} {operation}: {receipt}");
        receipts.insert(operation, receipt);
        shared.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    (name, receipts)
}

/// Sends the same again, here or there, until it is answered with success.
async fn insist(
    shared: &Shared,
    turn: &mut usize,
    request: impl Fn(&Client) -> reqwest::RequestBuilder,
) -> Value {
    loop {
        let client = shared.addresses.pick(*turn);
        let answer = async {
            let answer = request(&client).timeout(PATIENCE).send().await?;
            Ok::<_, reqwest::Error>((answer.status().as_u16(), answer.json::<Value>().await?))
        };
        match answer.await {
            Ok((200 | 201, receipt)) => return receipt,
            Ok((status, problem)) => {
                let code = problem["code"].as_str().unwrap_or_default();
                assert!(status == 503 && shared.allowed.contains(&code), "{status} {problem}");
                assert_eq!(problem["retryable"], true, "{problem}");
            }
            // Killed, stopped or not there: the outcome is not known, and the same is sent to another.
            Err(error) => drop(error),
        }
        *turn += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn check(client: &Client, name: &str, receipts: &Receipts) {
    let resource = client.get(&format!("/v1/resources/{name}")).await.expect(200);
    assert_eq!(resource["commit"], receipts.len().to_string(), "{name}: a write was lost or doubled");
    let found = client.operations(name).await;
    for (operation, receipt) in receipts {
        let item = found.get(operation).unwrap_or_else(|| panic!("{name}: {operation} is lost"));
        let stands = (&item["state"], &item["commit"], &item["position"]);
        assert_eq!(
            stands,
            (&json!("applied"), &receipt["commit"], &receipt["position"]),
            "{name} {operation}"
        );
    }
}
