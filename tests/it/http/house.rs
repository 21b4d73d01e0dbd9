//! A door over rows in memory, without a socket: requests go in at the front and whole answers come out. Every answer is
//! held against `openapi.yaml` and against what all answers have in common.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use axum::response::Response;
use bytes::Bytes;
use fencegate::access::pace::{Paces, Rate};
use fencegate::access::{Access, Principal, Roster};
use fencegate::dispatch::Dispatch;
use fencegate::domain::entropy::Entropy;
use fencegate::domain::lease::WaitOrder;
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::resource::Namespace;
use fencegate::domain::seal::{Keyring, SealKey};
use fencegate::domain::time::{Clock, Millis};
use fencegate::http::{Door, Front, Reloads, Stopping, render_control, render_receipt, render_whole};
use fencegate::ledger::changeset::ChangeSet;
use fencegate::ledger::engine::Engine;
use fencegate::ledger::read::Reader;
use fencegate::ledger::{Ledger, Setting, memory};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::scripted::{Script, ScriptedEngine, ScriptedReader};
use super::{contract, stores};
use crate::support::clock::{CountingEntropy, ManualClock};

/// Seals are made for this database.
pub(super) const DATABASE: Uuid = Uuid::from_u128(0x0000_fe9c_e6a7_e000_0000_0000_0000_0007);

/// The largest body of the namespace `small`.
pub(super) const SMALL_BYTES: u64 = 16;

/// The lock delay of the namespace `queued`.
pub(super) const LOCK_DELAY_MS: u64 = 5_000;

/// A door with what a test turns.
pub(super) struct House {
    pub(super) front: Front,
    pub(super) ledger: Ledger,
    pub(super) clock: Arc<ManualClock>,
    pub(super) draining: CancellationToken,
    pub(super) script: Arc<Script>,
    /// Cancelled, nothing waits for an upstream any more.
    pub(super) impatient: CancellationToken,
    /// Who may do what, to be replaced as a reload does.
    pub(super) access: Access,
}

/// What is different about a house.
pub(super) struct Plan {
    pub(super) namespaces: Namespaces,
    pub(super) rows: ChangeSet,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    /// Where the stores behind HTTP are; without it nobody is there.
    pub(super) base: String,
    /// Who may do what; nobody: everybody may do everything.
    pub(super) principals: Vec<Principal>,
    /// How often callers may ask.
    pub(super) rate: Option<Rate>,
}

/// A request in the making.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Bytes>,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}

/// A lease as a worker remembers it.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub(super) id: String,
    pub(super) token: String,
}

pub(super) fn keyring() -> Keyring {
    Keyring::of(SealKey::new([7; 4], Zeroizing::new([9; 32])))
}

/// One namespace per policy, contract and issuer that the tests use, and no others.
pub(super) fn namespaces() -> Namespaces {
    let define = |name: &str, policy, contract, issuer, scope, max_body_bytes| {
        let definition = Definition { policy, contract, issuer, store: Store::Document, scope };
        definition.check().unwrap();
        let rules = NamespaceRules { definition, max_body_bytes, ..NamespaceRules::default() };
        (Namespace::parse(name).unwrap(), rules)
    };
    let (own, mib) = (Issuer::Gateway, 1_048_576);
    let named = [
        define("pages", Policy::Single, Contract::Immediate, own, 0, mib),
        define("ledger", Policy::Ordered { gapless: true }, Contract::Immediate, own, 0, mib),
        define("drafts", Policy::Session, Contract::Immediate, own, 0, mib),
        define("bound", Policy::Single, Contract::LeaseBound, own, 0, mib),
        define("tree", Policy::Session, Contract::Immediate, own, 1, mib),
        define("jobs", Policy::Single, Contract::Observed, Issuer::Trusted { max_jump: Some(50) }, 0, mib),
        define("elected", Policy::Single, Contract::Observed, Issuer::Registered, 0, mib),
        define("small", Policy::Single, Contract::Immediate, own, 0, SMALL_BYTES),
        define("large", Policy::Single, Contract::Immediate, own, 0, 64 * mib),
        patient(define("queued", Policy::Single, Contract::Immediate, own, 0, mib)),
    ];
    Namespaces::new(named.into_iter().chain(stores::named()).collect(), None)
}

/// With a queue, and a pause after an expiry.
fn patient((name, rules): (Namespace, NamespaceRules)) -> (Namespace, NamespaceRules) {
    (name, NamespaceRules { order: WaitOrder::Fifo, lock_delay: Millis::new(LOCK_DELAY_MS), ..rules })
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            namespaces: namespaces(),
            rows: ChangeSet::default(),
            entropy: Arc::new(CountingEntropy::default()),
            clock: None,
            base: stores::NOBODY.to_owned(),
            principals: Vec::new(),
            rate: None,
        }
    }
}

impl House {
    pub(super) async fn new() -> Self {
        Self::built(Plan::default()).await
    }

    pub(super) async fn over(rows: ChangeSet) -> Self {
        Self::built(Plan { rows, ..Plan::default() }).await
    }

    /// In front of stores behind HTTP.
    pub(super) async fn before(base: String, rows: ChangeSet) -> Self {
        Self::built(Plan { rows, base, ..Plan::default() }).await
    }

    pub(super) async fn built(plan: Plan) -> Self {
        let clock = Arc::new(ManualClock::new());
        let (mut engine, reader, identity) = memory::open(DATABASE, clock.clone());
        if !plan.rows.is_empty() {
            engine.apply(&plan.rows, clock.wall()).await.unwrap();
            engine.commit().await;
        }
        let script = Arc::new(Script::default());
        let engine = ScriptedEngine::new(engine, script.clone());
        let reader: Arc<dyn Reader> = Arc::new(ScriptedReader::new(reader, script.clone()));
        let setting = Setting {
            namespaces: plan.namespaces,
            keyring: keyring(),
            identity,
            render: render_receipt,
            render_control,
            render_whole,
        };
        let (ledger, _committer) = Ledger::start(vec![engine], reader, setting);
        let draining = CancellationToken::new();
        let impatient = CancellationToken::new();
        let dispatch = Dispatch::start(
            ledger.clone(),
            stores::upstreams(&plan.base),
            Arc::new(|| Duration::ZERO),
            plan.entropy.clone(),
            impatient.clone(),
        );
        let access = Access::new(Roster::of(plan.principals))
            .paced(Paces::new(plan.rate, clock.clone()))
            .telling_rates(true);
        let front = Front::new(Door {
            dispatch,
            ledger: ledger.clone(),
            clock: plan.clock.unwrap_or_else(|| clock.clone()),
            entropy: plan.entropy,
            stopping: Stopping {
                announced: draining.clone(),
                draining: draining.clone(),
                ending: draining.clone(),
            },
            reloads: Reloads::default(),
            started_at: clock.wall(),
            access: access.clone(),
        });
        Self { front, ledger, clock, draining, script, impatient, access }
    }

    /// Sends a request and holds the answer against the contract.
    pub(super) async fn call(&self, ask: Ask) -> Answer {
        let (method, path) = (ask.method.clone(), ask.path.clone());
        let answer = self.send(ask.request()).await;
        contract::hold(&method, &path, &answer);
        answer
    }

    /// Sends a request as it is; the answer may be waited for elsewhere.
    pub(super) fn answering(&self, request: Request<Body>) -> impl Future<Output = Response> + use<> {
        let front = self.front.clone();
        async move { front.answer(request).await }
    }

    /// Sends a request as it is.
    pub(super) async fn send(&self, request: Request<Body>) -> Answer {
        let (head, body) = self.answering(request).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status.as_u16(), headers: head.headers, bytes }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.call(ask("GET", path)).await
    }

    /// An acquire that must succeed.
    pub(super) async fn acquire(&self, resource: &str) -> Owned {
        let lease =
            self.call(ask("POST", "/v1/leases").json(&json!({"resource": resource}))).await.expect(201);
        let text = |key: &str| lease[key].as_str().unwrap().to_owned();
        Owned { id: text("acquisition_id"), token: text("fencing_token") }
    }

    /// A fenced PUT.
    pub(super) async fn put(&self, name: &str, token: &str, operation: &str, body: &str) -> Answer {
        self.call(write("PUT", name, token, operation).body(body)).await
    }
}

/// A request without headers and body.
pub(super) fn ask(method: &str, path: &str) -> Ask {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    Ask { method, path: path.to_owned(), headers: Vec::new(), body: None }
}

/// A fenced write.
pub(super) fn write(method: &str, name: &str, token: &str, operation: &str) -> Ask {
    ask(method, &format!("/fenced/{name}")).with("fencing-token", token).with("idempotency-key", operation)
}

impl Ask {
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without one of its headers.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    pub(super) fn body(mut self, body: &str) -> Self {
        self.body = Some(Bytes::from(body.to_owned()));
        self
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.with("content-type", "application/json").body(&body.to_string())
    }

    pub(super) fn request(&self) -> Request<Body> {
        let mut request =
            Request::builder().method(self.method.clone()).uri(&self.path).header("host", "localhost");
        for (name, value) in &self.headers {
            request = request.header(name, value.as_bytes());
        }
        request.body(self.body.clone().map_or_else(Body::empty, Body::from)).unwrap()
    }
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Whether status and body are an upstream's.
    pub(super) fn is_relayed(&self) -> bool {
        self.header("fencing-source") == Some("upstream")
    }

    /// The JSON of an answer that must have this status.
    pub(super) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The code of a problem.
    pub(super) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_else(|| panic!("no code: {}", self.text())).to_owned()
    }

    /// A refusal that must have this status and code; gives its detail.
    pub(super) fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}
