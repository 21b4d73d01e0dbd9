//! The composition root: it builds the parts, connects them, and runs them until it is told to stop.

mod descriptors;
mod desks;
mod drain;
mod framing;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod greet;
mod keyfile;
mod listen;
mod notify;
mod open;
mod peers;
mod recover;
mod reload;
mod restore;
mod secure;
mod server;
mod system;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::access::Access;
use crate::backing::Upstream;
use crate::config::{Config, Database, Limits};
use crate::deliberate;
use crate::dispatch::{Dispatch, Elapsed, Upstreams};
use crate::domain::entropy::Entropy;
use crate::domain::resource::Namespace;
use crate::domain::store::HttpStore;
use crate::domain::time::{Clock, Millis};
use crate::http::{Door, Front, Reloads, Stopping};
use crate::ledger::{Ledger, postgres, sqlite};
use crate::limits::{CONNECTIONS_OF_ONE_PART, DRAIN_TIMEOUT_GREATEST_MS, POLICY_NOTES, SPANS_TIMEOUT};
use crate::telemetry::Levels;
use crate::telemetry::spans::Spans;
use crate::tls::listener::Listener;

use desks::Desks;
use greet::{Greeter, watch_certificate};
use open::{fresh_id, open_ledger};
use peers::PerAddress;
use reload::{InForce, Reloadable, Reloader, Within};

pub use crate::backing::probe::ProbeReport;
pub use crate::ledger::{MigrationReport, MigrationState, PROTOCOL};
pub use recover::{Recovery, Scope, recover};
pub use reload::Reread;
pub use restore::{Copied, Described, Restored, back_up, restore, stamp};
pub use secure::{check, listener, reload_tls};
pub use system::{OsEntropy, SystemClock, WakefulClock};

/// The parts that a run needs from outside itself; a test passes its own.
#[derive(Clone)]
pub struct Surroundings {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from.
    pub entropy: Arc<dyn Entropy>,
    /// How long a graceful stop waits for requests that are under way, at most: the configuration may say less.
    pub drain_time: Duration,
}

impl Surroundings {
    /// The operating system's clock and randomness.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock::started()),
            entropy: Arc::new(OsEntropy),
            drain_time: Duration::from_millis(DRAIN_TIMEOUT_GREATEST_MS),
        }
    }
}

/// Binds the configured address and serves until TERM or INT; a second signal ends the process at once. HUP reads the
/// configuration anew.
///
/// # Errors
/// When the address, the database or the seal key cannot be used. Nothing is then changed.
pub async fn serve(config: Config, levels: Levels, reread: Reread) -> anyhow::Result<()> {
    let listener = listen::listener(config.listen).await?;
    let shutdown = CancellationToken::new();
    stop_on_signals(shutdown.clone())?;
    let surroundings = Surroundings::system();
    let (notes, policy) = mpsc::channel(POLICY_NOTES);
    let tls = secure::listener(&config)?;
    let (access, fetching) = secure::access(&config, &surroundings.clock, &shutdown)?;
    let reins = Reins { tls, access, in_force: in_force(&config), reloads: Reloads::default(), policy };
    let within = Within { clock: surroundings.clock.clone(), shutdown: shutdown.clone() };
    let reloader = Reloader::new(config.clone(), reread, levels, &reins, notes, within);
    reloader.fetching(fetching).start().context("cannot watch for SIGHUP")?;
    run_with(listener, config, surroundings, shutdown, reins).await
}

/// What of a run can be changed while it goes on.
struct Reins {
    tls: Option<Listener>,
    access: Access,
    in_force: InForce,
    reloads: Reloads,
    /// Changes of who may do what, to be written down.
    policy: mpsc::Receiver<String>,
}

/// Writes down what was changed of who may do what.
async fn note_policy(ledger: Ledger, mut policy: mpsc::Receiver<String>, shutdown: CancellationToken) {
    loop {
        let what = tokio::select! {
            () = shutdown.cancelled() => return,
            heard = policy.recv() => match heard {
                Some(what) => what,
                None => return,
            },
        };
        if let Err(error) = ledger.note_policy(None, what).await {
            error!(%error, "a change of who may do what is not in the audit; it holds all the same");
        }
    }
}

fn in_force(config: &Config) -> InForce {
    Arc::new(ArcSwap::from_pointee(Reloadable::of(config)))
}

/// Runs a whole gateway on a listener until `shutdown` is cancelled: then it stops accepting, lets requests finish for
/// at most the drain time, and closes the database.
///
/// # Errors
/// When the database or the seal key cannot be used.
pub async fn run(
    listener: TcpListener,
    config: Config,
    surroundings: Surroundings,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let tls = secure::listener(&config)?;
    run_behind(tls, listener, config, surroundings, shutdown).await
}

/// The same behind a certificate that the caller can replace while it runs.
///
/// # Errors
/// When the database or the seal key cannot be used.
pub async fn run_behind(
    tls: Option<Listener>,
    listener: TcpListener,
    config: Config,
    surroundings: Surroundings,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (access, _fetching) = secure::access(&config, &surroundings.clock, &shutdown)?;
    let (_, policy) = mpsc::channel(1);
    let reins = Reins { tls, access, in_force: in_force(&config), reloads: Reloads::default(), policy };
    run_with(listener, config, surroundings, shutdown, reins).await
}

async fn run_with(
    listener: TcpListener,
    config: Config,
    surroundings: Surroundings,
    shutdown: CancellationToken,
    reins: Reins,
) -> anyhow::Result<()> {
    if let Some((bug, what)) = deliberate::chosen() {
        error!(bug, what, "this gateway is broken on purpose; it is for tests and keeps no promise");
    }
    let Reins { tls, access, in_force, reloads, policy } = reins;
    let (upstreams, kept) = (open_upstreams(&config)?, config.operation_retention);
    let (ledger, mut committers) = open_ledger(&config, &surroundings).await?;
    log_differences(&ledger).await?;
    let exporting = collect_spans(&config, &ledger)?;
    // Before anything is let in: until it is counted nobody knows what is used.
    ledger.count().await.context("what namespaces with quotas have cannot be counted")?;
    let address = listener.local_addr().context("the listener has no address")?;
    let identity = &ledger.setting().identity;
    info!(%address, engine = identity.engine, durability = identity.durability, "listening");
    let stopping = Stopping::default();
    let entropy = surroundings.entropy.clone();
    let dispatch = Dispatch::start(ledger.clone(), upstreams, wakeful(), entropy, stopping.draining.clone());
    let door = Door {
        ledger,
        dispatch: dispatch.clone(),
        started_at: surroundings.clock.wall(),
        clock: surroundings.clock.clone(),
        entropy: surroundings.entropy,
        stopping: stopping.clone(),
        reloads,
        access,
    };
    keep_house(&door.ledger, &door.clock, kept);
    tokio::spawn(note_policy(door.ledger.clone(), policy, shutdown.clone()));
    if let Some(tls) = &tls {
        door.ledger.metrics().shows(tls.clone());
        tokio::spawn(watch_certificate(tls.clone(), door.clock.clone(), shutdown.clone()));
    }
    tokio::spawn(notify::feed_watchdog(door.ledger.clone(), shutdown.clone()));
    tokio::spawn(drain::stages(shutdown.clone(), stopping.clone(), in_force.clone()));
    let connections = descriptors::connections();
    let bounds = server::Bounds {
        connections,
        per_address: {
            let in_force = in_force.clone();
            Box::new(move || per_address(&in_force.load().limits, connections))
        },
        drain_time: Box::new(move || in_force.load().drain_timeout.duration().min(surroundings.drain_time)),
        metrics: door.ledger.metrics().clone(),
        greeter: Greeter::new(tls),
    };
    // They outlive all that was begun on them: an operation goes on when its connection is gone.
    let mut desks = Desks::open().context("cannot start the threads that serve connections")?;
    let serving = server::serve(listener, Front::new(door), stopping, bounds, &mut desks);
    tokio::pin!(serving);
    notify::ready("serving");
    let ended_badly = "the committer ended badly; look the last operations up before you trust them";
    tokio::select! {
        () = &mut serving => {
            dispatch.drained(surroundings.drain_time).await;
            drop(dispatch);
            committers.await?.context(ended_badly)?;
        }
        // Without its committer a gateway can only refuse: better that somebody notices and starts it again.
        ended = &mut committers => {
            ended?.context(ended_badly)?;
            // A stop lets go of the ledger a moment before serving is seen to have ended.
            anyhow::ensure!(shutdown.is_cancelled(), "the committer ended before the gateway was told to stop");
            serving.await;
        }
    }
    if let Some(exporting) = exporting {
        // Whoever held the queue is gone; a collector that does not answer keeps nobody.
        drop(tokio::time::timeout(SPANS_TIMEOUT, exporting).await);
    }
    info!("stopped; every answered command is durable");
    Ok(())
}

/// Begins what goes on beside the requests for as long as the ledger is in use.
fn keep_house(ledger: &Ledger, clock: &Arc<dyn Clock>, kept: Millis) {
    tokio::spawn(ledger.sweeper().run());
    tokio::spawn(ledger.pruner(kept).run());
    tokio::spawn(ledger.compactor(kept).run());
    tokio::spawn(ledger.noter(clock.clone()).run());
    tokio::spawn(ledger.counting().run());
    tokio::spawn(ledger.keep_counting(clock.clone()));
}

/// Starts to collect spans, where the configuration says where they go.
fn collect_spans(config: &Config, ledger: &Ledger) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(tracing) = &config.tracing else { return Ok(None) };
    let metrics = ledger.metrics();
    let (sent, lost) = (metrics.spans_sent.clone(), metrics.spans_lost.clone());
    let (spans, exporting) = Spans::start(&tracing.endpoint, tracing.per_million, sent, lost)
        .context("spans cannot be sent to tracing.otlp_endpoint")?;
    metrics.collect(spans);
    info!(endpoint = tracing.endpoint, per_million = tracing.per_million, "spans are collected");
    Ok(Some(exporting))
}

/// How many of all connections one address may have.
fn per_address(limits: &Limits, connections: usize) -> PerAddress {
    let part = connections.checked_div(CONNECTIONS_OF_ONE_PART).unwrap_or(connections).max(1);
    let configured = limits.connections_per_address;
    let most = configured.and_then(|most| usize::try_from(most).ok()).unwrap_or(part);
    PerAddress { most, with_loopback: configured.is_some() }
}

/// A client for each store behind HTTP.
fn open_upstreams(config: &Config) -> anyhow::Result<Upstreams> {
    let mut upstreams = Upstreams::new();
    for (namespace, store) in &config.stores {
        let upstream = Upstream::open(store.clone())
            .with_context(|| format!("the store of namespace {namespace:?} cannot be used"))?;
        upstreams.insert(namespace.clone(), Arc::new(upstream));
    }
    Ok(upstreams)
}

/// Tries a store on what its class promises, under a name that was never used before.
///
/// # Errors
/// When its certificates cannot be used, or there is no randomness.
pub async fn probe(namespace: Namespace, store: HttpStore) -> anyhow::Result<ProbeReport> {
    let name = fresh_id(&OsEntropy)?.simple().to_string();
    let upstream = Upstream::open(store).context("the store cannot be used")?;
    Ok(upstream.probe(&format!("{namespace}/.fencegate-probe/{name}")).await)
}

/// Time since the machine was started, sleep included.
fn wakeful() -> Elapsed {
    let clock = WakefulClock::new();
    Arc::new(move || clock.elapsed())
}

fn stop_on_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!(signal = "TERM", "stopping"),
            _ = interrupt.recv() => info!(signal = "INT", "stopping; once more ends it at once"),
        }
        shutdown.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        warn!("ended by a second signal; operations without an answer may have been applied");
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "the operator asked twice; what was answered is durable"
        )]
        std::process::exit(130);
    });
    Ok(())
}

/// A process whose file differs from the recorded definitions starts, and says so.
async fn log_differences(ledger: &Ledger) -> anyhow::Result<()> {
    let recorded = ledger.read(|reader| reader.namespaces()).await.context("cannot read the namespaces")?;
    for row in recorded {
        let Some(rules) = ledger.setting().namespaces.rules(&row.namespace) else { continue };
        if rules.definition != row.definition {
            ledger.differs(&row.namespace, &row.definition, &rules.definition);
        }
    }
    Ok(())
}

/// What `fencegate migrate` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrateMode {
    /// Apply what is missing.
    Apply,
    /// Only tell what is applied and what is missing.
    Status,
    /// Apply what is missing, and then let no release work on the database that speaks a lower protocol than this one.
    Finish,
}

/// Applies or lists the migrations of the configured database, or finishes its upgrade.
///
/// # Errors
/// When the database cannot be used, for example because a gateway has it open.
pub fn migrate(config: &Config, mode: MigrateMode) -> impl Future<Output = anyhow::Result<MigrationReport>> {
    let database = config.database.clone();
    async move {
        match database {
            Database::Memory => Ok(MigrationReport { steps: Vec::new(), least_protocol: None }),
            Database::Postgres(address) => {
                let address = postgres::Address::of(address.urls())?;
                Ok(match mode {
                    MigrateMode::Apply => postgres::migrate(&address).await?,
                    MigrateMode::Status => postgres::migration_report(&address).await?,
                    MigrateMode::Finish => postgres::finish(&address).await?,
                })
            }
            Database::Sqlite(path) => Ok(match mode {
                MigrateMode::Apply => sqlite::migrate(&path).await?,
                MigrateMode::Status => sqlite::migration_report(&path).await?,
                MigrateMode::Finish => sqlite::finish(&path).await?,
            }),
        }
    }
}
