//! Where the servers are. An address may hold a password, which is never printed.

use std::fmt;
use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::open::OpenError;

/// How an address says that no prepared statements are to be kept.
const NO_STATEMENTS: &str = "statement-cache-capacity=0";

/// Name under which connections appear in `pg_stat_activity`, unless the address gives another one.
const APPLICATION: &str = "fencegate";

/// One or several servers of one database: a primary and its standbys, in no particular order.
#[derive(Clone)]
pub struct Address {
    hosts: Vec<Host>,
}

#[derive(Clone)]
pub(super) struct Host {
    /// For people: without user and password.
    pub(super) name: String,
    pub(super) options: PgConnectOptions,
    /// A pooler may stand in between, so that two messages outside a transaction reach two servers: the address says
    /// so by keeping no prepared statements.
    pub(super) is_pooled: bool,
}

impl Address {
    /// Reads one address per server: `postgres://user:password@host:port/database?parameter=value`.
    ///
    /// # Errors
    /// [`OpenError::Address`] says which one cannot be read, without repeating it.
    pub fn of(urls: &[impl AsRef<str>]) -> Result<Self, OpenError> {
        let mut hosts = Vec::with_capacity(urls.len());
        for (index, url) in urls.iter().enumerate() {
            // The error of the parser may repeat what it read.
            let Ok(options) = PgConnectOptions::from_str(url.as_ref()) else {
                return Err(OpenError::Address { number: index.saturating_add(1) });
            };
            let options = match options.get_application_name() {
                Some(_) => options,
                None => options.application_name(APPLICATION),
            };
            // No float is ever sent or read, and a pooler may refuse the parameter.
            let options = options.extra_float_digits(None).disable_statement_logging();
            let is_pooled = url.as_ref().contains(NO_STATEMENTS);
            hosts.push(Host { name: name(&options), options, is_pooled });
        }
        if hosts.is_empty() {
            return Err(OpenError::Address { number: 1 });
        }
        Ok(Self { hosts })
    }

    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.hosts.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(&host.name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

fn name(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or("");
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}
