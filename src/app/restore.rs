//! Backups of an embedded database, and the way back from one.
//!
//! A restored database has forgotten what came after the backup. So it is put in its place with every breaker tripped: nothing
//! is admitted on it before somebody has advanced the epoch, to one that was never begun before.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use uuid::Uuid;

use crate::config::{Config, Database};
use crate::domain::breaker::Detector;
use crate::domain::counter::{Epoch, LedgerSeq};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::ledger::sqlite::{self, InPlace};

use super::Surroundings;

pub use crate::ledger::sqlite::Described;

/// How a backup or a restore ended.
#[derive(Debug)]
pub enum Copied<T> {
    /// It is done.
    Done(T),
    /// It was not done, and nothing was changed: why, and what to do.
    Refused(String),
}

/// What a restore has done.
#[derive(Debug)]
pub struct Restored {
    /// What the backup says of itself.
    pub backup: Described,
    /// How far the database had come, where anybody knows.
    pub reached: Option<LedgerSeq>,
    /// What stands there now.
    pub now: Described,
    /// Where the old file is.
    pub aside: Option<PathBuf>,
    /// What the breaker of every namespace says.
    pub found: String,
}

/// How far a database had come, as something outside it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    database: Uuid,
    reached: LedgerSeq,
    /// The epoch in which namespaces begin that were never used.
    everywhere: Epoch,
}

/// What the witness knows; none where there is none, or none yet.
async fn witnessed(config: &Config) -> anyhow::Result<Option<Known>> {
    let Some(file) = super::open::witness(config).await? else { return Ok(None) };
    let Some(record) = file.found() else { return Ok(None) };
    let (reached, everywhere) = (LedgerSeq::new(record.reached.at), Epoch::new(record.reached.epoch));
    Ok(Some(Known {
        database: record.database,
        reached: reached.context("the witness counts further than a database can")?,
        everywhere: everywhere.context("the witness has an epoch beyond the last")?,
    }))
}

/// A name for what is made at this time, which sorts by it.
#[must_use]
pub fn stamp(at: Timestamp) -> String {
    let instant = jiff::Timestamp::from_millisecond(at.ms()).unwrap_or(jiff::Timestamp::MAX);
    instant.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Copies the configured database to a file that must not exist, beside a gateway that may run.
///
/// # Errors
/// When the database cannot be read or the file cannot be written.
pub async fn back_up(config: &Config, to: &Path) -> anyhow::Result<Copied<Described>> {
    match &config.database {
        Database::Sqlite(path) => Ok(Copied::Done(sqlite::back_up(path, to).await?)),
        Database::Postgres(_) => Ok(Copied::Refused(
            "the database is PostgreSQL, whose own tools back it up: pg_basebackup with a WAL archive goes to any moment \
             (docs/OPERATIONS.md). A dump of pg_dump is only as new as its beginning, and forgets everything since"
                .to_owned(),
        )),
        Database::Memory => Ok(Copied::Refused("a database in memory has nothing to back up".to_owned())),
    }
}

/// Puts a backup in the place of the configured database. `older` allows that something is forgotten which is known to
/// have happened.
///
/// # Errors
/// When a gateway has the database open, the backup is not sound, its seal key is not here, or a file cannot be written.
/// What stood there is then unchanged.
pub async fn restore(
    config: &Config,
    from: &Path,
    older: bool,
    surroundings: &Surroundings,
) -> anyhow::Result<Copied<Restored>> {
    let path = match &config.database {
        Database::Sqlite(path) => path,
        Database::Postgres(_) => {
            return Ok(Copied::Refused(
                "the database is PostgreSQL, whose own tools restore it; then start the gateways, and follow \
                 docs/OPERATIONS.md: what was restored to an earlier moment needs an epoch advance"
                    .to_owned(),
            ));
        }
        Database::Memory => return Ok(Copied::Refused("a database in memory is never restored".to_owned())),
    };
    let restoring = sqlite::Restoring::begin(path, from).await?;
    let judged = match judge(restoring.backup(), restoring.in_place(), witnessed(config).await?) {
        Ok(judged) => judged,
        Err(refused) => return Ok(Copied::Refused(refused)),
    };
    if let (Some(forgotten), false) = (&judged.known_to_be_older, older) {
        return Ok(Copied::Refused(format!(
            "not restored: this is {forgotten}. Restore a newer one; where there is none, say --older: then nothing is \
             written or issued until the epoch is advanced"
        )));
    }
    let reached = judged.reached.unwrap_or(restoring.backup().ledger_seq);
    let restoring = restoring.count_from(reached, judged.epoch).await?;
    trip(restoring.path(), judged.detector, judged.found.clone(), config, surroundings).await?;
    let backup = restoring.backup().clone();
    let suffix = format!(".replaced-{}", stamp(surroundings.clock.wall()));
    let (aside, now) = restoring.put_in_place(suffix).await?;
    Ok(Copied::Done(Restored { backup, reached: judged.reached, now, aside, found: judged.found }))
}

/// Stops every namespace of the copy, in the same way in which a gateway does. The seal keys that the copy has recorded
/// must be here: a gateway could not start on it without them. The witness is left alone: what it is told of a copy that
/// then does not come into its place would be held against the database that stays there.
async fn trip(
    path: &Path,
    detector: Detector,
    found: String,
    config: &Config,
    surroundings: &Surroundings,
) -> anyhow::Result<()> {
    let nobody = Uuid::nil();
    let (ledger, committers) = super::open::open_sqlite(path, nobody, config, None, surroundings).await?;
    let tripped = ledger.trip(Subject::Everywhere, detector, found).await;
    drop(ledger);
    committers.await?.context("the copy could not be closed")?;
    tripped.context("the breaker could not be tripped")
}

/// What is known of how much a backup has forgotten.
#[derive(Debug)]
struct Judged {
    /// What it forgets for sure.
    known_to_be_older: Option<String>,
    /// What the breaker is to say.
    found: String,
    detector: Detector,
    /// How far the database had come at least.
    reached: Option<LedgerSeq>,
    /// The highest epoch that anybody knows to have been begun.
    epoch: Epoch,
}

/// Holds a backup against what stands in its place and against the witness.
fn judge(backup: &Described, in_place: &InPlace, witness: Option<Known>) -> Result<Judged, String> {
    let place = match in_place {
        InPlace::Ledger(found) => Some(found),
        InPlace::Nothing | InPlace::Unreadable(_) => None,
    };
    let known = place.map(|found| Known {
        database: found.database,
        reached: found.ledger_seq,
        everywhere: found.everywhere,
    });
    for (one, whose) in [(known, "the database in place"), (witness, "the witness")] {
        if let Some(one) = one.filter(|one| one.database != backup.database) {
            return Err(format!(
                "the backup is of database {}, and {whose} is of {}; a backup never takes the place of another database",
                backup.database, one.database
            ));
        }
    }
    let reached = known.into_iter().chain(witness).map(|one| one.reached).max();
    let at = backup.ledger_seq;
    let behind = reached.filter(|reached| *reached > at);
    let by_witness = witness.is_some_and(|one| Some(one.reached) == behind);
    let detector = if by_witness { Detector::Witness } else { Detector::Identity };
    let begun = known.into_iter().chain(witness).map(|one| one.everywhere).max().unwrap_or_default();
    let others =
        (backup.everywhere < begun).then(|| ("what was never used".to_owned(), backup.everywhere, begun));
    let ended = place.and_then(|place| ended_epoch(backup, place)).or(others);
    let known_to_be_older = match (behind, ended) {
        (Some(reached), _) => Some(format!("a backup at ledger_seq {at}, {reached} was reached")),
        (None, Some((namespace, older, begun))) => Some(format!(
            "a backup at ledger_seq {at}, in which {namespace} is in epoch {older}; {begun} was begun"
        )),
        (None, None) => None,
    };
    // A count tells how far a history came, and not which of two it is: what stands in the place may have gone on from an
    // older copy, and hold what the backup never had. So it is never known that nothing is forgotten.
    let unknown = format!("a backup at ledger_seq {at}; what was done beside it or after it is not known");
    let found = format!("restored from {}", known_to_be_older.clone().unwrap_or(unknown));
    let epochs = place.into_iter().flat_map(|place| place.epochs.values().copied());
    let epoch = epochs.chain([begun, backup.everywhere]).max().unwrap_or_default();
    Ok(Judged { known_to_be_older, found, detector, reached, epoch })
}

/// A namespace in which the backup knows an older epoch. Of two histories that parted at a restore, only the one that
/// advanced went on: so a count alone does not tell which is newer.
fn ended_epoch(backup: &Described, place: &Described) -> Option<(String, Epoch, Epoch)> {
    place.epochs.iter().find_map(|(namespace, begun)| {
        let older = backup.epochs.get(namespace).copied().unwrap_or(backup.everywhere);
        (older < *begun).then(|| (format!("namespace {namespace:?}"), older, *begun))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64, epoch: u64) -> Described {
        let epoch = Epoch::new(epoch).unwrap();
        Described {
            database: Uuid::max(),
            ledger_seq: LedgerSeq::new(seq).unwrap(),
            epochs: [("jobs".to_owned(), epoch)].into(),
            everywhere: Epoch::ZERO,
            bytes: 1,
        }
    }

    fn witness(seq: u64) -> Known {
        Known { database: Uuid::max(), reached: LedgerSeq::new(seq).unwrap(), everywhere: Epoch::ZERO }
    }

    /// Broken: a backup that forgets something is put in place, and nothing says so; or an epoch that it forgot is begun once
    /// more. Must hold: whatever is behind the old file or the witness is known to be older, everything is stopped, and the
    /// highest epoch that anybody knows is kept.
    #[test]
    fn a_backup_that_may_have_forgotten_something_is_stopped() {
        let place = |seq, epoch| InPlace::Ledger(at(seq, epoch));
        let in_epoch = |epoch| Some(Known { everywhere: Epoch::new(epoch).unwrap(), ..witness(8) });
        let unreadable = || InPlace::Unreadable("x".to_owned());
        let table = [
            (at(7, 0), place(9, 0), None, true, Detector::Identity, 0),
            (at(9, 0), place(9, 0), None, false, Detector::Identity, 0),
            (at(9, 0), place(9, 0), Some(witness(10)), true, Detector::Witness, 0),
            (at(9, 0), place(7, 1), None, true, Detector::Identity, 1),
            (at(9, 1), place(7, 0), Some(witness(8)), false, Detector::Identity, 0),
            (at(9, 0), InPlace::Nothing, None, false, Detector::Identity, 0),
            (at(9, 0), unreadable(), Some(witness(8)), false, Detector::Identity, 0),
            (at(7, 0), InPlace::Nothing, Some(witness(8)), true, Detector::Witness, 0),
            (at(9, 0), InPlace::Nothing, in_epoch(1), true, Detector::Identity, 1),
            (at(9, 0), place(9, 3), in_epoch(5), true, Detector::Identity, 5),
        ];
        for (backup, place, witness, older, detector, epoch) in table {
            let judged = judge(&backup, &place, witness).unwrap();
            let seen = (judged.known_to_be_older.is_some(), judged.detector, judged.epoch.get());
            assert_eq!(seen, (older, detector, epoch), "{backup:?} for {place:?}: {judged:?}");
            assert!(judged.found.starts_with("restored from a backup at ledger_seq"), "{judged:?}");
        }
    }

    #[test]
    fn another_database_is_never_replaced() {
        let other = Described { database: Uuid::nil(), ..at(99, 9) };
        for (place, witness) in [(InPlace::Ledger(at(1, 0)), None), (InPlace::Nothing, Some(witness(1)))] {
            assert!(judge(&other, &place, witness).unwrap_err().contains("another database"));
        }
    }
}
