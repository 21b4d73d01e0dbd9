//! `fencegate revoke`, `fencegate cancel` and `fencegate reopen`.

use clap::Args;
use reqwest::Method;
use serde_json::json;

use super::client::{Client, encoded};
use super::failure::Failure;
use super::lease::fresh_id;
use super::output::Output;
use super::words::{self, TokenText};
use super::{inspect, write};
use crate::domain::operation::OperationId;
use crate::domain::resource::Path;

/// What is done to a resource.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Revoke,
    Cancel,
    Reopen,
}

/// What `revoke`, `cancel` and `reopen` take.
#[derive(Args)]
pub(super) struct Control {
    /// Its name, such as statements/account-42/2026-09-13
    #[arg(value_parser = words::name)]
    resource: Path,
    /// Why, for those who will read the record
    #[arg(long, value_name = "TEXT", value_parser = words::reason)]
    reason: String,
    /// As its owner: refused unless this token is still the newest [default: as an operator]
    // Not from the environment: a call that was meant as an operator's must not become an owner's by accident.
    #[arg(long, value_name = "TOKEN", value_parser = words::token)]
    fencing_token: Option<TokenText>,
    /// Name of this call: a repetition under the same name does nothing and gets the first answer [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = words::operation)]
    key: Option<OperationId>,
}

impl Control {
    pub(super) async fn run(self, verb: Verb, client: &Client, output: &Output) -> Result<(), Failure> {
        let verb = match verb {
            Verb::Revoke => "revoke",
            Verb::Cancel => "cancel",
            Verb::Reopen => "reopen",
        };
        let key = match self.key {
            Some(given) => given.as_str().to_owned(),
            None => fresh_id()?.to_string(),
        };
        let request = client
            .request(Method::POST, &format!("/v1/{verb}/{}", encoded(&self.resource)))
            .header("idempotency-key", write::quoted(&key))
            .json(&json!({ "reason": self.reason }));
        let request = match &self.fencing_token {
            Some(token) => request.header("fencing-token", &token.0),
            None => request,
        };
        let again = format!("Run the same command again with --key {key:?}: it is carried out at most once");
        let answer = client.ask(request, &again).await?;
        output.answer(&answer.raw, || inspect::told(&answer.json))
    }
}
