//! Bounds of what tells how the gateway fares.

use std::time::Duration;

/// Namespaces with series of their own beside those that are configured by name: where `"*"` is a namespace, anybody may
/// make names up, and each costs a monitoring system some hundred series for ever. Further ones share the label `/other`.
pub const NAMESPACES_METERED: usize = 64;

/// Error codes, outcomes and results that are counted apart; more than the program has.
pub const WORDS_METERED: usize = 96;

/// Undecided operations that are counted of each state: the count stops there, and so does the read.
pub const UNDECIDED_COUNTED: u32 = 1_000;

/// Time between two looks at what only the database knows: no more often than a monitoring system asks.
pub const CENSUS_PAUSE: Duration = Duration::from_secs(10);

/// Spans that wait for their collector; further ones are thrown away and counted. About 1 MiB.
pub const SPANS_WAITING: usize = 2_048;

/// Spans in one message to the collector: below the size that receivers refuse by default, 4 MiB.
pub const SPANS_AT_ONCE: usize = 512;

/// How long spans wait for more of them to share a message.
pub const SPANS_PAUSE: Duration = Duration::from_secs(1);

/// How long a collector may take to answer. What it does not take by then is lost and counted.
pub const SPANS_TIMEOUT: Duration = Duration::from_secs(5);
