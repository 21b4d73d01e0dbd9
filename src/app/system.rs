//! The operating system's clock and randomness: the one place that may ask for them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::domain::entropy::{Entropy, EntropyFailed};
use crate::domain::time::{Clock, Timestamp};

/// The system's wall clock, and its monotonic one counted from the start of the process.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic side begins now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everybody else takes as an argument"
    )]
    pub fn started() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everybody else takes as an argument"
    )]
    fn wall(&self) -> Timestamp {
        // A wall clock before 1970 is read as 1970; the effective time never goes back because of it.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Time since the machine was started, sleep included.
///
/// The monotonic clock of [`SystemClock`] stands still while the machine sleeps. Whoever must know that a lease has
/// ended meanwhile, and cannot ask, counts by this one.
#[derive(Debug, Clone, Copy)]
pub struct WakefulClock {
    #[cfg(not(target_os = "linux"))]
    since_start: SystemClock,
}

impl WakefulClock {
    /// The clock.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(not(target_os = "linux"))]
            since_start: SystemClock::started(),
        }
    }

    /// Time since some fixed instant. It never goes back.
    #[must_use]
    #[cfg(target_os = "linux")]
    pub fn elapsed(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
    }

    /// The same where the system has no such clock: sleep does not count.
    #[must_use]
    #[cfg(not(target_os = "linux"))]
    pub fn elapsed(&self) -> Duration {
        self.since_start.monotonic()
    }
}

impl Default for WakefulClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Randomness of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the entropy that everybody else takes as an argument"
    )]
    fn draw(&self) -> Result<[u8; 16], EntropyFailed> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| EntropyFailed(error.to_string()))?;
        Ok(bytes)
    }
}
