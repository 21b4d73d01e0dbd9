//! A Redis.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::programs::Programs;
use super::{answers, new_folder, on_free_ports, printed, start};
use crate::support::postgres::watched::Watched;

/// What it knows after a kill.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeps {
    /// Each write is on disk before it is answered.
    Everything,
    /// As Redis is out of the box when it is killed between two snapshots.
    Nothing,
}

/// A Redis that runs; it ends, and its folder goes, with this value or with this process.
#[derive(Debug)]
pub(crate) struct Redis {
    programs: &'static Programs,
    folder: PathBuf,
    keeps: Keeps,
    port: u16,
    server: Mutex<Option<Watched>>,
}

impl Redis {
    pub(crate) fn start(programs: &'static Programs, keeps: Keeps) -> Self {
        let folder = new_folder("redis");
        let (server, port) = on_free_ports(
            |ports| {
                Ok((
                    start(&folder, &command(programs, &folder, keeps, ports[0]), || is_up(ports[0]))?,
                    ports[0],
                ))
            },
            1,
        );
        Self { programs, folder, keeps, port, server: Mutex::new(Some(server)) }
    }

    /// What its clients call it.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// `redis-cli` with these arguments; what it printed.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let mut cli = Command::new(self.programs.path_of("redis-cli"));
        printed(&cli.args(["-u", &self.url()]).args(arguments).output().unwrap())
    }

    /// kill -9, and a start over what is left.
    pub(crate) fn killed_and_started(&self) {
        let mut server = self.server.lock().unwrap();
        server.take().expect("it runs").end("KILL");
        let command = command(self.programs, &self.folder, self.keeps, self.port);
        *server = Some(start(&self.folder, &command, || is_up(self.port)).unwrap());
    }
}

fn command(programs: &Programs, folder: &Path, keeps: Keeps, port: u16) -> Vec<String> {
    let log = match keeps {
        Keeps::Everything => "yes",
        Keeps::Nothing => "no",
    };
    let (port, folder, server) =
        (port.to_string(), folder.display().to_string(), programs.path_of("redis-server"));
    let settings = ["--bind", "127.0.0.1", "--save", "", "--appendfsync", "always", "--appendonly", log];
    let mut command: Vec<String> = vec![server, "--port".into(), port, "--dir".into(), folder];
    command.extend(settings.map(str::to_owned));
    command
}

fn is_up(port: u16) -> bool {
    answers(port, "PING\r\n", "+PONG")
}
