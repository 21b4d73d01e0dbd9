//! Reads of stores behind HTTP: passed through as they come. Only a store with cells is read beside the gateway's own
//! record, which tells whether what it shows is what the gateway wrote last.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::dispatch::{ReadAnswer, ReadFailed, ReadOrder};
use crate::domain::operation::Effect;
use crate::domain::precondition::{EntityTag, Preconditions};
use crate::domain::upstream::{Class, Validator};
use crate::ledger::read::DocumentRead;
use crate::protocol::rows::Life;

use super::super::fenced::{absent, deleted, in_force, set};
use super::super::names::Place;
use super::super::problem::{self, Code, Problem};
use super::super::query::malformed;
use super::super::wire::{FENCING_COMMIT, FENCING_EFFECT, FENCING_FLOOR, FENCING_POSITION, FENCING_SOURCE};
use super::super::{Asked, extract};
use super::answer::relayed;

/// GET and HEAD.
pub(in super::super) async fn read(
    asked: Asked<'_>,
    place: Place,
    class: Class,
) -> Result<Response, Problem> {
    let resource = place.address.resource.clone();
    read_of(&asked, &place, class).await.map_err(|problem| problem.about(&resource))
}

async fn read_of(asked: &Asked<'_>, place: &Place, class: Class) -> Result<Response, Problem> {
    let namespace = place.address.resource.namespace();
    let dispatch = &asked.hall.door.dispatch;
    let upstream = dispatch.upstream(&namespace).ok_or_else(Problem::fault_without_change)?;
    if let Some(objection) = upstream.objection(&place.address.resource, asked.head.uri.query(), false) {
        return Err(malformed(objection));
    }
    let preconditions = extract::preconditions(asked.headers())?;
    let order = ReadOrder {
        address: place.address.clone(),
        head: asked.head.method == axum::http::Method::HEAD,
        query: asked.head.uri.query().map(str::to_owned),
        headers: super::allowed(asked, &upstream.store().forward_headers),
    };
    let recorded = recorded(asked, place, class).await?;
    let mut answer = dispatch.read(&namespace, order).await.map_err(failed)?;
    let known = recorded.as_ref().map(Known::of).unwrap_or_default();
    if answer.stamp.as_ref().is_some_and(|stamp| stamp.kind.is_empty()) {
        return Err(nothing(recorded.as_ref(), place));
    }
    let tag = known.tag_of(answer.etag.as_deref());
    if preconditions.if_match.as_ref().is_some_and(|tags| !tags.matches_strongly(tag)) {
        return Err(unmatched(&preconditions, tag));
    }
    if preconditions.if_none_match.as_ref().is_some_and(|tags| tags.matches_weakly(tag)) && tag.is_some() {
        let mut headers = headers_of(&mut answer, &known, tag);
        // The upstream answered with the content: it is the gateway that compares with its own validator.
        headers.remove(FENCING_SOURCE);
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let headers = headers_of(&mut answer, &known, tag);
    let mut response = Response::new(Body::new(answer.body));
    *response.status_mut() = problem::status_relayed(answer.status);
    *response.headers_mut() = headers;
    Ok(response)
}

/// What the gateway knows of a cell; the other classes have no record that a read could be held against.
async fn recorded(asked: &Asked<'_>, place: &Place, class: Class) -> Result<Option<DocumentRead>, Problem> {
    match class {
        Class::FenceAware | Class::Idempotent | Class::Serial => return Ok(None),
        Class::Conditional => {}
    }
    let address = place.address.clone();
    let found = asked.hall.read(move |reader| reader.document(address, false)).await?;
    in_force(found.namespace.as_ref(), &place.address.resource, &place.rules)?;
    Ok(Some(found))
}

/// The recorded state of a cell.
#[derive(Default)]
struct Known {
    validator: Option<Validator>,
    tag: Option<EntityTag>,
    applied: Option<String>,
    floor: Option<String>,
}

impl Known {
    fn of(found: &DocumentRead) -> Self {
        let floor = found.namespace.as_ref().zip(found.resource.as_ref());
        Self {
            validator: found.resource.as_ref().and_then(|row| row.cell.clone()),
            tag: found.target.as_ref().map(|target| target.tag),
            applied: found
                .resource
                .as_ref()
                .and_then(|row| row.applied)
                .map(|mark| mark.position.to_string()),
            floor: floor.map(|(namespace, row)| row.effective_floor(namespace.epoch).to_string()),
        }
    }

    /// The gateway's own validator, only if the upstream shows what is recorded.
    fn tag_of(&self, etag: Option<&str>) -> Option<EntityTag> {
        let shown = etag.and_then(Validator::parse)?;
        self.tag.filter(|_| self.validator.as_ref() == Some(&shown))
    }
}

/// The upstream's headers, and the gateway's word on them.
fn headers_of(answer: &mut ReadAnswer, known: &Known, tag: Option<EntityTag>) -> HeaderMap {
    let mut headers = std::mem::take(&mut answer.headers);
    relayed(&mut headers, answer.etag.as_deref());
    if let Some(length) = answer.length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers.insert(FENCING_EFFECT, HeaderValue::from_static(Effect::None.word()));
    if let Some(tag) = tag {
        set(&mut headers, ETAG, &tag.to_string());
        set(&mut headers, FENCING_COMMIT, &tag.commit.to_string());
        if let Some(applied) = &known.applied {
            set(&mut headers, FENCING_POSITION, applied);
        }
    }
    if let Some(floor) = &known.floor {
        set(&mut headers, FENCING_FLOOR, floor);
    }
    headers
}

/// A cell that shows nothing.
fn nothing(found: Option<&DocumentRead>, place: &Place) -> Problem {
    match found.and_then(|found| found.resource.as_ref()) {
        Some(row) if row.life == Life::Deleted => {
            let namespace = found.and_then(|found| found.namespace.as_ref());
            deleted(row, place, namespace.map(|namespace| row.effective_floor(namespace.epoch)))
        }
        Some(_) | None => absent(place),
    }
}

fn unmatched(preconditions: &Preconditions, tag: Option<EntityTag>) -> Problem {
    let wanted = preconditions.if_match.as_ref().map(ToString::to_string).unwrap_or_default();
    let detail = match tag {
        Some(tag) => format!("If-Match {wanted} does not hold: the ETag is {tag}; read again"),
        None => format!(
            "If-Match {wanted} does not hold: what the store shows is not what the gateway wrote last"
        ),
    };
    Problem::new(Code::PreconditionFailed, detail)
}

/// A read changes nothing, so it may always be sent again.
fn failed(failed: ReadFailed) -> Problem {
    let (what, reason) = match failed {
        ReadFailed::Unreachable(reason) => ("the upstream cannot be reached", reason),
        ReadFailed::TimedOut(reason) => ("the upstream did not answer in time", reason),
        ReadFailed::Broken(reason) => ("the upstream's answer cannot be relayed", reason),
    };
    tracing::info!(reason, "a read of an upstream failed");
    Problem::new(Code::UpstreamUnreachable, format!("{what}; send the request again in 1 s"))
}
