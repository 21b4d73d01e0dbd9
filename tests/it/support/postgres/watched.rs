//! A process below a watchdog: a shell that reads from a pipe which this process holds. When the pipe closes, however
//! the tests ended, the shell ends the process by its id and removes its folder.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// `$1` is the folder, `$2` the signal that ends the process at once, the rest the command. A word on the pipe is the signal that ends the process and leaves the
/// folder; the end of the pipe ends it at once and takes the folder along.
const WATCHDOG: &str = r#"
folder=$1
last=$2
shift 2
"$@" </dev/null >>"$folder/log" 2>&1 &
watched=$!
echo "$watched"
exec >/dev/null 2>&1
if read -r word; then
  kill -s "$word" "$watched"
  wait "$watched"
else
  kill -s CONT "$watched"
  kill -s "$last" "$watched"
  wait "$watched"
  rm -rf "$folder"
fi
"#;

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Watched {
    watchdog: Child,
    pipe: Option<ChildStdin>,
    pid: Pid,
    folder: PathBuf,
}

impl Watched {
    /// Starts `command` below `shell`, which is `/bin/sh` as the user that it is to run as. It writes to `folder/log`, and
    /// the signal `last` ends it at once.
    pub(crate) fn start<S: AsRef<OsStr>>(
        mut shell: Command,
        folder: &Path,
        last: &str,
        command: &[S],
    ) -> Self {
        let mut watchdog = shell
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder)
            .arg(last)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A Ctrl-C for the tests must not reach the watchdog: it has work to do then.
            .process_group(0)
            .spawn()
            .unwrap();
        let pipe = watchdog.stdin.take();
        let mut line = String::new();
        BufReader::new(watchdog.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        Self { watchdog, pipe, pid, folder: folder.to_owned() }
    }

    /// Sends the signal that ends it, and waits until it has ended.
    pub(crate) fn end(mut self, signal: &str) {
        if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(format!("{signal}\n").as_bytes()).unwrap();
        }
        self.watchdog.wait().unwrap();
    }

    /// What it has said last.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(8).collect();
        last.join("\n")
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it has ended. Until the shell hears of that it is a zombie, which can still be signalled.
    pub(crate) fn has_ended(&self) -> bool {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('Z'))
    }

    /// It, and the processes that it started.
    pub(crate) fn all(&self) -> Vec<Pid> {
        let mut all = self.children();
        all.insert(0, self.pid);
        all
    }

    /// A signal to it and to every process that it started, it first.
    pub(crate) fn signal_all(&self, signal: Signal) {
        for process in self.all() {
            // One that ended by itself meanwhile is fine.
            kill_process(process, signal).unwrap_or_default();
        }
    }

    /// The processes that it started.
    fn children(&self) -> Vec<Pid> {
        let parent = self.pid.as_raw_nonzero().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // Behind the name in parentheses: state, parent.
            let of = stat.rsplit(')').next().unwrap_or_default().split_whitespace().nth(1);
            if of == Some(parent.as_str()) {
                found.extend(Pid::from_raw(pid));
            }
        }
        found
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            // Nobody said a word: the folder goes too.
            drop(pipe);
            drop(self.watchdog.wait());
        }
    }
}
