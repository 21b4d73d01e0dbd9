//! Text to [`Config`]: the file, the `FENCEGATE_…` variables and the flags.
//!
//! All mistakes are told at once, each with its place, its key, what is allowed and what was probably meant. Nothing
//! is read from the surroundings here: the caller passes the texts in. A later source overwrites an earlier one: the
//! defaults, then the file, then variables, then flags; a mistake counts wherever it stands.

mod database;
mod draft;
mod file;
mod given;
mod jwt;
mod keys;
mod limits;
mod mistake;
mod origin;
mod outside;
mod postgres;
mod principals;
mod settle;
mod store;
mod tls;
mod tracing;
mod variables;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::access::Principal;
use crate::access::jwt::JwtSettings;
use crate::domain::namespaces::Namespaces;
use crate::domain::resource::Namespace;
use crate::domain::store::HttpStore;
use crate::domain::time::Millis;
use crate::tls::TlsSettings;

pub use self::tracing::Tracing;
pub use limits::Limits;
pub use mistake::{Mistake, Mistakes, Place};
pub use origin::FileText;
pub use outside::{Nowhere, Outside, exposed};
pub use postgres::PostgresAddress;
pub use variables::Variables;

/// The port where none is configured.
pub const DEFAULT_PORT: u16 = 8080;

/// The file that is read when none is named, if it exists.
pub const DEFAULT_FILE: &str = "fencegate.toml";

/// What every name of a variable of ours begins with.
pub const VARIABLE_PREFIX: &str = "FENCEGATE_";

/// Everything that a gateway needs to know before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where it listens; beyond loopback only with credentials.
    pub listen: SocketAddr,
    /// Where its records are.
    pub database: Database,
    /// Connections to a PostgreSQL server, at most.
    pub max_connections: u32,
    /// Where its seal keys are.
    pub seal_key: KeySource,
    /// The file that knows how far the database had come; none where it is switched off, and for one that is forgotten.
    pub witness: Option<PathBuf>,
    /// Largest body in bytes, where a namespace says nothing else.
    pub max_body_bytes: u64,
    /// How long records of operations and control calls, audit lines and tombstones are kept.
    pub operation_retention: Millis,
    /// Where spans go; none where nobody collects them.
    pub tracing: Option<Tracing>,
    /// What is logged, in the syntax of `tracing_subscriber::EnvFilter`.
    pub log: String,
    /// How long a gateway that is told to stop goes on as before, and says that it is not ready.
    pub drain_delay: Millis,
    /// How long what is under way may take after that.
    pub drain_timeout: Millis,
    /// The namespaces and their rules.
    pub namespaces: Namespaces,
    /// The upstreams, by the namespaces whose effects go there.
    pub stores: BTreeMap<Namespace, HttpStore>,
    /// How much is let through.
    pub limits: Limits,
    /// Who may do what; without anybody, everybody on this machine may do everything.
    pub principals: Vec<Principal>,
    /// Whose tokens are taken.
    pub jwt: Option<JwtSettings>,
    /// How the listener speaks TLS.
    pub tls: Option<TlsSettings>,
    /// Whether credentials may cross a network without TLS, because something in front of the gateway speaks it.
    pub plaintext: bool,
}

/// Where the records are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// In a file.
    Sqlite(PathBuf),
    /// On a PostgreSQL server, which several gateways may share.
    Postgres(PostgresAddress),
    /// In this process, and forgotten at its end.
    Memory,
}

/// Where the seal keys are.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file, which is made for a new database.
    File(PathBuf),
    /// In `FENCEGATE_SEAL_KEY`.
    Inline(Zeroizing<String>),
}

/// Never prints a key.
impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(_) => f.write_str("Inline(…)"),
        }
    }
}

/// Flags of the command line that stand for keys of the file.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--listen`.
    pub listen: Option<String>,
    /// `--database`.
    pub database: Option<String>,
    /// `--seal-key-file`.
    pub seal_key_file: Option<String>,
}

/// All that a configuration is made of. It may hold secrets and is therefore not printable.
pub struct Sources<'a> {
    /// The file, where there is one.
    pub file: Option<FileText<'a>>,
    /// The variables that begin with [`VARIABLE_PREFIX`].
    pub variables: &'a Variables,
    /// The flags.
    pub flags: &'a Flags,
    /// The files and variables that hold what the texts only name: secrets and certificates.
    pub outside: &'a dyn Outside,
}

impl Config {
    /// Reads a configuration. Without any source it is a gateway on loopback with SQLite beside it and any namespace.
    ///
    /// # Errors
    /// [`Mistakes`] with all of them.
    pub fn parse(sources: &Sources<'_>) -> Result<Self, Mistakes> {
        let mut draft = draft::Draft::default();
        let mut mistakes = Mistakes::default();
        if let Some(file) = sources.file {
            file::take(file, &mut draft, &mut mistakes);
        }
        variables::take(sources.variables, &mut draft, &mut mistakes);
        let Flags { listen, database, seal_key_file } = sources.flags;
        let flags = [
            ("--listen", "listen", listen),
            ("--database", "database", database),
            ("--seal-key-file", "seal_key_file", seal_key_file),
        ];
        for (flag, key, text) in flags {
            if let Some(text) = text {
                variables::take_flag(flag, key, text, &mut draft, &mut mistakes);
            }
        }
        let base = sources.file.and_then(|file| file.path.parent()).unwrap_or_else(|| Path::new(""));
        let config = settle::settle(&draft, base, sources.outside, &mut mistakes);
        if mistakes.is_empty() { Ok(config) } else { Err(mistakes) }
    }
}

#[cfg(test)]
mod tests;
