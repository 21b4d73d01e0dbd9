//! Real issuers, started by the tests themselves and ended with them: etcd and Redis. The third one, PostgreSQL, is in
//! [`super::postgres`]. Nothing here ever speaks to a server that happens to be there.

pub(crate) mod etcd;
pub(crate) mod etcd_cluster;
pub(crate) mod missing;
pub(crate) mod programs;
pub(crate) mod redis;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::postgres::patience;
use super::postgres::watched::Watched;

/// So often another port is tried when somebody else took the one that was free.
const PORTS: usize = 5;

/// A new folder that goes with the server's watchdog.
pub(crate) fn new_folder(of: &str) -> PathBuf {
    let name = format!("fencegate-test-{of}-");
    tempfile::Builder::new().prefix(&name).tempdir().unwrap().keep()
}

/// Starts a server below a watchdog and waits until it is `ready`; `Err` with the end of its log when it ended before.
pub(crate) fn start(folder: &Path, command: &[String], ready: impl Fn() -> bool) -> Result<Watched, String> {
    let server = Watched::start(Command::new("/bin/sh"), folder, "KILL", command);
    let came = patience::blocking("a server is ready", 30, || {
        if server.has_ended() { Some(false) } else { ready().then_some(true) }
    });
    if came {
        return Ok(server);
    }
    let log = server.log();
    server.end("KILL");
    Err(log)
}

/// Starts on ports that are free; only a port that was taken meanwhile is a reason to try again.
pub(crate) fn on_free_ports<T>(mut begin: impl FnMut(&[u16]) -> Result<T, String>, ports: usize) -> T {
    let mut said = String::new();
    for _ in 0..PORTS {
        // All are held until all are known, so that no two are the same.
        let held: Vec<_> = (0..ports).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let free: Vec<u16> = held.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(held);
        match begin(&free) {
            Ok(started) => return started,
            Err(log) if log.to_lowercase().contains("address already in use") => said = log,
            Err(log) => panic!("it ended before it was ready: {log}"),
        }
    }
    panic!("no port stays free: {said}")
}

/// Whether what listens there answers this question with what is expected.
pub(crate) fn answers(port: u16, question: &str, expected: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut answer = [0; 512];
    let Ok(()) = stream.write_all(question.as_bytes()) else { return false };
    let mut said = String::new();
    while let Ok(count @ 1..) = stream.read(&mut answer) {
        said.push_str(&String::from_utf8_lossy(&answer[..count]));
        if said.contains(expected) {
            return true;
        }
    }
    false
}

/// What a command that must succeed printed, without the end of its last line.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().trim_end().to_owned()
}
