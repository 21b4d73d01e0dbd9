//! The two addresses of a gateway: where it listens and where its database is.

use std::net::SocketAddr;

use super::Database;
use super::given::Given;
use super::mistake::Mistakes;
use super::postgres::PostgresAddress;

/// Said of every database address that is none.
const FORMS: &str = "write \"sqlite://PATH\", \"postgres://USER@HOST/DATABASE\" or \"memory\"";

/// Reads `listen`: an IP address and a port.
pub(super) fn listen(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<SocketAddr> {
    let text = given.text(mistakes)?;
    let Ok(address) = text.parse::<SocketAddr>() else {
        given.wrong(
            mistakes,
            format!(
                "{text:?} is not an IP address and a port; write one such as 127.0.0.1:8080 or [::1]:8080"
            ),
        );
        return None;
    };
    Some(address)
}

/// Reads `database`.
pub(super) fn database(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Database> {
    let text = given.text(mistakes)?;
    if text == "memory" {
        return Some(Database::Memory);
    }
    let problem = match text.split_once("://") {
        Some(("postgres" | "postgresql", rest)) => match PostgresAddress::parse(rest) {
            Ok(address) => return Some(Database::Postgres(address)),
            Err(problem) => problem,
        },
        Some(("sqlite", "")) => format!("names no file; {FORMS}"),
        Some(("sqlite", ":memory:")) => {
            "write \"memory\" for a database that is forgotten at the end".to_owned()
        }
        Some(("sqlite", path)) if path.ends_with('/') => format!("{path:?} is a folder; name a file in it"),
        Some(("sqlite", path)) if path.contains('?') => {
            "takes no parameters; remove what follows `?`".to_owned()
        }
        Some(("sqlite", path)) => return Some(Database::Sqlite(given.origin.base().join(path))),
        // What follows an unknown scheme may hold a password.
        Some((scheme, _)) => format!("{scheme:?} is not known; {FORMS}"),
        None => format!("{text:?} is not a database address; {FORMS}"),
    };
    given.wrong(mistakes, problem);
    None
}
