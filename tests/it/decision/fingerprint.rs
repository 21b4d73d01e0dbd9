//! What makes two deliveries the same operation, and what does not.

use fencegate::domain::operation::{Fingerprint, Method};
use fencegate::domain::policy::Definition;

use super::scene::{PATH, RESOURCE};
use crate::support::code::{Code, word};
use crate::support::draft::{Draft, delete, put};
use crate::support::world::World;

fn fingerprint(draft: &Draft) -> Fingerprint {
    draft.member(&World::new(Definition { scope: 1, ..Definition::default() })).fingerprint
}

#[test]
fn every_part_of_the_payload_is_in_the_fingerprint() {
    // Broken: a changed part that the fingerprint leaves out is answered with the outcome of another payload (I6).
    // Must hold: method, resource, target, content type, body and each precondition make another operation.
    let one = put(PATH, "op", "1");
    let others = [
        one.clone().method(Method::Post),
        put("w/other/body", "op", "1"),
        put("w/page/summary", "op", "1"),
        put(RESOURCE, "op", "1"),
        one.clone().body("other"),
        one.clone().body(""),
        one.clone().content_type("text/plain"),
        one.clone().content_type("text/plain; charset=utf-8"),
        one.clone().if_match("\"1.1\""),
        one.clone().if_match("*"),
        one.clone().if_none_match("\"1.1\""),
        one.clone().if_none_match("*"),
        one.clone().if_match("\"1.1\"").if_none_match("\"1.2\""),
        one.clone().if_match("\"1.2\"").if_none_match("\"1.1\""),
        one.clone().if_match("\"1.1\", \"1.2\""),
        one.clone().if_match("W/\"1.1\""),
        delete(PATH, "op", "1"),
    ];
    let mut seen = vec![fingerprint(&one)];
    for other in others {
        let found = fingerprint(&other);
        assert!(!seen.contains(&found), "{other:?}");
        seen.push(found);
    }
}

#[test]
fn parts_do_not_run_into_each_other() {
    // Broken: "a" + "b/c" and "a/b" + "c" hash the same bytes, and so does a content type that ends where a body
    // begins. Must hold: each part stands alone.
    let deep = World::new(Definition { scope: 2, ..Definition::default() });
    let flat = World::new(Definition { scope: 1, ..Definition::default() });
    let draft = put("w/page/body/x", "op", "1");
    let (one, other) = (draft.member(&deep), draft.member(&flat));
    assert_eq!(one.address.full(), other.address.full());
    assert_ne!(one.fingerprint, other.fingerprint);
}

#[test]
fn what_differs_between_honest_deliveries_is_not_in_the_fingerprint() {
    // Broken: a replacement that repeats the operation under its own position gets 422 for the same payload. Must
    // hold: position, seal, sequence, incarnation and operation id are left out.
    let one = fingerprint(&put(PATH, "op", "1"));
    assert_eq!(one, fingerprint(&put(PATH, "other", "1")));
    assert_eq!(one, fingerprint(&put(PATH, "op", "3.77.sealed")));
    assert_eq!(one, fingerprint(&put(PATH, "op", "1").sequence(9)));
    assert_eq!(one, fingerprint(&put(PATH, "op", "1").incarnation(4)));
}

#[test]
fn one_operation_id_on_two_targets_is_two_payloads() {
    // Broken: a fingerprint without the target answers the second file with the receipt of the first, and the second
    // file is never written. Must hold: 422, and nothing changes.
    let mut world = World::new(Definition { scope: 1, ..Definition::default() });
    let token = world.acquire(RESOURCE).fencing_tokens[0].0.clone();
    world.written(&put("w/page/a", "op", token.clone()));
    assert_eq!(word(&world.write(&put("w/page/b", "op", token))), Code::OperationMismatch);
    assert_eq!(world.target("w/page/b"), None);
}

#[test]
fn one_operation_id_on_two_resources_is_two_operations() {
    // Broken: workers that number their operations alike block each other. Must hold: the key holds the resource.
    let mut world = World::new(Definition { scope: 1, ..Definition::default() });
    for page in ["w/a", "w/b"] {
        let token = world.acquire(page).fencing_tokens[0].0.clone();
        assert!(!world.written(&put(page, "publish", token)).replayed);
    }
}
