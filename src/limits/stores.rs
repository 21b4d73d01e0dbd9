//! Bounds of stores behind HTTP: what a configuration may say of one, and what is sent to it and kept of it.

use std::time::Duration;

/// How long one attempt at a store behind HTTP may take where none is configured, in milliseconds.
pub const STORE_TIMEOUT_MS: u64 = 5_000;

/// Longest time that one attempt at a store behind HTTP may be given, in milliseconds: 10 minutes. The resource waits
/// for it.
pub const STORE_TIMEOUT_MS_GREATEST: u64 = 600_000;

/// How long a connection to a store behind HTTP may take where none is configured, in milliseconds.
pub const STORE_CONNECT_TIMEOUT_MS: u64 = 1_000;

/// Longest time that a connection to a store behind HTTP may be given, in milliseconds: beyond a minute nobody is there.
pub const STORE_CONNECT_TIMEOUT_MS_GREATEST: u64 = 60_000;

/// Largest answer to a write that is taken from a store behind HTTP where none is configured, in bytes.
pub const STORE_RESPONSE_BYTES: u64 = 1_048_576;

/// Largest answer to a write that a configuration may allow, in bytes: it is held in memory until it is relayed.
pub const STORE_RESPONSE_BYTES_GREATEST: u64 = 64 * 1_048_576;

/// How long a store is taken to remember an idempotency key where nothing is configured, in milliseconds: a day, as
/// common services do.
pub const STORE_KEY_RETENTION_MS: u64 = 86_400_000;

/// Shortest retention of keys that a store may be configured with, in milliseconds: shorter ones end within one attempt.
pub const STORE_KEY_RETENTION_MS_LEAST: u64 = 1_000;

/// Longest retention of keys that a store may be configured with, in milliseconds: a year. It is a promise of somebody
/// else, and a longer one is a slip of the pen.
pub const STORE_KEY_RETENTION_MS_GREATEST: u64 = 365 * 86_400_000;

/// Longest time after which a doubt may be assumed to be over, in milliseconds: 30 days. Longer is never, which is what
/// leaving it out means.
pub const STORE_UNCERTAIN_MS_GREATEST: u64 = 30 * 86_400_000;

/// Headers in one of the lists of a store, at most: a request has no more than [`super::HEADER_FIELDS`].
pub const STORE_HEADERS: usize = 64;

/// Longest name of a header in a configuration, in bytes.
pub const STORE_HEADER_NAME_BYTES: usize = 128;

/// Longest base address, status path and stamp pointer of a store, in bytes: with the longest name behind it an address
/// still fits into what common servers take (8 KiB).
pub const STORE_ADDRESS_BYTES: usize = 1_024;

/// Largest secret of a store, in bytes: what common servers take in one header.
pub const STORE_SECRET_BYTES: u64 = 8_192;

/// Largest file of roots for a store, in bytes: those of a whole system are a fifth of it.
pub const STORE_ROOTS_BYTES: u64 = 1_048_576;

/// Forwarded operations under way at once; beyond, new ones get 503 before anything is announced.
pub const FORWARDS_IN_FLIGHT: usize = 4_096;

/// How many of them one store may have: one that does not answer leaves the other half to the others.
pub const FORWARDS_OF_ONE_STORE: usize = FORWARDS_IN_FLIGHT / 2;

/// Undecided operations of one store that this process takes up at once without a client that waits, and as many barriers.
/// Each store has places of its own: one that does not answer holds them for as long as its time-outs are.
pub const RECOVERIES_OF_ONE_STORE: usize = 32;

/// Undecided operations and waiting leases of one page.
pub const RECOVERED_AT_ONCE: u32 = 64;

/// Pages of one look; the next look goes on behind them. What nobody can take up fills pages for ever.
pub const RECOVERED_PAGES: u32 = 8;

/// Between two looks for what is left to do. Mostly two indexed reads; a doubt ends at most this much later.
pub const RECOVERY_PAUSE: Duration = Duration::from_millis(500);

/// For how long what was learnt of an upstream is offered to a database that does not take it. Afterwards the next step
/// finds it out anew.
pub const SETTLE_PATIENCE: Duration = Duration::from_mins(1);

/// Between two such offers.
pub const SETTLE_PAUSE: Duration = Duration::from_millis(200);

/// For how long a task works at a barrier before it is looked for anew.
pub const BARRIER_PATIENCE: Duration = Duration::from_mins(1);

/// The first pause of a barrier whose store does not answer; each further one is twice as long.
pub const BARRIER_PAUSE_LEAST: Duration = Duration::from_millis(50);

/// The longest pause of a barrier.
pub const BARRIER_PAUSE_MOST: Duration = Duration::from_secs(5);

/// How long an acquire, an advance or a transfer waits for a barrier when its caller names no time.
pub const BARRIER_WAIT: Duration = Duration::from_secs(5);

/// How long a write that waits for another one goes without looking again: what another replica decides is not heard of.
pub const LANE_LOOK: Duration = Duration::from_millis(100);

/// Connections to one upstream at once; further requests wait for their turn within the time for connecting. More than
/// the callers that one gateway serves well, and few enough for the descriptors of a process with several upstreams.
pub const UPSTREAM_CONNECTIONS: usize = 512;

/// Connections to one upstream that are kept while nothing is sent: as many as a busy gateway uses at once.
pub const UPSTREAM_IDLE: usize = 256;

/// How often idle connections are looked through. One is closed at the second look, so after two to four seconds: below
/// the five of common servers, which else close it in the moment in which it is used again.
pub const UPSTREAM_IDLE_LOOK: Duration = Duration::from_secs(2);

/// Longest head of an upstream's answer, in bytes.
pub const UPSTREAM_HEAD_BYTES: usize = 65_536;

/// Bytes in flight on one HTTP/2 stream from an upstream: the default of 64 KiB makes a large answer wait for the way back.
pub const UPSTREAM_WINDOW_BYTES: u32 = 1_048_576;

/// Largest JSON document that a stamp is put into or read from, in bytes: it is held in memory as a whole.
pub const STAMPED_JSON_BYTES: u64 = 8 * 1_048_576;

/// Largest cell of the gateway's own that names a content object, in bytes: a stamp, a name and a content type.
pub const POINTER_CELL_BYTES: u64 = 16_384;

/// Largest body that stays in memory while it waits to be forwarded, in bytes; a larger one goes to disk.
pub const SPOOL_BYTES: u64 = 1_048_576;

/// Bytes of a body on disk that are written or read at once: few calls to the threads that block, and little memory.
pub const SPOOL_PIECE_BYTES: usize = 262_144;

/// Compare-and-sets that a probe sends at once on one validator (`protocol.md` section 7).
pub const PROBE_RACERS: usize = 16;

/// Rounds of that race: a store that compares and sets in two steps may be lucky once.
pub const PROBE_ROUNDS: usize = 5;

/// How much of an upstream's unexpected answer a probe shows, in bytes.
pub const PROBE_DETAIL_BYTES: usize = 200;

/// Disk for bodies that wait to be forwarded, all of them together, in KiB: 64 of the largest.
pub const SPOOLED_IN_FLIGHT_KIB: usize = 4 * 1_048_576;

/// How often a store that has passed its probe is probed again (`protocol.md` section 7).
pub const PROBE_AGAIN: Duration = Duration::from_hours(24);

/// The first pause after a probe that was not passed; each further one is twice as long.
pub const PROBE_PAUSE_LEAST: Duration = Duration::from_millis(500);

/// The longest pause after a probe that was not passed: so soon is a store that came back written to again.
pub const PROBE_PAUSE_MOST: Duration = Duration::from_secs(30);

/// What is kept of the name that a store gives itself, in bytes: names of products and their versions are shorter.
pub const STORE_VERSION_BYTES: usize = 128;

/// New versions of a store that are kept until its next probe: more than take turns behind one address.
pub const STORE_VERSIONS: usize = 8;

/// Between two probes that a new version of a store causes. The first one is made at once.
pub const PROBE_VERSION_PAUSE: Duration = Duration::from_mins(1);

/// How often it is looked whether that time is over.
pub const PROBE_VERSION_LOOK: Duration = Duration::from_millis(500);

/// Probes that new versions of a store may cause between two regular ones: enough for a roll-out over an hour, and an end
/// for a store whose every answer has a name of its own.
pub const PROBES_FOR_VERSIONS: u32 = 60;
