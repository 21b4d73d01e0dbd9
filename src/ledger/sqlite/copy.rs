//! Copies of a ledger: a consistent one beside whoever writes, verified and synced before it has its name.
//!
//! What is copied is only ever read, through SQLite itself: the bytes of a file that is written to are no database.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use uuid::Uuid;

use crate::domain::counter::{Epoch, LedgerSeq};

use super::super::cells::ReadCells;
use super::fault::Fault;
use super::lock;
use super::open::{self, OpenError};
use super::values::{each, first};
use super::{schema, settings};

/// Readable and writable by its owner alone: a copy holds every document, and what tokens are made of.
const OWNER_ONLY: u32 = 0o600;

/// Epochs of the namespaces; each has a copy in every bucket.
const EPOCHS: &str = "SELECT namespace, epoch FROM namespaces WHERE bucket = 0 ORDER BY namespace";

/// The epoch of namespaces that were never used, in a database that has one.
const EVERYWHERE: &str = "SELECT epoch FROM everywhere WHERE bucket = 0";
const HAS_EVERYWHERE: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'everywhere'";

/// Why there is no copy. Nothing that stood before was changed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// What is to be copied, or what stands in its place, cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file exists.
    #[error("{} exists and is not overwritten; give another name", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be made, renamed or synced.
    #[error("{} cannot be used: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// SQLite finds the copy broken.
    #[error("{} is not a sound copy: {reason}", path.display())]
    Unsound {
        /// The file.
        path: PathBuf,
        /// What SQLite finds.
        reason: String,
    },
    /// The task that did it ended.
    #[error("it was not done to its end: {0}")]
    Ended(String),
}

impl CopyError {
    pub(super) fn file(path: &Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), reason: error.to_string() }
    }
}

/// What a ledger in a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The database's own id.
    pub database: Uuid,
    /// How far it has come.
    pub ledger_seq: LedgerSeq,
    /// The epoch of each namespace that was ever used.
    pub epochs: BTreeMap<String, Epoch>,
    /// The epoch in which others begin.
    pub everywhere: Epoch,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Copies the ledger at `database` to `to`, which must not exist. A gateway may write meanwhile; the copy is what it had
/// committed at one moment. It is verified and synced when this returns.
///
/// # Errors
/// [`CopyError`] says why there is none.
pub async fn back_up(database: &Path, to: &Path) -> Result<Described, CopyError> {
    let (database, to) = (database.to_owned(), to.to_owned());
    apart(move || {
        let database = lock::existing(&database)?;
        if to.symlink_metadata().is_ok() {
            return Err(CopyError::Exists { path: to });
        }
        let draft = Draft::new(beside(&to, &format!(".{}.part", std::process::id())))?;
        let found = draft.fill(&database)?;
        draft.publish(&to)?;
        Ok(found)
    })
    .await
}

/// Runs what waits for the disk on a thread that may wait.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CopyError> + Send + 'static,
) -> Result<T, CopyError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(CopyError::Ended(error.to_string())))
}

/// A copy that has not its name yet. Dropping it removes it.
pub(super) struct Draft {
    path: PathBuf,
    done: bool,
}

impl Draft {
    /// An empty file for its owner alone; what a crash has left of an earlier one goes.
    pub(super) fn new(path: PathBuf) -> Result<Self, CopyError> {
        let draft = Self { path, done: false };
        draft.clear();
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&draft.path)
            .map_err(|error| CopyError::file(&draft.path, &error))?;
        Ok(draft)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Copies a ledger into it, and holds the copy against what SQLite knows of sound files.
    pub(super) fn fill(&self, from: &Path) -> Result<Described, CopyError> {
        schema::inspect(from)?;
        let fail = |error: rusqlite::Error| CopyError::from(OpenError::database(from, error));
        let connection = settings::reader(from).map_err(fail)?;
        // The sorting of large indexes must not take the machine's memory from the gateway beside it.
        connection.pragma_update(None, "temp_store", "file").map_err(fail)?;
        let name = self.path.to_str().ok_or_else(|| CopyError::File {
            path: self.path.clone(),
            reason: "its name is not UTF-8".to_owned(),
        })?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(fail)?;
        connection.close().map_err(|(_, error)| fail(error))?;
        let found = sound(&self.path)?;
        self.sync()?;
        Ok(found)
    }

    /// What is in it survives a power failure from now on.
    pub(super) fn sync(&self) -> Result<(), CopyError> {
        let synced = File::open(&self.path).and_then(|file| file.sync_all());
        synced.map_err(|error| CopyError::file(&self.path, &error))
    }

    /// Gives it its name, which must be free.
    fn publish(mut self, to: &Path) -> Result<(), CopyError> {
        // A link never replaces. Where the file system has none, a name that was free a moment ago must do.
        match fs::hard_link(&self.path, to) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(CopyError::Exists { path: to.to_owned() });
            }
            Err(_) if to.symlink_metadata().is_ok() => {
                return Err(CopyError::Exists { path: to.to_owned() });
            }
            Err(_) => {
                fs::rename(&self.path, to).map_err(|error| CopyError::file(to, &error))?;
                self.done = true;
            }
        }
        sync_folder(to)
    }

    /// It has another name now.
    pub(super) fn kept(mut self) {
        self.done = true;
    }

    /// Removes it with what SQLite and a gateway put beside a database.
    fn clear(&self) {
        for suffix in ["", "-wal", "-shm", "-journal", ".lock"] {
            drop(fs::remove_file(beside(&self.path, suffix)));
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.done {
            self.clear();
        }
    }
}

/// What a file that must be sound says of itself.
pub(super) fn sound(path: &Path) -> Result<Described, CopyError> {
    let unsound = |reason: String| CopyError::Unsound { path: path.to_owned(), reason };
    let connection = settings::reader(path).map_err(|error| unsound(error.to_string()))?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))
        .map_err(|error| unsound(error.to_string()))?;
    if verdict != "ok" {
        return Err(unsound(verdict));
    }
    let found = describe(&connection, path)?;
    connection.close().map_err(|(_, error)| unsound(error.to_string()))?;
    Ok(found)
}

/// What a ledger says of itself, also one of an older schema.
pub(super) fn describe(connection: &Connection, path: &Path) -> Result<Described, CopyError> {
    let fail = |fault: Fault| CopyError::from(OpenError::database(path, fault));
    let found = open::identity(connection).map_err(fail)?;
    let mut epochs = BTreeMap::new();
    each(
        connection,
        EPOCHS,
        |_| {},
        |columns| {
            epochs.insert(columns.text()?.to_owned(), columns.counter(Epoch::new)?);
            Ok(())
        },
    )
    .map_err(fail)?;
    let has = first(connection, HAS_EVERYWHERE, |_| {}, |_| Ok(())).map_err(fail)?;
    let everywhere = match has {
        None => None,
        Some(()) => {
            first(connection, EVERYWHERE, |_| {}, |columns| columns.counter(Epoch::new)).map_err(fail)?
        }
    };
    let bytes = fs::metadata(path).map_err(|error| CopyError::file(path, &error))?.len();
    Ok(Described {
        database: found.id,
        ledger_seq: found.reached,
        epochs,
        everywhere: everywhere.unwrap_or_default(),
        bytes,
    })
}

/// A name that begins with another.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// What was renamed in a folder survives a power failure from now on.
pub(super) fn sync_folder(path: &Path) -> Result<(), CopyError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| CopyError::file(folder, &error))
}
