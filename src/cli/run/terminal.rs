//! The terminal, which belongs to one process group at a time.
//!
//! The command has a group of its own, so that all of it can be stopped and nothing else is. It is not made the
//! foreground group at its start: in `fencegate run … | less` the reader beside it would lose the keyboard, and Ctrl-C
//! would no longer reach the script around it. So `run` stays in front and passes signals on. A command that reads from
//! the terminal is stopped by the kernel (SIGTTIN, or SIGTTOU when it changes settings); then `run` gives the terminal to
//! it and lets it go on, and the read begins again. What reads while `run` itself is in the background stops together
//! with `run`, as any job does.
//!
//! While `run` is stopped by Ctrl-Z nothing renews. It notices when it goes on, and stops a command whose lease ended.

use std::fs::File;

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::child::Child;

/// The terminal that controls this process.
pub(super) struct Terminal {
    file: File,
    home: Pid,
    /// The command has asked for it, and gets it whenever this group has it.
    wanted: bool,
    /// It was given away and is to be taken back.
    given: bool,
}

impl Terminal {
    /// `None`: there is none, as under cron.
    pub(super) fn open() -> Option<Self> {
        let file = File::open("/dev/tty").ok()?;
        Some(Self { file, home: getpgrp(), wanted: false, given: false })
    }

    /// The command stopped because it needs the terminal. `false`: it is not this group's to give.
    pub(super) fn lend(&mut self, child: Child) -> bool {
        self.wanted = true;
        self.resume(child)
    }

    /// This process goes on after a stop: perhaps in front again. `true`: the command has the terminal.
    pub(super) fn resume(&mut self, child: Child) -> bool {
        if self.wanted && tcgetpgrp(&self.file) == Ok(self.home) {
            self.given |= tcsetpgrp(&self.file, child.pid()).is_ok();
        }
        tcgetpgrp(&self.file) == Ok(child.pid())
    }

    /// Takes it back from the command, for whoever comes after it.
    pub(super) fn take_back(&mut self) {
        if !std::mem::take(&mut self.given) {
            return;
        }
        // A process in the background that takes the terminal is stopped for it, unless it blocks that signal.
        let mut stopping = SigSet::empty();
        stopping.add(Blocked::SIGTTOU);
        if stopping.thread_block().is_ok() {
            // A terminal that has hung up has no foreground any more.
            tcsetpgrp(&self.file, self.home).unwrap_or_default();
            stopping.thread_unblock().unwrap_or_default();
        }
    }
}

/// Stops this process as the terminal would. The kernel does nothing where nobody could ever let it go on.
pub(super) fn stop_here() {
    kill_process(getpid(), Signal::TTIN).unwrap_or_default();
}
