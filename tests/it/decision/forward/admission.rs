//! Row 19 and rows 1 to 5: what an announcement makes durable, and what whoever asks again is told.

use fencegate::domain::document::ContentType;
use fencegate::domain::operation::OperationState;
use fencegate::domain::position::Position;
use fencegate::domain::upstream::{Base, Class};
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::Act;
use fencegate::protocol::{Change, Outcome};

use super::{Far, PAGE, again, answered, far, status, success, tag, word, write};
use crate::support::code::{self, Code};
use crate::support::draft::delete;
use crate::support::world::token;

fn code(outcome: &Outcome) -> Code {
    code::word(outcome)
}

#[test]
fn an_admitted_write_is_announced_and_nothing_is_applied() {
    // Broken: bytes leave before anything is durable, or what was only sent is published. Must hold in each class: the
    // floor is raised, the announcement holds all that is needed to send it again, and nothing else changes.
    for class in Class::ALL {
        let mut far = far(class);
        let command = far.delivery(&write("op", 3).content_type("text/plain"));
        let decision = far.world.decide(&command);
        let stored =
            |change: &Change| matches!(change, Change::TargetStored { .. } | Change::OperationRecorded(_));
        assert!(!decision.changes.iter().any(stored), "{class:?}");
        let attempt = far.announced(&command);
        let row = far.row();
        assert_eq!((row.floor, row.applied, row.commit_no.get()), (token(3), None, 0));
        let intent = far.intent("op");
        assert_eq!(attempt.intent, *intent);
        assert_eq!((intent.record.state, intent.record.attempt), (OperationState::Intent, 1));
        assert_eq!((intent.base.clone(), intent.doubt, intent.claim), (Base::Unread, false, 1));
        assert_eq!(intent.request.content_type.as_ref().map(ContentType::as_str), Some("text/plain"));
        assert!(intent.due_at > far.world.now && attempt.payload.is_some() && !attempt.ask_first);
        let reads = attempt.act == Act::ReadCell;
        assert_eq!(reads, class == Class::Conditional, "an unread cell is read first");
    }
}

#[test]
fn a_recorded_cell_is_sent_on_at_once() {
    let mut far = far(Class::Conditional);
    far.created(&write("first", 1), "v1");
    let second = far.announce(&write("second", 2));
    assert_eq!(second.intent.base, Base::Recorded(tag("v1")));
    assert_eq!(super::stamp(&second).to_string(), "fg1;c;1;0.2;2;second");
}

#[test]
fn a_removal_leaves_a_tombstone() {
    let mut far = far(Class::Conditional);
    far.created(&write("first", 1), "v1");
    let removal = far.announce(&delete(PAGE, "gone", "2").sequence(1));
    assert_eq!(super::stamp(&removal).to_string(), "fg1;t;1;0.2;2;gone");
    assert_eq!(word(&far.settle(&removal, success("v2"))), "applied");
    assert_eq!(far.row().cell, Some(tag("v2")), "the cell stays");
    assert_eq!(far.row().revoked_through, Some(token(2)));
    assert_eq!(far.world.target(PAGE), None);
}

#[test]
fn whoever_asks_again_is_told_where_it_stands() {
    // Broken: a retry is sent a second time, or another payload passes for it. Must hold under an older, the same and
    // a newer position: mismatch, in progress, uncertain.
    for class in Class::ALL {
        let mut far = far(class);
        let attempt = far.announce(&write("op", 3));
        for position in [2, 3, 4] {
            let again = write("op", position);
            assert_eq!(code(&far.write(&again)), Code::OperationInProgress, "{class:?}");
            assert_eq!(code(&far.write(&again.body("other"))), Code::OperationMismatch, "{class:?}");
        }
        let mut intent = attempt.intent;
        intent.record.state = OperationState::Uncertain;
        far.world.snapshot.insert_intent(intent);
        assert_eq!(code(&far.write(&write("op", 4))), Code::OutcomeUncertain, "{class:?}");
        assert_eq!(code(&far.write(&write("op", 4).body("other"))), Code::OperationMismatch);
        assert_eq!(far.row().floor, token(3), "a refusal raises nothing");
    }
}

#[test]
fn a_delivery_whose_commit_was_in_doubt_finds_its_own_announcement() {
    // Broken: the very delivery that announced is told that somebody else is at it, and nobody sends. Must hold: while
    // its first attempt stands it gets its step again; another delivery does not.
    for class in Class::ALL {
        let mut far = far(class);
        let command = far.delivery(&write("op", 3));
        let first = far.announced(&command);
        let before = far.world.snapshot.clone();
        assert_eq!(far.announced(&command), first);
        assert_eq!(far.world.snapshot, before, "{class:?}");
        assert_eq!(code(&far.write(&write("op", 3))), Code::OperationInProgress);
        let moved = far.intent("op").clone();
        let mut later = moved.clone();
        later.record.attempt = 2;
        far.world.snapshot.insert_intent(later);
        assert_eq!(code(&far.world.tell(&command)), Code::OperationInProgress, "{class:?}");
    }
}

#[test]
fn a_decided_operation_gives_the_upstreams_answer_again() {
    // Broken: a replay is composed anew, or asks the store. Must hold: status, headers and body as they came, for an
    // effect and for a refusal that is bound to the id, under any position.
    for class in Class::ALL {
        let mut done = far(class);
        if class == Class::Conditional {
            done.created(&write("op", 3), "v1");
        } else {
            let attempt = done.announce(&write("op", 3));
            assert_eq!(word(&done.settle(&attempt, success("v1"))), "applied");
        }
        let mut refused = far(class);
        let mut attempt = refused.announce(&write("op", 3));
        if class == Class::Conditional {
            attempt =
                again(refused.settle(&attempt, Finding::Cell(fencegate::domain::upstream::CellSeen::Absent)));
        }
        assert_eq!(word(&refused.settle(&attempt, status(422))), "refused");
        for (far, came) in [(&mut done, 201), (&mut refused, 422)] {
            for position in [3, 9] {
                let Outcome::Written(written) = far.write(&write("op", position)) else {
                    panic!("{class:?}")
                };
                let head = written[0].response.relayed.as_ref().unwrap();
                assert!(written[0].replayed);
                assert_eq!((head.status, written[0].position), (came, token(3)));
                assert_eq!(written[0].response.body, answered(came, None).body);
                assert_eq!(written[0].response.commit.is_some(), came == 201);
            }
        }
        assert_eq!((refused.row().applied, refused.row().floor), (None, token(3)));
    }
}

#[test]
fn a_quarantined_resource_takes_nothing_and_replays_all() {
    for class in Class::ALL {
        let mut far = far(class);
        far.announce(&write("op", 3));
        let mut row = far.row().clone();
        row.quarantined = Some("somebody wrote around".to_owned());
        far.world.snapshot.insert_resource(row);
        assert_eq!(code(&far.write(&write("next", 4))), Code::Quarantined, "{class:?}");
        assert_eq!(code(&far.write(&write("op", 4))), Code::OperationInProgress, "row 3 comes before row 5");
        assert_eq!(code(&far.world.advance(PAGE, "9")), Code::Quarantined);
    }
}

#[test]
fn the_table_is_asked_before_anything_is_announced() {
    for class in Class::ALL {
        let mut far: Far = far(class);
        far.world.advance(PAGE, "5");
        assert_eq!(code(&far.write(&write("op", 4))), Code::StaleToken, "{class:?}");
        assert_eq!(far.undecided(), 0);
        assert_eq!(far.row().barrier, Position::ZERO);
    }
}
