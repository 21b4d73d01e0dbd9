//! `fencegate resolve`: a person says how a doubt ended.

use clap::{Args, ValueEnum};
use reqwest::Method;
use serde_json::json;

use super::client::{Client, segment};
use super::failure::Failure;
use super::output::Output;
use super::{operations, words};
use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::resource::Path;

/// What became of it.
#[derive(Clone, Copy, ValueEnum)]
enum Verdict {
    /// It is in the store
    #[value(name = "applied")]
    Applied,
    /// It is not in the store, and will not come there
    #[value(name = "not_applied")]
    NotApplied,
}

/// What `resolve` takes.
#[derive(Args)]
pub(super) struct Resolve {
    /// The resource's name
    #[arg(value_parser = words::name)]
    resource: Path,
    /// The uncertain operation
    #[arg(value_name = "ID", value_parser = words::operation)]
    operation: OperationId,
    /// What became of it
    #[arg(long)]
    verdict: Verdict,
    /// What was seen in the store, for those who will read the record
    #[arg(long, value_name = "TEXT", value_parser = words::reason)]
    evidence: String,
    /// Why it had to be resolved, for those who will read the record
    #[arg(long, value_name = "TEXT", value_parser = words::reason)]
    reason: String,
    /// Incarnation of the resource in which the operation was made [default: the current one]
    #[arg(long, value_name = "N", value_parser = words::incarnation)]
    incarnation: Option<Incarnation>,
}

impl Resolve {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let verdict = match self.verdict {
            Verdict::Applied => "applied",
            Verdict::NotApplied => "not_applied",
        };
        let id = operations::addressable(&self.operation)?;
        let request = client
            .request(Method::POST, &format!("/v1/operations/{}/resolve", segment(id)))
            .query(&[("resource", self.resource.as_str())])
            .json(&json!({ "verdict": verdict, "evidence": self.evidence, "reason": self.reason }));
        let request = match &self.incarnation {
            Some(incarnation) => request.query(&[("incarnation", incarnation.to_string())]),
            None => request,
        };
        let again = "Run the same command again: the same verdict twice is answered as once";
        let answer = client.ask(request, again).await?;
        output.answer(&answer.raw, || operations::told_one(&answer.json))
    }
}
