//! Gateways in processes of their own: started, stopped for a while, ended in good order, killed, and started again.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use super::wire;
use crate::bench::{TIED, command, free_address};
use crate::deliberate;
use crate::limits::{EXAM_GREETING, EXAM_LOOK, EXAM_START};

/// The shell that starts a gateway: a process that meets a limit on the size of a file is told so by the failing write, and
/// not ended by the signal. That is how a full disk is played without rights over any disk.
const SHELL: &str = "trap '' XFSZ; exec \"$0\" \"$@\"";

/// Lines of a log that tell why somebody did not start.
const LAST_LINES: usize = 8;

/// How a gateway is started.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    /// The program.
    pub(super) program: PathBuf,
    /// Its folder, with its configuration.
    pub(super) home: PathBuf,
    /// Its database, where the configuration names none.
    pub(super) database: String,
    /// A library that shifts its clock, and the file that says by how much.
    pub(super) clock: Option<(PathBuf, PathBuf)>,
}

/// A gateway that runs.
pub(super) struct Gateway {
    child: Child,
    pid: Pid,
    /// Where it listens, on loopback.
    pub(super) port: u16,
}

impl Gateway {
    /// Starts it, and waits until it is ready.
    pub(super) async fn start(recipe: &Recipe, index: usize) -> anyhow::Result<Self> {
        let port = free_address()?.port();
        let path = recipe.home.join(format!("gateway-{index}.log"));
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .context("cannot open a gateway's log")?;
        let mut command = command(&recipe.program, &recipe.home);
        command.arg(TIED).arg("/bin/sh").args(["-c", SHELL]).arg(&recipe.program);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
        command.env("FENCEGATE_DATABASE", &recipe.database).env("FENCEGATE_LOG", "warn");
        command.envs(deliberate::carried());
        if let Some((library, shift)) = &recipe.clock {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", shift);
            // The file is read at each look at the clock, and the monotonic clock is left alone.
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let child = command.stdout(Stdio::null()).stderr(log).spawn().context("cannot start a gateway")?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let mut gateway = Self { child, pid: pid.context("a gateway ended at once")?, port };
        let ready = timeout(EXAM_START, gateway.ready()).await;
        let why = match ready {
            Ok(Ok(())) => return Ok(gateway),
            Ok(Err(error)) => error,
            Err(_) => anyhow!("it does not become ready"),
        };
        Err(anyhow!("gateway {index}: {why:#}{}", last_words(&path)))
    }

    /// It listens: whether its database answers is another matter while faults go on.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let request = wire::request("GET", "/livez", &[], &[]);
        loop {
            if let Some(status) = self.child.try_wait().context("cannot look at a gateway")? {
                bail!("it ended while it started ({status})");
            }
            if wire::ask(self.port, &request, Duration::from_secs(1)).await.is_ok() {
                return Ok(());
            }
            sleep(EXAM_LOOK).await;
        }
    }

    /// kill -9.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill a gateway")
    }

    /// TERM, and its end; a gateway that does not end is killed, and that is told.
    pub(super) async fn terminate(mut self) -> anyhow::Result<bool> {
        self.signal(Signal::TERM)?;
        if let Ok(ended) = timeout(EXAM_START, self.child.wait()).await {
            return Ok(ended.context("cannot wait for a gateway")?.success());
        }
        self.child.kill().await.context("cannot kill a gateway")?;
        Ok(false)
    }

    /// A signal that does not end it.
    pub(super) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid, signal).context("cannot signal a gateway")
    }

    /// How large a file of it may become; none for no limit.
    pub(super) fn limit_files(&self, bytes: Option<u64>) -> anyhow::Result<()> {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid), Resource::Fsize, limit).map(drop).context("cannot limit a gateway's files")
    }

    /// Whether it ended though nobody ended it.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

/// A program that is none is told so before anything is made for it.
pub(super) async fn greet(program: &Path) -> anyhow::Result<()> {
    let mut asked = command(program, Path::new("/"));
    let told = timeout(EXAM_GREETING, asked.arg("--version").output()).await;
    let told = told.with_context(|| format!("{} does not say its version", program.display()))?;
    let told = told.with_context(|| format!("cannot run {}", program.display()))?;
    if !told.status.success() || !told.stdout.starts_with(b"fencegate ") {
        bail!("{} is no gateway: it says no version of fencegate", program.display());
    }
    Ok(())
}

/// How a log ends, as the end of a sentence; nothing where it is empty.
pub(super) fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    if last.is_empty() { String::new() } else { format!("; its log ends with:\n  {}", last.join("\n  ")) }
}

/// The library that shifts the clock of a process, where it is installed.
pub(super) fn clock_library() -> Option<PathBuf> {
    let places =
        ["/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime"];
    places.iter().map(|folder| Path::new(folder).join("libfaketime.so.1")).find(|path| path.is_file())
}
