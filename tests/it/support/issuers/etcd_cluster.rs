//! An etcd of three members, of which one can be killed.

use std::path::PathBuf;
use std::process::Command;

use super::programs::Programs;
use super::{answers, new_folder, on_free_ports, printed};
use crate::support::postgres::patience;
use crate::support::postgres::watched::Watched;

/// Three members; they end, and their folders go, with this value or with this process.
#[derive(Debug)]
pub(crate) struct Cluster {
    programs: &'static Programs,
    /// Its port for clients, and the server while it runs.
    members: Vec<(u16, Option<Watched>)>,
}

impl Cluster {
    /// A new one that knows nothing and has a leader.
    pub(crate) fn start(programs: &'static Programs) -> Self {
        let folders: Vec<PathBuf> = (0..3).map(|_| new_folder("etcd")).collect();
        let members = on_free_ports(
            |ports| {
                let (clients, peers) = ports.split_at(3);
                let address = |port: &u16| format!("http://127.0.0.1:{port}");
                let all: Vec<String> =
                    peers.iter().enumerate().map(|(at, port)| format!("m{at}={}", address(port))).collect();
                let mut members = Vec::new();
                for (at, folder) in folders.iter().enumerate() {
                    let (client, peer) = (address(&clients[at]), address(&peers[at]));
                    let command = [
                        programs.path_of("etcd"),
                        format!("--name=m{at}"),
                        format!("--data-dir={}", folder.join(format!("data-{}", clients[at])).display()),
                        format!("--listen-client-urls={client}"),
                        format!("--advertise-client-urls={client}"),
                        format!("--listen-peer-urls={peer}"),
                        format!("--initial-advertise-peer-urls={peer}"),
                        format!("--initial-cluster={}", all.join(",")),
                        "--heartbeat-interval=50".to_owned(),
                        "--election-timeout=500".to_owned(),
                    ];
                    let server = Watched::start(Command::new("/bin/sh"), folder, "KILL", &command);
                    members.push((clients[at], Some(server)));
                }
                let ended = |members: &[(u16, Option<Watched>)]| {
                    members
                        .iter()
                        .flat_map(|(_, server)| server)
                        .find(|server| server.has_ended())
                        .map(Watched::log)
                };
                let log = patience::blocking("three members have a leader", 30, || {
                    let healthy = members.iter().all(|(port, _)| is_healthy(*port));
                    if healthy { Some(None) } else { ended(&members).map(Some) }
                });
                match log {
                    None => Ok(members),
                    Some(log) => Err(log),
                }
            },
            6,
        );
        Self { programs, members }
    }

    /// `etcdctl` at one member, with these arguments; what it printed.
    fn ctl(&self, port: u16, arguments: &[&str]) -> String {
        let mut ctl = Command::new(self.programs.path_of("etcdctl"));
        ctl.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", format!("http://127.0.0.1:{port}"));
        printed(&ctl.args(arguments).output().unwrap())
    }

    fn running(&self) -> impl Iterator<Item = u16> {
        self.members.iter().filter(|(_, server)| server.is_some()).map(|(port, _)| *port)
    }

    /// Puts a key that is new, at any member that runs; its create revision.
    pub(crate) fn create(&self, key: &str) -> String {
        let port = self.running().last().unwrap();
        self.ctl(port, &["put", key, ""]);
        let fields = self.ctl(port, &["get", key, "-w", "fields"]);
        let revision = fields.lines().find_map(|line| line.strip_prefix("\"CreateRevision\" : "));
        revision.unwrap().to_owned()
    }

    /// Kills the leader, and waits until the others have another.
    pub(crate) fn kill_the_leader(&mut self) {
        let leads = |port: u16| {
            let status = self.ctl(port, &["endpoint", "status", "-w", "json"]);
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let own = &status[0]["Status"];
            own["leader"] == own["header"]["member_id"]
        };
        let leader = self.running().find(|port| leads(*port)).unwrap();
        let member = self.members.iter_mut().find(|(port, _)| *port == leader).unwrap();
        member.1.take().unwrap().end("KILL");
        patience::blocking("the others have a leader", 30, || self.running().all(is_healthy).then_some(()));
    }
}

fn is_healthy(port: u16) -> bool {
    answers(port, "GET /health HTTP/1.0\r\n\r\n", "\"health\":\"true\"")
}
