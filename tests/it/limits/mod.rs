//! What is let through, seen from the other end of a socket: bounds of connections, heads and bodies, rates, quotas, and
//! what remains of a gateway under more than it can do.

mod overload;
mod quotas;
mod sockets;
mod table;

use std::path::Path;

use fencegate::config::{Config, FileText, Flags, Nowhere, Sources, Variables};

/// A configuration out of a text.
fn config(text: &str) -> Config {
    let file = Some(FileText { path: Path::new("limits.toml"), text });
    let (variables, flags) = (Variables::new(), Flags::default());
    let sources = Sources { file, variables: &variables, flags: &flags, outside: &Nowhere };
    Config::parse(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}
