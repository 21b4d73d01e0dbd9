//! The command line: one file per subcommand, and the few things they share.
//!
//! The client commands speak HTTP like everybody else and know nothing of the gateway's inside. All that is printed
//! goes through `output`; all ends of a command are exit codes of `failure`.

mod answer;
mod audit;
mod backup;
mod bench;
mod can;
mod check;
mod client;
mod completions;
mod control;
mod demo;
mod epoch;
mod events;
mod failure;
mod get;
mod inspect;
mod key;
mod lease;
mod man;
mod migrate;
mod namespaces;
mod openapi;
mod operations;
mod output;
mod pace;
mod probe;
mod recover;
mod relayed;
mod resolve;
mod restore;
mod run;
mod serve;
mod settings;
mod table;
mod timeline;
mod whoami;
mod wish;
mod words;
mod write;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::runtime;

use client::{Client, Target};
use control::Verb;
use failure::Failure;
use output::Output;

use crate::tls::client::Trust;

/// What `--help` says below the options.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused by the gateway, settled: do not retry with the same values
  2  usage or configuration error, or it could not start
  3  the gateway cannot be reached, or its answer is unknown: retry with the same operation id
  4  not settled: retry later with the same operation id
`run` passes on the code of its command, and has 75, 79, 126 and 127 besides: see `fencegate run --help`.";

/// An HTTP fencing gateway: a stale or conflicting write never reaches the storage behind it.
#[derive(Parser)]
#[command(name = "fencegate", version, after_help = EXIT_CODES, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args)]
struct Global {
    /// Configuration file of serve, check, migrate, backup, restore and recover [default: fencegate.toml, where it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    config: Option<PathBuf>,
    /// Address of the gateway, for the client commands
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "FENCEGATE_URL",
        default_value = "http://127.0.0.1:8080",
        help_heading = "Global options"
    )]
    url: String,
    /// Certificates of those who vouch for the gateway, in PEM [default: whom the system trusts]
    #[arg(long, global = true, value_name = "FILE", env = "FENCEGATE_CA", help_heading = "Global options")]
    ca: Option<PathBuf>,
    /// Certificate to show the gateway, in PEM with its chain
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "FENCEGATE_CLIENT_CERT",
        requires = "client_cert_key",
        help_heading = "Global options"
    )]
    client_cert: Option<PathBuf>,
    /// Key of that certificate, in PEM; only its owner may read it
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "FENCEGATE_CLIENT_CERT_KEY",
        requires = "client_cert",
        help_heading = "Global options"
    )]
    client_cert_key: Option<PathBuf>,
    /// Print JSON, errors too; without it JSON is printed where standard output is not a terminal
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway until TERM or INT
    ///
    /// Without a configuration: on 127.0.0.1:8080, with fencegate.db and fencegate.key in the working directory, and
    /// any namespace. Flags are above `FENCEGATE_…` variables, variables above the file.
    Serve(serve::Serve),
    /// Check the configuration, and say what is wrong where
    ///
    /// Tells all mistakes at once, each with its line, its key, what is allowed and what was probably meant. Starts
    /// nothing.
    Check,
    /// Bring the database up to date
    ///
    /// `serve` does the same at its start. A database of a newer version is refused.
    Migrate(migrate::Migrate),
    /// Copy the database into a file, while the gateway runs
    ///
    /// Of SQLite: consistent, verified and synced; an existing file is not overwritten. For PostgreSQL it names the tools.
    Backup(backup::Backup),
    /// Put a backup in the place of the database; the gateway must be stopped
    ///
    /// The old file is kept aside, and the breaker is left tripped: nothing is written or issued until the epoch is advanced.
    /// A backup that is known to be older is refused without --older. Exit code 1 when it is refused.
    Restore(restore::Restore),
    /// Look for what contradicts itself in the records and in the stores, and say what leads out of it
    ///
    /// Reads the database itself, whether a gateway runs or not, and changes nothing. Exit code 1 when something
    /// contradicts or the breaker has tripped.
    Recover(recover::Recover),
    /// Make a key, or look at one
    #[command(subcommand)]
    Key(key::Key),
    /// Say who the gateway takes this caller for, and what it may do
    ///
    /// The client commands show the key in `FENCEGATE_KEY`, or in the file that `FENCEGATE_KEY_FILE` names.
    Whoami,
    /// Say what the configured rules let somebody do, and which rule decides
    ///
    /// Asks no gateway: fencegate can worker-a write jobs/report. Exit code 1 when it is not allowed.
    Can(can::Can),
    /// Own a resource for a while
    #[command(subcommand)]
    Lease(lease::Lease),
    /// Run a command while a lease is held, and stop it when the lease is lost
    ///
    /// Acquires, gives the fencing token to the command by its environment, renews, and releases at the end. Gives any
    /// script fencing: fencegate run --resource jobs/report -- ./report.sh
    Run(run::Run),
    /// Write through the fence, or delete
    ///
    /// The operation id makes it safe to run the same command again: it is applied at most once, and answered as the
    /// first time.
    Write(write::Write),
    /// Read a document
    Get(get::Get),
    /// Show what is authoritative about a resource
    ///
    /// Its positions, its floor, its lease, its contents.
    Inspect(inspect::Inspect),
    /// Show what happened to a resource: who held it, what was accepted, what was refused and why
    ///
    /// Newest first. Refusals are samples: of each kind one in a second, and the last sixteen of them.
    Timeline(timeline::Timeline),
    /// Hand out what was done, by whom and why
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Show what happened, or follow what happens: leases, writes, and what operators do
    ///
    /// One line of JSON each where standard output is not a terminal.
    Events(events::Events),
    /// List the namespaces, or change the recorded definition of one
    Namespaces(namespaces::Namespaces),
    /// End the newest generation: its lease, and whatever it may still write
    ///
    /// The resource can be acquired at once. What an "unlock" button would do, but safe.
    Revoke(control::Control),
    /// Call a job off: as revoke, and nobody owns or writes the resource until it is reopened
    ///
    /// Its worker hears of it with its next renewal. What has not begun yet can be called off too.
    Cancel(control::Control),
    /// End a cancellation or a quarantine
    ///
    /// Every token of before stays refused. Under an external issuer it takes a fencing token that is freshly read there.
    Reopen(control::Control),
    /// Begin a new epoch, after a database or an issuer has gone back in time
    #[command(subcommand)]
    Epoch(epoch::Epoch),
    /// Show the durable outcomes of a resource's operations, or what is undecided anywhere
    ///
    /// Newest first, or one of them by its id: the way out of a lost answer. Without a resource: those of all resources
    /// that are in doubt (uncertain) or being carried out (intent).
    Operations(operations::Operations),
    /// Say what became of an uncertain operation, and free what waits for it
    ///
    /// For a store that can tell nothing: look there, then say it here. It is recorded with evidence and reason, and is
    /// never undone.
    Resolve(resolve::Resolve),
    /// Try a store behind HTTP on what its class promises
    ///
    /// Of a namespace in the configuration, or of any address: `fencegate probe --class fence_aware http://127.0.0.1:9090/`
    /// It writes below .fencegate-probe; of class idempotent it sends one request twice. Exit code 1 when it is not passed.
    Probe(probe::Probe),
    /// Play the problem with two real processes, one of them stopped past its lease
    ///
    /// Starts a gateway of its own in a temporary folder. Exit code 0 only if the newer result stands at the end.
    Demo,
    /// Measure the gateway beside hand-written transactions, on this machine
    ///
    /// Starts all of it itself, on loopback and in a temporary folder, and prints ratios and the goals of
    /// docs/PERFORMANCE.md. Takes about six minutes.
    Bench(bench::Bench),
    /// Print the description of the API (OpenAPI 3.1)
    Openapi,
    /// Print the completions of a shell
    ///
    /// In bash: source <(fencegate completions bash)
    Completions(completions::Completions),
    /// Write the manual pages into a folder
    ///
    /// The folder is made where it does not exist.
    Man(man::Man),
}

/// Runs one command line, program name included. This is all of `main`.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // The demonstration starts its workers so; they are no command for people and stand in no help.
    if arguments.get(1).is_some_and(|first| first == demo::WORKER) {
        return match demo::Worker::try_parse_from(arguments.iter().skip(1)) {
            Ok(worker) => end(&Output::new(false), |output| worker.run(output).map(|()| ExitCode::SUCCESS)),
            Err(usage) => output::usage(&usage),
        };
    }
    if arguments.get(1).is_some_and(|first| first == run::LAUNCH) {
        return run::launch(&arguments, &Output::new(false));
    }
    if let Some(ended) = bench::hidden(&arguments) {
        return ended;
    }
    match Cli::try_parse_from(arguments) {
        Ok(cli) => end(&Output::new(cli.global.json), |output| dispatch(cli, output)),
        Err(usage) => output::usage(&usage),
    }
}

/// Runs a command, says why it failed where it did, and gives the exit code.
fn end(output: &Output, command: impl FnOnce(&Output) -> Result<ExitCode, Failure>) -> ExitCode {
    match command(output) {
        Ok(code) => code,
        Err(failure) => {
            output.failure(&failure);
            failure.ending().into()
        }
    }
}

fn dispatch(cli: Cli, output: &Output) -> Result<ExitCode, Failure> {
    let Global { config, url, ca, client_cert, client_cert_key, json: _ } = cli.global;
    let url = Target { url, trust: Trust { ca_file: ca, identity: client_cert.zip(client_cert_key) } };
    let config = config.as_deref();
    let done = match cli.command {
        Command::Run(command) => return command.run(&url, output),
        Command::Recover(command) => return command.run(config, output),
        Command::Backup(command) => command.run(config, output),
        Command::Restore(command) => command.run(config, output),
        Command::Serve(command) => command.run(config),
        Command::Check => check::run(config, output),
        Command::Migrate(command) => command.run(config, output),
        Command::Key(command) => command.run(output),
        Command::Can(command) => command.run(config, output),
        Command::Whoami => with_client(&url, async |client| whoami::run(&client, output).await),
        Command::Lease(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Write(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Get(command) => with_client(&url, async |client| command.run(client, output).await),
        Command::Inspect(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Timeline(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Audit(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Events(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Namespaces(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Revoke(call) => {
            with_client(&url, async |client| call.run(Verb::Revoke, &client, output).await)
        }
        Command::Cancel(call) => {
            with_client(&url, async |client| call.run(Verb::Cancel, &client, output).await)
        }
        Command::Reopen(call) => {
            with_client(&url, async |client| call.run(Verb::Reopen, &client, output).await)
        }
        Command::Epoch(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Operations(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Resolve(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Probe(command) => command.run(config, output),
        Command::Demo => block_on(demo::run(output)),
        Command::Bench(command) => command.run(output),
        Command::Openapi => openapi::run(output),
        Command::Completions(command) => command.run(output),
        Command::Man(command) => command.run(output),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn with_client<F>(target: &Target, command: F) -> Result<(), Failure>
where
    F: AsyncFnOnce(Client) -> Result<(), Failure>,
{
    let client = Client::of(target)?;
    block_on(command(client))
}

/// Runs a command that does one thing at a time.
fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Start(error.into()))?
        .block_on(command)
}

/// Runs a part of the gateway.
fn block_on_all_cores<T>(part: impl Future<Output = anyhow::Result<T>>) -> Result<T, Failure> {
    runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Start(error.into()))?
        .block_on(part)
        .map_err(Failure::Start)
}

#[cfg(test)]
mod tests;
