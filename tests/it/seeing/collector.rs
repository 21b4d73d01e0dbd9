//! A collector of spans that speaks OTLP over HTTP: it decodes what it is sent, and takes it or not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::postgres::patience;

/// What it was sent.
#[derive(Debug, Default)]
struct Heard {
    messages: Vec<Vec<u8>>,
    spans: Vec<Span>,
}

/// A collector that runs; dropped, it ends.
pub(super) struct Collector {
    port: u16,
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

impl Collector {
    /// One that answers with a status.
    pub(super) async fn start(status: StatusCode) -> Self {
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let listening = heard.clone();
        let take = async move |headers: HeaderMap, body: Bytes| {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            let message = ExportTraceServiceRequest::decode(body.clone()).unwrap();
            let mut kept = listening.lock().unwrap();
            kept.messages.push(body.to_vec());
            let scopes = message.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            kept.spans.extend(scopes.flat_map(|scope| scope.spans));
            status
        };
        let router = Router::new().route("/v1/traces", post(take));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, heard, task }
    }

    /// Its configuration.
    pub(super) fn configuration(&self) -> String {
        format!("[tracing]\notlp_endpoint = \"http://127.0.0.1:{}\"\n", self.port)
    }

    /// The spans, once there are so many.
    pub(super) async fn spans(&self, least: usize) -> Vec<Span> {
        let what = format!("{least} spans were sent");
        patience::until(&what, 20, async || {
            let spans = self.heard.lock().unwrap().spans.clone();
            if spans.len() < least {
                tokio::time::sleep(Duration::from_millis(20)).await;
                return None;
            }
            Some(spans)
        })
        .await
    }

    /// All that was sent, as it came.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.heard.lock().unwrap().messages.concat()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An attribute of a span.
pub(super) fn known<'s>(span: &'s Span, key: &str) -> Option<&'s str> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
