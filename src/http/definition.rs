//! The definition of a namespace, when it changes: what that means, and the call that does it.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::permission::Permission;
use crate::domain::redefinition::Redefinition;
use crate::domain::resource::Namespace;
use crate::domain::subject;
use crate::ledger::read::ResourceFilter;
use crate::protocol::whole::{Deed, DefinitionChange, WholeAct};
use crate::protocol::{Command, Outcome, Refusal};

use super::advance::reason_of;
use super::body::Payload;
use super::decide::{Subject, otherwise};
use super::json::Object;
use super::leases::control_body;
use super::names;
use super::problem::{self, About, Code, Problem};
use super::wire::{IDEMPOTENT_REPLAYED, JSON};
use super::{Asked, Hall, extract};

/// What it would mean to make the configured definition the recorded one.
#[derive(Serialize)]
pub(super) struct ChangeJson {
    from: String,
    to: String,
    parts: Vec<PartJson>,
    /// Whether it could be made with what is there; only told where one namespace is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    possible: Option<bool>,
}

#[derive(Serialize)]
struct PartJson {
    key: &'static str,
    means: &'static str,
    only_without_resources: bool,
}

impl ChangeJson {
    pub(super) fn of(change: &Redefinition, has_resources: Option<bool>) -> Self {
        let parts = change.meanings().into_iter().map(|part| PartJson {
            key: part.key,
            means: part.means,
            only_without_resources: part.only_empty,
        });
        Self {
            from: change.from.to_string(),
            to: change.to.to_string(),
            parts: parts.collect(),
            possible: has_resources.map(|has| change.refusal(has).is_none()),
        }
    }
}

/// Whether a namespace has resources.
pub(super) async fn has_resources(hall: &Hall, name: &Namespace) -> Result<bool, Problem> {
    let filter = ResourceFilter { namespace: Some(name.clone()), limit: 1, ..ResourceFilter::default() };
    let found = hall.read(move |reader| reader.resources(filter)).await?;
    Ok(!found.is_empty())
}

/// `POST /v1/namespaces/{namespace}/definition`. The answer is the namespace as the call left it.
pub(super) async fn change(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let name = names::namespace_within(&asked.head.uri, "/v1/namespaces", "/definition")?;
    let subject = subject::Subject::Namespace(name.clone());
    asked.require_whole(Permission::Admin, &subject)?;
    names::rules_of(&name, asked.hall.namespaces())?;
    extract::is_json(asked.headers())?;
    let body = control_body(&asked, payload).await?.bytes;
    let (reason, version) = fields(&body, &name)?;
    let Some(key) = extract::operation_id(asked.headers())? else {
        let detail =
            "send an Idempotency-Key: a copy of the call that comes late must not change the definition back";
        return Err(Problem::new(Code::OperationIdRequired, detail));
    };
    let deed = Deed::ChangeDefinition(DefinitionChange { key, reason, version });
    let act = WholeAct { subject, deed };
    let outcome = asked.decide(Command::Whole(act), Subject::default(), None).await?;
    if let Outcome::Acted(done) = outcome {
        let mut response = (StatusCode::OK, [(CONTENT_TYPE, JSON)], Body::from(done.body)).into_response();
        if done.replayed {
            response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    Err(otherwise(&outcome, |refusal| {
        if let Refusal::OperationsOpen { open } = refusal {
            let names: Vec<String> =
                open.iter().map(|(resource, _, id)| format!("{id} on {resource}")).collect();
            let detail = format!(
                "effects are under way or uncertain: {}; wait for them, or resolve what is uncertain",
                names.join(", ")
            );
            return Problem::new(Code::OperationsOpen, detail);
        }
        problem::refused_call(refusal, &About::default())
    }))
}

fn fields(body: &[u8], name: &Namespace) -> Result<(String, u32), Problem> {
    let mut object = Object::read(body)?;
    object.only(&["reason", "confirm", "version"])?;
    let reason = object.text("reason")?;
    let reason = reason_of(&object, reason)?;
    if object.text("confirm")?.as_deref() != Some(name.as_str()) {
        return Err(object.refuse("confirm", &format!("repeat the name of the namespace, \"{name}\"")));
    }
    let version = object.number("version")?;
    let version = version
        .and_then(|version| u32::try_from(version).ok())
        .filter(|version| *version > 0)
        .ok_or_else(|| {
            object.refuse(
                "version",
                "name the version of the definition that you have looked at, as GET shows it",
            )
        })?;
    Ok((reason, version))
}
