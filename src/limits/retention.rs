//! Bounds of what is kept: retention, pruning and compaction.

use std::time::Duration;

/// How long operations, control calls and lines of what was done are kept where the configuration says nothing: 30 days.
pub const OPERATION_RETENTION_MS: u64 = 30 * 86_400_000;

/// The shortest time that they may be kept: a worker that repeats a call within the hour must find its outcome.
pub const OPERATION_RETENTION_LEAST_MS: u64 = 3_600_000;

/// The longest: ten years. Whoever wants to keep more wants an archive.
pub const OPERATION_RETENTION_GREATEST_MS: u64 = 3_650 * 86_400_000;

/// Old operations that are looked at in one round: a read of a few milliseconds.
pub const OLD_OPERATIONS_READ: u32 = 512;

/// Operations that are proposed to be forgotten in one round. So few that a write that comes meanwhile waits no longer
/// than behind a batch of other writes.
pub const PRUNED_AT_ONCE: usize = 64;

/// Old control calls that are proposed to be forgotten in one round.
pub const CONTROLS_PRUNED_AT_ONCE: u32 = 64;

/// Lines of what was done that are deleted with one batch.
pub const AUDIT_PRUNED_AT_ONCE: u32 = 256;

/// The pause between two rounds while there is something to forget. With [`PRUNED_AT_ONCE`] it keeps up with more than
/// two thousand operations in a second.
pub const PRUNE_BREATH: Duration = Duration::from_millis(25);

/// The pause when all old records were looked at: they change only with time.
pub const PRUNE_PAUSE: Duration = Duration::from_mins(5);

/// Tombstones that are folded in one transaction. It holds the whole namespace, so it has to be short.
pub const FOLDED_AT_ONCE: u32 = 256;

/// The pause between two such transactions, in which everybody else writes.
pub const FOLD_BREATH: Duration = Duration::from_secs(2);
