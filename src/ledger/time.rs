//! The effective time of one database, shared by its writer and its readers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::domain::time::{Clock, EffectiveTime, Timestamp};

/// One clock for all connections of a database.
pub(super) struct SharedTime {
    effective: Mutex<EffectiveTime>,
    clock: Arc<dyn Clock>,
}

impl SharedTime {
    /// Starts no earlier than what the database remembers.
    pub(super) fn starting_at(recorded: Timestamp, clock: Arc<dyn Clock>) -> Self {
        Self { effective: Mutex::new(EffectiveTime::starting_at(recorded, clock.as_ref())), clock }
    }

    /// The effective time now.
    pub(super) fn now(&self) -> Timestamp {
        self.effective.lock().unwrap_or_else(PoisonError::into_inner).read(self.clock.as_ref())
    }

    /// For how long something takes.
    pub(super) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}
