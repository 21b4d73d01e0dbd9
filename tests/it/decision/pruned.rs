//! Where records may be missing, the gateway does not claim what it no longer knows.

use fencegate::domain::counter::{Incarnation, Sequence};
use fencegate::domain::operation::OperationState;
use fencegate::domain::time::Millis;
use fencegate::protocol::prune::{ERAS_AT_ONCE, Prunable, Prune};
use fencegate::protocol::rows::{EraRow, Mark};
use fencegate::protocol::{Command, Refusal};

use super::scene::{RESOURCE, Scene, definitions, is_ordered};
use super::spoilers::spoilers;
use crate::support::code::{Code, word};
use crate::support::world::{at, name, token};

/// Records may be missing up to the write's own position and sequence.
fn prune_through_here(scene: &mut Scene) {
    let member = scene.draft.member(&scene.world);
    let mark = Mark { position: member.claim.position, sequence: member.sequence };
    scene.alter(|row| row.pruned_through = Some(mark));
}

#[test]
fn what_is_refused_for_good_may_have_been_applied_once() {
    // Broken: the record of an applied write was pruned, its retry is refused as stale, or because its resource has been
    // deleted since, and the caller reads effect `none` of what is in the store. Must hold: rows 5 to 7 and 12 to 17
    // become 410 `operation_expired`, every other row stays.
    let mut expired = 0;
    for definition in definitions() {
        for way in spoilers().into_iter().filter(|way| (way.applies)(&definition)) {
            let mut scene = Scene::new(definition);
            (way.spoil)(&mut scene);
            prune_through_here(&mut scene);
            let outcome = scene.world.write(&scene.draft);
            if (5..=7).contains(&way.row) || (12..=17).contains(&way.row) {
                assert_eq!(word(&outcome), Code::OperationExpired, "{}, {definition}", way.name);
                expired += 1;
            } else {
                assert_eq!(word(&outcome), way.code, "{}, {definition}", way.name);
            }
        }
    }
    assert!(expired > 100, "{expired}");
}

#[test]
fn what_is_admissible_is_admitted_although_records_are_missing() {
    // Broken: a pruned row stops taking writes. Must hold: pruning went only as far as a repeat would be refused, so
    // what passes the table is new.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        prune_through_here(&mut scene);
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::Admitted, "{definition}");
    }
}

#[test]
fn a_record_that_is_still_there_is_replayed() {
    // Broken: the mark hides records that were kept. Must hold: rows 1 to 4 come first.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        scene.record(OperationState::Applied);
        prune_through_here(&mut scene);
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::Replayed, "{definition}");
    }
}

#[test]
fn everything_below_the_mark_may_be_missing() {
    // Broken: only what stands exactly at the mark is taken for pruned, and older retries read effect `none`. Must
    // hold: below the mark every position and every sequence may be missing.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        let position = scene.position();
        let above = at(position.epoch.get(), position.token.get() + 1);
        scene.alter(|row| {
            row.revoked_through = Some(position);
            row.pruned_through = Some(Mark { position: above, sequence: None });
        });
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::OperationExpired, "{definition}");
    }
}

#[test]
fn above_the_mark_nothing_is_missing() {
    // Broken: every old retry is answered "unknown", also where the gateway knows better. Must hold: one position or
    // one sequence above the mark a refusal is its own.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        let position = scene.position();
        let below = at(position.epoch.get(), position.token.get() - 1);
        let sequence = Sequence::new(99);
        scene.alter(|row| {
            row.revoked_through = Some(position);
            row.pruned_through = Some(Mark { position: below, sequence });
        });
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::StaleToken, "{definition}");
    }
    for definition in definitions().into_iter().filter(is_ordered) {
        let mut scene = Scene::new(definition);
        let position = scene.position();
        scene.alter(|row| {
            row.revoked_through = Some(position);
            row.pruned_through = Some(Mark { position, sequence: Sequence::new(4) });
        });
        for (sequence, code) in [(4, Code::OperationExpired), (5, Code::StaleToken)] {
            scene.draft.sequence = Some(sequence);
            assert_eq!(word(&scene.world.write(&scene.draft)), code, "{definition}");
        }
    }
}

#[test]
fn an_expired_operation_belongs_to_row_12() {
    // Broken: a dry run that names another row than the table. Must hold: the table lists it beside `stale_token`.
    assert_eq!(Refusal::OperationExpired.row(), Some(12));
}

#[test]
fn a_life_is_forgotten_once_all_of_its_positions_may_be_missing() {
    // Broken: which life a late position belonged to is forgotten while records of it stand, or never. Must hold: a life that
    // began at 0 and one that began at 3 go once records may be missing up to where the next one began.
    let second = Incarnation::new(2).unwrap();
    for (through, left) in [(2, 2), (3, 1), (4, 1), (5, 1), (6, 0), (7, 0)] {
        let mut scene = Scene::new(definitions()[0]);
        let resource = name(RESOURCE);
        scene.world.snapshot.insert_era(EraRow {
            resource: resource.clone(),
            incarnation: second,
            born: token(3),
        });
        scene.alter(|row| {
            (row.incarnation, row.born) = (Incarnation::new(3).unwrap(), token(6));
            row.pruned_through = Some(Mark { position: token(through), sequence: None });
        });
        let what = Prunable::Operations { resource: resource.clone(), operations: Vec::new() };
        scene.world.tell(&Command::Prune(Prune { kept: Millis::new(1), what }));
        let eras: Vec<_> = scene.world.snapshot.eras(&resource).map(|(_, incarnation)| incarnation).collect();
        assert_eq!(eras, [Incarnation::ONE, second][2 - left..], "{through}");
    }
}

#[test]
fn of_as_many_lives_as_are_brought_at_once_the_last_one_waits() {
    // Broken: the last of the lives that were brought is forgotten though others may follow that were not brought, so that
    // nobody knows where it ended. Must hold: it goes with the next look, when fewer are left.
    let mut scene = Scene::new(definitions()[0]);
    let resource = name(RESOURCE);
    let most = u64::try_from(ERAS_AT_ONCE).unwrap();
    for number in 2..=most {
        let incarnation = Incarnation::new(number).unwrap();
        scene.world.snapshot.insert_era(EraRow {
            resource: resource.clone(),
            incarnation,
            born: token(number),
        });
    }
    scene.alter(|row| {
        (row.incarnation, row.born) = (Incarnation::new(most + 1).unwrap(), token(most + 1));
        row.pruned_through = Some(Mark { position: token(most + 5), sequence: None });
    });
    for left in [1, 0] {
        let what = Prunable::Operations { resource: resource.clone(), operations: Vec::new() };
        scene.world.tell(&Command::Prune(Prune { kept: Millis::new(1), what }));
        assert_eq!(scene.world.snapshot.eras(&resource).count(), left);
    }
}
