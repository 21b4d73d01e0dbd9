//! The command line: one file per subcommand, and the few things they share.
//!
//! The client commands speak HTTP like everybody else and know nothing of the gateway's inside. All that is printed
//! goes through [`output`]; all ends of a command are exit codes of [`failure`].

mod answer;
mod check;
mod client;
mod completions;
mod demo;
mod failure;
mod get;
mod inspect;
mod lease;
mod man;
mod migrate;
mod openapi;
mod operations;
mod output;
mod serve;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod words;
mod write;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tokio::runtime;

use client::Client;
use failure::Failure;
use output::Output;

/// What `--help` says below the options.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused by the gateway, settled: do not retry with the same values
  2  usage or configuration error, or it could not start
  3  the gateway cannot be reached, or its answer is unknown: retry with the same operation id
  4  not settled: retry later with the same operation id";

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
    /// Configuration file of serve, check and migrate [default: fencegate.toml, where it exists]
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
    /// Print JSON, errors too; without it JSON is printed where standard output is not a terminal
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway until TERM or INT
    Serve(serve::Serve),
    /// Check the configuration, and say what is wrong where
    Check,
    /// Bring the database up to date
    Migrate(migrate::Migrate),
    /// Own a resource for a while
    #[command(subcommand)]
    Lease(lease::Lease),
    /// Write through the fence
    Write(write::Write),
    /// Read a document
    Get(get::Get),
    /// Show what is authoritative about a resource
    Inspect(inspect::Inspect),
    /// Show the durable outcomes of a resource's operations
    Operations(operations::Operations),
    /// Play the problem with two real processes, one of them stopped past its lease
    Demo,
    /// Print the description of the API (OpenAPI 3.1)
    Openapi,
    /// Print the completions of a shell
    Completions(completions::Completions),
    /// Write the manual pages into a folder
    Man(man::Man),
    #[command(hide = true)]
    DemoWorker(demo::Worker),
}

/// Runs one command line, program name included. This is all of `main`.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => return output::usage(&usage),
    };
    let output = Output::new(cli.global.json);
    match dispatch(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.ending().into()
        }
    }
}

fn dispatch(cli: Cli, output: &Output) -> Result<(), Failure> {
    let Global { config, url, json: _ } = cli.global;
    let config = config.as_deref();
    match cli.command {
        Command::Serve(command) => command.run(config),
        Command::Check => check::run(config, output),
        Command::Migrate(command) => command.run(config, output),
        Command::Lease(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Write(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Get(command) => with_client(&url, async |client| command.run(client, output).await),
        Command::Inspect(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Operations(command) => with_client(&url, async |client| command.run(&client, output).await),
        Command::Demo => block_on(demo::run(output)),
        Command::Openapi => openapi::run(output),
        Command::Completions(command) => command.run(output),
        Command::Man(command) => command.run(output),
        Command::DemoWorker(command) => command.run(&url, output),
    }
}

fn with_client<F>(url: &str, command: F) -> Result<(), Failure>
where
    F: AsyncFnOnce(Client) -> Result<(), Failure>,
{
    let client = Client::new(url)?;
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
