//! One logical operation, however often and under whatever position it is delivered, has one outcome.

use fencegate::domain::counter::{CommitNo, Incarnation};
use fencegate::domain::operation::OperationState;
use fencegate::domain::policy::{Contract, Definition};
use fencegate::domain::seal::Keyring;
use fencegate::protocol::Outcome;
use fencegate::protocol::incarnation::addressed;
use fencegate::protocol::rows::EraRow;

use super::scene::{PATH, RESOURCE, Scene, definitions, is_gateway};
use crate::support::code::{Code, word};
use crate::support::draft::{Draft, delete, put};
use crate::support::world::{World, key, name, token};

fn world(contract: Contract) -> World {
    World::new(Definition { contract, scope: 1, ..Definition::default() })
}

#[test]
fn a_superseded_owner_learns_its_lost_answer() {
    // Broken: the answer was lost, the lease too, and the retry is told "stale" although the page is published. Must
    // hold: the saved answer, byte for byte, with the accepted position and the floor of now.
    for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
        let mut world = world(contract);
        let alice = world.acquire(RESOURCE);
        let publish = put(PATH, "publish", alice.fencing_tokens[0].0.clone());
        let first = world.written(&publish);
        world.wait_ms(20_000);
        let bob = world.acquire(RESOURCE);
        world.written(&put(PATH, "publish-2", bob.fencing_tokens[0].0.clone()));
        let again = world.written(&publish);
        assert!(again.replayed && !first.replayed);
        assert_eq!((again.response.clone(), again.position), (first.response, token(1)));
        assert_eq!(again.floor, token(2), "{contract:?}");
    }
}

#[test]
fn a_replacement_finds_the_work_done_and_the_floor_stays() {
    // Broken: the publisher died before its book-keeping, and its replacement publishes twice; or the replay raises
    // the floor and spends the replacement's generation. Must hold: a replay, no commit, no raised register.
    let mut world = world(Contract::Observed);
    let alice = world.acquire(RESOURCE);
    let publish = put(PATH, "publish", alice.fencing_tokens[0].0.clone());
    world.written(&publish);
    world.wait_ms(20_000);
    let bob = world.acquire(RESOURCE);
    let before = world.row(RESOURCE).clone();
    let found = world.written(&publish.clone().under(bob.fencing_tokens[0].0.clone()));
    assert!(found.replayed && found.position == token(1));
    assert_eq!(*world.row(RESOURCE), before);
    assert_eq!(before.floor, token(1));
    assert_eq!(word(&world.write(&put(PATH, "correct", bob.fencing_tokens[0].0.clone()))), Code::Admitted);
}

#[test]
fn a_replay_needs_no_valid_seal() {
    // Broken: after the keys were rotated away an honest retry is told that its token is not its own. Must hold: the
    // record answers before the seal is judged; a new operation under that token is refused.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    let publish = put(PATH, "publish", grant.fencing_tokens[0].0.clone());
    world.written(&publish);
    world.set_keyring(Keyring::of(key(8)));
    assert!(world.written(&publish).replayed);
    assert!(world.written(&publish.clone().under("1")).replayed);
    assert!(world.written(&publish.under("0.999.nonsense")).replayed);
    assert_eq!(word(&world.write(&put(PATH, "other", grant.fencing_tokens[0].0.clone()))), Code::SealWrong);
}

#[test]
fn a_refused_operation_is_not_bound_to_its_id() {
    // Broken: a worker that came too early or too late can never deliver its operation again. Must hold: after every
    // refusal of the table the same id is admitted under a position that is admissible, with whatever payload.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    world.wait_ms(20_000);
    let bob = world.acquire(RESOURCE);
    let publish = put(PATH, "publish", alice.fencing_tokens[0].0.clone());
    assert_eq!(word(&world.write(&publish)), Code::StaleToken);
    assert_eq!(world.snapshot.operations().count(), 0);
    let other = publish.body("other").under(bob.fencing_tokens[0].0.clone());
    assert!(!world.written(&other).replayed);
}

#[test]
fn another_payload_under_one_id_is_refused_in_every_generation() {
    // Broken: two payloads under one operation id (I6). Must hold: 422 whatever position is presented.
    let mut world = world(Contract::Immediate);
    let alice = world.acquire(RESOURCE);
    world.written(&put(PATH, "publish", alice.fencing_tokens[0].0.clone()));
    world.wait_ms(20_000);
    let bob = world.acquire(RESOURCE);
    for token in [alice.fencing_tokens[0].0.clone(), bob.fencing_tokens[0].0.clone(), "7".to_owned()] {
        assert_eq!(word(&world.write(&put(PATH, "publish", token).body("other"))), Code::OperationMismatch);
    }
}

#[test]
fn a_request_addresses_the_incarnation_in_which_its_position_falls() {
    // Broken: after several re-creations a late retry is held against the wrong life's records. Must hold: each
    // position finds its own era, the newest finds the current one, and a named incarnation overrides the position.
    let mut world = world(Contract::Immediate);
    let mut tokens = Vec::new();
    for life in 1..=3 {
        let next = |world: &mut World, draft: &dyn Fn(String) -> Draft| {
            let grant = world.acquire(RESOURCE);
            let written = world.written(&draft(grant.fencing_tokens[0].0.clone()));
            world.release(&grant.acquisition_id);
            assert!(!written.replayed && written.incarnation.get() == life);
            grant.fencing_tokens[0].0.clone()
        };
        // The first write of a life begins it; only the second may repeat a name of an earlier one.
        let begun = next(&mut world, &|token| put("w/page/first", &format!("begin-{life}"), token));
        let published = next(&mut world, &|token| put(PATH, "publish", token));
        let ended = next(&mut world, &|token| delete(RESOURCE, "end", token));
        tokens.push([begun, published, ended]);
    }
    for (index, tokens) in tokens.iter().enumerate() {
        let life = u64::try_from(index).unwrap() + 1;
        for token in tokens {
            let replay = world.written(&put(PATH, "publish", token.clone()));
            assert!(replay.replayed);
            assert_eq!(replay.incarnation.get(), life);
            assert_eq!(replay.response.commit.map_or(0, CommitNo::get), life * 3 - 1);
            let other = put(PATH, "publish", token.clone()).body("other");
            assert_eq!(word(&world.write(&other)), Code::OperationMismatch);
            for wanted in 1..=3 {
                let named = put(PATH, "publish", token.clone()).incarnation(wanted);
                assert_eq!(world.written(&named).incarnation.get(), wanted);
            }
        }
        let unknown = put(PATH, "new", tokens[0].clone()).incarnation(9);
        assert_eq!(word(&world.write(&unknown)), Code::IncarnationGone);
    }
}

#[test]
fn until_a_life_has_begun_its_predecessor_answers() {
    // Broken: on a tombstone a late retry of the old life would begin a new one. Must hold: the tombstone's incarnation
    // is still the current one, so the id is its own until somebody creates under another.
    let mut world = world(Contract::Immediate);
    let grant = world.acquire(RESOURCE);
    let create = put(PATH, "create", grant.fencing_tokens[0].0.clone());
    world.written(&create);
    world.release(&grant.acquisition_id);
    let grant = world.acquire(RESOURCE);
    world.written(&delete(RESOURCE, "end", grant.fencing_tokens[0].0.clone()));
    let next = world.acquire(RESOURCE);
    assert!(world.written(&create.under(next.fencing_tokens[0].0.clone())).replayed);
    assert_eq!(world.target(PATH), None);
}

#[test]
fn a_position_before_every_incarnation_addresses_none() {
    // Broken: a row that began above zero (folded tombstones) is held against the current life's records. Must hold:
    // below the first era there is none; at a birth begins the one that was born.
    let mut scene = Scene::new(definitions()[0]);
    let page = name(RESOURCE);
    scene.alter(|row| row.born = token(12));
    let row = scene.row();
    let era = |position| scene.world.snapshot.era_at(&page, position);
    let one = Incarnation::new(1);
    let two = Incarnation::new(2);
    assert_eq!(addressed(&row, token(12), None, era), two);
    assert_eq!(addressed(&row, token(11), None, era), one);
    assert_eq!(addressed(&row, token(11), two, era), two);
    assert_eq!(addressed(&row, token(11), None, |_| None), None);
    assert_eq!(scene.world.snapshot.era_at(&name("w/unheard"), token(11)), None);
    let eras = [(2, token(4)), (3, token(9))];
    for (number, born) in eras {
        let incarnation = Incarnation::new(number).unwrap();
        scene.world.snapshot.insert_era(EraRow { resource: page.clone(), incarnation, born });
    }
    for (position, number) in [(3, 1), (4, 2), (8, 2), (9, 3), (11, 3)] {
        let found = scene.world.snapshot.era_at(&page, token(position));
        assert_eq!(found, Incarnation::new(number), "{position}");
    }
}

#[test]
fn all_answers_of_one_operation_agree() {
    // Broken: the first answer says 201 and commit 8, the second 200 or commit 9 (I5). Must hold under every
    // definition: done, commit, validator, position, sequence and bytes are those of the first answer, for ever.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        let first = scene.world.written(&scene.draft);
        for epoch in 0..2 {
            scene.world.set_epoch(epoch);
            scene.world.wait_ms(20_000);
            let again = scene.world.written(&scene.draft);
            assert!(again.replayed);
            assert_eq!((&again.response, again.incarnation), (&first.response, first.incarnation));
            assert_eq!((again.position, again.sequence), (first.position, first.sequence));
        }
    }
}

#[test]
fn the_record_names_the_acquisition_where_there_is_one() {
    // Broken: nobody can tell later whose lease an operation came with. Must hold: the tag of the sealed token.
    for definition in definitions() {
        let mut scene = Scene::new(definition);
        scene.world.written(&scene.draft);
        let record = scene.world.snapshot.operations().next().unwrap();
        assert_eq!(record.acquisition.is_some(), is_gateway(&definition));
        assert_eq!((record.attempt, record.state), (1, OperationState::Applied));
    }
}

#[test]
fn a_terminal_record_without_an_answer_is_loud() {
    // Broken: a record that was half written is replayed as an empty success. Must hold: `Inconsistent`.
    let mut scene = Scene::new(definitions()[0]);
    scene.record(OperationState::Applied);
    let mut record = scene.world.snapshot.operations().next().unwrap().clone();
    record.response = None;
    scene.world.snapshot.insert_operation(record);
    let command = scene.world.command(&[scene.draft.clone()], false);
    let context = scene.world.context();
    let answer = fencegate::protocol::decide(&context, &scene.world.snapshot, &command, scene.world.now);
    assert!(answer.map(|decision| decision.outcome).map_err(|_| ()) == Err::<Outcome, ()>(()));
}
