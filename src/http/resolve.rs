//! Resolving: a person says how a doubt ended that the gateway cannot end by looking.

use axum::response::Response;

use crate::domain::permission::Permission;
use crate::limits::REASON_BYTES;
use crate::protocol::command::{Resolve, ResolveVerdict};
use crate::protocol::{Command, Outcome, Refusal};

use super::Asked;
use super::advance::reason_of;
use super::body::Payload;
use super::decide::{Subject, otherwise};
use super::json::Object;
use super::leases::control_body;
use super::problem::{self, About, Problem};
use super::resources::recorded_definition_holds;
use super::{extract, names, operations};

/// `POST /v1/operations/{operation_id}/resolve`. The answer is the operation.
pub(super) async fn resolve(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let id = names::operation_within(&asked.head.uri, "/v1/operations", "/resolve")?;
    let place = operations::place(&asked, Permission::Operate)?;
    let incarnation = operations::incarnation(&asked)?;
    extract::is_json(asked.headers())?;
    let body = control_body(&asked, payload).await?.bytes;
    let resource = place.address.resource.clone();
    let about = |problem: Problem| problem.about(&resource);
    let (verdict, evidence, reason) = fields(&body).map_err(about)?;
    recorded_definition_holds(asked.hall, &place).await?;
    let (name, wanted) = (resource.clone(), id.clone());
    let found = asked.hall.read(move |reader| reader.operation(name, wanted, incarnation)).await;
    let refused = |refusal: &Refusal| {
        let about = About { resource: Some(&resource), operation: Some(&id), ..About::default() };
        problem::refused(refusal, &about)
    };
    let Some(record) = found.map_err(about)? else { return Err(refused(&Refusal::NoSuchOperation)) };
    let command = Resolve {
        resource: resource.clone(),
        operation_id: id.clone(),
        incarnation: record.incarnation,
        verdict,
        evidence,
        reason,
    };
    let subject = Subject {
        resource: Some(resource.clone()),
        position: Some(record.position),
        operation: Some(id.clone()),
    };
    let outcome = asked.decide(Command::Resolve(command), subject, None).await?;
    if let Outcome::Resolved(record) = &outcome {
        return Ok(operations::shown(record));
    }
    Err(otherwise(&outcome, refused))
}

fn fields(body: &[u8]) -> Result<(ResolveVerdict, String, String), Problem> {
    let mut object = Object::read(body)?;
    object.only(&["verdict", "evidence", "reason"])?;
    let verdict = object.text("verdict")?;
    let verdict = verdict.as_deref().and_then(ResolveVerdict::from_word).ok_or_else(|| {
        object.refuse("verdict", "it says what became of the operation; write \"applied\" or \"not_applied\"")
    })?;
    let evidence = object.text("evidence")?.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        object
            .refuse("evidence", "it is missing; say what you saw in the store, for those who read the record")
    })?;
    if evidence.len() > REASON_BYTES || evidence.chars().any(char::is_control) {
        let detail = format!("at most {REASON_BYTES} bytes without control characters are taken");
        return Err(object.refuse("evidence", &detail));
    }
    let reason = object.text("reason")?;
    let reason = reason_of(&object, reason)?;
    Ok((verdict, evidence, reason))
}
