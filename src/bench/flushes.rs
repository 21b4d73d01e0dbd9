//! How often the storage is told to keep what it has: the count that decides how far a batch is shared.
//!
//! strace writes down every flush with its time and file. It slows the flushes themselves a little, so the count is a
//! cell of its own, after the rounds, and its rate is not reported.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::Plan;
use super::cells::{Results, float};
use super::gates::{FLUSHES_MANY, FLUSHES_ONE, FLUSHES_SERVER};
use super::histogram::Histogram;
use super::load::{Known, Load, Window, Wire};
use super::request::{Workload, Writer};
use super::server::Postgres;
use super::stage::Folder;
use super::templates::{self, Templates};
use crate::domain::time::Clock;
use crate::limits::BENCH_PAUSE;

/// A flush that is faster than this did not reach a disk.
pub(super) const SUSPICIOUS: Duration = Duration::from_micros(20);

/// Flushes of the probe.
const PROBES: u32 = 200;

/// Looks at a disk that is busy with the copies of the last way, before the next one is measured all the same.
const LOOKS: u32 = 5;

/// A disk is calm again when a flush takes at most so many times what it took at first.
const CALM: u32 = 2;

/// What a small record needs.
const RECORD_BYTES: usize = 420;

/// The middle time of one flush of a small record, appended to a file in this folder.
pub(super) fn probe(folder: &Path, clock: &Arc<dyn Clock>) -> anyhow::Result<Duration> {
    let path = folder.join("probe");
    let mut file = File::create(&path).context("cannot make a file")?;
    let mut times = Histogram::default();
    for _ in 0..PROBES {
        let from = clock.monotonic();
        file.write_all(&[7; RECORD_BYTES]).and_then(|()| file.sync_data()).context("cannot flush a file")?;
        times.record(clock.monotonic().saturating_sub(from));
    }
    fs::remove_file(&path).context("cannot remove a file")?;
    Ok(times.quantile(500))
}

/// Waits for a short while until a flush takes about as long as at the beginning of the run.
pub(super) async fn calm(folder: &Path, clock: &Arc<dyn Clock>, first: Duration) -> anyhow::Result<()> {
    for _ in 0..LOOKS {
        if probe(folder, clock)? <= first.saturating_mul(CALM) {
            return Ok(());
        }
        tokio::time::sleep(BENCH_PAUSE).await;
    }
    Ok(())
}

/// Connections of the shared count.
const MANY: u64 = 64;

/// Writes that come alone.
const ALONE: u32 = 20;

/// Above every sequence of a load.
const ALONE_SEQUENCE: u64 = 9_000_000_000_000_000;

/// Long enough for a checkpoint in the background.
const REST: Duration = Duration::from_secs(1);

/// The program that counts.
fn strace() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("strace")).find(|program| program.is_file())
}

/// What a count needs.
pub(super) struct Counting<'a> {
    pub(super) plan: &'a Plan,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) folder: &'a Folder,
    pub(super) templates: &'a Templates,
    pub(super) results: &'a mut Results,
}

impl Counting<'_> {
    /// Counts on each store, and gives what failed.
    pub(super) async fn run(mut self, sqlite: bool, server: Option<&mut Postgres>) -> Vec<String> {
        let mut failed = Vec::new();
        if sqlite && let Err(why) = self.embedded().await {
            failed.push(format!("flushes on SQLite: {why:#}"));
        }
        if let Some(server) = server
            && let Err(why) = self.on_server(server).await
        {
            failed.push(format!("flushes on PostgreSQL: {why:#}"));
        }
        failed
    }

    fn load(&self, address: SocketAddr) -> Load {
        Load {
            address,
            workload: Workload::Distinct { resources: self.plan.resources },
            connections: MANY,
            rate: None,
            warm_up: self.plan.warm_up,
            measured: self.plan.measured,
            seed: 0,
            known: Known::default(),
        }
    }

    /// Counts at 64 connections, and for writes that come alone.
    async fn embedded(&mut self) -> anyhow::Result<()> {
        let strace = strace().context("there is no strace in PATH")?;
        let home = self.folder.copy(&self.templates.gateway_sqlite, "cell")?;
        let trace = self.folder.path().join("trace");
        let database = templates::sqlite(&home);
        let server = templates::traced(&home, &database, &strace, &trace).await.context("cannot trace")?;
        let load = self.load(server.address);
        let running = load.start(self.clock)?;
        let many = running.window;
        let seen = running.seen().await?;
        anyhow::ensure!(seen.fault.is_none(), "the load failed: {}", seen.fault.unwrap_or_default());
        // What the load left to be done behind it is not of the single writes.
        tokio::time::sleep(REST).await;
        let alone = self.alone(&load).await?;
        let behind = self.clock.wall().ms().saturating_sub(ms(self.clock.monotonic()));
        server.stop().await?;
        let trace = fs::read_to_string(&trace).context("there is no trace")?;
        let flushes = |window: Window| {
            let at = |instant| behind.saturating_add(ms(instant));
            float(counted(&trace, at(window.from), at(window.until)))
        };
        if seen.latencies.total() > 0 {
            self.results.note(FLUSHES_MANY, 0, flushes(many) / float(seen.latencies.total()));
        }
        self.results.note(FLUSHES_ONE, 0, flushes(alone) / f64::from(ALONE));
        Ok(())
    }

    /// Writes one after the other with a pause between them, and says when that was.
    async fn alone(&self, load: &Load) -> anyhow::Result<Window> {
        let mut wire = Wire::to(load.address).await.map_err(anyhow::Error::msg)?;
        let mut writer = Writer::new(load.workload, "127.0.0.1", (0, 1), ALONE_SEQUENCE, 1);
        let mut request = Vec::new();
        let from = self.clock.monotonic();
        for _ in 0..ALONE {
            writer.compose(&mut request);
            let answer = wire.ask(&request).await.map_err(anyhow::Error::msg)?;
            wire.forget(&answer);
            tokio::time::sleep(BENCH_PAUSE).await;
        }
        Ok(Window { from, until: self.clock.monotonic() })
    }

    /// Counts by the server's own statistics, which are complete once the gateway's connections are closed.
    async fn on_server(&mut self, server: &mut Postgres) -> anyhow::Result<()> {
        let from = self.templates.gateway_postgres.as_ref().context("no gateway on PostgreSQL")?;
        let home = self.folder.copy(&from.home, "cell")?;
        let database = server.copy(&from.database, "cell").await?;
        let before = server.flushes().await?;
        let gateway = templates::gateway(&home, server.address(&database).as_str(), None).await?;
        let seen = self.load(gateway.address).start(self.clock)?.seen().await?;
        gateway.stop().await?;
        tokio::time::sleep(REST).await;
        let flushes = server.flushes().await?.saturating_sub(before);
        anyhow::ensure!(seen.fault.is_none(), "the load failed: {}", seen.fault.unwrap_or_default());
        if seen.answered > 0 {
            self.results.note(FLUSHES_SERVER, 0, float(flushes) / float(seen.answered));
        }
        Ok(())
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The flushes of the write-ahead log or journal between two times (milliseconds since 1970) that a trace tells of;
/// those of the main file belong to checkpoints.
fn counted(trace: &str, from_ms: i64, until_ms: i64) -> u64 {
    let flushes = trace.lines().filter(|line| {
        let at = line.split_ascii_whitespace().find_map(|word| word.split_once('.'));
        let at = at.and_then(|(seconds, rest)| {
            let seconds: i64 = seconds.parse().ok()?;
            let ms: i64 = rest.get(..3)?.parse().ok()?;
            seconds.checked_mul(1_000)?.checked_add(ms)
        });
        let is_flush = line.contains("fsync(") || line.contains("fdatasync(");
        is_flush && !line.contains(".db>") && at.is_some_and(|at| (from_ms..=until_ms).contains(&at))
    });
    u64::try_from(flushes.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_of_the_log_inside_the_time_are_counted() {
        let trace = "101 1700000000.100000 fdatasync(7</x/fencegate.db-wal>) = 0 <0.000150>\n\
            102 1700000000.200000 fdatasync(7</x/fencegate.db-wal> <unfinished ...>\n\
            101 1700000000.250000 fdatasync(5</x/fencegate.db>) = 0\n\
            102 1700000000.260000 <... fdatasync resumed>) = 0\n\
            102 1700000000.900000 fsync(7</x/fencegate.db-wal>) = 0\n";
        assert_eq!(counted(trace, 1_700_000_000_100, 1_700_000_000_500), 2);
        assert_eq!(counted(trace, 1_700_000_000_000, 1_700_000_001_000), 3);
    }
}
