//! A clock moved by hand, and entropy that is the same in every run.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fencegate::domain::entropy::{Entropy, EntropyFailed};
use fencegate::domain::time::{Clock, Timestamp};

/// Where every test begins: 2026-09-13T08:00:00Z.
pub(crate) const START_MS: i64 = 1_789_286_400_000;

/// Wall and monotonic time, moved together or apart.
#[derive(Debug)]
pub(crate) struct ManualClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self { wall_ms: AtomicI64::new(START_MS), monotonic_ms: AtomicU64::new(0) }
    }

    /// Time goes on, as it does.
    pub(crate) fn advance(&self, ms: u64) {
        self.wall_ms.fetch_add(i64::try_from(ms).unwrap(), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock.
    pub(crate) fn jump_wall(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(self.wall_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}

/// Counts up: every draw differs, and every run draws the same.
#[derive(Debug, Default)]
pub(crate) struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn draw(&self) -> Result<[u8; 16], EntropyFailed> {
        let count = self.0.fetch_add(1, Ordering::SeqCst);
        let mut bytes = [0x5a; 16];
        bytes[..8].copy_from_slice(&count.to_be_bytes());
        Ok(bytes)
    }
}
