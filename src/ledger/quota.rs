//! What namespaces with quotas have: counted in the database now and then, and kept up with what this process commits.
//!
//! A decision that would add beyond a quota is not carried out, and nothing of it is recorded. Within one process that is
//! exact but for what its other committer commits in the same moment; what other gateways have added since the last count
//! is not known here (docs/OPERATIONS.md says how much that may be). No row counts for others, so that no write waits for
//! another one because of a quota.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use crate::domain::namespaces::Namespaces;
use crate::domain::operation::{Effect, Method};
use crate::domain::quota::Usage;
use crate::domain::resource::{Address, Namespace};
use crate::domain::time::Clock;
use crate::limits::{QUOTA_PAUSE, QUOTA_PAUSE_TIMES};
use crate::protocol::{Change, Command, Snapshot};

use super::read::{ReadFailed, Reader};
use super::{Ledger, Unserved};

/// What is known of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Meter {
    used: Mutex<BTreeMap<Namespace, Usage>>,
}

/// What the commands of one batch change, until they are committed.
#[derive(Debug, Default)]
pub(super) struct Pending(BTreeMap<Namespace, Usage>);

impl Meter {
    fn used(&self) -> MutexGuard<'_, BTreeMap<Namespace, Usage>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a decision changes into the batch, unless it adds beyond a quota.
    ///
    /// # Errors
    /// [`Unserved::OverQuota`] names the quota. The batch is then as it was.
    pub(super) fn admit(
        &self,
        pending: &mut Pending,
        command: &Command,
        changes: &[Change],
        snapshot: &Snapshot,
        namespaces: &Namespaces,
    ) -> Result<(), Unserved> {
        let sums = changed_by(changes, snapshot);
        if adds(command) {
            for (namespace, change) in &sums {
                let Some(rules) = namespaces.rules(namespace) else { continue };
                let so_far = self.used().get(namespace).copied().unwrap_or_default();
                let used = so_far.and(pending.0.get(namespace).copied().unwrap_or_default());
                if let Some((what, bound)) = rules.quota.passed(used, change.counted) {
                    return Err(Unserved::OverQuota { namespace: namespace.clone(), what, bound });
                }
            }
        }
        for (namespace, change) in sums {
            let sum = pending.0.entry(namespace).or_default();
            *sum = sum.and(change.all);
        }
        Ok(())
    }

    /// Takes in what was committed.
    pub(super) fn committed(&self, pending: &Pending) {
        if pending.0.is_empty() {
            return;
        }
        let mut used = self.used();
        for (namespace, change) in &pending.0 {
            let sum = used.entry(namespace.clone()).or_default();
            *sum = sum.and(*change);
        }
    }

    /// Counts anew. What is committed meanwhile may count twice until the next time, and never not at all.
    async fn count(&self, reader: &dyn Reader) -> Result<(), ReadFailed> {
        let before = self.used().clone();
        let mut counted: BTreeMap<Namespace, Usage> = BTreeMap::new();
        for part in 0..=u8::MAX {
            for (namespace, usage) in reader.usage(part).await? {
                let sum = counted.entry(namespace).or_default();
                *sum = sum.and(usage);
            }
        }
        let mut used = self.used();
        for (namespace, now) in used.iter() {
            let meanwhile = now.less(before.get(namespace).copied().unwrap_or_default());
            let sum = counted.entry(namespace.clone()).or_default();
            *sum = sum.and(meanwhile);
        }
        *used = counted;
        Ok(())
    }
}

/// Commands that may make records grow. Whatever keeps, ends or repairs is let through whatever it records.
fn adds(command: &Command) -> bool {
    match command {
        Command::Write(_) | Command::Acquire(_) | Command::Advance(_) => true,
        Command::Renew(_)
        | Command::Release(_)
        | Command::Transfer(_)
        | Command::Control(_)
        | Command::Whole(_)
        | Command::Sweep(_)
        | Command::Prune(_)
        | Command::Leave(_)
        | Command::Settle(_)
        | Command::Resume(_)
        | Command::Resolve(_)
        | Command::Barrier(_) => false,
    }
}

/// What one decision changes of one namespace.
#[derive(Debug, Clone, Copy, Default)]
struct Changed {
    all: Usage,
    /// Without what removals record: they are never refused.
    counted: Usage,
}

fn changed_by(changes: &[Change], snapshot: &Snapshot) -> BTreeMap<Namespace, Changed> {
    let mut sums: BTreeMap<Namespace, Changed> = BTreeMap::new();
    let mut add = |namespace: Namespace, usage: Usage, counts: bool| {
        let sum = sums.entry(namespace).or_default();
        sum.all = sum.all.and(usage);
        if counts {
            sum.counted = sum.counted.and(usage);
        }
    };
    let resources = |resources| Usage { resources, ..Usage::default() };
    let operations = |operations| Usage { operations, ..Usage::default() };
    let bytes = |bytes| Usage { bytes, ..Usage::default() };
    let size = |address: &Address| snapshot.target(address).map_or(0, |row| signed(row.size));
    for change in changes {
        match change {
            Change::Resource { before: None, after } => add(after.resource.namespace(), resources(1), true),
            Change::ResourceFolded(row) => add(row.resource.namespace(), resources(-1), true),
            Change::TargetStored { resource, row, .. } => {
                let address = Address { resource: resource.clone(), target: row.target.clone() };
                let more = signed(row.size).saturating_sub(size(&address));
                add(resource.namespace(), bytes(more), true);
            }
            Change::TargetRemoved(address) => {
                add(address.resource.namespace(), bytes(size(address).saturating_neg()), true);
            }
            Change::AllTargetsRemoved(resource) => {
                let of_it = snapshot.targets().filter(|(address, _)| address.resource == *resource);
                let gone = of_it.fold(0_i64, |sum, (_, row)| sum.saturating_add(signed(row.size)));
                add(resource.namespace(), bytes(gone.saturating_neg()), true);
            }
            Change::OperationRecorded(record) => {
                let counts = record.method != Method::Delete;
                add(record.resource.namespace(), operations(1), counts);
            }
            Change::OperationPruned(record) => {
                add(record.resource.namespace(), operations(-1), true);
            }
            Change::IntentAnnounced { row, .. } => {
                let counts = row.record.method != Method::Delete;
                add(row.record.resource.namespace(), operations(1), counts);
            }
            Change::IntentClosed(row) => {
                add(row.record.resource.namespace(), operations(-1), true);
            }
            Change::Resource { before: Some(_), .. }
            | Change::NamespaceRecorded(_)
            | Change::NamespaceChanged { .. }
            | Change::EverywhereChanged { .. }
            | Change::EraEnded(_)
            | Change::EraForgotten(_)
            | Change::ControlForgotten(_)
            | Change::AuditForgotten { .. }
            | Change::IntentChanged { .. }
            | Change::LeaseGranted(_)
            | Change::LeaseChanged { .. }
            | Change::LeaseForgotten(_)
            | Change::ControlRecorded(_)
            | Change::Audited(_) => {}
        }
    }
    sums
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

impl Ledger {
    /// Counts what namespaces with quotas have. Without quotas there is nothing to count.
    ///
    /// # Errors
    /// [`Unserved`] when the database cannot be read.
    pub async fn count(&self) -> Result<(), Unserved> {
        let Some(meter) = self.meter.clone() else { return Ok(()) };
        let reader = self.reader.clone();
        let counting = tokio::spawn(async move { counted(&meter, reader.as_ref()).await });
        if matches!(counting.await, Ok(true)) { Ok(()) } else { Err(Unserved::Unavailable(Effect::None)) }
    }

    /// What a namespace has, as far as it is counted.
    #[must_use]
    pub fn usage(&self, namespace: &Namespace) -> Option<Usage> {
        self.meter.as_ref().map(|meter| meter.used().get(namespace).copied().unwrap_or_default())
    }

    /// Counts again and again for as long as the ledger is in use, so seldom that a count costs little beside the pause. It
    /// does not keep the ledger in use itself.
    pub fn keep_counting(&self, clock: Arc<dyn Clock>) -> impl Future<Output = ()> + Send + use<> {
        let (meter, reader) = (self.meter.clone(), Arc::downgrade(&self.reader));
        async move {
            let Some(meter) = meter else { return };
            let mut took = Duration::ZERO;
            loop {
                sleep(QUOTA_PAUSE.max(took.saturating_mul(QUOTA_PAUSE_TIMES))).await;
                let Some(reader) = reader.upgrade() else { return };
                let began = clock.monotonic();
                if counted(&meter, reader.as_ref()).await {
                    took = clock.monotonic().saturating_sub(began);
                }
            }
        }
    }
}

/// Counts, and says so in the log where that is not possible.
async fn counted(meter: &Meter, reader: &dyn Reader) -> bool {
    match meter.count(reader).await {
        Ok(()) => true,
        Err(ReadFailed(reason)) => {
            warn!(reason, "what namespaces with quotas have cannot be counted; the last count holds");
            false
        }
    }
}
