//! Reads: what can be asked of the committed state. They run beside the writer, each from one consistent view.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Incarnation, LedgerSeq};
use crate::domain::lease::AcquisitionHash;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::quota::Usage;
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Payload;
use crate::protocol::rows::{
    AuditRow, EverywhereRow, IntentRow, LeaseRef, LeaseRow, Life, NamespaceRow, OperationRecord, RefusalRow,
    ResourceRow, TargetRow,
};
use crate::protocol::snapshot::{ControlKey, OperationKey};

use super::events::{EventPlace, EventsEnd, EventsRead};

/// A read under way.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, ReadFailed>> + Send + 'a>>;

/// The database could not be read, or holds what this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the database cannot be read: {0}")]
pub struct ReadFailed(pub String);

/// A target as it stands, with its resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentRead {
    /// The namespace, where it was ever used.
    pub namespace: Option<NamespaceRow>,
    /// The resource, where it was ever heard of.
    pub resource: Option<ResourceRow>,
    /// The target, where it has content.
    pub target: Option<TargetRow>,
    /// The content, where it was asked for.
    pub body: Option<Bytes>,
}

/// Everything about one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRead {
    /// The resource.
    pub resource: ResourceRow,
    /// Its targets, in order of name, at most [`crate::limits::TARGETS_SHOWN`].
    pub targets: Vec<TargetRow>,
    /// Its newest lease.
    pub lease: Option<LeaseRow>,
    /// Its namespace.
    pub namespace: NamespaceRow,
    /// The time of the view.
    pub now: Timestamp,
}

/// Which resources to list, in order of name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceFilter {
    /// Only of this namespace.
    pub namespace: Option<Namespace>,
    /// Only names that begin so (the full name, namespace included).
    pub prefix: Option<String>,
    /// Only of this life.
    pub life: Option<Life>,
    /// Only names after this one.
    pub after: Option<ResourceName>,
    /// At most so many.
    pub limit: u32,
}

/// A place in a resource's list of operations, which runs from the newest to the oldest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationPlace {
    /// When the last one seen was recorded.
    pub created_at: Timestamp,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its id.
    pub operation_id: OperationId,
}

/// Which operations to list: newest first by time of recording, incarnation and id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFilter {
    /// Of this resource.
    pub resource: ResourceName,
    /// Only in this state.
    pub state: Option<OperationState>,
    /// Only those after this place.
    pub after: Option<OperationPlace>,
    /// At most so many.
    pub limit: u32,
}

/// A lease with its resource and namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRead {
    /// The lease.
    pub lease: LeaseRow,
    /// Its resource.
    pub resource: ResourceRow,
    /// Its namespace.
    pub namespace: NamespaceRow,
    /// The time of the view.
    pub now: Timestamp,
}

/// A place in the walk through all operations, from the oldest on; each engine has an order of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OldPlace {
    /// Of what the engine counts first: hours since 1970, or rows.
    pub first: i64,
    /// The bucket, where the engine goes by buckets.
    pub bucket: u8,
}

/// Operations that are old, and seem to be such as may be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OldOperations {
    /// Those that were found, of each resource in the order in which they were recorded.
    pub found: Vec<OperationKey>,
    /// Where the walk goes on; none at its end.
    pub next: Option<OldPlace>,
}

/// A place among what is due: when, and which operation.
pub type DuePlace = (Timestamp, OperationKey);

/// A place among the leases that wait: since when, and which.
pub type PendingPlace = (Timestamp, AcquisitionHash);

/// A place in the audit: when, in which transaction, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPlace {
    /// What the line tells of was at this time.
    pub at: Timestamp,
    /// A number of the transaction.
    pub transaction: u64,
    /// Its place in the transaction.
    pub ordinal: u64,
}

/// A line of the audit with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Where it stands.
    pub place: AuditPlace,
    /// What it tells.
    pub row: AuditRow,
}

/// Which lines of the audit to list, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only at this time and later.
    pub since: Timestamp,
    /// Only before this time.
    pub until: Timestamp,
    /// Only after this place.
    pub after: Option<AuditPlace>,
    /// At most so many.
    pub limit: u32,
}

impl AuditFilter {
    /// The first time that is wanted, and the place behind which lines are wanted.
    #[must_use]
    pub fn start(&self) -> (Timestamp, AuditPlace) {
        // No line has a transaction 0.
        let first = AuditPlace { at: self.since, transaction: 0, ordinal: 0 };
        let place = self.after.map_or(first, |after| after.max(first));
        (place.at, place)
    }
}

/// A sample of what was refused, with its number in the resource's ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedRefusal {
    /// It grows from sample to sample.
    pub number: u64,
    /// What it tells.
    pub row: RefusalRow,
}

/// The committed state, for reading. Methods take what they need by value, so that a task of its own can run them.
pub trait Reader: Send + Sync + 'static {
    /// A target, with its bytes when `with_body`.
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead>;

    /// One resource; none when it was never heard of.
    fn resource(&self, resource: ResourceName) -> Reading<'_, Option<ResourceRead>>;

    /// Several resources by name, without their targets; those that were never heard of are left out.
    fn watched(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<ResourceRead>>;

    /// Leases that have expired by this time and are not known to have, the longest expired first, at most so many.
    fn expired(&self, now: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>>;

    /// Leases of one bucket that ended before this time and have a successor on their first resource, at most so many.
    fn ended(&self, bucket: Bucket, before: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>>;

    /// Operations that were decided before this time, from a place on, and are fenced since: at most so many are found.
    fn old_operations(&self, from: OldPlace, before: Timestamp, limit: u32) -> Reading<'_, OldOperations>;

    /// Control calls that were carried out before this time, the oldest first, at most so many.
    fn old_controls(&self, before: Timestamp, limit: u32) -> Reading<'_, Vec<ControlKey>>;

    /// Whether there are lines of what was done before this time.
    fn has_old_audit(&self, before: Timestamp) -> Reading<'_, bool>;

    /// The time of the database.
    fn time(&self) -> Reading<'_, Timestamp>;

    /// Resources in order of name.
    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>>;

    /// One operation, decided or not: of the incarnation named, else of the newest one that has it.
    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>>;

    /// Operations of a resource, decided or not, newest first.
    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>>;

    /// What was done to a resource, to its namespace and to everything before this place, newest first, at most so many.
    fn audit(&self, resource: ResourceName, before: AuditPlace, limit: u32) -> Reading<'_, Vec<AuditEntry>>;

    /// Lines of what was done anywhere, the oldest first.
    fn audit_lines(&self, filter: AuditFilter) -> Reading<'_, Vec<AuditEntry>>;

    /// What happened behind a place, of each kind at most so many or a little more, with the time of the view. Nothing that
    /// is still to be committed can come before what is found.
    fn events(&self, from: EventPlace, limit: u32) -> Reading<'_, EventsRead>;

    /// How far what [`Reader::events`] finds reaches.
    fn events_end(&self) -> Reading<'_, EventsEnd>;

    /// Samples of what was refused of a resource, in no order: at most [`crate::limits::REFUSALS_KEPT`].
    fn refusals(&self, resource: ResourceName) -> Reading<'_, Vec<NotedRefusal>>;

    /// Names of resources that a person has to look at, in order: quarantined ones, and those with an operation whose
    /// outcome is uncertain. The life that the filter may name is not looked at.
    fn troubled(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceName>>;

    /// Those of these resources that have an operation whose outcome is uncertain, with one such operation.
    fn uncertain(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<(ResourceName, OperationId)>>;

    /// The undecided operations of a resource, the oldest first.
    fn intents(&self, resource: ResourceName) -> Reading<'_, Vec<IntentRow>>;

    /// Undecided operations whose next step is due by this time, the longest due first, behind a place, at most so many.
    fn due(&self, now: Timestamp, after: Option<DuePlace>, limit: u32) -> Reading<'_, Vec<IntentRow>>;

    /// Undecided operations of all resources in this state, the oldest first, at most so many.
    fn undecided(&self, state: OperationState, limit: u32) -> Reading<'_, Vec<IntentRow>>;

    /// The body of an undecided operation; none when it is decided.
    fn payload(&self, key: OperationKey) -> Reading<'_, Option<Payload>>;

    /// Leases that wait for a barrier and have not expired by this time, the oldest first, behind a place, at most so many.
    fn pending(&self, now: Timestamp, after: Option<PendingPlace>, limit: u32) -> Reading<'_, Vec<LeaseRow>>;

    /// One lease; none when there is none of that id.
    fn lease(&self, bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>>;

    /// The namespaces that were ever used, in order.
    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>>;

    /// What holds for namespaces that were never used.
    fn everywhere(&self) -> Reading<'_, EverywhereRow>;

    /// What each namespace has in one part of the database; all 256 parts together are everything. Each is a short read,
    /// and they are read one after the other, so that no read has to look at everything.
    fn usage(&self, part: u8) -> Reading<'_, Vec<(Namespace, Usage)>>;

    /// Which namespaces are stopped, and whether all of them are.
    fn stopped(&self) -> Reading<'_, Vec<(Subject, Breaker)>>;

    /// How an acknowledged write is kept, by the settings in force now; for people.
    fn durability(&self) -> Reading<'_, String>;

    /// How far the database has come.
    fn ledger_seq(&self) -> Reading<'_, LedgerSeq>;
}
