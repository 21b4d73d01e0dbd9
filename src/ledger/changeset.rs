//! The changes of a batch, coalesced: the last row of each key, and each record once. So a hot resource costs one row
//! update per batch however many writes it took.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::domain::resource::{Address, Namespace, ResourceName};
use crate::domain::time::Timestamp;
use crate::domain::upstream::Payload;
use crate::protocol::Change;
use crate::protocol::control::ControlRecord;
use crate::protocol::rows::{
    AuditRow, EraRow, EverywhereRow, IntentRow, LeaseRow, NamespaceRow, OperationRecord, RefusalRow,
    ResourceRow, TargetRow,
};
use crate::protocol::snapshot::OperationKey;

/// What becomes of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetChange {
    /// New content.
    Stored {
        /// The target without its bytes.
        row: TargetRow,
        /// The bytes.
        body: Bytes,
    },
    /// No content any more.
    Removed,
}

/// A row as the batch found it and as it leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange<T> {
    /// As it stood in the database; none where it did not exist.
    pub before: Option<T>,
    /// As it is to stand.
    pub after: T,
}

/// What becomes of one announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentChange {
    /// As it stood in the database; none where it is new.
    pub before: Option<IntentRow>,
    /// As it is to stand; none where it is decided.
    pub after: Option<IntentRow>,
    /// The body, of a new one.
    pub payload: Option<Payload>,
}

/// Everything that one batch makes durable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSet {
    /// Namespaces: used for the first time, or acted on as a whole.
    pub namespaces: BTreeMap<Namespace, RowChange<NamespaceRow>>,
    /// What holds for namespaces that were never used.
    pub everywhere: Option<RowChange<EverywhereRow>>,
    /// Resources, in canonical order.
    pub resources: BTreeMap<ResourceName, RowChange<ResourceRow>>,
    /// Tombstones that are folded, as they stood in the database.
    pub folded: Vec<ResourceRow>,
    /// Incarnations that ended.
    pub eras: Vec<EraRow>,
    /// Ended incarnations that are forgotten.
    pub forgotten_eras: Vec<EraRow>,
    /// Resources all of whose earlier targets go, before `targets` is applied.
    pub cleared: Vec<ResourceName>,
    /// Targets.
    pub targets: BTreeMap<Address, TargetChange>,
    /// Operations.
    pub operations: Vec<OperationRecord>,
    /// Operations that are forgotten, those of one resource in the order in which they were recorded.
    pub pruned: Vec<OperationRecord>,
    /// Announced operations.
    pub intents: BTreeMap<OperationKey, IntentChange>,
    /// Leases by acquisition.
    pub leases: BTreeMap<[u8; 32], RowChange<LeaseRow>>,
    /// Leases that are forgotten.
    pub forgotten: Vec<LeaseRow>,
    /// Control calls.
    pub controls: Vec<ControlRecord>,
    /// Control calls that are forgotten.
    pub forgotten_controls: Vec<ControlRecord>,
    /// Lines for those who read the record.
    pub audit: Vec<AuditRow>,
    /// Up to when lines are forgotten, the oldest first, at most [`crate::limits::AUDIT_PRUNED_AT_ONCE`].
    pub forgotten_audit: Option<Timestamp>,
    /// Samples of what was refused. They come alone: no decision makes them.
    pub refusals: Vec<RefusalRow>,
}

impl ChangeSet {
    /// Announcements that go: those that are decided or withdrawn, and those whose id is announced anew.
    pub(super) fn closed_intents(&self) -> impl Iterator<Item = &IntentRow> {
        let closed = |change: &&IntentChange| change.after.is_none() || change.payload.is_some();
        self.intents.values().filter(closed).filter_map(|change| change.before.as_ref())
    }

    /// Announcements that are new, with their bodies.
    pub(super) fn announced_intents(&self) -> impl Iterator<Item = (&IntentRow, &Payload)> {
        self.intents.values().filter_map(|change| change.after.as_ref().zip(change.payload.as_ref()))
    }

    /// Announcements that go on, as they were and as they are to stand.
    pub(super) fn changed_intents(&self) -> impl Iterator<Item = (&IntentRow, &IntentRow)> {
        let changed = |change: &&IntentChange| change.payload.is_none();
        self.intents
            .values()
            .filter(changed)
            .filter_map(|change| change.before.as_ref().zip(change.after.as_ref()))
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a change in the order in which it was decided.
    pub fn add(&mut self, change: Change) {
        match change {
            Change::NamespaceRecorded(row) => {
                self.namespaces.insert(row.namespace.clone(), RowChange { before: None, after: row });
            }
            Change::NamespaceChanged { before, after } => {
                let (before, after) = (Some(*before), *after);
                match self.namespaces.get_mut(&after.namespace) {
                    Some(change) => change.after = after,
                    None => {
                        self.namespaces.insert(after.namespace.clone(), RowChange { before, after });
                    }
                }
            }
            Change::EverywhereChanged { before, after } => match &mut self.everywhere {
                Some(change) => change.after = *after,
                None => self.everywhere = Some(RowChange { before: Some(*before), after: *after }),
            },
            Change::Resource { before, after } => {
                let before = before.map(|row| *row);
                let after = *after;
                match self.resources.get_mut(&after.resource) {
                    Some(change) => change.after = after,
                    None => {
                        self.resources.insert(after.resource.clone(), RowChange { before, after });
                    }
                }
            }
            Change::ResourceFolded(row) => {
                // What an earlier command of the batch made of the row goes with it.
                let change = self.resources.remove(&row.resource);
                self.folded.extend(change.map_or(Some(*row), |change| change.before));
            }
            Change::EraEnded(row) => self.eras.push(row),
            Change::EraForgotten(row) => self.forgotten_eras.push(row),
            Change::TargetStored { resource, row, body } => {
                let address = Address { resource, target: row.target.clone() };
                self.targets.insert(address, TargetChange::Stored { row, body });
            }
            Change::TargetRemoved(address) => {
                self.targets.insert(address, TargetChange::Removed);
            }
            Change::AllTargetsRemoved(resource) => {
                self.targets.retain(|address, _| address.resource != resource);
                if !self.cleared.contains(&resource) {
                    self.cleared.push(resource);
                }
            }
            Change::OperationRecorded(record) => self.operations.push(*record),
            Change::OperationPruned(record) => self.pruned.push(*record),
            Change::IntentAnnounced { row, payload } => self.announce(*row, payload),
            Change::IntentChanged { before, after } => self.change_intent(*before, Some(*after)),
            Change::IntentClosed(before) => self.change_intent(*before, None),
            Change::LeaseGranted(row) => self.change_lease(None, *row),
            Change::LeaseChanged { before, after } => self.change_lease(Some(*before), *after),
            Change::LeaseForgotten(row) => self.forget_lease(*row),
            Change::ControlRecorded(record) => self.controls.push(*record),
            Change::ControlForgotten(record) => self.forgotten_controls.push(*record),
            Change::Audited(row) => self.audit.push(row),
            Change::AuditForgotten { before } => self.forgotten_audit = Some(before),
        }
    }

    /// An id that was withdrawn earlier in the batch may be announced anew.
    fn announce(&mut self, row: IntentRow, payload: Payload) {
        let key = row.key();
        let before = self.intents.get(&key).and_then(|change| change.before.clone());
        self.intents.insert(key, IntentChange { before, after: Some(row), payload: Some(payload) });
    }

    fn change_intent(&mut self, before: IntentRow, after: Option<IntentRow>) {
        let key = before.key();
        match self.intents.get_mut(&key) {
            Some(change) if change.before.is_none() && after.is_none() => {
                self.intents.remove(&key);
            }
            Some(change) => {
                if after.is_none() {
                    change.payload = None;
                }
                change.after = after;
            }
            None => {
                self.intents.insert(key, IntentChange { before: Some(before), after, payload: None });
            }
        }
    }

    /// What an earlier command of the batch made of the row goes with it: its end may have been written down long after
    /// it had ended.
    fn forget_lease(&mut self, row: LeaseRow) {
        let change = self.leases.remove(row.acquisition.as_bytes());
        let written = change.map_or(Some(row), |change| change.before);
        // Two sweepers may find the same one.
        if let Some(row) = written.filter(|row| !self.forgotten.contains(row)) {
            self.forgotten.push(row);
        }
    }

    fn change_lease(&mut self, before: Option<LeaseRow>, after: LeaseRow) {
        match self.leases.get_mut(after.acquisition.as_bytes()) {
            Some(change) => change.after = after,
            None => {
                self.leases.insert(*after.acquisition.as_bytes(), RowChange { before, after });
            }
        }
    }
}
