//! The ledger's time, shared by the writer and the readers: one clock for all of them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::time::{Clock, EffectiveTime, Timestamp};

/// The wall clock held monotone, from the time that the database remembers.
pub(super) struct LedgerTime {
    effective: Mutex<EffectiveTime>,
    clock: Arc<dyn Clock>,
}

impl LedgerTime {
    pub(super) fn starting_at(recorded: Timestamp, clock: Arc<dyn Clock>) -> Self {
        let effective = Mutex::new(EffectiveTime::starting_at(recorded, clock.as_ref()));
        Self { effective, clock }
    }

    /// The effective time now.
    pub(super) fn now(&self) -> Timestamp {
        // A panic while the lock was held left a plain value behind, no half-made one.
        self.effective.lock().unwrap_or_else(PoisonError::into_inner).read(self.clock.as_ref())
    }
}
