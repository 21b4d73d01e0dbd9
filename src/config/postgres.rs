//! The address of a PostgreSQL database: one URL that may name several hosts, as libpq takes it.
//!
//! It may hold a password, so nothing here ever repeats what was written.

use std::fmt;

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use super::keys;

/// Hosts of one database, at most: a primary and its standbys.
const HOSTS: usize = 8;

/// What may stand behind the `?`.
const PARAMETERS: [&str; 6] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "statement-cache-capacity"];

/// Where a PostgreSQL database is: one URL per host, in the order in which they were written. Never prints a password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    urls: Vec<Zeroizing<String>>,
    hosts: Vec<String>,
    database: String,
}

impl PostgresAddress {
    /// Splits what follows `postgres://`.
    ///
    /// # Errors
    /// What is wrong, without a word of what was written.
    pub(super) fn parse(rest: &str) -> Result<Self, String> {
        let (before, parameters) = match rest.split_once('?') {
            Some((before, parameters)) => (before, Some(parameters)),
            None => (rest, None),
        };
        if before.contains('#') || parameters.is_some_and(|text| text.contains('#')) {
            return Err("holds a `#`; write it %23".to_owned());
        }
        let (authority, database) = before.split_once('/').ok_or_else(names_no_database)?;
        let database = decoded(database).ok_or_else(names_no_database)?;
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        if login.is_some_and(|login| login.contains('@')) {
            return Err("has an `@` in its user or password; write it %40".to_owned());
        }
        let hosts: Vec<&str> = hosts.split(',').collect();
        if hosts.len() > HOSTS {
            return Err(format!("names {} hosts; at most {HOSTS} are allowed", hosts.len()));
        }
        for host in &hosts {
            check_host(host)?;
        }
        if let Some(parameters) = parameters {
            check_parameters(parameters)?;
        }
        let behind = before.split_once('/').map_or("", |(_, behind)| behind);
        let url = |host: &&str| {
            let login = login.map(|login| format!("{login}@")).unwrap_or_default();
            let parameters = parameters.map(|text| format!("?{text}")).unwrap_or_default();
            Zeroizing::new(format!("postgres://{login}{host}/{behind}{parameters}"))
        };
        let urls = hosts.iter().map(url).collect();
        Ok(Self { urls, hosts: hosts.into_iter().map(str::to_owned).collect(), database })
    }

    /// One URL per host. They may hold a password.
    #[must_use]
    pub fn urls(&self) -> &[Zeroizing<String>] {
        &self.urls
    }
}

/// The address without user, password and parameters.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}/{}", self.hosts.join(","), self.database)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresAddress({self})")
    }
}

fn names_no_database() -> String {
    "names no database; write \"postgres://USER@HOST/DATABASE\"".to_owned()
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    (!text.is_empty() && !text.contains('/')).then(|| text.into_owned())
}

/// A name, an address, an address in brackets, or a socket's folder with `%2F` for each slash; and a port.
fn check_host(host: &str) -> Result<(), String> {
    let (name, port) = match (host.rfind(']'), host.rsplit_once(':')) {
        (None, Some((name, port))) => (name, Some(port)),
        (Some(end), Some((name, port))) if end.saturating_add(1) == name.len() => (name, Some(port)),
        (_, _) => (host, None),
    };
    if name.is_empty() {
        return Err("has an empty host; write \"postgres://USER@HOST/DATABASE\"".to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_%:[]".contains(c);
    if !name.chars().all(plain) || (name.contains(':') && !name.starts_with('[')) {
        return Err("has a host that is neither a name nor an IP address ([…] around IPv6)".to_owned());
    }
    match port.map(str::parse::<u16>) {
        None | Some(Ok(1..)) => Ok(()),
        Some(Ok(0) | Err(_)) => Err("has a port that is no number from 1 to 65535".to_owned()),
    }
}

fn check_parameters(text: &str) -> Result<(), String> {
    for pair in text.split('&') {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(format!("wants NAME=VALUE after `?`. Allowed: {}", keys::list(&PARAMETERS)));
        };
        if !PARAMETERS.contains(&name) {
            let near = keys::nearest(name, PARAMETERS.into_iter());
            let near = near.map(|word| format!("; the nearest is `{word}`")).unwrap_or_default();
            return Err(format!("has an unknown parameter{near}. Allowed: {}", keys::list(&PARAMETERS)));
        }
        let modes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
        if name == "sslmode" && !modes.contains(&value) {
            return Err(format!("has an unknown sslmode. Allowed: {}", keys::list(&modes)));
        }
        if name == "statement-cache-capacity" && value.parse::<u16>().is_err() {
            return Err("wants a whole number for statement-cache-capacity".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(rest: &str) -> Vec<String> {
        PostgresAddress::parse(rest).unwrap().urls().iter().map(|url| url.as_str().to_owned()).collect()
    }

    #[test]
    fn every_host_gets_an_address_of_its_own() {
        assert_eq!(urls("h/d"), ["postgres://h/d"]);
        assert_eq!(
            urls("u:p%40@a:1,[::1]:2,b/fence%20gate?sslmode=require&application_name=x"),
            [
                "postgres://u:p%40@a:1/fence%20gate?sslmode=require&application_name=x",
                "postgres://u:p%40@[::1]:2/fence%20gate?sslmode=require&application_name=x",
                "postgres://u:p%40@b/fence%20gate?sslmode=require&application_name=x",
            ]
        );
        assert_eq!(urls("u@%2Fvar%2Frun%2Fpostgresql/d"), ["postgres://u@%2Fvar%2Frun%2Fpostgresql/d"]);
    }

    #[test]
    fn a_password_is_never_shown() {
        let address = PostgresAddress::parse("u:secret@h:5433,i/d?sslkey=secret").unwrap();
        assert_eq!(format!("{address}"), "postgres://h:5433,i/d");
        assert!(!format!("{address:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for (rest, said) in [
            ("", "names no database"),
            ("secret", "names no database"),
            ("u:secret@h", "names no database"),
            ("u:secret@h/", "names no database"),
            ("u:secret@h/a/b", "names no database"),
            ("u:secret@/d", "empty host"),
            ("u:secret@a,,b/d", "empty host"),
            ("u:secret@:5432/d", "empty host"),
            ("u:secret@h:x/d", "no number"),
            ("u:secret@h:0/d", "no number"),
            ("u:secret@h:70000/d", "no number"),
            ("u:secret@::1/d", "neither a name"),
            ("u:secret@a b/d", "neither a name"),
            ("u:se@cret@h/d", "%40"),
            ("u:se#cret@h/d", "%23"),
            ("u@h/d?secret", "NAME=VALUE"),
            ("u@h/d?sslmod=secret", "the nearest is `sslmode`"),
            ("u@h/d?password=secret", "unknown parameter"),
            ("u@h/d?sslmode=secret", "unknown sslmode"),
            ("u@h/d?statement-cache-capacity=secret", "whole number"),
            ("a,b,c,d,e,f,g,h,secret/d", "at most 8"),
        ] {
            let problem = PostgresAddress::parse(rest).unwrap_err();
            assert!(problem.contains(said), "{rest}: {problem}");
            assert!(!problem.contains("secret"), "{rest}: {problem}");
        }
    }
}
