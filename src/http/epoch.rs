//! A new epoch of a namespace, or of all of them: the way out of a database that has gone back in time, or of an issuer
//! that has.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::domain::permission::Permission;
use crate::domain::subject::Subject;
use crate::protocol::whole::{Deed, WholeAct};
use crate::protocol::{Command, Outcome, Refusal};

use super::advance::reason_of;
use super::body::Payload;
use super::decide::{self, otherwise};
use super::json::Object;
use super::leases::control_body;
use super::names;
use super::problem::{self, About, Code, Problem};
use super::wire::{IDEMPOTENT_REPLAYED, JSON};
use super::{Asked, extract};

/// `POST /v1/namespaces/{namespace}/epoch`. The answer is the namespace as the call left it.
pub(super) async fn advance(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let subject = names::subject_within(&asked.head.uri, "/v1/namespaces", "/epoch")?;
    asked.require_whole(Permission::Admin, &subject)?;
    if let Subject::Namespace(name) = &subject {
        names::rules_of(name, asked.hall.namespaces())?;
    }
    extract::is_json(asked.headers())?;
    let body = control_body(&asked, payload).await?.bytes;
    let deed = deed(&asked, &subject, &body)?;
    let act = WholeAct { subject: subject.clone(), deed };
    let outcome = asked.decide(Command::Whole(act), decide::Subject::default(), None).await?;
    if let Outcome::Acted(done) = outcome {
        let mut response = (StatusCode::OK, [(CONTENT_TYPE, JSON)], Body::from(done.body)).into_response();
        if done.replayed {
            response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    Err(otherwise(&outcome, |refusal| refused(refusal, &subject)))
}

fn deed(asked: &Asked<'_>, subject: &Subject, body: &[u8]) -> Result<Deed, Problem> {
    let mut object = Object::read(body)?;
    object.only(&["reason", "confirm", "leave_open"])?;
    let (reason, confirm) = (object.text("reason")?, object.text("confirm")?);
    let leave_open = object.flag("leave_open")?.unwrap_or_default();
    let reason = reason_of(&object, reason)?;
    if confirm.as_deref() != Some(subject.as_str()) {
        let wanted = format!(
            "repeat the name of the namespace, {:?}: everything that was issued there so far is refused for ever",
            subject.as_str()
        );
        return Err(object.refuse("confirm", &wanted));
    }
    let Some(key) = extract::operation_id(asked.headers())? else {
        let detail =
            "send an Idempotency-Key: a copy of the call that comes late must not begin another epoch";
        return Err(Problem::new(Code::OperationIdRequired, detail));
    };
    Ok(Deed::AdvanceEpoch { key, reason, leave_open })
}

/// The key names no operation that could be asked for.
fn refused(refusal: &Refusal, subject: &Subject) -> Problem {
    if matches!(refusal, Refusal::OperationMismatch) {
        let detail = format!(
            "this Idempotency-Key stands for another call of this kind on {:?}; repeat that call exactly, or choose a new key",
            subject.as_str()
        );
        return Problem::new(Code::OperationMismatch, detail);
    }
    problem::refused(refusal, &About::default())
}
