//! One test per row of the table, under every policy, contract and issuer that the row applies to.

use fencegate::domain::policy::{Definition, Issuer};
use fencegate::protocol::outcome::Verdict;
use fencegate::protocol::{Outcome, Refusal};

use super::scene::{MAX_JUMP, OURS, Scene, definitions, is_gateway, is_ordered};
use super::spoilers::{BELOW, spoilers};
use crate::support::code::{Code, word};
use crate::support::draft::put;
use crate::support::world::{World, at, name, token};

/// Spoils a scene once per way of this row and per definition, and holds the answer against the row. Returns under
/// how many definitions the row was met, so that a row that is never reached is seen.
fn met(row: u8) -> usize {
    let mut under = 0;
    for definition in definitions() {
        let ways: Vec<_> =
            spoilers().into_iter().filter(|way| way.row == row && (way.applies)(&definition)).collect();
        for way in &ways {
            let mut scene = Scene::new(definition);
            (way.spoil)(&mut scene);
            let before = scene.world.snapshot.clone();
            let outcome = scene.world.decide(&scene.world.command(&[scene.draft.clone()], false)).outcome;
            assert_eq!(word(&outcome), way.code, "row {row}, {}, {definition}", way.name);
            if let Some(refusal) = outcome.refusal() {
                let told = if row == BELOW { None } else { Some(row) };
                assert_eq!(refusal.row(), told, "{}, {definition}", way.name);
            }
            assert_eq!(scene.world.snapshot, before);
        }
        under += usize::from(!ways.is_empty());
    }
    under
}

fn how_many(applies: fn(&Definition) -> bool) -> usize {
    definitions().iter().filter(|definition| applies(definition)).count()
}

#[test]
fn every_valid_definition_is_played() {
    // Broken: a combination that no table test plays. Must hold: gateway x 3 contracts, trusted x observed (bounded
    // and not), registered x observed and immediate, each under four policies.
    assert_eq!(definitions().len(), (3 + 2 + 2) * 4);
    assert_eq!(how_many(is_gateway), 12);
}

#[test]
fn row_1_another_payload_under_a_recorded_operation_is_refused() {
    assert_eq!(met(1), 28);
}

#[test]
fn row_2_a_recorded_terminal_operation_is_replayed() {
    assert_eq!(met(2), 28);
}

#[test]
fn row_3_an_undecided_operation_is_in_progress() {
    assert_eq!(met(3), 28);
}

#[test]
fn row_4_an_uncertain_operation_is_reported_as_such() {
    assert_eq!(met(4), 28);
}

#[test]
fn row_5_nothing_is_written_where_a_person_has_to_look() {
    assert_eq!(met(5), 28);
}

#[test]
fn row_6_a_write_for_another_incarnation_is_gone() {
    assert_eq!(met(6), 28);
}

#[test]
fn row_7_a_deleted_or_cancelled_resource_takes_no_update() {
    assert_eq!(met(7), 28);
}

#[test]
fn row_8_a_token_without_our_seal_is_not_yours() {
    assert_eq!(met(8), how_many(is_gateway));
}

#[test]
fn row_9_our_own_seal_above_everything_issued_says_that_the_database_forgot() {
    assert_eq!(met(9), how_many(is_gateway));
}

#[test]
fn row_10_an_epoch_that_nobody_advanced_to_is_refused() {
    assert_eq!(met(10), 28);
}

#[test]
fn row_11_an_external_position_too_far_ahead_is_refused() {
    let guarded = |definition: &Definition| {
        matches!(definition.issuer, Issuer::Trusted { max_jump: Some(_) } | Issuer::Registered)
    };
    assert_eq!(met(11), how_many(guarded));
}

#[test]
fn row_12_a_stale_or_revoked_position_is_refused() {
    assert_eq!(met(12), 28);
}

#[test]
fn row_13_a_lease_bound_write_needs_its_own_live_lease() {
    assert_eq!(met(13), 4);
}

#[test]
fn row_14_a_single_generation_publishes_once() {
    assert_eq!(met(14), 7);
}

#[test]
fn row_15_a_sequence_goes_up_and_gapless_means_by_one() {
    assert_eq!(met(15), 14);
}

#[test]
fn row_16_a_second_edit_of_a_session_names_what_it_saw() {
    assert_eq!(met(16), 7);
}

#[test]
fn row_17_a_failed_precondition_is_refused() {
    assert_eq!(met(17), 28);
}

#[test]
fn below_the_table_a_removal_of_what_is_not_there_is_told_so() {
    assert_eq!(met(BELOW), 28);
}

#[test]
fn row_19_a_write_that_nothing_stands_against_is_admitted_once() {
    // Broken: a fence that refuses the rightful owner, or an effect that leaves no trace. Must hold: the mark, the
    // floor, the commit number, the content and the record all say the same after one admission.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        let before = scene.row();
        let written = scene.world.written(&scene.draft);
        let after = scene.row();
        assert!(!written.replayed);
        assert_eq!(written.position, token(OURS));
        assert_eq!((after.floor, after.applied.unwrap().position), (token(OURS), token(OURS)));
        assert_eq!(after.applied.unwrap().sequence.is_some(), is_ordered(&definition));
        assert_eq!(Some(after.commit_no), before.commit_no.next());
        assert_eq!(Some(scene.world.target(&scene.draft.path).unwrap().tag), written.response.etag);
        assert_eq!(written.response.commit, Some(after.commit_no));
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::Replayed, "{definition}");
        assert_eq!(scene.row(), after, "a replay changes nothing");
    }
}

#[test]
fn at_the_edge_of_every_bound_a_write_passes() {
    // Broken: `<` where the table says `<=`, the other way round. Must hold: at the floor, at issued, at the furthest
    // jump and one above the revocation a write is admitted; the tests of the rows show the other side.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        scene.alter(|row| (row.floor, row.revoked_through) = (token(OURS), Some(token(OURS - 1))));
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::Admitted, "{definition}");
    }
    for definition in definitions() {
        if matches!(definition.issuer, Issuer::Trusted { max_jump: Some(_) }) {
            let mut scene = Scene::new(definition);
            scene.present(token(8 + MAX_JUMP));
            assert_eq!(word(&scene.world.write(&scene.draft)), Code::Admitted, "{definition}");
        }
    }
}

#[test]
fn a_jump_is_judged_inside_one_epoch() {
    // Broken: after an epoch advance every counter that stands above `max_jump` is locked out for ever. Must hold:
    // the first write of the new epoch is no jump, the second is measured from it.
    for definition in definitions() {
        if !matches!(definition.issuer, Issuer::Trusted { max_jump: Some(_) }) {
            continue;
        }
        let mut scene = Scene::new(definition);
        scene.world.set_epoch(1);
        scene.present(at(1, 400));
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::Admitted, "{definition}");
        scene.draft.operation = "next".to_owned();
        scene.present(at(1, 400 + MAX_JUMP + 1));
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::TokenJump, "{definition}");
    }
}

#[test]
fn a_sequence_begins_anew_in_each_generation() {
    // Broken: the sequence of an old generation stands in the way of a new one, or lets it begin in the middle. Must
    // hold: after 9 at position 5 the first sequence at 10 may be 1, and under gapless must be.
    for definition in definitions().into_iter().filter(is_ordered) {
        let mut scene = Scene::new(definition);
        assert_eq!(word(&scene.world.write(&scene.draft)), Code::Admitted, "{definition}");
        for (sequence, code) in [(1, Code::SequenceRegressed), (2, Code::Admitted), (3, Code::Admitted)] {
            scene.draft.operation = format!("op-{sequence}");
            scene.draft.sequence = Some(sequence);
            assert_eq!(word(&scene.world.write(&scene.draft)), code, "{definition}, sequence {sequence}");
        }
    }
}

#[test]
fn a_namespace_that_is_unknown_or_defined_otherwise_takes_no_write() {
    // Broken: a process with another file decides by other rules than those recorded. Must hold: it refuses, and the
    // recorded definition stands in the answer; a namespace outside the file does not exist.
    let mut recorded = World::new(definitions()[0]);
    recorded.acquire("w/page");
    let mut other = World::new(definitions()[1]);
    other.snapshot = recorded.snapshot.clone();
    let refusal = other.write(&put("w/page/t", "op", "1"));
    match refusal.refusal() {
        Some(Refusal::DefinitionDiffers { recorded, configured }) => {
            assert_eq!((*recorded, *configured), (definitions()[0], definitions()[1]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(word(&other.advance("w/page", "1")), Code::DefinitionDiffers);
    assert_eq!(word(&other.write(&put("elsewhere/page/t", "op", "1"))), Code::UnknownNamespace);
    assert_eq!(
        word(&other.tell(&crate::support::world::acquire("elsewhere/page", 1))),
        Code::UnknownNamespace
    );
}

#[test]
fn a_refusal_tells_where_the_resource_stands() {
    // Broken: a refused worker that learns nothing and retries for ever. Must hold: floor, mark and incarnation of
    // the resource are in the verdict, beside what was presented.
    let mut scene = Scene::new(definitions()[0]);
    scene.alter(|row| row.floor = token(OURS + 1));
    match scene.world.write(&scene.draft) {
        Outcome::NotWritten(members) => {
            let standing = members[0].standing;
            assert_eq!(members[0].presented, token(OURS));
            assert_eq!(standing.floor, token(OURS + 1));
            assert_eq!(standing.applied, scene.row().applied);
            assert_eq!(standing.incarnation.get(), 2);
            assert!(matches!(members[0].verdict, Verdict::Refuse(Refusal::StaleToken { .. })));
        }
        other => panic!("{other:?}"),
    }
    let missing = scene.world.explain(&[put("elsewhere/page/t", "op", "1")]);
    assert!(matches!(missing.outcome, Outcome::Explained(_)), "{:?}", name("elsewhere/page"));
}
