//! A PostgreSQL server of the exam's own, made from the installed programs: it can be restarted, killed and frozen.
//!
//! A keeper of the gateway's program stands between, which ends it when the exam is gone, however that came about.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use super::gateways::last_words;
use crate::bench::{KEEPER, ServerUser, command, free_address, programs, server_user};
use crate::limits::{EXAM_LOOK, EXAM_START};

/// What is durable stays durable; connections are many and small.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=100",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
];

/// The server.
pub(super) struct Server {
    keeper: Option<Child>,
    gateway: PathBuf,
    programs: PathBuf,
    home: PathBuf,
    user: ServerUser,
    /// Where it listens, on loopback.
    pub(super) port: u16,
}

impl Server {
    /// Makes and starts one in a folder that there is not yet. `gateway` is the program that has the keeper.
    pub(super) async fn start(home: PathBuf, gateway: PathBuf) -> anyhow::Result<Self> {
        let programs = programs()?;
        fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
        let user = server_user()?;
        user.own(&home)?;
        let mut initdb = command(&programs.join("initdb"), &home);
        let how =
            ["--username=fencegate", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"];
        initdb.args(how).arg("--pgdata").arg(home.join("data"));
        user.runs(&mut initdb);
        let made = timeout(EXAM_START, initdb.output()).await.context("initdb does not end")?;
        let made = made.context("cannot run initdb")?;
        if !made.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        }
        let port = free_address()?.port();
        let mut server = Self { keeper: None, gateway, programs, home, user, port };
        server.begin(true).await?;
        Ok(server)
    }

    /// Starts it on what is there, and waits until it takes connections. For the first time nothing can be in its way: when
    /// it ends then, it never starts.
    async fn begin(&mut self, is_first: bool) -> anyhow::Result<()> {
        let trying = async {
            loop {
                self.launch()?;
                // After a kill the processes of before may still hold its memory: it then refuses to start, once or twice.
                while !self.has_ended()? {
                    if self.answers().await {
                        return anyhow::Ok(());
                    }
                    sleep(EXAM_LOOK).await;
                }
                if is_first {
                    bail!("PostgreSQL ended while it started{}", last_words(&self.home.join("log")));
                }
                sleep(EXAM_LOOK).await;
            }
        };
        timeout(EXAM_START, trying).await.context("PostgreSQL does not become ready")?
    }

    fn launch(&mut self) -> anyhow::Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.home.join("log"));
        let log = log.context("cannot open the server's log")?;
        let mut keeper = command(&self.gateway, &self.home);
        // Dropping the keeper's handle must not kill it before it has ended the server.
        keeper.kill_on_drop(false).arg(KEEPER).args(self.user.ids()).arg(self.programs.join("postgres"));
        keeper.arg("-D").arg(self.home.join("data")).args(["-p", &self.port.to_string()]);
        for setting in SETTINGS {
            keeper.args(["-c", setting]);
        }
        keeper.stdout(log.try_clone()?).stderr(log);
        self.keeper = Some(keeper.spawn().context("cannot start PostgreSQL")?);
        Ok(())
    }

    fn has_ended(&mut self) -> anyhow::Result<bool> {
        let Some(keeper) = &mut self.keeper else { return Ok(true) };
        Ok(keeper.try_wait().context("cannot look at PostgreSQL")?.is_some())
    }

    /// `pg_isready` is not part of every installation; a start-up packet is.
    async fn answers(&self) -> bool {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let asked = async {
            let mut stream = super::wire::connect(self.port).await?;
            let mut packet = vec![0, 0, 0, 0, 0, 3, 0, 0];
            packet.extend_from_slice(b"user\0fencegate\0database\0postgres\0\0");
            let length = u32::try_from(packet.len()).unwrap_or_default().to_be_bytes();
            packet.splice(..4, length);
            stream.write_all(&packet).await?;
            // R: authentication. E: it is starting up, or going down.
            stream.read_u8().await
        };
        matches!(timeout(EXAM_START, asked).await, Ok(Ok(b'R')))
    }

    /// The process that all others belong to.
    fn postmaster(&self) -> anyhow::Result<Pid> {
        let file = self.home.join("data/postmaster.pid");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let pid = text.lines().next().and_then(|line| line.trim().parse().ok()).and_then(Pid::from_raw);
        pid.context("no process id in postmaster.pid")
    }

    /// Restarts it as an operator does: what is open is rolled back.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        self.stop().await?;
        self.begin(false).await
    }

    /// kill -9 of the postmaster, and a start that recovers.
    pub(super) async fn kill_and_start(&mut self) -> anyhow::Result<()> {
        kill_process(self.postmaster()?, Signal::KILL).context("cannot kill PostgreSQL")?;
        if let Some(mut keeper) = self.keeper.take() {
            timeout(EXAM_START, keeper.wait()).await.context("the keeper of PostgreSQL does not end")??;
        }
        self.begin(false).await
    }

    /// A signal to the server and to every process of it.
    pub(super) fn signal_all(&self, signal: Signal) -> anyhow::Result<()> {
        let postmaster = self.postmaster()?;
        let mut all = vec![postmaster];
        for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // Behind the name in parentheses: state, parent.
            let parent = stat.rsplit(')').next().unwrap_or_default().split_whitespace().nth(1);
            if parent == Some(postmaster.as_raw_pid().to_string().as_str()) {
                all.extend(Pid::from_raw(pid));
            }
        }
        for process in all {
            // One that has ended by itself meanwhile is fine.
            kill_process(process, signal).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends it: open transactions are rolled back.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut keeper) = self.keeper.take() else { return Ok(()) };
        if let Some(pid) = keeper.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).context("cannot end PostgreSQL")?;
        }
        timeout(EXAM_START, keeper.wait()).await.context("PostgreSQL does not end")??;
        Ok(())
    }
}
