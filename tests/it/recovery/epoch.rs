//! An operator's epoch advance on a database that no gateway has open.

use std::path::Path;
use std::sync::Arc;

use fencegate::app::SystemClock;
use fencegate::domain::namespaces::Namespaces;
use fencegate::domain::operation::OperationId;
use fencegate::domain::seal::Keyring;
use fencegate::domain::subject::Subject;
use fencegate::ledger::engine::{Engine, Identity};
use fencegate::ledger::read::Reader;
use fencegate::ledger::{Ledger, Setting, postgres, sqlite};
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Command, Outcome};
use uuid::Uuid;

/// Where the records are.
pub(super) enum Where {
    File,
    Server(String),
}

/// Begins the next epoch of everything.
pub(super) async fn advance(folder: &Path, records: &Where) {
    match records {
        Where::File => {
            let (path, clock) = (folder.join("fencegate.db"), Arc::new(SystemClock::started()));
            let mode = sqlite::OpenMode::ExistingOnly;
            let database = sqlite::Database::open(&path, mode, Uuid::nil(), clock).await.unwrap();
            let (engine, reader, identity) = database.start().await.unwrap();
            tell(folder, vec![engine], Arc::new(reader), identity).await;
        }
        Where::Server(url) => {
            let address = postgres::Address::of(&[url]).unwrap();
            let (mode, time) = (postgres::OpenMode::ExistingOnly, postgres::TimeSource::Database);
            let database = postgres::Database::open(&address, mode, Uuid::nil(), time, 4).await.unwrap();
            let (engines, reader, identity) = database.start().await.unwrap();
            tell(folder, engines, Arc::new(reader), identity).await;
        }
    }
}

async fn tell<E: Engine>(folder: &Path, engines: Vec<E>, reader: Arc<dyn Reader>, identity: Identity) {
    let key = std::fs::read_to_string(folder.join("fencegate.key")).unwrap();
    let setting = Setting {
        namespaces: Namespaces::default(),
        keyring: Keyring::parse(&key).unwrap(),
        identity,
        render: |_| Vec::new(),
        render_control: |_| Vec::new(),
        render_whole: |_| Vec::new(),
    };
    let (ledger, committers) = Ledger::start(engines, reader, setting);
    let deed = Deed::AdvanceEpoch {
        key: OperationId::parse("after-the-restore").unwrap(),
        reason: "restored from a backup".to_owned(),
        leave_open: false,
    };
    let act = WholeAct { subject: Subject::Everywhere, deed };
    let outcome = ledger.submit(Command::Whole(act)).await.unwrap();
    assert!(matches!(outcome, Outcome::Acted(_)), "{outcome:?}");
    drop(ledger);
    committers.await.unwrap().unwrap();
}
