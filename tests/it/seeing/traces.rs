//! A request is found again: in the trace of its caller, at the store, in a problem and at a collector.

use axum::http::StatusCode;

use super::collector::{Collector, known};
use super::{scrape, value};
use crate::support::client::Answer;
use crate::support::engines::Kind;
use crate::support::gateway::Gateway;
use crate::support::postgres::patience;
use crate::support::postgres::replica::Site;
use crate::upstreams::scene::{Scene, config};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn given() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

/// Broken: a store takes the caller for whoever called it, or is left out of the trace. Must hold: it is told the caller's
/// trace under a span of the gateway's own, with what vendors wrote about it; without a trace it is told of none.
#[tokio::test]
async fn a_store_is_told_the_trace_under_a_span_of_the_gateways_own() {
    let scene = Scene::of(Kind::Sqlite, "idempotent", "", "policy = \"session\"").await;
    let client = &scene.gateway.client;
    let lease = client.acquire("shop/a", "alice").await;
    let parent = given();
    let traced = [("traceparent", parent.as_str()), ("tracestate", "vendor=1")];
    assert!(client.put("shop/a", &lease.token, "one", "x", &traced).await.status < 300);
    Answer::of(client.request(reqwest::Method::GET, "/fenced/shop/a").header("traceparent", &parent)).await;
    let plain = [("traceparent", "nonsense"), ("tracestate", "vendor=1")];
    client.get("/fenced/shop/a").await;
    client.put("shop/b", &lease.token, "two", "x", &plain).await;
    let arrivals = scene.arrivals();
    let told = |index: usize| arrivals[index].header("traceparent");
    for index in [0, 1] {
        let parts: Vec<&str> = told(index).unwrap().split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", TRACE, "01"), "{:?}", arrivals[index]);
        assert_ne!(parts[2], CALLER);
    }
    assert_ne!(told(0), told(1), "two spans have one name");
    assert_eq!(arrivals[0].header("tracestate"), Some("vendor=1"));
    for arrival in &arrivals[2..] {
        assert_eq!(
            (arrival.header("traceparent"), arrival.header("tracestate")),
            (None, None),
            "{arrival:?}"
        );
    }
    scene.gateway.stop().await;
}

/// Broken: whoever reads an error cannot find its trace. Must hold: a problem names the trace that its request came with,
/// and none where it came with none.
#[tokio::test]
async fn a_problem_names_the_trace_of_its_request() {
    let gateway = Gateway::start().await;
    let ask = |parent: &str| {
        let request = gateway.client.request(reqwest::Method::GET, "/v1/resources/pages/none");
        Answer::of(request.header("traceparent", parent))
    };
    assert_eq!(ask(&given()).await.expect(404)["trace_id"], TRACE);
    assert!(ask("00-nonsense").await.expect(404).get("trace_id").is_none());
    gateway.stop().await;
}

/// Broken: spans that do not belong together, or that tell what they must not. Must hold: a request and its attempt at the
/// store are two spans of the caller's trace, one below the other; a request of no trace begins one of its own.
#[tokio::test]
async fn a_collector_gets_the_request_and_its_attempt() {
    let collector = Collector::start(StatusCode::OK).await;
    let text = collector.configuration();
    let scene =
        Scene::of(Kind::Sqlite, "idempotent", "", &format!("policy = \"session\"\n{text}[namespaces.x]"))
            .await;
    let client = &scene.gateway.client;
    let lease = client.acquire("shop/a", "alice").await;
    client.put("shop/a", &lease.token, "one", "x", &[("traceparent", &given())]).await;
    let refused = client.get("/v1/resources/shop/none").await.expect(404);
    let own = refused["trace_id"].as_str().unwrap().to_owned();
    let bytes = |id: &str| u128::from_str_radix(id, 16).unwrap().to_be_bytes().to_vec();
    let spans = patience::until("all spans were sent", 20, async || {
        let spans = collector.spans(3).await;
        Some(spans).filter(|spans| spans.iter().any(|span| span.trace_id == bytes(&own)))
    })
    .await;
    let of_trace: Vec<_> = spans.iter().filter(|span| span.trace_id == bytes(TRACE)).collect();
    let [call, request] = of_trace.as_slice() else { panic!("{of_trace:?}") };
    assert_eq!(request.parent_span_id, u64::from_str_radix(CALLER, 16).unwrap().to_be_bytes());
    assert_eq!(call.parent_span_id, request.span_id);
    assert_eq!(known(request, "http.route"), Some("/fenced/{namespace}/{name}"));
    assert_eq!(
        (known(call, "fencegate.resource"), known(call, "fencegate.operation")),
        (Some("shop/a"), Some("one"))
    );
    let arrived = scene.writes().pop().unwrap();
    let told = arrived.header("traceparent").unwrap().split('-').nth(2).unwrap().to_owned();
    assert_eq!(
        call.span_id,
        u64::from_str_radix(&told, 16).unwrap().to_be_bytes(),
        "the store was told another span"
    );
    assert!(request.end_time_unix_nano >= request.start_time_unix_nano);
    let counted = patience::until("they were counted", 10, async || {
        Some(value(&scrape(&scene.gateway).await, "fencegate_trace_spans_total{result=\"exported\"}"))
            .filter(|count| *count >= 3.0)
    });
    counted.await;
    scene.gateway.stop().await;
}

/// Broken: a request waits for a collector, or fails with it. Must hold: it is answered as ever, and what the collector did
/// not take is counted.
#[tokio::test]
async fn a_collector_that_takes_nothing_costs_spans_and_nothing_else() {
    let collector = Collector::start(StatusCode::BAD_REQUEST).await;
    let gateway = Gateway::configured(Kind::Sqlite, &config(&collector.configuration())).await;
    let lease = gateway.client.acquire("pages/a", "alice").await;
    gateway.client.put("pages/a", &lease.token, "one", "x", &[]).await.expect(201);
    let lost = patience::until("they were counted", 20, async || {
        Some(value(&scrape(&gateway).await, "fencegate_trace_spans_total{result=\"lost\"}"))
            .filter(|count| *count >= 2.0)
    });
    lost.await;
    assert_eq!(
        value(&scrape(&gateway).await, "fencegate_trace_spans_total{result=\"exported\"}").to_bits(),
        0
    );
    gateway.stop().await;
}

/// Broken: a gateway whose collector is not there does not start, is slow to answer or to stop, or says nothing of it. Must hold:
/// it starts, serves, says once that spans are lost and why, counts them, and stops as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_not_there_is_said_once_and_keeps_nobody() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let site = Site::new(
        "sqlite://fencegate.db",
        &format!("tracing = {{ otlp_endpoint = \"http://{nowhere}\" }}\n"),
    );
    let gateway = site.start();
    let client = gateway.client();
    let lost = "fencegate_trace_spans_total{result=\"lost\"}";
    let count = async || value(&client.get("/metrics").await.text(), lost);
    for round in 1..=3 {
        let before = count().await;
        let lease = client.acquire(&format!("pages/{round}"), "alice").await;
        client.put(&format!("pages/{round}"), &lease.token, "one", "x", &[]).await.expect(201);
        // One more message that the collector does not take.
        patience::until("they were counted", 20, async || Some(count().await).filter(|now| *now > before))
            .await;
    }
    let said: Vec<String> =
        gateway.warnings().into_iter().filter(|line| line.contains("spans are lost")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("the collector does not take them"), "{said:?}");
    let began = fencegate::ledger::wakeup::instant();
    assert_eq!(gateway.terminate(), Some(0));
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}
