//! What a configuration names and does not hold: secrets and certificates, read by whoever has it parsed.

use std::path::Path;

use zeroize::Zeroizing;

/// The files and variables around a configuration. The reasons are for people and must not repeat what was read.
pub trait Outside {
    /// The bytes of a file, `most` at most.
    ///
    /// # Errors
    /// Why it cannot be read, without its path.
    fn file(&self, path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, String>;

    /// The same of a file that holds a secret, which others must not be able to read ([`exposed`]).
    ///
    /// # Errors
    /// Why it cannot be read or must not be used, without its path.
    fn secret_file(&self, path: &Path, most: u64) -> Result<Zeroizing<Vec<u8>>, String> {
        self.file(path, most).map_err(|why| format!("cannot be read: {why}"))
    }

    /// The value of an environment variable.
    ///
    /// # Errors
    /// That it is not set or not UTF-8, without its name.
    fn variable(&self, name: &str) -> Result<Zeroizing<String>, String>;
}

/// Why a file of this mode must not hold a secret; none where only its owner can do anything with it. Whoever can write it
/// could put a secret of his own there.
#[must_use]
pub fn exposed(mode: u32) -> Option<String> {
    let mode = mode & 0o7777;
    (mode & 0o077 != 0)
        .then(|| format!("has mode {mode:04o}, so others could read or change it; run: chmod 600"))
}

/// No files and no variables.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

impl Outside for Nowhere {
    fn file(&self, _: &Path, _: u64) -> Result<Zeroizing<Vec<u8>>, String> {
        Err("there are no files here".to_owned())
    }

    fn variable(&self, _: &str) -> Result<Zeroizing<String>, String> {
        Err("there are no variables here".to_owned())
    }
}
