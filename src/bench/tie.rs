//! Processes that do not outlive the bench, even when it is killed and can end nothing itself.
//!
//! What runs as the same user is tied: it dies at once. A database server of another user has a keeper, a process of
//! ours that ends it in good order.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::process::{Signal, getuid, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::cluster::pid;
use crate::limits::BENCH_STEP_TIMEOUT;

/// The word that makes this program a keeper.
pub const KEEPER: &str = "bench-keeper";

/// The word that makes this program another one, tied to whoever started it.
pub const TIED: &str = "bench-tied";

/// What a keeper starts.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The user that it runs as.
    pub uid: u32,
    /// The group that it runs as.
    pub gid: u32,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Runs a program until it ends, until TERM or INT, or until whoever started this is gone.
///
/// # Errors
/// When the program cannot be started or waited for.
pub async fn keep(kept: Kept) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
    end_with_parent(Signal::TERM)?;
    let mut command = Command::new(&kept.program);
    command.args(&kept.arguments);
    if getuid().is_root() {
        command.uid(kept.uid).gid(kept.gid);
    }
    let mut child = command.spawn().context("cannot start the program")?;
    tokio::select! {
        ended = child.wait() => {
            let ended = ended.context("cannot wait for the program")?;
            bail!("the program ended early: {ended}");
        }
        _ = terminate.recv() => {}
        // A terminal sends it to everybody; the server is ended once it is told to.
        _ = interrupt.recv() => {}
    }
    // PostgreSQL's "fast" end: it rolls back what is open and does not wait for clients.
    if let Some(pid) = pid(&child) {
        kill_process(pid, Signal::INT).context("cannot end the program")?;
    }
    timeout(BENCH_STEP_TIMEOUT, child.wait()).await.context("the program does not end")??;
    Ok(())
}

/// Turns this process into another program that is killed when whoever started this is gone. It comes back only with
/// the reason why it could not.
#[must_use]
pub fn tie(program: &Path, arguments: &[OsString]) -> anyhow::Error {
    if let Err(error) = end_with_parent(Signal::KILL) {
        return error;
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    anyhow::Error::new(error).context(format!("cannot start {}", program.display()))
}

/// Asks for a signal when the parent ends; the wish stays when a process becomes another program of the same user.
#[cfg(target_os = "linux")]
fn end_with_parent(signal: Signal) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal)).context("cannot watch the parent")
}

/// Other systems have no such wish.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_signal: Signal) -> anyhow::Result<()> {
    Ok(())
}
