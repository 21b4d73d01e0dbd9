//! An etcd of one member.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::Programs;
use super::{answers, new_folder, on_free_ports, printed, start};
use crate::support::postgres::watched::Watched;

/// An etcd that runs; it ends, and its folder goes, with this value or with this process.
#[derive(Debug)]
pub(crate) struct Etcd {
    programs: &'static Programs,
    folder: PathBuf,
    port: u16,
    server: Watched,
}

impl Etcd {
    /// A new one that knows nothing.
    pub(crate) fn start(programs: &'static Programs) -> Self {
        Self::over(programs, new_folder("etcd"))
    }

    fn over(programs: &'static Programs, folder: PathBuf) -> Self {
        let (server, port) = on_free_ports(
            |ports| {
                let [clients, peers] = ports else { unreachable!("two ports") };
                let (clients, peers) =
                    (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
                let data = folder.join("data").display().to_string();
                let command = [
                    programs.path_of("etcd"),
                    format!("--data-dir={data}"),
                    format!("--listen-client-urls={clients}"),
                    format!("--advertise-client-urls={clients}"),
                    format!("--listen-peer-urls={peers}"),
                    format!("--initial-advertise-peer-urls={peers}"),
                    format!("--initial-cluster=default={peers}"),
                ];
                let health = "GET /health HTTP/1.0\r\n\r\n";
                let ready = || answers(ports[0], health, "\"health\":\"true\"");
                Ok((start(&folder, &command, ready)?, ports[0]))
            },
            2,
        );
        Self { programs, folder, port, server }
    }

    /// What its clients call it.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// `etcdctl` with these arguments; what it printed.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        let mut ctl = Command::new(self.programs.path_of("etcdctl"));
        ctl.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", self.endpoint()).args(arguments);
        printed(&ctl.output().unwrap())
    }

    /// Puts a key that is new; its create revision.
    pub(crate) fn create(&self, key: &str) -> String {
        self.ctl(&["put", key, ""]);
        let fields = self.ctl(&["get", key, "-w", "fields"]);
        let revision = fields.lines().find_map(|line| line.strip_prefix("\"CreateRevision\" : "));
        revision.unwrap().to_owned()
    }

    /// Keeps a copy of all that it knows.
    pub(crate) fn save(&self) -> PathBuf {
        let copy = self.folder.join("snapshot");
        self.ctl(&["snapshot", "save", copy.to_str().unwrap()]);
        copy
    }

    /// Ends, and goes on from a copy in its place: what came after the copy is forgotten.
    pub(crate) fn restored(self, copy: &Path) -> Self {
        let folder = new_folder("etcd");
        let data = folder.join("data");
        self.ctl(&["snapshot", "restore", copy.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
        let programs = self.programs;
        drop(self.server);
        Self::over(programs, folder)
    }
}
