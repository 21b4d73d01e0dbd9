//! `fencegate inspect`.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::Output;
use super::{table, words};
use crate::domain::resource::Path;

/// Said when an answer to a question is lost.
pub(super) const ASK_AGAIN: &str = "Run the same command again; it changes nothing";

/// What `inspect` takes.
#[derive(Args)]
pub(super) struct Inspect {
    /// Its name, such as statements/account-42/2026-09-13
    #[arg(value_parser = words::name)]
    resource: Path,
}

impl Inspect {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let path = format!("/v1/resources/{}", encoded(&self.resource));
        let answer = client.ask(client.request(Method::GET, &path), ASK_AGAIN).await?;
        output.answer(&answer.raw, || told(&answer.json))
    }
}

fn told(resource: &Value) -> String {
    let facts = table::facts(
        resource,
        &[
            ("resource", "/resource"),
            ("state", "/state"),
            ("life", "/life"),
            ("incarnation", "/incarnation"),
            ("policy", "/policy"),
            ("contract", "/contract"),
            ("issuer", "/issuer"),
            ("store", "/store"),
            ("issued", "/issued"),
            ("floor", "/floor"),
            ("revoked through", "/revoked_through"),
            ("applied", "/applied/position"),
            ("sequence", "/applied/sequence"),
            ("commit", "/commit"),
            ("last operation", "/last_operation"),
            ("lease", "/lease/state"),
            ("lease holder", "/lease/holder"),
            ("lease position", "/lease/position"),
            ("lease left ms", "/lease/remaining_ms"),
        ],
    );
    let targets =
        resource.pointer("/targets").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if targets.is_empty() {
        return facts;
    }
    let columns =
        [("target", "/target"), ("etag", "/etag"), ("content type", "/content_type"), ("size", "/size")];
    format!("{facts}\n\n{}", table::rows(targets, &columns))
}
