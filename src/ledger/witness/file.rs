//! The witness as a file: read whole, written whole, only ever raised.
//!
//! It is written beside itself, synced, renamed over itself, and the folder is synced: after a crash at any moment the name
//! leads to the old text or to the new one, never to a part of one. The lock is on a file of its own beside it, since the
//! rename gives the witness another inode each time; it is the operating system's and ends with the process.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::limits::{WITNESS_BYTES, WITNESS_LOCK_PAUSE, WITNESS_LOCK_TRIES};

use super::Point;

/// The first line. A later form has another one.
const TITLE: &str = "fencegate witness 1";

/// Readable and writable by its owner alone.
const OWNER_ONLY: u32 = 0o600;

/// Why a witness cannot be used. Each message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WitnessError {
    /// It cannot be read, locked or written.
    #[error(
        "the witness {} cannot be used: {reason}; check that its folder exists and that this user may write there, or set \
         `witness` to another file (\"\" goes without one, and then the restore of an older database may go unnoticed)",
        path.display()
    )]
    File {
        /// The witness.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// Its text is not one that this version has written.
    #[error(
        "the witness {} cannot be read: {reason}; nothing was changed. Put its last good copy back. If there is none and the \
         database was not restored, move it away and start again: what was lost before that goes unnoticed then",
        path.display()
    )]
    Damaged {
        /// The witness.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It tells of another database.
    #[error(
        "the witness {} tells of database {witnessed}, and this is database {found}; nothing was changed. If `database` is \
         wrong, put it right; if this is meant to be another database, give it a `witness` of its own",
        path.display()
    )]
    Foreign {
        /// The witness.
        path: PathBuf,
        /// The database that it knows.
        witnessed: Uuid,
        /// The one that is there.
        found: Uuid,
    },
}

/// What a witness says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The database's own id.
    pub database: Uuid,
    /// The server's own number; 0 where there is none.
    pub system: u64,
    /// Surely reached: an acknowledged commit stands there, or behind it.
    pub reached: Point,
    /// No commit beyond this place of the same timeline was acknowledged.
    pub reserved: u64,
}

impl Record {
    fn text(&self) -> String {
        let Self { database, system, reached, reserved } = self;
        let Point { epoch, timeline, at } = reached;
        let mut text = format!(
            "{TITLE}\ndatabase {database}\nsystem {system}\nepoch {epoch}\ntimeline {timeline}\nreached {at}\n\
             reserved {reserved}\n"
        );
        let sum = sum(&text);
        text.push_str(&sum);
        text
    }

    fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with(TITLE) {
            return Err("it does not begin as a witness of this version does".to_owned());
        }
        let Some(split) = text.rfind("sum ") else { return Err("it ends too early".to_owned()) };
        let (said, mark) = text.split_at(split);
        if mark != sum(said) {
            return Err("its check sum does not fit its text".to_owned());
        }
        let mut lines = said.lines().skip(1);
        let mut value = |key: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.ok_or_else(|| format!("{key} is missing"))
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        let database = Uuid::parse_str(value("database")?).map_err(|error| error.to_string())?;
        let system = number(value("system")?)?;
        let (epoch, timeline) = (number(value("epoch")?)?, number(value("timeline")?)?);
        let (at, reserved) = (number(value("reached")?)?, number(value("reserved")?)?);
        Ok(Self { database, system, reached: Point { epoch, timeline, at }, reserved })
    }
}

/// The last line.
fn sum(said: &str) -> String {
    let digits: Vec<String> =
        Sha256::digest(said.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sum {}\n", digits.concat())
}

/// A witness that was read, and can be written.
#[derive(Debug)]
pub struct WitnessFile {
    path: PathBuf,
    found: Option<Record>,
    block: Option<u64>,
}

impl WitnessFile {
    /// Reads a witness, before the database is asked where it stands: whatever it says was reached has then been reached by
    /// the database too, however many replicas go on raising it meanwhile.
    ///
    /// # Errors
    /// [`WitnessError`] says what stands against it and what to do.
    pub fn open(path: &Path) -> Result<Self, WitnessError> {
        let mut file = Self { path: path.to_owned(), found: None, block: None };
        let lock = file.lock()?;
        file.found = file.read()?;
        drop(lock);
        Ok(file)
    }

    /// Reserves blocks of another length than the engine would: for a suite, which uses them up faster.
    #[must_use]
    pub fn in_blocks_of(self, block: u64) -> Self {
        Self { block: Some(block), ..self }
    }

    /// How much is reserved at once, where the engine's own length is `usual`.
    pub(super) fn block_or(&self, usual: u64) -> u64 {
        self.block.unwrap_or(usual)
    }

    /// What it said when it was opened; none where there was none.
    #[must_use]
    pub const fn found(&self) -> Option<&Record> {
        self.found.as_ref()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it, lets `raise` say what it is to say, and writes that; durable when this returns. Nothing is written where
    /// `raise` refuses.
    pub(super) fn change(
        &self,
        raise: impl FnOnce(Option<&Record>) -> Result<Record, WitnessError>,
    ) -> Result<Record, WitnessError> {
        let lock = self.lock()?;
        let before = self.read()?;
        let after = raise(before.as_ref())?;
        if before != Some(after) {
            self.write(&after.text()).map_err(|error| self.unusable(&error))?;
        }
        drop(lock);
        Ok(after)
    }

    /// Writes what stands there once more, to see that this can be done.
    pub(super) fn prove(&self) -> Result<(), WitnessError> {
        let lock = self.lock()?;
        let Some(record) = self.read()? else { return Ok(()) };
        self.write(&record.text()).map_err(|error| self.unusable(&error))?;
        drop(lock);
        Ok(())
    }

    fn lock(&self) -> Result<File, WitnessError> {
        let path = with_ending(&self.path, ".lock");
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(OWNER_ONLY).open(path);
        let file = options.map_err(|error| self.unusable(&error))?;
        for _ in 0..WITNESS_LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => std::thread::sleep(WITNESS_LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(self.unusable(&error)),
            }
        }
        Err(self.unusable(&io::Error::other("another process holds its lock and does not let go")))
    }

    fn read(&self) -> Result<Option<Record>, WitnessError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(&error)),
        };
        let mut bytes = Vec::new();
        file.take(WITNESS_BYTES).read_to_end(&mut bytes).map_err(|error| self.unusable(&error))?;
        let damaged = |reason: String| WitnessError::Damaged { path: self.path.clone(), reason };
        let text = String::from_utf8(bytes).map_err(|_| damaged("it is not a text".to_owned()))?;
        Record::parse(&text).map(Some).map_err(damaged)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let new = with_ending(&self.path, ".new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new("."))).and_then(|folder| folder.sync_all())
    }

    fn unusable(&self, error: &io::Error) -> WitnessError {
        WitnessError::File { path: self.path.clone(), reason: error.to_string() }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64) -> Record {
        let reached = Point { epoch: 1, timeline: 2, at };
        Record { database: Uuid::from_u128(7), system: 9, reached, reserved: at + 10 }
    }

    #[test]
    fn what_was_written_is_read_and_every_torn_or_changed_text_is_refused() {
        let text = record(500).text();
        assert_eq!(Record::parse(&text), Ok(record(500)));
        for end in 0..text.len() {
            assert!(Record::parse(&text[..end]).is_err(), "the first {end} bytes");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Record::parse(&String::from_utf8(bytes).unwrap()).is_err(), "byte {at}");
        }
        assert!(Record::parse(&format!("{text}\n")).is_err());
    }

    #[test]
    fn a_write_that_was_cut_off_leaves_the_old_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w");
        let file = WitnessFile::open(&path).unwrap();
        assert_eq!(file.found(), None);
        file.change(|_| Ok(record(1))).unwrap();
        fs::write(folder.path().join("w.new"), "fencegate wit").unwrap();
        assert_eq!(WitnessFile::open(&path).unwrap().found(), Some(&record(1)));
        file.change(|_| Ok(record(2))).unwrap();
        assert_eq!(WitnessFile::open(&path).unwrap().found(), Some(&record(2)));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = WitnessFile::open(&folder.path().join("no/w")).unwrap_err().to_string();
        assert!(nowhere.contains("check that its folder exists"), "{nowhere}");
        let path = folder.path().join("w");
        for garbage in ["", "fencegate witness 1\n", "hello", "\u{0}\u{0}\u{0}"] {
            fs::write(&path, garbage).unwrap();
            let damaged = WitnessFile::open(&path).unwrap_err().to_string();
            assert!(damaged.contains("Put its last good copy back"), "{damaged}");
            assert_eq!(fs::read_to_string(&path).unwrap(), garbage, "it is left as it was");
        }
    }
}
