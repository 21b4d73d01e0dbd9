//! A change that the rules would never make is loud (I7).

use fencegate::domain::counter::{CommitNo, Incarnation, Sequence};
use fencegate::protocol::invariants::check;
use fencegate::protocol::rows::{Life, Mark, ResourceRow};

use super::scene::{Scene, definitions};
use crate::support::world::{name, token};

/// A row in the middle of its life.
fn row() -> ResourceRow {
    let mut scene = Scene::new(definitions()[0]);
    scene.alter(|row| {
        row.floor = token(10);
        row.issued = token(10);
        row.revoked_through = Some(token(6));
        row.applied = Some(Mark { position: token(9), sequence: Sequence::new(4) });
        row.pruned_through = Some(Mark { position: token(4), sequence: Sequence::new(2) });
    });
    scene.row()
}

fn altered(change: impl FnOnce(&mut ResourceRow)) -> ResourceRow {
    let mut after = row();
    change(&mut after);
    after
}

#[test]
fn a_register_that_goes_back_is_named() {
    // Broken: a rule or an engine that lowers a register goes unnoticed until a stale write is admitted. Must hold:
    // each of them is caught by its name, one step back and also when it is forgotten.
    let mark =
        |position, sequence| Some(Mark { position: token(position), sequence: Sequence::new(sequence) });
    let before = row();
    for (after, what) in [
        (altered(|row| row.floor = token(9)), "floor went back"),
        (altered(|row| row.issued = token(9)), "issued went back"),
        (altered(|row| row.born = token(2)), "born went back"),
        (altered(|row| row.incarnation = Incarnation::ONE), "incarnation went back"),
        (altered(|row| row.commit_no = CommitNo::new(6).unwrap()), "commit_no went back"),
        (altered(|row| row.revoked_through = Some(token(5))), "revoked_through went back"),
        (altered(|row| row.revoked_through = None), "revoked_through was forgotten"),
        (altered(|row| row.applied = mark(8, 9)), "applied went back"),
        (altered(|row| row.applied = mark(9, 3)), "the applied sequence went back"),
        (altered(|row| row.applied = None), "applied was forgotten"),
        (altered(|row| row.pruned_through = mark(3, 9)), "pruned_through went back"),
        (altered(|row| row.pruned_through = mark(4, 1)), "pruned_through went back"),
        (altered(|row| row.pruned_through = None), "pruned_through was forgotten"),
        (altered(|row| row.resource = name("w/other")), "one resource's row became another's"),
        (altered(|row| row.applied = mark(11, 1)), "what is published lies above the floor"),
    ] {
        let error = check(Some(&before), &after).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    let unrevoked = altered(|row| (row.life, row.revoked_through) = (Life::Deleted, None));
    assert!(check(None, &unrevoked).unwrap_err().to_string().contains("a tombstone has nothing revoked"));
}

#[test]
fn what_stays_or_goes_up_passes() {
    // Broken: an invariant that is too strict stops honest work. Must hold: unchanged rows, raised registers and a
    // sequence that begins anew in a new generation pass.
    let before = row();
    let mark =
        |position, sequence| Some(Mark { position: token(position), sequence: Sequence::new(sequence) });
    for after in [
        row(),
        altered(|row| (row.floor, row.issued) = (token(11), token(11))),
        altered(|row| row.applied = mark(10, 1)),
        altered(|row| row.applied = mark(9, 5)),
        altered(|row| row.pruned_through = mark(4, 3)),
        altered(|row| row.pruned_through = mark(5, 1)),
        altered(|row| (row.life, row.revoked_through) = (Life::Deleted, Some(token(10)))),
        altered(|row| (row.incarnation, row.born) = (Incarnation::new(3).unwrap(), token(10))),
        altered(|row| row.life = Life::Cancelled),
    ] {
        assert_eq!(check(Some(&before), &after), Ok(()));
        assert_eq!(check(None, &after), Ok(()));
    }
}
