//! The demonstration's side of one worker: what it says, its input, and the signals.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{sleep, timeout};

use super::worker::Event;
use crate::cli::failure::Failure;
use crate::limits::{DEMO_LINE_BYTES, DEMO_PAUSE, DEMO_STEP_TIMEOUT};

/// A worker as the demonstration sees it.
pub(super) struct Player {
    name: &'static str,
    place: usize,
    pid: Pid,
    input: Option<ChildStdin>,
    said: BufReader<Take<ChildStdout>>,
}

impl Player {
    pub(super) fn new(
        name: &'static str,
        place: usize,
        pid: Pid,
        input: ChildStdin,
        output: ChildStdout,
    ) -> Self {
        Self { name, place, pid, input: Some(input), said: BufReader::new(output.take(DEMO_LINE_BYTES)) }
    }

    /// Its place among the processes of the stage.
    pub(super) const fn place(&self) -> usize {
        self.place
    }

    /// Its process id.
    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// The next thing that it says.
    pub(super) async fn says(&mut self) -> Result<Event, Failure> {
        let mut line = String::new();
        match timeout(DEMO_STEP_TIMEOUT, self.said.read_line(&mut line)).await {
            Err(_) => Err(self.failed("said nothing for too long")),
            Ok(Err(error)) => Err(self.failed(&format!("cannot be heard: {error}"))),
            Ok(Ok(0)) => Err(self.failed("ended too early")),
            Ok(Ok(_)) => serde_json::from_str(&line).map_err(|_| self.failed(&format!("said {line:?}"))),
        }
    }

    /// Gives it a line of its input.
    pub(super) async fn give(&mut self, line: &str) -> Result<(), Failure> {
        let Some(input) = &mut self.input else { return Err(self.failed("has all of its input already")) };
        let given = input.write_all(format!("{line}\n").as_bytes()).await;
        given.map_err(|error| self.failed(&format!("takes no input: {error}")))
    }

    /// Ends its input.
    pub(super) fn end_input(&mut self) {
        self.input = None;
    }

    /// Stops it with SIGSTOP, and waits until the system says that it stands still.
    pub(super) async fn stop(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        // NOWAIT leaves the news in place; the process is reaped by its owner alone.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let standing = async {
            loop {
                match waitid(WaitId::Pid(self.pid), options) {
                    Ok(Some(_)) => return Ok(()),
                    Ok(None) => sleep(DEMO_PAUSE).await,
                    Err(error) => return Err(self.failed(&format!("cannot be watched: {error}"))),
                }
            }
        };
        timeout(DEMO_STEP_TIMEOUT, standing).await.unwrap_or_else(|_| Err(self.failed("does not stop")))
    }

    /// Resumes it with SIGCONT.
    pub(super) fn resume(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(self.pid, signal).map_err(|error| self.failed(&format!("takes no signal: {error}")))
    }

    /// The story cannot go on because of this worker.
    pub(super) fn failed(&self, why: &str) -> Failure {
        Failure::Story(format!("worker {} {why}", self.name))
    }
}
