//! A PostgreSQL server of one's own: made, started, stopped, killed, copied and starved by a test.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::binaries::{Binaries, run};
use super::files::{new_folder, password, template};
use super::patience;
use super::server::{Disk, SMALL, Server};

/// A server with its folder; ended, and its folder removed, when it is dropped or when this process ends.
#[derive(Debug)]
pub(crate) struct Cluster {
    binaries: &'static Binaries,
    folder: PathBuf,
    port: u16,
    password: &'static str,
    disk: Disk,
    server: Mutex<Option<Server>>,
}

impl Cluster {
    /// A fresh server with these further settings. It has a superuser `postgres` and a role `gateway`.
    pub(crate) fn start(binaries: &'static Binaries, settings: &[(&str, &str)]) -> Self {
        Self::start_on(binaries, settings, Disk::Plain)
    }

    /// The same, with a small disk besides.
    pub(crate) fn start_on(binaries: &'static Binaries, settings: &[(&str, &str)], disk: Disk) -> Self {
        let folder = new_folder(binaries);
        let (from, to) = (template(binaries), folder.join("data"));
        run(binaries.as_user(Path::new("cp")).arg("-a").arg(from).arg(to)).unwrap();
        Self::over(binaries, folder, settings, disk)
    }

    fn over(binaries: &'static Binaries, folder: PathBuf, settings: &[(&str, &str)], disk: Disk) -> Self {
        fs::create_dir_all(folder.join(SMALL)).unwrap();
        let mut text = fs::read_to_string(folder.join("data/postgresql.conf")).unwrap();
        for (name, value) in settings {
            writeln!(text, "{name} = '{value}'").unwrap();
        }
        fs::write(folder.join("data/postgresql.conf"), text).unwrap();
        let port = free_port();
        let cluster = Self { binaries, folder, port, password: password(), disk, server: Mutex::new(None) };
        cluster.begin();
        cluster
    }

    /// A streaming copy of this server, that follows it under this name.
    pub(crate) fn standby(&self, name: &str, settings: &[(&str, &str)]) -> Self {
        let folder = self.base_backup(name, &["--write-recovery-conf"]);
        Self::over(self.binaries, folder, settings, Disk::Plain)
    }

    /// A base backup of this server as it is now, to be begun later, when this one has ended.
    pub(crate) fn copied(&self) -> Self {
        let (binaries, folder) = (self.binaries, self.base_backup("backup", &[]));
        fs::create_dir_all(folder.join(SMALL)).unwrap();
        let (port, password, disk) = (free_port(), self.password, Disk::Plain);
        Self { binaries, folder, port, password, disk, server: Mutex::new(None) }
    }

    fn base_backup(&self, name: &str, more: &[&str]) -> PathBuf {
        let folder = new_folder(self.binaries);
        let source = format!(
            "host=127.0.0.1 port={} user=postgres password={} application_name={name}",
            self.port, self.password
        );
        run(self
            .binaries
            .program("pg_basebackup")
            .args(["--checkpoint=fast", "--wal-method=stream", "--no-password", "--no-sync"])
            .args(more)
            .arg("--dbname")
            .arg(source)
            .arg("--pgdata")
            .arg(folder.join("data")))
        .unwrap();
        folder
    }

    /// Keeps a copy of its files as they are; it must be stopped.
    pub(crate) fn keep_files(&self) {
        self.copy_files("data", "kept");
    }

    /// Puts the copy in the place of its files; it must be stopped.
    pub(crate) fn restore_files(&self) {
        run(self.binaries.as_user(Path::new("rm")).arg("-rf").arg(self.folder.join("data"))).unwrap();
        self.copy_files("kept", "data");
    }

    fn copy_files(&self, from: &str, to: &str) {
        assert!(self.server.lock().unwrap().is_none(), "it runs");
        let (from, to) = (self.folder.join(from), self.folder.join(to));
        run(self.binaries.as_user(Path::new("cp")).arg("-a").arg(from).arg(to)).unwrap();
    }

    /// From now on this role may give its password as it is: for a test's own pooler, which knows no better way.
    pub(crate) async fn take_plain_passwords(&self, role: &str) {
        let rules = self.folder.join("data/pg_hba.conf");
        let others = fs::read_to_string(&rules).unwrap();
        fs::write(&rules, format!("host all {role} 127.0.0.1/32 password\n{others}")).unwrap();
        self.tell(&["SELECT pg_reload_conf()"]).await;
    }

    /// Starts it, on the port that it always had.
    pub(crate) fn begin(&self) {
        let mut server = self.server.lock().unwrap();
        assert!(server.is_none(), "it runs already");
        // After a kill -9 what is left of the old one may hold memory or port for a moment.
        *server = Some(patience::blocking("a server starts", 60, || {
            Server::start(self.binaries, &self.folder, self.port, self.disk)
                .map_err(|log| self.expected(&log))
                .ok()
        }));
    }

    /// Only what is left of a killed server is a reason to try again.
    fn expected(&self, log: &str) {
        let passing = ["pre-existing shared memory block", "Address already in use", "lock file"];
        assert!(passing.iter().any(|reason| log.contains(reason)), "{}: {log}", self.folder.display());
    }

    /// Ends it in good order; connections are closed.
    pub(crate) fn stop(&self) {
        self.take().stop();
    }

    /// kill -9 of all its processes.
    pub(crate) fn kill(&self) {
        self.take().kill();
    }

    /// Stops (`STOP`) or resumes (`CONT`) all its processes.
    pub(crate) fn signal_all(&self, signal: Signal) {
        self.server.lock().unwrap().as_ref().unwrap().signal_all(signal);
    }

    /// No file that its processes write may become larger than this; none lifts that. The processes that it starts later
    /// have the limit of the first one.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        // What stands before the colon is the limit in force; the greatest one that may be set stays.
        let limit = format!("--fsize={}:", bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string()));
        let processes = self.server.lock().unwrap().as_ref().unwrap().processes();
        for (place, process) in processes.iter().enumerate() {
            // Only the user that they run as may do it, or a root that was not deprived of that.
            let mut command = self.binaries.as_user(Path::new("prlimit"));
            let done = run(command.arg("--pid").arg(process.as_raw_nonzero().to_string()).arg(&limit));
            // One that ended by itself meanwhile is fine, but the first.
            assert!(done.is_ok() || place > 0, "{done:?}");
        }
    }

    fn take(&self) -> Server {
        self.server.lock().unwrap().take().expect("it runs")
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) const fn binaries(&self) -> &'static Binaries {
        self.binaries
    }

    /// Where its small disk is.
    pub(crate) fn small_disk(&self) -> PathBuf {
        self.folder.join(SMALL)
    }

    pub(crate) fn url(&self, database: &str) -> String {
        self.url_of("gateway", self.port, database)
    }

    pub(crate) fn admin_url(&self, database: &str) -> String {
        self.url_of("postgres", self.port, database)
    }

    /// A database of this server through something that stands before it.
    pub(crate) fn url_through(&self, port: u16, database: &str) -> String {
        self.url_of("gateway", port, database)
    }

    fn url_of(&self, role: &str, port: u16, database: &str) -> String {
        format!("postgres://{role}:{}@127.0.0.1:{port}/{database}", self.password)
    }

    pub(crate) const fn password(&self) -> &'static str {
        self.password
    }

    /// A connection of the superuser to a database, by default to the server's own.
    pub(crate) async fn admin(&self, database: &str) -> PgConnection {
        PgConnection::connect(&self.admin_url(database)).await.unwrap()
    }

    /// Statements of the superuser, each by itself.
    pub(crate) async fn tell(&self, statements: &[&str]) {
        let mut connection = self.admin("postgres").await;
        for statement in statements {
            connection
                .execute(AssertSqlSafe((*statement).to_owned()))
                .await
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        connection.close().await.unwrap();
    }

    /// An empty database that belongs to the role `gateway`.
    pub(crate) async fn create_database(&self, name: &str) {
        self.tell(&[&format!("CREATE DATABASE {name} OWNER gateway")]).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let running = self.server.get_mut().map(Option::take);
        drop(running);
        // A server that was stopped has left its folder.
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
