//! The ack ring: the newest operations that this process acknowledged. They are looked for whenever the database may be
//! another than before; one that is missing proves that acknowledged writes were lost (`protocol.md` section 9).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::resource::ResourceName;
use crate::domain::time::{Millis, Timestamp};
use crate::limits::{ACKS_CHECKED, ACKS_REMEMBERED};
use crate::protocol::rows::OperationRecord;

/// An operation whose record is durable, as its caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) resource: ResourceName,
    pub(super) incarnation: Incarnation,
    pub(super) operation_id: OperationId,
    at: Timestamp,
}

/// The ring. Names are shared with the records: to remember one costs two counters and no memory.
#[derive(Debug)]
pub(super) struct Acks(Mutex<VecDeque<Ack>>);

impl Default for Acks {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(ACKS_REMEMBERED)))
    }
}

impl Acks {
    /// Remembers what a commit made durable at this time, before anybody is told.
    pub(super) fn remember(&self, records: &[OperationRecord], at: Timestamp) {
        if records.is_empty() {
            return;
        }
        let mut ring = self.ring();
        for record in records {
            if ring.len() >= ACKS_REMEMBERED {
                ring.pop_front();
            }
            ring.push_back(Ack {
                resource: record.resource.clone(),
                incarnation: record.incarnation,
                operation_id: record.operation_id.clone(),
                at,
            });
        }
    }

    /// Those that must be in the database still. An older one may have been pruned.
    pub(super) fn due(&self, now: Timestamp) -> Vec<Ack> {
        let oldest = now.less(Millis::new(u64::try_from(ACKS_CHECKED.as_millis()).unwrap_or(u64::MAX)));
        self.ring().iter().filter(|ack| ack.at >= oldest).cloned().collect()
    }

    /// Forgets them: what is lost was told, and what comes now rests on another history.
    pub(super) fn clear(&self) {
        self.ring().clear();
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<Ack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is said of acknowledged operations that are not recorded any more.
pub(super) fn told(missing: usize, looked_for: usize, first: &Ack) -> String {
    let Ack { resource, incarnation, operation_id, .. } = first;
    format!(
        "{missing} of the last {looked_for} acknowledged operations are no longer recorded, among them {:?} of {:?}, \
         incarnation {}",
        operation_id.as_str(),
        resource.as_str(),
        incarnation.get()
    )
}
