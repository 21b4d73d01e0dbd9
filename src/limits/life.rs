//! Bounds of the life of a process: how it begins to be seen, and how it ends.

use std::time::Duration;

/// What is logged where the configuration says nothing.
pub const LOG_FILTER: &str = "info";

/// How long a graceful stop waits for requests that are under way.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// The least that a stop may wait: a commit takes that long on a busy disk.
pub const DRAIN_TIMEOUT_LEAST_MS: u64 = 1_000;

/// The most: whoever stops a process kills it long before.
pub const DRAIN_TIMEOUT_GREATEST_MS: u64 = 600_000;

/// How long a gateway that listens beyond loopback goes on as before when it is told to stop: as long as whoever sends
/// requests there may need to notice that it is not ready.
pub const DRAIN_DELAY_MS: u64 = 5_000;

/// The longest of these delays.
pub const DRAIN_DELAY_GREATEST_MS: u64 = 300_000;

/// Changes of who may do what that wait to be written down; with more at once a person is at work who is told by the log.
pub const POLICY_NOTES: usize = 16;

/// Feedings of the service manager's watchdog in the time after which it would bite.
pub const WATCHDOG_FEEDINGS: u32 = 3;
