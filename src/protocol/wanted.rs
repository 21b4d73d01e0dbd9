//! Which rows a command needs, so that an engine loads a whole batch at once and nothing more.

use std::collections::BTreeSet;

use crate::domain::counter::Incarnation;
use crate::domain::lease::AcquisitionHash;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::upstream::CellSeen;

use super::command::{BarrierFinding, Command, Finding, Settle};
use super::prune::{Prunable, Prune};
use super::rows::RequestKey;
use super::snapshot::ControlKey;

/// An operation as a request addresses it. Which incarnation that is, only the resource row tells:
/// [`super::incarnation::addressed`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationWanted {
    /// The resource.
    pub resource: ResourceName,
    /// The caller's name for it.
    pub operation_id: OperationId,
    /// The position that it comes under.
    pub position: Position,
    /// The incarnation that the caller names.
    pub incarnation: Option<Incarnation>,
}

/// The rows that a batch needs. Every set is ordered, which is the canonical order of locking. For each resource the
/// engine also brings its namespace and its newest lease; for each lease that is wanted, by itself or by its request, all of
/// its resources with their namespaces and newest leases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Namespaces.
    pub namespaces: BTreeSet<Namespace>,
    /// Resources.
    pub resources: BTreeSet<ResourceName>,
    /// Leases by acquisition.
    pub leases: BTreeSet<(Bucket, [u8; 32])>,
    /// Leases by the request that made them.
    pub requests: BTreeSet<(Bucket, RequestKey)>,
    /// Targets.
    pub targets: BTreeSet<Address>,
    /// Operations.
    pub operations: BTreeSet<OperationWanted>,
    /// Resources of which it matters whether any operation is recorded: the engine brings one of them, where there is.
    pub recorded: BTreeSet<ResourceName>,
    /// Resources whose oldest ended incarnations are brought, at most [`super::prune::ERAS_AT_ONCE`].
    pub eras: BTreeSet<ResourceName>,
    /// Control calls that may have been carried out before.
    pub controls: BTreeSet<ControlKey>,
    /// Namespaces, or all of them, that are acted on as a whole: the engine holds every copy of their rows, so that
    /// nothing is decided in them at the same time, and brings some of their undecided operations, at most
    /// [`crate::limits::OPEN_OPERATIONS_SHOWN`], and whether there are resources.
    pub whole: BTreeSet<Subject>,
}

impl Wanted {
    /// What one command needs.
    #[must_use]
    pub fn by(command: &Command) -> Self {
        let mut wanted = Self::default();
        wanted.add(command);
        wanted
    }

    /// Adds what a command needs.
    pub fn add(&mut self, command: &Command) {
        match command {
            Command::Acquire(acquire) => {
                acquire.resources.iter().for_each(|resource| self.add_resource(resource));
                self.requests.insert((acquire.bucket(), acquire.request_key()));
            }
            Command::Renew(renew) => self.add_lease(renew.bucket, renew.acquisition),
            Command::Release(release) => self.add_lease(release.bucket, release.acquisition),
            Command::Advance(advance) => self.add_resource(&advance.resource),
            Command::Transfer(transfer) => {
                self.add_lease(transfer.bucket, transfer.acquisition);
                self.requests.insert((transfer.bucket, transfer.request_key()));
            }
            Command::Control(control) => {
                self.add_resource(&control.resource);
                if let Some(key) = &control.key {
                    self.controls.insert(control.record_key(key));
                }
            }
            Command::Whole(act) => {
                if let Subject::Namespace(name) = &act.subject {
                    self.namespaces.insert(name.clone());
                }
                self.whole.insert(act.subject.clone());
                self.controls.extend(act.record_key());
                for resource in act.resources() {
                    self.add_resource(resource);
                    self.recorded.insert(resource.clone());
                }
            }
            Command::Sweep(sweep) => self.add_lease(sweep.lease.bucket, sweep.lease.acquisition),
            Command::Prune(prune) => self.add_prune(prune),
            Command::Settle(settle) => self.add_settle(settle),
            Command::Resume(resume) => self.add_resource(&resume.key.0),
            Command::Resolve(resolve) => {
                self.add_resource(&resolve.resource);
                self.operations.insert(OperationWanted {
                    resource: resolve.resource.clone(),
                    operation_id: resolve.operation_id.clone(),
                    position: Position::ZERO,
                    incarnation: Some(resolve.incarnation),
                });
            }
            Command::Barrier(barrier) => {
                self.add_resource(&barrier.resource);
                if let Some(lease) = barrier.lease {
                    self.add_lease(lease.bucket, lease.acquisition);
                }
                if let BarrierFinding::Cell { seen, .. } = &barrier.learnt {
                    self.add_stamped(&barrier.resource, seen);
                }
            }
            Command::Leave(leave) => leave.resources.iter().for_each(|resource| self.add_resource(resource)),
            Command::Write(write) => {
                for member in &write.members {
                    self.add_resource(&member.address.resource);
                    self.targets.insert(member.address.clone());
                    self.operations.insert(OperationWanted {
                        resource: member.address.resource.clone(),
                        operation_id: member.operation_id.clone(),
                        position: member.claim.position,
                        incarnation: member.incarnation,
                    });
                }
            }
        }
    }

    fn add_prune(&mut self, prune: &Prune) {
        match &prune.what {
            Prunable::Operations { resource, operations: _ } => {
                self.add_resource(resource);
                self.eras.insert(resource.clone());
            }
            Prunable::Control(key) => {
                self.controls.insert(key.clone());
            }
            Prunable::Audit => {}
        }
        self.operations.extend(prune.operations().map(|(resource, incarnation, operation_id)| {
            let (position, incarnation) = (Position::ZERO, Some(incarnation));
            OperationWanted { resource, operation_id, position, incarnation }
        }));
    }

    /// The operation's resource and target, and the operation whose stamp was found in the cell.
    fn add_settle(&mut self, settle: &Settle) {
        let (resource, _, _) = &settle.key;
        self.add_resource(resource);
        if let Finding::Cell(seen) = &settle.finding {
            self.add_stamped(resource, seen);
        }
    }

    fn add_stamped(&mut self, resource: &ResourceName, seen: &CellSeen) {
        self.targets.insert(Address { resource: resource.clone(), target: None });
        if let CellSeen::Stamped(_, stamp) = seen
            && let Some(operation_id) = &stamp.operation_id
        {
            self.operations.insert(OperationWanted {
                resource: resource.clone(),
                operation_id: operation_id.clone(),
                position: stamp.position,
                incarnation: Some(stamp.incarnation),
            });
        }
    }

    fn add_resource(&mut self, resource: &ResourceName) {
        self.namespaces.insert(resource.namespace());
        self.resources.insert(resource.clone());
    }

    fn add_lease(&mut self, bucket: Bucket, acquisition: AcquisitionHash) {
        self.leases.insert((bucket, *acquisition.as_bytes()));
    }
}
