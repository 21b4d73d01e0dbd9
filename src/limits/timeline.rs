//! Bounds of the timeline: what is kept of refusals, and what they may cost.

use std::time::Duration;

/// Samples of refusals that are kept of one resource: enough to see who knocks and why. Fixed: the schema holds it too.
pub const REFUSALS_KEPT: u32 = 16;

/// Different refusals (by resource and code) that one round of sampling holds: they share one small commit. Further ones
/// are counted and not kept.
pub const REFUSALS_NOTED_AT_ONCE: usize = 256;

/// How often what was refused is written down: a process writes of one resource and code one sample in this time.
pub const REFUSALS_PAUSE: Duration = Duration::from_secs(1);

/// How long the writing of samples waits for a row that another gateway holds, in milliseconds. They are thrown away then:
/// the commits behind them matter more.
pub const REFUSALS_LOCK_TIMEOUT_MS: u32 = 100;
