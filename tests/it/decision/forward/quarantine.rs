//! A store that contradicts the record stops the resource until somebody has looked into it.

use fencegate::domain::counter::CommitNo;
use fencegate::domain::upstream::{Base, CellSeen, Class, Stamp, StampKind};
use fencegate::protocol::command::{BarrierFinding, Finding};
use fencegate::protocol::control::ControlVerb::{Cancel, Reopen, Revoke};
use fencegate::protocol::outcome::{Attempt, BarrierStep};
use fencegate::protocol::rows::{AuditVerb, Life, Mark, ResourceRow};
use fencegate::protocol::{Change, Outcome};

use super::{Far, PAGE, again, answered, far, stamp, success, tag, word, write};
use crate::support::calls::{Told, call};
use crate::support::code::{self, Code};
use crate::support::draft::delete;
use crate::support::world::token;

fn stranger(operation: &str, like: &Stamp) -> Stamp {
    let operation_id = fencegate::domain::operation::OperationId::parse(operation).unwrap();
    Stamp { operation_id: Some(operation_id), ..like.clone() }
}

/// A cell at `v1`, and an operation that was sent on it.
fn doubtful() -> (Far, Attempt) {
    let mut far = far(Class::Conditional);
    far.created(&write("first", 1), "v1");
    let sent = far.announce(&write("op", 2));
    (far, sent)
}

/// Everything that a cell can show and nobody here has written.
fn contradictions(like: &Stamp) -> Vec<CellSeen> {
    let barrier = |token_number, commit| Stamp {
        kind: StampKind::Barrier,
        position: token(token_number),
        commit: CommitNo::new(commit).unwrap(),
        operation_id: None,
        ..like.clone()
    };
    vec![
        CellSeen::Absent,
        CellSeen::Unstamped(tag("other")),
        CellSeen::Stamped(tag("other"), stranger("unknown", like)),
        // An operation that is recorded, in another state of the cell than it left.
        CellSeen::Stamped(tag("other"), stranger("first", &Stamp { position: token(1), ..like.clone() })),
        // Ours, under a position that it never had.
        CellSeen::Stamped(tag("other"), Stamp { position: token(1), ..like.clone() }),
        // Barriers beyond all that was issued, or over another content.
        CellSeen::Stamped(tag("other"), barrier(4, 1)),
        CellSeen::Stamped(tag("other"), barrier(2, 2)),
        CellSeen::Strange("it has no validator".to_owned()),
    ]
}

/// Whether an outcome says that the record has forgotten something.
fn proves(outcome: &Outcome) -> bool {
    outcome.clone().apart().1.is_some()
}

/// A stamp that the record could not forget only by the store's own fault: of an operation that nobody here announced, or
/// of a position or a commit that nobody here has come to.
fn is_ahead(seen: &CellSeen, sent: &Attempt) -> bool {
    let CellSeen::Stamped(_, found) = seen else { return false };
    let unknown = found.operation_id.as_ref().is_some_and(|id| id.as_str() == "unknown");
    let barrier = found.operation_id.is_none();
    unknown
        || barrier && (found.position.token.get() > 3 || found.commit > stamp(sent).commit)
        || barrier && found.commit.get() > 1
}

#[test]
fn what_nobody_here_has_written_stops_everything() {
    let (_, sent) = doubtful();
    for shown in contradictions(&stamp(&sent)) {
        let (mut far, sent) = doubtful();
        let read = again(far.settle(&sent, Finding::Doubt));
        let settle = read.taught(Finding::Cell(shown.clone()));
        let decision = far.decide(settle);
        let audited = decision
            .changes
            .iter()
            .any(|change| matches!(change, Change::Audited(row) if row.verb == AuditVerb::Quarantined));
        assert!(audited, "{shown:?}");
        assert_eq!(proves(&decision.outcome), is_ahead(&shown, &sent), "{shown:?}");
        far.world.apply(&decision.changes);
        assert!(far.row().quarantined.is_some());
        assert_eq!((far.undecided(), far.row().applied.unwrap().position), (1, token(1)));
        assert_eq!(word(&far.resume("op")), "later", "nothing is sent");
        assert_eq!(code::word(&far.write(&write("next", 3))), Code::Quarantined);
        assert!(matches!(far.next_barrier(), BarrierStep::Quarantined(_)));
        for verb in [Revoke, Cancel] {
            let outcome = far.world.control(call(verb, PAGE));
            assert_eq!(code::word(&outcome), Code::Quarantined);
        }
    }
}

#[test]
fn only_what_the_record_cannot_explain_proves_that_it_forgot() {
    // Broken: a store that has gone back itself, or a cell of an ended epoch, stops the whole namespace as if the gateway's
    // own database had lost something. Must hold: that alone which this record must know and does not.
    let (_, sent) = doubtful();
    let like = stamp(&sent);
    let barrier = |position: u64, commit| Stamp {
        kind: StampKind::Barrier,
        position: token(position),
        commit: CommitNo::new(commit).unwrap(),
        operation_id: None,
        ..like.clone()
    };
    let pruned = |through: u64| {
        move |row: &mut ResourceRow| {
            row.pruned_through = Some(Mark { position: token(through), sequence: None });
        }
    };
    let shown = |next_epoch: bool, alter: &dyn Fn(&mut ResourceRow), seen: Stamp| {
        let (mut far, sent) = doubtful();
        let mut row = far.row().clone();
        alter(&mut row);
        far.world.snapshot.insert_resource(row);
        let read = again(far.settle(&sent, Finding::Doubt));
        if next_epoch {
            far.world.begin_epoch("a");
        }
        let seen = Finding::Cell(CellSeen::Stamped(tag("other"), seen));
        proves(&far.decide(read.taught(seen)).outcome)
    };
    let as_it_is = |_: &mut ResourceRow| {};
    assert!(!shown(false, &as_it_is, barrier(2, 0)), "the store has gone back");
    assert!(shown(false, &as_it_is, barrier(2, 2)) && shown(false, &as_it_is, barrier(4, 1)));
    assert!(!shown(true, &as_it_is, barrier(2, 2)), "of an ended epoch");
    assert!(shown(false, &as_it_is, stranger("unknown", &like)));
    assert!(!shown(true, &as_it_is, stranger("unknown", &like)), "of an ended epoch");
    assert!(!shown(false, &pruned(2), stranger("unknown", &like)), "its record may have been pruned");
    assert!(shown(false, &pruned(1), stranger("unknown", &like)), "its record cannot have been");
}

#[test]
fn a_barrier_that_finds_a_contradiction_stops_everything_too() {
    let (_, sent) = doubtful();
    for shown in contradictions(&stamp(&sent)) {
        let (mut far, _) = doubtful();
        let recorded = far.row().cell.clone();
        let found = far.barrier(None, BarrierFinding::Cell { recorded, seen: shown.clone() });
        assert!(matches!(found, BarrierStep::Quarantined(_)), "{shown:?}");
        assert!(far.row().quarantined.is_some());
    }
}

#[test]
fn a_reopen_takes_the_cell_as_it_was_found() {
    // Broken: the record keeps the old validator, so the first look after a reopen finds the same contradiction. Must
    // hold: whoever reopens has looked, and the next send rests on what is there.
    let (_, sent) = doubtful();
    for shown in contradictions(&stamp(&sent)) {
        let (mut far, sent) = doubtful();
        let read = again(far.settle(&sent, Finding::Doubt));
        assert_eq!(word(&far.settle(&read, Finding::Cell(shown.clone()))), "later");
        let outcome = far.world.control(call(Reopen, PAGE).keyed("k"));
        assert_eq!(code::word(&outcome), Code::Controlled);
        assert_eq!(far.row().quarantined, None);
        let read = again(far.resume("op"));
        let next = far.settle(&read, Finding::Cell(shown.clone()));
        if matches!(shown, CellSeen::Strange(_)) {
            assert_eq!(word(&next), "later", "nothing can rest on it");
            assert!(far.row().quarantined.is_some());
            continue;
        }
        let expected = match &shown {
            CellSeen::Absent => Base::Absent,
            _ => Base::Recorded(tag("other")),
        };
        let sent = again(next);
        assert_eq!((sent.intent.base.clone(), sent.intent.doubt), (expected, false), "{shown:?}");
        assert_eq!(word(&far.settle(&sent, success("v9"))), "applied");
    }
}

#[test]
fn content_without_a_stamp_is_from_before_only_while_nothing_was_sent() {
    // Broken: a first write is on its way over a cell that does not exist, somebody else creates it around the gateway,
    // and that passes for content from before the gateway's time. Must hold for whoever reads: the sender itself, another
    // operation, a barrier.
    let sending = || {
        let mut far = far(Class::Conditional);
        let read = far.announce(&write("op", 1));
        let sent = again(far.settle(&read, Finding::Cell(CellSeen::Absent)));
        (far, sent)
    };
    let shown = CellSeen::Unstamped(tag("other"));
    let (mut far, sent) = sending();
    let read = again(far.settle(&sent, Finding::Doubt));
    assert_eq!(word(&far.settle(&read, Finding::Cell(shown.clone()))), "later");
    assert!(far.row().quarantined.is_some());
    let (mut far, _) = sending();
    let read = far.announce(&write("next", 2));
    assert_eq!(word(&far.settle(&read, Finding::Cell(shown.clone()))), "later");
    assert!(far.row().quarantined.is_some());
    let (mut far, _) = sending();
    let found = far.barrier(None, BarrierFinding::Cell { recorded: None, seen: shown });
    assert!(matches!(found, BarrierStep::Quarantined(_)));
}

#[test]
fn our_own_stamp_is_recorded_in_a_quarantine_too() {
    let (mut far, sent) = doubtful();
    let read = again(far.settle(&sent, Finding::Doubt));
    let mut row = far.row().clone();
    row.quarantined = Some("found".to_owned());
    far.world.snapshot.insert_resource(row);
    let own = Finding::Cell(CellSeen::Stamped(tag("v2"), stamp(&sent)));
    let unknown = Finding::Cell(CellSeen::Absent);
    assert_eq!(word(&far.settle(&read, unknown)), "later");
    assert_eq!(word(&far.settle(&read, own)), "applied");
    assert!(far.row().quarantined.is_some());
}

#[test]
fn a_store_that_holds_more_than_was_ever_issued_stops_everything() {
    // Broken: the database was restored, and nobody notices that the store remembers more. Must hold: one above what is
    // known is what a barrier after a revoke sets; beyond that it is a contradiction, and the operation had no effect.
    for (held, stopped) in [(3, false), (4, true)] {
        let mut far = far(Class::FenceAware);
        let attempt = far.announce(&write("op", 2));
        let finding = Finding::Answered(Box::new(answered(412, None)), Some(token(held)));
        let outcome = far.decide(attempt.taught(finding.clone())).outcome;
        assert_eq!(proves(&outcome), stopped, "{held}");
        assert_eq!(word(&far.settle(&attempt, finding)), "withdrawn");
        assert_eq!(far.row().quarantined.is_some(), stopped, "{held}");
        assert!(!far.is_stopped(), "the shell trips the breaker");
    }
}

#[test]
fn a_quarantine_of_what_is_removed_ends_with_a_reopen_too() {
    // Broken: somebody writes to the tombstone of a removed resource, a re-creation finds that and stops, and the reopen
    // is 410 for ever: nobody can use the resource again. Must hold: the reopen ends the quarantine and nothing else.
    let mut far = far(Class::Conditional);
    far.created(&write("first", 1), "v1");
    let sent = far.announce(&delete(PAGE, "gone", "2"));
    assert_eq!(word(&far.settle(&sent, success("v2"))), "applied");
    assert_eq!(code::word(&far.world.control(call(Reopen, PAGE).keyed("early"))), Code::Deleted);
    let sent = far.announce(&write("again", 3));
    let read = again(far.settle(&sent, Finding::Doubt));
    assert_eq!(word(&far.settle(&read, Finding::Cell(CellSeen::Unstamped(tag("other"))))), "later");
    assert!(far.row().quarantined.is_some());
    assert_eq!(code::word(&far.world.control(call(Reopen, PAGE).keyed("k"))), Code::Controlled);
    assert_eq!((far.row().quarantined.clone(), far.row().life), (None, Life::Deleted));
    let read = again(far.resume("again"));
    let sent = again(far.settle(&read, Finding::Cell(CellSeen::Unstamped(tag("other")))));
    assert_eq!(word(&far.settle(&sent, success("v4"))), "applied");
    assert_eq!(far.row().life, Life::Active);
}
