//! Spans: what sampled requests did, for a collector that speaks OTLP over HTTP.
//!
//! A request only puts its span into a bounded queue, and never waits: what finds no room, and what the collector does not
//! take, is thrown away and counted. A span holds methods, templates of paths, words and identifiers of resources and
//! operations; never a payload, a seal, an acquisition id or a header.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::domain::trace::Trace;
use crate::limits::{SPANS_AT_ONCE, SPANS_PAUSE, SPANS_TIMEOUT, SPANS_WAITING};
use crate::tls;

use super::metrics::Count;

/// On which side of a call a span stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The gateway serves a request.
    Serves,
    /// The gateway calls a store.
    Calls,
}

/// Something that is over.
#[derive(Debug)]
pub struct Span {
    /// Its trace, and its own name in it.
    pub trace: Trace,
    /// The span above it.
    pub parent: Option<[u8; 8]>,
    /// On which side of a call it stands.
    pub side: Side,
    /// What it is, for people.
    pub name: String,
    /// How long it took, until now.
    pub took: Duration,
    /// What is known of it.
    pub known: Vec<(&'static str, String)>,
    /// Whether it went wrong through no fault of the caller.
    pub failed: bool,
}

/// The queue of a gateway.
#[derive(Debug)]
pub struct Spans {
    queue: mpsc::Sender<(Span, SystemTime)>,
    /// Of all names of traces, those below are sampled.
    below: u64,
    lost: Arc<Count>,
}

impl Spans {
    /// Starts the task that sends spans to an address, with its path, such as `http://127.0.0.1:4318/v1/traces`; of a million
    /// requests that belong to no trace yet so many begin one that is collected. It ends when the queue is gone and empty.
    ///
    /// # Errors
    /// When the collector's address is none.
    pub fn start(
        endpoint: &str,
        per_million: u32,
        sent: Arc<Count>,
        lost: Arc<Count>,
    ) -> anyhow::Result<(Self, JoinHandle<()>)> {
        // No proxy of the environment and no redirect: what is told here goes to the address that is configured.
        let tls = tls::client::config(&tls::client::Trust::default(), false)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(SPANS_TIMEOUT)
            .build()?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(endpoint)
            .with_timeout(SPANS_TIMEOUT)
            .build()?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder_empty().with_service_name("fencegate").with_attribute(version);
        exporter.set_resource(&resource.build());
        let (queue, waiting) = mpsc::channel(SPANS_WAITING);
        let sending = tokio::spawn(send(exporter, waiting, sent, lost.clone()));
        Ok((Self { queue, below: share(per_million), lost }, sending))
    }

    /// Whether a trace that begins here is sampled. The name alone tells, so every gateway says the same.
    #[must_use]
    pub fn samples(&self, begun: &Trace) -> bool {
        u64::from_be_bytes(begun.span()) < self.below
    }

    /// Hands a span over if its trace is sampled. The span is only made then.
    pub fn tell(&self, trace: &Trace, span: impl FnOnce() -> Span) {
        if trace.is_sampled() && self.queue.try_send((span(), now())).is_err() {
            self.lost.one();
        }
    }
}

/// The bound below which that share of all numbers lies.
fn share(per_million: u32) -> u64 {
    let all = per_million >= 1_000_000;
    if all { u64::MAX } else { u64::MAX.div_euclid(1_000_000).saturating_mul(u64::from(per_million)) }
}

async fn send(
    exporter: SpanExporter,
    mut waiting: mpsc::Receiver<(Span, SystemTime)>,
    taken: Arc<Count>,
    lost: Arc<Count>,
) {
    let mut batch = Vec::with_capacity(SPANS_AT_ONCE);
    let mut well = true;
    while waiting.recv_many(&mut batch, SPANS_AT_ONCE).await > 0 {
        if batch.len() < SPANS_AT_ONCE && !waiting.is_closed() {
            tokio::time::sleep(SPANS_PAUSE).await;
            while batch.len() < SPANS_AT_ONCE
                && let Ok(span) = waiting.try_recv()
            {
                batch.push(span);
            }
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let outcome = exporter.export(batch.drain(..).map(in_their_words).collect()).await;
        match outcome {
            Ok(()) => taken.add(count),
            Err(ref error) => {
                lost.add(count);
                // Once: whoever cannot be reached is asked every second.
                if well {
                    warn!(%error, "spans are lost: the collector does not take them");
                }
            }
        }
        well = outcome.is_ok();
    }
}

#[expect(clippy::disallowed_methods, reason = "a span is dated for people, and nothing is decided by it")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// A span as the library has it.
fn in_their_words((span, ended): (Span, SystemTime)) -> SpanData {
    let name = |id: [u8; 8]| SpanId::from_bytes(id);
    let flags = TraceFlags::SAMPLED;
    let trace = TraceId::from_bytes(span.trace.trace());
    SpanData {
        span_context: SpanContext::new(trace, name(span.trace.span()), flags, false, TraceState::default()),
        parent_span_id: span.parent.map_or(SpanId::INVALID, name),
        parent_span_is_remote: span.side == Side::Serves,
        span_kind: match span.side {
            Side::Serves => SpanKind::Server,
            Side::Calls => SpanKind::Client,
        },
        name: span.name.into(),
        start_time: ended.checked_sub(span.took).unwrap_or(ended),
        end_time: ended,
        attributes: span.known.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if span.failed { Status::error("") } else { Status::Unset },
        instrumentation_scope: InstrumentationScope::builder("fencegate").build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken: a ratio of 0 collects something, or one of 1 not everything. Must hold: of many traces about that share is
    /// sampled, and all of them at 1.
    #[test]
    fn about_the_share_that_was_asked_for_is_sampled() {
        for (ratio, least, most) in [(0, 0, 0), (250_000, 2_200, 2_800), (1_000_000, 10_000, 10_000)] {
            let below = share(ratio);
            let sampled = (1..=10_000_u64)
                .filter(|n| {
                    let trace = Trace::begun(u128::from(*n), false).below(*n);
                    u64::from_be_bytes(trace.span()) < below
                })
                .count();
            assert!((least..=most).contains(&sampled), "{ratio}: {sampled}");
        }
    }

    /// Broken: while a collector is away spans pile up in memory, or whoever tells one waits. Must hold: nobody waits; no more than
    /// the queue and one message are held, and every other one is counted as lost, whether the collector refuses connections or
    /// takes them and is silent.
    #[tokio::test]
    async fn while_the_collector_is_away_spans_are_bounded() {
        const TOLD: usize = 20_000;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        for address in [silent.local_addr().unwrap(), gone] {
            let (sent, lost) = (Arc::<Count>::default(), Arc::<Count>::default());
            let endpoint = format!("http://{address}/v1/traces");
            let (spans, sending) = Spans::start(&endpoint, 1_000_000, sent.clone(), lost.clone()).unwrap();
            for number in 0..TOLD {
                let trace = Trace::begun(u128::try_from(number).unwrap(), true);
                if number % 64 == 0 {
                    // Whoever sends has its turn.
                    tokio::task::yield_now().await;
                }
                spans.tell(&trace, || Span {
                    trace,
                    parent: None,
                    side: Side::Serves,
                    name: "GET".to_owned(),
                    took: Duration::ZERO,
                    known: Vec::new(),
                    failed: false,
                });
            }
            let held = TOLD - usize::try_from(lost.read()).unwrap();
            assert!((SPANS_WAITING..=SPANS_WAITING + SPANS_AT_ONCE).contains(&held), "{held} are held");
            assert_eq!(sent.read(), 0);
            sending.abort();
        }
    }
}
