//! Every bound of the system, one constant each, with its reason. Bounds of a grammar stand beside the grammar.

mod access;
mod events;
mod exam;
mod life;
mod pace;
mod recovery;
mod retention;
mod stores;
mod telemetry;
mod timeline;
mod witness;

use std::time::Duration;

pub use access::*;
pub use events::*;
pub use exam::*;
pub use life::*;
pub use pace::*;
pub use recovery::*;
pub use retention::*;
pub use stores::*;
pub use telemetry::*;
pub use timeline::*;
pub use witness::*;

/// Commands that may wait for the committer. Two full batches of a slow disk; beyond that a caller is better off with
/// 503 and Retry-After than with a longer queue.
pub const QUEUE_COMMANDS: usize = 1_024;

/// Commands decided and committed together. More members of a batch stop paying once the flush is shared by a few
/// hundred (`performance.md` section 1).
pub const BATCH_COMMANDS: usize = 256;

/// Of these, how many may have gone past the others: half, so that a flood of renewals holds no write up for ever.
pub const BATCH_URGENT: usize = BATCH_COMMANDS / 2;

/// Commands of a batch from which on the next one may wait a little for more to share its flush: that many callers are
/// at it at once, and most of them are about to ask again. With fewer nobody ever waits.
pub const GATHER_COMMANDS: usize = 8;

/// Content of one batch, in bytes: bounds the transaction and the memory that it holds twice.
pub const BATCH_BODY_BYTES: usize = 16 * 1_048_576;

/// How often one batch is decided anew from a fresh snapshot when the database reports a conflict.
pub const COMMIT_ATTEMPTS: u32 = 5;

/// How often the outcome of one batch's commit may get lost before its callers are told that it is not known: each time
/// costs them the whole wait for a database that does not answer.
pub const COMMIT_DOUBTS: u32 = 2;

/// Reads that may run or wait at once; beyond it 503.
pub const READS_IN_FLIGHT: usize = 512;

/// Connections that read the embedded database beside the one that writes.
pub const SQLITE_READERS: usize = 4;

/// How long a statement of the embedded database waits for a lock that somebody else holds (a backup, a person with a
/// shell). The gateway's own connections never hold one against each other for longer than a commit.
pub const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest that the embedded database waits for a batch to grow: a disk that stalled once must not slow down what follows.
pub const SQLITE_GATHER_MOST: Duration = Duration::from_millis(2);

/// Statements that a connection to the embedded database keeps ready: more than there are.
pub const SQLITE_STATEMENTS_KEPT: usize = 64;

/// Operations whose keys stand in their resource's own row, 16 bytes each whether they are used or not. One more, and all
/// of them move to the index, which dirties a page of it once for so many writes. Fixed: the schema holds it too.
pub const SQLITE_RECENT_OPERATIONS: usize = 8;

/// Largest whole-path document that stands in its resource's own row, in bytes: with the longest names the row still
/// fits into one page.
pub const SQLITE_BODY_BESIDE_BYTES: usize = 1_024;

/// Pages of the write-ahead log that wait for a checkpoint before one is made (SQLite's own default).
pub const SQLITE_CHECKPOINT_PAGES: i64 = 1_000;

/// How long a checkpoint waits after a commit, so that one serves many.
pub const SQLITE_CHECKPOINT_PAUSE: Duration = Duration::from_millis(100);

/// Pages of the write-ahead log (128 MiB) beyond which the writer makes a checkpoint itself: under load without a pause
/// the one in the background is never quite done, and the log would grow for ever. A start after a crash reads all of
/// it.
pub const SQLITE_WAL_PAGES: i64 = 32_768;

/// Page cache of the writing connection, in KiB: the pages that one batch changes, and the inner pages of the trees. What
/// is beyond it is read from the operating system's cache. More is not better: SQLite looks through all of it at the
/// end of each commit that split a page.
pub const SQLITE_CACHE_KIB: i64 = 4_096;

/// Page cache of each connection that reads or makes checkpoints, in KiB.
pub const SQLITE_READ_CACHE_KIB: i64 = 1_024;

/// Connections to PostgreSQL where none are configured: its default of 100 then serves a dozen replicas.
pub const POSTGRES_CONNECTIONS: u32 = 8;

/// Fewest connections to PostgreSQL: one that writes, one that reads.
pub const POSTGRES_CONNECTIONS_LEAST: u32 = 2;

/// Most connections to PostgreSQL of one gateway: each is a process there, and more than that only wait for each other.
pub const POSTGRES_CONNECTIONS_GREATEST: u32 = 200;

/// Items of one page of a list, at most.
pub const PAGE_ITEMS: u32 = 100;

/// Rows looked at for one page when a filter has to be computed: a page that finds little ends early with a cursor.
pub const PAGE_SCAN_ROWS: u32 = 1_000;

/// Targets shown with one resource.
pub const TARGETS_SHOWN: u32 = 100;

/// Largest body that a configuration may allow, in bytes: bodies are held in memory until they are committed.
pub const MAX_BODY_BYTES: u64 = 64 * 1_048_576;

/// Bytes of one piece of a forwarded body in the database: what is read from disk and sent to the database at once, so
/// that a large body costs no more memory than this. Fixed: the schema holds it too.
pub const INTENT_PIECE_BYTES: usize = 1_048_576;

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

/// Connections at once; further ones wait to be accepted. Ten thousand callers may wait for leases, each on a connection
/// that costs some tens of kilobytes, and half as many are served beside them.
pub const CONNECTIONS: usize = 16_384;

/// Descriptors that are kept for other things than callers: files and connections of the database, pipes, the listener.
pub const DESCRIPTORS_BESIDE: usize = 64;

/// How long a client may take to send its headers.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to send its body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long `/readyz` waits for the committer before it says that it is not ready.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a caller is told to wait when the gateway is overloaded, draining or without its database.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Largest configuration file, in bytes: thousands of namespaces fit; a file given by mistake does not.
pub const CONFIG_BYTES: u64 = 1_048_576;

/// Mistakes of a configuration that are listed; the number of the others is told.
pub const MISTAKES_SHOWN: usize = 100;

/// How often a configuration is read again without its broken lines, so that the mistakes behind them are told too.
pub const SYNTAX_PASSES: usize = 20;

/// Shortest ttl that a namespace may be configured with, in milliseconds.
pub const TTL_MS_LEAST: u64 = 1;

/// Longest ttl that a namespace may be configured with, in milliseconds: one day. A lease that nobody can outlive
/// keeps a dead owner's work from being taken over.
pub const TTL_MS_GREATEST: u64 = 86_400_000;

/// Longest time that a namespace may allow one acquisition to be held, in milliseconds: 30 days.
pub const HOLD_MS_GREATEST: u64 = 30 * 86_400_000;

/// Largest scope of a namespace: more segments than that do not fit into the longest name in practice.
pub const SCOPE_GREATEST: u16 = 64;

/// How long a client command waits for a connection.
pub const CLIENT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client command waits for a whole answer: above the gateway's own [`BODY_TIMEOUT`].
pub const CLIENT_TIMEOUT: Duration = Duration::from_mins(1);

/// Largest JSON answer that a client command reads, in bytes: a full page of the longest names stays below it.
pub const CLIENT_ANSWER_BYTES: usize = 8 * 1_048_576;

/// Ports that `demo` tries for its gateway: another process may take a free port between the look and the bind.
pub const DEMO_STARTS: u32 = 3;

/// How long one step of `demo` may take on a busy machine before it counts as failed.
pub const DEMO_STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two looks of `demo` at something that is about to change.
pub const DEMO_PAUSE: Duration = Duration::from_millis(20);

/// Longest line that `demo` reads from one of its workers, in bytes.
pub const DEMO_LINE_BYTES: u64 = 65_536;

/// How much of its gateway's log `demo` shows when the gateway does not start, in bytes.
pub const DEMO_LOG_BYTES: usize = 4_096;

/// What a caller is told to wait when a person has to act first: often enough to notice, too seldom to be a burden.
pub const RETRY_AFTER_A_PERSON: Duration = Duration::from_secs(30);

/// The least that a caller is told to wait for a lease that somebody holds.
pub const RETRY_LEASE_LEAST: Duration = Duration::from_millis(50);

/// Resources that one lease of `run` names, at most: what the gateway takes in one acquisition.
pub const RUN_RESOURCES: usize = 16;

/// How long `run` waits for the answer to one acquire beyond the wait that it asked for.
pub const RUN_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// `run` takes its lease to end earlier than the gateway does, by this part of the ttl: clocks differ in pace, and the
/// command needs a moment to stop.
pub const RUN_MARGIN_PART: u32 = 10;

/// Shortest time between two renewals of `run`, so that a lease that cannot be made longer is not asked for in a circle.
pub const RUN_RENEW_LEAST: Duration = Duration::from_millis(100);

/// Part of the time left that one attempt of `run` to renew may take, so that several fit in before the end.
pub const RUN_ATTEMPT_PART: u32 = 3;

/// The least that one attempt of `run` to renew may take: less than that is too short for any network.
pub const RUN_ATTEMPT_LEAST: Duration = Duration::from_millis(250);

/// Shortest pause of `run` before it repeats what was not settled or not answered.
pub const RUN_PAUSE_LEAST: Duration = Duration::from_millis(50);

/// Longest pause of `run` before it repeats what was not answered, where nobody says how long.
pub const RUN_PAUSE_MOST: Duration = Duration::from_secs(1);

/// How often `run` compares its clock with the end of its lease: timers stand still while a machine sleeps, the lease
/// does not.
pub const RUN_PULSE: Duration = Duration::from_secs(1);

/// How long the release at the end of `run` may take: the result of the command must not wait for a gateway.
pub const RUN_RELEASE_PATIENCE: Duration = Duration::from_secs(2);

/// How often `run` tries to release: what fails that often ends by its ttl.
pub const RUN_RELEASE_ATTEMPTS: u32 = 3;

/// Pause between two looks of `run` at a process group that is about to be empty.
pub const RUN_LOOK: Duration = Duration::from_millis(20);

/// How long `run` waits for a process group to be gone after KILL: a process that waits for a disk ends only then.
pub const RUN_KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How much of a body is still read and thrown away after an early refusal, in bytes: so that a client that is still
/// sending gets to read the answer, and not a reset.
pub const LINGER_BYTES: usize = 4 * 1_048_576;

/// How long a connection stays when so much was read and more is coming: a client that only writes has to see the answer
/// first, and it may be slower than whoever throws its bytes away.
pub const LINGER_PAUSE: Duration = Duration::from_millis(500);

/// How long a body is still read after an early refusal.
pub const LINGER_TIME: Duration = Duration::from_secs(5);

/// Memory that one body holds before any of it has come, at most, in bytes.
pub const BODY_STEP_BYTES: u64 = 65_536;

/// From so many bytes on a body is hashed or parsed on a thread of its own: the tasks of the others go on meanwhile.
pub const OFFLOAD_BYTES: usize = 512 * 1_024;

/// The longest that `Prefer: wait` can ask for, in seconds.
pub const WAIT_SECONDS: u64 = 30;

/// The longest reason in an answer, in bytes: the longest name twice, and words around them. What somebody sent stands in it.
pub const DETAIL_BYTES: usize = 4 * 1_024;

/// Values in one JSON request: four times what the largest batch has. A body of small values costs many times its
/// length in memory.
pub const JSON_VALUES: usize = 8_192;

/// Characters of a word that nobody knows which a refusal repeats, and up to which a neighbour is looked for: more than the
/// longest known one has. What it costs to compare two words grows with the length of both.
pub const WORD_CHARS: usize = 64;

/// Log lines that wait for whoever reads standard error; further ones are thrown away.
pub const LOG_LINES: usize = 8_192;

/// How long the log rests after it was written: short for whoever reads it, and long enough for some lines under load.
pub const LOG_PAUSE: Duration = Duration::from_millis(2);

/// Threads that serve connections, at most; one for each processor. Beyond this the committer is what is waited for.
pub const DESKS: usize = 32;

/// How long a client may go without taking anything of its answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Threads of the load generator of `bench`, as many as its comparison with wrk had; one connection has one.
pub const BENCH_LOAD_THREADS: u64 = 2;

/// Largest answer that the load generator of `bench` reads, in bytes: that of a batch of 64 writes is a third of it.
pub const BENCH_ANSWER_BYTES: usize = 65_536;

/// How much of a wrong answer `bench` shows, in bytes.
pub const BENCH_FAULT_BYTES: usize = 600;

/// How long the last answers of a cell may take after its measured time.
pub const BENCH_CELL_PATIENCE: Duration = Duration::from_secs(20);

/// How finely `bench` keeps a fixed rate: a request is sent at most this much late, and the lateness counts.
pub const BENCH_PACE: Duration = Duration::from_micros(200);

/// Connections of the pools that `bench` compares with: what services commonly have.
pub const BENCH_POOL: u32 = 16;

/// How long the SQLite pool of `bench` waits for a lock: long enough that waiting shows as latency and not as errors.
pub const BENCH_BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one step of `bench` outside a cell may take: a start, a stop, a checkpoint of a large file.
pub const BENCH_STEP_TIMEOUT: Duration = Duration::from_mins(1);

/// Pause between two looks of `bench` at something that is about to change.
pub const BENCH_PAUSE: Duration = Duration::from_millis(10);

/// How much of the log of a process `bench` shows when it does not start, in bytes.
pub const BENCH_LOG_BYTES: usize = 2_048;

/// Connections that write the documents of `bench` before it measures: enough to fill the gateway's batches.
pub const BENCH_PRELOAD_CONNECTIONS: u64 = 8;

/// Connections that write them through a gateway in front of an upstream, one by one: as many as its cells have.
pub const BENCH_FORWARD_CONNECTIONS: u64 = 64;

/// Rounds of one `bench`, at most.
pub const BENCH_ROUNDS: u32 = 100;

/// Longest measured time of one cell of `bench`: a flood shows what it does to memory within minutes.
pub const BENCH_SECONDS: Duration = Duration::from_mins(15);

/// Resources of one `bench`, at most: their names have six digits.
pub const BENCH_RESOURCES: u64 = 1_000_000;

/// Connections of one cell of `bench`, at most: each needs a target that was made under a token below that of the load.
pub const BENCH_CONNECTIONS: u64 = 512;

/// Writers on PostgreSQL per process, each with a connection and batches of its own: the flush of one overlaps with the
/// work of the other. More of them make the batches smaller, which costs more than the overlap gains.
pub const POSTGRES_COMMITTERS: u32 = 2;

/// How long a batch may take on PostgreSQL, from its beginning to the answer to its COMMIT. After that its callers are
/// told that the database is not available, or that the outcome is not known.
pub const POSTGRES_PATIENCE: Duration = Duration::from_secs(6);

/// How often the fate of a transaction that was not answered is asked for, a tenth of a second apart, before a batch is
/// told that the database is not available: together less than [`POSTGRES_PATIENCE`].
pub const POSTGRES_FATE_LOOKS: u32 = 30;

/// How long a statement waits for a row that somebody else holds, in milliseconds: longer than a stopped gateway can
/// hold one, and short enough that the batch can still be committed in its time.
pub const POSTGRES_LOCK_TIMEOUT_MS: u32 = 4_000;

/// How long a transaction may lie idle before the server ends it, in milliseconds: so a gateway that was stopped in the
/// middle of one holds no rows for longer. A gateway that runs needs a few milliseconds between two statements.
pub const POSTGRES_IDLE_IN_TRANSACTION_MS: u32 = 3_000;

/// Connections that nobody waits for any more and that have not ended yet. Beyond it no new one is made: a server that
/// takes connections and answers nothing would else be given ever more of them.
pub const POSTGRES_SET_ASIDE: usize = 16;

/// How long a read on PostgreSQL may take, the wait for a connection included.
pub const POSTGRES_READ_PATIENCE: Duration = Duration::from_secs(6);

/// How long a stopping gateway waits for a connection to close.
pub const POSTGRES_CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// The oldest PostgreSQL that the statements are written for, as `server_version_num` says it.
pub const POSTGRES_LEAST_VERSION: i64 = 140_000;

/// Longest that an acquire or a long poll waits, in milliseconds (`protocol.md` section 5).
pub const WAIT_MS: u64 = 30_000;

/// Attempts of waiting callers that may be in the queues at once: a full batch. However many wait, a renewal finds room.
pub const WAITING_ATTEMPTS: usize = 256;

/// How often resources that somebody waits for are looked at in the database: another gateway may have changed them. Half
/// of what a free lease may take to reach a waiter there (500 ms), less the time of the look itself.
pub const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// Resources looked at in one statement.
pub const WATCHED_AT_ONCE: usize = 256;

/// How often expired leases are looked for that nobody has come across.
pub const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Expired leases that are written down in one round: one batch.
pub const SWEPT_AT_ONCE: u32 = 256;

/// How often a stream of events sends a sign of life: below the idle time of common proxies (60 s and 30 s).
pub const EVENTS_HEARTBEAT: Duration = Duration::from_secs(10);

/// How often an observer looks again though it heard of nothing.
pub const EVENTS_REFRESH: Duration = Duration::from_secs(30);
