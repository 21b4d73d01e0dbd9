//! Revoke, cancel and reopen. As owner a call carries `Fencing-Token`; without one it is an operator's.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::domain::permission::Permission;
use crate::protocol::control::{Control, ControlVerb};
use crate::protocol::rows::Mark;
use crate::protocol::{Command, Outcome};

use super::advance::reason_of;
use super::body::Payload;
use super::decide::{Subject, otherwise};
use super::json::Object;
use super::leases::control_body;
use super::names::Place;
use super::problem::{self, About, Code, Problem};
use super::query::malformed;
use super::wire::{IDEMPOTENT_REPLAYED, JSON};
use super::{Asked, extract};

/// `POST /v1/revoke/{name}`, `/v1/cancel/{name}` and `/v1/reopen/{name}`. The answer is the resource as the call left it,
/// without its targets.
pub(super) async fn control(
    asked: Asked<'_>,
    payload: &mut Payload,
    verb: ControlVerb,
) -> Result<Response, Problem> {
    let prefix = match verb {
        ControlVerb::Revoke => "/v1/revoke",
        ControlVerb::Cancel => "/v1/cancel",
        ControlVerb::Reopen => "/v1/reopen",
    };
    // Which of the two a caller must be only the token tells; whoever is neither is told nothing of it.
    let place = asked.place_for_any(prefix, &[Permission::Write, Permission::Operate])?;
    let resource = place.address.resource.clone();
    extract::is_json(asked.headers())?;
    let body = control_body(&asked, payload).await?.bytes;
    let command = command(&asked, &place, verb, &body).map_err(|problem| problem.about(&resource))?;
    let needed = match (&command.claim, place.rules.definition.issuer.is_external()) {
        (None, _) => Permission::Operate,
        (Some(_), false) => Permission::Write,
        // Nothing seals the positions of other issuers: whoever names one need not own anything.
        (Some(_), true) => Permission::Advance,
    };
    asked.require(needed, resource.as_str())?;
    let (position, operation) = (command.claim.map(|claim| claim.position), command.key.clone());
    let subject = Subject { resource: Some(resource.clone()), position, operation: None };
    let outcome = asked.decide(Command::Control(command), subject, None).await?;
    if let Outcome::Controlled(done) = outcome {
        // What is under way is driven to its end, and kept from becoming authoritative where the store can do that.
        let status = if done.in_flight.is_empty() {
            StatusCode::OK
        } else {
            drop(asked.hall.door.dispatch.raise(&resource));
            StatusCode::ACCEPTED
        };
        let mut response = (status, [(CONTENT_TYPE, JSON)], Body::from(done.body)).into_response();
        if done.replayed {
            response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    Err(otherwise(&outcome, |refusal| {
        let presented = position.map(|position| Mark { position, sequence: None });
        let (resource, operation) = (Some(&resource), operation.as_ref());
        problem::refused_call(refusal, &About { resource, presented, operation, ..About::default() })
    }))
}

fn command(asked: &Asked<'_>, place: &Place, verb: ControlVerb, body: &[u8]) -> Result<Control, Problem> {
    let mut object = Object::read(body)?;
    object.only(&["fencing_token", "reason"])?;
    let (token, reason) = (object.text("fencing_token")?, object.text("reason")?);
    let issuer = place.rules.definition.issuer;
    let token = token.map(|token| extract::token_of(&token, issuer, "fencing_token")).transpose()?;
    let header = extract::token(asked.headers(), issuer)?;
    let token = match (token, header) {
        (Some(token), Some(header)) if token != header => {
            return Err(malformed("the header Fencing-Token and fencing_token differ; send one of the two"));
        }
        (Some(token), _) | (None, Some(token)) => Some(token),
        (None, None) => None,
    };
    let reason = reason_of(&object, reason)?;
    let key = extract::operation_id(asked.headers())?;
    if verb == ControlVerb::Reopen && key.is_none() {
        let detail = "send an Idempotency-Key: a copy of a reopen that comes late must not reopen what was cancelled again";
        return Err(Problem::new(Code::OperationIdRequired, detail));
    }
    let resource = place.address.resource.clone();
    let claim = token.map(|token| asked.hall.door.ledger.claim(&resource, &token));
    Ok(Control { verb, resource, claim, reason, key })
}
