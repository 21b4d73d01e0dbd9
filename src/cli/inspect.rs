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

/// A resource for people.
pub(super) fn told(resource: &Value) -> String {
    let facts = table::facts(
        resource,
        &[
            ("resource", "/resource"),
            ("state", "/state"),
            ("life", "/life"),
            ("reason", "/reason"),
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
            ("waiting", "/waiting"),
            ("lane", "/lane"),
            ("quarantined", "/quarantined"),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_of_a_cancellation_is_shown() {
        let resource =
            json!({"resource": "a/b", "life": "cancelled", "reason": "the customer left", "lease": null});
        assert_eq!(told(&resource), "resource  a/b\nlife      cancelled\nreason    the customer left");
        assert_eq!(told(&json!({"resource": "a/b"})), "resource  a/b");
    }
}
