//! `fencegate whoami`: what a gateway calls the caller, and what it lets it do.

use reqwest::Method;
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::output::Output;
use super::table;

/// Asks the gateway.
pub(super) async fn run(client: &Client, output: &Output) -> Result<(), Failure> {
    let answer = client.ask(client.request(Method::GET, "/v1/whoami"), ASK_AGAIN).await?;
    output.answer(&answer.raw, || {
        let facts = [
            ("principal", "/principal"),
            ("credential", "/credential"),
            ("key", "/key"),
            ("expires", "/expires_at"),
        ];
        let rules = answer.json.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
        let rules = table::rows(&rules, &[("PREFIX", "/prefix"), ("PERMISSIONS", "/permissions")]);
        format!("{}\n\n{rules}", table::facts(&answer.json, &facts))
    })
}
