//! The effective time: the database's clock, which never goes back within this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::domain::time::{Clock, Timestamp};

use super::super::time::SharedTime;

/// Where the time of a transaction comes from.
#[derive(Clone)]
pub enum TimeSource {
    /// The database's own clock, read by a statement that begins after the rows are held.
    Database,
    /// A clock of this process, read after the rows are held; for a suite that moves it by hand. Several processes
    /// would each have their own.
    Given(Arc<dyn Clock>),
}

/// One for all connections of a process.
pub(super) struct Time {
    last: AtomicI64,
    given: Option<SharedTime>,
}

impl Time {
    pub(super) fn of(source: TimeSource) -> Self {
        let given = match source {
            TimeSource::Database => None,
            TimeSource::Given(clock) => Some(SharedTime::starting_at(Timestamp::default(), clock)),
        };
        Self { last: AtomicI64::new(0), given }
    }

    /// The effective time when the database's clock says so many milliseconds. No row that another transaction wrote
    /// before it gave the lock away is younger, except after a jump of the server's clock.
    pub(super) fn at(&self, database_ms: i64) -> Timestamp {
        if let Some(given) = &self.given {
            return given.now();
        }
        let before = self.last.fetch_max(database_ms, Ordering::Relaxed);
        Timestamp::from_ms(before.max(database_ms))
    }
}
