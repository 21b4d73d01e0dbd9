//! What is refused, replayed or only asked changes nothing (I19).

use fencegate::domain::lease::LeaseState;
use fencegate::protocol::rows::LeaseRef;
use fencegate::protocol::{Change, Outcome, Snapshot};

use super::scene::{PATH, RESOURCE, Scene, definitions};
use super::spoilers::spoilers;
use crate::support::code::{Code, word, words};
use crate::support::draft::put;
use crate::support::world::{World, acquire, acquire_by, name};

/// Nothing but the ends of leases, which are not fencing state, may differ.
fn assert_same_fence(before: &Snapshot, after: &Snapshot) {
    assert!(before.resources().eq(after.resources()));
    assert!(before.operations().eq(after.operations()));
    assert!(before.targets().eq(after.targets()));
    assert!(before.namespaces().eq(after.namespaces()));
    for (old, new) in before.leases().zip(after.leases()) {
        let ended = old.state == LeaseState::Held && new.state == LeaseState::Expired;
        assert!(old == new || ended, "{old:?} {new:?}");
    }
}

#[test]
fn every_refusal_and_every_replay_leaves_the_fence_alone() {
    // Broken: a refused request raises the floor, spends a generation or binds its id; a replay advances the floor.
    // Must hold for every row and definition: rows, records, targets and counters are what they were.
    for definition in definitions() {
        for way in spoilers().into_iter().filter(|way| (way.applies)(&definition)) {
            let mut scene = Scene::new(definition);
            (way.spoil)(&mut scene);
            let before = scene.world.snapshot.clone();
            assert_eq!(word(&scene.world.write(&scene.draft)), way.code);
            assert_same_fence(&before, &scene.world.snapshot);
            if way.name == "expired" {
                let lease = scene.world.snapshot.lease(&scene.row().lease.unwrap().acquisition).unwrap();
                assert_eq!(lease.state, LeaseState::Expired, "a seen expiry is written down");
            } else {
                assert_eq!(before, scene.world.snapshot, "{}", way.name);
            }
        }
    }
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    // Broken: a question that leaves a trace, or that is answered otherwise than the write. Must hold for every row
    // and definition, admission included: the same word, no change at all.
    for definition in definitions() {
        for way in spoilers().into_iter().filter(|way| (way.applies)(&definition)) {
            let mut scene = Scene::new(definition);
            (way.spoil)(&mut scene);
            let explained = scene.world.explain(std::slice::from_ref(&scene.draft));
            assert_eq!(explained.changes, []);
            assert_eq!(words(&explained.outcome), [way.code], "{}, {definition}", way.name);
        }
        let scene = Scene::new(definition);
        let explained = scene.world.explain(std::slice::from_ref(&scene.draft));
        assert_eq!((words(&explained.outcome), explained.changes), (vec![Code::Admitted], vec![]));
        assert!(explained.outcome.refusal().is_none());
    }
}

#[test]
fn a_dry_run_tells_whether_there_is_content_to_replace() {
    // Broken: "would create" for what would replace. Must hold: the verdict knows which.
    let world = Scene::new(definitions()[0]);
    for (path, replaces) in [(PATH, true), ("w/page/new", false)] {
        let draft = put(path, "op", world.draft.token.clone());
        match world.world.explain(&[draft]).outcome {
            Outcome::Explained(members) => {
                let expected = fencegate::protocol::outcome::Verdict::Admit { replaces };
                assert_eq!(members[0].verdict, expected);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_refused_request_records_no_namespace_and_no_resource() {
    // Broken: anybody's typing error fixes a definition for ever or fills the table. Must hold: nothing is recorded
    // before the first thing that was admitted or granted.
    for definition in definitions() {
        let mut world = World::new(definition);
        let mut draft = put(PATH, "op", "9.5");
        draft.sequence = Some(1);
        assert!(world.write(&draft).refusal().is_some());
        assert!(world.advance(RESOURCE, "9.5").refusal().is_some());
        world.tell(&acquire_by(RESOURCE, 1, "", Some(1)));
        assert_eq!(world.snapshot, Snapshot::default(), "{definition}");
    }
}

#[test]
fn the_first_thing_admitted_records_the_namespace_once() {
    // Broken: two members of one batch both record their namespace. Must hold: recorded with the first admission, once.
    let world = World::new(definitions()[1]);
    let drafts = [put("w/a/t", "op", "1"), put("w/b/t", "op", "1")];
    let decision = world.decide(&world.command(&drafts, false));
    let recorded =
        decision.changes.iter().filter(|change| matches!(change, Change::NamespaceRecorded(_))).count();
    assert_eq!((recorded, words(&decision.outcome).len()), (1, 2));
    assert!(
        matches!(decision.changes.first(), Some(Change::NamespaceRecorded(_))),
        "before what refers to it"
    );
}

#[test]
fn a_refused_acquire_closes_nothing() {
    // Broken: an acquire that is refused ends the lease it ran into. Must hold: held, wrong ttl and mismatch change
    // nothing.
    let mut world = World::new(definitions()[0]);
    world.acquire(RESOURCE);
    let before = world.snapshot.clone();
    assert_eq!(word(&world.tell(&acquire(RESOURCE, 2))), Code::LeaseHeld);
    assert_eq!(word(&world.tell(&acquire_by(RESOURCE, 2, "", Some(1)))), Code::TtlOutOfBounds);
    assert_eq!(word(&world.tell(&acquire_by(RESOURCE, 1, "bob", None))), Code::RequestMismatch);
    assert_eq!(before, world.snapshot);
    assert_eq!(world.snapshot.resource(&name("w/other")), None);
}

#[test]
fn a_broken_row_stops_the_request_instead_of_guessing() {
    // Broken: a row that names a lease that is not there is taken for "no lease", and two owners are granted. Must
    // hold: `Inconsistent`, for whoever has to look at that lease.
    let mut scene = Scene::new(definitions()[0]);
    let stranger = fencegate::domain::lease::AcquisitionHash::from_bytes([1; 32]);
    scene.alter(|row| row.lease = Some(LeaseRef { bucket: row.resource.bucket(), acquisition: stranger }));
    let context = scene.world.context();
    let decide =
        |command| fencegate::protocol::decide(&context, &scene.world.snapshot, &command, scene.world.now);
    let error = decide(acquire(RESOURCE, 9)).unwrap_err().to_string();
    assert!(error.starts_with("inconsistent: ") && error.contains("w/page"), "{error}");
}
