//! One worker of the demonstration, in a process of its own.
//!
//! It does what any worker does: acquire, compute, write. It looks at no clock and asks nobody whether it still owns
//! the resource, because a worker that was stopped between the question and the write would be wrong all the same.

use std::io::{BufRead as _, stdin};

use clap::Parser;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::client::{Client, encoded};
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::write::quoted;
use crate::cli::{block_on, lease, words};
use crate::domain::resource::Path;

/// What a worker tells the demonstration, one JSON object a line. The fencing token stays with the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// It owns the resource.
    Acquired {
        /// Under this position.
        position: String,
    },
    /// It has seen a part of its input.
    Computing,
    /// Its result is stored.
    Written {
        /// The answer's position.
        position: String,
        /// The commit number.
        commit: String,
    },
    /// Its result was refused.
    Refused {
        /// The answer's status.
        status: u16,
        /// The answer's code.
        code: String,
    },
}

/// Sums the amounts on its standard input, in cents, and publishes the balance.
#[derive(Parser)]
pub(in crate::cli) struct Worker {
    #[arg(long)]
    url: String,
    #[arg(long)]
    name: String,
    #[arg(long, value_parser = words::name)]
    resource: Path,
    #[arg(long)]
    ttl_ms: u64,
}

impl Worker {
    pub(in crate::cli) fn run(self, output: &Output) -> Result<(), Failure> {
        die_with_the_demonstration()?;
        let client = Client::new(&self.url)?;
        block_on(self.work(&client, output))
    }

    async fn work(&self, client: &Client, output: &Output) -> Result<(), Failure> {
        let body = json!({
            "resource": self.resource.as_str(),
            "holder": format!("worker {}", self.name),
            "ttl_ms": self.ttl_ms,
            "request_id": lease::fresh_id()?.to_string(),
        });
        let lease = client.ask(client.request(Method::POST, "/v1/leases").json(&body), "").await?;
        let field = |path| lease.text(path).map(str::to_owned).ok_or_else(|| missing(path));
        let token = field("/fencing_token")?;
        say(output, &Event::Acquired { position: field("/position")? })?;
        let content = compute(output)?;
        let request = client
            .request(Method::PUT, &format!("/fenced/{}", encoded(&self.resource)))
            .header("fencing-token", token)
            .header("idempotency-key", quoted(&format!("worker-{}-1", self.name)))
            .header("content-type", "text/plain")
            .body(content);
        match client.ask(request, "").await {
            Ok(receipt) => {
                let field = |path| receipt.text(path).map(str::to_owned).ok_or_else(|| missing(path));
                say(output, &Event::Written { position: field("/position")?, commit: field("/commit")? })
            }
            Err(Failure::Refused(problem)) => {
                say(output, &Event::Refused { status: problem.status(), code: problem.code })
            }
            Err(other) => Err(other),
        }
    }
}

/// A worker that is stopped would outlive a demonstration that was killed.
#[cfg(target_os = "linux")]
fn die_with_the_demonstration() -> Result<(), Failure> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| Failure::Start(error.into()))
}

/// Other systems have no such wish; there the worker ends when somebody resumes it.
#[cfg(not(target_os = "linux"))]
fn die_with_the_demonstration() -> Result<(), Failure> {
    Ok(())
}

/// The balance over all lines of standard input. It says that it computes once the first line is in.
fn compute(output: &Output) -> Result<String, Failure> {
    let mut cents: u64 = 0;
    for (index, line) in stdin().lock().lines().enumerate() {
        let line = line.map_err(|error| Failure::Start(error.into()))?;
        let amount: u64 =
            line.parse().map_err(|_| Failure::Usage(format!("{line:?} is no amount in cents")))?;
        cents = cents.saturating_add(amount);
        if index == 0 {
            say(output, &Event::Computing)?;
        }
    }
    Ok(balance(cents))
}

/// The document that a worker publishes.
pub(super) fn balance(cents: u64) -> String {
    format!("account 42: balance {}.{:02}", cents / 100, cents % 100)
}

fn say(output: &Output, event: &Event) -> Result<(), Failure> {
    let line = serde_json::to_string(event).map_err(|error| Failure::Start(error.into()))?;
    output.line(&line)
}

fn missing(path: &str) -> Failure {
    Failure::Lost(format!("the gateway's answer has no {path}"))
}
