//! A database that does what a test says: commits that fail or are not known, reads that fail, and standstills.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fencegate::domain::breaker::Breaker;
use fencegate::domain::counter::{Incarnation, LedgerSeq};
use fencegate::domain::lease::AcquisitionHash;
use fencegate::domain::operation::{OperationId, OperationState};
use fencegate::domain::quota::Usage;
use fencegate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use fencegate::domain::subject::Subject;
use fencegate::domain::time::Timestamp;
use fencegate::domain::upstream::Payload;
use fencegate::ledger::changeset::ChangeSet;
use fencegate::ledger::engine::{CommitOutcome, Engine, EngineError, Loaded};
use fencegate::ledger::events::{EventPlace, EventsEnd, EventsRead};
use fencegate::ledger::memory::{MemoryEngine, MemoryReader};
use fencegate::ledger::read::{
    AuditEntry, AuditFilter, AuditPlace, DocumentRead, DuePlace, LeaseRead, NotedRefusal, OldOperations,
    OldPlace, OperationFilter, PendingPlace, ReadFailed, Reader, Reading, ResourceFilter, ResourceRead,
};
use fencegate::protocol::Wanted;
use fencegate::protocol::rows::{
    EverywhereRow, IntentRow, LeaseRef, LeaseRow, NamespaceRow, OperationRecord,
};
use fencegate::protocol::snapshot::{ControlKey, OperationKey};

/// What goes wrong from now on.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The outcome of every commit; none means that commits work.
    pub(super) commits: Mutex<Option<CommitOutcome>>,
    /// Every read fails.
    pub(super) reads_fail: AtomicBool,
    /// Neither reads nor loads come back.
    pub(super) stands_still: AtomicBool,
    /// Reads do not come back.
    pub(super) reads_stand_still: AtomicBool,
    /// Whoever holds this stops a count between two parts.
    pub(super) counting: tokio::sync::Mutex<()>,
}

impl Script {
    pub(super) fn commit_with(&self, outcome: CommitOutcome) {
        *self.commits.lock().unwrap() = Some(outcome);
    }
}

pub(super) struct ScriptedEngine {
    inner: MemoryEngine,
    script: Arc<Script>,
    /// A lost commit takes its connection with it: so many loads cannot tell what became of it.
    failing_loads: u32,
}

impl ScriptedEngine {
    pub(super) fn new(inner: MemoryEngine, script: Arc<Script>) -> Self {
        Self { inner, script, failing_loads: 0 }
    }
}

impl Engine for ScriptedEngine {
    async fn load(&mut self, wanted: &Wanted) -> Result<Loaded, EngineError> {
        if self.script.stands_still.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if let Some(left) = self.failing_loads.checked_sub(1) {
            self.failing_loads = left;
            return Err(EngineError::Unavailable("the connection is gone".to_owned()));
        }
        self.inner.load(wanted).await
    }

    async fn apply(&mut self, changes: &ChangeSet, now: Timestamp) -> Result<(), EngineError> {
        self.inner.apply(changes, now).await
    }

    async fn commit(&mut self) -> CommitOutcome {
        let scripted = self.script.commits.lock().unwrap().clone();
        match scripted {
            Some(outcome) => {
                self.inner.rollback().await;
                if matches!(outcome, CommitOutcome::Unknown(_)) {
                    self.failing_loads = 2;
                }
                outcome
            }
            None => self.inner.commit().await,
        }
    }

    async fn confirm(&mut self) -> CommitOutcome {
        self.inner.confirm().await
    }

    async fn rollback(&mut self) {
        self.inner.rollback().await;
    }

    async fn close(self) {
        self.inner.close().await;
    }
}

pub(super) struct ScriptedReader {
    inner: MemoryReader,
    script: Arc<Script>,
}

impl ScriptedReader {
    pub(super) fn new(inner: MemoryReader, script: Arc<Script>) -> Self {
        Self { inner, script }
    }

    fn scripted<'a, T: Send + 'a>(&'a self, reading: Reading<'a, T>) -> Reading<'a, T> {
        let stands_still = [&self.script.stands_still, &self.script.reads_stand_still];
        if stands_still.iter().any(|flag| flag.load(Ordering::SeqCst)) {
            return Box::pin(std::future::pending());
        }
        if self.script.reads_fail.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(ReadFailed("a scripted failure".to_owned()))));
        }
        reading
    }
}

impl Reader for ScriptedReader {
    fn document(&self, address: Address, with_body: bool) -> Reading<'_, DocumentRead> {
        self.scripted(self.inner.document(address, with_body))
    }

    fn resource(&self, resource: ResourceName) -> Reading<'_, Option<ResourceRead>> {
        self.scripted(self.inner.resource(resource))
    }

    fn watched(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<ResourceRead>> {
        self.scripted(self.inner.watched(resources))
    }

    fn audit(&self, resource: ResourceName, before: AuditPlace, limit: u32) -> Reading<'_, Vec<AuditEntry>> {
        self.scripted(self.inner.audit(resource, before, limit))
    }

    fn audit_lines(&self, filter: AuditFilter) -> Reading<'_, Vec<AuditEntry>> {
        self.scripted(self.inner.audit_lines(filter))
    }

    fn events(&self, from: EventPlace, limit: u32) -> Reading<'_, EventsRead> {
        self.scripted(self.inner.events(from, limit))
    }

    fn events_end(&self) -> Reading<'_, EventsEnd> {
        self.scripted(self.inner.events_end())
    }

    fn refusals(&self, resource: ResourceName) -> Reading<'_, Vec<NotedRefusal>> {
        self.scripted(self.inner.refusals(resource))
    }

    fn troubled(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceName>> {
        self.scripted(self.inner.troubled(filter))
    }

    fn uncertain(&self, resources: Vec<ResourceName>) -> Reading<'_, Vec<(ResourceName, OperationId)>> {
        self.scripted(self.inner.uncertain(resources))
    }

    fn expired(&self, now: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        self.scripted(self.inner.expired(now, limit))
    }

    fn ended(&self, bucket: Bucket, before: Timestamp, limit: u32) -> Reading<'_, Vec<LeaseRef>> {
        self.scripted(self.inner.ended(bucket, before, limit))
    }

    fn intents(&self, resource: ResourceName) -> Reading<'_, Vec<IntentRow>> {
        self.scripted(self.inner.intents(resource))
    }

    fn due(&self, now: Timestamp, after: Option<DuePlace>, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        self.scripted(self.inner.due(now, after, limit))
    }

    fn undecided(&self, state: OperationState, limit: u32) -> Reading<'_, Vec<IntentRow>> {
        self.scripted(self.inner.undecided(state, limit))
    }

    fn payload(&self, key: OperationKey) -> Reading<'_, Option<Payload>> {
        self.scripted(self.inner.payload(key))
    }

    fn pending(&self, now: Timestamp, after: Option<PendingPlace>, limit: u32) -> Reading<'_, Vec<LeaseRow>> {
        self.scripted(self.inner.pending(now, after, limit))
    }

    fn old_operations(&self, from: OldPlace, before: Timestamp, limit: u32) -> Reading<'_, OldOperations> {
        self.scripted(self.inner.old_operations(from, before, limit))
    }

    fn old_controls(&self, before: Timestamp, limit: u32) -> Reading<'_, Vec<ControlKey>> {
        self.scripted(self.inner.old_controls(before, limit))
    }

    fn has_old_audit(&self, before: Timestamp) -> Reading<'_, bool> {
        self.scripted(self.inner.has_old_audit(before))
    }

    fn time(&self) -> Reading<'_, Timestamp> {
        self.scripted(self.inner.time())
    }

    fn resources(&self, filter: ResourceFilter) -> Reading<'_, Vec<ResourceRead>> {
        self.scripted(self.inner.resources(filter))
    }

    fn operation(
        &self,
        resource: ResourceName,
        operation_id: OperationId,
        incarnation: Option<Incarnation>,
    ) -> Reading<'_, Option<OperationRecord>> {
        self.scripted(self.inner.operation(resource, operation_id, incarnation))
    }

    fn operations(&self, filter: OperationFilter) -> Reading<'_, Vec<OperationRecord>> {
        self.scripted(self.inner.operations(filter))
    }

    fn lease(&self, bucket: Bucket, acquisition: AcquisitionHash) -> Reading<'_, Option<LeaseRead>> {
        self.scripted(self.inner.lease(bucket, acquisition))
    }

    fn namespaces(&self) -> Reading<'_, Vec<NamespaceRow>> {
        self.scripted(self.inner.namespaces())
    }

    fn everywhere(&self) -> Reading<'_, EverywhereRow> {
        self.scripted(self.inner.everywhere())
    }

    fn usage(&self, part: u8) -> Reading<'_, Vec<(Namespace, Usage)>> {
        Box::pin(async move {
            let _its_turn = self.script.counting.lock().await;
            self.scripted(self.inner.usage(part)).await
        })
    }

    fn stopped(&self) -> Reading<'_, Vec<(Subject, Breaker)>> {
        self.scripted(self.inner.stopped())
    }

    fn durability(&self) -> Reading<'_, String> {
        self.scripted(self.inner.durability())
    }

    fn ledger_seq(&self) -> Reading<'_, LedgerSeq> {
        self.scripted(self.inner.ledger_seq())
    }
}

/// A clock that fails where a command is carried out, which is in a task of its own: a fault in the middle of it.
pub(super) struct Stopped;

impl fencegate::domain::time::Clock for Stopped {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(crate::support::clock::START_MS)
    }

    fn monotonic(&self) -> std::time::Duration {
        assert!(tokio::task::try_id().is_none(), "a fault that a test made");
        std::time::Duration::ZERO
    }
}
