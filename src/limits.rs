//! Every bound of the system, one constant each, with its reason. Bounds of a grammar stand beside the grammar.

use std::time::Duration;

/// Commands that may wait for the committer. Two full batches of a slow disk; beyond that a caller is better off with
/// 503 and Retry-After than with a longer queue.
pub const QUEUE_COMMANDS: usize = 1_024;

/// Commands decided and committed together. More members of a batch stop paying once the flush is shared by a few
/// hundred (`performance.md` section 1).
pub const BATCH_COMMANDS: usize = 256;

/// Content of one batch, in bytes: bounds the transaction and the memory that it holds twice.
pub const BATCH_BODY_BYTES: usize = 16 * 1_048_576;

/// How often one batch is decided anew from a fresh snapshot when the database reports a conflict.
pub const COMMIT_ATTEMPTS: u32 = 5;

/// Reads that may run or wait at once; beyond it 503.
pub const READS_IN_FLIGHT: usize = 512;

/// Connections that read the embedded database beside the one that writes.
pub const SQLITE_READERS: u32 = 4;

/// How long a statement of the embedded database waits for a lock that somebody else holds (a backup, a person with a
/// shell). The gateway's own connections never hold one against each other for longer than a commit.
pub const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a read waits for one of the reading connections before it is given up.
pub const SQLITE_READ_WAIT: Duration = Duration::from_secs(10);

/// Rows of one statement of the embedded database: a statement costs a hop to the thread of its connection, which 64
/// rows share well; the text of a larger one, kept ready per connection, costs more memory than it saves time.
pub const SQLITE_STATEMENT_ROWS: usize = 64;

/// Content of one statement, in bytes; it is held twice while the statement runs. One larger body goes alone.
pub const SQLITE_STATEMENT_BODY_BYTES: usize = 4 * 1_048_576;

/// Content up to which a statement is kept ready for the next batch, in bytes: it keeps its last values with it.
pub const SQLITE_KEPT_STATEMENT_BYTES: usize = 64 * 1_024;

/// Pages of the write-ahead log that wait for a checkpoint before one is made (SQLite's own default).
pub const SQLITE_CHECKPOINT_PAGES: i64 = 1_000;

/// How long a checkpoint waits after a commit, so that one serves many.
pub const SQLITE_CHECKPOINT_PAUSE: Duration = Duration::from_millis(100);

/// Pages of the write-ahead log (64 MiB) beyond which the writer makes a checkpoint itself: under load without a pause
/// the one in the background is never quite done, and the log would grow for ever.
pub const SQLITE_WAL_PAGES: i64 = 16_384;

/// Page cache of the writing connection, in KiB.
pub const SQLITE_CACHE_KIB: u32 = 16_384;

/// Items of one page of a list, at most.
pub const PAGE_ITEMS: u32 = 100;

/// Rows looked at for one page when a filter has to be computed: a page that finds little ends early with a cursor.
pub const PAGE_SCAN_ROWS: u32 = 1_000;

/// Targets shown with one resource.
pub const TARGETS_SHOWN: u32 = 100;

/// Largest body that a configuration may allow, in bytes: bodies are held in memory until they are committed.
pub const MAX_BODY_BYTES: u64 = 64 * 1_048_576;

/// Bodies held in memory at once, in KiB, over all requests.
pub const BODIES_IN_FLIGHT_KIB: usize = 256 * 1_024;

/// Largest JSON request on the control plane except `/v1/writes`, in bytes.
pub const CONTROL_BODY_BYTES: usize = 64 * 1_024;

/// Headers of one request, names and values together, in bytes.
pub const HEADER_BYTES: usize = 16 * 1_024;

/// Header fields of one request.
pub const HEADER_FIELDS: usize = 100;

/// Longest reason, in bytes.
pub const REASON_BYTES: usize = 1_024;

/// Connections at once; further ones wait to be accepted.
pub const CONNECTIONS: usize = 4_096;

/// How long a client may take to send its headers.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to send its body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long `/readyz` waits for the committer before it says that it is not ready.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a graceful stop waits for requests that are under way.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// What a caller is told to wait when the gateway is overloaded, draining or without its database.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
