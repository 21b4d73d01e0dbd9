//! The rows that a decision sees: those of a batch, or a whole world.
//!
//! Changes are applied to it as they are decided, so that later commands of a batch see those of earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::counter::Incarnation;
use crate::domain::lease::AcquisitionHash;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::{Address, Namespace, ResourceName};
use crate::domain::subject::Subject;

use super::change::Change;
use super::control::{ControlRecord, RecordedVerb};
use super::rows::{
    EraRow, EverywhereRow, IntentRow, LeaseRow, NamespaceRow, OperationRecord, RequestKey, ResourceRow,
    TargetRow,
};

/// Key of an operation record.
pub type OperationKey = (ResourceName, Incarnation, OperationId);

/// Key of a control call's record.
pub type ControlKey = (Subject, RecordedVerb, OperationId);

/// Rows by key. What is not in it does not exist, so a loader must bring everything that a command wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    everywhere: EverywhereRow,
    namespaces: BTreeMap<Namespace, NamespaceRow>,
    populated: BTreeSet<Namespace>,
    resources: BTreeMap<ResourceName, ResourceRow>,
    eras: BTreeMap<ResourceName, BTreeMap<Position, Incarnation>>,
    targets: BTreeMap<Address, TargetRow>,
    operations: BTreeMap<OperationKey, OperationRecord>,
    intents: BTreeMap<ResourceName, BTreeMap<(Incarnation, OperationId), IntentRow>>,
    leases: BTreeMap<[u8; 32], LeaseRow>,
    requests: BTreeMap<RequestKey, AcquisitionHash>,
    controls: BTreeMap<ControlKey, ControlRecord>,
}

impl Snapshot {
    /// The recorded namespace.
    #[must_use]
    pub fn namespace(&self, name: &Namespace) -> Option<&NamespaceRow> {
        self.namespaces.get(name)
    }

    /// What holds for namespaces that were never used. It is only brought where a wanted one is not recorded.
    #[must_use]
    pub const fn everywhere(&self) -> &EverywhereRow {
        &self.everywhere
    }

    /// Whether a namespace that is acted on as a whole has resources.
    #[must_use]
    pub fn is_populated(&self, name: &Namespace) -> bool {
        let mut heard_of = self.resources.keys();
        self.populated.contains(name) || heard_of.any(|resource| resource.namespace() == *name)
    }

    /// The resource's row.
    #[must_use]
    pub fn resource(&self, name: &ResourceName) -> Option<&ResourceRow> {
        self.resources.get(name)
    }

    /// The ended incarnation in which a position falls.
    #[must_use]
    pub fn era_at(&self, name: &ResourceName, position: Position) -> Option<Incarnation> {
        self.eras.get(name)?.range(..=position).next_back().map(|(_, incarnation)| *incarnation)
    }

    /// The target's row.
    #[must_use]
    pub fn target(&self, address: &Address) -> Option<&TargetRow> {
        self.targets.get(address)
    }

    /// The operation's record.
    #[must_use]
    pub fn operation(&self, key: &OperationKey) -> Option<&OperationRecord> {
        self.operations.get(key)
    }

    /// The undecided operations of a resource, in the order of incarnation and id.
    pub fn intents_of(&self, name: &ResourceName) -> impl Iterator<Item = &IntentRow> + use<'_> {
        self.intents.get(name).into_iter().flat_map(BTreeMap::values)
    }

    /// An undecided operation.
    #[must_use]
    pub fn intent(&self, (resource, incarnation, id): &OperationKey) -> Option<&IntentRow> {
        self.intents.get(resource)?.get(&(*incarnation, id.clone()))
    }

    /// All undecided operations, in order.
    pub fn intents(&self) -> impl Iterator<Item = &IntentRow> {
        self.intents.values().flat_map(BTreeMap::values)
    }

    /// The lease's row.
    #[must_use]
    pub fn lease(&self, acquisition: &AcquisitionHash) -> Option<&LeaseRow> {
        self.leases.get(acquisition.as_bytes())
    }

    /// The lease that an earlier delivery of the same request made.
    #[must_use]
    pub fn requested(&self, key: &RequestKey) -> Option<&LeaseRow> {
        self.requests.get(key).and_then(|acquisition| self.lease(acquisition))
    }

    /// The record of a control call.
    #[must_use]
    pub fn control(&self, key: &ControlKey) -> Option<&ControlRecord> {
        self.controls.get(key)
    }

    /// All records of control calls, in order.
    pub fn controls(&self) -> impl Iterator<Item = &ControlRecord> {
        self.controls.values()
    }

    /// All namespaces, in order.
    pub fn namespaces(&self) -> impl Iterator<Item = &NamespaceRow> {
        self.namespaces.values()
    }

    /// All resources, in order.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceRow> {
        self.resources.values()
    }

    /// All targets, in order.
    pub fn targets(&self) -> impl Iterator<Item = (&Address, &TargetRow)> {
        self.targets.iter()
    }

    /// All records, in order.
    pub fn operations(&self) -> impl Iterator<Item = &OperationRecord> {
        self.operations.values()
    }

    /// All leases.
    pub fn leases(&self) -> impl Iterator<Item = &LeaseRow> {
        self.leases.values()
    }

    /// The ended incarnations of a resource, oldest first.
    pub fn eras(&self, name: &ResourceName) -> impl Iterator<Item = (Position, Incarnation)> + '_ {
        self.eras.get(name).into_iter().flatten().map(|(born, incarnation)| (*born, *incarnation))
    }

    /// Brings in what holds for namespaces that were never used.
    pub fn set_everywhere(&mut self, row: EverywhereRow) {
        self.everywhere = row;
    }

    /// Says that a namespace has resources, without bringing one in.
    pub fn set_populated(&mut self, name: Namespace) {
        self.populated.insert(name);
    }

    /// Brings a namespace in.
    pub fn insert_namespace(&mut self, row: NamespaceRow) {
        self.namespaces.insert(row.namespace.clone(), row);
    }

    /// Brings a resource in.
    pub fn insert_resource(&mut self, row: ResourceRow) {
        self.resources.insert(row.resource.clone(), row);
    }

    /// Brings an ended incarnation in.
    pub fn insert_era(&mut self, row: EraRow) {
        self.eras.entry(row.resource).or_default().insert(row.born, row.incarnation);
    }

    /// Brings a target in.
    pub fn insert_target(&mut self, resource: ResourceName, row: TargetRow) {
        self.targets.insert(Address { resource, target: row.target.clone() }, row);
    }

    /// Brings a record in.
    pub fn insert_operation(&mut self, row: OperationRecord) {
        self.operations.insert(row.key(), row);
    }

    /// Takes a record out.
    pub fn remove_operation(&mut self, key: &OperationKey) {
        self.operations.remove(key);
    }

    /// Takes an ended incarnation out.
    pub fn remove_era(&mut self, row: &EraRow) {
        if let Some(of_this) = self.eras.get_mut(&row.resource) {
            of_this.remove(&row.born);
        }
    }

    /// Takes the record of a control call out.
    pub fn remove_control(&mut self, key: &ControlKey) {
        self.controls.remove(key);
    }

    /// Takes a folded tombstone out.
    pub fn remove_resource(&mut self, name: &ResourceName) {
        self.resources.remove(name);
        self.eras.remove(name);
    }

    /// Brings an undecided operation in.
    pub fn insert_intent(&mut self, row: IntentRow) {
        let (resource, incarnation, id) = row.key();
        self.intents.entry(resource).or_default().insert((incarnation, id), row);
    }

    /// Takes an undecided operation out.
    pub fn remove_intent(&mut self, row: &IntentRow) {
        let (resource, incarnation, id) = row.key();
        if let Some(of_this) = self.intents.get_mut(&resource) {
            of_this.remove(&(incarnation, id));
            if of_this.is_empty() {
                self.intents.remove(&resource);
            }
        }
    }

    /// Brings a lease in.
    pub fn insert_lease(&mut self, row: LeaseRow) {
        self.requests.insert(row.request_key, row.acquisition);
        self.leases.insert(*row.acquisition.as_bytes(), row);
    }

    /// Takes a lease out.
    pub fn remove_lease(&mut self, row: &LeaseRow) {
        self.requests.remove(&row.request_key);
        self.leases.remove(row.acquisition.as_bytes());
    }

    /// Brings the record of a control call in.
    pub fn insert_control(&mut self, row: ControlRecord) {
        self.controls.insert(row.record_key(), row);
    }

    /// Makes a decided change visible to the decisions after it.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::NamespaceRecorded(row) => self.insert_namespace(row.clone()),
            Change::NamespaceChanged { before: _, after } => self.insert_namespace(after.as_ref().clone()),
            Change::EverywhereChanged { before: _, after } => self.everywhere = after.as_ref().clone(),
            Change::Resource { before: _, after } => self.insert_resource(after.as_ref().clone()),
            Change::EraEnded(row) => self.insert_era(row.clone()),
            Change::TargetStored { resource, row, body: _ } => {
                self.insert_target(resource.clone(), row.clone());
            }
            Change::TargetRemoved(address) => {
                self.targets.remove(address);
            }
            Change::AllTargetsRemoved(resource) => {
                self.targets.retain(|address, _| address.resource != *resource);
            }
            Change::OperationRecorded(record) => self.insert_operation(record.as_ref().clone()),
            Change::IntentAnnounced { row, payload: _ } => self.insert_intent(row.as_ref().clone()),
            Change::IntentChanged { before: _, after } => self.insert_intent(after.as_ref().clone()),
            Change::IntentClosed(row) => self.remove_intent(row),
            Change::LeaseGranted(row) => self.insert_lease(row.as_ref().clone()),
            Change::LeaseChanged { before: _, after } => self.insert_lease(after.as_ref().clone()),
            Change::LeaseForgotten(row) => self.remove_lease(row),
            Change::ControlRecorded(record) => self.insert_control(record.as_ref().clone()),
            Change::OperationPruned(record) => self.remove_operation(&record.key()),
            Change::EraForgotten(row) => self.remove_era(row),
            Change::ControlForgotten(record) => self.remove_control(&record.record_key()),
            Change::ResourceFolded(row) => self.remove_resource(&row.resource),
            Change::Audited(_) | Change::AuditForgotten { .. } => {}
        }
    }
}
