//! A person ends a doubt: once, for good, and on the record.

use fencegate::domain::counter::Incarnation;
use fencegate::domain::operation::{OperationId, OperationState};
use fencegate::domain::upstream::Class;
use fencegate::protocol::command::{Finding, Resolve, ResolveVerdict};
use fencegate::protocol::rows::AuditVerb;
use fencegate::protocol::{Change, Command, Outcome, Refusal};

use super::{Far, PAGE, far, success, word, write};
use crate::support::code::{self, Code};
use crate::support::world::{name, token};

fn verdict(operation: &str, verdict: ResolveVerdict) -> Command {
    Command::Resolve(Resolve {
        resource: name(PAGE),
        operation_id: OperationId::parse(operation).unwrap(),
        incarnation: Incarnation::ONE,
        verdict,
        evidence: "the file is there".to_owned(),
        reason: "looked".to_owned(),
    })
}

fn uncertain() -> Far {
    let mut far = far(Class::Serial);
    let attempt = far.announce(&write("op", 1));
    assert_eq!(word(&far.settle(&attempt, Finding::Doubt)), "uncertain");
    far
}

#[test]
fn a_verdict_is_recorded_with_its_evidence() {
    for (said, state, commit) in [
        (ResolveVerdict::Applied, OperationState::ResolvedApplied, 1),
        (ResolveVerdict::NotApplied, OperationState::ResolvedNotApplied, 0),
    ] {
        let mut far = uncertain();
        let decision = far.world.decide(&verdict("op", said));
        let audited = decision.changes.iter().find_map(|change| match change {
            Change::Audited(row) => Some((row.verb, row.reason.clone().unwrap())),
            _ => None,
        });
        let (verb, text) = audited.unwrap();
        assert_eq!(verb, AuditVerb::Resolved);
        assert!(text.contains("the file is there") && text.contains("looked"), "{text}");
        far.world.apply(&decision.changes);
        let record = far.record("op");
        assert_eq!(record.state, state);
        let resolution = record.resolution.clone().unwrap();
        assert_eq!((resolution.assumed, resolution.evidence.as_str()), (false, "the file is there"));
        let Outcome::Resolved(told) = decision.outcome else { panic!("{said:?}") };
        assert_eq!(*told, *record);
        assert_eq!((far.row().commit_no.get(), far.undecided()), (commit, 0));
        assert_eq!(far.row().applied.is_some(), commit == 1);
    }
}

#[test]
fn the_lane_is_free_and_a_retry_is_told_the_verdict() {
    for (said, retry) in
        [(ResolveVerdict::Applied, Code::Replayed), (ResolveVerdict::NotApplied, Code::NotApplied)]
    {
        let mut far = uncertain();
        far.world.tell(&verdict("op", said));
        assert_eq!(code::word(&far.write(&write("op", 5))), retry);
        assert_eq!(code::word(&far.write(&write("op", 5).body("other"))), Code::OperationMismatch);
        far.announce(&write("next", 2));
    }
}

#[test]
fn a_verdict_is_never_undone() {
    for (first, second) in [
        (ResolveVerdict::Applied, ResolveVerdict::NotApplied),
        (ResolveVerdict::NotApplied, ResolveVerdict::Applied),
    ] {
        let mut far = uncertain();
        far.world.tell(&verdict("op", first));
        let before = far.world.snapshot.clone();
        let Outcome::Resolved(record) = far.world.tell(&verdict("op", first)) else { panic!("{first:?}") };
        assert_eq!(*record, *far.record("op"), "the same again is answered as the first time");
        match far.world.tell(&verdict("op", second)) {
            Outcome::Refused(Refusal::AlreadyResolved { state }) => assert_eq!(state, record.state),
            other => panic!("{other:?}"),
        }
        assert_eq!(far.world.snapshot, before);
    }
}

#[test]
fn what_is_not_uncertain_takes_no_verdict() {
    for class in Class::ALL {
        let mut far = far(class);
        far.announce(&write("op", 1));
        for said in [ResolveVerdict::Applied, ResolveVerdict::NotApplied] {
            assert_eq!(code::word(&far.world.tell(&verdict("op", said))), Code::NotUncertain, "{class:?}");
            assert_eq!(code::word(&far.world.tell(&verdict("other", said))), Code::NoSuchOperation);
        }
    }
}

#[test]
fn a_decided_operation_agrees_with_the_verdict_or_not() {
    let mut far = far(Class::Serial);
    let applied = far.announce(&write("applied", 1));
    far.settle(&applied, success("v1"));
    let refused = far.announce(&write("refused", 2));
    far.settle(&refused, super::status(422));
    for (operation, right, wrong) in [
        ("applied", ResolveVerdict::Applied, ResolveVerdict::NotApplied),
        ("refused", ResolveVerdict::NotApplied, ResolveVerdict::Applied),
    ] {
        assert_eq!(code::word(&far.world.tell(&verdict(operation, right))), Code::Resolved);
        assert_eq!(code::word(&far.world.tell(&verdict(operation, wrong))), Code::AlreadyResolved);
    }
}

#[test]
fn a_late_answer_does_not_undo_a_verdict() {
    let mut far = far(Class::Serial);
    let attempt = far.announce(&write("op", 1));
    far.settle(&attempt, Finding::Doubt);
    assert_eq!(word(&far.settle(&attempt, success("v1"))), "moved", "no more is learnt by itself");
    far.world.tell(&verdict("op", ResolveVerdict::NotApplied));
    assert_eq!(word(&far.settle(&attempt, success("v1"))), "moved");
    assert_eq!(far.row().applied, None);
    assert_eq!(far.row().floor, token(1));
}
