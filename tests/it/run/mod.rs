//! `fencegate run` as scripts use it: real processes, over a real gateway or over one that a test speaks for.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock as _;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use tempfile::TempDir;

use crate::support::client::Answer;
use crate::support::gateway::{Process, binary, settings_around};

mod losing;
mod results;
mod signals;
mod terminal;
mod upstream;
mod waiting;

const RESOURCE: &str = "jobs/nightly report";

/// Above anything that a machine under load needs for one step.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder for one test, where its commands leave traces.
struct Scene {
    folder: TempDir,
}

/// A `run` on its way. It and its command end with the test.
struct Started {
    child: Child,
    folder: PathBuf,
    clock: SystemClock,
}

/// How a `run` ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
    took: Duration,
}

impl Scene {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `run` with these options over this gateway, and a shell script as its command.
    fn script(&self, base: &str, options: &[&str], script: &str) -> Started {
        self.start(base, options, &["sh", "-c", script])
    }

    /// The same with any command.
    fn start(&self, base: &str, options: &[&str], words: &[&str]) -> Started {
        let mut run = self.command(base, options, words);
        Started::of(run.stdin(Stdio::null()), self.path())
    }

    fn command(&self, base: &str, options: &[&str], words: &[&str]) -> Command {
        let mut run = with_signals(self.path(), &binary());
        run.args(["run", "--url", base, "--resource", RESOURCE]).args(options).arg("--").args(words);
        run
    }

    /// What a command has written into a file of the folder; empty where it has not.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Waits until a command has written a whole line into a file of the folder.
    fn line(&self, name: &str) -> String {
        until(name, || self.read(name).ends_with('\n'));
        self.read(name).trim_end().to_owned()
    }

    /// The process id that a command has written into a file.
    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.line(name).parse().unwrap()).unwrap()
    }
}

impl Started {
    /// Starts a command whose output goes to files: a pipe would end only with everybody who holds it.
    fn of(command: &mut Command, folder: &Path) -> Self {
        let file = |name| fs::File::create(folder.join(name)).unwrap();
        let clock = SystemClock::started();
        let child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        Self { child, folder: folder.to_owned(), clock }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until its command has become this program.
    fn becomes(&self, program: &str) {
        until(program, || {
            let names = children(self.pid()).into_iter().map(|child| format!("/proc/{child}/comm"));
            names.filter_map(|path| fs::read_to_string(path).ok()).any(|name| name.trim_end() == program)
        });
    }

    /// Time since it was started.
    fn elapsed(&self) -> Duration {
        self.clock.monotonic()
    }

    fn ended(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(self.elapsed() < PATIENCE, "it does not end; {}", self.said("err"));
            thread::sleep(Duration::from_millis(5));
        };
        let code = status.code().unwrap_or_else(|| panic!("died of signal {:?}", status.signal()));
        Ended { code, out: self.said("out"), err: self.said("err"), took: self.elapsed() }
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let children = children(self.pid());
        // Already gone is fine.
        drop(self.child.kill());
        drop(self.child.wait());
        for child in children.into_iter().filter_map(Pid::from_raw) {
            kill_process_group(child, Signal::KILL).unwrap_or_default();
        }
    }
}

/// The children of a process.
fn children(of: Pid) -> Vec<i32> {
    let of = of.as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

impl Ended {
    /// Asserts the code, and gives what was said on standard error.
    fn with(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        &self.err
    }

    /// The same, where exactly one line must say it.
    fn with_one_line(&self, code: i32) -> &str {
        let said = self.with(code);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }
}

/// A program in a folder, with nothing that surrounds the tests: no settings, and no signals that are switched off there,
/// as `nohup` and `&` do. It finds fencegate by its name.
fn with_signals(folder: &Path, program: &Path) -> Command {
    let mut env = Command::new("env");
    env.args(["--default-signal=HUP,INT,QUIT,TSTP,TTIN,TTOU"]).arg(program).current_dir(folder);
    for name in settings_around("FENC") {
        env.env_remove(name);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    env.env("PATH", format!("{}:{path}", binary().parent().unwrap().display()));
    env
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = SystemClock::started();
    while !holds() {
        assert!(clock.monotonic() < PATIENCE, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A call by an operator.
fn post(gateway: &Process, path: &str, body: &serde_json::Value) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(gateway.client().post(path, body))
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}
