//! This very test binary once more, in a process of its own with a bug switched on.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock as _;
use rustix::process::{Pid, Signal, kill_process_group};

use super::layers::ASKED_BY;
use crate::support::gateway::DELIBERATE_BUG;

/// What `libtest` ends with when a test has failed.
const TESTS_FAILED: i32 = 101;

/// What became of a run.
#[derive(Debug)]
pub(super) struct Run {
    /// None where it was ended by force.
    pub(super) ended: Option<ExitStatus>,
    pub(super) passed: usize,
    pub(super) failed: BTreeSet<String>,
    pub(super) said: String,
}

impl Run {
    /// Whether exactly this test has failed, and nothing else went wrong; else what happened instead.
    pub(super) fn is_killed_by(&self, test: &str) -> Result<(), String> {
        let failed: Vec<&str> = self.failed.iter().map(String::as_str).collect();
        let code = self.ended.and_then(|ended| ended.code());
        match (failed.as_slice(), self.passed, code) {
            ([one], 0, Some(TESTS_FAILED)) if *one == test => Ok(()),
            ([], 0, Some(0)) => Err(format!("there is no test {test}")),
            ([], _, Some(0)) => Err(format!("it survives: {test} passes although the bug is switched on")),
            _ => Err(format!(
                "not killed by {test}, but ended with {code:?}, failed {failed:?}:\n{}",
                self.said
            )),
        }
    }
}

/// Reads a pipe to its end, beside the others: a full one would stop the child.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        drop(pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Runs tests with a bug switched on, for so long at most.
pub(super) fn run(bug: &str, arguments: &[&str], most: Duration) -> Run {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).env(DELIBERATE_BUG, bug).env_remove(ASKED_BY);
    // A group of its own: when its time is over, all that it has started ends with it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = read(child.stdout.take().unwrap());
    let errors = read(child.stderr.take().unwrap());
    let clock = SystemClock::started();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if clock.monotonic() > most {
            kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
            drop(child.wait());
            break None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let (said, errors) = (output.join().unwrap(), errors.join().unwrap());
    let lines = || said.lines().filter_map(|line| line.strip_prefix("test ")?.rsplit_once(" ... "));
    Run {
        ended,
        passed: lines().filter(|(_, word)| *word == "ok").count(),
        failed: lines().filter(|(_, word)| *word == "FAILED").map(|(name, _)| name.to_owned()).collect(),
        said: said.clone() + &errors,
    }
}
