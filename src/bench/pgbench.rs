//! The hand-written transactions without HTTP, driven by PostgreSQL's own load generator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::Url;
use tokio::time::timeout;

use super::cells::Sample;
use super::request::PADDING;
use super::stage::tied;
use crate::limits::BENCH_CELL_PATIENCE;

/// Four statements per write.
pub(super) const NAIVE: &str = include_str!("../../benches/naive.sql");

/// One statement per write.
pub(super) const CTE: &str = include_str!("../../benches/cte.sql");

/// One statement for many writes.
pub(super) const BATCH: &str = include_str!("../../benches/batch.sql");

/// Writes of one statement of [`BATCH`].
pub(super) const BATCH_ROWS: u64 = 256;

/// As long as the fingerprint of a real operation.
const FINGERPRINT: &str = "\\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A planner that was asked while the tables were empty would read all of them; the rows of a batch are looked up one
/// by one.
const BATCH_OPTIONS: &str = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off \
    -c plan_cache_mode=force_generic_plan -c jit=off";

/// One run.
pub(super) struct Pgbench<'a> {
    /// The program.
    pub(super) program: PathBuf,
    /// The database.
    pub(super) url: Url,
    /// The script.
    pub(super) script: &'a str,
    /// How many resources are written.
    pub(super) resources: u64,
    /// Connections.
    pub(super) clients: u64,
    /// Whole seconds, at least one.
    pub(super) measured: Duration,
}

impl Pgbench<'_> {
    /// Runs it in a folder.
    pub(super) async fn run(&self, folder: &Path) -> anyhow::Result<Sample> {
        let path = folder.join("script.sql");
        std::fs::write(&path, self.script).context("cannot write a script")?;
        let (threads, batch) = (self.clients.min(2), self.script == BATCH);
        let seconds = self.measured.as_secs().max(1);
        let mut pgbench = tied(&self.program, folder)?;
        pgbench.args(["--no-vacuum", "--protocol=prepared"]);
        pgbench.arg(format!("--client={}", self.clients)).arg(format!("--jobs={threads}"));
        pgbench.arg(format!("--time={seconds}")).arg("--file").arg(&path);
        for (name, value) in [
            ("resources", self.resources.to_string()),
            ("half", (self.resources / 2).to_string()),
            ("rows", BATCH_ROWS.to_string()),
            ("padding", PADDING.to_owned()),
            ("fingerprint", FINGERPRINT.to_owned()),
        ] {
            pgbench.arg("--define").arg(format!("{name}={value}"));
        }
        pgbench.env("PGHOST", self.url.host_str().unwrap_or_default());
        pgbench.env("PGPORT", self.url.port().unwrap_or(5432).to_string());
        pgbench.env("PGUSER", self.url.username());
        pgbench.env("PGDATABASE", self.url.path().trim_start_matches('/'));
        if let Some(password) = self.url.password() {
            pgbench.env("PGPASSWORD", password);
        }
        if batch {
            pgbench.env("PGOPTIONS", BATCH_OPTIONS);
        }
        let patience = Duration::from_secs(seconds).saturating_add(BENCH_CELL_PATIENCE);
        let ended = timeout(patience, pgbench.output()).await.context("pgbench does not end")?;
        let ended = ended.context("cannot run pgbench")?;
        let said = String::from_utf8_lossy(&ended.stdout);
        if !ended.status.success() {
            bail!("pgbench failed: {}", String::from_utf8_lossy(&ended.stderr));
        }
        let members = if batch { BATCH_ROWS } else { 1 };
        read(&said, members).with_context(|| format!("pgbench said something else than usual: {said}"))
    }
}

/// Reads what pgbench said. The time of one transaction is an average; it tells no percentiles.
fn read(said: &str, members: u64) -> Option<Sample> {
    let number = |after: &str| -> Option<f64> {
        let rest = said.lines().find_map(|line| line.strip_prefix(after))?;
        rest.split_ascii_whitespace().next()?.split('/').next()?.parse().ok()
    };
    let done = number("number of transactions actually processed: ")?;
    let failed = number("number of failed transactions: ").unwrap_or_default();
    let scale = super::cells::float(members);
    let fault = (failed > 0.0).then(|| format!("{failed} transactions failed"));
    let writes = format!("{:.0}", done * scale).parse().ok()?;
    Some(Sample {
        rate: number("tps = ")? * scale,
        writes,
        p50_ms: number("latency average = "),
        fault,
        ..Sample::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "transaction type: script.sql\nquery mode: prepared\nnumber of clients: 16\n\
        number of transactions actually processed: 8064\nnumber of failed transactions: 0 (0.000%)\n\
        latency average = 3.968 ms\ninitial connection time = 20.1 ms\n\
        tps = 4032.250000 (without initial connection time)\n";

    #[test]
    fn what_pgbench_says_is_read() {
        let sample = read(SAID, 1).unwrap();
        assert_eq!((sample.rate, sample.writes, sample.p50_ms), (4_032.25, 8_064, Some(3.968)));
        assert_eq!(sample.fault, None);
        assert_eq!(read(SAID, 256).unwrap().writes, 8_064 * 256);
    }

    #[test]
    fn failed_transactions_make_it_invalid() {
        let sample = read(&SAID.replace("failed transactions: 0", "failed transactions: 3"), 1).unwrap();
        assert!(sample.fault.is_some());
        assert!(read("nothing", 1).is_none());
    }
}
