//! What a cell shows, and what follows for whoever was sent on an earlier state of it.

use fencegate::domain::operation::OperationState;
use fencegate::domain::upstream::{Base, CellSeen, Class};
use fencegate::protocol::Refusal;
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::{Settled, Withdrawal};

use super::{Far, again, answered, far, stamp, status, success, tag, word, write};
use crate::support::world::token;

/// A cell at `v1`, written by `first`, and `op` on its way on that.
fn on_its_way() -> (Far, fencegate::protocol::outcome::Attempt) {
    let mut far = far(Class::Conditional);
    far.created(&write("first", 1), "v1");
    let sent = far.announce(&write("op", 2));
    (far, sent)
}

fn seen(validator: &str, stamp: fencegate::domain::upstream::Stamp) -> Finding {
    Finding::Cell(CellSeen::Stamped(tag(validator), stamp))
}

#[test]
fn our_own_stamp_means_applied() {
    let (mut far, sent) = on_its_way();
    let read = again(far.settle(&sent, Finding::Doubt));
    assert!(far.intent("op").doubt);
    assert_eq!(word(&far.settle(&read, seen("v2", stamp(&sent)))), "applied");
    assert_eq!((far.row().cell.clone(), far.row().commit_no.get()), (Some(tag("v2")), 2));
    let record = far.record("op");
    assert_eq!(record.state, OperationState::Applied);
    // The upstream's answer was lost, so the gateway gives its own.
    assert_eq!(record.response.as_ref().unwrap().relayed, None);
}

#[test]
fn a_success_without_a_validator_is_relayed_once_the_cell_has_told_it() {
    // Broken: a server that gives no ETag on a write has all its answers replaced by receipts. Must hold: the answer as
    // it came, and the validator from the cell.
    let (mut far, sent) = on_its_way();
    let read = again(far.settle(&sent, status(204)));
    match far.settle(&read, seen("v2", stamp(&sent))) {
        Settled::Done(written) => {
            assert_eq!(written.response.relayed.unwrap().status, 204);
            assert_eq!(written.response.body, answered(204, None).body);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(far.row().cell, Some(tag("v2")));
}

#[test]
fn the_stamp_of_another_settles_it_and_ours_is_judged_again() {
    // Broken: what another operation left is sent on before it is recorded (I13), or the older one comes after the newer
    // one (I1). Must hold: the other is recorded as applied, then ours is judged against that.
    let (mut far, older) = on_its_way();
    let newer = far.announce(&write("newer", 3));
    let read = again(far.settle(&older, status(412)));
    match far.settle(&read, seen("v2", stamp(&newer))) {
        Settled::Withdrawn(_, Withdrawal::Refused(Refusal::StaleToken { .. }), _) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(far.record("newer").state, OperationState::Applied);
    assert_eq!((far.row().cell.clone(), far.undecided()), (Some(tag("v2")), 0));
    assert_eq!(word(&far.settle(&newer, success("v2"))), "moved", "somebody else has settled it");
}

#[test]
fn a_newer_one_goes_on_with_what_an_older_one_left() {
    let (mut far, older) = on_its_way();
    let newer = far.announce(&write("newer", 3));
    let read = again(far.settle(&newer, Finding::Doubt));
    let next = again(far.settle(&read, seen("v2", stamp(&older))));
    assert_eq!((next.intent.base.clone(), next.intent.record.attempt), (Base::Recorded(tag("v2")), 2));
    assert!(!next.intent.doubt, "what was sent before rested on a state that is gone");
    assert_eq!(stamp(&next).commit.get(), 3);
    assert_eq!(far.record("op").state, OperationState::Applied);
    assert_eq!(word(&far.settle(&next, status(403))), "withdrawn", "and so a refusal is definite");
}

#[test]
fn a_rebased_write_is_judged_by_its_own_conditions_too() {
    let mut far = far(Class::Conditional);
    far.created(&write("first", 1), "v1");
    let other = far.announce(&write("other", 2));
    let conditioned = far.announce(&write("op", 2).sequence(2).if_match("\"1.1\""));
    let read = again(far.settle(&conditioned, status(412)));
    match far.settle(&read, seen("v2", stamp(&other))) {
        Settled::Withdrawn(_, Withdrawal::Refused(Refusal::PreconditionFailed { .. }), _) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unchanged_cell_is_sent_on_again_after_a_pause() {
    // Broken: a store that can be read and not written is sent the same in a circle. Must hold: a pause that grows; the
    // floor has nothing to do with it, for the base is alive.
    let (mut far, sent) = on_its_way();
    far.announce(&write("newer", 3));
    let first = stamp(&far.created_stamp());
    let mut attempt = sent;
    let mut pauses = Vec::new();
    for number in 2..6 {
        let read = again(far.settle(&attempt, status(500)));
        let at = far.world.now;
        match far.settle(&read, seen("v1", first.clone())) {
            Settled::Later(due) => pauses.push(at.until(due).get()),
            other => panic!("{other:?}"),
        }
        let read = again(far.resume("op"));
        attempt = again(far.settle(&read, seen("v1", first.clone())));
        assert_eq!((attempt.intent.record.attempt, attempt.intent.doubt), (number, true));
        assert_eq!(attempt.intent.base, Base::Recorded(tag("v1")));
    }
    assert_eq!(pauses, [100, 200, 400, 800]);
    assert_eq!(word(&far.settle(&attempt, success("v2"))), "applied");
}

#[test]
fn a_conflict_on_the_very_state_that_is_there_refuses_the_write_itself() {
    // Broken: a server that answers 409 because a folder is missing is asked in a circle for ever. Must hold: the cell is
    // as it was, so the base was right and the answer is about the write: bound, unless an earlier attempt may act.
    for refusal in [409, 412] {
        let (mut far, sent) = on_its_way();
        let first = stamp(&far.created_stamp());
        let mut doubtful = far.clone();
        let read = again(far.settle(&sent, status(refusal)));
        assert_eq!(word(&far.settle(&read, seen("v1", first.clone()))), "refused");
        let mut intent = sent.intent.clone();
        intent.doubt = true;
        doubtful.world.snapshot.insert_intent(intent);
        let read = again(doubtful.settle(&sent, status(refusal)));
        assert_eq!(word(&doubtful.settle(&read, seen("v1", first))), "later");
    }
    // The same over a cell that does not exist.
    let mut far = far(Class::Conditional);
    let read = far.announce(&write("op", 1));
    let sent = again(far.settle(&read, Finding::Cell(CellSeen::Absent)));
    assert_eq!(sent.intent.base, Base::Absent);
    let read = again(far.settle(&sent, status(409)));
    assert_eq!(word(&far.settle(&read, Finding::Cell(CellSeen::Absent))), "refused");
}

#[test]
fn content_from_before_the_gateways_time_is_taken_as_it_is() {
    let mut far = far(Class::Conditional);
    let read = far.announce(&write("op", 1));
    let sent = again(far.settle(&read, Finding::Cell(CellSeen::Unstamped(tag("old")))));
    assert_eq!(sent.intent.base, Base::Recorded(tag("old")));
    assert_eq!(far.row().cell, Some(tag("old")));
    assert_eq!((far.row().applied, far.row().commit_no.get()), (None, 0));
    assert_eq!(word(&far.settle(&sent, success("v1"))), "applied");
}

#[test]
fn a_read_that_is_older_than_the_record_is_made_again() {
    // Broken: `a` reads that there is no cell; `b` creates it and is recorded; `a` tells what it read, and the resource
    // is stopped because its cell has vanished. Must hold: what was read before the record moved on means nothing.
    for (position, next) in [(1, "withdrawn"), (3, "send")] {
        let mut far = far(Class::Conditional);
        let slow = far.announce(&write("slow", 1).sequence(position));
        let mut intent = slow.intent.clone();
        intent.record.position = token(position);
        far.world.snapshot.insert_intent(intent);
        far.created(&write("quick", 2), "v1");
        let made = stamp(&far.created_stamp());
        let read = again(far.settle(&slow, Finding::Cell(CellSeen::Absent)));
        assert_eq!(far.row().quarantined, None);
        assert_eq!(word(&far.settle(&read, seen("v1", made))), next);
    }
}

#[test]
fn whoever_read_for_an_earlier_attempt_changes_nothing() {
    let (mut far, sent) = on_its_way();
    let read = again(far.settle(&sent, Finding::Doubt));
    let first = stamp(&far.created_stamp());
    let resumed = again(far.resume("op"));
    assert_eq!(word(&far.settle(&resumed, seen("v1", first.clone()))), "send");
    for old in [&sent, &read, &resumed] {
        let before = far.world.snapshot.clone();
        assert_eq!(word(&far.settle(old, seen("v1", first.clone()))), "moved");
        assert_eq!(far.world.snapshot, before);
    }
}

impl Far {
    /// The attempt whose stamp the first write of these worlds left.
    fn created_stamp(&self) -> fencegate::protocol::outcome::Attempt {
        let mut other = far(Class::Conditional);
        let id = self.world.snapshot.operations().next().unwrap();
        let draft = write(id.operation_id.as_str(), id.position.token.get());
        let read = other.announce(&draft);
        again(other.settle(&read, Finding::Cell(CellSeen::Absent)))
    }
}
