//! The folder of a run, and the processes that are started in it.
//!
//! Every process is ended by its id. Those that listen here are killed at the latest when their owner is dropped.

use std::cell::Cell;
use std::fs::{self, DirBuilder};
use std::io::{BufRead as _, BufReader, PipeReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::load::Known;
use super::tie::TIED;
use super::usage::{self, Usage};
use crate::limits::{BENCH_LOG_BYTES, BENCH_PAUSE, BENCH_STEP_TIMEOUT};

/// A folder of its own; it goes with its owner.
pub(super) struct Folder {
    path: PathBuf,
    made: Cell<u32>,
}

impl Folder {
    /// Makes it. Others may walk through it, because the database server of a run by root is another user; each
    /// folder in it says who may look.
    pub(super) fn make(parent: &Path, name: &str) -> anyhow::Result<Self> {
        // The programs are started in folders of their own, where a relative path would lead elsewhere.
        let parent = fs::canonicalize(parent).with_context(|| format!("there is no {}", parent.display()))?;
        let path = parent.join(format!("fencegate-bench-{name}"));
        DirBuilder::new()
            .mode(0o711)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self { path, made: Cell::new(0) })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An empty folder in it. None is removed before the end: on a disk that is told of every block that becomes free,
    /// the flushes of the next cell would wait for that.
    pub(super) fn fresh(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.made.set(self.made.get().saturating_add(1));
        let path = self.path.join(format!("{name}-{}", self.made.get()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(path)
    }

    /// A folder in it with a copy of every file of another one, on the disk.
    pub(super) fn copy(&self, from: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let to = self.fresh(name)?;
        for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let copy = to.join(entry.file_name());
                fs::copy(entry.path(), &copy)
                    .and_then(|_| fs::File::open(&copy)?.sync_all())
                    .with_context(|| format!("cannot make {}", copy.display()))?;
            }
        }
        Ok(to)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is only in the way.
        fs::remove_dir_all(&self.path).unwrap_or_default();
    }
}

/// This program, or another one, without what the surroundings say to it: no settings of a gateway or of a database
/// client reach it.
pub(crate) fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(folder).kill_on_drop(true).stdin(Stdio::null());
    for name in ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// The same, and it is killed when this process is gone, however that came about.
pub(super) fn tied(program: &Path, folder: &Path) -> anyhow::Result<Command> {
    let mut command = command(&own_program()?, folder);
    command.arg(TIED).arg(program);
    Ok(command)
}

/// This program.
pub(super) fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program")
}

/// An address on loopback that was free a moment ago.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    listener.local_addr().context("a listener without an address")
}

/// A process that serves HTTP.
pub(super) struct Server {
    child: Child,
    pid: Pid,
    said: Arc<Mutex<Vec<u8>>>,
    /// How it is spoken to.
    known: Known,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts it and waits until `/readyz` answers. Its log goes through a pipe, as to a collector of logs, and is read
    /// and thrown away; what it says when it does not start is in the error.
    pub(super) async fn start(command: Command, address: SocketAddr) -> anyhow::Result<Self> {
        Self::start_behind(Known::default(), command, address).await
    }

    /// The same of one that is spoken to so.
    pub(super) async fn start_behind(
        known: Known,
        mut command: Command,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        let (log, writer) = std::io::pipe().context("cannot make a pipe")?;
        command.stdout(Stdio::null()).stderr(writer);
        let child = command.spawn().context("cannot start a process")?;
        // The process must be the only one that holds the writing end.
        drop(command);
        let said = listen(log)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = id.context("a process ended as soon as it was started")?;
        let mut server = Self { child, pid, said, known, address };
        let ready = timeout(BENCH_STEP_TIMEOUT, server.ready()).await;
        if matches!(ready, Ok(Ok(true))) {
            return Ok(server);
        }
        bail!("a process does not become ready; it said: {}", server.said());
    }

    /// What it said beside the ordinary since it was last asked, and at its start.
    pub(super) fn said(&self) -> String {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&std::mem::take(&mut *said)).into_owned()
    }

    async fn ready(&mut self) -> anyhow::Result<bool> {
        while self.child.try_wait().context("cannot look at a process")?.is_none() {
            if self.answer("/readyz").await.is_ok() {
                return Ok(true);
            }
            sleep(BENCH_PAUSE).await;
        }
        Ok(false)
    }

    /// The process that was started is not the server but its parent, which ends with it.
    pub(super) fn behind_another(mut self) -> Self {
        self.pid = usage::child_of(self.pid.as_raw_pid()).and_then(Pid::from_raw).unwrap_or(self.pid);
        self
    }

    /// The body of what it answers to a GET.
    pub(super) async fn answer(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.known.host(self.address));
        let mut wire = self.known.connect(self.address).await.map_err(anyhow::Error::msg)?;
        let answer = wire.ask(request.as_bytes()).await.map_err(anyhow::Error::msg)?;
        Ok(wire.body(&answer).to_vec())
    }

    /// What it has used so far, together with the processes that it started.
    pub(super) fn usage(&self) -> Option<Usage> {
        usage::of_all(self.pid.as_raw_pid())
    }

    /// Ends it as an operator would, and kills it where that takes too long.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        kill_process(self.pid, Signal::TERM).context("cannot end a process")?;
        if let Ok(ended) = timeout(BENCH_STEP_TIMEOUT, self.child.wait()).await {
            ended.context("cannot wait for a process")?;
            return Ok(());
        }
        self.child.kill().await.context("cannot kill a process")
    }
}

/// Reads a log to its end on a thread of its own, and keeps what is not the ordinary line of a request.
fn listen(log: PipeReader) -> anyhow::Result<Arc<Mutex<Vec<u8>>>> {
    let said: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&said);
    let reading = move || {
        let mut log = BufReader::with_capacity(65_536, log);
        let mut line = Vec::new();
        while let Ok(1..) = log.read_until(b'\n', &mut line) {
            if !is_ordinary(&line) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = BENCH_LOG_BYTES.saturating_sub(kept.len());
                kept.extend(line.iter().take(room));
            }
            line.clear();
        }
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(reading).context("cannot start a thread")?;
    Ok(said)
}

/// Whether a line of a log, one JSON object, has the level of what is expected. The level stands at its beginning.
fn is_ordinary(line: &[u8]) -> bool {
    let level = b"\"level\":\"INFO\"";
    line.get(..80).unwrap_or(line).windows(level.len()).any(|place| place == level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_kept_and_the_line_of_a_request_is_not() {
        let line = |level: &str| {
            format!(
                "{{\"timestamp\":\"2026-11-29T20:41:17.327006Z\",\"level\":\"{level}\",\"message\":\"m\"}}\n"
            )
        };
        assert!(is_ordinary(line("INFO").as_bytes()));
        assert!(!is_ordinary(line("WARN").as_bytes()));
        assert!(!is_ordinary(b"error: no such file\n"));
    }
}
