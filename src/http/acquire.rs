//! Acquiring: one resource or several, at once or after a wait. Only the answer to an acquire or a transfer shows sealed
//! tokens.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::Response;
use serde_json::Value;
use uuid::Uuid;

use crate::domain::lease::{Holder, LeaseState};
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::permission::Permission;
use crate::domain::resource::ResourceName;
use crate::limits::{BARRIER_WAIT, RETRY_AFTER, RETRY_LEASE_LEAST, WAIT_MS};
use crate::protocol::command::{Acquire, MAX_RESOURCES};
use crate::protocol::outcome::{Blocked, Blocker, Grant};
use crate::protocol::{Command, Outcome, Refusal};

use super::body::Payload;
use super::decide::{Subject, otherwise};
use super::json::{Object, shown as shown_name};
use super::leases::{self, PREFIX, control_body};
use super::problem::{self, About, Code, Problem};
use super::query::malformed;
use super::{Asked, Hall, extract, warning, wire};

const FIELDS: &[&str] = &["resource", "resources", "holder", "ttl_ms", "wait_ms", "request_id"];

/// Longest that a refused caller is told to wait before it asks again: the lease may be given back long before its end.
const RETRY_LEASE_MOST: Duration = Duration::from_secs(30);

/// `POST /v1/leases`.
pub(super) async fn acquire(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    asked.require_any(Permission::Lease)?;
    let key = request_key(&asked)?;
    extract::is_json(asked.headers())?;
    let mut object = Object::read(&control_body(&asked, payload).await?.bytes)?;
    let resources = resources_of(&mut object, &asked)?;
    // A place that nobody can name is kept for nobody.
    let keeps_place = key.is_some() || object.has("request_id");
    let shown = shown(&resources);
    let several = if shown.is_none() { resources.clone() } else { Vec::new() };
    let (command, wait) =
        command(object, key, resources, &asked).map_err(|problem| about(problem, shown.as_ref()))?;
    let ttl_ms = command.ttl_ms;
    let again = Command::Acquire(command.clone());
    let subject = Subject { resource: shown.clone(), ..Subject::default() };
    let outcome = match wait {
        None => asked.decide(Command::Acquire(command), subject, None).await?,
        Some(budget) => asked.wait(command, subject, budget, keeps_place).await?,
    };
    if let Outcome::Granted(grant) = outcome {
        // Every resource of it was asked about above.
        asked.hall.permitted.note(grant.acquisition_id.hash(), asked.caller);
        return behind_barriers(asked.hall, *grant, again, wait).await;
    }
    Err(otherwise(&outcome, |refusal| {
        let named = shown.or_else(|| culprit(refusal, &several, ttl_ms, asked.hall.namespaces()));
        not_granted(refusal, named.as_ref(), asked.hall)
    }))
}

/// The resource that answers and log lines name: none of several.
fn shown(resources: &[ResourceName]) -> Option<ResourceName> {
    match resources {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Of several resources, the one whose namespace stands against the request as a whole.
fn culprit(
    refusal: &Refusal,
    resources: &[ResourceName],
    ttl_ms: Option<u64>,
    namespaces: &Namespaces,
) -> Option<ResourceName> {
    let stands_against = |rules: &NamespaceRules| {
        if matches!(refusal, Refusal::IssuerExternal) {
            return rules.definition.issuer.is_external();
        }
        matches!(refusal, Refusal::TtlOutOfBounds(_)) && rules.ttl_in_force().admit(ttl_ms).is_err()
    };
    let rules = |name: &&ResourceName| namespaces.rules(&name.namespace()).is_some_and(stands_against);
    resources.iter().find(rules).cloned()
}

fn about(problem: Problem, resource: Option<&ResourceName>) -> Problem {
    match resource {
        Some(resource) => problem.about(resource),
        None => problem,
    }
}

/// The request id in the header, which is a UUID here.
pub(super) fn request_key(asked: &Asked<'_>) -> Result<Option<Uuid>, Problem> {
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

/// The resources in canonical order, each once.
fn resources_of(object: &mut Object, asked: &Asked<'_>) -> Result<Vec<ResourceName>, Problem> {
    object.only(FIELDS)?;
    let (one, several) = (object.text("resource")?, object.list("resources")?);
    let names = match (one, several) {
        (Some(name), None) => vec![name],
        (None, Some(list)) => texts(object, list)?,
        (Some(_), Some(_)) => {
            return Err(
                object.refuse("resources", "resource is given too; name what to own in one of the two")
            );
        }
        (None, None) => {
            return Err(object.refuse("resource", "it is missing; name what to own, as namespace/name"));
        }
    };
    let mut resources: Vec<ResourceName> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let place = asked.place_of(name, Permission::Lease);
        let place = place.map_err(|problem| match names.len() {
            1 => problem,
            _ => problem.within(&format!("resources[{index}] ({:?}): ", shown_name(name))),
        })?;
        let resource = place.address.resource;
        if resources.contains(&resource) {
            let reason = format!("it names {resource} twice; name each resource once");
            return Err(object.refuse("resources", &reason));
        }
        resources.push(resource);
    }
    resources.sort_unstable();
    Ok(resources)
}

fn texts(object: &Object, list: Vec<Value>) -> Result<Vec<String>, Problem> {
    if list.is_empty() || list.len() > MAX_RESOURCES {
        let reason = format!("it names {}; one acquisition takes 1 to {MAX_RESOURCES} resources", list.len());
        return Err(object.refuse("resources", &reason));
    }
    let mut names = Vec::with_capacity(list.len());
    for (index, item) in list.into_iter().enumerate() {
        let Value::String(name) = item else {
            let field = format!("resources[{index}]");
            return Err(object.refuse(&field, "it is not a string; write namespace/name"));
        };
        names.push(name);
    }
    Ok(names)
}

fn command(
    mut object: Object,
    key: Option<Uuid>,
    resources: Vec<ResourceName>,
    asked: &Asked<'_>,
) -> Result<(Acquire, Option<Duration>), Problem> {
    let hall = asked.hall;
    let holder = holder_of(&mut object)?;
    let ttl_ms = object.number("ttl_ms")?;
    let wait = wait_of(&mut object)?;
    let request_id = request_id(&mut object, key, hall)?;
    let nonce = drawn(hall)?;
    let acquire = Acquire {
        resources,
        holder,
        ttl_ms,
        request_id,
        principal: asked.caller.name().clone(),
        nonce,
        wait: None,
    };
    Ok((acquire, wait))
}

/// A label for people.
pub(super) fn holder_of(object: &mut Object) -> Result<Option<Holder>, Problem> {
    let holder = object.text("holder")?;
    let holder = holder.as_deref().map(Holder::parse).transpose();
    holder.map_err(|error| object.refuse("holder", &error.to_string()))
}

/// Zero and absent mean: do not wait. Out of bounds is refused, never shortened silently.
fn wait_of(object: &mut Object) -> Result<Option<Duration>, Problem> {
    match object.number("wait_ms")? {
        None | Some(0) => Ok(None),
        Some(wait) if wait <= WAIT_MS => Ok(Some(Duration::from_millis(wait))),
        Some(wait) => {
            let reason = format!(
                "it is {wait}; one request waits at most {WAIT_MS} ms, and goes on waiting in the next one with the same \
                 request id"
            );
            Err(object.refuse("wait_ms", &reason))
        }
    }
}

/// The id in header or body, or one made here.
pub(super) fn request_id(object: &mut Object, key: Option<Uuid>, hall: &Hall) -> Result<Uuid, Problem> {
    let field = match object.text("request_id")? {
        None => None,
        Some(text) => Some(uuid_of(&text).ok_or_else(|| {
            object.refuse("request_id", "it is not a UUID of 36 characters; make a new one for each attempt")
        })?),
    };
    match (key, field) {
        (Some(key), Some(field)) if key != field => Err(malformed(
            "Idempotency-Key and request_id differ; they are one id: send one, or the same twice",
        )),
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => Ok(uuid::Builder::from_random_bytes(drawn(hall)?).into_uuid()),
    }
}

/// Without randomness nothing is issued.
pub(super) fn drawn(hall: &Hall) -> Result<[u8; 16], Problem> {
    hall.door.entropy.draw().map_err(|error| {
        tracing::error!(%error, "nothing can be issued");
        Problem::fault_without_change()
    })
}

fn not_granted(refusal: &Refusal, resource: Option<&ResourceName>, hall: &Hall) -> Problem {
    let problem = problem::refused(refusal, &About { resource, ..About::default() });
    if let Refusal::LeaseBlocked(blockers) = refusal {
        return problem.retry_after(jittered(blockers, hall));
    }
    if let Refusal::WaitTimeout(_) = refusal {
        // A place in the queue is only kept for a moment.
        return problem.retry_after(within(RETRY_LEASE_LEAST, RETRY_AFTER, chance(hall)));
    }
    problem
}

/// Callers come back at different times, and early ones may be lucky: the owner may release before the end. In a lock
/// delay or a queue nobody is lucky before its time.
fn jittered(blockers: &[Blocker], hall: &Hall) -> Duration {
    let longest = Blocker::longest(blockers).duration();
    let chance = chance(hall);
    if blockers.iter().any(|one| matches!(one.why, Blocked::Held { .. })) {
        return within(RETRY_LEASE_LEAST, longest.min(RETRY_LEASE_MOST), chance);
    }
    longest.saturating_add(within(Duration::ZERO, RETRY_LEASE_LEAST, chance)).max(RETRY_LEASE_LEAST)
}

fn chance(hall: &Hall) -> u64 {
    let drawn = hall.door.entropy.draw().unwrap_or_default();
    let (first, _) = drawn.split_at(8);
    u64::from_be_bytes(first.try_into().unwrap_or_default())
}

fn within(least: Duration, most: Duration, chance: u64) -> Duration {
    let (least, most) = (least.min(most), most);
    let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
    least
        .saturating_add(Duration::from_millis(chance.checked_rem(span.saturating_add(1)).unwrap_or_default()))
}

/// The answer to a grant. One that waits for a barrier gets its token by a repeat of the request, as soon as the barrier
/// stands; it is waited for here for as long as the caller would wait, and for a moment where it does not say.
pub(super) async fn behind_barriers(
    hall: &Hall,
    grant: Grant,
    again: Command,
    budget: Option<Duration>,
) -> Result<Response, Problem> {
    if grant.view.state != LeaseState::PendingBarrier {
        return Ok(granted(&grant, hall.namespaces()));
    }
    let raised = hall.door.dispatch.raise_for(&grant.view.lease);
    // Given up or too late: the answer is then how it stands now.
    drop(tokio::time::timeout(budget.unwrap_or(BARRIER_WAIT), raised).await);
    let outcome = hall.decide(None, again, Subject::default(), None).await?;
    if let Outcome::Granted(now) = outcome {
        return Ok(granted(&Grant { repeated: grant.repeated, ..*now }, hall.namespaces()));
    }
    Err(otherwise(&outcome, |refusal| problem::refused(refusal, &About::default())))
}

/// The lease with its sealed tokens, for its owner.
pub(super) fn granted(grant: &Grant, namespaces: &Namespaces) -> Response {
    let id = grant.acquisition_id.reveal();
    let status = match (grant.view.state, grant.repeated) {
        (LeaseState::PendingBarrier, _) => StatusCode::ACCEPTED,
        (_, true) => StatusCode::OK,
        (_, false) => StatusCode::CREATED,
    };
    let mut response =
        wire::json(status, &leases::lease(id, &grant.view, Some(&grant.fencing_tokens), namespaces));
    if let Ok(location) = HeaderValue::from_str(&format!("{PREFIX}/{id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    warning::about_lease(response, &grant.view)
}

#[cfg(test)]
mod tests {
    use super::*;

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
