//! What a witness says of a database, case by case; and what becomes of it when several write it.

use crate::domain::breaker::Detector;

use super::*;

const DATABASE: Uuid = Uuid::from_u128(7);

fn point(epoch: u64, timeline: u64, at: u64) -> Point {
    Point { epoch, timeline, at }
}

fn sighting(epoch: u64, timeline: u64, at: u64) -> Sighting {
    Sighting { database: DATABASE, system: 5, point: point(epoch, timeline, at), began: None }
}

fn record(epoch: u64, timeline: u64, at: u64) -> Record {
    Record { database: DATABASE, system: 5, reached: point(epoch, timeline, at), reserved: at + 100 }
}

fn detector(record: &Record, found: &Sighting) -> Option<Detector> {
    record.stands_against(found).map(|(detector, _)| detector)
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("w")
    }

    fn open(&self) -> WitnessFile {
        WitnessFile::open(&self.path()).unwrap().in_blocks_of(100)
    }

    fn course(&self, found: &Sighting) -> Arc<Course> {
        let file = self.open();
        let behind = judge(&file, found).unwrap();
        Course::witnessed(file, found, 1, behind.is_some()).unwrap()
    }

    fn record(&self) -> Record {
        *self.open().found().unwrap()
    }

    /// The thread in the background has written this.
    fn comes_to(&self, reached: u64) {
        let path = self.path();
        let there = (0..100_000).any(|_| {
            std::thread::yield_now();
            WitnessFile::open(&path).unwrap().found().unwrap().reached.at == reached
        });
        assert!(there, "{:?}", self.record());
    }
}

/// Broken: a database that lost commits. Must hold: it is told apart from one that is as far as it was, on any timeline, and
/// an epoch above that of the witness is the operator's word.
#[test]
fn a_database_that_is_behind_is_told_from_one_that_goes_on() {
    let known = record(1, 2, 500);
    assert_eq!(detector(&known, &sighting(1, 2, 500)), None);
    assert_eq!(detector(&known, &sighting(1, 2, 499)), Some(Detector::Witness));
    assert_eq!(detector(&known, &sighting(0, 2, 900)), Some(Detector::Witness), "an epoch was lost");
    assert_eq!(detector(&known, &sighting(2, 1, 3)), None, "an epoch was advanced");
    assert_eq!(detector(&known, &sighting(1, 1, 900)), Some(Detector::Witness), "an earlier timeline");
    assert_eq!(detector(&known, &sighting(1, 3, 900)), None, "where it began is not known");
    assert_eq!(detector(&known, &sighting(1, 3, 400)), Some(Detector::Witness));
    let began = |at| Sighting { began: Some(at), ..sighting(1, 3, 900) };
    assert_eq!(detector(&known, &began(499)), Some(Detector::Witness), "it began before what was reached");
    assert_eq!(detector(&known, &began(500)), None);
    assert_eq!(detector(&known, &Sighting { system: 6, ..sighting(1, 2, 900) }), Some(Detector::Identity));
}

/// Nothing beyond the block is covered before the witness says so, and what it says is what was acknowledged.
#[test]
fn blocks_are_reserved_before_they_are_used() {
    let place = Place::new();
    let course = place.course(&sighting(0, 0, 10));
    assert_eq!((place.record().reached.at, place.record().reserved), (0, 110));
    assert!(course.covers(110) && !course.covers(111));
    course.reach(course.era(), 12);
    place.comes_to(12);
    assert_eq!(course.cover(500), Ok(()));
    assert_eq!((place.record().reached.at, place.record().reserved), (12, 600));
}

/// The count of fsyncs: a thousand commits in blocks of a hundred are some twenty.
#[test]
fn a_commit_costs_no_flush_of_the_witness() {
    let place = Place::new();
    let course = place.course(&sighting(0, 0, 0));
    for at in 1..=1_000 {
        course.cover(at).unwrap();
        course.reach(course.era(), at);
    }
    assert!((10..=60).contains(&course.written()), "{}", course.written());
    course.settle();
    assert_eq!(place.record().reached.at, 1_000);
}

/// Broken: the process died with a block reserved and unused, again and again. Must hold: no alarm.
#[test]
fn a_crash_between_reserving_and_using_is_no_loss() {
    let place = Place::new();
    for start in [0, 1, 1, 2, 60] {
        let course = place.course(&sighting(0, 0, start));
        assert!(!course.is_suspected(), "{start}");
        course.reach(course.era(), start);
        // The course is dropped without a word, as by a crash; what is in the file is what the next one meets.
    }
}

/// Broken: a witness that cannot be written. Must hold: nothing beyond the mark, and all is well when it can be again.
#[test]
fn a_witness_that_cannot_be_written_covers_nothing_more() {
    let place = Place::new();
    let course = place.course(&sighting(0, 0, 0));
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    assert_eq!(course.cover(100), Ok(()));
    let refused = course.cover(101).unwrap_err();
    assert!(refused.contains("check that its folder exists"), "{refused}");
    std::fs::remove_dir(place.path()).unwrap();
    assert_eq!(course.cover(101), Ok(()));
    assert_eq!(place.record().reserved, 201);
}

/// Replicas share one: each raises it, none lowers it, and a database of another id never gets in.
#[test]
fn two_who_share_a_witness_only_ever_raise_it() {
    let place = Place::new();
    let (one, two) = (place.course(&sighting(0, 1, 10)), place.course(&sighting(0, 1, 10)));
    one.reach(one.era(), 50);
    place.comes_to(50);
    two.reach(two.era(), 20);
    two.settle();
    assert_eq!(place.record().reached.at, 50);
    one.enter(1);
    one.settle();
    two.reach(two.era(), 70);
    two.settle();
    assert_eq!(place.record().reached, point(1, 1, 70), "one that has not heard of the epoch keeps it");
    two.go_on_upon(2);
    two.settle();
    assert_eq!(place.record().reached, point(1, 2, 70));
    assert!(one.cover(5_000).unwrap_err().contains("was replaced"), "it writes on the old timeline");
    let other = Sighting { database: Uuid::from_u128(8), ..sighting(1, 2, 900) };
    assert!(matches!(judge(&place.open(), &other), Err(WitnessError::Foreign { .. })));
}

/// Broken: the database is behind. Must hold: the witness stays as it is until the epoch was advanced, and then begins anew.
#[test]
fn what_was_reached_is_kept_until_an_epoch_is_advanced() {
    let place = Place::new();
    let first = place.course(&sighting(0, 0, 0));
    first.reach(first.era(), 500);
    first.settle();
    // It has ended: while it lives it may still write down what it had reached, also into the new epoch.
    drop(first);
    let behind = place.course(&sighting(0, 0, 300));
    assert!(behind.is_suspected() && behind.covers(9_999));
    behind.reach(behind.era(), 301);
    behind.settle();
    assert_eq!(place.record().reached, point(0, 0, 500));
    behind.enter(1);
    assert!(!behind.covers(302));
    behind.cover(302).unwrap();
    behind.reach(behind.era(), 302);
    behind.settle();
    assert_eq!(place.record().reached, point(1, 0, 302));
    assert_eq!(detector(&place.record(), &sighting(0, 0, 9_000)), Some(Detector::Witness));
    assert_eq!(detector(&place.record(), &sighting(1, 0, 302)), None);
}
