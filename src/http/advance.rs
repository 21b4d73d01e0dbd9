//! Advancing: the floor is raised without a write; for registered issuers, a position is registered.

use axum::http::StatusCode;
use axum::response::Response;

use crate::domain::permission::Permission;
use crate::domain::policy::Contract;
use crate::limits::{BARRIER_WAIT, REASON_BYTES};
use crate::protocol::command::Advance;
use crate::protocol::rows::Mark;
use crate::protocol::{Command, Outcome};

use super::Asked;
use super::body::Payload;
use super::decide::{Subject, otherwise};
use super::json::Object;
use super::leases::control_body;
use super::names;
use super::problem::{self, About, Code, Problem};
use super::query::malformed;
use super::{extract, resources};

/// `POST /v1/advance/{name}`. The answer is the resource.
pub(super) async fn advance(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let place = asked.place("/v1/advance", Permission::Advance)?;
    let resource = place.address.resource.clone();
    extract::is_json(asked.headers())?;
    let body = control_body(&asked, payload).await?.bytes;
    let command = command(&asked, &place, &body).map_err(|problem| problem.about(&resource))?;
    let claim = command.claim;
    let subject =
        Subject { resource: Some(resource.clone()), position: Some(claim.position), operation: None };
    let outcome = asked.decide(Command::Advance(command), subject, None).await?;
    if let Outcome::Advanced(_) = outcome {
        let stands = barrier(&asked, &place).await;
        let mut response = resources::shown(asked.hall, &place).await.map_err(|_| not_shown(&resource))?;
        if !stands {
            *response.status_mut() = StatusCode::ACCEPTED;
        }
        return Ok(response);
    }
    Err(otherwise(&outcome, |refusal| {
        let presented = Some(Mark { position: claim.position, sequence: None });
        problem::refused(refusal, &About { resource: Some(&resource), presented, ..About::default() })
    }))
}

/// Under `immediate` an advance is answered as complete when nothing older can become authoritative any more.
async fn barrier(asked: &Asked<'_>, place: &names::Place) -> bool {
    let definition = &place.rules.definition;
    if definition.store.class().is_none() || definition.contract == Contract::Observed {
        return true;
    }
    let raised = asked.hall.door.dispatch.raise(&place.address.resource);
    matches!(tokio::time::timeout(BARRIER_WAIT, raised).await, Ok(Ok(())))
}

fn command(asked: &Asked<'_>, place: &names::Place, body: &[u8]) -> Result<Advance, Problem> {
    let mut object = Object::read(body)?;
    object.only(&["fencing_token", "reason"])?;
    let (token, reason) = (object.text("fencing_token")?, object.text("reason")?);
    let Some(token) = token else {
        return Err(Problem::new(Code::TokenRequired, "send fencing_token with the position to advance to"));
    };
    let issuer = place.rules.definition.issuer;
    let token = extract::token_of(&token, issuer, "fencing_token")?;
    if extract::token(asked.headers(), issuer)?.is_some_and(|header| header != token) {
        return Err(malformed("the header Fencing-Token and fencing_token differ; send one of the two"));
    }
    let reason = reason_of(&object, reason)?;
    let claim = asked.hall.door.ledger.claim(&place.address.resource, &token);
    Ok(Advance { resource: place.address.resource.clone(), claim, reason })
}

pub(super) fn reason_of(object: &Object, reason: Option<String>) -> Result<String, Problem> {
    let Some(reason) = reason.filter(|text| !text.trim().is_empty()) else {
        let detail = "reason is missing or empty; say why, for those who will read the record";
        return Err(Problem::new(Code::ReasonRequired, detail));
    };
    if reason.len() > REASON_BYTES {
        let found = format!("it has {} bytes; at most {REASON_BYTES} are taken", reason.len());
        return Err(object.refuse("reason", &found));
    }
    match reason.chars().enumerate().find(|(_, found)| found.is_control()) {
        None => Ok(reason),
        Some((index, found)) => {
            let (code, at) = (u32::from(found), index.saturating_add(1));
            let found = format!("it has a control character (U+{code:04X}) at position {at}; remove it");
            Err(object.refuse("reason", &found))
        }
    }
}

/// The floor is raised, and the answer could not be read back. Sending the same again is answered in full.
fn not_shown(resource: &crate::domain::resource::ResourceName) -> Problem {
    let detail = "the floor is raised, and the resource could not be read back; send the same request again";
    Problem::new(Code::CommitUnknown, detail).about(resource)
}
