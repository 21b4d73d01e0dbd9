//! The history on disk: written line by line while the exam runs, read line by line by the judge.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};

use super::events::{Event, Line};
use crate::domain::time::Clock;
use crate::limits::EXAM_LINE_BYTES;

/// The name of the history's file.
pub(super) const FILE: &str = "history.jsonl";

/// Writes a history. Its lock is what puts the lines in order.
pub(super) struct Recorder {
    clock: Arc<dyn Clock>,
    file: Mutex<(u64, BufWriter<File>, Option<std::io::Error>)>,
    calls: AtomicU64,
}

impl Recorder {
    /// A new history in a folder.
    pub(super) fn create(folder: &Path, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { clock, file: Mutex::new((0, BufWriter::new(file), None)), calls: AtomicU64::new(0) })
    }

    /// A number for the next call.
    pub(super) fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Writes a line. What goes wrong is told at the end: whoever writes has nobody to tell.
    pub(super) fn note(&self, is: Event) {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (n, file, failed) = &mut *guard;
        *n = n.saturating_add(1);
        let at = u64::try_from(self.clock.monotonic().as_micros()).unwrap_or(u64::MAX);
        let line = serde_json::to_vec(&Line { n: *n, at, is }).map_err(std::io::Error::other);
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            file.write_all(&line)
        });
        if let Err(error) = written {
            failed.get_or_insert(error);
        }
    }

    /// Brings it to the disk.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = guard.2.take() {
            return Err(error).context("the history could not be written");
        }
        guard.1.flush().context("the history could not be written")
    }
}

/// Reads a history from its first line to its last; `see` gets each. A line that lacks is no reason to judge without it; a
/// last one that breaks off is where the exam was cut off.
pub(super) fn read(folder: &Path, mut see: impl FnMut(Line)) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut text = Vec::new();
    let mut number = 0_u64;
    let most = usize::try_from(EXAM_LINE_BYTES).unwrap_or(usize::MAX);
    loop {
        text.clear();
        let read = std::io::Read::take(&mut file, EXAM_LINE_BYTES).read_until(b'\n', &mut text);
        if read.with_context(|| format!("cannot read {}", path.display()))? == 0 {
            return Ok(());
        }
        number = number.saturating_add(1);
        let line: Line = match serde_json::from_slice(&text) {
            Err(_) if !text.ends_with(b"\n") && text.len() < most => return Ok(()),
            line => line.with_context(|| format!("{}, line {number}, is no event", path.display()))?,
        };
        if line.n != number {
            bail!("{}, line {number}, has the number {}: lines are missing", path.display(), line.n);
        }
        see(line);
    }
}
