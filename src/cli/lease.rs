//! `fencegate lease`: acquire, renew, transfer, release.

use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::answer::Answer;
use super::client::{Client, segment};
use super::failure::Failure;
use super::output::Output;
use super::wish::{Outlook, PENDING, Wish, is_pending, outlook};
use super::{table, words};
use crate::app::{OsEntropy, WakefulClock};
use crate::domain::entropy::Entropy;
use crate::domain::lease::{AcquisitionId, Holder};
use crate::domain::resource::Path;
use crate::limits::{RUN_PAUSE_LEAST, RUN_RESOURCES};

/// Own a resource for a while.
#[derive(Subcommand)]
pub(super) enum Lease {
    /// Acquire a lease; its fencing token goes with each write
    ///
    /// When the answer is lost, the same command with the request id that is told then finds the same lease.
    Acquire(Acquire),
    /// Make a lease last from now on
    Renew(Renew),
    /// Hand a lease to a successor: the token grows, and what is printed is the successor's
    ///
    /// The lease that is handed over has ended then, and so has its token where the contract fences.
    Transfer(Transfer),
    /// Give a lease back
    Release(Release),
}

/// What `lease acquire` takes.
#[derive(Args)]
pub(super) struct Acquire {
    /// What to own, such as statements/account-42/2026-09-13
    #[arg(value_parser = words::name, required_unless_present = "more")]
    resource: Option<Path>,
    /// The same as an option; several times for several resources in one lease, all or none
    #[arg(long = "resource", id = "more", value_name = "RESOURCE", value_parser = words::name)]
    more: Vec<Path>,
    /// How long to try to acquire it, such as 60s [default: once]
    #[arg(long, value_name = "TIME", default_value = "0", hide_default_value = true, value_parser = words::length)]
    wait: Duration,
    /// A label for people; no decision depends on it
    #[arg(long, value_parser = words::holder)]
    holder: Option<Holder>,
    /// How long it lives without a renewal, such as 30s [default: the namespace's]
    #[arg(long, value_name = "TIME", value_parser = words::ttl_ms)]
    ttl: Option<u64>,
    /// Makes a repetition of this attempt find its lease, or its place in the queue [default: a new one]
    #[arg(long, value_name = "UUID")]
    request_id: Option<Uuid>,
}

/// What `lease renew` takes.
#[derive(Args)]
pub(super) struct Renew {
    /// The acquisition id that acquire returned
    #[arg(value_name = "ID", value_parser = words::acquisition)]
    acquisition: AcquisitionId,
    /// How long it lives from now, such as 30s [default: as before]
    #[arg(long, value_name = "TIME", value_parser = words::ttl_ms)]
    ttl: Option<u64>,
}

/// What `lease transfer` takes.
#[derive(Args)]
pub(super) struct Transfer {
    /// The acquisition id that acquire returned
    #[arg(value_name = "ID", value_parser = words::acquisition)]
    acquisition: AcquisitionId,
    /// The successor, for people
    #[arg(long, value_parser = words::holder)]
    holder: Holder,
    /// How long the successor's lease lives without a renewal, such as 30s [default: the namespace's]
    #[arg(long, value_name = "TIME", value_parser = words::ttl_ms)]
    ttl: Option<u64>,
    /// Makes a repetition find the same successor's lease [default: a new one]
    #[arg(long, value_name = "UUID")]
    request_id: Option<Uuid>,
}

/// What `lease release` takes.
#[derive(Args)]
pub(super) struct Release {
    /// The acquisition id that acquire returned
    #[arg(value_name = "ID", value_parser = words::acquisition)]
    acquisition: AcquisitionId,
}

impl Lease {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let answer = match self {
            Self::Acquire(acquire) => acquire.ask(client).await?,
            Self::Renew(Renew { acquisition, ttl }) => {
                let mut body = Map::new();
                body.extend(ttl.map(|ms| ("ttl_ms".to_owned(), Value::from(ms))));
                let request =
                    client.request(Method::POST, &format!("{}/renew", path(&acquisition))).json(&body);
                client.ask(request, "Run the same command again").await?
            }
            Self::Transfer(transfer) => transfer.ask(client).await?,
            Self::Release(Release { acquisition }) => {
                let request = client.request(Method::DELETE, &path(&acquisition));
                client.ask(request, "Run the same command again; releasing twice is no mistake").await?
            }
        };
        output.answer(&answer.raw, || told(&answer.json))
    }
}

impl Acquire {
    /// Asks until it is acquired, refused for good, or the time is over. All attempts are one request.
    async fn ask(self, client: &Client) -> Result<Answer, Failure> {
        let resources: Vec<Path> = self.resource.into_iter().chain(self.more).collect();
        if resources.len() > RUN_RESOURCES {
            return Err(Failure::Usage(format!("one lease names at most {RUN_RESOURCES} resources")));
        }
        let request_id = chosen(self.request_id)?;
        let again =
            format!("Run the same command again with --request-id {request_id}: it finds the same lease");
        let (wait, ttl_ms) = (self.wait, self.ttl);
        let wish = Wish { resources, holder: self.holder, ttl_ms, wait, request_id };
        let clock = WakefulClock::new();
        let end = clock.elapsed().saturating_add(wait);
        loop {
            let request = wish.request(client, end.saturating_sub(clock.elapsed()));
            let failure = match client.ask(request, &again).await {
                Ok(answer) if is_pending(&answer.json) => Failure::Pending(format!("{PENDING}. {again}")),
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let pause = match outlook(&failure) {
                Outlook::Settled => return Err(failure),
                Outlook::Open { pause } | Outlook::Doubtful { pause } => pause,
            };
            let left = end.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Err(failure);
            }
            // Once more at the very end: the owner may go at any moment.
            sleep(pause.max(RUN_PAUSE_LEAST).min(left)).await;
        }
    }
}

impl Transfer {
    async fn ask(self, client: &Client) -> Result<Answer, Failure> {
        let request_id = chosen(self.request_id)?;
        let mut body = Map::new();
        body.insert("holder".to_owned(), self.holder.as_str().into());
        body.insert("request_id".to_owned(), request_id.to_string().into());
        body.extend(self.ttl.map(|ms| ("ttl_ms".to_owned(), ms.into())));
        let request =
            client.request(Method::POST, &format!("{}/transfer", path(&self.acquisition))).json(&body);
        let again = format!(
            "Run the same command again with --request-id {request_id}: it finds the same successor's lease"
        );
        let answer = client.ask(request, &again).await?;
        if is_pending(&answer.json) {
            return Err(Failure::Pending(format!("{PENDING}. {again}")));
        }
        Ok(answer)
    }
}

fn chosen(given: Option<Uuid>) -> Result<Uuid, Failure> {
    given.map_or_else(fresh_id, Ok)
}

/// A request id that nobody else has.
pub(super) fn fresh_id() -> Result<Uuid, Failure> {
    let bytes = OsEntropy.draw().map_err(|error| Failure::Start(error.into()))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

fn path(acquisition: &AcquisitionId) -> String {
    format!("/v1/leases/{}", segment(acquisition.reveal()))
}

fn told(lease: &Value) -> String {
    let facts = table::facts(
        lease,
        &[
            ("resource", "/resource"),
            ("state", "/state"),
            ("holder", "/holder"),
            ("acquisition id", "/acquisition_id"),
            ("fencing token", "/fencing_token"),
            ("position", "/position"),
            ("incarnation", "/incarnation"),
            ("life", "/life"),
            ("left ms", "/remaining_ms"),
            ("renew after ms", "/renew_after_ms"),
            ("expires at", "/expires_at"),
            ("contract", "/contract"),
            ("policy", "/policy"),
        ],
    );
    let members = members(lease);
    if members.is_empty() {
        return facts;
    }
    let has_tokens = members.iter().any(|member| member.get("fencing_token").is_some());
    let columns = [("resource", "/resource"), ("position", "/position"), ("fencing token", "/fencing_token")];
    let columns = if has_tokens { &columns[..] } else { &columns[..2] };
    format!("{facts}\n\n{}", table::rows(&members, columns))
}

/// The resources of a lease over several, each with what belongs to it.
fn members(lease: &Value) -> Vec<Value> {
    let tokens = lease.pointer("/tokens").and_then(Value::as_object);
    let member = |(name, own): (&String, &Value)| {
        let mut member = own.clone();
        if let Value::Object(fields) = &mut member {
            fields.insert("resource".to_owned(), json!(name));
        }
        member
    };
    tokens.into_iter().flatten().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_over_several_resources_has_a_line_for_each() {
        let lease = json!({
            "acquisition_id": "id", "resources": ["a/b", "a/c"], "holder": null, "state": "held",
            "tokens": {
                "a/b": {"fencing_token": "0.1.x", "epoch": "0", "token": "1", "position": "0.1"},
                "a/c": {"fencing_token": "0.27.y", "epoch": "0", "token": "27", "position": "0.27"},
            },
        });
        assert_eq!(
            told(&lease),
            "state           held\nholder          -\nacquisition id  id\n\n\
             resource  position  fencing token\na/b       0.1       0.1.x\na/c       0.27      0.27.y"
        );
        let shown =
            json!({"state": "held", "tokens": {"a/b": {"position": "0.1"}, "a/c": {"position": "0.27"}}});
        assert_eq!(told(&shown), "state  held\n\nresource  position\na/b       0.1\na/c       0.27");
    }
}
