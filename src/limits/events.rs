//! Bounds of what is told to those who listen, and of lists of what was done.

use std::time::Duration;

/// Streams of events at once, of one process. Each holds a connection and one page of events, and reads on when its
/// listener has taken them.
pub const EVENT_STREAMS: usize = 64;

/// How many of them one principal may have: a quarter, so that it takes several to leave nothing for the others.
pub const EVENT_STREAMS_EACH: usize = EVENT_STREAMS / 4;

/// Callers that watch a lease or a resource at once, of one process. Each costs a connection and a place in a list while
/// nothing changes, and one read when something does.
pub const WATCHERS: usize = 4_096;

/// How many of them may be of one principal: a quarter, as of the streams of events.
pub const WATCHERS_EACH: usize = WATCHERS / 4;

/// How many of them look at once: one change may wake all of them. Half of the connections that read the embedded
/// database, so that the other half is for everybody else.
pub const WATCHERS_LOOKING: usize = super::SQLITE_READERS / 2;

/// How long one of them waits for its turn to look, at most: as long as a read may take. Behind a database that hangs a long
/// poll is told so, and a stream tries again.
pub const WATCHERS_PATIENCE: Duration = Duration::from_secs(6);

/// Records of each kind that one look at the ledger brings: what a stream holds at most, and a read of a few milliseconds.
pub const EVENTS_READ: u32 = 256;

/// How often a process looks whether something was recorded, by whichever process, while somebody listens: one read for
/// all listeners together.
pub const EVENTS_PAUSE: Duration = Duration::from_millis(200);

/// Lines of the audit that are looked at for one page of a list that leaves some of them out. A page may then be short, and
/// says where to go on.
pub const AUDIT_LINES_READ: u32 = 2_000;

/// How long the command line stays on one stream before it takes a new one.
pub const EVENTS_STREAM_TIME: Duration = Duration::from_hours(24);

/// How often in a row the command line tries to reach a gateway again.
pub const EVENTS_RETRIES: u32 = 60;

/// The pause between two of these attempts.
pub const EVENTS_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The largest event that the command line takes: a reason of an act has a bound far below.
pub const EVENT_BYTES: usize = 1_048_576;

/// How long the command line waits for the next byte of a stream: four times the pause between two signs of life. A peer that
/// went away without a word would be listened to for ever.
pub const EVENTS_SILENCE: Duration = Duration::from_secs(40);

/// Events that the command line remembers, to leave out what is told once more after a break: no more than a page is, which
/// holds some hundreds.
pub const EVENTS_REMEMBERED: usize = 2_048;
