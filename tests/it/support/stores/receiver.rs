//! The receivers of `examples/receiver`, each in a process of its own that can be killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;

use super::etcd_adapter::Keys;
use super::python;
use crate::support::client::Client;
use crate::support::issuers::new_folder;
use crate::support::postgres::patience;
use crate::support::postgres::watched::Watched;

/// What keeps the positions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Sqlite,
    Etcd,
}

/// An effect as the receiver's own store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The how-manieth of its resource.
    pub(crate) number: u64,
    /// Epoch and token.
    pub(crate) position: (u64, u64),
    pub(crate) operation: String,
}

/// A receiver that runs; it ends, and what it keeps goes, with this value or with this process.
#[derive(Debug)]
pub(crate) struct Receiver {
    folder: PathBuf,
    /// None for SQLite, which is in the folder.
    keys: Option<Keys>,
    server: Option<Watched>,
    base: String,
}

impl Receiver {
    /// A new one that knows nothing. None where what it needs is not here and the tests may pass all the same; `test` is
    /// the name under which they are listed.
    pub(crate) fn start(kind: Kind, test: &str) -> Option<Self> {
        let keys = match kind {
            Kind::Sqlite => None,
            Kind::Etcd => Some(Keys::fresh(test)?),
        };
        let folder = new_folder("receiver");
        let mut receiver = Self { folder, keys, server: None, base: String::new() };
        receiver.begin();
        Some(receiver)
    }

    fn begin(&mut self) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/receiver");
        let (script, further) = match &self.keys {
            None => ("receiver.py", vec!["--database".into(), self.database().display().to_string()]),
            Some(keys) => ("etcd_adapter.py", keys.arguments()),
        };
        let python = python::interpreter().unwrap();
        let mut command = vec![python.to_owned(), "-B".into(), examples.join(script).display().to_string()];
        command.extend(["--port".into(), "0".into()]);
        command.extend(further);
        let log = self.folder.join("log");
        // It writes below what the one before it wrote.
        let before = fs::read_to_string(&log).unwrap_or_default().len();
        let server = Watched::start(Command::new("/bin/sh"), &self.folder, "KILL", &command);
        self.base = patience::blocking("the receiver listens", 30, || {
            assert!(!server.has_ended(), "{}", server.log());
            let said = fs::read_to_string(&log).unwrap_or_default();
            let line = said.get(before..)?.lines().find_map(|line| line.strip_prefix("listening on "))?;
            line.strip_suffix('/').map(str::to_owned)
        });
        self.server = Some(server);
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.server.take().expect("it runs").end("KILL");
    }

    /// A start over what is left; it listens elsewhere.
    pub(crate) fn start_again(&mut self) {
        self.begin();
    }

    /// A signal that does not end it, such as STOP and CONT.
    pub(crate) fn signal(&self, signal: Signal) {
        self.server.as_ref().expect("it runs").signal_all(signal);
    }

    /// Where it listens on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.base.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.base.clone())
    }

    /// Its address, without a slash at the end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The id of its process, which runs.
    pub(crate) fn pid(&self) -> i32 {
        self.server.as_ref().expect("it runs").pid().as_raw_nonzero().get()
    }

    /// Where it keeps everything, with SQLite.
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join("receiver.db")
    }

    /// Every effect on a resource, in order, out of its own store and not out of its mouth.
    pub(crate) fn log(&self, resource: &str) -> Vec<Effect> {
        let mut effects = match &self.keys {
            None => self.rows(resource),
            Some(keys) => keys.effects(resource),
        };
        effects.sort_by_key(|effect| effect.number);
        effects
    }

    fn rows(&self, resource: &str) -> Vec<Effect> {
        let db = Connection::open_with_flags(self.database(), OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        let sql = "SELECT effect, epoch, token, operation FROM operations WHERE resource = ? AND effect > 0";
        let mut statement = db.prepare(sql).unwrap();
        let number = |row: &rusqlite::Row<'_>, column| row.get::<_, i64>(column).unwrap().unsigned_abs();
        let rows = statement.query_map([resource], |row| {
            let position = (number(row, 1), number(row, 2));
            Ok(Effect { number: number(row, 0), position, operation: row.get(3)? })
        });
        rows.unwrap().map(Result::unwrap).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.server.is_none() {
            // It was killed and not started again: nobody else removes its folder.
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}
