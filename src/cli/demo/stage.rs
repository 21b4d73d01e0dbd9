//! Where the story is played: a folder, the processes in it, and the sweeping up.

use std::fs::{self, DirBuilder, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::WORKER;
use super::player::Player;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::lease::fresh_id;
use crate::config::VARIABLE_PREFIX;
use crate::limits::{DEMO_LOG_BYTES, DEMO_PAUSE, DEMO_STARTS, DEMO_STEP_TIMEOUT};

/// The configuration of the demonstration's own gateway: the defaults, said aloud.
const CONFIG: &str = "\
database = \"sqlite://demo.db\"
seal_key_file = \"demo.key\"

[namespaces.statements]
policy = \"single\"
contract = \"immediate\"
";

/// A folder of its own, and every process that was started.
pub(super) struct Stage {
    folder: Folder,
    children: Vec<Child>,
}

/// The gateway of the story.
pub(super) struct Gateway {
    pub(super) client: Client,
    pub(super) pid: Pid,
    place: usize,
}

impl Stage {
    /// An empty stage.
    pub(super) fn set() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("fencegate-demo-{}", fresh_id()?));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))
            .map_err(Failure::Start)?;
        Ok(Self { folder: Folder(path), children: Vec::new() })
    }

    /// Starts a gateway on a free loopback port and waits until it is ready.
    pub(super) async fn open_gateway(&mut self) -> Result<Gateway, Failure> {
        let config = self.folder.0.join("fencegate.toml");
        fs::write(&config, CONFIG).context("cannot write the configuration").map_err(Failure::Start)?;
        for _ in 0..DEMO_STARTS {
            let address = free_address().context("no free port on loopback").map_err(Failure::Start)?;
            let client = Client::new(&format!("http://{address}"))?;
            let mut command = self.command(&["--config"])?;
            command.arg(&config).args(["serve", "--listen", &address]);
            let log = File::create(self.log()).and_then(|log| Ok((log.try_clone()?, log)));
            let (out, err) = log.context("cannot make a log file").map_err(Failure::Start)?;
            let (place, pid) = self.start(command.stdin(Stdio::null()).stdout(out).stderr(err))?;
            if self.is_ready(place, &client).await? {
                return Ok(Gateway { client, pid, place });
            }
        }
        Err(self.no_gateway("did not start"))
    }

    /// Waits until the gateway answers. `false`: it ended before, perhaps because somebody took its port.
    async fn is_ready(&mut self, place: usize, client: &Client) -> Result<bool, Failure> {
        let looking = async {
            while self.runs(place)? {
                if client.open(client.request(Method::GET, "/readyz"), "").await.is_ok() {
                    return self.runs(place);
                }
                sleep(DEMO_PAUSE).await;
            }
            Ok(false)
        };
        match timeout(DEMO_STEP_TIMEOUT, looking).await {
            Ok(ready) => ready,
            Err(_) => Err(self.no_gateway("runs, but does not become ready")),
        }
    }

    /// Starts a worker.
    pub(super) fn worker(
        &mut self,
        gateway: &Gateway,
        name: &'static str,
        details: &[&str],
    ) -> Result<Player, Failure> {
        let mut command = self.command(&[WORKER, "--url", gateway.client.base(), "--name", name])?;
        command.args(details).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (place, pid) = self.start(&mut command)?;
        let child = self.children.get_mut(place);
        let pipes = child.and_then(|child| Some((child.stdin.take()?, child.stdout.take()?)));
        let (stdin, stdout) = pipes.ok_or_else(|| Failure::Story("a worker has no pipes".to_owned()))?;
        Ok(Player::new(name, place, pid, stdin, stdout))
    }

    /// Waits until a process has ended by itself. `true`: it ended well.
    pub(super) async fn ended(&mut self, place: usize) -> Result<bool, Failure> {
        let Some(child) = self.children.get_mut(place) else { return Ok(false) };
        match timeout(DEMO_STEP_TIMEOUT, child.wait()).await {
            Ok(status) => Ok(status.context("cannot wait for a process").map_err(Failure::Start)?.success()),
            Err(_) => Ok(false),
        }
    }

    /// Asks the gateway to end as an operator would. `true`: it ended well.
    pub(super) async fn close_gateway(&mut self, gateway: &Gateway) -> Result<bool, Failure> {
        kill_process(gateway.pid, Signal::TERM).context("cannot stop the gateway").map_err(Failure::Start)?;
        self.ended(gateway.place).await
    }

    /// Kills what still runs, waits for all, and removes the folder.
    pub(super) async fn clear(mut self) -> Result<(), Failure> {
        let mut left = Vec::new();
        for child in &mut self.children {
            // A stopped process dies of this too. What has ended already is only waited for.
            let ended = timeout(DEMO_STEP_TIMEOUT, child.kill()).await;
            if !matches!(ended, Ok(Ok(()))) && !matches!(child.try_wait(), Ok(Some(_))) {
                left.push(child.id().map_or_else(|| "unknown".to_owned(), |id| id.to_string()));
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        Err(Failure::Story(format!("these processes could not be ended: {}", left.join(", "))))
    }

    /// This program, without what the surroundings say to it.
    fn command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        let program = std::env::current_exe().context("cannot find this program").map_err(Failure::Start)?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder.0).kill_on_drop(true).env_remove("FENCING_TOKEN");
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with(VARIABLE_PREFIX)) {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    fn start(&mut self, command: &mut Command) -> Result<(usize, Pid), Failure> {
        let child = command.spawn().context("cannot start a process").map_err(Failure::Start)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let place = self.children.len();
        self.children.push(child);
        match id {
            Some(pid) => Ok((place, pid)),
            None => Err(Failure::Story("a process ended as soon as it was started".to_owned())),
        }
    }

    fn runs(&mut self, place: usize) -> Result<bool, Failure> {
        let Some(child) = self.children.get_mut(place) else { return Ok(false) };
        let status = child.try_wait().context("cannot look at a process").map_err(Failure::Start)?;
        Ok(status.is_none())
    }

    fn log(&self) -> PathBuf {
        self.folder.0.join("gateway.log")
    }

    fn no_gateway(&self, why: &str) -> Failure {
        let log = fs::read(self.log()).unwrap_or_default();
        let start = log.len().saturating_sub(DEMO_LOG_BYTES);
        let end = String::from_utf8_lossy(log.get(start..).unwrap_or_default());
        Failure::Story(format!("the gateway {why}; its log ends with:\n{end}"))
    }
}

/// A folder that goes when its owner goes.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed lies in the system's temporary place and does no harm there.
        fs::remove_dir_all::<&Path>(&self.0).unwrap_or_default();
    }
}

fn free_address() -> std::io::Result<String> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string())
}
