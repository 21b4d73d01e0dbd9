//! `fencegate namespaces`: the namespaces, and the change of a definition.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::answer::Answer;
use super::client::{Client, segment};
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::lease::fresh_id;
use super::output::Output;
use super::{table, words, write};
use crate::domain::operation::OperationId;
use crate::domain::resource::Namespace;

/// What `namespaces` takes.
#[derive(Args)]
pub(super) struct Namespaces {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Make the definition that the gateway was configured with the recorded one
    ///
    /// First configure it in the file of one gateway and restart that one: it answers 503 `definition_differs` for the
    /// namespace until this is done. Says what the change means for what is there, and asks. Gateways with the old file stop
    /// serving the namespace then.
    Change(Change),
}

#[derive(Args)]
struct Change {
    /// The namespace
    #[arg(value_parser = namespace)]
    namespace: Namespace,
    /// Why, for those who will read the record
    #[arg(long, value_name = "TEXT", value_parser = words::reason)]
    reason: String,
    /// Do not ask: the namespace's name once more
    #[arg(long, value_name = "NAMESPACE")]
    confirm: Option<String>,
    /// Name of this call: a repetition under the same name does nothing and gets the first answer [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = words::operation)]
    key: Option<OperationId>,
}

fn namespace(text: &str) -> Result<Namespace, String> {
    Namespace::parse(text).map_err(|error| error.to_string())
}

impl Namespaces {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        match self.command {
            Some(Command::Change(change)) => change.run(client, output).await,
            None => {
                let answer = client.ask(client.request(Method::GET, "/v1/namespaces"), ASK_AGAIN).await?;
                output.answer(&answer.raw, || told(&answer.json))
            }
        }
    }
}

impl Change {
    async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let path = format!("/v1/namespaces/{}", segment(self.namespace.as_str()));
        let before = client.ask(client.request(Method::GET, &path), ASK_AGAIN).await?;
        let Some(version) = before.json.get("version").and_then(Value::as_u64) else {
            return Err(Failure::Usage(format!(
                "namespace {:?} was never used: nothing is recorded that could be changed",
                self.namespace.as_str()
            )));
        };
        let confirm = match &self.confirm {
            Some(given) => given.clone(),
            None => self.asked(&before)?,
        };
        if confirm != self.namespace.as_str() {
            return Err(Failure::Usage("not confirmed; nothing was changed".to_owned()));
        }
        let key = match &self.key {
            Some(given) => given.as_str().to_owned(),
            None => fresh_id()?.to_string(),
        };
        let request = client
            .request(Method::POST, &format!("{path}/definition"))
            .header("idempotency-key", write::quoted(&key))
            .json(&json!({ "reason": self.reason, "confirm": confirm, "version": version }));
        let again = format!("Run the same command again with --key {key:?}: it is carried out at most once");
        let answer = client.ask(request, &again).await?;
        output.answer(&answer.raw, || told(&json!({ "items": [answer.json] })))
    }

    /// Says what it means, and asks whoever sits at the terminal.
    fn asked(&self, before: &Answer) -> Result<String, Failure> {
        if !std::io::stdin().is_terminal() {
            let name = self.namespace.as_str();
            return Err(Failure::Usage(format!(
                "{}\n\nnothing was changed; run it again with --confirm {name}",
                meaning(&before.json)
            )));
        }
        let failed = |error: std::io::Error| Failure::Start(error.into());
        let mut out = std::io::stderr().lock();
        write!(out, "{}\n\nType the name of the namespace to go on: ", meaning(&before.json))
            .map_err(failed)?;
        out.flush().map_err(failed)?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(failed)?;
        Ok(line.trim().to_owned())
    }
}

/// What a change means, for people.
fn meaning(namespace: &Value) -> String {
    let Some(change) = namespace.get("change").filter(|change| !change.is_null()) else {
        return "the gateway is configured with the recorded definition: there is nothing to change"
            .to_owned();
    };
    let text =
        |value: &Value, key: &str| table::clean(value.get(key).and_then(Value::as_str).unwrap_or_default());
    let mut lines =
        vec![format!("recorded    {}", text(change, "from")), format!("configured  {}", text(change, "to"))];
    for part in change.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() {
        lines.push(format!("{}: {}", text(part, "key"), text(part, "means")));
    }
    lines.push(ALWAYS.to_owned());
    if change.get("possible") == Some(&Value::Bool(false)) {
        lines.push("It will be refused: the namespace has resources, and they do not fit.".to_owned());
    }
    lines.join("\n")
}

const ALWAYS: &str = "Floors, revocations, leases and records stay as they are. Gateways that are configured with the \
                      recorded definition stop serving the namespace.";

fn told(page: &Value) -> String {
    let items = page.pointer("/items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let columns = [
        ("namespace", "/namespace"),
        ("policy", "/policy"),
        ("contract", "/contract"),
        ("store", "/store"),
        ("scope", "/scope"),
        ("epoch", "/epoch"),
        ("version", "/version"),
        ("breaker", "/breaker/detector"),
        ("differs", "/differs"),
    ];
    table::rows(items, &columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_means_is_said_before_it_is_confirmed() {
        let parts = json!([{"key": "scope", "means": "other names", "only_without_resources": true}]);
        let change = json!({"from": "scope=0", "to": "scope=1", "possible": false, "parts": parts});
        let text = meaning(&json!({"namespace": "jobs", "change": change}));
        for line in ["recorded    scope=0", "configured  scope=1", "scope: other names", ALWAYS] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.ends_with("they do not fit."), "{text}");
        assert!(meaning(&json!({"change": null})).contains("nothing to change"));
    }
}
