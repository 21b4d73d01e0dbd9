//! Samples of what was refused, for those who read the timeline of a resource.
//!
//! They are gathered in memory and written down by a task of their own, in a transaction of their own: an answer never
//! waits for them, and a commit that fails because of them is theirs alone. Under a flood most of it is counted and not
//! kept; what has not been written down when the process ends is lost. No decision looks at them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::warn;

use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::{Clock, Millis, Timestamp};
use crate::limits::{REFUSALS_NOTED_AT_ONCE, REFUSALS_PAUSE};
use crate::protocol::rows::RefusalRow;

use super::driver::{Job, Task};
use super::queues::Queue;
use super::{Ledger, Unserved, answered};

/// What was refused, as the door knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Of what.
    pub resource: ResourceName,
    /// The public code.
    pub code: &'static str,
    /// The position that was presented, where one was.
    pub presented: Option<Position>,
    /// The operation, of a write.
    pub operation_id: Option<OperationId>,
    /// When, by the monotonic clock.
    pub at: Duration,
}

/// A sample and how long ago it was taken: the time of the row is the database's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) row: RefusalRow,
    pub(super) age: Millis,
}

/// What waits to be written down: the newest of each resource and code, and how often there was one.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    samples: BTreeMap<(ResourceName, &'static str), (Refused, u64)>,
    /// Those for which there was no room.
    dropped: u64,
}

impl Refusals {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, refused: Refused) {
        let mut gathered = self.gathered();
        let room = gathered.samples.len() < REFUSALS_NOTED_AT_ONCE;
        let key = (refused.resource.clone(), refused.code);
        if let Some((newest, times)) = gathered.samples.get_mut(&key) {
            *newest = refused;
            *times = times.saturating_add(1);
        } else if room {
            gathered.samples.insert(key, (refused, 1));
        } else {
            gathered.dropped = gathered.dropped.saturating_add(1);
        }
    }
}

impl Ledger {
    /// Remembers that something was refused, until it is written down. It waits for nobody.
    pub fn refused(&self, refused: Refused) {
        self.refusals.add(refused);
    }

    /// The task that writes down what was refused. The clock is the one by which refusals are dated.
    #[must_use]
    pub fn noter(&self, clock: Arc<dyn Clock>) -> Noter {
        Noter { queues: Arc::downgrade(&self.queues), refusals: self.refusals.clone(), clock }
    }
}

/// Writes down what was refused for as long as the ledger is in use, and does not keep it in use itself.
pub struct Noter {
    queues: Weak<[Queue]>,
    refusals: Arc<Refusals>,
    clock: Arc<dyn Clock>,
}

impl Noter {
    /// Writes until the ledger is gone.
    pub async fn run(self) {
        while self.once().await.is_some() {
            sleep(REFUSALS_PAUSE).await;
        }
    }

    /// One round; none when the ledger is gone.
    ///
    /// A test may call it by itself.
    pub async fn once(&self) -> Option<()> {
        let queues = self.queues.upgrade()?;
        let Gathered { samples, dropped } = std::mem::take(&mut *self.refusals.gathered());
        if dropped > 0 {
            warn!(dropped, "more was refused than is kept in the timelines");
        }
        if samples.is_empty() {
            return Some(());
        }
        let now = self.clock.monotonic();
        let samples: Vec<Sample> =
            samples.into_values().map(|(one, times)| sample(one, times, now)).collect();
        let (count, (reply, answer)) = (samples.len(), oneshot::channel());
        let job = Job { task: Task::Note(samples), actor: None, reply };
        let sent = queues.first().ok_or(Unserved::Draining).and_then(|queue| queue.send(job));
        drop(queues);
        let written = match sent {
            Ok(()) => answered(answer).await.map(drop),
            Err(unserved) => Err(unserved),
        };
        if let Err(unserved) = written {
            warn!(reason = %unserved, dropped = count, "what was refused is not kept in the timelines");
        }
        Some(())
    }
}

fn sample(refused: Refused, times: u64, now: Duration) -> Sample {
    let age = now.saturating_sub(refused.at).as_millis();
    let Refused { resource, code, presented, operation_id, at: _ } = refused;
    let row = RefusalRow {
        resource,
        code: code.to_owned(),
        presented,
        operation_id,
        times,
        at: Timestamp::default(),
    };
    Sample { row, age: Millis::new(u64::try_from(age).unwrap_or(u64::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(resource: &str, code: &'static str, at_ms: u64) -> Refused {
        let resource = ResourceName::parse(resource).unwrap();
        Refused { resource, code, presented: None, operation_id: None, at: Duration::from_millis(at_ms) }
    }

    #[test]
    fn a_flood_is_one_sample_of_each_kind_and_the_rest_is_counted() {
        let refusals = Refusals::default();
        for at in 0..10_000 {
            refusals.add(refused("s/a", "stale_token", at));
        }
        refusals.add(refused("s/a", "lease_held", 1));
        for number in 0..2 * REFUSALS_NOTED_AT_ONCE {
            refusals.add(refused(&format!("s/{number}"), "stale_token", 1));
        }
        let Gathered { samples, dropped } = std::mem::take(&mut *refusals.gathered());
        assert_eq!(samples.len(), REFUSALS_NOTED_AT_ONCE);
        assert_eq!(usize::try_from(dropped).unwrap(), REFUSALS_NOTED_AT_ONCE + 2);
        let flood =
            samples.into_values().find(|(one, _)| one.code == "stale_token" && one.at.as_millis() > 1);
        let (newest, times) = flood.unwrap();
        assert_eq!((newest.at.as_millis(), times), (9_999, 10_000));
        let sample = sample(newest, times, Duration::from_millis(10_500));
        assert_eq!((sample.age, sample.row.times), (Millis::new(501), 10_000));
    }
}
