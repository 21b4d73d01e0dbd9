//! `fencegate audit export`: what was done, by whom and why, one line of JSON each.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::output::{self, Output};

/// What `audit` takes.
#[derive(Subcommand)]
pub(super) enum Audit {
    /// Print every line, the oldest first, as JSON lines
    ///
    /// To keep an archive, run it with --since at the time of the last line that was kept, and leave out lines whose id is
    /// there already.
    Export(Export),
}

/// What `audit export` takes.
#[derive(Args)]
pub(super) struct Export {
    /// Only lines of this time and later, such as 2026-09-13T08:01:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only lines before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only of this namespace, with what was done to all; * for that alone
    #[arg(long)]
    namespace: Option<String>,
    /// Only of this kind, such as cancelled
    #[arg(long)]
    verb: Option<String>,
    /// Only what this caller asked for
    #[arg(long)]
    actor: Option<String>,
}

impl Audit {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        match self {
            Self::Export(export) => export.run(client, output).await,
        }
    }
}

impl Export {
    /// Page by page. Each page leads on, so that it ends with the last line.
    async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let mut cursor: Option<String> = None;
        loop {
            let wanted = [
                ("since", self.since.as_deref()),
                ("until", self.until.as_deref()),
                ("namespace", self.namespace.as_deref()),
                ("verb", self.verb.as_deref()),
                ("actor", self.actor.as_deref()),
                ("cursor", cursor.as_deref()),
            ];
            let given: Vec<(&str, &str)> =
                wanted.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let request = client.request(Method::GET, "/v1/audit").query(&given);
            let page = client.ask(request, ASK_AGAIN).await?.json;
            for line in page.pointer("/items").and_then(Value::as_array).into_iter().flatten() {
                output.raw(&output::json(line))?;
                output.raw(b"\n")?;
            }
            let next = page.pointer("/next_cursor").and_then(Value::as_str).map(str::to_owned);
            if next.is_none() || next == cursor {
                return Ok(());
            }
            cursor = next;
        }
    }
}
