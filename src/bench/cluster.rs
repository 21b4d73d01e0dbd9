//! A PostgreSQL server of this run's own: made in its folder, on loopback, safe against power loss, and gone at the end.
//!
//! PostgreSQL refuses to run as root, so root gives it to another user. A keeper stands between: a process that ends
//! the server in good order when it is told to, and also when the bench is killed.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, getgid, getuid, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::stage::{Folder, command, free_address, own_program};
use super::tie::KEEPER;
use crate::limits::BENCH_STEP_TIMEOUT;

/// Variable that names the folder with the programs of PostgreSQL.
const PROGRAMS_VARIABLE: &str = "FENCEGATE_POSTGRES_BIN";

/// Settings of the server. What makes a commit durable stays as it is by default; the rest gives it room, so that no
/// checkpoint by size falls into one cell and not into another, and lets it use the files of its log again instead of
/// making new ones, as one does that has run for a while.
const SETTINGS: [&str; 10] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=400",
    "shared_buffers=256MB",
    "min_wal_size=2GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=15min",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
];

/// The folder with the programs of PostgreSQL: the named one, where `PATH` has them, or Debian's newest.
///
/// # Errors
/// When there is none; also when the named one lacks them, since another server than the wanted one is none.
pub(crate) fn programs() -> anyhow::Result<PathBuf> {
    let has_them = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    if let Some(named) = std::env::var_os(PROGRAMS_VARIABLE).filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        if !has_them(&named) {
            bail!("{PROGRAMS_VARIABLE}: {} lacks initdb or postgres", named.display());
        }
        return Ok(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    debian.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        std::cmp::Reverse(version.and_then(|name| name.parse::<u32>().ok()))
    });
    let found = std::env::split_paths(&path).chain(debian).find(has_them);
    found.with_context(|| {
        format!(
            "no programs of PostgreSQL are in PATH or in /usr/lib/postgresql: install them (Debian: postgresql), or name \
             their folder in {PROGRAMS_VARIABLE}"
        )
    })
}

/// Who owns the server: nobody else, or for root a user without rights.
#[derive(Debug, Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

/// The user that a PostgreSQL server runs as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUser(Option<Owner>);

/// Whoever may run a PostgreSQL server here.
pub(crate) fn server_user() -> anyhow::Result<ServerUser> {
    owner().map(ServerUser)
}

impl ServerUser {
    /// Gives it a folder.
    pub(crate) fn own(self, folder: &Path) -> anyhow::Result<()> {
        let Some(Owner { uid, gid }) = self.0 else { return Ok(()) };
        chown(folder, Some(uid), Some(gid)).context("cannot give the server its folder")
    }

    /// Lets a command run as it.
    pub(crate) fn runs(self, command: &mut Command) {
        as_owner(command, self.0);
    }

    /// What a keeper takes: user and group.
    pub(crate) fn ids(self) -> [String; 2] {
        let Owner { uid, gid } = self.0.unwrap_or(Owner { uid: getuid().as_raw(), gid: getgid().as_raw() });
        [uid.to_string(), gid.to_string()]
    }
}

/// A running server.
pub(super) struct Cluster {
    keeper: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Cluster {
    /// Makes and starts one.
    pub(super) async fn start(programs: &Path, folder: &Folder) -> anyhow::Result<Self> {
        let user = server_user()?;
        let home = folder.fresh("postgres")?;
        user.own(&home)?;
        let data = home.join("data");
        let mut initdb = command(&programs.join("initdb"), &home);
        initdb.args([
            "--username=fencegate",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-instructions",
        ]);
        initdb.arg("--pgdata").arg(&data);
        user.runs(&mut initdb);
        let made = timeout(BENCH_STEP_TIMEOUT, initdb.output()).await.context("initdb does not end")?;
        let made = made.context("cannot run initdb")?;
        if !made.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        }
        let address = free_address()?;
        let log = fs::File::create(home.join("log")).context("cannot make the server's log")?;
        let mut keeper = command(&own_program()?, &home);
        // Dropping the keeper's handle must not kill it before it has ended the server.
        keeper.kill_on_drop(false).arg(KEEPER);
        keeper.args(user.ids()).arg(programs.join("postgres"));
        keeper.arg("-D").arg(&data).args(["-p", &address.port().to_string()]);
        for setting in SETTINGS {
            keeper.args(["-c", setting]);
        }
        let keeper =
            keeper.stdout(log.try_clone()?).stderr(log).spawn().context("cannot start the server")?;
        Ok(Self { keeper, address })
    }

    /// Ends it: open transactions are rolled back.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(pid) = pid(&self.keeper) {
            kill_process(pid, Signal::TERM).context("cannot end the server")?;
        }
        timeout(BENCH_STEP_TIMEOUT, self.keeper.wait()).await.context("the server does not end")??;
        Ok(())
    }
}

/// The process that was started, while it is not waited for.
pub(super) fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

fn as_owner(command: &mut Command, owner: Option<Owner>) {
    if let Some(Owner { uid, gid }) = owner {
        command.uid(uid).gid(gid);
    }
}

/// For root, the user `postgres` or `nobody`; for others, themselves.
fn owner() -> anyhow::Result<Option<Owner>> {
    if !getuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let named = |name: &str| users.lines().find_map(|line| user(line, name));
    let owner = named("postgres").or_else(|| named("nobody"));
    Ok(Some(owner.context("PostgreSQL does not run as root, and there is no user postgres or nobody")?))
}

fn user(line: &str, name: &str) -> Option<Owner> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    let uid = fields.nth(1)?.parse().ok()?;
    Some(Owner { uid, gid: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name() {
        let found = user("postgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash", "postgres").unwrap();
        assert_eq!((found.uid, found.gid), (101, 104));
        assert!(user("postgres2:x:1:2::/:/bin/sh", "postgres").is_none());
    }
}
