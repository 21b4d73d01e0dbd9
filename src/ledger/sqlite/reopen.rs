//! The connection after a doubt, and whether it leads to the database that was there before.
//!
//! Somebody may have put a backup in its place, while the gateway had the old file open and wrote on into it: so before
//! each commit the name is looked at, and whatever stands there is held against what this process acknowledged. It must
//! never write into a file that is somebody else's, and never go on in one that is older as if nothing had happened.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::Connection;
use uuid::Uuid;

use crate::domain::breaker::Detector;
use crate::domain::counter::LedgerSeq;
use crate::domain::time::Timestamp;

use super::super::acks;
use super::super::guard::Guard;
use super::super::steps;
use super::checkpoint::Checkpointer;
use super::fault::Fault;
use super::open::Found;
use super::{SqliteEngine, open, reader, settings};

/// Which file a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(path: &Path) -> Result<Self, std::io::Error> {
        let found = fs::metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

impl SqliteEngine {
    /// Whether the database's name still leads to the file that is open. A look at the name costs a microsecond, and a
    /// commit into a file that nobody will ever open again would be acknowledged and lost.
    pub(super) fn is_in_place(&self) -> bool {
        FileId::of(&self.path).is_ok_and(|found| found == self.file)
    }

    /// A new connection that has made a commit of its own. The log is then synced past whatever the one before it left
    /// behind, so what is found from now on is durable; and the commit has taken the place in the log where an unclear one
    /// could stand, so what is absent from now on stays absent, also after a crash.
    ///
    /// An older database trips the breaker: the alarm is raised, and this attempt fails; the next one is the breaker's.
    pub(super) fn reopen(&mut self) -> Result<Connection, String> {
        let connection = settings::writer(&self.path).map_err(|error| error.to_string())?;
        settings::verify_writer(&connection).map_err(|unfit| unfit.to_string())?;
        let found = open::identity(&connection).map_err(|fault| fault.to_string())?;
        // Its breaker is not ours to trip: it may be somebody else's database, and in order.
        if found.id != self.id {
            return Err(another(self.id, found.id));
        }
        if let Some(reason) = steps::too_old(found.least_protocol) {
            return Err(reason);
        }
        let file = FileId::of(&self.path).map_err(|error| error.to_string())?;
        if file != self.file {
            self.follow(file)?;
        }
        if let Some((detector, told)) =
            self.is_older(&connection, &found).map_err(|fault| fault.to_string())?
        {
            self.progress.committed = found.reached;
            fall_back(&self.guard, detector, told.clone(), found.reached);
            return Err(told);
        }
        let reached = open::barrier(&connection, self.time.now()).map_err(|fault| fault.to_string())?;
        self.progress.committed = reached;
        Ok(connection)
    }

    /// What shows that the database is not as far as it was.
    fn is_older(&self, connection: &Connection, found: &Found) -> Result<Option<(Detector, String)>, Fault> {
        if let Some(told) = missing(connection, &self.guard, self.time.now())? {
            return Ok(Some((Detector::Acks, told)));
        }
        let before = self.progress.committed;
        let told = || {
            format!(
                "an older database stands in the place of {}: it has come to commit {}, and this gateway made commit {}",
                self.path.display(),
                found.reached.get(),
                before.get()
            )
        };
        Ok((found.reached < before).then(|| (Detector::Identity, told())))
    }

    /// Another file stands there: what reads and what makes checkpoints goes over to it too.
    fn follow(&mut self, file: FileId) -> Result<(), String> {
        tracing::warn!(path = %self.path.display(), "another file stands in the place of the database");
        self.checkpointer = Checkpointer::start(&self.path).map_err(|error| error.to_string())?;
        self.readers.begin_anew();
        self.file = file;
        Ok(())
    }
}

fn another(known: Uuid, found: Uuid) -> String {
    format!(
        "another database ({found}) stands in the place of {known}; stop the gateway and put the right one back"
    )
}

/// The database stands at an earlier commit than it did.
fn fall_back(guard: &Guard, detector: Detector, told: String, reached: LedgerSeq) {
    // Raised first: whoever sees the new place must see the alarm.
    guard.raise(detector, told);
    guard.acks.clear();
    guard.course.fall_back_to(0, reached.get());
}

/// What is said of acknowledged operations that are not there.
fn missing(connection: &Connection, guard: &Guard, now: Timestamp) -> Result<Option<String>, Fault> {
    let due = guard.acks.due(now);
    let mut lost = Vec::new();
    for ack in &due {
        let found = reader::operation(connection, &ack.resource, &ack.operation_id, Some(ack.incarnation))?;
        if found.is_none() {
            lost.push(ack);
        }
    }
    Ok(lost.first().map(|first| acks::told(lost.len(), due.len(), first)))
}
