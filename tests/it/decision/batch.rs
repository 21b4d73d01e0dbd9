//! Several writes in one: all of the new ones or none, and one effect per resource (I18).

use fencegate::domain::counter::CommitNo;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy};
use fencegate::protocol::command::{MAX_MEMBERS, MembersError, Write};
use fencegate::protocol::{Change, Outcome};

use super::scene::{PATH, RESOURCE, definitions, is_gateway};
use crate::support::code::{Code, words};
use crate::support::draft::{Draft, delete, put};
use crate::support::world::World;

const TRUSTED: Definition = Definition {
    policy: Policy::Single,
    contract: Contract::Observed,
    issuer: Issuer::Trusted { max_jump: None },
    store: fencegate::domain::policy::Store::Document,
    scope: 1,
};

#[test]
fn one_refused_member_stops_all_the_new_ones() {
    // Broken: a batch that commits member by member leaves half of it. Must hold: wherever the refused one stands,
    // nothing is written, and every member's own verdict is told.
    for place in 0..3 {
        let mut world = World::new(TRUSTED);
        world.written(&put("w/b/t", "before", "9"));
        let before = world.snapshot.clone();
        let mut drafts = vec![put("w/a/t", "op-a", "1"), put("w/c/t", "op-c", "1")];
        drafts.insert(place, put("w/b/t", "op-b", "8"));
        let outcome = world.batch(&drafts);
        let mut expected = vec![Code::Admitted, Code::Admitted];
        expected.insert(place, Code::StaleToken);
        assert_eq!(words(&outcome), expected);
        assert!(matches!(outcome, Outcome::NotWritten(_)));
        assert_eq!(outcome.refusal().and_then(fencegate::protocol::Refusal::row), Some(12));
        assert_eq!(world.snapshot, before);
    }
}

#[test]
fn the_first_refused_member_gives_the_answer_its_status() {
    // Broken: the status depends on which rule is looked at first. Must hold: the order of the request.
    let mut world = World::new(TRUSTED);
    world.written(&put("w/b/t", "before", "9"));
    let stale = put("w/b/t", "op-b", "8");
    let ahead = put("w/a/t", "op-a", "3.1");
    let row = |outcome: Outcome| outcome.refusal().and_then(fencegate::protocol::Refusal::row);
    assert_eq!(row(world.batch(&[stale.clone(), ahead.clone()])), Some(12));
    assert_eq!(row(world.batch(&[ahead, stale])), Some(10));
}

#[test]
fn a_batch_over_several_resources_is_one_write() {
    // Broken: one of the resources misses its commit. Must hold under every definition: all written, one commit each,
    // answers in the order of the request, and a repeat replays all of them.
    for definition in definitions() {
        let mut world = World::new(definition);
        let mut drafts = Vec::new();
        for page in ["w/b", "w/a", "w/c"] {
            let token = if is_gateway(&definition) {
                world.acquire(page).fencing_tokens[0].0.clone()
            } else {
                "3".to_owned()
            };
            if definition.issuer == Issuer::Registered {
                world.advance(page, "3");
            }
            let mut draft = put(&format!("{page}/t"), "op", token);
            draft.sequence = Some(1);
            drafts.push(draft);
        }
        for expected in [Code::Admitted, Code::Replayed] {
            let outcome = world.batch(&drafts);
            assert_eq!(words(&outcome), vec![expected; 3], "{definition}");
            let Outcome::Written(members) = outcome else { panic!() };
            for (member, draft) in members.iter().zip(&drafts) {
                assert_eq!(member.address, world.address(&draft.path));
                assert_eq!(member.response.commit.map_or(0, CommitNo::get), 1);
            }
        }
    }
}

#[test]
fn targets_of_one_resource_are_one_effect() {
    // Broken: under `single` the first file spends the generation and the second is refused; or each file counts a
    // commit of its own. Must hold: one commit number, one mark, the same validator for all, removals included.
    let mut world = World::new(TRUSTED);
    world.batch(&[put("w/page/a", "op-1", "1"), put("w/page/b", "op-2", "1")]);
    let drafts =
        [put("w/page/a", "op-3", "2"), delete("w/page/b", "op-4", "2"), put("w/page/c", "op-5", "2")];
    let Outcome::Written(members) = world.batch(&drafts) else { panic!() };
    assert!(members.iter().all(|member| member.response.commit.map_or(0, CommitNo::get) == 2));
    assert_eq!(members[0].response.etag, members[2].response.etag);
    assert_eq!(world.row(RESOURCE).commit_no.get(), 2);
    assert_eq!(world.row(RESOURCE).last_operation.as_ref().unwrap().as_str(), "op-5");
    assert_eq!((world.target("w/page/b"), world.snapshot.targets().count()), (None, 2));
    let changed = |drafts: &[Draft]| {
        let decision = world.decide(&world.command(drafts, false));
        decision.changes.iter().filter(|change| matches!(change, Change::Resource { .. })).count()
    };
    assert_eq!(changed(&[put("w/page/a", "op-6", "3"), put("w/page/b", "op-7", "3")]), 1);
}

#[test]
fn a_mixed_batch_replays_what_is_recorded_and_writes_the_rest() {
    // Broken: the lost answer of half a batch makes the whole repeat fail, or writes the recorded half twice. Must
    // hold: recorded members replay, new ones are written, in the order of the request; a refused new one stops only
    // the new ones.
    let mut world = World::new(TRUSTED);
    let done = put("w/a/t", "op-a", "1");
    world.written(&done);
    let drafts = [put("w/b/t", "op-b", "1"), done.clone(), put("w/c/t", "op-c", "1")];
    let before = world.row("w/a").clone();
    assert_eq!(words(&world.batch(&drafts)), [Code::Admitted, Code::Replayed, Code::Admitted]);
    assert_eq!(*world.row("w/a"), before);
    let refused = [done, put("w/b/t", "op-late", "1"), put("w/d/t", "op-d", "1")];
    assert_eq!(words(&world.batch(&refused)), [Code::Replayed, Code::GenerationSpent, Code::Admitted]);
    assert_eq!(world.snapshot.resource(&crate::support::world::name("w/d")), None);
}

#[test]
fn a_replayed_member_takes_no_part_in_its_resources_effect() {
    // Broken: a replay beside a new write of the same page is stored again under the new commit. Must hold: the old
    // target keeps its validator, the new one gets the next.
    let mut world = World::new(TRUSTED);
    world.written(&put("w/page/a", "op-a", "1"));
    let outcome = world.batch(&[put("w/page/a", "op-a", "2"), put("w/page/b", "op-b", "2")]);
    assert_eq!(words(&outcome), [Code::Replayed, Code::Admitted]);
    assert_eq!(world.target("w/page/a").unwrap().tag.to_string(), "\"1.1\"");
    assert_eq!(world.target("w/page/b").unwrap().tag.to_string(), "\"1.2\"");
}

#[test]
fn a_deleted_page_is_created_again_by_all_members_at_once() {
    // Broken: each member begins an incarnation of its own. Must hold: one birth; a removal among them is no creation.
    let mut world = World::new(TRUSTED);
    world.written(&put(PATH, "op", "1"));
    world.written(&delete(RESOURCE, "end", "2"));
    let birth = [put("w/page/a", "op-a", "3"), put("w/page/b", "op-b", "3")];
    let with_removal = [birth[0].clone(), delete("w/page/b", "op-c", "3")];
    assert_eq!(words(&world.batch(&with_removal)), [Code::Admitted, Code::Deleted]);
    assert_eq!(words(&world.batch(&birth)), [Code::Admitted, Code::Admitted]);
    assert_eq!(world.row(RESOURCE).incarnation.get(), 2);
    assert_eq!(world.snapshot.eras(&crate::support::world::name(RESOURCE)).count(), 1);
}

#[test]
fn a_lease_that_ran_out_is_written_down_once_per_batch() {
    // Broken: two members of one page see the same expiry and write it down twice; the second no longer fits the row
    // that stands, and the whole batch of the committer fails as inconsistent. Must hold: one change.
    let definition = Definition { contract: Contract::LeaseBound, scope: 1, ..Definition::default() };
    let mut world = World::new(definition);
    let token = world.acquire(RESOURCE).fencing_tokens[0].0.clone();
    world.wait_ms(20_000);
    let drafts = [put("w/page/a", "op-a", token.clone()), put("w/page/b", "op-b", token)];
    assert_eq!(words(&world.batch(&drafts)), [Code::LeaseNotLive, Code::LeaseNotLive]);
}

#[test]
fn members_that_cannot_be_one_write_are_named() {
    // Broken: a batch in which two members mean different things for one page is taken anyway. Must hold: each is
    // refused before the table, with the two places.
    let world = World::new(TRUSTED);
    let reason = |drafts: &[Draft]| Write::new(world.members(drafts), false).err();
    let one = put("w/page/a", "op-a", "1").sequence(1).incarnation(1);
    let other = put("w/page/b", "op-b", "1").sequence(1).incarnation(1);
    let differ = |what| Some(MembersError::Differ { first: 0, second: 1, what });
    assert_eq!(reason(&[]), Some(MembersError::Count(0)));
    let many: Vec<Draft> = (0..=MAX_MEMBERS).map(|n| put(&format!("w/{n}/t"), "op", "1")).collect();
    assert_eq!(reason(&many), Some(MembersError::Count(101)));
    assert_eq!(reason(&many[..MAX_MEMBERS]), None);
    assert_eq!(reason(&[one.clone(), other.clone()]), None);
    assert_eq!(reason(&[one.clone(), other.clone().under("2")]), differ("fencing_token"));
    assert_eq!(reason(&[one.clone(), other.clone().sequence(2)]), differ("sequence"));
    assert_eq!(reason(&[one.clone(), other.clone().incarnation(2)]), differ("incarnation"));
    let mut same = other.clone();
    same.path.clone_from(&one.path);
    assert_eq!(reason(&[one.clone(), same]), Some(MembersError::SameTarget { first: 0, second: 1 }));
    let mut named = other.clone();
    named.operation.clone_from(&one.operation);
    assert_eq!(reason(&[one.clone(), named]), Some(MembersError::SameOperation { first: 0, second: 1 }));
    let end = delete("w/page", "end", "1").sequence(1).incarnation(1);
    let whole = |member| Some(MembersError::WholeResource { member });
    assert_eq!(reason(&[one.clone(), end.clone()]), whole(1));
    assert_eq!(reason(&[end.clone(), one.clone()]), whole(0));
    // Elsewhere is another matter.
    assert_eq!(reason(&[end, put("w/other/a", "op-a", "7"), put("w/third/a", "op-a", "8")]), None);
    let error = reason(&[one, other.sequence(9)]).unwrap().to_string();
    assert!(error.contains("writes[1]") && error.contains("sequence"), "{error}");
}
