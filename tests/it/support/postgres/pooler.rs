//! `PgBouncer` in transaction mode before a server: each transaction may run on another of its few connections.

use std::env;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use super::cluster::{Cluster, free_port};
use super::files::new_folder;
use super::patience;
use super::watched::Watched;
use crate::support::programs::is_program;

/// A pooler that runs; it ends with this value.
pub(crate) struct Pooler {
    pub(crate) port: u16,
    _process: Watched,
}

/// Where the program is; what stands in the way otherwise.
pub(crate) fn program() -> Result<PathBuf, &'static str> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut programs = folders.map(|folder| folder.join("pgbouncer"));
    programs
        .find(|program| is_program(program))
        .ok_or("pgbouncer is missing (Debian: apt-get install pgbouncer)")
}

impl Pooler {
    /// Before this server, with so many connections to it per database.
    pub(crate) fn before(cluster: &Cluster, program: &Path, connections: u32) -> Self {
        let binaries = cluster.binaries();
        let folder = new_folder(binaries);
        let (port, server) = (free_port(), cluster.port());
        let users = folder.join("users");
        let settings = folder.join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 200\n\
             ignore_startup_parameters = extra_float_digits\n",
            users.display()
        );
        std::fs::write(&settings, text).unwrap();
        std::fs::write(&users, format!("\"gateway\" \"{}\"\n", cluster.password())).unwrap();
        if let Some(user) = binaries.user() {
            for file in [&settings, &users] {
                chown(file, Some(user.uid), Some(user.gid)).unwrap();
            }
        }
        let shell = binaries.as_user(Path::new("/bin/sh"));
        let process = Watched::start(shell, &folder, "TERM", &[program, &settings]);
        patience::blocking("the pooler listens", 10, || {
            assert!(!process.has_ended(), "{}", process.log());
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Self { port, _process: process }
    }
}
