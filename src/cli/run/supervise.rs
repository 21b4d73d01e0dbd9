//! The time in which the command runs.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::child::{self, Child};
use super::renew::{self, Loss};
use super::signals::{Signals, Told};
use super::tenure::Tenure;
use super::terminal::{self, Terminal};
use crate::app::WakefulClock;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::limits::{RUN_KILL_PATIENCE, RUN_LOOK};

/// How it ended.
pub(super) enum Ended {
    /// The command came to its end, with this code.
    Itself(u8),
    /// The lease was lost.
    Lost {
        /// Why.
        loss: Loss,
        /// No process of the command's group is left.
        gone: bool,
    },
}

/// The command, and what it shares with this process.
struct Stage<'a> {
    child: Child,
    signals: &'a mut Signals,
    terminal: Option<Terminal>,
    /// The command's code, once it has ended.
    code: Option<u8>,
}

/// Keeps the lease for as long as the command runs, and stops the command when the lease is lost.
pub(super) async fn supervise(
    child: Child,
    client: &Client,
    clock: &WakefulClock,
    tenure: &Tenure,
    grace: Duration,
    signals: &mut Signals,
) -> Ended {
    let mut stage = Stage { child, signals, terminal: Terminal::open(), code: None };
    let ended = tokio::select! {
        biased;
        code = stage.plays() => Ended::Itself(code),
        loss = renew::until_lost(client, clock, tenure) => {
            Ended::Lost { loss, gone: false }
        }
    };
    // Where both came while this process was stopped, the command's own end was the first.
    stage.look();
    let ended = match (ended, stage.code) {
        (Ended::Itself(code), _) | (Ended::Lost { .. }, Some(code)) => Ended::Itself(code),
        (Ended::Lost { loss, gone: _ }, None) => Ended::Lost { loss, gone: stage.clear(grace).await },
    };
    if let Some(terminal) = &mut stage.terminal {
        terminal.take_back();
    }
    ended
}

impl Stage<'_> {
    /// Passes signals on until the command has ended.
    async fn plays(&mut self) -> u8 {
        loop {
            self.look();
            if let Some(code) = self.code {
                return code;
            }
            self.hear().await;
        }
    }

    /// Ends every process of the command's group: asks, and after the grace kills. `false`: something is left.
    async fn clear(&mut self, grace: Duration) -> bool {
        self.child.signal(Signal::TERM);
        // A stopped process would see neither.
        self.child.signal(Signal::CONT);
        if timeout(grace, self.is_cleared()).await.is_ok() {
            return true;
        }
        self.child.signal(Signal::KILL);
        timeout(RUN_KILL_PATIENCE, self.is_cleared()).await.is_ok()
    }

    /// Waits until nobody is left. What the command started may outlive it, and may be nobody's child here.
    async fn is_cleared(&mut self) {
        loop {
            self.look();
            if self.child.is_gone() {
                return;
            }
            tokio::select! {
                () = self.hear() => {}
                () = sleep(RUN_LOOK) => {}
            }
        }
    }

    async fn hear(&mut self) {
        match self.signals.told().await {
            Told::Children => self.look(),
            Told::Forward(signal) => self.child.signal(signal),
            Told::Pause => {
                self.child.signal(Signal::TSTP);
                self.pause();
            }
            Told::Resumed => self.resume(),
        }
    }

    /// Waits for all that has ended, and serves a command that stopped at the terminal.
    fn look(&mut self) {
        for (pid, status) in child::changed() {
            if pid != self.child.pid() {
                continue;
            }
            if let Some(code) = child::code_of(status) {
                self.code = Some(code);
            } else if let Some(signal) = status.stopping_signal() {
                self.stopped(signal);
            }
        }
    }

    fn stopped(&mut self, signal: i32) {
        let Some(terminal) = &mut self.terminal else { return };
        let needs_it = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()].contains(&signal);
        if needs_it && terminal.lend(self.child) {
            self.child.signal(Signal::CONT);
        } else if needs_it || signal == Signal::TSTP.as_raw() {
            self.pause();
        }
    }

    /// Stops together with the command, and goes on together with it.
    fn pause(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
        terminal::stop_here();
        self.resume();
    }

    fn resume(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.resume(self.child);
        }
        self.child.signal(Signal::CONT);
    }
}

impl Ended {
    /// Whether the lease was lost.
    pub(super) const fn is_lost(&self) -> bool {
        match self {
            Self::Itself(_) => false,
            Self::Lost { .. } => true,
        }
    }

    /// Whether the gateway may still take this process for the owner, and it can be told otherwise without harm.
    pub(super) const fn may_be_held(&self) -> bool {
        match self {
            Self::Itself(_) => true,
            Self::Lost { loss, gone } => *gone && matches!(loss, Loss::Late(_)),
        }
    }

    /// The exit code, or what is said about the loss.
    pub(super) fn told(self, tenure: &Tenure) -> Result<u8, Failure> {
        match self {
            Self::Itself(code) => Ok(code),
            Self::Lost { loss, gone } => {
                let rest = if gone { "" } else { "; some of its processes do not end" };
                let names = tenure.names();
                Err(Failure::OwnershipLost(format!("lost {names}, the command was stopped{rest}: {loss}")))
            }
        }
    }
}
