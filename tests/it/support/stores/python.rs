//! The Python that runs the examples and moto.

use std::process::Command;
use std::sync::OnceLock;

/// The interpreter itself, not a script that looks for it: it is ended by its process id.
pub(crate) fn interpreter() -> Result<&'static str, &'static str> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    FOUND.get_or_init(look).as_ref().map(String::as_str).map_err(String::as_str)
}

fn look() -> Result<String, String> {
    let remedy = "python3 is missing or older than 3.9 (Debian: apt-get install python3)";
    let question = "import sys; assert sys.version_info >= (3, 9); print(sys.executable)";
    let said = Command::new("python3").args(["-c", question]).output();
    match said {
        Ok(said) if said.status.success() => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
        Ok(said) => Err(format!("{remedy}: {}", String::from_utf8_lossy(&said.stderr))),
        Err(error) => Err(format!("{remedy}: {error}")),
    }
}
