//! What a process remembers of its database, and the alarm that it raises when the database remembers less.
//!
//! Between the alarm and the breaker nothing is decided but the breaker itself: the committers turn everything else away,
//! so that nothing is admitted by a database that is suspected and does not say so yet.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};

use crate::domain::breaker::Detector;
use crate::domain::counter::Epoch;
use crate::domain::subject::Subject;

use super::acks::Acks;
use super::epochs::Epochs;
use super::witness::{self, Course, Sighting, WitnessError, WitnessFile};

/// One for all connections and committers of a process.
#[derive(Debug)]
pub struct Guard {
    pub(super) course: Arc<Course>,
    pub(super) acks: Acks,
    pub(super) epochs: Epochs,
    alarm: Mutex<Option<(Detector, String)>>,
    /// The same as whether the alarm holds something: looked at with each batch.
    is_raised: AtomicBool,
    told: Notify,
    /// Batches that the committers have taken up.
    batches: AtomicU64,
}

impl Default for Guard {
    fn default() -> Self {
        Self::over(Course::unwitnessed())
    }
}

impl Guard {
    pub(super) fn over(course: Arc<Course>) -> Self {
        Self {
            course,
            acks: Acks::default(),
            epochs: Epochs::default(),
            alarm: Mutex::default(),
            is_raised: AtomicBool::new(false),
            told: Notify::new(),
            batches: AtomicU64::new(0),
        }
    }

    pub(super) fn took_up(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// One with a witness. The alarm is up when the database is behind it.
    ///
    /// # Errors
    /// [`WitnessError`] when it is the witness of another database, or cannot be written.
    pub(super) async fn watching(
        file: WitnessFile,
        found: Sighting,
        block: u64,
    ) -> Result<Self, WitnessError> {
        let path = file.path().to_owned();
        let ended = |error: JoinError| WitnessError::File { path, reason: error.to_string() };
        // The file is locked and synced: on a thread that may wait.
        let watching = spawn_blocking(move || {
            let behind = witness::judge(&file, &found)?;
            let guard = Self::over(Course::witnessed(file, &found, block, behind.is_some())?);
            if let Some((detector, told)) = behind {
                guard.raise(detector, told);
            }
            Ok(guard)
        });
        watching.await.unwrap_or_else(|error| Err(ended(error)))
    }

    /// The highest epoch that is known to have been begun in what an act is about: from the witness, and from all that this
    /// process has seen.
    pub(super) fn begun(&self, subject: &Subject) -> Epoch {
        let witnessed = Epoch::new(self.course.known_epoch()).unwrap_or_default();
        witnessed.max(self.epochs.begun(subject))
    }

    /// Says that the database has gone back. What was noticed first is what the breaker will tell.
    pub(super) fn raise(&self, detector: Detector, found: String) {
        let mut alarm = self.alarm();
        if alarm.is_none() {
            *alarm = Some((detector, found));
        }
        self.is_raised.store(true, Ordering::SeqCst);
        self.told.notify_one();
    }

    /// Whether the breaker is about to trip, and nothing else may be decided.
    pub(super) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::SeqCst)
    }

    /// Waits for an alarm; what was noticed.
    pub(super) async fn raised(&self) -> (Detector, String) {
        loop {
            let told = self.told.notified();
            if let Some(alarm) = self.alarm().clone() {
                return alarm;
            }
            told.await;
        }
    }

    /// The breaker has tripped: it says now what the alarm said.
    pub(super) fn lower(&self) {
        *self.alarm() = None;
        self.is_raised.store(false, Ordering::SeqCst);
    }

    /// How often the witness was written.
    #[must_use]
    pub fn witness_writes(&self) -> u64 {
        self.course.written()
    }

    fn alarm(&self) -> MutexGuard<'_, Option<(Detector, String)>> {
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
