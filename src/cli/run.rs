//! `fencegate run`: a command that runs while its lease is held, and is stopped when it is lost.
//!
//! What protects the storage is the token that the command's writes carry. What happens here is courtesy: the command
//! learns early that it lost, and does not work for nothing. Nothing here may therefore outlast the command's own end,
//! hide its result, or wait for a gateway without a bound.

mod acquire;
mod child;
mod launch;
mod renew;
mod signals;
mod supervise;
mod tenure;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::runtime;

use super::client::{Client, Target};
use super::failure::Failure;
use super::lease::fresh_id;
use super::output::Output;
use super::wish::Wish;
use super::words;
use crate::app::WakefulClock;
use crate::domain::lease::Holder;
use crate::domain::resource::Path;
use crate::limits::RUN_RESOURCES;
use child::Command;
use signals::Signals;
use tenure::Tenure;

pub(super) use launch::{LAUNCH, launch};

/// What `run --help` says below the options.
const EXPLAINED: &str = "\
The command finds in its environment:
  FENCING_TOKEN          goes with each write (header Fencing-Token); `fencegate write` reads it by itself
  FENCING_TOKENS         instead of it with several resources: a JSON object, name to token
  FENCEGATE_RESOURCE     the resource, where it is one
  FENCEGATE_ACQUISITION  the acquisition id
  FENCEGATE_URL          the gateway

Exit codes:
  75     never acquired: the command was not started
  79     the lease was lost: the command was stopped, its whole process group included
  126    the command cannot be executed
  127    the command was not found
  128+n  the command died of signal n
  2      usage error
  else   the command's own";

/// What `run` takes.
#[derive(Args)]
#[command(after_help = EXPLAINED)]
pub(super) struct Run {
    /// What to own; several times for several resources in one lease, all or none
    #[arg(long = "resource", value_name = "RESOURCE", required = true, value_parser = words::name)]
    resources: Vec<Path>,
    /// How long to try to acquire it; 0 tries once
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = words::length)]
    wait: Duration,
    /// How long the lease lives without a renewal, such as 30s [default: the namespace's]
    #[arg(long, value_name = "TIME", value_parser = words::ttl_ms)]
    ttl: Option<u64>,
    /// A label for people; no decision depends on it [default: this host's name and the process id]
    #[arg(long, value_parser = words::holder)]
    holder: Option<Holder>,
    /// How long the command may take to end after TERM, when the lease is lost, before it is killed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = words::length)]
    grace: Duration,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    /// Runs the command under a lease. The code is the command's own where it came to its end.
    pub(super) fn run(self, target: &Target, output: &Output) -> Result<ExitCode, Failure> {
        if self.resources.len() > RUN_RESOURCES {
            let problem = format!("one lease names at most {RUN_RESOURCES} resources");
            return Err(Failure::Usage(problem));
        }
        let client = Client::of(target)?;
        // One thread, and that the main one: the kernel ties the command to the thread that started it.
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Start(error.into()))?;
        let ended = runtime.block_on(self.under_a_lease(&client, output));
        // A name lookup that hangs must not hold up the end.
        runtime.shutdown_background();
        ended.map(ExitCode::from)
    }

    async fn under_a_lease(self, client: &Client, output: &Output) -> Result<u8, Failure> {
        let mut signals = Signals::listen().map_err(|error| Failure::Start(error.into()))?;
        let clock = WakefulClock::new();
        let wish = Wish {
            resources: self.resources,
            holder: self.holder.or_else(this_process),
            ttl_ms: self.ttl,
            wait: self.wait,
            request_id: fresh_id()?,
        };
        let tenure = acquire::acquire(client, &clock, &wish, &mut signals).await?;
        let command = Command { words: self.command, exports: tenure.exports(client.base()) };
        let child = match command.start() {
            Ok(child) => child,
            Err(error) => {
                output.note(&format!("fencegate run: cannot start a process: {error}"));
                release(client, &tenure, false, output).await;
                return Ok(launch::NOT_EXECUTABLE);
            }
        };
        let ended = supervise::supervise(child, client, &clock, &tenure, self.grace, &mut signals).await;
        if ended.may_be_held() {
            release(client, &tenure, ended.is_lost(), output).await;
        }
        ended.told(&tenure)
    }
}

/// Whoever looks at a lease at night wants to know where to look next.
fn this_process() -> Option<Holder> {
    let host = rustix::system::uname();
    let process = rustix::process::getpid().as_raw_nonzero();
    Holder::parse(&format!("{}:{process}", host.nodename().to_string_lossy())).ok()
}

/// Gives the lease back if that can be done at once. Where it cannot, that is a remark, and beside a loss not even that.
async fn release(client: &Client, tenure: &Tenure, is_lost: bool, output: &Output) {
    if let Err(failure) = tenure.release(client).await
        && !is_lost
    {
        output.note(&format!(
            "fencegate run: {} is not released, and ends by its ttl: {}",
            tenure.names(),
            failure.brief()
        ));
    }
}
