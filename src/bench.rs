//! The standing benchmark: the gateway beside what people write by hand, in one run on one machine.
//!
//! Everything under test runs in a process of its own; this process is the load. Ways are interleaved in rounds, and a
//! ratio is made inside a round, because a machine that others share changes from minute to minute: the ratios are the
//! result, the absolute figures are worth little. This is the one room beside `ledger` that holds SQL, since it
//! measures transactions written by hand (docs/adr/0008); nothing of it runs in a gateway.

mod access;
mod answer;
mod cells;
mod chance;
mod cluster;
mod flood;
mod flushes;
mod gates;
mod growth;
mod histogram;
mod load;
mod nginx;
mod overload;
mod pace;
mod peer;
mod pgbench;
mod preload;
mod proxies;
mod raw;
mod report;
mod request;
mod rounds;
mod server;
mod stage;
mod templates;
mod tie;
mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::domain::entropy::Entropy;
use crate::domain::time::Clock;

use cells::{Results, Way};
use report::Conditions;
use rounds::Rounds;
use server::Postgres;
use stage::Folder;
use templates::{OnPostgres, Templates};

pub(crate) use chance::Chance;
pub(crate) use cluster::{ServerUser, programs, server_user};
pub use peer::{Opponent, serve, serve_upstream};
pub use raw::{Raw, Written};
pub use report::Report;
pub(crate) use stage::{command, free_address};
pub use tie::{KEEPER, Kept, TIED, keep, tie};

/// The word that makes this program an opponent.
pub const OPPONENT: &str = "bench-peer";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// All of it.
    All,
    /// The embedded one.
    Sqlite,
    /// The server.
    Postgres,
    /// None of the two for its own sake: the gateway in front of an upstream.
    Upstreams,
    /// None of them: what a gateway does under more than it can do.
    Overload,
    /// The embedded one, by callers that are known by different credentials.
    Access,
}

impl Stores {
    const fn has_embedded(self) -> bool {
        matches!(self, Self::All | Self::Sqlite)
    }

    const fn has_server(self) -> bool {
        matches!(self, Self::All | Self::Postgres)
    }

    const fn has_upstreams(self) -> bool {
        matches!(self, Self::All | Self::Upstreams)
    }
}

/// What is to be measured, and how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds.
    pub rounds: u32,
    /// Sent and not counted, per cell.
    pub warm_up: Duration,
    /// Counted, per cell.
    pub measured: Duration,
    /// Connections, one cell for each number.
    pub connections: Vec<u64>,
    /// Resources that are written.
    pub resources: u64,
    /// The stores.
    pub stores: Stores,
    /// A PostgreSQL server to use.
    pub postgres: Option<String>,
    /// Where the databases lie; it must be the disk that is to be measured.
    pub folder: PathBuf,
    /// The gateway's log filter, where it is not the usual one.
    pub log: Option<String>,
    /// Whether the run only shows that everything works.
    pub quick: bool,
    /// Whether it measures growth instead of everything else.
    pub growth: bool,
    /// Whether flushes are counted with strace, where it exists.
    pub count_flushes: bool,
}

/// Measures. `tell` hears of each step.
///
/// # Errors
/// When something under test cannot be started, or the run was interrupted. A wrong answer is no error: the cell is
/// invalid and says so.
pub async fn run(
    plan: &Plan,
    clock: &Arc<dyn Clock>,
    entropy: &dyn Entropy,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Report> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
    let id = uuid::Builder::from_random_bytes(entropy.draw()?).into_uuid().simple().to_string();
    let folder = Folder::make(&plan.folder, &id)?;
    let mut bench = Bench {
        plan,
        clock,
        tell,
        folder: &folder,
        server: None,
        templates: Templates::default(),
        results: Results::default(),
        conditions: conditions(plan),
    };
    let ended = tokio::select! {
        ended = bench.play(&id) => ended,
        _ = terminate.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
    };
    let cleared = match bench.server.take() {
        Some(server) => server.clear().await,
        None => Ok(()),
    };
    ended.and(cleared)?;
    let verdicts = gates::verdicts(&bench.results);
    Ok(Report { conditions: bench.conditions, results: bench.results, verdicts })
}

struct Bench<'a> {
    plan: &'a Plan,
    clock: &'a Arc<dyn Clock>,
    tell: &'a dyn Fn(&str),
    folder: &'a Folder,
    server: Option<Postgres>,
    templates: Templates,
    results: Results,
    conditions: Conditions,
}

impl Bench<'_> {
    async fn play(&mut self, id: &str) -> anyhow::Result<()> {
        let flush = flushes::probe(self.folder.path(), self.clock)?;
        self.results.note("one flush of 420 bytes, ms", 0, flush.as_secs_f64() * 1_000.0);
        if flush < flushes::SUSPICIOUS {
            let why = "a flush is faster than a disk; the folder may lie in memory: use --folder";
            self.conditions.left_out.push(why.to_owned());
        }
        if self.plan.stores == Stores::Overload {
            return overload::run(self.plan, self.folder, self.clock, &mut self.results, self.tell).await;
        }
        if self.plan.stores == Stores::Access {
            let left_out = access::run(&mut self.rounds(flush).0).await?;
            self.conditions.left_out.extend(left_out);
            return Ok(());
        }
        let embedded = self.plan.stores.has_embedded();
        if self.plan.stores.has_server() {
            self.open_server(id).await?;
        }
        if self.plan.growth {
            let (mut rounds, server) = self.rounds(flush);
            return growth::run(&mut rounds, embedded, server).await;
        }
        let mut ways = Vec::new();
        if self.plan.stores != Stores::Upstreams {
            ways.push(Way::Hello);
        }
        if embedded {
            (self.tell)("filling the embedded databases");
            templates::fill_sqlite(self.plan, self.folder, &mut self.templates).await?;
            ways.extend([Way::GatewaySqlite, Way::PoolSqlite, Way::RawSqlite]);
        }
        ways.extend(self.fill_server().await?);
        ways.extend(self.fill_upstream().await?);
        let (mut rounds, server) = self.rounds(flush);
        let failed = rounds.run(&ways, server).await;
        self.conditions.left_out.extend(failed);
        if self.plan.count_flushes {
            (self.tell)("counting flushes");
            let counting = flushes::Counting {
                plan: self.plan,
                clock: self.clock,
                folder: self.folder,
                templates: &self.templates,
                results: &mut self.results,
            };
            let failed = counting.run(embedded, self.server.as_mut()).await;
            self.conditions.left_out.extend(failed);
        }
        Ok(())
    }

    /// Fills the database of the gateway in front of an upstream, where that is measured.
    async fn fill_upstream(&mut self) -> anyhow::Result<Option<Way>> {
        if !self.plan.stores.has_upstreams() {
            return Ok(None);
        }
        (self.tell)("filling the database of the gateway in front of an upstream");
        templates::fill_upstream(self.plan, self.folder, &mut self.templates).await?;
        if nginx::program().is_none() {
            self.conditions.left_out.push("nginx: there is no such program".to_owned());
        }
        Ok(Some(Way::GatewayUpstream))
    }

    fn rounds(&mut self, flush: Duration) -> (Rounds<'_>, Option<&mut Postgres>) {
        let rounds = Rounds {
            plan: self.plan,
            clock: self.clock,
            folder: self.folder,
            templates: &self.templates,
            results: &mut self.results,
            tell: self.tell,
            flush,
        };
        (rounds, self.server.as_mut())
    }

    /// Finds or starts the PostgreSQL server. Without one there is nothing to measure on it, and the report says why.
    async fn open_server(&mut self, id: &str) -> anyhow::Result<()> {
        let prefix = format!("fencegate_bench_{}", id.get(..8).unwrap_or(id));
        match Postgres::find(self.plan.postgres.as_deref(), self.folder, &prefix).await {
            Ok(server) => {
                let settings = self.server.insert(server).settings().await?;
                self.conditions.settings.insert("PostgreSQL".to_owned(), settings);
                Ok(())
            }
            Err(why) if self.plan.stores == Stores::Postgres => Err(why),
            Err(why) => {
                self.conditions.left_out.push(format!("everything on PostgreSQL: {why:#}"));
                Ok(())
            }
        }
    }

    /// Fills the databases of the server, where there is one, and gives the ways that it serves.
    async fn fill_server(&mut self) -> anyhow::Result<Vec<Way>> {
        let Some(server) = &mut self.server else { return Ok(Vec::new()) };
        (self.tell)("filling the databases of the server");
        self.templates.by_hand_postgres = server.by_hand("by_hand", self.plan.resources).await?;
        let mut ways = vec![Way::PoolPostgres];
        if server.program("pgbench").is_some() {
            ways.extend([Way::PgbenchNaive, Way::PgbenchCte, Way::PgbenchBatch]);
        } else {
            self.conditions.left_out.push("pgbench: there is no such program".to_owned());
        }
        let home = self.folder.fresh("gateway-postgres")?;
        let database = server.empty("gateway").await?;
        let url = server.address(&database).to_string();
        templates::fill_gateway(self.plan, &home, &url).await?;
        self.templates.gateway_postgres = Some(OnPostgres { home, database });
        ways.push(Way::GatewayPostgres);
        Ok(ways)
    }
}

fn conditions(plan: &Plan) -> Conditions {
    let stores = match plan.stores {
        Stores::All => "all",
        Stores::Sqlite => "sqlite",
        Stores::Postgres => "postgres",
        Stores::Upstreams => "upstreams",
        Stores::Overload => "overload",
        Stores::Access => "access",
    };
    let connections: Vec<String> = plan.connections.iter().map(u64::to_string).collect();
    let plan = [
        ("rounds", plan.rounds.to_string()),
        ("warm-up s", plan.warm_up.as_secs_f64().to_string()),
        ("measured s", plan.measured.as_secs_f64().to_string()),
        ("connections", connections.join(" ")),
        ("resources", plan.resources.to_string()),
        ("stores", stores.to_owned()),
        ("rows of a batched statement", rounds::STATEMENT_ROWS.to_string()),
        ("gateway's log", plan.log.clone().unwrap_or_else(|| "as usual".to_owned())),
    ];
    Conditions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        optimised: !cfg!(debug_assertions),
        cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        plan: plan.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>(),
        ..Conditions::default()
    }
}
