//! Deleting and creating again: tombstones keep their counters, and nothing of the old life comes back.

use fencegate::domain::counter::{CommitNo, Incarnation};
use fencegate::domain::lease::LeaseState;
use fencegate::domain::operation::Method;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy};
use fencegate::domain::position::Position;
use fencegate::protocol::rows::{Done, EverywhereRow, Life, NamespaceRow};
use fencegate::protocol::{Outcome, Refusal};

use super::scene::{PATH, RESOURCE, Scene, definitions, is_gateway};
use crate::support::code::{Code, word};
use crate::support::draft::{Draft, delete, put};
use crate::support::world::{World, ended, name, token};

fn base_of(contract: Contract) -> Definition {
    Definition { contract, scope: 1, ..Definition::default() }
}

/// A page that was written under one lease and deleted under the next.
fn deleted(contract: Contract) -> (World, Draft, Draft) {
    let mut world = World::new(base_of(contract));
    let first = world.acquire(RESOURCE);
    let create = put(PATH, "create", first.fencing_tokens[0].0.clone());
    world.written(&create);
    world.release(&first.acquisition_id);
    let second = world.acquire(RESOURCE);
    let end = delete(RESOURCE, "end", second.fencing_tokens[0].0.clone());
    world.written(&end);
    (world, create, end)
}

#[test]
fn a_delete_leaves_a_tombstone_and_takes_every_target_along() {
    // Broken: a removal that forgets the counters lets a paused writer bring the page back. Must hold: life `deleted`,
    // the position revoked, commit counted, content gone, record kept.
    let (mut world, create, end) = deleted(Contract::Immediate);
    let row = world.row(RESOURCE).clone();
    assert_eq!(
        (row.life, row.revoked_through, row.incarnation),
        (Life::Deleted, Some(token(2)), Incarnation::ONE)
    );
    assert_eq!((row.commit_no.get(), row.issued, row.floor), (2, token(2), token(2)));
    assert_eq!(row.published(), None);
    assert_eq!(world.target(PATH), None);
    let again = world.written(&end);
    assert!(again.replayed && again.response.done == Done::Removed && again.response.etag.is_none());
    assert!(world.written(&create).replayed);
    assert_eq!(*world.row(RESOURCE), row);
}

#[test]
fn the_answer_says_whether_there_was_content_before() {
    // Broken: a client takes its edit for the first publication, or the first publication for an edit (201 and 200). Must
    // hold: each target is created once, replaced from then on, and created again after it was removed.
    let policy = Policy::Ordered { gapless: false };
    let mut world = World::new(Definition { policy, ..base_of(Contract::Immediate) });
    let owner = world.acquire(RESOURCE).fencing_tokens[0].0.clone();
    let steps = [
        (put(PATH, "first", owner.clone()), Done::Created),
        (put(PATH, "second", owner.clone()), Done::Replaced),
        (put("w/page/other", "third", owner.clone()), Done::Created),
        (put(PATH, "fourth", owner.clone()).method(Method::Post), Done::Replaced),
        (delete(PATH, "fifth", owner.clone()), Done::Removed),
        (put(PATH, "sixth", owner), Done::Created),
    ];
    for (sequence, (draft, done)) in (1..).zip(steps) {
        let written = world.written(&draft.clone().sequence(sequence));
        assert_eq!(written.response.done, done, "{draft:?}");
    }
}

#[test]
fn a_delete_ends_the_lease_of_its_position() {
    // Broken: the deleter keeps a lease on nothing, and the next owner waits for its ttl. Must hold: released at once,
    // a renewal says so, and the next acquire is granted.
    for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
        let mut world = World::new(base_of(contract));
        let grant = world.acquire(RESOURCE);
        world.written(&put(PATH, "create", grant.fencing_tokens[0].0.clone()));
        world.release(&grant.acquisition_id);
        let grant = world.acquire(RESOURCE);
        world.written(&delete(RESOURCE, "end", grant.fencing_tokens[0].0.clone()));
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Released);
        let next = world.acquire(RESOURCE);
        assert_eq!((next.view.life, next.view.incarnation), (Life::Deleted, Incarnation::ONE));
        assert_eq!(ended(&world.renew(&grant.acquisition_id)), LeaseState::Released, "released, always");
    }
}

#[test]
fn a_delete_under_an_expired_lease_leaves_it_expired() {
    // Broken: one and the same ended lease answers `lease_expired` now and `lease_released` later. Must hold: expiry
    // is sticky, and says so until a newer position exists.
    for seen_before in [false, true] {
        let mut world = World::new(base_of(Contract::Immediate));
        let grant = world.acquire(RESOURCE);
        world.written(&put(PATH, "create", grant.fencing_tokens[0].0.clone()));
        world.wait_ms(20_000);
        let late = world.acquire(RESOURCE);
        world.wait_ms(20_000);
        if seen_before {
            assert_eq!(ended(&world.renew(&late.acquisition_id)), LeaseState::Expired);
        }
        world.written(&delete(RESOURCE, "end", late.fencing_tokens[0].0.clone()));
        assert_eq!(ended(&world.renew(&late.acquisition_id)), LeaseState::Expired);
        assert_eq!(world.lease(&late.acquisition_id).state, LeaseState::Expired, "and it is written down");
        world.acquire(RESOURCE);
        assert_eq!(ended(&world.renew(&late.acquisition_id)), LeaseState::Superseded);
    }
}

#[test]
fn a_superseded_owner_that_deletes_does_not_end_the_newer_lease() {
    // Broken: under `observed` the older owner may still delete; it must not take the newer owner's lease along.
    let mut world = World::new(base_of(Contract::Observed));
    let alice = world.acquire(RESOURCE);
    world.written(&put(PATH, "create", alice.fencing_tokens[0].0.clone()));
    world.wait_ms(20_000);
    let bob = world.acquire(RESOURCE);
    world.wait_ms(20_000);
    let carol = world.acquire(RESOURCE);
    world.written(&delete(RESOURCE, "end", bob.fencing_tokens[0].0.clone()));
    assert!(matches!(world.renew(&carol.acquisition_id), Outcome::Renewed(_)));
    let created = world.written(&put(PATH, "create-2", carol.fencing_tokens[0].0.clone()));
    assert_eq!(created.incarnation.get(), 2);
}

#[test]
fn a_put_or_post_above_the_tombstone_begins_a_new_incarnation() {
    // Broken: a re-creation that restarts the counters, or that old records stand in the way of. Must hold: incarnation
    // + 1, born where it was created, commit numbers go on, and the operation id of the old life is free again.
    for method in [Method::Put, Method::Post] {
        let (mut world, create, _) = deleted(Contract::Immediate);
        let third = world.acquire(RESOURCE);
        let again =
            put(PATH, "create-2", third.fencing_tokens[0].0.clone()).method(method).if_none_match("*");
        let written = world.written(&again);
        let row = world.row(RESOURCE);
        assert_eq!((written.incarnation.get(), written.response.done), (2, Done::Created));
        assert_eq!((row.life, row.born, row.commit_no.get()), (Life::Active, token(3), 3));
        assert_eq!(row.revoked_through, Some(token(2)));
        assert_eq!(
            world.snapshot.eras(&name(RESOURCE)).collect::<Vec<_>>(),
            [(Position::ZERO, Incarnation::ONE)]
        );
        // The first owner's late retry finds its own outcome, not this life's.
        let late = world.written(&create);
        assert!(
            late.replayed
                && late.incarnation == Incarnation::ONE
                && late.response.commit.map_or(0, CommitNo::get) == 1
        );
        // And this owner may use the same name: it is another incarnation's.
        world.release(&third.acquisition_id);
        let fourth = world.acquire(RESOURCE);
        let fresh = world.written(&create.under(fourth.fencing_tokens[0].0.clone()));
        assert!(!fresh.replayed && fresh.incarnation.get() == 2);
    }
}

#[test]
fn only_content_above_the_tombstone_without_a_named_incarnation_creates_again() {
    // Broken: an update, a removal or a revoked position brings a deleted page back. Must hold: each is 410 `deleted`.
    let (mut world, _, end) = deleted(Contract::Immediate);
    let old = end.token;
    let new = world.acquire(RESOURCE).fencing_tokens[0].0.clone();
    let refused = [
        put(PATH, "a", old),
        put(PATH, "b", new.clone()).incarnation(1),
        delete(PATH, "c", new.clone()),
        delete(RESOURCE, "d", new.clone()),
    ];
    for draft in refused {
        let outcome = world.write(&draft);
        let revoked_through = Some(token(2));
        assert_eq!(outcome.refusal(), Some(&Refusal::Deleted { revoked_through }), "{draft:?}");
    }
    assert_eq!(
        word(&world.write(&put(PATH, "e", new.clone()).if_match("\"1.1\""))),
        Code::PreconditionFailed
    );
    assert_eq!(word(&world.write(&put(PATH, "f", new.clone()).if_match("*"))), Code::PreconditionFailed);
    assert_eq!(word(&world.write(&put(PATH, "g", new).incarnation(2))), Code::IncarnationGone);
}

#[test]
fn nothing_of_the_old_incarnation_is_admitted_into_the_new_one() {
    // Broken: a writer that slept through a deletion and a re-creation overwrites the new page (I16). Must hold: every
    // earlier position is stale, and the incarnation that it names is gone.
    let (mut world, create, end) = deleted(Contract::Observed);
    let third = world.acquire(RESOURCE);
    world.written(&put(PATH, "create-2", third.fencing_tokens[0].0.clone()));
    for old in [create.token, end.token] {
        assert_eq!(word(&world.write(&put(PATH, "late", old.clone()))), Code::StaleToken);
        assert_eq!(word(&world.write(&put(PATH, "late", old).incarnation(1))), Code::IncarnationGone);
    }
}

#[test]
fn a_removal_of_what_never_existed_changes_nothing() {
    // Broken: a tombstone for a page that never was. Must hold: 404, before and after somebody owned it; of a target
    // likewise, and after its removal.
    for definition in definitions() {
        let mut world = World::new(definition);
        let (position, sequence) = if is_gateway(&definition) {
            (world.acquire(RESOURCE).fencing_tokens[0].0.clone(), Some(1))
        } else {
            ("1".to_owned(), Some(1))
        };
        if definition.issuer == Issuer::Registered {
            world.advance(RESOURCE, "1");
        }
        let mut draft = delete(RESOURCE, "end", position);
        draft.sequence = sequence;
        let before = world.snapshot.clone();
        assert_eq!(word(&world.write(&draft)), Code::NothingToDelete, "{definition}");
        draft.path = PATH.to_owned();
        assert_eq!(word(&world.write(&draft)), Code::NothingToDelete, "{definition}");
        assert_eq!(world.snapshot, before);
    }
}

#[test]
fn a_target_is_removed_alone() {
    // Broken: removing one file of a page deletes the page. Must hold: the page lives, its other files stand, the
    // removal counts as a commit and answers without a validator.
    let mut scene = Scene::new(definitions()[0]);
    scene.world.written(&scene.draft);
    let end = delete(PATH, "end", scene.world.acquire("w/other").fencing_tokens[0].0.clone());
    assert_eq!(word(&scene.world.write(&end)), Code::SealWrong);
    scene.world.wait_ms(20_000);
    let next = scene.world.acquire(RESOURCE).fencing_tokens[0].0.clone();
    let removed = scene.world.written(&delete(PATH, "end", next));
    assert_eq!((removed.response.done, removed.response.etag), (Done::Removed, None));
    assert_eq!(scene.row().life, Life::Active);
    assert_eq!(Some(scene.row().commit_no), removed.response.commit);
    assert_eq!(scene.world.target(PATH), None);
}

#[test]
fn a_folded_tombstone_still_fences_its_own_position() {
    // Broken: once old tombstones are folded into the namespace's base, the last deleter's delayed write comes at
    // exactly the base, which is not below the floor, and brings the deleted page back (I16). Must hold: through the
    // base everything is revoked, and nobody claims to know that it was never done; the next position issued is the
    // first that may create.
    let mut world = World::new(base_of(Contract::Observed));
    let mut namespace = NamespaceRow::first_use(
        fencegate::domain::resource::Namespace::parse("w").unwrap(),
        *world.definition(),
        &EverywhereRow::default(),
    );
    namespace.base = token(5);
    namespace.base_incarnation = Incarnation::ONE;
    world.snapshot.insert_namespace(namespace);
    let late = put(PATH, "late", world.sealed(RESOURCE, token(5)));
    assert_eq!(word(&world.write(&late)), Code::OperationExpired);
    let next = world.acquire(RESOURCE);
    assert_eq!((next.view.lease.position, next.view.incarnation.get()), (token(6), 2));
    assert_eq!(word(&world.write(&late)), Code::OperationExpired);
    assert_eq!(world.written(&put(PATH, "create", next.fencing_tokens[0].0.clone())).incarnation.get(), 2);
}

#[test]
fn a_cancelled_resource_is_closed_for_everybody() {
    // Broken: a cancelled job goes on under its next owner. Must hold: no write, no lease, no advance; replays go on.
    let mut scene = Scene::new(definitions()[0]);
    scene.world.written(&scene.draft);
    scene.alter(|row| row.life = Life::Cancelled);
    assert_eq!(word(&scene.world.write(&scene.draft)), Code::Replayed);
    assert_eq!(word(&scene.world.write(&put(PATH, "next", scene.draft.token.clone()))), Code::Cancelled);
    let token = scene.draft.token.clone();
    assert_eq!(word(&scene.world.advance(RESOURCE, &token)), Code::Cancelled);
    scene.world.wait_ms(20_000);
    assert_eq!(word(&scene.world.tell(&crate::support::world::acquire(RESOURCE, 77))), Code::Cancelled);
}
