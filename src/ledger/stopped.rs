//! What is stopped, as far as this process has heard: its own commits at once, those of others by a look now and then.
//!
//! It is for those who are told of it and decides nothing: whether a request goes on, its transaction judges.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::domain::breaker::Breaker;
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::limits::STOPPED_PAUSE;

use super::changeset::ChangeSet;
use super::read::{ReadFailed, Reader};
use super::{Ledger, Unserved};

/// The list. Shared by the committers, the task that looks, and those who ask.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    breakers: Mutex<BTreeMap<Subject, Breaker>>,
    /// Whether there is anything in it: asked with every answer.
    any: AtomicBool,
    /// + 1 for each commit that was taken in: a look that began before one may be older.
    commits: AtomicU64,
}

impl Stopped {
    fn breakers(&self) -> MutexGuard<'_, BTreeMap<Subject, Breaker>> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holds(&self, namespace: &Namespace) -> bool {
        self.any() && self.breakers().contains_key(&Subject::Namespace(namespace.clone()))
    }

    fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What is stopped.
    pub(super) fn names(&self) -> Vec<String> {
        if self.any() { self.breakers().keys().map(Subject::to_string).collect() } else { Vec::new() }
    }

    /// Takes a commit of this process in.
    pub(super) fn committed(&self, changes: &ChangeSet) {
        if changes.namespaces.is_empty() && changes.everywhere.is_none() {
            return;
        }
        let mut breakers = self.breakers();
        self.commits.fetch_add(1, Ordering::AcqRel);
        let everywhere = changes.everywhere.iter().map(|change| (Subject::Everywhere, &change.after.breaker));
        let named = changes.namespaces.values();
        let named =
            named.map(|change| (Subject::Namespace(change.after.namespace.clone()), &change.after.breaker));
        for (subject, breaker) in everywhere.chain(named) {
            match breaker {
                Some(breaker) => breakers.insert(subject, breaker.clone()),
                None => breakers.remove(&subject),
            };
        }
        self.any.store(!breakers.is_empty(), Ordering::Release);
    }

    /// Takes in what stood in the database after so many commits of this process.
    fn seen(&self, found: &[(Subject, Breaker)], commits: u64) {
        let mut breakers = self.breakers();
        if self.commits.load(Ordering::Acquire) != commits {
            return;
        }
        for (subject, Breaker { detector, found, .. }) in
            found.iter().filter(|(one, _)| !breakers.contains_key(one))
        {
            error!(namespace = %subject, detector = detector.word(), found, "stopped: its records have gone back in time");
        }
        for subject in breakers.keys().filter(|one| found.iter().all(|(other, _)| other != *one)) {
            info!(namespace = %subject, "goes on, in a new epoch");
        }
        *breakers = found.iter().cloned().collect();
        self.any.store(!breakers.is_empty(), Ordering::Release);
    }

    /// Looks for as long as the ledger is in use, and does not keep it in use itself.
    pub(super) async fn look(self: Arc<Self>, reader: Weak<dyn Reader>) {
        while let Some(reader) = reader.upgrade() {
            let commits = self.commits.load(Ordering::Acquire);
            match reader.stopped().await {
                Ok(found) => self.seen(&found, commits),
                Err(ReadFailed(reason)) => warn!(reason, "whether anything is stopped cannot be looked up"),
            }
            drop(reader);
            sleep(STOPPED_PAUSE).await;
        }
    }
}

impl Ledger {
    /// Whether a namespace is stopped, as far as this process has heard.
    #[must_use]
    pub fn is_stopped(&self, namespace: &Namespace) -> bool {
        self.stopped.holds(namespace)
    }

    /// Whether anything is stopped, as far as this process has heard.
    #[must_use]
    pub fn is_any_stopped(&self) -> bool {
        self.stopped.any()
    }

    /// What is stopped, as it stands in the database.
    ///
    /// # Errors
    /// [`Unserved`] as for every read.
    pub async fn stopped(&self) -> Result<Vec<(Subject, Breaker)>, Unserved> {
        self.read(|reader| reader.stopped()).await
    }
}
