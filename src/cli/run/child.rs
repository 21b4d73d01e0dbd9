//! The command as a process, and the process group that it is the first of.

use std::ffi::OsString;
use std::io;
use std::iter;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, test_kill_process_group, wait,
};

use super::launch::LAUNCH;

/// What to start.
pub(super) struct Command {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    /// What it finds in its environment; `None` is taken away from it.
    pub(super) exports: Vec<(&'static str, Option<String>)>,
}

/// A command that was started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Child {
    /// Its process id, and the id of its group.
    pid: Pid,
}

impl Command {
    /// Starts it in a process group of its own, with the standard streams of this process. The token goes by the
    /// environment: everybody can read a command line, and only its owner an environment.
    pub(super) fn start(self) -> io::Result<Child> {
        adopt_orphans();
        let mut command = process::Command::new(this_program()?);
        command.arg0("fencegate").arg(LAUNCH).arg(getpid().as_raw_nonzero().to_string()).args(self.words);
        for (name, value) in self.exports {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.process_group(0).spawn()?;
        Ok(Child { pid: Pid::from_child(&child) })
    }
}

impl Child {
    /// Its process id, and that of its group.
    pub(super) const fn pid(self) -> Pid {
        self.pid
    }

    /// Sends a signal to every process of its group. That there may be none any more is for the caller to see.
    pub(super) fn signal(self, signal: Signal) {
        kill_process_group(self.pid, signal).unwrap_or_default();
    }

    /// Whether no process of its group is left, not even one that nobody has waited for yet.
    pub(super) fn is_gone(self) -> bool {
        test_kill_process_group(self.pid) == Err(Errno::SRCH)
    }
}

/// The children that ended or stopped since the last look, orphans of the command included: whoever is the first process
/// of a container must wait for everybody's.
pub(super) fn changed() -> impl Iterator<Item = (Pid, WaitStatus)> {
    iter::from_fn(|| wait(WaitOptions::NOHANG | WaitOptions::UNTRACED).ok().flatten())
}

/// The code that a shell gives for such an end. `None`: it has only stopped.
pub(super) fn code_of(status: WaitStatus) -> Option<u8> {
    let ended = status.exit_status();
    let code = ended.or_else(|| status.terminating_signal().map(|signal| signal.saturating_add(128)))?;
    Some(u8::try_from(code).unwrap_or(u8::MAX))
}

/// This very program, also when a newer one has taken its name since it was started.
#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "on other systems it can fail")]
fn this_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

/// This program by its name.
#[cfg(not(target_os = "linux"))]
fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Makes this process the one that waits for what the command leaves behind. Otherwise a group could look alive for as
/// long as somebody else does not get round to it.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // Where it is not allowed, the first process of the system waits for them.
    rustix::process::set_child_subreaper(Some(getpid())).unwrap_or_default();
}

/// Other systems have no such wish.
#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}
