//! A database held against what its witness says, and a witness against what it is asked to say.

use std::path::Path;

use uuid::Uuid;

use crate::domain::breaker::Detector;

use super::{Point, Record, WitnessError, WitnessFile};

/// A database as it was found.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Sighting {
    pub(in super::super) database: Uuid,
    pub(in super::super) system: u64,
    pub(in super::super) point: Point,
    /// Where its timeline left that of the witness, where that is known.
    pub(in super::super) began: Option<u64>,
}

/// Holds a database against what its witness says.
///
/// Another database is refused and not stopped: the breaker would be tripped in a database that may be somebody else's and
/// in order, and the witness of the one that is missing must stay as it is.
pub(in super::super) fn judge(
    file: &WitnessFile,
    found: &Sighting,
) -> Result<Option<(Detector, String)>, WitnessError> {
    let Some(record) = file.found() else { return Ok(None) };
    if record.database != found.database {
        let (path, witnessed, found) = (file.path().to_owned(), record.database, found.database);
        return Err(WitnessError::Foreign { path, witnessed, found });
    }
    Ok(record.stands_against(found))
}

impl Record {
    /// What shows that a database is behind this. It must have been asked where it stands after the witness was read.
    pub(in super::super) fn stands_against(&self, found: &Sighting) -> Option<(Detector, String)> {
        let (reached, point) = (self.reached, found.point);
        if point.epoch > reached.epoch {
            return None;
        }
        if point.epoch < reached.epoch {
            let told = format!(
                "the witness knows epoch {}, and the database stands in {}",
                reached.epoch, point.epoch
            );
            return Some((Detector::Witness, told));
        }
        if self.system != found.system {
            let told = format!(
                "the witness knows server {}, and the database lies on {}",
                self.system, found.system
            );
            return Some((Detector::Identity, told));
        }
        let place =
            if point.timeline > reached.timeline { found.began.unwrap_or(point.at) } else { point.at };
        if point.timeline < reached.timeline || place < reached.at {
            let told = format!(
                "the witness knows that place {} of timeline {} was reached, and the database stands at {} of {}, which it \
                 began at {}",
                reached.at, reached.timeline, point.at, point.timeline, place
            );
            return Some((Detector::Witness, told));
        }
        None
    }
}

/// What a witness says after it was asked to know this too. Replicas share one; none of them lowers what another one wrote.
pub(super) fn raised(path: &Path, before: Option<&Record>, asked: Record) -> Result<Record, WitnessError> {
    let Some(before) = before else { return Ok(asked) };
    if before.database != asked.database {
        let (witnessed, found) = (before.database, asked.database);
        return Err(WitnessError::Foreign { path: path.to_owned(), witnessed, found });
    }
    let (old, new) = (before.reached, asked.reached);
    if new.epoch > old.epoch {
        return Ok(asked);
    }
    if new.timeline < old.timeline || before.system != asked.system {
        let reason = format!(
            "it knows timeline {}, and this replica writes on {}, which was replaced",
            old.timeline, new.timeline
        );
        return Err(WitnessError::File { path: path.to_owned(), reason });
    }
    // A replica that has not heard yet of the last epoch knows places of the same database.
    let epoch = old.epoch;
    if new.timeline > old.timeline {
        return Ok(Record { reached: Point { epoch, ..new }, ..asked });
    }
    let at = old.at.max(new.at);
    Ok(Record { reached: Point { epoch, at, ..new }, reserved: before.reserved.max(asked.reserved), ..asked })
}
