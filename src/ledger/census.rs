//! The census: what only the database knows, looked up now and then for `GET /metrics`. Reads are bounded, and no scrape
//! waits for one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

use tokio::time::sleep;
use tracing::warn;

use crate::domain::operation::OperationState;
use crate::domain::time::Timestamp;
use crate::limits::{CENSUS_PAUSE, QUEUE_COMMANDS, UNDECIDED_COUNTED};
use crate::protocol::rows::IntentRow;
use crate::telemetry::metrics::{Metrics, Now};

use super::Ledger;
use super::queues::Queue;
use super::read::{ReadFailed, Reader};

/// Looks for as long as the ledger is in use, and does not keep it in use itself.
pub struct Counting {
    reader: Weak<dyn Reader>,
    metrics: Weak<Metrics>,
}

/// What one look finds.
struct Found {
    now: Timestamp,
    intents: Vec<IntentRow>,
    uncertain: Vec<IntentRow>,
    durability: String,
}

impl Ledger {
    /// The task that looks.
    #[must_use]
    pub fn counting(&self) -> Counting {
        Counting { reader: Arc::downgrade(&self.reader), metrics: Arc::downgrade(&self.metrics) }
    }

    /// What is known now without asking anybody.
    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            queues: self.queues.iter().map(Queue::waiting).collect(),
            queue_most: QUEUE_COMMANDS,
            stopped: self.stopped.names(),
            engine: self.setting.identity.engine,
            schema_version: self.setting.identity.schema_version,
            ..Now::default()
        }
    }
}

impl Counting {
    /// Looks until the ledger is gone.
    pub async fn run(self) {
        while self.once().await.is_some() {
            sleep(CENSUS_PAUSE).await;
        }
    }

    /// One look; none when the ledger is gone.
    ///
    /// A test may call it by itself.
    pub async fn once(&self) -> Option<()> {
        let reader = self.reader.upgrade()?;
        let found = look(reader.as_ref()).await;
        drop(reader);
        let metrics = self.metrics.upgrade()?;
        metrics.census.database_up.put(i64::from(found.is_ok()));
        match found {
            Ok(found) => count(&metrics, found),
            // What was found before stays: it is the last that is known.
            Err(ReadFailed(reason)) => warn!(reason, "the database cannot be looked at for the metrics"),
        }
        Some(())
    }
}

fn count(metrics: &Metrics, found: Found) {
    let census = &metrics.census;
    let oldest = found.uncertain.iter().map(|intent| intent.record.created_at).min();
    let age = oldest.map(|oldest| oldest.until(found.now).get()).unwrap_or_default();
    census.oldest_uncertain_ms.put(i64::try_from(age).unwrap_or(i64::MAX));
    *census.durability.lock().unwrap_or_else(PoisonError::into_inner) = found.durability;
    let (intents, uncertain) = (by_namespace(&found.intents), by_namespace(&found.uncertain));
    // Those that come first get series of their own.
    for name in intents.keys().chain(uncertain.keys()) {
        let _known = metrics.namespaces.of(name);
    }
    for (name, meters) in metrics.namespaces.each() {
        meters.intents.set(intents.get(name).copied().unwrap_or_default());
        meters.uncertain.set(uncertain.get(name).copied().unwrap_or_default());
    }
}

async fn look(reader: &dyn Reader) -> Result<Found, ReadFailed> {
    Ok(Found {
        now: reader.time().await?,
        intents: reader.undecided(OperationState::Intent, UNDECIDED_COUNTED).await?,
        uncertain: reader.undecided(OperationState::Uncertain, UNDECIDED_COUNTED).await?,
        durability: reader.durability().await?,
    })
}

fn by_namespace(intents: &[IntentRow]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for intent in intents {
        let count: &mut usize = counted.entry(intent.record.resource.namespace().to_string()).or_default();
        *count = count.saturating_add(1);
    }
    counted
}
