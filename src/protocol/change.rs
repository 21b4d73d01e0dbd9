//! What a decision makes durable.

use bytes::Bytes;

use crate::domain::resource::{Address, ResourceName};
use crate::domain::time::Timestamp;
use crate::domain::upstream::Payload;

use super::control::ControlRecord;
use super::rows::{
    AuditRow, EraRow, EverywhereRow, IntentRow, LeaseRow, NamespaceRow, OperationRecord, ResourceRow,
    TargetRow,
};

/// One change, in the order in which it was decided. A row change carries the row that it was decided against, so
/// that an engine can repeat the fence in its own predicate and count the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A namespace was used for the first time.
    NamespaceRecorded(NamespaceRow),
    /// A namespace changed, by an act on the whole of it: all copies of its row.
    NamespaceChanged {
        /// The row that the decision saw.
        before: Box<NamespaceRow>,
        /// The row that it makes.
        after: Box<NamespaceRow>,
    },
    /// What holds for namespaces that were never used yet changed: all copies.
    EverywhereChanged {
        /// The row that the decision saw.
        before: Box<EverywhereRow>,
        /// The row that it makes.
        after: Box<EverywhereRow>,
    },
    /// A resource changed, or was heard of for the first time (`before` is none).
    Resource {
        /// The row that the decision saw.
        before: Option<Box<ResourceRow>>,
        /// The row that it makes.
        after: Box<ResourceRow>,
    },
    /// An incarnation ended because its successor was born.
    EraEnded(EraRow),
    /// A target has new content.
    TargetStored {
        /// The resource.
        resource: ResourceName,
        /// The target without its bytes.
        row: TargetRow,
        /// The bytes.
        body: Bytes,
    },
    /// A target has no content any more.
    TargetRemoved(Address),
    /// No target of the resource has content any more.
    AllTargetsRemoved(ResourceName),
    /// An operation was recorded.
    OperationRecorded(Box<OperationRecord>),
    /// An operation's record is forgotten, and its resource's row says so.
    OperationPruned(Box<OperationRecord>),
    /// It is forgotten which positions belonged to an ended incarnation.
    EraForgotten(EraRow),
    /// The record of a control call is forgotten.
    ControlForgotten(Box<ControlRecord>),
    /// Lines of what was done are forgotten: the oldest, as many as one batch takes.
    AuditForgotten {
        /// From when on they stay.
        before: Timestamp,
    },
    /// A tombstone is folded into its namespace's base: the row goes, and what there was of ended incarnations.
    ResourceFolded(Box<ResourceRow>),
    /// An effect on an upstream was announced, with the bytes that are needed to send it again.
    IntentAnnounced {
        /// The announcement.
        row: Box<IntentRow>,
        /// The body.
        payload: Payload,
    },
    /// An announced operation goes on: another attempt, or a doubt.
    IntentChanged {
        /// The row that the decision saw.
        before: Box<IntentRow>,
        /// The row that it makes.
        after: Box<IntentRow>,
    },
    /// An announced operation is decided, or withdrawn: it is undecided no more.
    IntentClosed(Box<IntentRow>),
    /// A lease was granted.
    LeaseGranted(Box<LeaseRow>),
    /// A lease was renewed or ended.
    LeaseChanged {
        /// The row that the decision saw.
        before: Box<LeaseRow>,
        /// The row that it makes.
        after: Box<LeaseRow>,
    },
    /// A lease that ended long ago is forgotten.
    LeaseForgotten(Box<LeaseRow>),
    /// A control call was carried out.
    ControlRecorded(Box<ControlRecord>),
    /// A line for those who read the record.
    Audited(AuditRow),
}

/// Appends the change of a resource row, unless nothing changed.
pub(crate) fn resource_changed(changes: &mut Vec<Change>, before: Option<&ResourceRow>, after: ResourceRow) {
    if before != Some(&after) {
        changes.push(Change::Resource { before: before.cloned().map(Box::new), after: Box::new(after) });
    }
}
