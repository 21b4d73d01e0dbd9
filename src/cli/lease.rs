//! `fencegate lease`: acquire, renew, release.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::client::{Client, segment};
use super::failure::Failure;
use super::output::Output;
use super::{table, words};
use crate::app::OsEntropy;
use crate::domain::entropy::Entropy;
use crate::domain::lease::{AcquisitionId, Holder};
use crate::domain::resource::Path;

/// Own a resource for a while.
#[derive(Subcommand)]
pub(super) enum Lease {
    /// Acquire a lease; its fencing token goes with each write
    ///
    /// When the answer is lost, the same command with the request id that is told then finds the same lease.
    Acquire(Acquire),
    /// Make a lease last from now on
    Renew(Renew),
    /// Give a lease back
    Release(Release),
}

/// What `lease acquire` takes.
#[derive(Args)]
pub(super) struct Acquire {
    /// What to own, such as statements/account-42/2026-09-13
    #[arg(value_parser = words::name)]
    resource: Path,
    /// A label for people; no decision depends on it
    #[arg(long, value_parser = words::holder)]
    holder: Option<Holder>,
    /// How long it lives without a renewal, such as 30s [default: the namespace's]
    #[arg(long, value_name = "TIME", value_parser = words::ttl_ms)]
    ttl: Option<u64>,
    /// Makes a repetition of this attempt find its lease [default: a new one]
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
            Self::Release(Release { acquisition }) => {
                let request = client.request(Method::DELETE, &path(&acquisition));
                client.ask(request, "Run the same command again; releasing twice is no mistake").await?
            }
        };
        output.answer(&answer.raw, || told(&answer.json))
    }
}

impl Acquire {
    async fn ask(self, client: &Client) -> Result<super::answer::Answer, Failure> {
        let request_id = match self.request_id {
            Some(given) => given,
            None => fresh_id()?,
        };
        let mut body = Map::new();
        body.insert("resource".to_owned(), self.resource.as_str().into());
        body.insert("request_id".to_owned(), request_id.to_string().into());
        body.extend(self.holder.map(|holder| ("holder".to_owned(), holder.as_str().into())));
        body.extend(self.ttl.map(|ms| ("ttl_ms".to_owned(), ms.into())));
        let again =
            format!("Run the same command again with --request-id {request_id}: it finds the same lease");
        client.ask(client.request(Method::POST, "/v1/leases").json(&body), &again).await
    }
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
    table::facts(
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
    )
}
