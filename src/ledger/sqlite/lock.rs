//! One process per file: a lock on a file beside the database, held for life.
//!
//! SQLite itself lets several processes write by turns, and each would answer from a clock and a log of its own. The
//! lock is the operating system's, so it ends with the process however that ends; the file stays and means nothing.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::open::OpenError;

/// Readable and writable by its owner alone.
const OWNER_ONLY: u32 = 0o600;

/// The lock; dropping it gives the database free.
#[derive(Debug)]
pub(super) struct FileLock {
    /// Held, never read: the lock lives as long as the open file.
    _file: File,
}

impl FileLock {
    /// Takes the lock that belongs to a database file, at once or not at all. The path must be canonical: two names
    /// of one file would be two locks.
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_path(database);
        let fail = |error: io::Error| OpenError::File { path: path.clone(), reason: error.to_string() };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(OWNER_ONLY)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file);
                return Err(OpenError::Locked { path: database.to_owned(), lock: path, holder });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail)?;
        Ok(Self { _file: file })
    }
}

/// Creates the database file for its owner alone, unless there is one, and gives its canonical path.
pub(super) fn create(path: &Path) -> Result<PathBuf, OpenError> {
    let fail = |error: io::Error| OpenError::File { path: path.to_owned(), reason: error.to_string() };
    // A file that exists is never opened here: closing it would drop SQLite's own locks on it in this process.
    match OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path) {
        Ok(file) => {
            file.sync_all().map_err(fail)?;
            let path = path.canonicalize().map_err(fail)?;
            if let Some(folder) = path.parent() {
                File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail)?;
            }
            Ok(path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => path.canonicalize().map_err(fail),
        Err(error) => Err(fail(error)),
    }
}

/// The canonical path of a database file that must be there.
pub(super) fn existing(path: &Path) -> Result<PathBuf, OpenError> {
    path.canonicalize().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            OpenError::Missing { path: path.to_owned() }
        } else {
            OpenError::File { path: path.to_owned(), reason: error.to_string() }
        }
    })
}

/// The canonical path of a database file that may be missing; its folder must be there.
pub(super) fn place(path: &Path) -> Result<PathBuf, OpenError> {
    if path.exists() {
        return existing(path);
    }
    let fail = |reason: String| OpenError::File { path: path.to_owned(), reason };
    let name = path.file_name().ok_or_else(|| fail("it names no file".to_owned()))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    Ok(folder.canonicalize().map_err(|error| fail(error.to_string()))?.join(name))
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(".lock");
    PathBuf::from(name)
}

/// The process that wrote its number into the lock file, for people.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
