//! Filled databases, made once in a run and copied for each cell, and the gateway that serves one of them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio::process::Command;

use super::load::Known;
use super::stage::{Folder, Server, free_address, own_program, tied};
use super::{Plan, peer, preload, proxies, raw};

/// The configuration of every gateway here.
const NAMESPACES: &str = "\
seal_key_file = \"fencegate.key\"

[namespaces.bench]
policy = \"ordered\"
contract = \"observed\"
issuer = { external = \"trusted\" }

[namespaces.hot]
policy = \"session\"
contract = \"observed\"
issuer = { external = \"trusted\" }
scope = 1
";

/// For the overload: what is written, and leases that are kept meanwhile.
const OVERLOADED: &str = "\
seal_key_file = \"fencegate.key\"

[namespaces.bench]
policy = \"ordered\"
contract = \"observed\"
issuer = { external = \"trusted\" }

[namespaces.kept]
";

/// The same resources with an upstream behind them. Every write is admitted, so it is sent once and recorded twice.
fn behind_http(upstream: SocketAddr) -> String {
    format!(
        "seal_key_file = \"fencegate.key\"\n\n[namespaces.bench]\npolicy = \"ordered\"\ncontract = \"observed\"\n\
         issuer = {{ external = \"trusted\" }}\nstore = {{ http = \"http://{upstream}/\", class = \"idempotent\", probe = false }}\n"
    )
}

/// The file of a gateway's database.
pub(super) const SQLITE_FILE: &str = "fencegate.db";

/// The file of a gateway's configuration.
const CONFIG: &str = "fencegate.toml";

/// Where the filled databases are.
#[derive(Debug, Default)]
pub(super) struct Templates {
    /// A folder with the hand-made SQLite file.
    pub(super) by_hand: PathBuf,
    /// A folder with the gateway's SQLite file and key.
    pub(super) gateway_sqlite: PathBuf,
    /// The hand-made database of the PostgreSQL server.
    pub(super) by_hand_postgres: String,
    /// A folder with the SQLite file and key of the gateway in front of an upstream.
    pub(super) gateway_upstream: PathBuf,
    /// The gateway's, where there is a server.
    pub(super) gateway_postgres: Option<OnPostgres>,
}

/// A gateway's database on a PostgreSQL server, and the folder with its key.
#[derive(Debug)]
pub(super) struct OnPostgres {
    pub(super) home: PathBuf,
    pub(super) database: String,
}

/// Fills what the embedded ways need.
pub(super) async fn fill_sqlite(plan: &Plan, folder: &Folder, made: &mut Templates) -> anyhow::Result<()> {
    made.by_hand = folder.fresh("by-hand")?;
    let file = made.by_hand.join(peer::DATABASE);
    let resources = plan.resources;
    tokio::task::spawn_blocking(move || raw::fill(&file, resources)).await.context("interrupted")??;
    made.gateway_sqlite = folder.fresh("gateway-sqlite")?;
    fill_gateway(plan, &made.gateway_sqlite, &sqlite(&made.gateway_sqlite)).await
}

/// Lets a gateway fill a database through its own door.
pub(super) async fn fill_gateway(plan: &Plan, home: &Path, database: &str) -> anyhow::Result<()> {
    let server = gateway(home, database, Some("warn")).await?;
    let targets = plan.connections.iter().copied().max().unwrap_or(1);
    preload::fill(server.address, plan.resources, targets).await?;
    server.stop().await
}

/// Fills what the gateway in front of an upstream needs: by forwarding, since no batch is taken there.
pub(super) async fn fill_upstream(plan: &Plan, folder: &Folder, made: &mut Templates) -> anyhow::Result<()> {
    made.gateway_upstream = folder.fresh("gateway-upstream")?;
    let upstream = proxies::upstream(folder.path()).await?;
    let server = gateway_before(&made.gateway_upstream, upstream.address, Some("warn")).await?;
    preload::forward(server.address, plan.resources).await?;
    server.stop().await?;
    upstream.stop().await
}

/// What a gateway calls a SQLite file in its folder.
pub(super) fn sqlite(home: &Path) -> String {
    format!("sqlite://{}", home.join(SQLITE_FILE).display())
}

/// Starts a gateway on a database, with its key beside its configuration.
pub(super) async fn gateway(home: &Path, database: &str, log: Option<&str>) -> anyhow::Result<Server> {
    serve(tied(&own_program()?, home)?, &configure(home, database, NAMESPACES)?, log).await
}

/// Starts a gateway on an empty SQLite file, with a namespace for leases beside that of the load.
pub(super) async fn overloaded(home: &Path, log: Option<&str>) -> anyhow::Result<Server> {
    serve(tied(&own_program()?, home)?, &configure(home, &sqlite(home), OVERLOADED)?, log).await
}

/// Starts a gateway on SQLite in front of an upstream.
pub(super) async fn gateway_before(
    home: &Path,
    upstream: SocketAddr,
    log: Option<&str>,
) -> anyhow::Result<Server> {
    let config = configure(home, &sqlite(home), &behind_http(upstream))?;
    serve(tied(&own_program()?, home)?, &config, log).await
}

/// The same under strace, which writes every flush down with its time and file.
pub(super) async fn traced(
    home: &Path,
    database: &str,
    strace: &Path,
    trace: &Path,
) -> anyhow::Result<Server> {
    let mut program = tied(strace, home)?;
    // Only the traced calls stop the process (--seccomp-bpf), so that it runs at nearly its own speed.
    program.args(["-f", "--seccomp-bpf", "-ttt", "-y", "-e", "trace=fsync,fdatasync", "-o"]);
    program.arg(trace).arg(own_program()?);
    serve(program, &configure(home, database, NAMESPACES)?, None).await.map(Server::behind_another)
}

/// Starts a gateway on a SQLite file, for callers that are known by something; `further` says who they are.
pub(super) async fn guarded(
    home: &Path,
    further: &str,
    known: Known,
    log: Option<&str>,
) -> anyhow::Result<Server> {
    let config = configure(home, &sqlite(home), &format!("{NAMESPACES}{further}"))?;
    serve_behind(known, tied(&own_program()?, home)?, &config, log).await
}

async fn serve(program: Command, config: &Path, log: Option<&str>) -> anyhow::Result<Server> {
    serve_behind(Known::default(), program, config, log).await
}

async fn serve_behind(
    known: Known,
    mut serve: Command,
    config: &Path,
    log: Option<&str>,
) -> anyhow::Result<Server> {
    let address = free_address()?;
    serve.arg("--config").arg(config).args(["serve", "--listen", &address.to_string()]);
    if let Some(log) = log {
        serve.env("FENCEGATE_LOG", log);
    }
    Server::start_behind(known, serve, address).await
}

fn configure(home: &Path, database: &str, namespaces: &str) -> anyhow::Result<PathBuf> {
    let config = home.join(CONFIG);
    let text = format!("database = \"{database}\"\n{namespaces}");
    fs::write(&config, text).context("cannot write a configuration")?;
    Ok(config)
}
