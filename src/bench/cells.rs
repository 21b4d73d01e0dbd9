//! What was measured: cells, one per way and workload, and in each a sample per round.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::load::Seen;
use super::usage::Usage;

/// A way to do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Way {
    /// axum, which reads the request and answers.
    Hello,
    /// The gateway on SQLite.
    GatewaySqlite,
    /// A pool of connections to SQLite, one transaction per request.
    PoolSqlite,
    /// SQLite without HTTP, one thread, batches.
    RawSqlite,
    /// pgbench: four statements per write.
    PgbenchNaive,
    /// pgbench: one statement per write.
    PgbenchCte,
    /// pgbench: one statement for many writes.
    PgbenchBatch,
    /// A pool of connections to PostgreSQL, one transaction per request.
    PoolPostgres,
    /// The gateway on PostgreSQL.
    GatewayPostgres,
    /// The upstream of the proxies, asked directly.
    Upstream,
    /// nginx in front of it.
    Nginx,
    /// The gateway on SQLite in front of it.
    GatewayUpstream,
}

impl Way {
    /// Its name in the report.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::GatewaySqlite => "gateway-sqlite",
            Self::PoolSqlite => "pool-sqlite",
            Self::RawSqlite => "raw-sqlite",
            Self::PgbenchNaive => "pgbench-naive",
            Self::PgbenchCte => "pgbench-cte",
            Self::PgbenchBatch => "pgbench-batch",
            Self::PoolPostgres => "pool-postgres",
            Self::GatewayPostgres => "gateway-postgres",
            Self::Upstream => "upstream",
            Self::Nginx => "nginx",
            Self::GatewayUpstream => "gateway-upstream",
        }
    }
}

/// What it was given to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// Distinct resources, one write at a time per connection.
    Distinct,
    /// One resource.
    Hot,
    /// Many writes in one request or statement.
    Batch,
    /// Half of the rate that the closed loop reached, at a fixed pace.
    PaceHalf,
    /// Four fifths of it.
    PaceMost,
    /// Reads that are passed through.
    Read,
    /// Writes that are passed on; by the gateway fenced and durable.
    Forward,
}

impl Kind {
    /// Its name in the report.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Distinct => "distinct",
            Self::Hot => "hot",
            Self::Batch => "batch",
            Self::PaceHalf => "pace-50",
            Self::PaceMost => "pace-80",
            Self::Read => "read",
            Self::Forward => "forward",
        }
    }
}

/// Names a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// The way.
    pub(super) way: Way,
    /// The work.
    pub(super) kind: Kind,
    /// Connections or clients; writes of one transaction for the raw database.
    pub(super) at: u64,
}

impl Key {
    /// A cell.
    pub(super) const fn new(way: Way, kind: Kind, at: u64) -> Self {
        Self { way, kind, at }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.way.word(), self.kind.word(), self.at)
    }
}

/// One cell in one round.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct Sample {
    /// The round, from 0.
    pub(super) round: u32,
    /// Acknowledged writes a second.
    pub(super) rate: f64,
    /// Acknowledged writes that were counted.
    pub(super) writes: u64,
    /// Half of the requests took no longer, in milliseconds; the average where only that is known.
    pub(super) p50_ms: Option<f64>,
    /// 90 % took no longer.
    pub(super) p90_ms: Option<f64>,
    /// 99 % took no longer.
    pub(super) p99_ms: Option<f64>,
    /// None took longer.
    pub(super) max_ms: Option<f64>,
    /// Processor time of the server per write, in microseconds.
    pub(super) cpu_us: Option<f64>,
    /// Bytes that the server wrote to storage per write.
    pub(super) written_bytes: Option<f64>,
    /// Load average of the machine when the cell began.
    pub(super) load_average: Option<f64>,
    /// Why it does not count.
    pub(super) fault: Option<String>,
}

impl Sample {
    /// From what the connections saw in `window`, and what the server used in it.
    pub(super) fn of(seen: &Seen, members: u64, window: Duration, used: Option<(Usage, Usage)>) -> Self {
        let ms = |duration: Duration| Some(duration.as_secs_f64() * 1_000.0);
        let latencies = &seen.latencies;
        let writes = latencies.total().saturating_mul(members);
        let per_write = |amount: f64| (writes > 0).then(|| amount / float(writes));
        let cpu = used.map(|(before, after)| after.cpu.saturating_sub(before.cpu).as_secs_f64());
        let bytes = used.map(|(before, after)| after.written_bytes.saturating_sub(before.written_bytes));
        Self {
            rate: float(writes) / window.as_secs_f64().max(f64::MIN_POSITIVE),
            writes,
            p50_ms: ms(latencies.quantile(500)),
            p90_ms: ms(latencies.quantile(900)),
            p99_ms: ms(latencies.quantile(990)),
            max_ms: ms(latencies.longest()),
            cpu_us: cpu.and_then(|seconds| per_write(seconds * 1_000_000.0)),
            written_bytes: bytes.and_then(|bytes| per_write(float(bytes))),
            fault: seen
                .fault
                .clone()
                .or_else(|| (writes == 0).then(|| "nothing was answered in time".to_owned())),
            ..Self::default()
        }
    }
}

/// All samples, and single figures beside them.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// By cell, in the order of rounds.
    pub(super) cells: BTreeMap<Key, Vec<Sample>>,
    /// By name, one a round or one in all.
    pub(super) figures: BTreeMap<String, Vec<(u32, f64)>>,
    /// By way, what a process says makes its commits durable.
    pub(super) durability: BTreeMap<&'static str, String>,
}

impl Results {
    /// Keeps a sample.
    pub(super) fn keep(&mut self, key: Key, sample: Sample) {
        self.cells.entry(key).or_default().push(sample);
    }

    /// Keeps a figure.
    pub(super) fn note(&mut self, name: &str, round: u32, figure: f64) {
        self.figures.entry(name.to_owned()).or_default().push((round, figure));
    }

    /// The valid samples of a cell.
    pub(super) fn valid(&self, key: Key) -> impl Iterator<Item = &Sample> {
        self.cells.get(&key).into_iter().flatten().filter(|sample| sample.fault.is_none())
    }

    /// A cell's rate in one round.
    pub(super) fn rate(&self, key: Key, round: u32) -> Option<f64> {
        self.valid(key).find(|sample| sample.round == round).map(|sample| sample.rate)
    }
}

/// The number as a fraction, exact up to 2^53.
pub(super) fn float(number: u64) -> f64 {
    let high = u32::try_from(number >> 32).unwrap_or(u32::MAX);
    let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

/// Middle and ends of some figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub(super) median: f64,
    /// The least.
    pub(super) min: f64,
    /// The greatest.
    pub(super) max: f64,
}

impl Spread {
    /// `None`: there are no figures.
    pub(super) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let lower =
            if sorted.len().is_multiple_of(2) { *sorted.get(middle.saturating_sub(1))? } else { upper };
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }

    #[test]
    fn an_invalid_sample_has_no_rate() {
        let key = Key::new(Way::Hello, Kind::Distinct, 1);
        let mut results = Results::default();
        results.keep(key, Sample { round: 0, rate: 5.0, ..Sample::default() });
        results.keep(key, Sample { round: 1, rate: 9.0, fault: Some("500".to_owned()), ..Sample::default() });
        assert_eq!(
            (results.rate(key, 0), results.rate(key, 1), results.rate(key, 2)),
            (Some(5.0), None, None)
        );
    }

    #[test]
    fn a_sample_counts_writes_and_not_requests() {
        let mut seen = Seen::default();
        (0..10).for_each(|_| seen.latencies.record(Duration::from_millis(2)));
        let after = Usage { cpu: Duration::from_millis(64), written_bytes: 6_400, ..Usage::default() };
        let sample = Sample::of(&seen, 64, Duration::from_secs(2), Some((Usage::default(), after)));
        assert_eq!((sample.writes, sample.rate), (640, 320.0));
        assert_eq!((sample.cpu_us, sample.written_bytes), (Some(100.0), Some(10.0)));
    }

    #[test]
    fn large_numbers_stay_what_they_are() {
        assert!((float(9_007_199_254_740_991) - 9_007_199_254_740_991.0).abs() < f64::EPSILON);
    }
}
