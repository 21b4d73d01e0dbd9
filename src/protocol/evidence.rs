//! What in the records of one resource contradicts the rest, and what its store shows that they do not know. For an
//! operator after a loss: nothing is decided here and nothing is changed.

use crate::domain::operation::OperationId;
use crate::domain::policy::{Issuer, Store};
use crate::domain::upstream::{CellSeen, Class, Stamp, Validator};

use super::invariants;
use super::rows::{IntentRow, LeaseRow, NamespaceRow, OperationRecord, ResourceRow, TargetRow};

/// All that is known of one resource.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Its namespace.
    pub namespace: &'a NamespaceRow,
    /// Its registers.
    pub resource: &'a ResourceRow,
    /// What is published.
    pub targets: &'a [TargetRow],
    /// Its newest lease.
    pub lease: Option<&'a LeaseRow>,
    /// Its decided operations, the newest first.
    pub operations: &'a [OperationRecord],
    /// Whether these are all that are recorded.
    pub complete: bool,
    /// Its undecided operations.
    pub undecided: &'a [IntentRow],
    /// What its cell shows, where it has one that could be read.
    pub cell: Option<&'a CellSeen>,
    /// Whether the operation that the cell names is recorded.
    pub stamp_is_known: bool,
}

/// Where a contradiction lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// In the registers of the resource.
    Record,
    /// Between what is published and the operations that published it.
    Pointer,
    /// Between operations and registers.
    Operation,
    /// Between the store and the records.
    Store,
}

impl Part {
    /// The word in answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Pointer => "pointer",
            Self::Operation => "operation",
            Self::Store => "store",
        }
    }
}

/// Something that cannot be, unless something was forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// Where it lies.
    pub part: Part,
    /// What it is, for people.
    pub found: String,
}

/// All contradictions of one resource.
#[must_use]
pub fn contradictions(evidence: &Evidence<'_>) -> Vec<Contradiction> {
    let mut found = Found(Vec::new());
    record(evidence, &mut found);
    pointer(evidence, &mut found);
    operations(evidence, &mut found);
    store(evidence, &mut found);
    found.0
}

struct Found(Vec<Contradiction>);

impl Found {
    fn add(&mut self, part: Part, found: String) {
        self.0.push(Contradiction { part, found });
    }
}

fn record(evidence: &Evidence<'_>, found: &mut Found) {
    let row = evidence.resource;
    if let Err(broken) = invariants::check(None, row) {
        found.add(Part::Record, broken.to_string());
    }
    if evidence.namespace.definition.issuer == Issuer::Gateway && row.floor.is_above(row.issued) {
        found.add(
            Part::Record,
            format!("the floor {} lies above {}, the highest issued", row.floor, row.issued),
        );
    }
    let leased = evidence.lease.and_then(|lease| lease.position_on(&row.resource));
    if let Some(leased) = leased.filter(|leased| leased.is_above(row.issued)) {
        found.add(
            Part::Record,
            format!("a lease has position {leased}, above {}, the highest issued", row.issued),
        );
    }
}

fn pointer(evidence: &Evidence<'_>, found: &mut Found) {
    let row = evidence.resource;
    let all_are_here = evidence.complete && row.pruned_through.is_none();
    for target in evidence.targets {
        let name = target.target.as_ref().map_or("the whole path", |target| target.as_str());
        let tag = target.tag;
        if tag.commit > row.commit_no || tag.incarnation > row.incarnation {
            let counted = format!("{}.{}", row.incarnation, row.commit_no);
            found.add(Part::Pointer, format!("{name} shows {tag}, and the record counts only to {counted}"));
        }
        let made = |record: &&OperationRecord| {
            let commit = record.response.as_ref().and_then(|saved| saved.commit);
            record.incarnation == tag.incarnation && commit == Some(tag.commit)
        };
        let mut makers = evidence.operations.iter().filter(made).peekable();
        if makers.peek().is_none() {
            if all_are_here {
                found.add(Part::Pointer, format!("{name} shows {tag}, which no recorded operation made"));
            }
        } else if !makers.any(|record| record.target == target.target) {
            found
                .add(Part::Pointer, format!("{name} shows {tag}, which an operation on something else made"));
        }
    }
    if row.applied.is_none() && !evidence.targets.is_empty() {
        found.add(Part::Pointer, "something is published, and nothing was ever applied".to_owned());
    }
}

fn operations(evidence: &Evidence<'_>, found: &mut Found) {
    let row = evidence.resource;
    for record in evidence.operations {
        let id = &record.operation_id;
        let commit = record.response.as_ref().and_then(|saved| saved.commit);
        if let Some(commit) = commit.filter(|commit| *commit > row.commit_no) {
            found.add(
                Part::Operation,
                format!("{id} made commit {commit}, and the record counts only to {}", row.commit_no),
            );
        }
        if record.position.is_above(row.floor) {
            let floor = row.floor;
            let position = record.position;
            found.add(Part::Operation, format!("{id} was admitted at {position}, above the floor {floor}"));
        }
    }
    for intent in evidence.undecided {
        let (id, position) = (&intent.record.operation_id, intent.record.position);
        if position.is_above(row.floor) {
            let floor = row.floor;
            found.add(Part::Operation, format!("{id} is announced at {position}, above the floor {floor}"));
        }
    }
}

fn store(evidence: &Evidence<'_>, found: &mut Found) {
    let row = evidence.resource;
    // What is under way may have reached the store, or not.
    let open = !evidence.undecided.is_empty();
    match evidence.cell {
        Some(CellSeen::Absent) => {
            if let (Some(cell), false) = (&row.cell, open) {
                found.add(
                    Part::Store,
                    format!("the cell is gone; its recorded validator is {}", cell.as_str()),
                );
            }
        }
        Some(CellSeen::Unstamped(validator)) if row.cell.is_some() || row.applied.is_some() => {
            found.add(Part::Store, format!("content that no gateway stamped, under {}", validator.as_str()));
        }
        // What stood there before the gateway came to it, and what was not looked at.
        Some(CellSeen::Unstamped(_)) | None => {}
        Some(CellSeen::Strange(why)) => found.add(Part::Store, why.clone()),
        Some(CellSeen::Stamped(validator, stamp)) => stamped(evidence, validator, stamp, open, found),
    }
}

/// A store that is ahead of the record is the surest sign of a loss: every stamp was announced before it was sent.
fn stamped(evidence: &Evidence<'_>, validator: &Validator, stamp: &Stamp, open: bool, found: &mut Found) {
    let row = evidence.resource;
    let known = found.0.len();
    if stamp.position.is_above(row.floor) {
        found.add(
            Part::Store,
            format!("the cell was written at {}, above the floor {}", stamp.position, row.floor),
        );
    }
    if stamp.incarnation > row.incarnation || (stamp.commit > row.commit_no && !open) {
        let (incarnation, commit) = (stamp.incarnation, stamp.commit);
        let counted = format!("{}.{}", row.incarnation, row.commit_no);
        found.add(
            Part::Store,
            format!("the cell shows commit {incarnation}.{commit}, and the record counts only to {counted}"),
        );
    }
    if let Some(id) = stamp.operation_id.as_ref().filter(|_| !evidence.stamp_is_known) {
        found.add(
            Part::Store,
            format!("the cell was written by {}, which is not recorded", OperationId::as_str(id)),
        );
    }
    if found.0.len() == known && !open && row.cell.as_ref().is_some_and(|cell| cell != validator) {
        found.add(
            Part::Store,
            format!("the cell's validator is {}, which is not the recorded one", validator.as_str()),
        );
    }
}

/// Whether a resource of this store has a cell that can be read without changing anything.
#[must_use]
pub fn has_cell(store: Store) -> bool {
    store.class() == Some(Class::Conditional)
}
