//! Reads beside the writer: lists in order, filters without surprises, pages without gaps.

use fencegate::domain::counter::CommitNo;
use fencegate::domain::operation::{OperationId, OperationState};
use fencegate::domain::resource::{Namespace, ResourceName};
use fencegate::ledger::read::{DocumentRead, OperationFilter, OperationPlace, ResourceFilter};
use fencegate::protocol::rows::Life;

use super::place::{Place, Running, address, answer, delete, meddle, name, put};

async fn names(running: &Running, filter: ResourceFilter) -> Vec<String> {
    let found = running.ledger.read(|reader| reader.resources(filter)).await.unwrap();
    found.iter().map(|read| read.resource.resource.to_string()).collect()
}

fn all() -> ResourceFilter {
    ResourceFilter { limit: 100, ..ResourceFilter::default() }
}

fn beginning(prefix: &str) -> ResourceFilter {
    ResourceFilter { prefix: Some(prefix.to_owned()), ..all() }
}

/// Names with the characters that a pattern would take for something else.
const NAMES: [&str; 9] =
    ["free/A", "free/a", "free/a b", "free/a*b", "free/a/b", "free/a[b", "free/a_b", "free/ab", "free/é"];

#[tokio::test]
async fn a_prefix_is_compared_byte_by_byte() {
    let place = Place::new();
    let running = place.run().await;
    for name in NAMES.iter().rev() {
        running.put(&put(name, "one", "7", 1)).await;
    }
    running.put(&put("tree/a", "one", "7", 1)).await;
    let mut every: Vec<&str> = NAMES.to_vec();
    every.push("tree/a");
    assert_eq!(names(&running, all()).await, every);
    for prefix in
        ["", "f", "free/", "free/a", "free/a_", "free/a*", "free/a[", "free/A", "free/é", "g", "free/b"]
    {
        let wanted: Vec<&str> = every.iter().copied().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(names(&running, beginning(prefix)).await, wanted, "{prefix:?}");
    }
    let namespace = Namespace::parse("tree").ok();
    let crossed = ResourceFilter { namespace: namespace.clone(), ..beginning("free/") };
    assert_eq!(names(&running, crossed).await, [""; 0]);
    let inside = ResourceFilter { namespace, ..beginning("tree/a") };
    assert_eq!(names(&running, inside).await, ["tree/a"]);
    running.close().await;
}

#[tokio::test]
async fn pages_have_no_gaps_and_no_repeats() {
    let place = Place::new();
    let running = place.run().await;
    for index in 0..25 {
        running.put(&put(&format!("free/{index}"), "one", "7", 1)).await;
    }
    let (mut found, mut after): (Vec<String>, Option<ResourceName>) = (Vec::new(), None);
    loop {
        let page =
            names(&running, ResourceFilter { after: after.clone(), limit: 4, ..beginning("free/") }).await;
        let Some(last) = page.last() else { break };
        after = Some(name(last));
        found.extend(page);
    }
    let mut sorted: Vec<String> = (0..25).map(|index| format!("free/{index}")).collect();
    sorted.sort();
    assert_eq!(found, sorted);
    running.close().await;
}

#[tokio::test]
async fn resources_are_found_by_their_life() {
    let place = Place::new();
    let running = place.run().await;
    for (name, life) in
        [("free/a", "active"), ("free/b", "deleted"), ("free/c", "cancelled"), ("free/d", "deleted")]
    {
        running.put(&put(name, "one", "7", 1)).await;
        if life == "deleted" {
            running.put(&delete(name, "two", "7", 2)).await;
        }
    }
    meddle(&place.path(), "UPDATE resources SET life = 'cancelled' WHERE resource = 'free/c'").await;
    let living = |life| ResourceFilter { life: Some(life), ..all() };
    assert_eq!(names(&running, living(Life::Active)).await, ["free/a"]);
    assert_eq!(names(&running, living(Life::Deleted)).await, ["free/b", "free/d"]);
    assert_eq!(names(&running, living(Life::Cancelled)).await, ["free/c"]);
    running.close().await;
}

#[tokio::test]
async fn a_resource_shows_its_first_hundred_targets_in_order() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("tree/a", "root", "7", 1)).await;
    for index in (0..120).rev() {
        running.put(&put(&format!("tree/a//t{index:03}"), &format!("op-{index}"), "7", 200 - index)).await;
    }
    running.put(&put("tree/b//x", "one", "7", 1)).await;
    let read = running.ledger.read(|reader| reader.resource(name("tree/a"))).await.unwrap().unwrap();
    assert_eq!(read.targets.len(), 100);
    assert_eq!(read.targets[0].target, None);
    let shown: Vec<String> =
        read.targets.iter().skip(1).filter_map(|row| row.target.clone()).map(|t| t.to_string()).collect();
    assert_eq!(shown, (0..99).map(|index| format!("t{index:03}")).collect::<Vec<_>>());
    let listed = running.ledger.read(|reader| reader.resources(all())).await.unwrap();
    assert_eq!(listed[0].targets, read.targets);
    assert_eq!(listed[1].targets.len(), 1);
    running.close().await;
}

#[tokio::test]
async fn what_was_never_heard_of_is_nothing() {
    let place = Place::new();
    let running = place.run().await;
    let ledger = &running.ledger;
    let document = ledger.read(|reader| reader.document(address("free/a"), true)).await.unwrap();
    assert_eq!(document, DocumentRead::default());
    assert_eq!(ledger.read(|reader| reader.resource(name("free/a"))).await, Ok(None));
    let id = OperationId::parse("one").unwrap();
    assert_eq!(ledger.read(|reader| reader.operation(name("free/a"), id, None)).await, Ok(None));
    running.put(&put("free/b", "one", "7", 1)).await;
    let head = running.ledger.read(|reader| reader.document(address("free/b"), false)).await.unwrap();
    assert!(head.target.is_some() && head.body.is_none(), "bytes only when they are asked for");
    running.close().await;
}

/// One operation id in three incarnations: the newest that has it is meant, unless one is named.
#[tokio::test]
async fn an_operation_is_found_in_its_incarnation() {
    let place = Place::new();
    let running = place.run().await;
    for (token, life) in [("7", 1), ("8", 2), ("9", 3)] {
        running.put(&put("free/a", &format!("begin-{life}"), token, 1)).await;
        running.put(&put("free/a", "same", token, 2).body(format!("life {life}"))).await;
        running.put(&delete("free/a", &format!("end-{life}"), token, 3)).await;
    }
    for (token, life) in [("7", 1), ("8", 2), ("9", 3)] {
        let late = running.put(&put("free/a", &format!("begin-{life}"), token, 1)).await;
        assert_eq!((late.replayed, late.incarnation.get()), (true, life), "a late retry finds its own");
    }
    let found = |id: &'static str, incarnation: Option<u64>| {
        let incarnation = incarnation.and_then(fencegate::domain::counter::Incarnation::new);
        let id = OperationId::parse(id).unwrap();
        running.ledger.read(move |reader| reader.operation(name("free/a"), id, incarnation))
    };
    let lives = [
        ("same", None, Some(3)),
        ("same", Some(2), Some(2)),
        ("end-1", None, Some(1)),
        ("end-1", Some(3), None),
    ];
    for (id, named, wanted) in lives {
        let record = found(id, named).await.unwrap();
        assert_eq!(record.map(|record| record.incarnation.get()), wanted, "{id} {named:?}");
    }
    running.close().await;
}

/// Many operations of one millisecond: the page ends inside it, and the next one goes on there.
#[tokio::test]
async fn operations_are_paged_from_the_newest() {
    let place = Place::new();
    let running = place.run().await;
    for sequence in 1..=30_u64 {
        running.put(&put("free/a", &format!("op-{}", (sequence * 7) % 31), "7", sequence)).await;
        if sequence % 10 == 0 {
            place.clock.forward(1);
        }
    }
    running.put(&put("free/b", "other", "7", 1)).await;
    let page = |after, state| {
        let filter = OperationFilter { resource: name("free/a"), state, after, limit: 7 };
        running.ledger.read(|reader| reader.operations(filter))
    };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let records = page(after, Some(OperationState::Applied)).await.unwrap();
        let Some(last) = records.last() else { break };
        after = Some(OperationPlace {
            created_at: last.created_at,
            incarnation: last.incarnation,
            operation_id: last.operation_id.clone(),
        });
        found.extend(records.iter().map(|record| (record.created_at, record.operation_id.to_string())));
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    sorted.reverse();
    assert_eq!((found.len(), &found), (30, &sorted));
    assert_eq!(page(None, Some(OperationState::Intent)).await.unwrap(), []);
    meddle(&place.path(), "UPDATE operations SET state = 'uncertain' WHERE operation_id = 'op-3'").await;
    let uncertain = page(None, Some(OperationState::Uncertain)).await.unwrap();
    assert_eq!(uncertain.iter().map(|one| one.operation_id.as_str()).collect::<Vec<_>>(), ["op-3"]);
    assert_eq!(page(None, None).await.unwrap().len(), 7);
    running.close().await;
}

/// Keys move from the resource's row to the index many at a time; before and after, each operation is found, told apart
/// from those of other resources, and replayed.
#[tokio::test]
async fn an_operation_is_found_wherever_its_key_stands() {
    let place = Place::new();
    let mut running = place.run().await;
    let ids: Vec<String> = (1..=40).map(|number| format!("op-{number}")).collect();
    for (id, sequence) in ids.iter().zip(1..) {
        running.put(&put("free/a", id, "7", sequence)).await;
        running.put(&put("free/b", id, "7", sequence)).await;
        if sequence % 13 == 0 {
            running.close().await;
            running = place.run().await;
        }
    }
    for (id, sequence) in ids.iter().zip(1..) {
        let again = running.put(&put("free/a", id, "7", sequence)).await;
        assert_eq!(
            (again.replayed, again.response.commit.map_or(0, CommitNo::get)),
            (true, sequence),
            "{id}"
        );
        let id = OperationId::parse(id).unwrap();
        let read = running.ledger.read(move |reader| reader.operation(name("free/b"), id, None)).await;
        let record = read.unwrap().unwrap();
        assert_eq!((record.resource, record.sequence.unwrap().get()), (name("free/b"), sequence));
    }
    let filter = OperationFilter { resource: name("free/a"), state: None, after: None, limit: 100 };
    let listed = running.ledger.read(|reader| reader.operations(filter)).await.unwrap();
    assert_eq!(listed.len(), 40);
    running.close().await;
    let moved: i64 = answer(&place.path(), "SELECT count(*) FROM operation_keys").await;
    assert!(moved > 40 && moved < 80, "{moved} of 80 keys stand in the index");
    place.check().await;
}

/// A document whose bytes stand beside its resource becomes one whose bytes stand apart, and back, and goes.
#[tokio::test]
async fn a_document_is_read_wherever_its_bytes_stand() {
    let place = Place::new();
    let running = place.run().await;
    let sizes = [10, 1_024, 1_025, 100_000, 2_000, 0, 5_000];
    for (size, sequence) in sizes.into_iter().zip(1..) {
        running.put(&put("free/a", &format!("op-{size}"), "7", sequence).body(vec![7; size])).await;
        let read = running.ledger.read(|reader| reader.document(address("free/a"), true)).await.unwrap();
        assert_eq!(read.body.unwrap(), vec![7; size]);
        assert_eq!(read.target.unwrap().size, u64::try_from(size).unwrap());
        let read = running.ledger.read(|reader| reader.resource(name("free/a"))).await.unwrap().unwrap();
        assert_eq!(read.targets.len(), 1);
    }
    running.put(&put("tree/a", "large", "7", 1).body(vec![1; 9_000])).await;
    running.put(&delete("free/a", "gone", "7", 20)).await;
    running.put(&delete("tree/a", "gone", "7", 2)).await;
    running.close().await;
    assert_eq!(answer::<i64>(&place.path(), "SELECT count(*) FROM bodies").await, 0);
    assert_eq!(answer::<i64>(&place.path(), "SELECT count(doc_commit) FROM resources").await, 0);
    place.check().await;
}

/// Readers see whole commits while the writer goes on.
#[tokio::test]
async fn a_read_is_of_one_moment() {
    let place = Place::new();
    let running = place.run().await;
    running.put(&put("free/a", "op-0", "7", 1)).await;
    let ledger = running.ledger.clone();
    let watcher = tokio::spawn(async move {
        let mut seen = 0;
        while seen < 200 {
            let read = ledger.read(|reader| reader.document(address("free/a"), true)).await.unwrap();
            let (resource, target) = (read.resource.unwrap(), read.target.unwrap());
            assert_eq!(resource.commit_no, target.tag.commit);
            assert_eq!(read.body.unwrap(), format!("op-{} of free/a", resource.commit_no.get() - 1));
            seen = resource.commit_no.get();
        }
    });
    for sequence in 2..=200_u64 {
        running.put(&put("free/a", &format!("op-{}", sequence - 1), "7", sequence)).await;
    }
    watcher.await.unwrap();
    running.close().await;
    place.check().await;
}
