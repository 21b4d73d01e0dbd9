//! A door over rows in memory, without a socket, on a runtime of one thread: what an input does to it is the same each time.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use fencegate::access::{Access, Roster};
use fencegate::dispatch::{Dispatch, Upstreams};
use fencegate::domain::entropy::{Entropy, EntropyFailed};
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::resource::Namespace;
use fencegate::domain::seal::{Keyring, SealKey};
use fencegate::domain::time::{Clock, Timestamp};
use fencegate::http::{Door, Front, Reloads, Stopping, render_control, render_receipt, render_whole};
use fencegate::ledger::read::{AuditFilter, ResourceFilter};
use fencegate::ledger::{Ledger, Setting, memory};
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use zeroize::Zeroizing;

/// When it is: 2026-09-13T08:00:00Z. Time stands still.
pub(super) const NOW_MS: i64 = 1_789_286_400_000;

/// Largest body of the namespace `small`.
pub(super) const SMALL_BYTES: u64 = 16;

/// Turns that an answer is given to come: far more than one takes, and few enough to see soon that it waits.
const TURNS: u32 = 2_000;

const DATABASE: Uuid = Uuid::from_u128(0x0000_fe9c_e6a7_e000_4000_8000_0000_0007);

/// A clock that stands still.
#[derive(Debug)]
pub(super) struct Hands;

impl Clock for Hands {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(NOW_MS)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Counts up.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn draw(&self) -> Result<[u8; 16], EntropyFailed> {
        let mut bytes = [0x5a; 16];
        bytes[..8].copy_from_slice(&self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        Ok(bytes)
    }
}

/// A door, and what stands behind it.
pub(super) struct House {
    front: Front,
    ledger: Ledger,
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

/// One namespace for each way to issue and to order, and those of stores.
fn namespaces(stores: &[(Namespace, NamespaceRules)]) -> Namespaces {
    let define = |name: &str, policy, contract, issuer, scope, max_body_bytes| {
        let definition = Definition { policy, contract, issuer, store: Store::Document, scope };
        let rules = NamespaceRules { definition, max_body_bytes, ..NamespaceRules::default() };
        (Namespace::parse(name).expect("a namespace"), rules)
    };
    let (own, mib) = (Issuer::Gateway, 1_048_576);
    let named = [
        define("pages", Policy::Single, Contract::Immediate, own, 0, mib),
        define("ledger", Policy::Ordered { gapless: true }, Contract::Immediate, own, 0, mib),
        define("drafts", Policy::Session, Contract::Immediate, own, 0, mib),
        define("tree", Policy::Session, Contract::LeaseBound, own, 1, mib),
        define("jobs", Policy::Single, Contract::Observed, Issuer::Trusted { max_jump: Some(50) }, 0, mib),
        define("elected", Policy::Single, Contract::Observed, Issuer::Registered, 0, mib),
        define("small", Policy::Single, Contract::Immediate, own, 0, SMALL_BYTES),
    ];
    Namespaces::new(named.into_iter().chain(stores.iter().cloned()).collect::<BTreeMap<_, _>>(), None)
}

impl House {
    /// Without stores behind HTTP.
    pub(super) fn new() -> Self {
        Self::before(&[], Upstreams::new())
    }

    /// In front of stores.
    pub(super) fn before(stores: &[(Namespace, NamespaceRules)], upstreams: Upstreams) -> Self {
        let clock = Arc::new(Hands);
        let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
        let (engine, reader, identity) = memory::open(DATABASE, clock.clone());
        let setting = Setting {
            namespaces: namespaces(stores),
            keyring: Keyring::of(SealKey::new([7; 4], Zeroizing::new([9; 32]))),
            identity,
            render: render_receipt,
            render_control,
            render_whole,
        };
        let (ledger, _committers) = Ledger::start(vec![engine], Arc::new(reader), setting);
        let stop = CancellationToken::new();
        let elapsed = Arc::new(|| Duration::ZERO);
        let dispatch = Dispatch::start(ledger.clone(), upstreams, elapsed, entropy.clone(), stop);
        let front = Front::new(Door {
            ledger: ledger.clone(),
            dispatch,
            clock: clock.clone(),
            entropy,
            stopping: Stopping::default(),
            reloads: Reloads::default(),
            started_at: clock.wall(),
            access: Access::new(Roster::of([])),
        });
        Self { front, ledger }
    }

    /// The answer; none where the request waits for something. Whoever is not answered has gone.
    pub(super) async fn answer(&self, request: Request<Body>) -> Option<Answer> {
        let mut answering = pin!(self.front.answer(request));
        let mut response = None;
        for _ in 0..TURNS {
            match futures_util::poll!(answering.as_mut()) {
                std::task::Poll::Ready(ready) => {
                    response = Some(ready);
                    break;
                }
                std::task::Poll::Pending => tokio::task::yield_now().await,
            }
        }
        whole(response?).await
    }

    /// The answer of a request that reaches a store, and may take as long as that takes.
    pub(super) async fn patient_answer(&self, request: Request<Body>, patience: Duration) -> Option<Answer> {
        let response = tokio::time::timeout(patience, self.front.answer(request)).await.ok()?;
        let (head, body) = response.into_parts();
        let bytes = tokio::time::timeout(patience, body.collect()).await.ok()?;
        let bytes = bytes.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Some(Answer { status: head.status.as_u16(), headers: head.headers, bytes })
    }

    /// All that is recorded, as text. It can be compared and nothing else.
    pub(super) async fn recorded(&self) -> String {
        let everything = ResourceFilter { limit: 100, ..ResourceFilter::default() };
        let until = Timestamp::from_ms(i64::MAX);
        let audit = AuditFilter { since: Timestamp::default(), until, after: None, limit: 200 };
        let ledger = &self.ledger;
        let resources = ledger.read(move |reader| reader.resources(everything)).await;
        let audit = ledger.read(move |reader| reader.audit_lines(audit)).await;
        let namespaces = ledger.read(|reader| reader.namespaces()).await;
        let operations = ledger.read(|reader| reader.events_end()).await.map(|end| end.view);
        format!("{resources:?}\n{audit:?}\n{namespaces:?}\n{operations:?}")
    }
}

/// A body that ends within its turns; of a stream that does not, what was said so far is enough.
async fn whole(response: axum::response::Response) -> Option<Answer> {
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    for _ in 0..TURNS {
        let mut frame = pin!(body.frame());
        match futures_util::poll!(frame.as_mut()) {
            std::task::Poll::Ready(Some(Ok(piece))) => {
                bytes.extend_from_slice(piece.data_ref().map_or(&[], |data| data));
            }
            std::task::Poll::Ready(Some(Err(error))) => panic!("an answer that breaks off: {error}"),
            std::task::Poll::Ready(None) => break,
            std::task::Poll::Pending => {
                let is_stream =
                    head.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
                if is_stream {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
    Some(Answer { status: head.status.as_u16(), headers: head.headers, bytes: bytes.into() })
}
