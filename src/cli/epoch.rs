//! `fencegate epoch advance`: everything that was issued so far is refused for ever.

use std::io::{self, BufRead as _, IsTerminal as _};

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Client, segment};
use super::failure::Failure;
use super::lease::fresh_id;
use super::output::Output;
use super::{table, words, write};
use crate::domain::operation::OperationId;
use crate::domain::subject::Subject;

/// What can be done with epochs.
#[derive(Subcommand)]
pub(super) enum Epoch {
    /// Begin a new epoch: every token of before is refused for ever, and the breaker ends
    ///
    /// Only after a restored or forgotten database, or an issuer that was reset: owners lose their leases and acquire
    /// again, and clients of an external issuer send EPOCH.TOKEN from then on. What was recorded is still answered.
    Advance(Advance),
}

/// What `epoch advance` takes.
#[derive(Args)]
pub(super) struct Advance {
    /// The namespace, or '*' for all of them, those included that were never used
    #[arg(value_parser = words::namespaces)]
    namespace: Subject,
    /// Why, for those who will read the record
    #[arg(long, value_name = "TEXT", value_parser = words::reason)]
    reason: String,
    /// Do not ask on the terminal
    #[arg(long, conflicts_with = "confirm")]
    yes: bool,
    /// The namespace once more: needed where there is no terminal to ask on
    #[arg(long, value_name = "NAMESPACE")]
    confirm: Option<String>,
    /// Let effects that are undecided go on under the epoch that ends [default: refuse while there are any]
    #[arg(long)]
    leave_open: bool,
    /// Name of this call: a repetition under the same name does nothing and gets the first answer [default: a new one]
    #[arg(long, value_name = "KEY", value_parser = words::operation)]
    key: Option<OperationId>,
}

impl Epoch {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let Self::Advance(advance) = self;
        advance.run(client, output).await
    }
}

impl Advance {
    async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let name = self.namespace.as_str();
        self.confirmed(output)?;
        let key = match &self.key {
            Some(given) => given.as_str().to_owned(),
            None => fresh_id()?.to_string(),
        };
        let request = client
            .request(Method::POST, &format!("/v1/namespaces/{}/epoch", segment(name)))
            .header("idempotency-key", write::quoted(&key))
            .json(&json!({ "reason": self.reason, "confirm": name, "leave_open": self.leave_open }));
        let again = format!("Run the same command again with --key {key:?}: it is carried out at most once");
        let answer = client.ask(request, &again).await?;
        output.answer(&answer.raw, || told(&answer.json))
    }

    /// A person says the name again, on the terminal or beforehand.
    fn confirmed(&self, output: &Output) -> Result<(), Failure> {
        let name = self.namespace.as_str();
        let asked = match &self.confirm {
            Some(given) => given.clone(),
            None if !io::stdin().is_terminal() => {
                return Err(Failure::Usage(format!(
                    "there is no terminal to ask on: add --confirm '{name}' if everything that was issued there is to be \
                     refused for ever"
                )));
            }
            None if self.yes => return Ok(()),
            None => {
                output.note(&format!(
                    "Every token that was issued in {name} so far is refused for ever, and every lease there ends.\n\
                     Write the name once more to go on:"
                ));
                let mut line = String::new();
                io::stdin().lock().read_line(&mut line)?;
                line.trim().to_owned()
            }
        };
        if asked == name {
            return Ok(());
        }
        Err(Failure::Usage(format!("{asked:?} is not {name:?}: nothing was done")))
    }
}

/// A namespace for people, or all of them.
fn told(answer: &Value) -> String {
    let facts =
        [("namespace", "/namespace"), ("epoch", "/epoch"), ("issuer", "/issuer"), ("store", "/store")];
    let facts = table::facts(answer, &facts);
    let listed =
        |place| answer.pointer(place).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut parts = vec![facts];
    if let items @ [_, ..] = listed("/items") {
        parts.push(table::rows(items, &[("namespace", "/namespace"), ("epoch", "/epoch")]));
    }
    if let open @ [_, ..] = listed("/open_operations") {
        let columns =
            [("undecided", "/operation_id"), ("resource", "/resource"), ("incarnation", "/incarnation")];
        parts.push(table::rows(open, &columns));
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_shown_with_the_new_epoch() {
        let open = json!([{"operation_id": "op", "resource": "a/b", "incarnation": "1"}]);
        let one = json!({"namespace": "a", "epoch": "1", "open_operations": open});
        assert_eq!(
            told(&one),
            "namespace  a\nepoch      1\n\nundecided  resource  incarnation\nop         a/b       1"
        );
        let all = json!({"namespace": "*", "epoch": "4", "items": [{"namespace": "a", "epoch": "4"}], "open_operations": []});
        assert_eq!(told(&all), "namespace  *\nepoch      4\n\nnamespace  epoch\na          4");
    }
}
