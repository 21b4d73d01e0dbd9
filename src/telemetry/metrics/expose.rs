//! The text of a scrape: every name with its help, in one place. `docs/METRICS.md` says the same at length.

mod credentials;
mod sheet;

use std::fmt;
use std::sync::{Arc, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;

use super::namespaces::NamespaceMeters;
use super::parts::Tally;
use super::{Metrics, OTHER};

pub use credentials::IssuerKeys;
use sheet::{Sheet, ms, whole, words};

/// Media type of a scrape.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// What is not counted but looked up for each scrape: it costs nothing in between.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// Commands that wait, by committer.
    pub queues: Vec<usize>,
    /// How many may wait for each committer.
    pub queue_most: usize,
    /// What is stopped: namespaces, or `*`.
    pub stopped: Vec<String>,
    /// Whether each store has earned its class, by namespace.
    pub stores: Vec<(String, bool)>,
    /// Operations on their way to stores.
    pub forwards: usize,
    /// Log lines that were thrown away.
    pub log_lines_dropped: u64,
    /// Kind of engine.
    pub engine: &'static str,
    /// Version of the schema.
    pub schema_version: Option<i64>,
    /// The public keys of the issuer of tokens, where tokens are taken.
    pub issuer: Option<IssuerKeys>,
}

impl Metrics {
    /// What `GET /metrics` answers.
    ///
    /// # Errors
    /// Never; the text is made in memory.
    pub fn text(self: &Arc<Self>, now: Now) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Page { metrics: self.clone(), now }));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[derive(Debug)]
struct Page {
    metrics: Arc<Metrics>,
    now: Now,
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet::on(&mut encoder);
        self.decisions(&mut sheet)?;
        self.leases(&mut sheet)?;
        self.ledger(&mut sheet)?;
        self.operations(&mut sheet)?;
        self.stores(&mut sheet)?;
        self.http(&mut sheet)?;
        self.credentials(&mut sheet)?;
        self.process(&mut sheet)
    }
}

impl Page {
    fn by_namespace<'p, T>(
        &'p self,
        part: impl Fn(&'p NamespaceMeters) -> T + 'p,
    ) -> impl Iterator<Item = ([(&'p str, &'p str); 1], T)> {
        self.metrics.namespaces.each().map(move |(name, meters)| ([("namespace", name)], part(meters)))
    }

    fn by_word<'p>(
        &'p self,
        label: &'static str,
        part: impl Fn(&'p NamespaceMeters) -> &'p Tally<&'static str> + 'p,
    ) -> impl Iterator<Item = ([(&'p str, &'p str); 2], u64)> {
        self.metrics.namespaces.each().flat_map(move |(name, meters)| {
            words(part(meters)).map(move |(word, count)| ([("namespace", name), (label, word)], count))
        })
    }

    fn decisions(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        sheet.counters(
            "fencegate_decisions",
            "Decisions that were no refusals, by namespace and outcome",
            self.by_word("outcome", |meters| &meters.outcomes),
        )?;
        sheet.counters(
            "fencegate_refusals",
            "Refusals, by namespace and problem code",
            self.by_word("code", |meters| &meters.refusals),
        )?;
        sheet.counters(
            "fencegate_unserved",
            "Commands that got no outcome, by problem code: overloaded, draining, no database",
            words(&self.metrics.unserved).map(|(word, count)| ([("code", word)], count)),
        )?;
        sheet.counters(
            "fencegate_replays",
            "Saved answers that were given again to a repeated operation",
            self.by_namespace(|meters| meters.replays.read()),
        )?;
        sheet.counters(
            "fencegate_mismatches",
            "Operation ids and request ids that came with another content than the first time",
            self.by_namespace(|meters| meters.mismatches.read()),
        )?;
        sheet.histograms(
            "fencegate_write_duration_seconds",
            "From the arrival of a write at the ledger to its durable decision",
            self.by_namespace(|meters| &meters.written),
        )
    }

    fn leases(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        sheet.histograms(
            "fencegate_acquire_duration_seconds",
            "From the arrival of an acquire that does not wait to its lease",
            self.by_namespace(|meters| &meters.acquired),
        )?;
        let waits = self.metrics.namespaces.each().flat_map(|(name, meters)| {
            [("granted", &meters.waited), ("in_vain", &meters.waited_in_vain)]
                .map(|(result, waits)| ([("namespace", name), ("result", result)], waits))
        });
        sheet.histograms(
            "fencegate_acquire_wait_seconds",
            "How long callers waited for a lease, by whether they got it",
            waits,
        )?;
        sheet.gauges(
            "fencegate_waiters",
            "Callers that wait for a lease now",
            [([], self.metrics.waiting.read())],
        )?;
        sheet.counters(
            "fencegate_ownership_transfers",
            "Leases granted on a resource that had an owner before",
            self.by_namespace(|meters| meters.transfers.read()),
        )?;
        sheet.counters(
            "fencegate_lease_expirations",
            "Leases that ended because nobody renewed them, as far as this process wrote it down",
            self.by_namespace(|meters| meters.expired.read()),
        )?;
        sheet.counters(
            "fencegate_renewals",
            "Leases that were renewed",
            self.by_namespace(|meters| meters.renewals.read()),
        )?;
        sheet.counters(
            "fencegate_renewal_failures",
            "Renewals that were refused, by problem code; where the lease is gone its namespace is not known",
            self.by_word("code", |meters| &meters.renewals_failed),
        )?;
        sheet.histograms(
            "fencegate_renewal_lateness_seconds",
            "How long after the time that the gateway had named (renew_after_ms) a renewal came; early ones are 0",
            self.by_namespace(|meters| &meters.lateness),
        )?;
        sheet.histograms(
            "fencegate_renewal_remaining_seconds",
            "What was left of a lease when its renewal came",
            self.by_namespace(|meters| &meters.remaining),
        )
    }

    fn ledger(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        let (metrics, now) = (&self.metrics, &self.now);
        sheet.counters(
            "fencegate_commits",
            "Transactions that changed something, by what became of them",
            words(&metrics.commits).map(|(word, count)| ([("result", word)], count)),
        )?;
        sheet.histograms(
            "fencegate_commit_duration_seconds",
            "From the begin of a transaction that changes something until it is durable",
            [([], &metrics.commit_took)],
        )?;
        sheet.histograms(
            "fencegate_batch_size_commands",
            "Commands that were decided together",
            [([], &metrics.batch)],
        )?;
        let committers: Vec<(String, usize)> =
            now.queues.iter().enumerate().map(|(number, waits)| (number.to_string(), *waits)).collect();
        let queues =
            committers.iter().map(|(number, waits)| ([("committer", number.as_str())], whole(*waits)));
        sheet.gauges("fencegate_queue_commands", "Commands that wait for a committer now", queues)?;
        let most = [([], whole(now.queue_most))];
        sheet.gauges("fencegate_queue_limit_commands", "Commands that may wait for one committer", most)?;
        sheet.counters(
            "fencegate_reads_failed",
            "Reads of the database that failed",
            [([], metrics.reads_failed.read())],
        )?;
        sheet.gauges(
            "fencegate_database_up",
            "Whether the last look at the database worked: 1 or 0",
            [([], metrics.census.database_up.read())],
        )?;
        let schema = now.schema_version.map(|version| version.to_string()).unwrap_or_default();
        let durability = metrics.census.durability.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let labels = [("engine", now.engine), ("schema", &schema), ("durability", &durability)];
        sheet.gauges(
            "fencegate_database_info",
            "Engine, schema version and how an acknowledged write is kept; always 1",
            [(labels, 1)],
        )?;
        self.breakers(sheet)
    }

    /// One series for everything, and one for each namespace that is known here.
    fn breakers(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        let stopped = |name: &str| i64::from(self.now.stopped.iter().any(|one| one == name));
        let known: Vec<&str> = self.metrics.namespaces.each().map(|(name, _)| name).collect();
        let elsewhere = self.now.stopped.iter().any(|name| name != "*" && !known.contains(&name.as_str()));
        let each = known.iter().filter(|name| **name != OTHER).map(|name| (*name, stopped(name)));
        let all = each.chain([("*", stopped("*")), (OTHER, i64::from(elsewhere))]);
        sheet.gauges(
            "fencegate_breaker_tripped",
            "Whether a namespace (* for all) is stopped because its records went back in time: 1 or 0",
            all.map(|(name, tripped)| ([("namespace", name)], tripped)),
        )
    }

    fn operations(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        let census = &self.metrics.census;
        let states = self.metrics.namespaces.each().flat_map(|(name, meters)| {
            [("intent", &meters.intents), ("uncertain", &meters.uncertain)]
                .map(|(state, level)| ([("namespace", name), ("state", state)], level.read()))
        });
        sheet.gauges(
            "fencegate_operations",
            "Operations that are not decided, by state, at the last look; of each state no more than 1000 are counted",
            states,
        )?;
        let age = ms(census.oldest_uncertain_ms.read());
        sheet.seconds(
            "fencegate_oldest_uncertain_seconds",
            "Age, at the last look, of the oldest operation whose outcome is not known; 0 where there is none",
            age,
        )
    }

    fn stores(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        let with_store = || {
            let meters = self.now.stores.iter().map(|(name, _)| name.as_str());
            meters.map(|name| (name, &self.metrics.namespaces.of(name).upstream))
        };
        let calls = with_store().flat_map(|(name, meters)| {
            meters.calls.each().map(move |((call, result), count)| {
                ([("namespace", name), ("call", call), ("result", result)], count)
            })
        });
        sheet.counters(
            "fencegate_upstream_requests",
            "Calls of stores behind HTTP, by kind and by what came of them",
            calls,
        )?;
        sheet.histograms(
            "fencegate_upstream_request_duration_seconds",
            "How long calls of stores behind HTTP took",
            with_store().map(|(name, meters)| ([("namespace", name)], &meters.took)),
        )?;
        let probes = with_store().flat_map(|(name, meters)| {
            words(&meters.probes)
                .map(move |(result, count)| ([("namespace", name), ("result", result)], count))
        });
        sheet.counters("fencegate_upstream_probes", "Probes of stores behind HTTP, by result", probes)?;
        let earned = self.now.stores.iter();
        sheet.gauges(
            "fencegate_upstream_ready",
            "Whether writes are sent to a store: it has passed its probe, or none was asked for; 1 or 0",
            earned.map(|(name, earned)| ([("namespace", name.as_str())], i64::from(*earned))),
        )?;
        sheet.gauges(
            "fencegate_lanes_busy",
            "Operations that this process carries to a store now",
            with_store().map(|(name, meters)| ([("namespace", name)], meters.lanes.read())),
        )?;
        let forwards = [([], whole(self.now.forwards))];
        sheet.gauges("fencegate_forwards_in_flight", "Callers' writes on their way to stores now", forwards)
    }

    fn http(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        let metrics = &self.metrics;
        let answers = metrics.http.each().flat_map(|(route, method, meters)| {
            let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(&meters.classes);
            let counted = classes.map(|(class, count)| (class, count.read())).filter(|(_, count)| *count > 0);
            counted
                .map(move |(class, count)| ([("route", route), ("method", method), ("class", class)], count))
        });
        sheet.counters(
            "fencegate_http_requests",
            "Answered requests, by route, method and class of the status",
            answers,
        )?;
        let times = metrics.http.each().filter(|(_, _, meters)| meters.took.read().1 > 0);
        sheet.histograms(
            "fencegate_http_request_duration_seconds",
            "From the head of a request to the head of its answer, waits included",
            times.map(|(route, method, meters)| ([("route", route), ("method", method)], &meters.took)),
        )?;
        let in_flight = [([], metrics.http.in_flight.read())];
        sheet.gauges(
            "fencegate_http_requests_in_flight",
            "Requests that are being answered now",
            in_flight,
        )?;
        sheet.counters(
            "fencegate_connections_accepted",
            "Connections that were accepted",
            [([], metrics.connected.read())],
        )?;
        let open = [([], metrics.connections.read())];
        sheet.gauges("fencegate_connections_open", "Connections that are open now", open)?;
        let most = [([], metrics.connections_most.read())];
        sheet.gauges("fencegate_connections_limit", "Connections that may be open at once", most)
    }

    fn process(&self, sheet: &mut Sheet<'_, '_>) -> fmt::Result {
        let metrics = &self.metrics;
        sheet.counters(
            "fencegate_log_lines_dropped",
            "Log lines that were thrown away because nobody read them in time",
            [([], self.now.log_lines_dropped)],
        )?;
        let spans = [("exported", metrics.spans_sent.read()), ("lost", metrics.spans_lost.read())];
        sheet.counters(
            "fencegate_trace_spans",
            "Spans of sampled requests, by whether the collector took them",
            spans.map(|(result, count)| ([("result", result)], count)),
        )?;
        sheet.seconds(
            "fencegate_process_start_time_seconds",
            "When the process started, in seconds since 1970",
            ms(metrics.started.load(std::sync::atomic::Ordering::Relaxed)),
        )?;
        let build = [([("version", env!("CARGO_PKG_VERSION"))], 1)];
        sheet.gauges("fencegate_build_info", "The version that runs; always 1", build)
    }
}
