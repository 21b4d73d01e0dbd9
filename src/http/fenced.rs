//! The data plane: documents at their own address. A write is judged and stored in one transaction; a read shows what is
//! committed.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;

use crate::deliberate::{self, Bug};
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::operation::{Effect, Method};
use crate::domain::permission::{Permission, Rules};
use crate::domain::policy::Store;
use crate::domain::position::Position;
use crate::domain::precondition::Preconditions;
use crate::domain::resource::ResourceName;
use crate::ledger::read::DocumentRead;
use crate::limits::BODY_TIMEOUT;
use crate::protocol::command::{Member, Write};
use crate::protocol::outcome::{MemberVerdict, Written};
use crate::protocol::rows::{Life, Mark, NamespaceRow, ResourceRow, TargetRow};
use crate::protocol::{Command, Outcome, Refusal};

use super::body::{self, Allowance, Held, Payload, worked};
use super::decide::Subject;
use super::member::{Content, Draft, Words, body_of_removal};
use super::names::{self, Place};
use super::problem::{self, About, Code, Problem};
use super::query::Query;
use super::wire::{
    self, FENCING_COMMIT, FENCING_EFFECT, FENCING_FLOOR, FENCING_POSITION, IDEMPOTENT_REPLAYED,
};
use super::{Asked, extract, relay};

/// What a document takes.
const DOCUMENT_METHODS: &str = "GET, HEAD, PUT, POST, DELETE";

/// What a document without a content type is shown as.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

pub(super) const HEADERS: Words =
    Words { token: "Fencing-Token", operation_id: "Idempotency-Key", sequence: "Fencing-Sequence" };

/// What the store behind an address takes, as `Allow` lists it; none where the address leads to no store.
pub(super) fn methods_of(uri: &Uri, known: &Namespaces, rules: &Rules) -> Option<&'static str> {
    let place = names::place_below(uri, "/fenced", known).ok()?;
    if !rules.know(place.address.resource.namespace().as_str()) {
        return None;
    }
    let store = place.rules.definition.store;
    Some(store.class().map_or(DOCUMENT_METHODS, relay::methods_of))
}

/// PUT, POST, PATCH and DELETE.
pub(super) async fn write(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let early = deliberate::on(Bug::ReplayBeforeAuthorisation);
    let place = asked.place("/fenced", if early { Permission::Read } else { Permission::Write })?;
    if let Store::Http(class) = place.rules.definition.store {
        return relay::write(asked, place, class, payload).await;
    }
    Query::parse(&asked.head.uri, &[])?;
    if asked.head.method == axum::http::Method::PATCH {
        let detail = "PATCH is not allowed here; a document is replaced as a whole, with PUT or POST";
        return Err(Problem::method_not_allowed(detail.to_owned(), DOCUMENT_METHODS.to_owned()));
    }
    let resource = place.address.resource.clone();
    let (member, memory) =
        member(&asked, place, payload).await.map_err(|problem| problem.about(&resource))?;
    let subject = Subject {
        resource: Some(resource.clone()),
        position: Some(member.claim.position),
        operation: Some(member.operation_id.clone()),
    };
    let write = Write { members: vec![member], dry_run: false };
    match written(asked.decide(Command::Write(write), subject, Some(memory)).await?)? {
        Ok(written) => written.first().map(written_once).ok_or_else(Problem::fault),
        Err(members) => {
            Err(problem::refused_write(&members, false).unwrap_or_else(Problem::fault_without_change))
        }
    }
}

/// GET and HEAD.
pub(super) async fn read(asked: Asked<'_>) -> Result<Response, Problem> {
    let place = asked.place("/fenced", Permission::Read)?;
    if let Store::Http(class) = place.rules.definition.store {
        return relay::read(asked, place, class).await;
    }
    Query::parse(&asked.head.uri, &[])?;
    let preconditions = extract::preconditions(asked.headers())?;
    let with_body = asked.head.method == axum::http::Method::GET;
    let address = place.address.clone();
    let found = asked.hall.read(move |reader| reader.document(address, with_body)).await;
    let found = found.map_err(|problem| problem.about(&place.address.resource))?;
    in_force(found.namespace.as_ref(), &place.address.resource, &place.rules)?;
    let answer = document(found, &place, &preconditions, with_body)
        .map_err(|problem| problem.about(&place.address.resource))?;
    body::kept_in_bounds(answer, &asked.hall.bodies)
}

/// What became of a write: all of it is in the store, or nothing new is.
pub(super) fn written(outcome: Outcome) -> Result<Result<Vec<Written>, Vec<MemberVerdict>>, Problem> {
    match outcome {
        Outcome::Written(written) => Ok(Ok(written)),
        Outcome::NotWritten(members) => Ok(Err(members)),
        Outcome::Granted(_)
        | Outcome::Renewed(_)
        | Outcome::Released(_)
        | Outcome::Explained(_)
        | Outcome::Advanced(_)
        | Outcome::Controlled(_)
        | Outcome::Acted(_)
        | Outcome::Tidied
        | Outcome::Announced(_)
        | Outcome::Settled(_)
        | Outcome::Resolved(_)
        | Outcome::Barrier(_)
        | Outcome::Ahead(_)
        | Outcome::Refused(_) => Err(Problem::fault()),
    }
}

/// Holds the recorded definition against the configured one: under another one the same name may lead elsewhere.
pub(super) fn in_force(
    recorded: Option<&NamespaceRow>,
    resource: &ResourceName,
    rules: &NamespaceRules,
) -> Result<(), Problem> {
    let configured = rules.definition;
    match recorded {
        Some(row) if row.definition != configured => {
            let refusal = Refusal::DefinitionDiffers { recorded: row.definition, configured };
            Err(problem::refused(&refusal, &About { resource: Some(resource), ..About::default() }))
        }
        Some(_) | None => Ok(()),
    }
}

async fn member(
    asked: &Asked<'_>,
    place: Place,
    payload: &mut Payload,
) -> Result<(Member, OwnedSemaphorePermit), Problem> {
    let headers = asked.headers();
    let method = Method::from_word(asked.head.method.as_str()).ok_or_else(Problem::fault_without_change)?;
    extract::not_encoded(headers)?;
    let token = extract::token(headers, place.rules.definition.issuer)?;
    let operation_id = extract::operation_id(headers)?;
    let sequence = extract::sequence(headers)?;
    let incarnation = extract::incarnation(headers)?;
    let preconditions = extract::preconditions(headers)?;
    let content_type = extract::content_type(headers)?;
    extract::wait(headers)?;
    let Held { bytes: body, memory } = body_of(asked, method, &place, payload).await?;
    let ledger = asked.hall.door.ledger.clone();
    let length = body.len();
    let may_raise = asked.may(Permission::Advance, place.address.resource.as_str());
    let draft = Draft {
        place,
        may_raise,
        method,
        token,
        operation_id,
        sequence,
        incarnation,
        preconditions,
        content_type,
        content: Content::Document(body),
    };
    Ok((worked(length, move || draft.complete(&ledger, HEADERS)).await??, memory))
}

async fn body_of(
    asked: &Asked<'_>,
    method: Method,
    place: &Place,
    payload: &mut Payload,
) -> Result<Held, Problem> {
    let read = payload.read(&allowance(method, place), &asked.hall.bodies, BODY_TIMEOUT).await;
    read.map_err(|problem| in_words_of(method, problem))
}

/// How much a write may bring.
pub(super) fn allowance(method: Method, place: &Place) -> Allowance {
    let limit = match method {
        Method::Put | Method::Post | Method::Patch => place.rules.max_body_bytes,
        Method::Delete => 0,
    };
    Allowance { limit, whose: format!("namespace {:?}", place.address.resource.namespace()), copies: 1 }
}

/// Whatever a removal brings is too much, and is told so.
pub(super) fn in_words_of(method: Method, problem: Problem) -> Problem {
    match method {
        Method::Delete if problem.code() == Code::BodyTooLarge => body_of_removal(),
        Method::Put | Method::Post | Method::Patch | Method::Delete => problem,
    }
}

/// The answer of a write that is in the store. What it takes from the record is the same on a replay: status, `ETag`,
/// content type, position, commit, location and body.
fn written_once(written: &Written) -> Response {
    let saved = &written.response;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, wire::JSON);
    set(&mut headers, FENCING_EFFECT, Effect::Applied.word());
    set(&mut headers, FENCING_POSITION, &written.position.to_string());
    set(&mut headers, FENCING_FLOOR, &written.floor.to_string());
    if let Some(commit) = saved.commit {
        set(&mut headers, FENCING_COMMIT, &commit.to_string());
    }
    if let Some(tag) = saved.etag {
        set(&mut headers, ETAG, &tag.to_string());
    }
    let link =
        wire::operation_link(&written.operation_id, &written.address.resource, Some(written.incarnation));
    set(&mut headers, LOCATION, &link);
    if written.replayed {
        set(&mut headers, IDEMPOTENT_REPLAYED, "true");
    }
    (problem::status_saved(saved), headers, Body::from(saved.body.clone())).into_response()
}

fn document(
    found: DocumentRead,
    place: &Place,
    preconditions: &Preconditions,
    with_body: bool,
) -> Result<Response, Problem> {
    let floor = found.namespace.as_ref().zip(found.resource.as_ref());
    let floor = floor.map(|(namespace, resource)| resource.effective_floor(namespace.epoch));
    let Some(resource) = found.resource else { return Err(absent(place)) };
    if resource.life == Life::Deleted {
        return Err(deleted(&resource, place, floor));
    }
    let Some(target) = found.target else { return Err(absent(place)) };
    let headers = headers_of(&target, &resource, floor);
    let current = Some(target.tag);
    // If-Match comes first, and If-None-Match of a read means "not again" (RFC 9110 section 13.2.2).
    if preconditions.if_match.as_ref().is_some_and(|tags| !tags.matches_strongly(current)) {
        let detail = format!("If-Match does not hold: the ETag is {}; read the document again", target.tag);
        return Err(Problem::new(Code::PreconditionFailed, detail));
    }
    if preconditions.if_none_match.as_ref().is_some_and(|tags| tags.matches_weakly(current)) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    match (found.body, with_body) {
        (Some(body), true) => Ok((headers, Body::from(body)).into_response()),
        (_, false) => Ok((headers, Body::empty()).into_response()),
        // A target without its bytes is not a document.
        (None, true) => Err(Problem::fault_without_change()),
    }
}

fn headers_of(target: &TargetRow, resource: &ResourceRow, floor: Option<Position>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let content_type = target.content_type.as_ref().map(|value| HeaderValue::from_str(value.as_str()));
    headers.insert(CONTENT_TYPE, content_type.and_then(Result::ok).unwrap_or(BYTES));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(target.size));
    set(&mut headers, ETAG, &target.tag.to_string());
    set(&mut headers, FENCING_EFFECT, Effect::None.word());
    set(&mut headers, FENCING_COMMIT, &target.tag.commit.to_string());
    if let Some(applied) = resource.applied {
        set(&mut headers, FENCING_POSITION, &applied.position.to_string());
    }
    if let Some(floor) = floor {
        set(&mut headers, FENCING_FLOOR, &floor.to_string());
    }
    headers
}

pub(super) fn deleted(resource: &ResourceRow, place: &Place, floor: Option<Position>) -> Problem {
    let refusal = Refusal::Deleted { revoked_through: resource.revoked_through };
    let about = About { resource: Some(&place.address.resource), ..About::default() };
    let problem = problem::refused(&refusal, &about);
    match floor {
        Some(position) => problem.current(Mark { position, sequence: None }),
        None => problem,
    }
}

pub(super) fn absent(place: &Place) -> Problem {
    let detail = format!("no document is stored under {}; write one with PUT", place.address.full());
    Problem::new(Code::NotFound, detail)
}

pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
