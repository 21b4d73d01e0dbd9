//! What namespaces with quotas have: counted in the database now and then, and kept up with what this process commits.
//!
//! A decision that would add beyond a quota is not carried out, and nothing of it is recorded. Within one process that is
//! exact; what other gateways have added since the last count is not known here (docs/OPERATIONS.md says how much that may
//! be). No row counts for others, so that no write waits for another one because of a quota.

mod books;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use crate::domain::namespaces::Namespaces;
use crate::domain::operation::{Effect, Method};
use crate::domain::quota::{Quota, Usage};
use crate::domain::resource::{Address, Namespace, ResourceName};
use crate::domain::time::Clock;
use crate::limits::{QUOTA_PAUSE, QUOTA_PAUSE_TIMES};
use crate::protocol::{Change, Command, Snapshot};

use super::read::{ReadFailed, Reader};
use super::{Ledger, Unserved};

use books::{Books, Moment, Step, Sums, add, sum_of};

/// What is known of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Meter {
    books: Mutex<Books>,
    /// One count at a time.
    counting: tokio::sync::Mutex<()>,
}

/// What the commands of one batch change, until they are committed. Dropped before that, it is as if it had never been.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// With the moment in which the batch began.
    meter: Option<(Arc<Meter>, Moment)>,
    steps: Vec<Step>,
    all: Sums,
    /// What of it other batches have to leave room for: what is taken away is not theirs before it is committed.
    promised: Sums,
}

impl Pending {
    /// Of a batch that begins, and of which nothing is committed yet.
    pub(super) fn of(meter: Option<&Arc<Meter>>) -> Self {
        let meter = meter.map(|meter| (meter.clone(), meter.books().now()));
        Self { meter, steps: Vec::new(), all: Sums::new(), promised: Sums::new() }
    }

    /// Takes what a decision changes into the batch, unless it adds beyond a quota.
    ///
    /// # Errors
    /// [`Unserved::OverQuota`] names the quota. The batch is then as it was.
    pub(super) fn admit(
        &mut self,
        command: &Command,
        changes: &[Change],
        snapshot: &Snapshot,
        namespaces: &Namespaces,
    ) -> Result<(), Unserved> {
        let Some((meter, _)) = self.meter.clone() else { return Ok(()) };
        let (steps, adds) = (steps(changes, snapshot), adds(command));
        let (mut counted, mut all) = (Sums::new(), Sums::new());
        for step in &steps {
            add(&mut all, &step.namespace, step.usage);
            // What removals record is not held against the quota: they are never refused.
            add(&mut counted, &step.namespace, if step.counts { step.usage } else { Usage::default() });
        }
        // One look and one promise: another batch sees all of it or nothing.
        let mut books = meter.books();
        for (namespace, change) in counted.iter().filter(|_| adds) {
            let Some(rules) = namespaces.rules(namespace) else { continue };
            self.fits(&books, namespace, rules.quota, *change)?;
        }
        for (namespace, change) in &all {
            self.take(&mut books, namespace, *change);
        }
        self.steps.extend(steps);
        Ok(())
    }

    fn fits(
        &self,
        books: &Books,
        namespace: &Namespace,
        quota: Quota,
        counted: Usage,
    ) -> Result<(), Unserved> {
        let others = sum_of(&books.promised, namespace).less(sum_of(&self.promised, namespace));
        let used = sum_of(&books.used, namespace).and(others).and(sum_of(&self.all, namespace));
        match quota.passed(used, counted) {
            Some((what, bound)) => Err(Unserved::OverQuota { namespace: namespace.clone(), what, bound }),
            None => Ok(()),
        }
    }

    fn take(&mut self, books: &mut Books, namespace: &Namespace, change: Usage) {
        add(&mut self.all, namespace, change);
        let promised = change.growth();
        add(&mut self.promised, namespace, promised);
        add(&mut books.promised, namespace, promised);
    }

    /// It was committed.
    pub(super) fn commit(mut self) {
        let Some((meter, since)) = self.meter.take() else { return };
        let mut books = meter.books();
        books.take_in(&self.steps, since);
        // What was promised is kept now: it goes with this, in the same look of others.
        self.release(&mut books);
    }

    fn release(&self, books: &mut Books) {
        for (namespace, promised) in &self.promised {
            let left = sum_of(&books.promised, namespace).less(*promised);
            if left == Usage::default() {
                books.promised.remove(namespace);
            } else {
                books.promised.insert(namespace.clone(), left);
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some((meter, _)) = self.meter.take().filter(|_| !self.promised.is_empty()) {
            self.release(&mut meter.books());
        }
    }
}

impl Meter {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts anew.
    async fn count(&self, reader: &dyn Reader) -> Result<(), ReadFailed> {
        let _alone = self.counting.lock().await;
        self.books().begin();
        for part in 0..=u8::MAX {
            self.books().begin_part();
            let found = reader.usage(part).await?;
            self.books().end_part(&found);
        }
        self.books().end();
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

/// What one decision changes, change by change.
fn steps(changes: &[Change], snapshot: &Snapshot) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |resource: &ResourceName, usage, counts| steps.push(Step::of(resource, usage, counts));
    let resources = |resources| Usage { resources, ..Usage::default() };
    let operations = |operations| Usage { operations, ..Usage::default() };
    let bytes = |bytes| Usage { bytes, ..Usage::default() };
    let size = |address: &Address| snapshot.target(address).map_or(0, |row| signed(row.size));
    for change in changes {
        match change {
            Change::Resource { before: None, after } => add(&after.resource, resources(1), true),
            Change::ResourceFolded(row) => add(&row.resource, resources(-1), true),
            Change::TargetStored { resource, row, .. } => {
                let address = Address { resource: resource.clone(), target: row.target.clone() };
                let more = signed(row.size).saturating_sub(size(&address));
                add(resource, bytes(more), true);
            }
            Change::TargetRemoved(address) => {
                add(&address.resource, bytes(size(address).saturating_neg()), true);
            }
            Change::AllTargetsRemoved(resource) => {
                let of_it = snapshot.targets().filter(|(address, _)| address.resource == *resource);
                let gone = of_it.fold(0_i64, |sum, (_, row)| sum.saturating_add(signed(row.size)));
                add(resource, bytes(gone.saturating_neg()), true);
            }
            Change::OperationRecorded(record) => {
                let counts = record.method != Method::Delete;
                add(&record.resource, operations(1), counts);
            }
            Change::OperationPruned(record) => {
                add(&record.resource, operations(-1), true);
            }
            Change::IntentAnnounced { row, .. } => {
                let counts = row.record.method != Method::Delete;
                add(&row.record.resource, operations(1), counts);
            }
            Change::IntentClosed(row) => {
                add(&row.record.resource, operations(-1), true);
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
    steps
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
        self.meter.as_ref().map(|meter| sum_of(&meter.books().used, namespace))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(resources: i64) -> Usage {
        Usage { resources, ..Usage::default() }
    }

    /// Broken: two committers of one process each find room for the last one, and both commit; or a batch that was rolled back
    /// keeps its room for ever; or one counts on what another is only about to remove. Must hold: what is under way counts for
    /// everybody until it has ended, and then as it ended.
    #[test]
    fn what_is_under_way_takes_room_until_it_has_ended() {
        let meter = Arc::new(Meter::default());
        let resource = ResourceName::parse("jobs/a").unwrap();
        let jobs = resource.namespace();
        let quota = Quota { resources: Some(3), ..Quota::default() };
        let takes = |pending: &mut Pending, change: Usage| {
            let mut books = meter.books();
            let fits = pending.fits(&books, &jobs, quota, change).is_ok();
            if fits {
                pending.take(&mut books, &jobs, change);
                pending.steps.push(Step::of(&resource, change, true));
            }
            fits
        };
        let (mut one, mut other) = (Pending::of(Some(&meter)), Pending::of(Some(&meter)));
        assert!(takes(&mut one, resources(2)) && takes(&mut other, resources(1)));
        assert!(!takes(&mut one, resources(1)) && !takes(&mut other, resources(1)));
        // A batch is rolled back.
        drop(one);
        assert!(takes(&mut other, resources(1)));
        other.commit();
        assert_eq!(sum_of(&meter.books().used, &jobs), resources(2));
        assert!(meter.books().promised.is_empty());

        let (mut removes, mut adds) = (Pending::of(Some(&meter)), Pending::of(Some(&meter)));
        assert!(takes(&mut removes, resources(-2)));
        // Its own room is its own at once, and another's when it is committed.
        assert!(takes(&mut removes, resources(2)) && takes(&mut removes, resources(-1)));
        assert!(!takes(&mut adds, resources(2)));
        removes.commit();
        assert!(takes(&mut adds, resources(2)));
        adds.commit();
        assert_eq!(sum_of(&meter.books().used, &jobs), resources(3));
    }
}
