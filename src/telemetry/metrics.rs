//! Metrics: what a gateway counts of itself, for `GET /metrics`.
//!
//! Each gateway has its own, so that several in one process do not mix. What is counted on the way of a request is an atomic
//! that exists already; names, labels and the text of a scrape come into being only when somebody asks. Labels are bounded:
//! namespace, route, method, code and result; never a resource, a holder, an operation or a principal. And no decision
//! depends on any of it.

mod expose;
mod namespaces;
mod parts;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::domain::namespaces::Namespaces;
use crate::domain::time::Timestamp;
use crate::limits::WORDS_METERED;
use crate::tls::listener::Listener;

use super::spans::Spans;

pub use expose::{CONTENT_TYPE, IssuerKeys, Now};
pub use namespaces::{Metered, NamespaceMeters, OTHER, UpstreamMeters};
pub use parts::{Count, Held, Histogram, Level, Tally};

const MS: u64 = 1_000_000;

/// Bounds for what takes one commit or one call, in nanoseconds: 250 µs to 10 s. A flush of a good disk is at the lower
/// end, the longest time-outs at the upper one.
pub(crate) const TIMES: &[u64] = &[
    250_000,
    500_000,
    MS,
    2 * MS + 500_000,
    5 * MS,
    10 * MS,
    25 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    1_000 * MS,
    2_500 * MS,
    5_000 * MS,
    10_000 * MS,
];

/// Bounds for what people and leases take, in nanoseconds: 1 ms to 5 min.
pub(crate) const LONG_TIMES: &[u64] = &[
    MS,
    10 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    1_000 * MS,
    2_500 * MS,
    5_000 * MS,
    10_000 * MS,
    30_000 * MS,
    60_000 * MS,
    300_000 * MS,
];

/// Bounds for members of a batch.
const SIZES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Methods that are counted apart; others share a word.
const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "other"];

/// All that one gateway counts.
#[derive(Debug)]
pub struct Metrics {
    /// By namespace.
    pub namespaces: Metered,
    /// By route.
    pub http: HttpMeters,
    /// Commands that got no outcome, by code.
    pub unserved: Tally<&'static str>,
    /// Commits, by what became of them.
    pub commits: Tally<&'static str>,
    /// From the begin of a transaction that changes something to its end.
    pub commit_took: Histogram,
    /// Commands of a batch.
    pub batch: Histogram,
    /// Reads that failed.
    pub reads_failed: Count,
    /// Callers that wait for a lease.
    pub waiting: Level,
    /// Connections that were accepted.
    pub connected: Count,
    /// Connections that are open.
    pub connections: Level,
    /// Connections that may be open at once.
    pub connections_most: Level,
    /// Spans that a collector has taken.
    pub spans_sent: Arc<Count>,
    /// Spans that were thrown away: the queue was full, or the collector did not take them.
    pub spans_lost: Arc<Count>,
    /// What only the database knows.
    pub census: Census,
    started: AtomicI64,
    spans: OnceLock<Spans>,
    certificate: OnceLock<Listener>,
}

/// What the last look at the database found.
#[derive(Debug, Default)]
pub struct Census {
    /// 1 where it could be read.
    pub database_up: Level,
    /// How old the oldest operation was whose outcome is not known, in milliseconds; 0 where there was none.
    pub oldest_uncertain_ms: Level,
    /// How an acknowledged write is kept, as the database last said.
    pub durability: std::sync::Mutex<String>,
}

impl Metrics {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(namespaces: &Namespaces) -> Self {
        Self {
            namespaces: Metered::of_all(namespaces),
            http: HttpMeters::default(),
            unserved: Tally::with(WORDS_METERED),
            commits: Tally::beginning_with(&["committed", "conflict", "unknown", "failed"]),
            commit_took: Histogram::of_time(TIMES),
            batch: Histogram::of_things(SIZES),
            reads_failed: Count::default(),
            waiting: Level::default(),
            connected: Count::default(),
            connections: Level::default(),
            connections_most: Level::default(),
            spans_sent: Arc::default(),
            spans_lost: Arc::default(),
            spans: OnceLock::new(),
            certificate: OnceLock::new(),
            census: Census::default(),
            started: AtomicI64::default(),
        }
    }

    /// Where the spans of sampled requests go; none where nobody collects them.
    #[must_use]
    pub fn spans(&self) -> Option<&Spans> {
        self.spans.get()
    }

    /// Collects spans from now on.
    pub fn collect(&self, spans: Spans) {
        // The composition root does this once; a second queue would have no task.
        self.spans.get_or_init(|| spans);
    }

    /// Tells from now on when the certificate of the listener ends, whichever is in use then.
    pub fn shows(&self, certificate: Listener) {
        self.certificate.get_or_init(|| certificate);
    }

    /// Says when the process started.
    pub fn started_at(&self, at: Timestamp) {
        self.started.store(at.ms(), Ordering::Relaxed);
    }
}

/// What is counted around every request.
#[derive(Debug, Default)]
pub struct HttpMeters {
    /// Requests that are being answered.
    pub in_flight: Level,
    routes: OnceLock<Box<[RouteMeters]>>,
    unmatched: OnceLock<RouteMeters>,
}

/// What is counted of one route.
#[derive(Debug)]
pub struct RouteMeters {
    path: &'static str,
    methods: [MethodMeters; METHODS.len()],
}

/// What is counted of one method of a route.
#[derive(Debug)]
struct MethodMeters {
    /// Answers by the first digit of their status.
    classes: [Count; 5],
    took: Histogram,
}

impl RouteMeters {
    fn new(path: &'static str) -> Self {
        let one = || MethodMeters { classes: Default::default(), took: Histogram::of_time(TIMES) };
        Self { path, methods: std::array::from_fn(|_| one()) }
    }
}

impl HttpMeters {
    /// Makes the meters of all routes; those that there are already stay.
    pub fn open(&self, paths: impl Iterator<Item = &'static str>) {
        self.routes.get_or_init(|| paths.map(RouteMeters::new).collect());
    }

    /// Counts an answer. A route that is not known is none of those that there are.
    pub fn answered(
        &self,
        route: Option<&'static str>,
        method: &str,
        status: u16,
        took: std::time::Duration,
    ) {
        let routes = self.routes.get().map(|routes| &**routes).unwrap_or_default();
        let found = route.and_then(|path| routes.iter().find(|one| one.path == path));
        let meters = found.unwrap_or_else(|| self.unmatched.get_or_init(|| RouteMeters::new("unmatched")));
        let last = METHODS.len().saturating_sub(1);
        let at = METHODS.iter().position(|word| *word == method).unwrap_or(last);
        let class = usize::from(status.div_euclid(100).saturating_sub(1));
        let Some(meters) = meters.methods.get(at) else { return };
        if let Some(count) = meters.classes.get(class) {
            count.one();
        }
        meters.took.took(took);
    }

    /// Route, method and their meters, of those that were used.
    fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, &MethodMeters)> {
        let routes = self.routes.get().into_iter().flatten().chain(self.unmatched.get());
        routes.flat_map(|route| {
            METHODS.iter().zip(&route.methods).map(|(method, meters)| (route.path, *method, meters))
        })
    }
}
