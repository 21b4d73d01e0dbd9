//! Retention: which records may go, because presenting the same request again would have to be refused (`protocol.md`
//! section 4), and what is remembered of them.
//!
//! The shell only proposes: each record is judged here under its resource's lock. What goes leaves its mark in
//! `pruned_through` in the same transaction, so that nobody is told `none` of what may have been applied (I15).

use crate::deliberate::{self, Bug};
use crate::domain::counter::Incarnation;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::policy::Store;
use crate::domain::position::Position;
use crate::domain::resource::{Bucket, ResourceName};
use crate::domain::time::{Millis, Timestamp};

use super::change::resource_changed;
use super::rows::{EraRow, Mark, NamespaceRow, OperationRecord, ResourceRow};
use super::snapshot::{ControlKey, OperationKey};
use super::{Change, Decision, Outcome, Snapshot};

/// Ended incarnations of a resource that are looked at in one step, the oldest first: more wait for the next one.
pub const ERAS_AT_ONCE: usize = 16;

/// What is proposed to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// How long records are kept.
    pub kept: Millis,
    /// Which ones.
    pub what: Prunable,
}

/// Records that may be old enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prunable {
    /// Operations of one resource, in the order in which they were recorded. None goes before those ahead of it.
    Operations {
        /// Of which resource.
        resource: ResourceName,
        /// Which ones.
        operations: Vec<(Incarnation, OperationId)>,
    },
    /// The record of a control call.
    Control(ControlKey),
    /// The oldest lines of what was done.
    Audit,
}

impl Prune {
    /// Where what it is about lies.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        match &self.what {
            Prunable::Operations { resource, operations: _ } => resource.bucket(),
            Prunable::Control((subject, _, _)) => subject.bucket(),
            Prunable::Audit => Bucket(0),
        }
    }

    /// The operations that it is about.
    pub fn operations(&self) -> impl Iterator<Item = OperationKey> + '_ {
        let (resource, operations) = match &self.what {
            Prunable::Operations { resource, operations } => (Some(resource), operations.as_slice()),
            Prunable::Control(_) | Prunable::Audit => (None, &[][..]),
        };
        let key = move |(incarnation, id): &(Incarnation, OperationId)| {
            resource.map(|resource| (resource.clone(), *incarnation, id.clone()))
        };
        operations.iter().filter_map(key)
    }
}

/// Whether a record may go: it was decided longer ago than records are kept, and whoever presents its request again
/// would have to be refused by row 12. Nothing goes while the database is found to have gone back in time, or the
/// resource contradicts its row: what is recorded is what an operator has to look into.
#[must_use]
pub fn is_prunable(
    namespace: &NamespaceRow,
    row: &ResourceRow,
    record: &OperationRecord,
    kept: Millis,
    now: Timestamp,
) -> bool {
    let is_decided = match record.state {
        OperationState::Intent | OperationState::Uncertain => false,
        OperationState::Applied
        | OperationState::Refused
        | OperationState::ResolvedApplied
        | OperationState::ResolvedNotApplied => true,
    };
    let is_over = record.decided_at.is_some_and(|at| at.plus(kept) <= now);
    is_decided && is_over && has_passed(namespace, row, record.position)
}

/// Whether a position is of no generation that lives or could still write.
#[must_use]
pub fn has_passed(namespace: &NamespaceRow, row: &ResourceRow, position: Position) -> bool {
    if deliberate::on(Bug::PruneOfTheLive) {
        return true;
    }
    let is_explained = namespace.breaker.is_none() && row.quarantined.is_none();
    let is_live = live(namespace, row).is_some_and(|mark| mark.position == position);
    is_explained && !is_live && row.has_fenced(position, namespace.epoch)
}

/// The last effect, where something still stands that it made. A store behind HTTP may hold its stamp for ever: also
/// that of a removal.
fn live(namespace: &NamespaceRow, row: &ResourceRow) -> Option<Mark> {
    match namespace.definition.store {
        Store::Document => row.published(),
        Store::Http(_) => row.applied,
    }
}

/// Forgets what may go.
pub(super) fn decide(snapshot: &Snapshot, prune: &Prune, now: Timestamp) -> Decision {
    let mut changes = Vec::new();
    match &prune.what {
        Prunable::Operations { resource, operations: _ } => {
            forget_operations(snapshot, prune, resource, now, &mut changes);
        }
        Prunable::Control(key) => {
            let record = snapshot.control(key).filter(|record| record.at.plus(prune.kept) <= now);
            changes.extend(record.map(|record| Change::ControlForgotten(Box::new(record.clone()))));
        }
        Prunable::Audit => changes.push(Change::AuditForgotten { before: now.less(prune.kept) }),
    }
    Decision { outcome: Outcome::Tidied, changes }
}

fn forget_operations(
    snapshot: &Snapshot,
    prune: &Prune,
    resource: &ResourceName,
    now: Timestamp,
    changes: &mut Vec<Change>,
) {
    let namespace = snapshot.namespace(&resource.namespace());
    let (Some(namespace), Some(row)) = (namespace, snapshot.resource(resource)) else { return };
    let mut after = row.clone();
    for key in prune.operations() {
        // Somebody else may have been first.
        let Some(record) = snapshot.operation(&key) else { continue };
        if !is_prunable(namespace, row, record, prune.kept, now) {
            break;
        }
        let mark = Mark { position: record.position, sequence: record.sequence };
        after.pruned_through = Some(after.pruned_through.map_or(mark, |through| through.or_later(mark)));
        changes.push(Change::OperationPruned(Box::new(record.clone())));
    }
    forget_eras(snapshot, namespace, &after, changes);
    resource_changed(changes, Some(row), after);
}

/// Ended incarnations below what was pruned: whoever comes with a position of theirs is told that its operation may have
/// been recorded, whether anybody knows in which one or not. Of a store behind HTTP they stay, for a doubt of such a one
/// may be ended at any time, and its outcome be asked for.
fn forget_eras(snapshot: &Snapshot, namespace: &NamespaceRow, row: &ResourceRow, changes: &mut Vec<Change>) {
    let (Some(through), Store::Document) = (row.pruned_through, namespace.definition.store) else { return };
    let eras: Vec<_> = snapshot.eras(&row.resource).collect();
    // Where there may be more of them than were brought, nobody knows where the last one ended.
    let last = (eras.len() < ERAS_AT_ONCE).then_some(row.born);
    let ends = eras.iter().skip(1).map(|(born, _)| *born).chain(last);
    for ((born, incarnation), end) in eras.iter().zip(ends) {
        if through.position.is_below(end) {
            return;
        }
        changes.push(Change::EraForgotten(EraRow {
            resource: row.resource.clone(),
            incarnation: *incarnation,
            born: *born,
        }));
    }
}
