//! `fencegate operations`: the way out of a lost answer.

use clap::Args;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::client::{Client, segment};
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::output::Output;
use super::{table, words};
use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::resource::Path;
use crate::limits::PAGE_ITEMS;

/// What `operations` takes.
#[derive(Args)]
pub(super) struct Operations {
    /// The resource's name
    #[arg(value_parser = words::name)]
    resource: Path,
    /// One operation
    #[arg(value_name = "ID", value_parser = words::operation)]
    operation: Option<OperationId>,
    /// Incarnation of the resource in which the operation was made [default: the current one]
    #[arg(long, value_name = "N", value_parser = words::incarnation, requires = "operation")]
    incarnation: Option<Incarnation>,
    /// Only those in this state
    #[arg(long, conflicts_with = "operation")]
    state: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", conflicts_with = "operation", value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_ITEMS)))]
    limit: Option<u32>,
    /// Where an earlier page ended
    #[arg(long, conflicts_with = "operation")]
    cursor: Option<String>,
}

impl Operations {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        if let Some(operation) = &self.operation {
            let answer = client.ask(self.one(client, operation)?, ASK_AGAIN).await?;
            return output.answer(&answer.raw, || told_one(&answer.json));
        }
        let answer = client.ask(self.page(client), ASK_AGAIN).await?;
        output.answer(&answer.raw, || told_page(&answer.json))
    }

    fn one(&self, client: &Client, operation: &OperationId) -> Result<RequestBuilder, Failure> {
        let id = operation.as_str();
        if id == "." || id == ".." {
            // Even percent-encoded they are steps in a path, and would lead elsewhere.
            return Err(Failure::Usage(format!(
                "{id:?} cannot stand in an address; list the operations without it"
            )));
        }
        let request = client
            .request(Method::GET, &format!("/v1/operations/{}", segment(id)))
            .query(&[("resource", self.resource.as_str())]);
        Ok(match &self.incarnation {
            Some(incarnation) => request.query(&[("incarnation", incarnation.to_string())]),
            None => request,
        })
    }

    fn page(&self, client: &Client) -> RequestBuilder {
        let limit = self.limit.map(|limit| limit.to_string());
        let wanted = [("state", &self.state), ("limit", &limit), ("cursor", &self.cursor)];
        let given: Vec<(&str, &str)> =
            wanted.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))).collect();
        client
            .request(Method::GET, "/v1/operations")
            .query(&[("resource", self.resource.as_str())])
            .query(&given)
    }
}

fn told_one(operation: &Value) -> String {
    table::facts(
        operation,
        &[
            ("operation", "/operation_id"),
            ("resource", "/resource"),
            ("target", "/target"),
            ("state", "/state"),
            ("effect", "/effect"),
            ("incarnation", "/incarnation"),
            ("position", "/position"),
            ("sequence", "/sequence"),
            ("commit", "/commit"),
            ("decided at", "/decided_at"),
            ("answered", "/response/status"),
            ("fingerprint", "/fingerprint"),
        ],
    )
}

fn told_page(page: &Value) -> String {
    let items = page.pointer("/items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut text = table::rows(
        items,
        &[
            ("operation", "/operation_id"),
            ("state", "/state"),
            ("effect", "/effect"),
            ("incarnation", "/incarnation"),
            ("position", "/position"),
            ("sequence", "/sequence"),
            ("commit", "/commit"),
            ("decided at", "/decided_at"),
        ],
    );
    if let Some(cursor) = page.pointer("/next_cursor").and_then(Value::as_str) {
        text.push_str("\nmore with --cursor ");
        text.push_str(&table::clean(cursor));
    }
    text
}
