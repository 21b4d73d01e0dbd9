//! The folder below which all servers of this process keep their files, and the files that they begin with.

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::binaries::{Binaries, run};

/// Settings of every server: it is reached by TCP on loopback only, and keeps what it acknowledged (fsync stays on). After
/// a kill one call makes all of its files durable; a call for each would take seconds.
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_buffers = 32MB
max_prepared_transactions = 8
timezone = 'UTC'
lc_messages = 'C'
recovery_init_sync_method = 'syncfs'
";

/// Waits until this process is gone, then until the servers' own watchdogs have taken their folders along.
const CARETAKER: &str = r#"
read -r word
rm -rf "$1/template"
tries=0
until rmdir "$1" || [ "$tries" -ge 60 ]; do
  tries=$((tries + 1))
  sleep 0.5
done
rm -rf "$1"
"#;

/// The folder of this process.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    _caretaker: Child,
}

fn root(binaries: &Binaries) -> &'static Path {
    static ROOT: OnceLock<Root> = OnceLock::new();
    &ROOT.get_or_init(|| Root::make(binaries)).path
}

impl Root {
    fn make(binaries: &Binaries) -> Self {
        // Not below `target`: root's own folders would hide it from the user that the server runs as.
        let path =
            env::temp_dir().join(format!("fencegate-test-{}-{}", std::process::id(), &password()[..8]));
        make_folder(binaries, &path);
        let caretaker = binaries
            .as_user(Path::new("/bin/sh"))
            .args(["-c", CARETAKER, "caretaker"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { path, _caretaker: caretaker }
    }
}

/// A fresh folder for one server.
pub(super) fn new_folder(binaries: &Binaries) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let folder = root(binaries).join(COUNT.fetch_add(1, Ordering::SeqCst).to_string());
    make_folder(binaries, &folder);
    folder
}

fn make_folder(binaries: &Binaries, folder: &Path) {
    fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
    if let Some(user) = binaries.user() {
        chown(folder, Some(user.uid), Some(user.gid)).unwrap();
    }
}

/// A server's files as `initdb` leaves them, with the two roles; made once, copied for each server.
pub(super) fn template(binaries: &'static Binaries) -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| make_template(binaries))
}

fn make_template(binaries: &Binaries) -> PathBuf {
    let data = root(binaries).join("template");
    let secret = root(binaries).join("password");
    fs::write(&secret, password()).unwrap();
    if let Some(user) = binaries.user() {
        chown(&secret, Some(user.uid), Some(user.gid)).unwrap();
    }
    run(binaries
        .program("initdb")
        .args(["--no-sync", "--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=scram-sha-256"])
        .arg(format!("--pwfile={}", secret.display()))
        .arg("--pgdata")
        .arg(&data))
    .unwrap();
    fs::remove_file(&secret).unwrap();
    let settings = data.join("postgresql.conf");
    File::options().append(true).open(settings).unwrap().write_all(SETTINGS.as_bytes()).unwrap();
    // A server that serves nobody: it reads statements from its standard input.
    let mut alone = binaries
        .program("postgres")
        .args(["--single", "-D"])
        .arg(&data)
        .arg("postgres")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let role = format!("CREATE ROLE gateway LOGIN PASSWORD '{}'\n", password());
    alone.stdin.take().unwrap().write_all(role.as_bytes()).unwrap();
    assert!(alone.wait().unwrap().success());
    data
}

/// One random password for every server of this process: others on this machine must not get in.
pub(super) fn password() -> &'static str {
    static PASSWORD: OnceLock<String> = OnceLock::new();
    PASSWORD.get_or_init(|| {
        let mut bytes = [0; 16];
        File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
        let mut text = String::new();
        for byte in bytes {
            write!(text, "{byte:02x}").unwrap();
        }
        text
    })
}
