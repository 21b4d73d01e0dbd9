//! The rounds: every way once in each, in an order that moves on by one from round to round, each on a fresh database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::cells::{Key, Kind, Results, Sample, Way, float};
use super::flushes;
use super::gates::{IDLE_MB, LOADED_MB};
use super::load::{Known, Load};
use super::peer::{DATABASE, DURABILITY};
use super::pgbench::{BATCH, BATCH_ROWS, CTE, NAIVE, Pgbench};
use super::request::Workload;
use super::server::Postgres;
use super::stage::{Folder, Server, free_address, own_program, tied};
use super::templates::{self, Templates};
use super::usage;
use super::{OPPONENT, Plan};
use crate::domain::time::Clock;
use crate::limits::BENCH_CELL_PATIENCE;

/// Writes of one request to `/v1/writes`.
const BATCH_MEMBERS: u64 = 64;

/// Connections that send such requests.
const BATCH_CONNECTIONS: u64 = 16;

/// Connections of a load at a fixed pace, and of the opponents' hot resource.
const MANY: u64 = 64;

/// What all cells need.
pub(super) struct Rounds<'a> {
    pub(super) plan: &'a Plan,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) folder: &'a Folder,
    pub(super) templates: &'a Templates,
    pub(super) results: &'a mut Results,
    pub(super) tell: &'a dyn Fn(&str),
    /// How long a flush took when the run began.
    pub(super) flush: Duration,
}

/// What the raw database says of itself.
#[derive(Deserialize)]
struct RawDone {
    writes: u64,
    seconds: f64,
}

impl Rounds<'_> {
    /// Runs all of them, and gives what failed: one way that cannot be measured does not take the others with it.
    pub(super) async fn run(&mut self, ways: &[Way], mut server: Option<&mut Postgres>) -> Vec<String> {
        let mut failed = Vec::new();
        for round in 0..self.plan.rounds {
            let mut order = ways.to_vec();
            let turn = usize::try_from(round).unwrap_or_default().checked_rem(order.len());
            order.rotate_left(turn.unwrap_or_default());
            for way in order {
                let measured = async {
                    flushes::calm(self.folder.path(), self.clock, self.flush).await?;
                    self.way(way, round, server.as_deref_mut()).await
                };
                if let Err(why) = measured.await {
                    let why = format!("round {round}, {}: {why:#}", way.word());
                    (self.tell)(&why);
                    failed.push(why);
                }
            }
        }
        failed
    }

    async fn way(&mut self, way: Way, round: u32, server: Option<&mut Postgres>) -> anyhow::Result<()> {
        match way {
            Way::Hello => self.opponent(way, round, ("hello", String::new())).await,
            Way::PoolSqlite => {
                let file = self.folder.copy(&self.templates.by_hand, "cell")?.join(DATABASE);
                self.opponent(way, round, ("sqlite", file.display().to_string())).await
            }
            Way::RawSqlite => self.raw(round).await,
            Way::GatewaySqlite => {
                let home = self.folder.copy(&self.templates.gateway_sqlite, "cell")?;
                let database = templates::sqlite(&home);
                self.gateway(way, round, &home, &database).await
            }
            Way::PgbenchNaive | Way::PgbenchCte | Way::PgbenchBatch => {
                self.pgbench(way, round, server.context("no server")?).await
            }
            Way::PoolPostgres => {
                let server = server.context("no server")?;
                let database = server.copy(&self.templates.by_hand_postgres, "cell").await?;
                let url = server.address(&database).to_string();
                self.opponent(way, round, ("postgres", url)).await
            }
            Way::GatewayPostgres => {
                let server = server.context("no server")?;
                let from = self.templates.gateway_postgres.as_ref().context("no gateway on PostgreSQL")?;
                let home = self.folder.copy(&from.home, "cell")?;
                let database = server.copy(&from.database, "cell").await?;
                let url = server.address(&database).to_string();
                self.gateway(way, round, &home, &url).await
            }
            // One of them stands for all three.
            Way::Upstream | Way::Nginx | Way::GatewayUpstream => self.proxies(round).await,
        }
    }

    /// A program of the bench's own: distinct at each number of connections, and one hot resource at 64.
    async fn opponent(&mut self, way: Way, round: u32, store: (&str, String)) -> anyhow::Result<()> {
        let address = free_address()?;
        let mut peer = tied(&own_program()?, self.folder.path())?;
        peer.args([OPPONENT, "--listen", &address.to_string(), "--store", store.0, "--database", &store.1]);
        let server = Server::start(peer, address).await?;
        let durability = String::from_utf8_lossy(&server.answer(DURABILITY).await?).into_owned();
        self.results.durability.insert(way.word(), durability);
        for at in self.plan.connections.clone() {
            // At 256 connections the SQLite pool answers mostly with errors: it waits for its lock for too long.
            if way == Way::PoolSqlite && at > MANY {
                continue;
            }
            let workload = Workload::Distinct { resources: self.plan.resources };
            self.cell(Key::new(way, Kind::Distinct, at), round, &server, workload, None).await?;
        }
        if way != Way::Hello && self.plan.connections.contains(&MANY) {
            self.cell(Key::new(way, Kind::Hot, MANY), round, &server, Workload::One, None).await?;
        }
        server.stop().await
    }

    async fn gateway(&mut self, way: Way, round: u32, home: &Path, database: &str) -> anyhow::Result<()> {
        let server = templates::gateway(home, database, self.plan.log.as_deref()).await?;
        let idle = server.usage();
        let status: Value =
            serde_json::from_slice(&server.answer("/v1/status").await?).context("no status")?;
        let durability = status.pointer("/database/durability").and_then(Value::as_str);
        self.results.durability.insert(way.word(), durability.unwrap_or("unknown").to_owned());
        let resources = self.plan.resources;
        let distinct = Workload::Distinct { resources };
        for at in self.plan.connections.clone() {
            self.cell(Key::new(way, Kind::Distinct, at), round, &server, distinct, None).await?;
        }
        for at in self.plan.connections.clone() {
            self.cell(Key::new(way, Kind::Hot, at), round, &server, Workload::Targets, None).await?;
        }
        let batch = Workload::Batch { resources, members: BATCH_MEMBERS };
        self.cell(Key::new(way, Kind::Batch, BATCH_CONNECTIONS), round, &server, batch, None).await?;
        if let Some(peak) = self.results.rate(Key::new(way, Kind::Distinct, MANY), round) {
            for (kind, share) in [(Kind::PaceHalf, 0.5), (Kind::PaceMost, 0.8)] {
                let key = Key::new(way, kind, MANY);
                self.cell(key, round, &server, distinct, Some(peak * share)).await?;
            }
        }
        if let (Way::GatewaySqlite, Some(idle), Some(loaded)) = (way, idle, server.usage()) {
            self.results.note(IDLE_MB, round, float(idle.resident_kib) / 1_024.0);
            self.results.note(LOADED_MB, round, float(loaded.peak_kib) / 1_024.0);
        }
        server.stop().await
    }

    /// Measures one cell and keeps it.
    pub(super) async fn cell(
        &mut self,
        key: Key,
        round: u32,
        server: &Server,
        workload: Workload,
        rate: Option<f64>,
    ) -> anyhow::Result<()> {
        let sample = self.measure(server, workload, key.at, rate).await?;
        self.keep(key, Sample { round, ..sample });
        Ok(())
    }

    /// One load on a server.
    pub(super) async fn measure(
        &self,
        server: &Server,
        workload: Workload,
        connections: u64,
        rate: Option<f64>,
    ) -> anyhow::Result<Sample> {
        self.measure_as(server, workload, connections, rate, Known::default()).await
    }

    /// The same of callers that are known by something.
    pub(super) async fn measure_as(
        &self,
        server: &Server,
        workload: Workload,
        connections: u64,
        rate: Option<f64>,
        known: Known,
    ) -> anyhow::Result<Sample> {
        let load_average = usage::load_average();
        // What a server said before is of other cells.
        server.said();
        let load = Load {
            address: server.address,
            workload,
            connections,
            rate,
            warm_up: self.plan.warm_up,
            measured: self.plan.measured,
            seed: u64::try_from(self.clock.monotonic().as_nanos()).unwrap_or_default(),
            known,
        };
        let running = load.start(self.clock)?;
        self.sleep_until(running.window.from).await;
        let before = server.usage();
        self.sleep_until(running.window.until).await;
        let after = server.usage();
        let seen = running.seen().await?;
        let sample = Sample::of(&seen, workload.members(), self.plan.measured, before.zip(after));
        let fault = sample.fault.clone().map(|fault| format!("{fault}; the server said: {}", server.said()));
        Ok(Sample { load_average, fault, ..sample })
    }

    async fn sleep_until(&self, instant: Duration) {
        tokio::time::sleep(instant.saturating_sub(self.clock.monotonic())).await;
    }

    async fn raw(&mut self, round: u32) -> anyhow::Result<()> {
        for batch in [64_u64, 256] {
            let load_average = usage::load_average();
            let file = self.folder.copy(&self.templates.by_hand, "cell")?.join(DATABASE);
            let ms = |duration: Duration| duration.as_millis().to_string();
            let mut raw = tied(&own_program()?, self.folder.path())?;
            raw.args([OPPONENT, "--store", "raw", "--database"]).arg(&file);
            raw.args(["--resources", &self.plan.resources.to_string(), "--batch", &batch.to_string()]);
            raw.args(["--warm-up-ms", &ms(self.plan.warm_up), "--measured-ms", &ms(self.plan.measured)]);
            let patience = self.plan.warm_up + self.plan.measured + BENCH_CELL_PATIENCE;
            let ended = timeout(patience, raw.output()).await.context("it does not end")??;
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            let done: RawDone = serde_json::from_slice(&ended.stdout).with_context(|| said)?;
            let rate = float(done.writes) / done.seconds.max(f64::MIN_POSITIVE);
            let sample = Sample { round, rate, writes: done.writes, load_average, ..Sample::default() };
            self.keep(Key::new(Way::RawSqlite, Kind::Batch, batch), sample);
        }
        Ok(())
    }

    async fn pgbench(&mut self, way: Way, round: u32, server: &mut Postgres) -> anyhow::Result<()> {
        let program = server.program("pgbench").context("no pgbench")?;
        let database = server.copy(&self.templates.by_hand_postgres, "cell").await?;
        let folder: PathBuf = self.folder.fresh("pgbench")?;
        let (script, cells): (&str, &[(Kind, u64)]) = match way {
            Way::PgbenchCte => (CTE, &PGBENCH_CELLS),
            Way::PgbenchBatch => (BATCH, &[(Kind::Batch, 2)]),
            Way::PgbenchNaive
            | Way::Hello
            | Way::GatewaySqlite
            | Way::PoolSqlite
            | Way::RawSqlite
            | Way::PoolPostgres
            | Way::GatewayPostgres
            | Way::Upstream
            | Way::Nginx
            | Way::GatewayUpstream => (NAIVE, &PGBENCH_CELLS),
        };
        for (kind, clients) in cells {
            let load_average = usage::load_average();
            let resources = if *kind == Kind::Hot { 1 } else { self.plan.resources };
            let (program, url) = (program.clone(), server.address(&database));
            let measured = self.plan.measured;
            let run = Pgbench { program, url, script, resources, clients: *clients, measured };
            let sample = run.run(&folder).await?;
            self.keep(Key::new(way, *kind, *clients), Sample { round, load_average, ..sample });
        }
        Ok(())
    }

    fn keep(&mut self, key: Key, sample: Sample) {
        let p50 = sample.p50_ms.map_or_else(String::new, |ms| format!(", p50 {ms:.2} ms"));
        let fault = sample.fault.as_ref().map_or_else(String::new, |fault| format!(", INVALID: {fault}"));
        (self.tell)(&format!("round {} {key}: {:.0}/s{p50}{fault}", sample.round, sample.rate));
        self.results.keep(key, sample);
    }
}

/// Clients of pgbench, and one hot resource.
const PGBENCH_CELLS: [(Kind, u64); 4] =
    [(Kind::Distinct, 1), (Kind::Distinct, 16), (Kind::Distinct, MANY), (Kind::Hot, MANY)];

/// Writes of one statement of the way that sends many; named in the report.
pub(super) const STATEMENT_ROWS: u64 = BATCH_ROWS;
