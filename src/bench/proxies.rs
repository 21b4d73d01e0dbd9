//! The proxies in one round: the upstream itself, nginx and the gateway in front of it, cell beside cell.
//!
//! All of them run at once and only one is asked at a time, so that what is divided by each other was measured within
//! seconds.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

use super::OPPONENT;
use super::cells::{Key, Kind, Way};
use super::nginx;
use super::request::Workload;
use super::rounds::Rounds;
use super::stage::{Server, free_address, own_program, tied};
use super::templates;

/// Connections of forwarded writes, at most; the goals speak of no more.
const MOST_FORWARDS: u64 = 64;

/// Starts the trivial upstream.
pub(super) async fn upstream(folder: &Path) -> anyhow::Result<Server> {
    let address = free_address()?;
    let mut peer = tied(&own_program()?, folder)?;
    peer.args([OPPONENT, "--store", "upstream", "--listen", &address.to_string()]);
    Server::start(peer, address).await
}

impl Rounds<'_> {
    /// Reads and writes through each of them.
    pub(super) async fn proxies(&mut self, round: u32) -> anyhow::Result<()> {
        let upstream = upstream(self.folder.path()).await?;
        let home = self.folder.copy(&self.templates.gateway_upstream, "cell")?;
        let gateway = templates::gateway_before(&home, upstream.address, self.plan.log.as_deref()).await?;
        let nginx = self.nginx(upstream.address).await?;
        let mut servers = vec![(Way::Upstream, upstream), (Way::GatewayUpstream, gateway)];
        servers.extend(nginx.map(|server| (Way::Nginx, server)));
        let resources = self.plan.resources;
        let reads = (Kind::Read, Workload::Read { resources }, u64::MAX);
        let forwards = (Kind::Forward, Workload::Distinct { resources }, MOST_FORWARDS);
        for (kind, workload, most) in [reads, forwards] {
            for at in self.plan.connections.clone().into_iter().filter(|at| *at <= most) {
                for (way, server) in &servers {
                    self.cell(Key::new(*way, kind, at), round, server, workload, None).await?;
                }
                servers.rotate_left(1);
            }
        }
        // The upstream ends last: a proxy in front of nothing would say so.
        servers.sort_by_key(|(way, _)| *way == Way::Upstream);
        for (_, server) in servers {
            server.stop().await?;
        }
        Ok(())
    }

    async fn nginx(&self, upstream: SocketAddr) -> anyhow::Result<Option<Server>> {
        let Some(program) = nginx::program() else { return Ok(None) };
        let home = self.folder.fresh("nginx")?;
        nginx::start(&program, &home, upstream).await.context("cannot start nginx").map(Some)
    }
}
