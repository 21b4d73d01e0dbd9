//! A folder with a database, a clock that is moved by hand, and commands as a test tells them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencegate::domain::breaker::Breaker;
use fencegate::domain::counter::{Incarnation, Sequence};
use fencegate::domain::document::{BodyDigest, ContentType, Document};
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::operation::{Fingerprint, Method, OperationId};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::PresentedToken;
use fencegate::domain::precondition::Preconditions;
use fencegate::domain::resource::{Address, Namespace, ResourceName};
use fencegate::domain::seal::{Keyring, SealKey};
use fencegate::domain::time::{Clock, Timestamp};
use fencegate::ledger::engine::Identity;
use fencegate::ledger::read::Reader;
use fencegate::ledger::sqlite::{Database, OpenError, OpenMode, SqliteEngine, SqliteReader};
use fencegate::ledger::{Committers, Ledger, Setting, Unserved, WitnessFile, memory};
use fencegate::protocol::command::{Member, Write};
use fencegate::protocol::outcome::{Receipt, Written};
use fencegate::protocol::{Command, Outcome};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tempfile::TempDir;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::support::postgres::patience;

/// The id that every fresh database of these tests gets.
pub(crate) const DATABASE: Uuid = Uuid::from_u128(0xFE4C);

/// A clock whose hands are moved by the test.
pub(crate) struct Hands {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl Hands {
    pub(crate) fn at(wall_ms: i64) -> Arc<Self> {
        Arc::new(Self { wall_ms: AtomicI64::new(wall_ms), monotonic_ms: AtomicU64::new(0) })
    }

    pub(crate) fn forward(&self, ms: u32) {
        self.wall_ms.fetch_add(i64::from(ms), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(u64::from(ms), Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(self.wall_ms.load(Ordering::SeqCst))
    }
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}

/// A folder of its own, gone after the test.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<Hands>,
}

/// A ledger at work.
pub(crate) struct Running {
    pub(crate) ledger: Ledger,
    committer: Committers,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: Hands::at(1_000_000) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("f.db")
    }

    pub(crate) async fn database(&self) -> Result<Database, OpenError> {
        Database::open(&self.path(), OpenMode::Create, DATABASE, self.clock.clone()).await
    }

    pub(crate) async fn parts(&self) -> (SqliteEngine, SqliteReader, Identity) {
        self.database().await.unwrap().start().await.unwrap()
    }

    pub(crate) async fn run(&self) -> Running {
        Running::over(self.database().await.unwrap()).await
    }

    pub(crate) fn witness(&self) -> PathBuf {
        self.folder.path().join("apart.witness")
    }

    /// With a witness, in blocks of so many commits.
    pub(crate) async fn run_watched(&self, block: u64) -> Running {
        let file = WitnessFile::open(&self.witness()).unwrap().in_blocks_of(block);
        Running::over(self.database().await.unwrap().watched_by(file).await.unwrap()).await
    }

    /// A copy of the file as it is, made as a backup is made.
    pub(crate) async fn back_up(&self, name: &str) -> PathBuf {
        let copy = self.folder.path().join(name);
        meddle(&self.path(), &format!("VACUUM INTO '{}'", copy.display())).await;
        copy
    }

    /// Puts a backup in the place of the database, as the runbook says.
    pub(crate) fn restore(&self, copy: &Path) {
        for gone in ["f.db", "f.db-wal", "f.db-shm"] {
            std::fs::remove_file(self.folder.path().join(gone)).unwrap_or_default();
        }
        let new = self.folder.path().join("restored");
        std::fs::copy(copy, &new).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    /// What SQLite itself says of a file that was closed.
    pub(crate) async fn check(&self) {
        let verdict: String = answer(&self.path(), "PRAGMA integrity_check").await;
        assert_eq!(verdict, "ok");
        assert!(!self.folder.path().join("f.db-wal").exists(), "a graceful end leaves no log");
    }
}

impl Running {
    async fn over(database: Database) -> Self {
        let (engine, reader, identity) = database.start().await.unwrap();
        let (ledger, committer) = Ledger::start(vec![engine], Arc::new(reader), setting(identity));
        Self { ledger, committer }
    }

    /// One over a database that another process has made.
    pub(crate) async fn in_folder(folder: &Path) -> Self {
        let (path, clock) = (folder.join("f.db"), Hands::at(0));
        Self::over(Database::open(&path, OpenMode::ExistingOnly, DATABASE, clock).await.unwrap()).await
    }

    /// One that forgets everything, to compare with.
    pub(crate) fn in_memory(clock: Arc<Hands>) -> Self {
        let (engine, reader, identity) = memory::open(DATABASE, clock);
        let (ledger, committer) = Ledger::start(vec![engine], Arc::new(reader), setting(identity));
        Self { ledger, committer }
    }

    /// The breakers of all namespaces, by name; of those that were never used as `*`.
    pub(crate) async fn breakers(&self, place: &Place) -> BTreeMap<String, Option<Breaker>> {
        let rows = self.ledger.read(|reader: &dyn Reader| reader.namespaces()).await.unwrap();
        let mut found: BTreeMap<_, _> =
            rows.into_iter().map(|row| (row.namespace.as_str().to_owned(), row.breaker)).collect();
        let everywhere = "SELECT coalesce((SELECT breaker FROM everywhere WHERE bucket = 0), '')";
        let text: String = answer(&place.path(), everywhere).await;
        found.insert("*".to_owned(), Breaker::parse(&text));
        found
    }

    /// Waits until the breaker of everything has tripped, and tells what it says.
    pub(crate) async fn tripped(&self, place: &Place) -> Breaker {
        patience::until("the breaker trips", 20, async || {
            let found = self.breakers(place).await;
            let one = found["*"].clone()?;
            found.values().all(|breaker| breaker.as_ref() == Some(&one)).then_some(one)
        })
        .await
    }

    /// Nothing has tripped.
    pub(crate) async fn is_whole(&self, place: &Place) {
        let found = self.breakers(place).await;
        assert!(found.values().all(Option::is_none), "{found:?}");
    }

    pub(crate) async fn put(&self, draft: &Draft) -> Written {
        let outcome = self.ledger.submit(draft.command(&self.ledger)).await.unwrap();
        let Outcome::Written(mut written) = outcome else { panic!("{outcome:?}") };
        written.pop().unwrap()
    }

    /// Many commands at once; the order of the answers is that of the commands.
    pub(crate) async fn answers(&self, commands: Vec<Command>) -> Vec<Result<Outcome, Unserved>> {
        let tasks: Vec<_> = commands
            .into_iter()
            .map(|command| {
                let ledger = self.ledger.clone();
                tokio::spawn(async move { ledger.submit(command).await })
            })
            .collect();
        let mut answers = Vec::with_capacity(tasks.len());
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        answers
    }

    /// Many commands at once, all of which must have an outcome.
    pub(crate) async fn submit_together(&self, commands: Vec<Command>) -> Vec<Outcome> {
        self.answers(commands).await.into_iter().map(Result::unwrap).collect()
    }

    pub(crate) async fn close(self) {
        drop(self.ledger);
        self.committer.await.unwrap().unwrap();
    }
}

/// A write before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) address: Address,
    pub(crate) method: Method,
    pub(crate) operation: String,
    pub(crate) token: String,
    pub(crate) sequence: Option<u64>,
    pub(crate) incarnation: Option<u64>,
    pub(crate) body: Bytes,
}

/// A PUT of some content to a resource, or `resource//target`.
pub(crate) fn put(name: &str, operation: &str, token: &str, sequence: u64) -> Draft {
    Draft {
        address: address(name),
        method: Method::Put,
        operation: operation.to_owned(),
        token: token.to_owned(),
        sequence: Some(sequence).filter(|sequence| *sequence > 0),
        incarnation: None,
        body: Bytes::from(format!("{operation} of {name}")),
    }
}

/// A DELETE of a target, or of a resource.
pub(crate) fn delete(name: &str, operation: &str, token: &str, sequence: u64) -> Draft {
    Draft { method: Method::Delete, body: Bytes::new(), ..put(name, operation, token, sequence) }
}

impl Draft {
    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn incarnation(mut self, incarnation: Option<u64>) -> Self {
        self.incarnation = incarnation;
        self
    }

    pub(crate) fn command(&self, ledger: &Ledger) -> Command {
        together(ledger, std::slice::from_ref(self))
    }

    fn member(&self, ledger: &Ledger) -> Member {
        let content_type = ContentType::parse("text/plain").ok();
        let (digest, preconditions) = (BodyDigest::of(&self.body), Preconditions::default());
        let document = match self.method {
            Method::Delete => None,
            Method::Put | Method::Post | Method::Patch => {
                Some(Document { content_type, body: self.body.clone() })
            }
        };
        let kind = document.as_ref().and_then(|document| document.content_type.as_ref());
        Member {
            fingerprint: Fingerprint::of(self.method, &self.address, None, kind, &digest, &preconditions),
            address: self.address.clone(),
            method: self.method,
            claim: ledger.claim(&self.address.resource, &PresentedToken::parse(&self.token).unwrap()),
            operation_id: OperationId::parse(&self.operation).unwrap(),
            sequence: self.sequence.and_then(Sequence::new),
            incarnation: self.incarnation.and_then(Incarnation::new),
            preconditions,
            document,
            forward: None,
            digest,
            may_raise: true,
        }
    }
}

/// Several writes as one command.
pub(crate) fn together(ledger: &Ledger, drafts: &[Draft]) -> Command {
    let members = drafts.iter().map(|draft| draft.member(ledger)).collect();
    Command::Write(Write::new(members, false).unwrap())
}

pub(crate) fn name(text: &str) -> ResourceName {
    ResourceName::parse(text).unwrap()
}

/// `resource`, or `resource//target`.
pub(crate) fn address(text: &str) -> Address {
    let (resource, target) = text.split_once("//").map_or((text, None), |(one, two)| (one, Some(two)));
    let target = target.map(|target| fencegate::domain::resource::Target::parse(target).unwrap());
    Address { resource: name(resource), target }
}

/// One value that a statement answers, from a connection beside the engine.
pub(crate) async fn answer<T>(path: &Path, statement: &'static str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + Unpin,
{
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let value = sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    value
}

/// Changes rows behind the engine's back.
pub(crate) async fn meddle(path: &Path, statement: &str) {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    connection.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    connection.close().await.unwrap();
}

/// Reads through the facade.
pub(crate) async fn content(ledger: &Ledger, name: &str) -> Option<Bytes> {
    let address = address(name);
    ledger.read(|reader: &dyn Reader| reader.document(address, true)).await.unwrap().body
}

/// `free` and `tree` (scope 1): ordered, positions from outside. `owned`: single, leases. `bound`: leases that count.
fn setting(identity: Identity) -> Setting {
    let ordered = Policy::Ordered { gapless: false };
    let outside = Issuer::Trusted { max_jump: None };
    let rules = |policy, contract, issuer, scope| NamespaceRules {
        definition: Definition { policy, contract, issuer, store: Store::Document, scope },
        ..NamespaceRules::default()
    };
    let named = [
        ("free", rules(ordered, Contract::Observed, outside, 0)),
        ("tree", rules(ordered, Contract::Observed, outside, 1)),
        ("owned", rules(Policy::Single, Contract::Immediate, Issuer::Gateway, 0)),
        ("bound", rules(ordered, Contract::LeaseBound, Issuer::Gateway, 0)),
    ];
    let named: BTreeMap<Namespace, NamespaceRules> =
        named.into_iter().map(|(name, rules)| (Namespace::parse(name).unwrap(), rules)).collect();
    Setting {
        namespaces: Namespaces::new(named, None),
        keyring: Keyring::of(SealKey::new([1; 4], Zeroizing::new([2; 32]))),
        identity,
        render: |receipt: &Receipt| format!("{receipt:?}").into_bytes(),
        render_control: |_| Vec::new(),
        render_whole: |_| Vec::new(),
    }
}
