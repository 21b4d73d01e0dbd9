//! Transfer: a lease is handed to a named successor, and the caller gets the successor's lease to hand over.

use axum::response::Response;

use crate::protocol::command::Transfer;
use crate::protocol::{Command, Outcome};

use super::acquire::{behind_barriers, drawn, holder_of, request_id, request_key};
use super::body::Payload;
use super::decide::{Subject, otherwise};
use super::json::Object;
use super::leases::{PREFIX, control_body};
use super::problem::{self, About, Problem};
use super::{Asked, extract, leases, names};

/// `POST /v1/leases/{acquisition_id}/transfer`.
pub(super) async fn transfer(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "/transfer")?;
    leases::leased(&asked, &id).await?;
    let key = request_key(&asked)?;
    extract::is_json(asked.headers())?;
    let mut object = Object::read(&control_body(&asked, payload).await?.bytes)?;
    object.only(&["holder", "ttl_ms", "request_id"])?;
    let Some(holder) = holder_of(&mut object)? else {
        return Err(object.refuse("holder", "it is missing; name the successor"));
    };
    let ttl_ms = object.number("ttl_ms")?;
    let command = Transfer {
        bucket: id.bucket(),
        acquisition: id.hash(),
        holder,
        ttl_ms,
        request_id: request_id(&mut object, key, asked.hall)?,
        nonce: drawn(asked.hall)?,
    };
    let again = Command::Transfer(command.clone());
    let outcome = asked.decide(Command::Transfer(command), Subject::default(), None).await?;
    if let Outcome::Granted(grant) = outcome {
        return behind_barriers(asked.hall, *grant, again, None).await;
    }
    Err(otherwise(&outcome, |refusal| problem::refused(refusal, &About::default())))
}
