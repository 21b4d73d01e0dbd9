//! Bounds of what notices that a database has gone back in time.

use std::time::Duration;

/// How many commits the witness lets an embedded database run ahead of what it has recorded: two fsyncs of a small file
/// for so many commits are not noticed, and a loss larger than this is always seen.
pub const SQLITE_WITNESS_BLOCK: u64 = 4_096;

/// The same on PostgreSQL, in bytes of its log: four of its segments, some ten thousand writes.
pub const POSTGRES_WITNESS_BLOCK: u64 = 64 * 1_048_576;

/// The block is reserved anew when this part of it is left, in the background: no commit waits for it.
pub const WITNESS_LEFT_PART: u64 = 2;

/// After a failure in the background the next attempt is made when this part of the block has been used besides: a disk that
/// is full is not written to with each commit.
pub const WITNESS_RETRY_PART: u64 = 16;

/// Largest witness that is read, in bytes; a true one has some three hundred.
pub const WITNESS_BYTES: u64 = 4_096;

/// How often the lock of a witness is tried, [`WITNESS_LOCK_PAUSE`] apart: whoever holds it writes one small file. A process
/// that was stopped with it in its hands must not hold the others up for longer than a batch may take.
pub const WITNESS_LOCK_TRIES: u32 = 200;

/// Pause between two of them.
pub const WITNESS_LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Acknowledged operations that each replica remembers (`protocol.md` section 9).
pub const ACKS_REMEMBERED: usize = 1_024;

/// How old an acknowledged operation may be when it is looked for: below the shortest time for which records are kept, so
/// that one that was pruned never counts as lost. What a failover or a restore under a running gateway loses is young.
pub const ACKS_CHECKED: Duration = Duration::from_hours(1);

/// Pause before the breaker is tried again, when the database could not be asked.
pub const ALARM_PAUSE: Duration = Duration::from_millis(500);
