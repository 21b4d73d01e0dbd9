//! A backup in the place of a ledger. What stood there is kept aside, and until the last step nothing has changed: the
//! copy is made, brought up to date and synced under another name, and then takes the place in one rename.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::domain::counter::{Epoch, LedgerSeq};
use crate::limits::RESTORES_OF_ONE_SECOND;

use super::checkpoint;
use super::copy::{self, CopyError, Described, Draft, apart, beside};
use super::lock::{self, FileLock};
use super::open::OpenError;
use super::{schema, settings};

/// The count only ever grows, also across a restore: what comes after it is not taken for what came before.
const RAISE: &str = "UPDATE ledger SET ledger_seq = max(ledger_seq, ?1) WHERE one = 1";

/// No epoch is begun twice. The copy is stopped, so nothing is admitted in the one that it is brought into.
const RAISE_EPOCHS: &str = "UPDATE namespaces SET epoch = max(epoch, ?1) WHERE bucket BETWEEN 0 AND 255";
const RAISE_EVERYWHERE: &str = "UPDATE everywhere SET epoch = max(epoch, ?1) WHERE bucket BETWEEN 0 AND 255";

/// What stands where the backup is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InPlace {
    /// No file.
    Nothing,
    /// A file that cannot be read as a database any more; why.
    Unreadable(String),
    /// A ledger.
    Ledger(Described),
}

/// A backup that is ready to take its place. The place is locked; dropping this gives it free, unchanged.
pub struct Restoring {
    database: PathBuf,
    backup: Described,
    in_place: InPlace,
    draft: Draft,
    // The last field: it is dropped after everything that it guards.
    lock: FileLock,
}

impl Restoring {
    /// Locks the place of a database and copies the backup beside it, as this version needs it.
    ///
    /// # Errors
    /// [`CopyError`] says what stands against it: a gateway that runs, a backup that is not sound, a database of somebody
    /// else or of a newer version in the place.
    pub async fn begin(database: &Path, from: &Path) -> Result<Self, CopyError> {
        let (database, from) = (database.to_owned(), from.to_owned());
        apart(move || {
            let from = lock::existing(&from)?;
            let database = lock::place(&database)?;
            let lock = FileLock::take(&database)?;
            let in_place = look(&database)?;
            let draft = Draft::new(beside(&database, ".restoring"))?;
            let backup = draft.fill(&from)?;
            let (connection, _) = schema::open(draft.path())?;
            let closed = connection.close();
            closed.map_err(|(_, error)| OpenError::database(draft.path(), error))?;
            Ok(Self { database, backup, in_place, draft, lock })
        })
        .await
    }

    /// What the backup says of itself.
    #[must_use]
    pub const fn backup(&self) -> &Described {
        &self.backup
    }

    /// What stands where it is to go.
    #[must_use]
    pub const fn in_place(&self) -> &InPlace {
        &self.in_place
    }

    /// Where the copy is that will take the place. It is a ledger like any other.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.draft.path()
    }

    /// The copy counts on from here at least, in this epoch at least.
    ///
    /// # Errors
    /// [`CopyError`] when it cannot be written.
    pub async fn count_from(self, reached: LedgerSeq, epoch: Epoch) -> Result<Self, CopyError> {
        apart(move || {
            let fail = |error| CopyError::from(OpenError::database(self.draft.path(), error));
            let connection = settings::writer(self.draft.path()).map_err(fail)?;
            let at = i64::try_from(reached.get()).unwrap_or(i64::MAX);
            connection.execute(RAISE, [at]).map_err(fail)?;
            let epoch = i64::try_from(epoch.get()).unwrap_or(i64::MAX);
            for text in [RAISE_EPOCHS, RAISE_EVERYWHERE] {
                connection.execute(text, [epoch]).map_err(fail)?;
            }
            connection.close().map_err(|(_, error)| fail(error))?;
            Ok(self)
        })
        .await
    }

    /// Keeps what stands there aside under a name that ends so, and puts the copy in its place. Gives the name of what
    /// was kept, and how far the restored database has come.
    ///
    /// # Errors
    /// [`CopyError`] when that cannot be done; the old database is then still in its place, or beside it under that name.
    pub async fn put_in_place(self, suffix: String) -> Result<(Option<PathBuf>, Described), CopyError> {
        apart(move || {
            let Self { database, draft, lock, .. } = self;
            let found = copy::sound(draft.path())?;
            let log = beside(draft.path(), "-wal");
            if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
                let reason = "its log was not worked off".to_owned();
                return Err(CopyError::Unsound { path: draft.path().to_owned(), reason });
            }
            for left in ["-wal", "-shm", ".lock"] {
                drop(fs::remove_file(beside(draft.path(), left)));
            }
            as_before(&database, draft.path())?;
            draft.sync()?;
            let aside = set_aside(&database, &suffix)?;
            fs::rename(draft.path(), &database).map_err(|error| CopyError::file(&database, &error))?;
            draft.kept();
            copy::sync_folder(&database)?;
            drop(lock);
            Ok((aside, found))
        })
        .await
    }
}

/// What stands in a place. A database that is sound is brought into one file, so that it can be kept as one.
fn look(database: &Path) -> Result<InPlace, CopyError> {
    let empty = fs::metadata(database).map(|found| found.len() == 0);
    let log = fs::metadata(beside(database, "-wal")).is_ok_and(|found| found.len() > 0);
    match empty {
        Err(_) => return Ok(InPlace::Nothing),
        Ok(true) if !log => return Ok(InPlace::Nothing),
        Ok(_) => {}
    }
    match schema::inspect(database) {
        Ok(_) => {}
        Err(OpenError::Database { reason, .. }) => return Ok(InPlace::Unreadable(reason)),
        Err(error) => return Err(error.into()),
    }
    let described = (|| {
        let fail = |error| CopyError::from(OpenError::database(database, error));
        let connection = settings::writer(database).map_err(fail)?;
        let found = copy::describe(&connection, database)?;
        checkpoint::finish(&connection).map_err(fail)?;
        connection.close().map_err(|(_, error)| fail(error))?;
        Ok::<_, CopyError>(found)
    })();
    Ok(match described {
        Ok(found) => InPlace::Ledger(found),
        Err(error) => InPlace::Unreadable(error.to_string()),
    })
}

/// Gives the copy the owner that the old file had: a restore by root must not lock out the gateway's own user.
fn as_before(database: &Path, copy: &Path) -> Result<(), CopyError> {
    let (Ok(old), Ok(new)) = (fs::metadata(database), fs::metadata(copy)) else { return Ok(()) };
    if (old.uid(), old.gid()) == (new.uid(), new.gid()) {
        return Ok(());
    }
    let given = std::os::unix::fs::chown(copy, Some(old.uid()), Some(old.gid()));
    given.map_err(|error| CopyError::file(copy, &error))
}

/// Another name of the database's file; one of an earlier restore is never replaced.
fn second_name(database: &Path, suffix: &str) -> Result<PathBuf, CopyError> {
    let names = (1..=RESTORES_OF_ONE_SECOND).map(|number| match number {
        1 => beside(database, suffix),
        more => beside(database, &format!("{suffix}-{more}")),
    });
    let mut taken = None;
    for name in names {
        match fs::hard_link(database, &name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = Some(name),
            Err(error) => return Err(CopyError::file(&name, &error)),
        }
    }
    Err(CopyError::Exists { path: taken.unwrap_or_default() })
}

/// Gives the old files a second name. The first one stays until the copy is renamed over it, so at no moment would a start
/// find nothing there and make a new database.
fn set_aside(database: &Path, suffix: &str) -> Result<Option<PathBuf>, CopyError> {
    if fs::metadata(database).is_err() {
        return Ok(None);
    }
    let aside = second_name(database, suffix)?;
    // Only a database that cannot be read still has a log; beside the copy it would be taken for the copy's own.
    for log in ["-wal", "-shm"] {
        let (from, to) = (beside(database, log), beside(&aside, log));
        if fs::metadata(&from).is_ok() {
            fs::rename(&from, &to).map_err(|error| CopyError::file(&to, &error))?;
        }
    }
    copy::sync_folder(database)?;
    Ok(Some(aside))
}
