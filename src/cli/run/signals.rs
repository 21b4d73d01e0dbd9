//! The signals that are passed on to the command.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// What `run` hears of and passes on; to the name of each, whether it asks for the end.
const FORWARDED: [(Signal, &str, bool); 7] = [
    (Signal::TERM, "TERM", true),
    (Signal::INT, "INT", true),
    (Signal::HUP, "HUP", true),
    (Signal::QUIT, "QUIT", true),
    (Signal::USR1, "USR1", false),
    (Signal::USR2, "USR2", false),
    (Signal::WINCH, "WINCH", false),
];

/// All that is told to this process by signals.
pub(super) struct Signals {
    forwarded: Vec<(Signal, unix::Signal)>,
    /// A child ended or stopped.
    children: unix::Signal,
    /// This process goes on after a stop.
    resumed: unix::Signal,
    /// Ctrl-Z at the terminal.
    paused: Option<unix::Signal>,
}

/// What was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// To be passed on.
    Forward(Signal),
    /// Look at the children.
    Children,
    /// This process was stopped and goes on.
    Resumed,
    /// This process is asked to stop for a while.
    Pause,
}

impl Signals {
    /// Listens from now on. A signal that whoever started this had switched off stays so, for the command too: that is
    /// how `nohup` works.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let heard = |signal: Signal| !is_in(ignored, signal);
        let open = |signal: Signal| unix::signal(SignalKind::from_raw(signal.as_raw()));
        let forwarded = FORWARDED.iter().map(|(signal, ..)| *signal).filter(|signal| heard(*signal));
        Ok(Self {
            forwarded: forwarded.map(|signal| Ok((signal, open(signal)?))).collect::<io::Result<_>>()?,
            children: signal(SignalKind::child())?,
            resumed: open(Signal::CONT)?,
            paused: if heard(Signal::TSTP) { Some(open(Signal::TSTP)?) } else { None },
        })
    }

    /// The next thing that is told.
    pub(super) async fn told(&mut self) -> Told {
        poll_fn(|context| {
            if self.children.poll_recv(context).is_ready() {
                return Poll::Ready(Told::Children);
            }
            for (signal, stream) in &mut self.forwarded {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(Told::Forward(*signal));
                }
            }
            if self.resumed.poll_recv(context).is_ready() {
                return Poll::Ready(Told::Resumed);
            }
            match self.paused.as_mut().map(|paused| paused.poll_recv(context)) {
                Some(Poll::Ready(_)) => Poll::Ready(Told::Pause),
                Some(Poll::Pending) | None => Poll::Pending,
            }
        })
        .await
    }

    /// The next signal that asks for the end. Others are dropped: there is nobody yet to pass them on to.
    pub(super) async fn ending(&mut self) -> Signal {
        loop {
            match self.told().await {
                Told::Forward(signal) if ends(signal) => return signal,
                Told::Pause => super::terminal::stop_here(),
                Told::Forward(_) | Told::Children | Told::Resumed => {}
            }
        }
    }
}

/// Its name without SIG.
pub(super) fn name(signal: Signal) -> &'static str {
    FORWARDED.iter().find(|(known, ..)| *known == signal).map_or("a signal", |(_, name, _)| name)
}

fn ends(signal: Signal) -> bool {
    FORWARDED.iter().any(|(known, _, ends)| *known == signal && *ends)
}

/// The signals that are switched off in a process, one bit each, as Linux shows its state. Where nothing is shown,
/// none is.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn is_in(mask: u64, signal: Signal) -> bool {
    let place = u32::try_from(signal.as_raw().saturating_sub(1)).unwrap_or(u32::MAX);
    mask.checked_shr(place).is_some_and(|shifted| shifted & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switched_off_signals_are_read_from_the_state_of_the_process() {
        let mask = ignored("Name:\tx\nSigBlk:\t00000000000000ff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert!(is_in(mask, Signal::HUP));
        assert!(is_in(mask, Signal::PIPE));
        assert!(!is_in(mask, Signal::INT));
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn signals_that_ask_for_the_end_have_names() {
        assert_eq!((name(Signal::TERM), ends(Signal::TERM)), ("TERM", true));
        assert_eq!((name(Signal::WINCH), ends(Signal::WINCH)), ("WINCH", false));
    }
}
