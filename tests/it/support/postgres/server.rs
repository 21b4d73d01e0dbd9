//! One running server.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal};

use super::binaries::Binaries;
use super::patience;
use super::watched::Watched;

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server(Watched);

impl Server {
    /// Starts a server over `folder/data`; `Err` with the end of its log when it ended before it was ready.
    pub(crate) fn start(binaries: &Binaries, folder: &Path, port: u16, disk: Disk) -> Result<Self, String> {
        let mut command: Vec<OsString> = match disk {
            Disk::Plain => Vec::new(),
            Disk::Small => binaries.on_a_small_disk(&folder.join(SMALL)),
        };
        command.extend([binaries.path_of("postgres").into(), "-D".into(), folder.join("data").into()]);
        command.extend(["-p".into(), port.to_string().into()]);
        let shell = match disk {
            Disk::Plain => binaries.as_user(Path::new("/bin/sh")),
            Disk::Small => Binaries::as_ourselves(Path::new("/bin/sh")),
        };
        let server = Self(Watched::start(shell, folder, "QUIT", &command));
        let ready = patience::blocking("a server is ready", 60, || server.state());
        if ready { Ok(server) } else { Err(server.gone()) }
    }

    /// Whether it is ready; false when it has ended, None as long as it starts.
    fn state(&self) -> Option<bool> {
        let file = fs::read_to_string(self.0.folder().join("data/postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = file.lines().map(str::trim).collect();
        let ours = lines.first().is_some_and(|first| *first == self.0.pid().as_raw_nonzero().to_string());
        if ours && lines.get(7).is_some_and(|state| ["ready", "standby"].contains(state)) {
            return Some(true);
        }
        self.0.has_ended().then_some(false)
    }

    fn gone(self) -> String {
        let log = self.0.log();
        self.0.end("QUIT");
        log
    }

    /// Ends it in good order, without waiting for clients.
    pub(crate) fn stop(self) {
        self.0.end("INT");
    }

    /// kill -9 of every process of it at one moment: the server itself cannot end anything in good order.
    pub(crate) fn kill(self) {
        self.0.signal_all(Signal::STOP);
        self.0.signal_all(Signal::KILL);
        self.0.end("KILL");
    }

    /// Its processes, the first one first.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        self.0.all()
    }

    /// A signal to every process of the server.
    pub(crate) fn signal_all(&self, signal: Signal) {
        self.0.signal_all(signal);
    }
}

/// The folder of a server's small disk.
pub(crate) const SMALL: &str = "small";

/// Where a server may put things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Where its files are.
    Plain,
    /// On a file system of 64 MiB besides, for a tablespace that can be filled.
    Small,
}
