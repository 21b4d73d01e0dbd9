//! The command line of `fencegate-exam`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::report::{Ending, Report};
use super::{Plan, play};
use crate::domain::time::Clock;
use crate::limits::{EXAM_OPERATIONS, EXAM_SECONDS};

/// Says what `--help` says of the ends.
const EXIT_CODES: &str = "\
Exit codes:
  0  no violation; past the gateway (--unfenced): stale overwrites were found, as they must be
  1  a violation; past the gateway: no stale overwrite was found, so the judge is blind
  2  usage error, the exam could not be held, or it shows too little: cut off, ended early, nothing acknowledged";

/// Examines gateways from outside: workers that pause, stores of every class, a network and a machine that fail.
#[derive(Parser)]
#[command(name = "fencegate-exam", version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    exam: Exam,
}

#[derive(Subcommand)]
enum Command {
    /// Judge a stored history again
    #[command(after_help = EXIT_CODES)]
    Judge {
        /// Folder of an exam
        dir: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The embedded one; one replica
    Sqlite,
    /// A PostgreSQL server that is started for the exam, from the installed programs
    Postgres,
}

#[derive(Args)]
struct Exam {
    /// Decides the schedule of the faults and the choices of the workers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long faults go on; looking into the books comes after it
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=EXAM_SECONDS))]
    seconds: u64,
    /// End earlier, after so many calls of workers
    #[arg(long, default_value_t = EXAM_OPERATIONS, value_parser = clap::value_parser!(u64).range(1..=EXAM_OPERATIONS))]
    operations: u64,
    /// Gateways over one database
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// Database of the gateways
    #[arg(long, value_enum, default_value_t = Engine::Sqlite)]
    engine: Engine,
    /// Mean pause between two faults, of the processes and of the network each, in milliseconds
    #[arg(long, default_value_t = 700, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pace: u64,
    /// Let workers write past the gateway: the same judge must find stale overwrites
    #[arg(long)]
    unfenced: bool,
    /// New folder for the history, the logs and the report [default: in the working directory one that is named after engine,
    /// replicas and seed, such as fencegate-exam-sqlite-x1-seed-1]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Program of the gateway [default: fencegate beside this program]
    #[arg(long, value_name = "PATH")]
    gateway: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it, with the arguments of a process.
#[must_use]
pub fn run(arguments: impl Iterator<Item = OsString>, clock: &Arc<dyn Clock>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be done about a terminal that takes no words.
            error.print().unwrap_or_default();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let held = match cli.command {
        Some(Command::Judge { dir, json }) => Report::of(&dir).map(|report| (report, json)),
        None => hold(&cli.exam, clock).map(|report| (report, cli.exam.json)),
    };
    match held {
        Ok((report, json)) => {
            let text = if json { format!("{:#}", report.json()) } else { report.told() };
            say(&mut std::io::stdout(), &text);
            match report.ending() {
                Ending::Passed => ExitCode::SUCCESS,
                Ending::Failed => ExitCode::FAILURE,
                Ending::Undecided(_) => ExitCode::from(2),
            }
        }
        Err(error) => {
            say(&mut std::io::stderr(), &format!("fencegate-exam: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Nothing can be done about a pipe that nobody reads.
fn say(to: &mut dyn std::io::Write, text: &str) {
    writeln!(to, "{text}").unwrap_or_default();
}

fn hold(exam: &Exam, clock: &Arc<dyn Clock>) -> anyhow::Result<Report> {
    let plan = plan(exam)?;
    let tell = |step: &str| {
        let seconds = clock.monotonic().as_secs_f64();
        let line = format!("{seconds:>8.1} s  {step}");
        writeln!(std::io::stderr(), "{line}").unwrap_or_default();
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start threads")?;
    runtime.block_on(play(&plan, clock, &tell))?;
    drop(runtime);
    tell("the history is judged");
    let report = Report::of(&plan.out)?;
    let path = plan.out.join("report.json");
    std::fs::write(&path, format!("{:#}\n", report.json()))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(report)
}

fn plan(exam: &Exam) -> anyhow::Result<Plan> {
    if exam.engine == Engine::Sqlite && exam.replicas != 1 {
        bail!("a SQLite database belongs to one gateway: use --replicas 1, or --engine postgres");
    }
    let gateway = match &exam.gateway {
        Some(path) => path.clone(),
        None => std::env::current_exe().context("cannot find this program")?.with_file_name("fencegate"),
    };
    let gateway = std::fs::canonicalize(&gateway)
        .with_context(|| format!("there is no {}; name it with --gateway", gateway.display()))?;
    let out = exam.out.clone().unwrap_or_else(|| named_after(exam));
    let out = std::path::absolute(&out).with_context(|| format!("{} is no folder", out.display()))?;
    Ok(Plan {
        seed: exam.seed,
        length: Duration::from_secs(exam.seconds),
        operations: exam.operations,
        replicas: usize::from(exam.replicas),
        postgres: exam.engine == Engine::Postgres,
        fenced: !exam.unfenced,
        gateway,
        out,
        pace_ms: exam.pace,
    })
}

/// A folder for each kind of exam: one does not stand in the way of the next.
fn named_after(exam: &Exam) -> PathBuf {
    let engine = match exam.engine {
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgres",
    };
    let past = if exam.unfenced { "-unfenced" } else { "" };
    format!("fencegate-exam-{engine}-x{}-seed-{}{past}", exam.replicas, exam.seed).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exams_of_one_seed_have_folders_of_their_own() {
        let folders = ["", "--engine postgres --replicas 3", "--engine postgres", "--unfenced", "--seed 2"];
        let folders = folders.map(|options| {
            let words = std::iter::once("fencegate-exam").chain(options.split_whitespace());
            named_after(&Cli::try_parse_from(words).unwrap().exam)
        });
        assert_eq!(folders[0], PathBuf::from("fencegate-exam-sqlite-x1-seed-1"));
        assert_eq!(folders[1], PathBuf::from("fencegate-exam-postgres-x3-seed-1"));
        let different: std::collections::BTreeSet<&PathBuf> = folders.iter().collect();
        assert_eq!(different.len(), folders.len(), "{folders:?}");
    }
}
