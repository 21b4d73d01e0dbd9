//! The disk of a process, as it would be found after a power failure at any moment of its life.
//!
//! A small library in front of the process (`disk.c`, built when a test needs it) notes what is written and synced. What
//! was synced is there; of what came after it none, all, or any part, the last of it torn.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// A disk writes this many bytes whole or not at all.
const SECTOR: usize = 512;

/// The library, built once.
pub(super) fn library() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/power/disk.c");
        let path = folder.path().join("disk.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&path).arg(source).arg("-ldl");
        let built = command.output().expect("a C compiler, as the bundled SQLite needs it");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        (folder, path)
    });
    path
}

/// Puts the disk under a process that keeps its database here.
pub(super) fn under<'c>(command: &'c mut Command, database: &Path, notes: &Path) -> &'c mut Command {
    command.env("LD_PRELOAD", library()).env("POWER_DATABASE", database).env("POWER_NOTES", notes)
}

/// How far the notes go: all that was answered before is older.
pub(super) fn length(notes: &Path) -> u64 {
    fs::metadata(notes).map_or(0, |found| found.len())
}

/// What was done to one file.
#[derive(Debug, Clone)]
enum Done {
    Written(usize, Vec<u8>),
    Truncated(usize),
}

/// One file: what is sure to be there, and what came after it.
#[derive(Debug, Clone, Default)]
struct Kept {
    durable: Vec<u8>,
    unsynced: Vec<Done>,
    /// How many of those a sync that has begun covers, by its number.
    begun: BTreeMap<u64, usize>,
}

impl Kept {
    fn synced(&mut self, number: u64) {
        let covered = self.begun.remove(&number).expect("a sync begins before it ends");
        for done in self.unsynced.drain(..covered) {
            apply(&mut self.durable, &done, usize::MAX);
        }
        for others in self.begun.values_mut() {
            *others = others.saturating_sub(covered);
        }
    }
}

fn apply(file: &mut Vec<u8>, done: &Done, most: usize) {
    match done {
        Done::Truncated(length) => file.resize(*length, 0),
        Done::Written(place, bytes) => {
            let bytes = &bytes[..bytes.len().min(most)];
            file.resize(file.len().max(place + bytes.len()), 0);
            file[*place..place + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Which of what was not synced is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Luck {
    /// Nothing of it.
    None,
    /// All of it.
    All,
    /// The first so many parts in 256, the last of them torn.
    Prefix(u8),
    /// Any of it, by this seed, some torn.
    Any(u64),
}

/// The files of a process at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    files: [Kept; 2],
}

impl Disk {
    /// Writes what is found after a failure now.
    pub(super) fn fail(&self, database: &Path, luck: Luck) {
        for (kept, suffix) in self.files.iter().zip(["", "-wal"]) {
            let mut file = kept.durable.clone();
            let count = kept.unsynced.len();
            for (at, done) in kept.unsynced.iter().enumerate() {
                let most = match luck {
                    Luck::None => break,
                    Luck::All => usize::MAX,
                    Luck::Prefix(part) => {
                        let whole = count * usize::from(part) / 256;
                        match at.cmp(&whole) {
                            std::cmp::Ordering::Less => usize::MAX,
                            std::cmp::Ordering::Equal => SECTOR * 3,
                            std::cmp::Ordering::Greater => break,
                        }
                    }
                    Luck::Any(seed) => match mixed(seed.wrapping_add(u64::try_from(at).unwrap())) % 4 {
                        0 => continue,
                        1 => SECTOR * usize::try_from(mixed(seed) % 8).unwrap(),
                        _ => usize::MAX,
                    },
                };
                apply(&mut file, done, most);
            }
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            fs::write(path, file).unwrap();
        }
        let mut shared = database.as_os_str().to_owned();
        shared.push("-shm");
        drop(fs::remove_file(shared));
    }

    pub(super) fn unsynced(&self) -> usize {
        self.files.iter().map(|kept| kept.unsynced.len()).sum()
    }
}

/// A well mixed number (splitmix64).
pub(super) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Goes through the notes; after each, `look` is told how far they went, whether a sync is about to be over, and what the
/// disk is.
pub(super) fn replay(notes: &Path, mut look: impl FnMut(u64, bool, &Disk)) {
    let bytes = fs::read(notes).unwrap();
    let mut disk = Disk::default();
    let mut at = 0;
    while at + 14 <= bytes.len() {
        let (kind, file) = (bytes[at], usize::from(bytes[at + 1]));
        let place = u64::from_le_bytes(bytes[at + 2..at + 10].try_into().unwrap());
        let length =
            usize::try_from(u32::from_le_bytes(bytes[at + 10..at + 14].try_into().unwrap())).unwrap();
        let end = at + 14 + length;
        if end > bytes.len() {
            break;
        }
        if kind == 4 {
            look(u64::try_from(at).unwrap(), true, &disk);
        }
        let kept = &mut disk.files[file];
        let whole = usize::try_from(place).unwrap();
        match kind {
            1 => kept.unsynced.push(Done::Written(whole, bytes[at + 14..end].to_vec())),
            2 => kept.unsynced.push(Done::Truncated(whole)),
            3 => drop(kept.begun.insert(place, kept.unsynced.len())),
            4 => kept.synced(place),
            5 => kept.unsynced.push(Done::Truncated(0)),
            other => panic!("a note of kind {other}"),
        }
        at = end;
        look(u64::try_from(at).unwrap(), false, &disk);
    }
}
