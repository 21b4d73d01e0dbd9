//! The same ledger over each engine.

use std::path::Path;
use std::sync::Arc;

use fencegate::domain::lease::WaitOrder;
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::resource::Namespace;
use fencegate::domain::seal::{Keyring, SealKey};
use fencegate::domain::time::Millis;
use fencegate::ledger::sqlite::OpenMode;
use fencegate::ledger::{Committers, Ledger, Setting, keys, memory, postgres as engine, sqlite};
use fencegate::protocol::outcome::{ControlView, Receipt, WholeView};
use tempfile::TempDir;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::clock::ManualClock;
use super::postgres::{self, Fresh};

/// The engines that must all behave alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

/// All of them, for a test of this name; without PostgreSQL where there is none and the tests may pass all the same.
pub(crate) fn all_for(test: &str) -> Vec<Kind> {
    let mut kinds = vec![Kind::Memory];
    kinds.extend(durable_for(test));
    kinds
}

/// Those that keep what they were told.
pub(crate) fn durable_for(test: &str) -> Vec<Kind> {
    let mut kinds = vec![Kind::Sqlite];
    kinds.extend(postgres::needed_binaries(test).map(|_| Kind::Postgres));
    kinds
}

/// Makes a test of its own of each of these stories and each of these engines: `memory::story`, `sqlite::story`,
/// `postgres::story`. A story takes the kind of engine.
macro_rules! on_engines {
    ([$($engine:ident $kind:ident),+], $stories:tt) => {
        $($crate::support::engines::on_engines!(@one $engine $kind $stories);)+
    };
    (@one $engine:ident $kind:ident [$($story:ident),+ $(,)?]) => {
        mod $engine {
            use $crate::support::engines::{Kind, is_here};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if is_here(Kind::$kind, concat!(module_path!(), "::", stringify!($story))) {
                        super::$story(Kind::$kind).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use on_engines;

/// Whether an engine can be used; without PostgreSQL only where that is allowed. `test` is a path in this crate.
pub(crate) fn is_here(kind: Kind, test: &str) -> bool {
    match kind {
        Kind::Memory | Kind::Sqlite => true,
        Kind::Postgres => postgres::needed_binaries(test.trim_start_matches("it::")).is_some(),
    }
}

/// One id for all, so that seals are the same everywhere.
pub(crate) const DATABASE: Uuid = Uuid::from_u128(0xfe9c_e6a7_e000_4000_8000_0000_0000_0001);

/// A ledger that runs, with what it stands on.
pub(crate) struct Running {
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<ManualClock>,
    committer: Committers,
    place: Place,
}

/// Where a ledger keeps what it is told.
pub(crate) enum Place {
    Nowhere,
    Folder(TempDir),
    Server(Fresh),
}

impl Place {
    /// A new one.
    pub(crate) async fn new(kind: Kind) -> Self {
        match kind {
            Kind::Memory => Self::Nowhere,
            Kind::Sqlite => Self::Folder(tempfile::tempdir().unwrap()),
            Kind::Postgres => Self::Server(postgres::one_more().await),
        }
    }
}

impl Running {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::over(Place::new(kind).await, Arc::new(ManualClock::new())).await
    }

    pub(crate) async fn over(place: Place, clock: Arc<ManualClock>) -> Self {
        let (ledger, committer) = match &place {
            Place::Nowhere => {
                let (engine, reader, identity) = memory::open(DATABASE, clock.clone());
                Ledger::start(vec![engine], Arc::new(reader), setting(identity))
            }
            Place::Folder(folder) => {
                let path = folder.path().join("ledger.db");
                let mut database =
                    sqlite::Database::open(&path, OpenMode::Create, DATABASE, clock.clone()).await.unwrap();
                let recorded = database.recorded_keys().await.unwrap();
                if let Some(key) = keys::check(&recorded, &keyring()).unwrap() {
                    database.record_key(key).await.unwrap();
                }
                let (engine, reader, identity) = database.start().await.unwrap();
                Ledger::start(vec![engine], Arc::new(reader), setting(identity))
            }
            Place::Server(fresh) => on_server(fresh, clock.clone()).await,
        };
        Self { ledger, clock, committer, place }
    }

    /// A second gateway over the same server.
    pub(crate) async fn beside(&self) -> Ledger {
        let Place::Server(fresh) = &self.place else { panic!("only a server takes two") };
        on_server(fresh, self.clock.clone()).await.0
    }

    /// The server, where there is one.
    pub(crate) const fn server(&self) -> Option<&Fresh> {
        if let Place::Server(fresh) = &self.place { Some(fresh) } else { None }
    }

    /// Stops in good order: every clone of the ledger must be gone.
    pub(crate) async fn stop(self) -> Place {
        drop(self.ledger);
        self.committer.await.unwrap().unwrap();
        self.place
    }

    /// Stops, lets somebody at the file of the embedded database, and opens it again.
    pub(crate) async fn meddle(self, with: impl FnOnce(&Path)) -> Self {
        let clock = self.clock.clone();
        let place = self.stop().await;
        if let Place::Folder(folder) = &place {
            with(&folder.path().join("ledger.db"));
        }
        Self::over(place, clock).await
    }

    /// Stops and opens the same database again, under a clock that goes on.
    pub(crate) async fn restart(self) -> Self {
        let clock = self.clock.clone();
        Self::over(self.stop().await, clock).await
    }
}

/// Several committers, so that the order of a resource's commands is seen to hold with more than one.
async fn on_server(fresh: &Fresh, clock: Arc<ManualClock>) -> (Ledger, Committers) {
    let address = engine::Address::of(&[&fresh.url]).unwrap();
    let time = engine::TimeSource::Given(clock);
    let mode = engine::OpenMode::Create;
    let mut database = engine::Database::open(&address, mode, DATABASE, time, 6).await.unwrap();
    let recorded = database.recorded_keys().await.unwrap();
    if let Some(key) = keys::check(&recorded, &keyring()).unwrap() {
        database.record_key(key).await.unwrap();
    }
    let (engines, reader, identity) = database.start().await.unwrap();
    assert!(engines.len() > 1);
    Ledger::start(engines, Arc::new(reader), setting(identity))
}

pub(crate) fn keyring() -> Keyring {
    Keyring::of(SealKey::new([7; 4], Zeroizing::new([9; 32])))
}

fn setting(identity: fencegate::ledger::engine::Identity) -> Setting {
    Setting { namespaces: namespaces(), keyring: keyring(), identity, render, render_control, render_whole }
}

/// Stand-ins for the door's answers: every field is in them, so a difference shows.
fn render_control(view: &ControlView<'_>) -> Vec<u8> {
    format!("{view:?}").into_bytes()
}

fn render_whole(view: &WholeView<'_>) -> Vec<u8> {
    format!("{view:?}").into_bytes()
}

fn render(receipt: &Receipt) -> Vec<u8> {
    format!("{receipt:?}").into_bytes()
}

/// One namespace per policy, contract and issuer that the histories use.
pub(crate) fn namespaces() -> Namespaces {
    let define = |name: &str, policy, contract, issuer, scope| {
        let definition = Definition { policy, contract, issuer, store: Store::Document, scope };
        definition.check().unwrap();
        let lease = match name {
            "queued" => NamespaceRules { order: WaitOrder::Fifo, ..NamespaceRules::default() },
            "delayed" => NamespaceRules {
                lock_delay: Millis::new(5_000),
                max_hold: Some(Millis::new(60_000)),
                ..NamespaceRules::default()
            },
            _ => NamespaceRules::default(),
        };
        (Namespace::parse(name).unwrap(), NamespaceRules { definition, ..lease })
    };
    let named = [
        define("single", Policy::Single, Contract::Immediate, Issuer::Gateway, 0),
        define("ordered", Policy::Ordered { gapless: false }, Contract::Immediate, Issuer::Gateway, 0),
        define("gapless", Policy::Ordered { gapless: true }, Contract::Observed, Issuer::Gateway, 0),
        define("session", Policy::Session, Contract::LeaseBound, Issuer::Gateway, 0),
        define("scoped", Policy::Single, Contract::Immediate, Issuer::Gateway, 1),
        define("queued", Policy::Single, Contract::Immediate, Issuer::Gateway, 0),
        define("delayed", Policy::Single, Contract::Immediate, Issuer::Gateway, 0),
        define("trusted", Policy::Single, Contract::Observed, Issuer::Trusted { max_jump: Some(8) }, 0),
        define("registered", Policy::Single, Contract::Immediate, Issuer::Registered, 0),
    ];
    let forwarded = super::forwards::namespaces();
    Namespaces::new(named.into_iter().chain(forwarded).collect(), None)
}
