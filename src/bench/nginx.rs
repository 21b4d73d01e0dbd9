//! nginx in front of the upstream: what a proxy costs that only passes on.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::process::{getgid, getuid};

use super::stage::{Server, command, free_address, own_program};
use super::tie::KEEPER;

/// Its temporary folders, which would else lie where only its package may write.
const FOLDERS: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// The program, where there is one; Debian's lies outside of the path of most users.
pub(super) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("nginx")).find(|program| program.is_file())
}

/// Starts it in a folder, in front of a server. A keeper ends it, since it has processes of its own that would outlive it.
pub(super) async fn start(program: &Path, home: &Path, upstream: SocketAddr) -> anyhow::Result<Server> {
    let address = free_address()?;
    let config = home.join("nginx.conf");
    fs::write(&config, configuration(home, address, upstream)).context("cannot write a configuration")?;
    let mut keeper = command(&own_program()?, home);
    // Dropping the keeper's handle must not kill it before it has ended the server.
    keeper.kill_on_drop(false).arg(KEEPER);
    keeper.args([getuid().as_raw().to_string(), getgid().as_raw().to_string()]).arg(program);
    keeper.arg("-p").arg(home).arg("-c").arg(&config).args(["-e", "stderr"]);
    Server::start(keeper, address).await
}

/// Two workers, connections that are kept to both sides for as long as a run takes, and no access log.
fn configuration(home: &Path, address: SocketAddr, upstream: SocketAddr) -> String {
    let folder = |name: &str| format!("  {name}_temp_path {}/{name};\n", home.display());
    let folders: String = FOLDERS.into_iter().map(folder).collect();
    format!(
        "worker_processes 2;\ndaemon off;\npid {home}/nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 2048; }}\n\
         http {{\n  access_log off;\n{folders}  keepalive_requests 1000000000;\n\
         \x20 upstream store {{ server {upstream}; keepalive 512; keepalive_requests 1000000000; }}\n\
         \x20 server {{\n    listen {address};\n    location / {{\n      proxy_pass http://store;\n\
         \x20     proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n}}\n",
        home = home.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_kept_and_nothing_is_logged() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = configuration(Path::new("/x"), address(1), address(2));
        for line in ["access_log off;", "listen 127.0.0.1:1;", "server 127.0.0.1:2; keepalive 512;"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
