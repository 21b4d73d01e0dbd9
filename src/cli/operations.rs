//! `fencegate operations`: the way out of a lost answer, and the way to those that wait for somebody.

use clap::Args;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::client::{Client, segment};
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::output::{self, Output};
use super::{table, words};
use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::resource::Path;
use crate::limits::PAGE_ITEMS;

/// What `operations` takes.
#[derive(Args)]
pub(super) struct Operations {
    /// The resource's name [default: all resources, and of them what is undecided]
    #[arg(value_parser = words::name)]
    resource: Option<Path>,
    /// One operation
    #[arg(value_name = "ID", value_parser = words::operation)]
    operation: Option<OperationId>,
    /// Incarnation of the resource in which the operation was made [default: the current one]
    #[arg(long, value_name = "N", value_parser = words::incarnation, requires = "operation")]
    incarnation: Option<Incarnation>,
    /// Only those in this state; of all resources intent or uncertain [default: both]
    #[arg(long, conflicts_with = "operation")]
    state: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", conflicts_with = "operation", value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_ITEMS)))]
    limit: Option<u32>,
    /// Where an earlier page ended
    #[arg(long, conflicts_with = "operation", requires = "resource")]
    cursor: Option<String>,
}

impl Operations {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let Some(resource) = &self.resource else { return self.undecided(client, output).await };
        if let Some(operation) = &self.operation {
            let answer = client.ask(self.one(client, resource, operation)?, ASK_AGAIN).await?;
            return output.answer(&answer.raw, || told_one(&answer.json));
        }
        let answer = client.ask(self.page(client, Some(resource), self.state.as_deref()), ASK_AGAIN).await?;
        output.answer(&answer.raw, || told_page(&answer.json, OF_ONE))
    }

    /// Of all resources: first what waits for a person, then what is being carried out.
    async fn undecided(&self, client: &Client, output: &Output) -> Result<(), Failure> {
        if let Some(state) = &self.state {
            let answer = client.ask(self.page(client, None, Some(state)), ASK_AGAIN).await?;
            return output.answer(&answer.raw, || told_page(&answer.json, OF_ALL));
        }
        let mut items = Vec::new();
        for state in ["uncertain", "intent"] {
            let answer = client.ask(self.page(client, None, Some(state)), ASK_AGAIN).await?;
            items.extend(listed(&answer.json).iter().cloned());
        }
        let both = json!({ "items": items, "next_cursor": null });
        output.answer(&output::json(&both), || told_page(&both, OF_ALL))
    }

    fn one(
        &self,
        client: &Client,
        resource: &Path,
        operation: &OperationId,
    ) -> Result<RequestBuilder, Failure> {
        let id = addressable(operation)?;
        let request = client
            .request(Method::GET, &format!("/v1/operations/{}", segment(id)))
            .query(&[("resource", resource.as_str())]);
        Ok(match &self.incarnation {
            Some(incarnation) => request.query(&[("incarnation", incarnation.to_string())]),
            None => request,
        })
    }

    fn page(&self, client: &Client, resource: Option<&Path>, state: Option<&str>) -> RequestBuilder {
        let limit = self.limit.map(|limit| limit.to_string());
        let wanted = [
            ("resource", resource.map(Path::as_str)),
            ("state", state),
            ("limit", limit.as_deref()),
            ("cursor", self.cursor.as_deref()),
        ];
        let given: Vec<(&str, &str)> =
            wanted.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        client.request(Method::GET, "/v1/operations").query(&given)
    }
}

/// An id that can stand in an address: even percent-encoded, two are steps in a path, and would lead elsewhere.
pub(super) fn addressable(operation: &OperationId) -> Result<&str, Failure> {
    match operation.as_str() {
        id @ ("." | "..") => {
            Err(Failure::Usage(format!("{id:?} cannot stand in an address; list the operations without it")))
        }
        id => Ok(id),
    }
}

fn listed(page: &Value) -> &[Value] {
    page.pointer("/items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// One operation for people.
pub(super) fn told_one(operation: &Value) -> String {
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
            ("attempts", "/attempt"),
            ("created at", "/created_at"),
            ("decided at", "/decided_at"),
            ("answered", "/response/status"),
            ("answered by", "/response/source"),
            ("assumed", "/resolution/assumed"),
            ("evidence", "/resolution/evidence"),
            ("reason", "/resolution/reason"),
            ("fingerprint", "/fingerprint"),
        ],
    )
}

/// The columns of a resource's operations.
const OF_ONE: &[(&str, &str)] = &[
    ("operation", "/operation_id"),
    ("state", "/state"),
    ("effect", "/effect"),
    ("incarnation", "/incarnation"),
    ("position", "/position"),
    ("sequence", "/sequence"),
    ("commit", "/commit"),
    ("decided at", "/decided_at"),
];

/// The columns of what is undecided anywhere.
const OF_ALL: &[(&str, &str)] = &[
    ("resource", "/resource"),
    ("operation", "/operation_id"),
    ("state", "/state"),
    ("incarnation", "/incarnation"),
    ("position", "/position"),
    ("attempts", "/attempt"),
    ("created at", "/created_at"),
];

fn told_page(page: &Value, columns: &[(&str, &str)]) -> String {
    let mut text = table::rows(listed(page), columns);
    if let Some(cursor) = page.pointer("/next_cursor").and_then(Value::as_str) {
        text.push_str("\nmore with --cursor ");
        text.push_str(&table::clean(cursor));
    }
    text
}
