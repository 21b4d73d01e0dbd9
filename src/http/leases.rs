//! Leases: acquire, show, renew, release. Only the answer to an acquire shows the sealed token.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::Response;
use serde::Serialize;
use uuid::Uuid;

use crate::domain::counter::{Epoch, Incarnation, Token};
use crate::domain::lease::{AcquisitionId, Holder, LeaseState};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::Millis;
use crate::limits::{BODY_TIMEOUT, CONTROL_BODY_BYTES, RETRY_LEASE_LEAST};
use crate::protocol::command::{Acquire, Release, Renew};
use crate::protocol::outcome::{Grant, LeaseView};
use crate::protocol::{Command, Outcome, Refusal};

use super::body::{Allowance, Held, Payload};
use super::decide::Subject;
use super::fenced::in_force;
use super::json::Object;
use super::names::{self, Place};
use super::problem::{self, About, Code, Problem};
use super::query::malformed;
use super::wire::{self, Rfc3339, Shown};
use super::{Asked, Hall, extract};

const PREFIX: &str = "/v1/leases";

/// Callers are not told apart yet.
const ANYBODY: &str = "anonymous";

const ACQUIRE_FIELDS: &[&str] = &["resource", "resources", "holder", "ttl_ms", "wait_ms", "request_id"];

#[derive(Serialize)]
struct LeaseJson<'a> {
    acquisition_id: &'a str,
    resource: &'a str,
    holder: Option<&'a str>,
    request_id: Shown<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<&'a str>,
    epoch: Shown<Epoch>,
    token: Shown<Token>,
    position: Shown<Position>,
    incarnation: Shown<Incarnation>,
    life: &'static str,
    state: &'static str,
    ttl_ms: u64,
    remaining_ms: u64,
    renew_after_ms: u64,
    expires_at: Rfc3339,
    contract: &'static str,
    policy: &'static str,
    cancel_requested: bool,
}

/// `POST /v1/leases`.
pub(super) async fn acquire(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let key = request_key(&asked)?;
    extract::is_json(asked.headers())?;
    let mut object = Object::read(&control_body(&asked, payload).await?.bytes)?;
    let place = place_of(&mut object, asked.hall)?;
    let resource = place.address.resource.clone();
    let command =
        acquire_command(object, key, place, asked.hall).map_err(|problem| problem.about(&resource))?;
    let subject = Subject { resource: Some(resource.clone()), ..Subject::default() };
    match asked.hall.decide(Command::Acquire(command), subject, None).await? {
        Outcome::Granted(grant) => Ok(granted(&grant)),
        Outcome::Refused(refusal) => Err(not_granted(&refusal, &resource, asked.hall)),
        Outcome::Renewed(_)
        | Outcome::Released(_)
        | Outcome::Written(_)
        | Outcome::NotWritten(_)
        | Outcome::Explained(_)
        | Outcome::Advanced(_) => Err(Problem::fault()),
    }
}

/// `GET /v1/leases/{acquisition_id}`.
pub(super) async fn show(asked: Asked<'_>) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "")?;
    let (bucket, hash) = (id.bucket(), id.hash());
    let Some(found) = asked.hall.read(move |reader| reader.lease(bucket, hash)).await? else {
        return Err(problem::refused(&Refusal::NoSuchLease, &About::default()));
    };
    let resource = &found.lease.resource;
    let rules = names::rules_of(&resource.namespace(), asked.hall.namespaces())?;
    in_force(Some(&found.namespace), resource, &rules)?;
    let view = found.lease.view_at(found.now, &found.resource, &found.namespace);
    Ok(wire::json(StatusCode::OK, &lease(id.reveal(), &view, None)))
}

/// `POST /v1/leases/{acquisition_id}/renew`.
pub(super) async fn renew(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "/renew")?;
    if !payload.is_absent() {
        extract::not_encoded(asked.headers())?;
    }
    let body = control_body(&asked, payload).await?.bytes;
    let ttl_ms = if body.is_empty() {
        None
    } else {
        extract::is_json(asked.headers())?;
        let mut object = Object::read(&body)?;
        object.only(&["ttl_ms"])?;
        object.number("ttl_ms")?
    };
    let command = Command::Renew(Renew { bucket: id.bucket(), acquisition: id.hash(), ttl_ms });
    ended_or_shown(&asked, &id, command).await
}

/// `DELETE /v1/leases/{acquisition_id}`.
pub(super) async fn release(asked: Asked<'_>) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "")?;
    let command = Command::Release(Release { bucket: id.bucket(), acquisition: id.hash() });
    ended_or_shown(&asked, &id, command).await
}

async fn ended_or_shown(
    asked: &Asked<'_>,
    id: &AcquisitionId,
    command: Command,
) -> Result<Response, Problem> {
    match asked.hall.decide(command, Subject::default(), None).await? {
        Outcome::Renewed(view) | Outcome::Released(view) => {
            Ok(wire::json(StatusCode::OK, &lease(id.reveal(), &view, None)))
        }
        Outcome::Refused(refusal) => Err(problem::refused(&refusal, &About::default())),
        Outcome::Granted(_)
        | Outcome::Written(_)
        | Outcome::NotWritten(_)
        | Outcome::Explained(_)
        | Outcome::Advanced(_) => Err(Problem::fault()),
    }
}

/// A small JSON body, whole.
pub(super) async fn control_body(asked: &Asked<'_>, payload: &mut Payload) -> Result<Held, Problem> {
    let limit = u64::try_from(CONTROL_BODY_BYTES).unwrap_or(u64::MAX);
    let allowance = Allowance { limit, whose: "this call".to_owned(), copies: 1 };
    payload.read(&allowance, &asked.hall.bodies, BODY_TIMEOUT).await
}

/// The request id in the header, which is a UUID here.
fn request_key(asked: &Asked<'_>) -> Result<Option<Uuid>, Problem> {
    let Some(id) = extract::operation_id(asked.headers())? else { return Ok(None) };
    uuid_of(id.as_str()).map(Some).ok_or_else(|| {
        let detail = "the Idempotency-Key of an acquire is its request id: a UUID of 36 characters, such as \
                      5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d";
        Problem::new(Code::InvalidOperationId, detail)
    })
}

/// One spelling, in either case: 36 characters with hyphens.
fn uuid_of(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten()
}

fn place_of(object: &mut Object, hall: &Hall) -> Result<Place, Problem> {
    object.only(ACQUIRE_FIELDS)?;
    let (one, several) = (object.text("resource")?, object.list("resources")?);
    let name = match (one, several) {
        (Some(name), None) => name,
        (None, Some(list)) => only_one(object, list)?,
        (Some(_), Some(_)) => {
            return Err(
                object.refuse("resources", "resource is given too; name what to own in one of the two")
            );
        }
        (None, None) => {
            return Err(object.refuse("resource", "it is missing; name what to own, as namespace/name"));
        }
    };
    names::place_of(&name, hall.namespaces())
}

fn only_one(object: &Object, list: Vec<serde_json::Value>) -> Result<String, Problem> {
    let count = list.len();
    let mut names = list.into_iter();
    match (names.next(), names.next()) {
        (Some(serde_json::Value::String(name)), None) => Ok(name),
        (Some(_), None) => Err(object.refuse("resources[0]", "it is not a string; write namespace/name")),
        (None, _) => Err(object.refuse("resources", "it is empty; name one resource")),
        (Some(_), Some(_)) => {
            let reason =
                format!("it names {count}; several resources in one lease come in a later version, name one");
            Err(object.refuse("resources", &reason))
        }
    }
}

fn acquire_command(
    mut object: Object,
    key: Option<Uuid>,
    place: Place,
    hall: &Hall,
) -> Result<Acquire, Problem> {
    let holder = object.text("holder")?;
    let holder = holder.as_deref().map(Holder::parse).transpose();
    let holder = holder.map_err(|error| object.refuse("holder", &error.to_string()))?;
    let ttl_ms = object.number("ttl_ms")?;
    if object.number("wait_ms")?.is_some_and(|wait| wait > 0) {
        return Err(object.refuse(
            "wait_ms",
            "waiting for a held lease comes in a later version; leave it out and acquire again after Retry-After",
        ));
    }
    let request_id = match object.text("request_id")? {
        None => None,
        Some(text) => Some(uuid_of(&text).ok_or_else(|| {
            object.refuse("request_id", "it is not a UUID of 36 characters; make a new one for each attempt")
        })?),
    };
    let request_id = match (key, request_id) {
        (Some(key), Some(field)) if key != field => {
            return Err(malformed(
                "Idempotency-Key and request_id differ; they are one id: send one, or the same twice",
            ));
        }
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => uuid::Builder::from_random_bytes(drawn(hall)?).into_uuid(),
    };
    Ok(Acquire {
        resource: place.address.resource,
        holder,
        ttl_ms,
        request_id,
        principal: ANYBODY,
        nonce: drawn(hall)?,
    })
}

/// Without randomness nothing is issued.
fn drawn(hall: &Hall) -> Result<[u8; 16], Problem> {
    hall.door.entropy.draw().map_err(|error| {
        tracing::error!(%error, "nothing can be issued");
        Problem::fault_without_change()
    })
}

fn not_granted(refusal: &Refusal, resource: &ResourceName, hall: &Hall) -> Problem {
    let problem = problem::refused(refusal, &About { resource: Some(resource), ..About::default() });
    match jittered(refusal, hall) {
        Some(wait) => problem.retry_after(wait),
        None => problem,
    }
}

/// Waiting callers come back at different times, and early ones may be lucky: the owner may release before the end.
fn jittered(refusal: &Refusal, hall: &Hall) -> Option<Duration> {
    let Refusal::LeaseHeld { remaining, .. } = refusal else { return None };
    let drawn = hall.door.entropy.draw().unwrap_or_default();
    let (first, _) = drawn.split_at(8);
    let chance = u64::from_be_bytes(first.try_into().unwrap_or_default());
    Some(within(RETRY_LEASE_LEAST, remaining.duration(), chance))
}

fn within(least: Duration, most: Duration, chance: u64) -> Duration {
    let (least, most) = (least.min(most), most);
    let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
    least
        .saturating_add(Duration::from_millis(chance.checked_rem(span.saturating_add(1)).unwrap_or_default()))
}

fn granted(grant: &Grant) -> Response {
    let id = grant.acquisition_id.reveal();
    let status = if grant.repeated { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = wire::json(status, &lease(id, &grant.view, Some(&grant.fencing_token.0)));
    if let Ok(location) = HeaderValue::from_str(&format!("{PREFIX}/{id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn lease<'a>(id: &'a str, view: &'a LeaseView, fencing_token: Option<&'a str>) -> LeaseJson<'a> {
    let row = &view.lease;
    LeaseJson {
        acquisition_id: id,
        resource: row.resource.as_str(),
        holder: row.holder.as_ref().map(Holder::as_str),
        request_id: Shown(row.request_id),
        fencing_token,
        epoch: Shown(row.position.epoch),
        token: Shown(row.position.token),
        position: Shown(row.position),
        incarnation: Shown(view.incarnation),
        life: view.life.word(),
        state: view.state.word(),
        ttl_ms: row.ttl.millis().get(),
        remaining_ms: view.remaining.get(),
        renew_after_ms: renew_after(view.state, view.remaining, row.ttl.millis()),
        expires_at: Rfc3339(row.expires_at),
        contract: view.contract.word(),
        policy: view.policy.word(),
        // Cancelling comes in a later version; until then nobody can have asked for it.
        cancel_requested: false,
    }
}

/// A third of the ttl is used up, two thirds are left for attempts that fail.
fn renew_after(state: LeaseState, remaining: Millis, ttl: Millis) -> u64 {
    let kept = ttl.get().saturating_mul(2).div_euclid(3);
    match state {
        LeaseState::Held => remaining.get().saturating_sub(kept),
        LeaseState::Released | LeaseState::Expired | LeaseState::Superseded => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_renewed_when_a_third_of_it_is_gone() {
        let at = |remaining| renew_after(LeaseState::Held, Millis::new(remaining), Millis::new(30_000));
        assert_eq!((at(30_000), at(29_400), at(20_000), at(5)), (10_000, 9_400, 0, 0));
    }

    #[test]
    fn a_wait_lies_between_a_moment_and_the_end_of_the_lease() {
        let (least, most) = (Duration::from_millis(50), Duration::from_secs(21));
        assert_eq!(within(least, most, 0), least);
        assert_eq!(within(least, most, 20_950), most);
        assert!((least..=most).contains(&within(least, most, u64::MAX)));
        assert_eq!(within(least, Duration::from_millis(3), 7), Duration::from_millis(3));
    }

    #[test]
    fn a_request_id_has_one_spelling_in_either_case() {
        let lower = uuid_of("5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d");
        assert_eq!(lower, uuid_of("5B0C7A52-0D2E-4C8E-9F57-3F1F8C1A6B2D"));
        assert!(lower.is_some());
        assert_eq!(uuid_of("5b0c7a520d2e4c8e9f573f1f8c1a6b2d"), None);
        assert_eq!(uuid_of("{5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b}"), None);
    }
}
