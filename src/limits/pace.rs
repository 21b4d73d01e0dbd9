//! Bounds of how often, how slowly and from where somebody may ask.

use std::num::NonZeroU32;
use std::time::Duration;

/// Highest rate that a configuration may name, in requests a second: above what one gateway answers.
pub const RATE_GREATEST: u64 = 1_000_000;

/// Principals whose rate is kept at once, a few hundred bytes each; further ones share one allowance.
pub const PACED_PRINCIPALS: usize = 16_384;

/// Addresses whose failed credentials are counted at once, a few hundred bytes each; further ones share one allowance.
pub const STRANGERS: usize = 4_096;

/// Failed credentials a second from one address in the long run: a worker with an expired key that asks each second is
/// told so, and a loop that tries keys is not.
pub const STRANGER_RATE: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);

/// Failed credentials from one address at once: a fleet behind one address that starts with an expired key.
pub const STRANGER_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(49);

/// What part of all connections one address may have where nothing is configured: half, so that nobody takes them all and
/// a proxy in front has enough.
pub const CONNECTIONS_OF_ONE_PART: usize = 2;

/// How long a body may take before its pace is looked at: the first bytes may wait for a slow network.
pub const BODY_GRACE: Duration = Duration::from_secs(5);

/// The least pace of a body after that, in bytes a second: the slowest mobile network in use is above it, and one that
/// trickles holds its place for seconds and not for half a minute.
pub const BODY_BYTES_A_SECOND: u64 = 4_096;

/// How old a connection may become before its next answer ends it: so that connections spread anew over the gateways
/// behind a balancer, and what was decided at their beginning does not last.
pub const CONNECTION_AGE: Duration = Duration::from_hours(1);

/// Commands for which there is room when the queue is full of others: so many renewals and releases, and as many more of what
/// became of effects that were sent already.
pub const QUEUE_RESERVED: usize = 256;

/// Commands of operators, and trips of the breaker, for which there is room when renewals have taken all of theirs: more
/// than a few people and their scripts have under way at once.
pub const QUEUE_OPERATORS: usize = 64;

/// Commands that find the queue full together and are told so at once: the ordinary case, in which a pause helps nobody.
pub const REFUSED_AT_ONCE: u32 = 64;

/// How many more are told in a second. A refusal takes some 25 microseconds of a processor, so that these take a twentieth of one.
pub const REFUSALS_A_SECOND: u32 = 2_000;

/// The longest that a refusal waits: less than callers have patience for, and than a stop waits for them.
pub const REFUSAL_PAUSE: Duration = Duration::from_secs(2);

/// Reads that are kept for the leases of those who renew and release, and for effects that are to be sent.
pub const READS_RESERVED: usize = 64;

/// Memory that is kept for the bodies of renewals and of operators' calls, in KiB: 64 of the largest.
pub const BODIES_RESERVED_KIB: usize = 4 * 1_024;

/// How much later than [`super::RETRY_AFTER`] a caller may be told to come back when the gateway is overloaded, in whole
/// seconds: all who were refused in one moment come back in several.
pub const RETRY_SPREAD_SECONDS: u64 = 3;

/// Between two counts of what namespaces with quotas have, at least: what another gateway has added is not known for so
/// long.
pub const QUOTA_PAUSE: Duration = Duration::from_secs(15);

/// The pause is at least so many times as long as the count took: so it never takes more than a hundredth of a reader.
pub const QUOTA_PAUSE_TIMES: u32 = 100;

/// Connections of the flood of `bench`: more than the gateway's queue and a batch have places together.
pub const BENCH_FLOOD_CONNECTIONS: u64 = 2_048;

/// How many times the peak the flood of `bench` is.
pub const BENCH_FLOOD_TIMES: f64 = 10.0;

/// Connections that measure the peak of the overload of `bench`.
pub const BENCH_PEAK_CONNECTIONS: u64 = 256;

/// How long the peak is measured, and how soon after the flood it is to be reached again.
pub const BENCH_RECOVERY: Duration = Duration::from_secs(10);

/// Looks at the rate after the flood, half a second each, counted from 3: ten seconds and more.
pub const BENCH_RECOVERIES: u64 = 23;

/// Between two renewals under the flood of `bench`.
pub const BENCH_RENEW_PAUSE: Duration = Duration::from_millis(50);

/// Between two revocations under the flood of `bench`.
pub const BENCH_OPERATOR_PAUSE: Duration = Duration::from_millis(500);
