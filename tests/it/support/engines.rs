//! The same ledger over each engine.

use std::sync::Arc;

use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::resource::Namespace;
use fencegate::domain::seal::{Keyring, SealKey};
use fencegate::ledger::sqlite::OpenMode;
use fencegate::ledger::{Committers, Ledger, Setting, keys, memory, sqlite};
use fencegate::protocol::outcome::Receipt;
use tempfile::TempDir;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::clock::ManualClock;

/// The engines that must all behave alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
}

pub(crate) const ALL: [Kind; 2] = [Kind::Memory, Kind::Sqlite];

/// One id for all, so that seals are the same everywhere.
pub(crate) const DATABASE: Uuid = Uuid::from_u128(0xfe9c_e6a7_e000_4000_8000_0000_0000_0001);

/// A ledger that runs, with what it stands on.
pub(crate) struct Running {
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<ManualClock>,
    committer: Committers,
    kind: Kind,
    folder: Option<TempDir>,
}

impl Running {
    pub(crate) async fn start(kind: Kind) -> Self {
        let folder = (kind == Kind::Sqlite).then(|| tempfile::tempdir().unwrap());
        Self::over(kind, folder, Arc::new(ManualClock::new())).await
    }

    async fn over(kind: Kind, folder: Option<TempDir>, clock: Arc<ManualClock>) -> Self {
        let (ledger, committer) = match &folder {
            None => {
                let (engine, reader, identity) = memory::open(DATABASE, clock.clone());
                Ledger::start(vec![engine], Arc::new(reader), setting(identity))
            }
            Some(folder) => {
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
        };
        Self { ledger, clock, committer, kind, folder }
    }

    /// Stops in good order: every clone of the ledger must be gone.
    pub(crate) async fn stop(self) -> Option<TempDir> {
        drop(self.ledger);
        self.committer.await.unwrap().unwrap();
        self.folder
    }

    /// Stops and opens the same database again, under a clock that goes on.
    pub(crate) async fn restart(self) -> Self {
        let (kind, clock) = (self.kind, self.clock.clone());
        let folder = self.stop().await;
        Self::over(kind, folder, clock).await
    }
}

pub(crate) fn keyring() -> Keyring {
    Keyring::of(SealKey::new([7; 4], Zeroizing::new([9; 32])))
}

fn setting(identity: fencegate::ledger::engine::Identity) -> Setting {
    Setting { namespaces: namespaces(), keyring: keyring(), identity, render }
}

/// A stand-in for the door's receipt: every field is in it, so a difference shows.
fn render(receipt: &Receipt) -> Vec<u8> {
    format!("{receipt:?}").into_bytes()
}

/// One namespace per policy, contract and issuer that the histories use.
pub(crate) fn namespaces() -> Namespaces {
    let define = |name: &str, policy, contract, issuer, scope| {
        let definition = Definition { policy, contract, issuer, store: Store::Document, scope };
        definition.check().unwrap();
        (Namespace::parse(name).unwrap(), NamespaceRules { definition, ..NamespaceRules::default() })
    };
    let named = [
        define("single", Policy::Single, Contract::Immediate, Issuer::Gateway, 0),
        define("ordered", Policy::Ordered { gapless: false }, Contract::Immediate, Issuer::Gateway, 0),
        define("gapless", Policy::Ordered { gapless: true }, Contract::Observed, Issuer::Gateway, 0),
        define("session", Policy::Session, Contract::LeaseBound, Issuer::Gateway, 0),
        define("scoped", Policy::Single, Contract::Immediate, Issuer::Gateway, 1),
        define("trusted", Policy::Single, Contract::Observed, Issuer::Trusted { max_jump: Some(8) }, 0),
        define("registered", Policy::Single, Contract::Immediate, Issuer::Registered, 0),
    ];
    Namespaces::new(named.into_iter().collect(), None)
}
