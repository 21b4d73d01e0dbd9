//! One running server below a watchdog: a shell that reads from a pipe which this process holds. When the pipe closes,
//! however the process ended, the shell ends the server by its process id and removes its folder.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::binaries::Binaries;
use super::patience;

/// `$1` is the folder, the rest the server's command. A word on the pipe is the signal that ends the server and leaves
/// the folder; the end of the pipe ends it at once and takes the folder along.
const WATCHDOG: &str = r#"
folder=$1
shift
"$@" </dev/null >>"$folder/log" 2>&1 &
server=$!
echo "$server"
exec >/dev/null 2>&1
if read -r word; then
  kill -s "$word" "$server"
  wait "$server"
else
  kill -s CONT "$server"
  kill -s QUIT "$server"
  wait "$server"
  rm -rf "$folder"
fi
"#;

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    watchdog: Child,
    pipe: Option<ChildStdin>,
    pid: Pid,
    folder: PathBuf,
}

impl Server {
    /// Starts a server over `folder/data`; `Err` with the end of its log when it ended before it was ready.
    pub(crate) fn start(binaries: &Binaries, folder: &Path, port: u16) -> Result<Self, String> {
        let mut watchdog = binaries
            .as_user(Path::new("/bin/sh"))
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder)
            .arg(binaries.path_of("postgres"))
            .arg("-D")
            .arg(folder.join("data"))
            .args(["-p", &port.to_string()])
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
        let mut server = Self { watchdog, pipe, pid, folder: folder.to_owned() };
        let ready = patience::blocking("a server is ready", 60, || server.state());
        if ready { Ok(server) } else { Err(server.gone()) }
    }

    /// Whether it is ready; false when it has ended, None as long as it starts.
    fn state(&mut self) -> Option<bool> {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = file.lines().map(str::trim).collect();
        let ours = lines.first().is_some_and(|first| *first == self.pid.as_raw_nonzero().to_string());
        if ours && lines.get(7).is_some_and(|state| ["ready", "standby"].contains(state)) {
            return Some(true);
        }
        let running = rustix::process::test_kill_process(self.pid).is_ok();
        // Between its end and the shell's `wait` it is a zombie, which can be signalled.
        (!running || self.is_zombie()).then_some(false)
    }

    fn is_zombie(&self) -> bool {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    }

    /// Ends the shell of a server that has ended, and gives what the server said.
    fn gone(mut self) -> String {
        self.say("QUIT");
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.lines().rev().take(8).collect::<Vec<_>>().join("\n")
    }

    /// Ends it in good order, without waiting for clients.
    pub(crate) fn stop(mut self) {
        self.say("INT");
    }

    /// kill -9 of every process of it at one moment: the server itself cannot end anything in good order.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::STOP);
        for child in self.children() {
            // One that ended by itself meanwhile is fine.
            kill_process(child, Signal::KILL).unwrap_or_default();
        }
        self.signal(Signal::KILL);
        self.say("KILL");
    }

    /// A signal to the server's first process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// A signal to every process of the server, the first one first.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let children = self.children();
        self.signal(signal);
        for child in children {
            kill_process(child, signal).unwrap_or_default();
        }
    }

    /// The processes that it started.
    pub(crate) fn children(&self) -> Vec<Pid> {
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

    /// Its first process.
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    fn say(&mut self, word: &str) {
        if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(format!("{word}\n").as_bytes()).unwrap();
        }
        self.watchdog.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            // Nobody said a word: the folder goes too.
            drop(pipe);
            drop(self.watchdog.wait());
        }
    }
}
