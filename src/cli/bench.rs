//! `fencegate bench`, and the programs that it starts beside the gateway.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, ValueEnum};
use serde_json::json;

use super::failure::Failure;
use super::output::{self, Output};
use super::{block_on, block_on_all_cores, end};
use crate::app::{OsEntropy, SystemClock};
use crate::bench::{self, KEEPER, Kept, OPPONENT, Opponent, Plan, Raw, Stores, TIED};
use crate::domain::time::Clock;
use crate::limits::{BENCH_CONNECTIONS, BENCH_RESOURCES, BENCH_ROUNDS, BENCH_SECONDS};

/// What is measured.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Only {
    /// The gateway on SQLite and its opponents
    Sqlite,
    /// The gateway on PostgreSQL and its opponents
    Postgres,
    /// The gateway and nginx in front of an upstream
    Upstreams,
    /// The gateway on SQLite under ten times what it can do
    Overload,
    /// The gateway on SQLite, by callers with and without credentials
    Access,
}

/// What `bench` takes.
#[derive(Args)]
pub(super) struct Bench {
    /// Rounds; every way is measured once in each [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(BENCH_ROUNDS)))]
    rounds: Option<u32>,
    /// Measured seconds of each cell [default: 2; of growth 10]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Numbers of connections
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,64,256",
          value_parser = clap::value_parser!(u64).range(1..=BENCH_CONNECTIONS))]
    connections: Vec<u64>,
    /// Resources that are written [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2_048..=BENCH_RESOURCES))]
    resources: Option<u64>,
    /// Leave everything else out
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// One round of very short cells, to see that everything works; the figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Measure only how the gateway's rate changes with operation records and resources; takes about 20 minutes
    #[arg(long)]
    growth: bool,
    /// PostgreSQL server to use, by a user who may create databases; without it one is started for the run
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Folder on the disk that is to be measured [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Log filter of the gateway; its log is read through a pipe and thrown away
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Do not count flushes with strace
    #[arg(long)]
    no_strace: bool,
    /// Also write the whole report to a file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Bench {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        let report = self.report.clone();
        let plan = self.plan();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::started());
        let tell = |step: &str| output.note(&format!("{:>6.1} s  {step}", clock.monotonic().as_secs_f64()));
        block_on(async {
            let done = bench::run(&plan, &clock, &OsEntropy, &tell).await.map_err(Failure::Start)?;
            let json = output::json(&done.json());
            if let Some(path) = report {
                let written = fs::write(&path, &json);
                written
                    .with_context(|| format!("cannot write {}", path.display()))
                    .map_err(Failure::Start)?;
            }
            if output.asked_for_json() {
                output.raw(&json).and_then(|()| output.raw(b"\n"))
            } else {
                output.line(&done.told())
            }
        })
    }

    fn plan(self) -> Plan {
        let (rounds, seconds, warm_up, resources) = if self.quick {
            (1, Duration::from_millis(150), Duration::from_millis(50), 2_048)
        } else {
            // The first touch of a page after a checkpoint costs more; a large database is given the time to get past that.
            let seconds = if self.growth { 10 } else { 2 };
            (3, Duration::from_secs(seconds), Duration::from_millis(400), 100_000)
        };
        Plan {
            rounds: self.rounds.unwrap_or(rounds),
            warm_up,
            measured: self.seconds.unwrap_or(seconds),
            connections: self.connections,
            resources: self.resources.unwrap_or(resources),
            stores: match self.only {
                None => Stores::All,
                Some(Only::Sqlite) => Stores::Sqlite,
                Some(Only::Postgres) => Stores::Postgres,
                Some(Only::Upstreams) => Stores::Upstreams,
                Some(Only::Overload) => Stores::Overload,
                Some(Only::Access) => Stores::Access,
            },
            postgres: self.postgres,
            folder: self.folder.unwrap_or_else(std::env::temp_dir),
            log: self.log,
            quick: self.quick,
            growth: self.growth,
            count_flushes: !self.no_strace,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give seconds, such as 2 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time > Duration::ZERO && time <= BENCH_SECONDS => Ok(time),
        Ok(_) | Err(_) => Err(format!("give more than 0 and at most {} seconds", BENCH_SECONDS.as_secs())),
    }
}

/// Where an opponent keeps its documents.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Store {
    /// Nowhere
    Hello,
    /// A pool on a SQLite file
    Sqlite,
    /// A pool on a PostgreSQL database
    Postgres,
    /// A SQLite file, without HTTP
    Raw,
    /// Nowhere, behind proxies
    Upstream,
}

/// An opponent in a process of its own.
#[derive(Parser)]
struct Peer {
    #[arg(long, value_enum)]
    store: Store,
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, default_value = "")]
    database: String,
    #[arg(long, default_value_t = 0)]
    resources: u64,
    #[arg(long, default_value_t = 1)]
    batch: u64,
    #[arg(long, default_value_t = 0)]
    warm_up_ms: u64,
    #[arg(long, default_value_t = 0)]
    measured_ms: u64,
}

impl Peer {
    fn run(self, output: &Output) -> Result<(), Failure> {
        let opponent = match self.store {
            Store::Hello => Opponent::Hello,
            Store::Sqlite => Opponent::Sqlite(PathBuf::from(self.database)),
            Store::Postgres => Opponent::Postgres(self.database),
            Store::Raw => return self.raw(output),
            Store::Upstream => {
                return block_on(async { bench::serve_upstream(self.listen).await.map_err(Failure::Start) });
            }
        };
        block_on_all_cores(bench::serve(opponent, self.listen))
    }

    fn raw(self, output: &Output) -> Result<(), Failure> {
        let raw = Raw {
            resources: self.resources,
            batch: self.batch,
            warm_up: Duration::from_millis(self.warm_up_ms),
            measured: Duration::from_millis(self.measured_ms),
        };
        let file = PathBuf::from(self.database);
        let written = raw.run(&file, &SystemClock::started()).map_err(Failure::Start)?;
        output.line(&json!({ "writes": written.writes, "seconds": written.took.as_secs_f64() }).to_string())
    }
}

/// Ends a server when the bench is gone.
#[derive(Parser)]
struct Keeper {
    uid: u32,
    gid: u32,
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Keeper {
    fn run(self) -> Result<(), Failure> {
        let Self { uid, gid, program, arguments } = self;
        let kept = Kept { uid, gid, program, arguments };
        block_on(async { bench::keep(kept).await.map_err(Failure::Start) })
    }
}

/// Another program that dies with the bench.
#[derive(Parser)]
struct Tied {
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The programs that the benchmark starts; they are no commands for people and stand in no help. `None`: it is none.
pub(super) fn hidden(arguments: &[OsString]) -> Option<ExitCode> {
    let (first, rest) = (arguments.get(1)?, || arguments.iter().skip(1));
    let ended = if first == OPPONENT {
        Peer::try_parse_from(rest())
            .map(|peer| end(&Output::new(false), |output| peer.run(output).map(|()| ExitCode::SUCCESS)))
    } else if first == KEEPER {
        Keeper::try_parse_from(rest())
            .map(|keeper| end(&Output::new(false), |_| keeper.run().map(|()| ExitCode::SUCCESS)))
    } else if first == TIED {
        Tied::try_parse_from(rest()).map(|Tied { program, arguments }| {
            end(&Output::new(false), |_| Err(Failure::Start(bench::tie(&program, &arguments))))
        })
    } else {
        return None;
    };
    Some(ended.unwrap_or_else(|usage| output::usage(&usage)))
}
