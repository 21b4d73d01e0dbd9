//! Workers that go on until their gateway is gone, and remember every request that they sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::client::{Answer, Client};
use crate::support::postgres::patience;

/// Resources of each worker, in turn.
const RESOURCES: usize = 3;

/// A write as it was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) name: String,
    token: String,
    operation: String,
    /// What was answered; none when the gateway was gone before.
    pub(super) receipt: Option<Value>,
}

impl Sent {
    pub(super) fn request(&self, client: &Client) -> RequestBuilder {
        client
            .request(Method::PUT, &format!("/fenced/{}", self.name))
            .header("fencing-token", &self.token)
            .header("idempotency-key", &self.operation)
            .body(self.operation.clone())
    }

    pub(super) async fn again(&self, client: &Client) -> Answer {
        Answer::of(self.request(client)).await
    }
}

/// Workers at work.
pub(super) struct Workers {
    tasks: JoinSet<()>,
    sent: Arc<Mutex<Vec<Sent>>>,
    acknowledged: Arc<AtomicUsize>,
}

impl Workers {
    pub(super) fn start(count: usize, base: &str) -> Self {
        let (sent, acknowledged) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(work(number, Client::to(base.to_owned()), sent.clone(), acknowledged.clone()));
        }
        Self { tasks, sent, acknowledged }
    }

    /// Until so many more are acknowledged.
    pub(super) async fn proceed(&mut self, more: usize) {
        let goal = self.acknowledged.load(Ordering::SeqCst) + more;
        patience::until("the workers go on", 60, || {
            let there = self.acknowledged.load(Ordering::SeqCst) >= goal;
            async move { there.then_some(()) }
        })
        .await;
        assert!(self.tasks.try_join_next().is_none(), "a worker saw something that must not be");
    }

    /// When the gateway is gone: everything that was ever sent, in the order of sending.
    pub(super) async fn ended(self) -> Vec<Sent> {
        self.tasks.join_all().await;
        self.sent.lock().unwrap().clone()
    }
}

/// One generation after the other, each with one publication, until there is no answer any more.
async fn work(number: usize, client: Client, sent: Arc<Mutex<Vec<Sent>>>, acknowledged: Arc<AtomicUsize>) {
    for turn in 0_usize.. {
        let name = format!("jobs/{number}-{}", turn % RESOURCES);
        let acquire = client.request(Method::POST, "/v1/leases").json(&json!({"resource": name}));
        let Some(lease) = Answer::unless_gone(acquire).await else { return };
        let lease = lease.expect(201);
        let write = Sent {
            name,
            token: lease["fencing_token"].as_str().unwrap().to_owned(),
            operation: format!("op-{number}-{turn}"),
            receipt: None,
        };
        let place = {
            let mut sent = sent.lock().unwrap();
            sent.push(write.clone());
            sent.len() - 1
        };
        let Some(answer) = Answer::unless_gone(write.request(&client)).await else { return };
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        sent.lock().unwrap()[place].receipt = Some(answer.json());
        acknowledged.fetch_add(1, Ordering::SeqCst);
        let id = lease["acquisition_id"].as_str().unwrap();
        let release = client.request(Method::DELETE, &format!("/v1/leases/{id}"));
        let Some(released) = Answer::unless_gone(release).await else { return };
        released.expect(200);
    }
}
