//! Whole gateways: one in this process under a clock moved by hand, and real processes that can be killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use fencegate::access::Principal;
use fencegate::access::jwt::JwtSettings;
use fencegate::app::{Surroundings, listener as tls_listener, run_behind};
use fencegate::config::{Config, Database, Flags, KeySource, Limits, Nowhere, Sources, Tracing, Variables};
use fencegate::domain::namespaces::{DEFAULT_MAX_BODY_BYTES, Namespaces};
use fencegate::domain::resource::Namespace;
use fencegate::domain::store::HttpStore;
use fencegate::domain::time::{Clock, Millis};
use fencegate::limits::OPERATION_RETENTION_MS;
use fencegate::tls::TlsSettings;
use fencegate::tls::listener::Listener;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::clock::{CountingEntropy, ManualClock};
use super::engines::{Kind, Place};

/// The stores behind HTTP of a configuration.
type Stores = BTreeMap<Namespace, HttpStore>;

/// What of a configuration a gateway of a test has.
#[derive(Clone, Default)]
struct Setup {
    namespaces: Namespaces,
    stores: Stores,
    principals: Vec<Principal>,
    jwt: Option<JwtSettings>,
    tls: Option<TlsSettings>,
    tracing: Option<Tracing>,
    limits: Limits,
}

/// A gateway of this process, started as in production.
pub(crate) struct Gateway {
    pub(crate) client: Client,
    pub(crate) clock: Arc<ManualClock>,
    /// The certificate that it shows, where it does.
    pub(crate) tls: Option<Listener>,
    setup: Setup,
    folder: Arc<TempDir>,
    place: Arc<Place>,
    entropy: Arc<CountingEntropy>,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Gateway {
    /// On SQLite, with the default rules for every namespace.
    pub(crate) async fn start() -> Self {
        Self::on(Kind::Sqlite).await
    }

    /// On an engine, with the default rules for every namespace.
    pub(crate) async fn on(kind: Kind) -> Self {
        Self::with(kind, Namespaces::default()).await
    }

    /// With these namespaces.
    pub(crate) async fn with(kind: Kind, namespaces: Namespaces) -> Self {
        Self::fresh(kind, Setup { namespaces, ..Setup::default() }).await
    }

    /// With the namespaces and stores of a configuration.
    pub(crate) async fn configured(kind: Kind, config: &Config) -> Self {
        let Config { namespaces, stores, principals, jwt, tls, tracing, limits, .. } = config.clone();
        Self::fresh(kind, Setup { namespaces, stores, principals, jwt, tls, tracing, limits }).await
    }

    async fn fresh(kind: Kind, setup: Setup) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let (place, clock) = (Arc::new(Place::new(kind).await), Arc::new(ManualClock::new()));
        if let Place::Server(fresh) = place.as_ref() {
            fresh.take_the_clock(clock.wall()).await;
        }
        Self::over(setup, folder, place, clock, Arc::default()).await
    }

    async fn over(
        setup: Setup,
        folder: Arc<TempDir>,
        place: Arc<Place>,
        clock: Arc<ManualClock>,
        entropy: Arc<CountingEntropy>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config {
            listen: address,
            database: match place.as_ref() {
                Place::Nowhere => Database::Memory,
                Place::Folder(folder) => Database::Sqlite(folder.path().join("fencegate.db")),
                Place::Server(fresh) => database(&fresh.url),
            },
            max_connections: 8,
            seal_key: KeySource::File(folder.path().join("fencegate.key")),
            witness: Some(folder.path().join("fencegate.witness")),
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            operation_retention: Millis::new(OPERATION_RETENTION_MS),
            namespaces: setup.namespaces.clone(),
            stores: setup.stores.clone(),
            principals: setup.principals.clone(),
            jwt: setup.jwt.clone(),
            tls: setup.tls.clone(),
            limits: setup.limits,
            plaintext: false,
            tracing: setup.tracing.clone(),
            log: "info".to_owned(),
            drain_delay: Millis::new(0),
            drain_timeout: Millis::new(25_000),
        };
        let tls = tls_listener(&config).unwrap();
        let drain_time = std::time::Duration::from_millis(500);
        let surroundings = Surroundings { clock: clock.clone(), entropy: entropy.clone(), drain_time };
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run_behind(tls.clone(), listener, config, surroundings, shutdown.clone()));
        let client = Client::to(format!("http://{address}"));
        Self { client, clock, tls, setup, folder, place, entropy, shutdown, task }
    }

    /// Stops in good order.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        drop(self.client);
        self.task.await.unwrap().unwrap();
    }

    /// Stops and starts again over the same database, with a client of its own.
    pub(crate) async fn restart(self) -> Self {
        let (folder, clock) = (self.folder.clone(), self.clock.clone());
        let setup = self.setup.clone();
        let (place, entropy) = (self.place.clone(), self.entropy.clone());
        self.stop().await;
        Self::over(setup, folder, place, clock, entropy).await
    }

    /// Time goes on, for the gateway and for its database.
    pub(crate) async fn advance(&self, ms: u64) {
        self.clock.advance(ms);
        if let Place::Server(fresh) = self.place.as_ref() {
            fresh.set_the_clock(self.clock.wall()).await;
        }
    }
}

/// A database address as the configuration reads it.
fn database(url: &str) -> Database {
    let flags = Flags { database: Some(url.to_owned()), ..Flags::default() };
    let sources = Sources { file: None, variables: &Variables::default(), flags: &flags, outside: &Nowhere };
    Config::parse(&sources).unwrap().database
}

/// A gateway in a process of its own, ended by its process id.
pub(crate) struct Process {
    child: Child,
    pub(crate) base: String,
    /// What it warned of; said when the test fails.
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts `fencegate serve` in a folder and waits until it listens.
    pub(crate) fn start(folder: &Path) -> Self {
        Self::heard(command(folder))
    }

    /// The same, by a command that is prepared already.
    pub(crate) fn start_as(command: Command) -> Self {
        Self::heard(command)
    }

    /// The same, with so many descriptors.
    pub(crate) fn start_limited(folder: &Path, descriptors: u64) -> Self {
        let mut shell = alone(Command::new("sh"), folder);
        shell.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"")]).arg(binary());
        Self::heard(shell)
    }

    fn heard(command: Command) -> Self {
        let (process, log) = Self::with_log(command);
        let warnings = process.warnings.clone();
        // The pipe must not fill up, or lines would be lost.
        std::thread::spawn(move || {
            log.map_while(Result::ok)
                .filter(|line| is_warning(line))
                .for_each(|line| warnings.lock().unwrap().push(line));
        });
        process
    }

    /// The same, and nobody reads its log any more: the pipe is closed at the other end.
    pub(crate) fn start_unheard(folder: &Path) -> Self {
        Self::with_log(command(folder)).0
    }

    fn with_log(mut command: Command) -> (Self, Lines<BufReader<ChildStderr>>) {
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut warnings = Vec::new();
        let base = loop {
            let text = lines.next().expect("the gateway ended before it listened").unwrap();
            let Ok(line) = serde_json::from_str::<serde_json::Value>(&text) else {
                panic!("no JSON in the log: {text}")
            };
            if line["message"] == "listening" {
                break format!("http://{}", line["address"].as_str().unwrap());
            }
            warnings.extend(Some(text).filter(|text| is_warning(text)));
        };
        (Self { child, base, warnings: Arc::new(Mutex::new(warnings)) }, lines)
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.base.clone())
    }

    /// What it has warned of so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap().clone()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A signal that does not end it, such as STOP and CONT.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// kill -9, and wait until the process is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// TERM; gives the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is fine.
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            println!("{} warned of:\n{}", self.base, self.warnings.lock().unwrap().join("\n"));
        }
    }
}

fn is_warning(line: &str) -> bool {
    !line.contains("\"level\":\"INFO\"")
}

/// The binary, in a folder, without anybody's settings.
pub(crate) fn command(folder: &Path) -> Command {
    alone(Command::new(binary()), folder)
}

fn alone(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    for name in settings_around("FENCEGATE_") {
        command.env_remove(name);
    }
    command
}

/// Names the bug that is switched on, and reaches every gateway that a test starts.
pub(crate) const DELIBERATE_BUG: &str = "FENCEGATE_DELIBERATE_BUG";

/// The variables around the tests that begin so: somebody's settings, which a gateway under test must not read.
pub(crate) fn settings_around(prefix: &str) -> impl Iterator<Item = String> + use<'_> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(move |name| name.starts_with(prefix) && name != DELIBERATE_BUG)
}

pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_fencegate"))
}
