//! Bounds of the exam. They keep a run of hours in constant memory, and each wait of it finite.

use std::time::Duration;

/// Longest line of a history, in bytes: the books of a resource that was used until it was closed.
pub const EXAM_LINE_BYTES: u64 = 4 * 1_048_576;

/// Largest HTTP message that the exam reads, in bytes: a page of operations.
pub const EXAM_MESSAGE_BYTES: usize = 8 * 1_048_576;

/// How long a worker waits for one answer: longer than the gateway waits for a store, shorter than most faults that take
/// a replica away, so that answers are lost.
pub const EXAM_PATIENCE: Duration = Duration::from_secs(2);

/// Deliveries of one operation by one owner; then it is left for whoever comes next.
pub const EXAM_DELIVERIES: u32 = 6;

/// Operations that wait for the next owner of a resource, at most.
pub const EXAM_ORPHANS: usize = 8;

/// How long a resource is used, and how many operations it gets, before a fresh one takes its place: the judge keeps what
/// it knows of a resource until it is closed.
pub const EXAM_RESOURCE_TIME: Duration = Duration::from_secs(8);

/// See [`EXAM_RESOURCE_TIME`].
pub const EXAM_RESOURCE_OPERATIONS: u64 = 200;

/// How long a resource rests before it is closed, after all that is kept of it has arrived: longer than any other request can
/// be held or replayed on its way.
pub const EXAM_REST: Duration = Duration::from_secs(6);

/// How long the books of a resource may take to be settled and asked for, while faults go on and after they have ended.
pub const EXAM_CLOSING: Duration = Duration::from_mins(1);

/// Longest time that a proxy waits before it delivers a request again.
pub const EXAM_HOLD: Duration = Duration::from_secs(3);

/// Longest time that a request of a worker is kept from arriving; its resources are not closed before that.
pub const EXAM_KEEP: Duration = Duration::from_secs(30);

/// Resources of the requests that one proxy keeps at once, at most: each of them keeps a resource from being closed.
pub const EXAM_KEPT: usize = 8;

/// How long a replayed request is listened to.
pub const EXAM_LISTEN: Duration = Duration::from_secs(2);

/// How long a connection that one side has closed may stand for what is under way to the other.
pub const EXAM_LINGER: Duration = Duration::from_secs(10);

/// How long a gateway or a database may take to start or to end: minutes, where a machine has other things to do.
pub const EXAM_START: Duration = Duration::from_mins(3);

/// Pause between two looks at something that is about to change.
pub const EXAM_LOOK: Duration = Duration::from_millis(20);

/// Violations that are told with their story; the others are counted.
pub const EXAM_STORIES: usize = 20;

/// Lines of one story, at most.
pub const EXAM_STORY_LINES: usize = 60;

/// Longest exam, in seconds: a day.
pub const EXAM_SECONDS: u64 = 86_400;

/// Most calls of one exam: a history of them still fits on a disk.
pub const EXAM_OPERATIONS: u64 = 50_000_000;

/// How much earlier than its ttl says a lease may have ended, in microseconds: the gateway's clock ticks in milliseconds.
pub const EXAM_CLOCK_SLACK_US: u64 = 20_000;

/// Resources that are closed at once, at most: workers that retire more wait.
pub const EXAM_OPEN_CLOSINGS: usize = 256;

/// Places in the queue of resources to be closed.
pub const EXAM_RETIRED: usize = 64;

/// Closed resources of which a store, and the judge, still know what was done: many more than are closed while the longest
/// held request is on its way.
pub const EXAM_REMEMBERED: usize = 256;

/// How long a program may take to say what it is.
pub const EXAM_GREETING: Duration = Duration::from_secs(30);

/// Operators that look after resources, each after some of them; one more begins epochs.
pub const EXAM_OPERATORS: usize = 2;

/// Deliveries of one call of an operator about a resource. It is over before the resource is closed, or changes nothing that
/// the books show.
pub const EXAM_OPERATOR_DELIVERIES: u32 = 10;

/// Deliveries of one call that begins an epoch: while it is not known whether it did, no lease there is certainly alive.
pub const EXAM_EPOCH_DELIVERIES: u32 = 60;

/// Operations that an answer about an epoch names, at most: a list as long as that may not be whole.
pub const EXAM_LEFT_OPEN: usize = 20;

/// Connections of one storm, at most: a few hundred at once, and few enough for the descriptors of the exam itself.
pub const EXAM_STORM: u64 = 400;

/// How many bytes a slow reader takes at once: fewer than any answer has.
pub const EXAM_FEW_BYTES: usize = 48;
