//! What contradicts in the records of one resource, rule by rule; `recovery::contradicting` asks a real gateway.

use fencegate::domain::counter::{CommitNo, Incarnation};
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::upstream::{CellSeen, Class};
use fencegate::protocol::evidence::Part::{Operation, Pointer, Record, Store as InStore};
use fencegate::protocol::evidence::{Evidence, Part, contradictions, has_cell};
use fencegate::protocol::rows::{IntentRow, LeaseRow, Mark, NamespaceRow, OperationRecord};
use fencegate::protocol::rows::{ResourceRow, TargetRow};

use super::{Far, PAGE, far, stamp, tag, write};
use crate::support::draft::put;
use crate::support::world::{World, name, token};

/// Everything that is known of one resource, to be spoiled.
#[derive(Clone)]
struct Facts {
    namespace: NamespaceRow,
    row: ResourceRow,
    targets: Vec<TargetRow>,
    lease: Option<LeaseRow>,
    operations: Vec<OperationRecord>,
    complete: bool,
    undecided: Vec<IntentRow>,
    cell: Option<CellSeen>,
    has_stamp: bool,
}

impl Facts {
    fn of(world: &World) -> Self {
        let (snapshot, row) = (&world.snapshot, world.row(PAGE).clone());
        Self {
            namespace: snapshot.namespaces().next().unwrap().clone(),
            targets: snapshot.targets().map(|(_, row)| row.clone()).collect(),
            lease: row.lease.map(|place| snapshot.lease(&place.acquisition).unwrap().clone()),
            operations: snapshot.operations().cloned().collect(),
            complete: true,
            undecided: snapshot.intents_of(&name(PAGE)).cloned().collect(),
            cell: None,
            has_stamp: true,
            row,
        }
    }

    /// Two targets of one page, written by the owner at position 1.
    fn page() -> Self {
        let policy = Policy::Session;
        let (contract, issuer, store) = (Contract::Immediate, Issuer::Gateway, Store::Document);
        let mut world = World::new(Definition { policy, contract, issuer, store, scope: 1 });
        let owner = world.acquire(PAGE).fencing_tokens[0].0.clone();
        world.batch(&[put("w/page/a", "op-a", owner.clone()), put("w/page/b", "op-b", owner.clone())]);
        world.written(&put("w/page/a", "op-c", owner).if_match("\"1.1\""));
        Self::of(&world)
    }

    /// A cell that was written once, at position 1.
    fn cell() -> (Self, Far) {
        let mut far = far(Class::Conditional);
        let sent = far.created(&write("first", 1), "v1");
        let cell = Some(CellSeen::Stamped(tag("v1"), stamp(&sent)));
        (Self { cell, ..Self::of(&far.world) }, far)
    }

    fn spoiled(&self, spoil: impl FnOnce(&mut Self)) -> Self {
        let mut spoiled = self.clone();
        spoil(&mut spoiled);
        spoiled
    }

    fn found(&self) -> Vec<(Part, String)> {
        let evidence = Evidence {
            namespace: &self.namespace,
            resource: &self.row,
            targets: &self.targets,
            lease: self.lease.as_ref(),
            operations: &self.operations,
            complete: self.complete,
            undecided: &self.undecided,
            cell: self.cell.as_ref(),
            stamp_is_known: self.has_stamp,
        };
        contradictions(&evidence).into_iter().map(|one| (one.part, one.found)).collect()
    }

    /// The parts that contradict, once each, when this much is found; each text has one of these words.
    fn says(&self, parts: &[Part], why: &str) {
        let found = self.found();
        assert_eq!(found.iter().map(|(part, _)| *part).collect::<Vec<_>>(), parts, "{why}: {found:?}");
        assert!(parts.is_empty() || found.iter().any(|(_, text)| text.contains(why)), "{why}: {found:?}");
    }
}

fn commit(number: u64) -> CommitNo {
    CommitNo::new(number).unwrap()
}

#[test]
fn registers_that_contradict_each_other_are_told() {
    // Broken: rows that came together from two moments are taken for sound. Must hold: what cannot be is told, and what
    // stands exactly at a bound is in order.
    let page = Facts::page();
    page.says(&[], "in order");
    page.spoiled(|known| known.row.applied = Some(Mark { position: token(2), sequence: None }))
        .says(&[Record], "above the floor");
    page.spoiled(|known| known.row.floor = token(2)).says(&[Record], "the highest issued");
    page.spoiled(|known| known.lease.as_mut().unwrap().position = token(2))
        .says(&[Record], "a lease has position");
    page.spoiled(|known| known.lease = None).says(&[], "no lease is looked at");
    // Where the tokens come from elsewhere nothing is issued.
    let external = Issuer::Trusted { max_jump: None };
    page.spoiled(|known| (known.row.floor, known.namespace.definition.issuer) = (token(2), external))
        .says(&[], "the issuer is not ours");
}

#[test]
fn what_is_published_was_made_by_a_recorded_operation() {
    // Broken: content of a lost operation, or of another target, is taken for the record's own. Must hold: it is told,
    // but not where the record is known to have gaps.
    let page = Facts::page();
    page.spoiled(|known| known.operations.clear()).says(&[Pointer, Pointer], "no recorded operation made");
    page.spoiled(|known| (known.complete, known.operations) = (false, Vec::new()))
        .says(&[], "a part was read");
    page.spoiled(|known| {
        known.operations.clear();
        known.row.pruned_through = known.row.applied;
    })
    .says(&[], "a part was forgotten");
    page.spoiled(|known| known.operations.retain(|one| one.operation_id.as_str() != "op-b"))
        .says(&[Pointer], "which an operation on something else made");
    page.spoiled(|known| known.targets[1].tag.commit = commit(2))
        .says(&[Pointer], "which an operation on something else made");
    page.spoiled(|known| known.targets[0].tag.incarnation = Incarnation::new(2).unwrap())
        .says(&[Pointer, Pointer], "the record counts only to 1.2");
    page.spoiled(|known| known.targets[0].tag.commit = commit(3))
        .says(&[Pointer, Pointer], "the record counts only to 1.2");
    // An earlier life counted as far; its operation is not this one's.
    page.spoiled(|known| {
        known.row.incarnation = Incarnation::new(2).unwrap();
        known.targets[0].tag.incarnation = Incarnation::new(2).unwrap();
    })
    .says(&[Pointer], "which no recorded operation made");
    page.spoiled(|known| known.row.applied = None).says(&[Pointer], "nothing was ever applied");
    page.spoiled(|known| (known.row.applied, known.targets) = (None, Vec::new()))
        .says(&[], "nothing is published");
}

#[test]
fn operations_lie_below_the_floor_and_within_what_was_counted() {
    // Broken: a register that went back behind its own operations is not seen. Must hold: each operation above it is told.
    let page = Facts::page();
    page.spoiled(|known| {
        known.targets.clear();
        known.row.commit_no = commit(1);
    })
    .says(&[Operation], "op-c made commit 2");
    page.spoiled(|known| known.operations[0].position = token(2)).says(&[Operation], "was admitted at 0.2");
    let (_, mut far) = Facts::cell();
    far.announce(&write("second", 2));
    let known = Facts::of(&far.world);
    assert_eq!(known.undecided.len(), 1);
    known.says(&[], "it was announced at the floor");
    known.spoiled(|known| known.row.floor = token(1)).says(&[Operation], "is announced at 0.2");
}

#[test]
fn a_store_that_is_ahead_of_the_record_is_told() {
    // Broken: a store that shows what was forgotten is taken for in order, or one whose write is under way for a loss. Must
    // hold: position, commit, operation and validator are each compared, the last only where nothing else is known.
    let (cell, mut far) = Facts::cell();
    cell.says(&[], "in order");
    let stamped = |change: fn(&mut fencegate::domain::upstream::Stamp)| {
        cell.spoiled(|known| match &mut known.cell {
            Some(CellSeen::Stamped(_, stamp)) => change(stamp),
            other => panic!("{other:?}"),
        })
    };
    stamped(|stamp| stamp.position = token(2)).says(&[InStore], "the cell was written at 0.2");
    stamped(|stamp| stamp.incarnation = Incarnation::new(2).unwrap()).says(&[InStore], "shows commit 2.1");
    stamped(|stamp| stamp.commit = commit(2)).says(&[InStore], "shows commit 1.2");
    cell.spoiled(|known| known.has_stamp = false).says(&[InStore], "first, which is not recorded");
    let barrier = stamped(|stamp| stamp.operation_id = None);
    barrier.spoiled(|known| known.has_stamp = false).says(&[], "a barrier has no operation");
    cell.spoiled(|known| known.row.cell = Some(tag("v2"))).says(&[InStore], "which is not the recorded one");
    cell.spoiled(|known| known.row.cell = None).says(&[], "none is recorded to compare with");
    // One sign is enough: the other validator is its consequence.
    stamped(|stamp| stamp.commit = commit(2))
        .spoiled(|known| known.row.cell = Some(tag("v2")))
        .says(&[InStore], "shows commit 1.2");
    // While something is under way the store may have it already, but nothing above what was announced.
    far.announce(&write("second", 2));
    let open = Facts { cell: cell.cell.clone(), ..Facts::of(&far.world) };
    open.spoiled(|known| known.row.cell = Some(tag("v2"))).says(&[], "under way");
    let ahead = |known: &mut Facts, commits, incarnation| match &mut known.cell {
        Some(CellSeen::Stamped(_, stamp)) => {
            (stamp.commit, stamp.incarnation) = (commit(commits), Incarnation::new(incarnation).unwrap());
        }
        other => panic!("{other:?}"),
    };
    open.spoiled(|known| ahead(known, 2, 1)).says(&[], "under way");
    open.spoiled(|known| ahead(known, 2, 2)).says(&[InStore], "shows commit 2.2");
}

#[test]
fn a_cell_that_is_gone_or_strange_is_told() {
    // Broken: what somebody did around the gateway stays unseen, or what stood there before it is taken for that. Must hold:
    // a cell that was recorded is there, and stamped.
    let (cell, mut far) = Facts::cell();
    cell.spoiled(|known| known.cell = Some(CellSeen::Absent)).says(&[InStore], "the cell is gone");
    cell.spoiled(|known| (known.cell, known.row.cell) = (Some(CellSeen::Absent), None))
        .says(&[], "none was recorded");
    cell.spoiled(|known| known.cell = Some(CellSeen::Strange("odd".to_owned()))).says(&[InStore], "odd");
    cell.spoiled(|known| known.cell = None).says(&[], "it was not looked at");
    let foreign = cell.spoiled(|known| known.cell = Some(CellSeen::Unstamped(tag("x"))));
    foreign.says(&[InStore], "content that no gateway stamped");
    foreign.spoiled(|known| known.row.cell = None).says(&[InStore], "content that no gateway stamped");
    let read = foreign.spoiled(|known| (known.row.applied, known.targets) = (None, Vec::new()));
    read.says(&[InStore], "content that no gateway stamped");
    read.spoiled(|known| known.row.cell = None).says(&[], "it stood there before");
    far.announce(&write("second", 2));
    Facts { cell: Some(CellSeen::Absent), ..Facts::of(&far.world) }.says(&[], "a removal may be under way");
}

#[test]
fn only_cells_are_read_for_evidence() {
    // Broken: a store is asked for what it has not, or for what reading may change. Must hold: of conditional stores alone.
    assert!(has_cell(Store::Http(Class::Conditional)) && !has_cell(Store::Document));
    for class in [Class::FenceAware, Class::Idempotent, Class::Serial] {
        assert!(!has_cell(Store::Http(class)), "{class:?}");
    }
    let words = [Record, Pointer, Operation, InStore].map(Part::word);
    assert_eq!(words, ["record", "pointer", "operation", "store"]);
}
