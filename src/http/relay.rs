//! The data plane of stores behind HTTP: a write is announced, carried to its upstream and answered with what that
//! answered, saved with the operation; a read is passed through.

mod answer;
mod carry;
mod read;

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{CONNECTION, CONTENT_RANGE};
use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Span;

use crate::dispatch::Earned;
use crate::domain::cell;
use crate::domain::operation::Method;
use crate::domain::permission::Permission;
use crate::domain::store::{HttpStore, StampPlace};
use crate::domain::trace::Trace;
use crate::domain::upstream::{Bulk, Class, Field, Payload as Carried};
use crate::limits::{BODY_TIMEOUT, STAMPED_JSON_BYTES};
use crate::protocol::command::{Forward, Member, Write};
use crate::protocol::outcome::Verdict;
use crate::protocol::{Command, Outcome};

use super::acquire::drawn;
use super::body::{Payload, Spooled, worked};
use super::decide::Subject;
use super::fenced::{HEADERS, allowance, in_words_of};
use super::json::unreadable;
use super::layers::{TRACEPARENT, TRACESTATE};
use super::member::{Content, Draft};
use super::names::Place;
use super::problem::{Code, Problem};
use super::query::malformed;
use super::{Asked, extract};

use carry::Carrying;

pub(super) use read::read;

/// How long a caller waits for others when it does not say so (`api.md` section 1).
const USUAL_WAIT: Duration = Duration::from_secs(5);

/// Methods that a store with cells takes.
const CELL_METHODS: &str = "GET, HEAD, PUT, DELETE";

/// Methods that go to every other store as they come.
const PLAIN_METHODS: &str = "GET, HEAD, PUT, POST, PATCH, DELETE";

/// PUT, POST, PATCH and DELETE.
pub(super) async fn write(
    asked: Asked<'_>,
    place: Place,
    class: Class,
    payload: &mut Payload,
) -> Result<Response, Problem> {
    let resource = place.address.resource.clone();
    let door = &asked.hall.door;
    let dispatch = door.dispatch.clone();
    let upstream = dispatch.upstream(&resource.namespace()).ok_or_else(Problem::fault_without_change)?;
    if let Some(objection) = upstream.objection(&resource, asked.head.uri.query(), true) {
        return Err(malformed(objection).about(&resource));
    }
    let timeout = place.rules.upstream.map(|rules| rules.timeout.duration()).unwrap_or_default();
    let wait = extract::wait(asked.headers())?.map_or(USUAL_WAIT, Duration::from_secs);
    let earned = dispatch.earned(&resource.namespace(), wait).await;
    let (member, memory) = member(&asked, place, class, upstream.store(), payload)
        .await
        .map_err(|problem| problem.about(&resource))?;
    if !earned.admits() {
        recorded_or_refused(&asked, &member, &earned).await.map_err(|problem| problem.about(&resource))?;
    }
    let Some(room) = dispatch.room(&resource.namespace()) else {
        let detail = "too many writes to upstreams are under way; send the request again in 1 s";
        return Err(Problem::new(Code::Overloaded, detail).about(&resource));
    };
    let mut carrying = Carrying {
        ledger: door.ledger.clone(),
        dispatch,
        draining: door.stopping.draining.clone(),
        member,
        wait,
        timeout,
    };
    let (clock, ledger, span) = (door.clock.clone(), door.ledger.clone(), Span::current());
    // It belongs to nobody once it has begun: a client that hangs up neither stops it nor loses its log line.
    let carried = tokio::spawn(async move {
        let began = clock.monotonic();
        let answer = carrying.carry(room).await;
        drop(memory);
        let took = clock.monotonic().saturating_sub(began);
        span.in_scope(|| answer.note(ledger.metrics(), &carrying.member, took));
        answer.remember(&ledger, &carrying.member, clock.monotonic());
        answer
    });
    carried.await.map_err(|_| Problem::fault())?.answered().map_err(|problem| problem.about(&resource))
}

/// A store that has not earned its class is sent nothing; what was decided before is answered all the same.
async fn recorded_or_refused(asked: &Asked<'_>, member: &Member, earned: &Earned) -> Result<(), Problem> {
    let write = Write { members: vec![member.clone()], dry_run: true };
    let outcome = asked.decide(Command::Write(write), Subject::default(), None).await?;
    let Outcome::Explained(verdicts) = &outcome else { return Err(Problem::fault_without_change()) };
    if !verdicts.iter().any(|one| matches!(one.verdict, Verdict::Admit { .. })) {
        return Ok(());
    }
    let namespace = member.address.resource.namespace();
    Err(match earned {
        Earned::Unreachable(_) | Earned::NotYet => Problem::new(
            Code::UpstreamUnreachable,
            format!(
                "the store of namespace {namespace:?} could not be reached yet, and nothing was sent; send the same request again in 1 s"
            ),
        ),
        Earned::Failed(reason) => Problem::new(
            Code::Quarantined,
            format!(
                "the store of namespace {namespace:?} does not do what its class promises, and nothing is written to it: {reason}"
            ),
        ),
        Earned::NotAsked | Earned::Passed => return Ok(()),
    })
}

async fn member(
    asked: &Asked<'_>,
    place: Place,
    class: Class,
    store: &HttpStore,
    payload: &mut Payload,
) -> Result<(Member, Vec<OwnedSemaphorePermit>), Problem> {
    let headers = asked.headers();
    let method = Method::from_word(asked.head.method.as_str()).ok_or_else(Problem::fault_without_change)?;
    fits(class, method, asked.head.uri.query())?;
    if !store.forward_headers.iter().any(|name| name == "content-encoding") {
        extract::not_encoded(headers)?;
    }
    whole(headers)?;
    let token = extract::token(headers, place.rules.definition.issuer)?;
    let operation_id = extract::operation_id(headers)?;
    let sequence = extract::sequence(headers)?;
    let incarnation = extract::incarnation(headers)?;
    let preconditions = extract::preconditions(headers)?;
    let content_type = extract::content_type(headers)?;
    let Spooled { payload: body, reserved: memory } = received(asked, method, &place, payload).await?;
    if let (Method::Put, Some(StampPlace::Json(pointer))) = (method, &store.stamp) {
        has_place(&body, pointer).await?;
    }
    let drawn = drawn(asked.hall)?;
    let (first, _) = drawn.split_at(8);
    let forward = Forward {
        query: asked.head.uri.query().map(str::to_owned),
        headers: allowed(asked, &store.forward_headers),
        content_type: content_type.clone(),
        payload: body,
        claim: u64::from_be_bytes(first.try_into().unwrap_or_default()),
    };
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
        content: Content::Forwarded(Box::new(forward)),
    };
    Ok((draft.complete(&asked.hall.door.ledger, HEADERS)?, memory))
}

/// A part of a content would be taken for the whole: the header that says so is not forwarded (RFC 9110 section 14.5).
fn whole(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(malformed("Content-Range is not taken here; send the whole content"));
    }
    Ok(())
}

/// What a store of this class takes, as `Allow` lists it.
pub(super) const fn methods_of(class: Class) -> &'static str {
    match class {
        Class::Conditional => CELL_METHODS,
        Class::FenceAware | Class::Idempotent | Class::Serial => PLAIN_METHODS,
    }
}

/// A cell is replaced or emptied as a whole, and has one address.
pub(super) fn fits(class: Class, method: Method, query: Option<&str>) -> Result<(), Problem> {
    match (class, method) {
        (Class::Conditional, Method::Post | Method::Patch) => {
            let word = method.word();
            let detail =
                format!("{word} is not possible here: the store compares and sets whole cells; use PUT");
            Err(Problem::method_not_allowed(detail, methods_of(class).to_owned()))
        }
        (Class::Conditional, Method::Put | Method::Delete) if query.is_some() => {
            Err(malformed("the store compares and sets whole cells, which have no query; leave it out"))
        }
        (Class::Conditional, Method::Put | Method::Delete)
        | (Class::FenceAware | Class::Idempotent | Class::Serial, _) => Ok(()),
    }
}

/// The whole body, hashed: no lane and no transaction ever waits for a client.
async fn received(
    asked: &Asked<'_>,
    method: Method,
    place: &Place,
    payload: &mut Payload,
) -> Result<Spooled, Problem> {
    let allowance = allowance(method, place);
    let received = payload.spool(&allowance, &asked.hall.bodies, &asked.hall.spooled, BODY_TIMEOUT).await;
    received.map_err(|problem| in_words_of(method, problem))
}

/// The stamp goes into the document, so it has to have a place for it, and to be short enough to be held in memory.
async fn has_place(body: &Carried, pointer: &str) -> Result<(), Problem> {
    if body.length > STAMPED_JSON_BYTES {
        let detail = format!(
            "the store keeps its stamp inside the document, which may have at most {STAMPED_JSON_BYTES} bytes"
        );
        return Err(Problem::new(Code::BodyTooLarge, detail));
    }
    let (bulk, length) = (body.bulk.clone(), usize::try_from(body.length).unwrap_or(usize::MAX));
    let pointer = pointer.to_owned();
    let found = worked(length, move || {
        let bytes = match bulk {
            Bulk::Memory(bytes) => Ok(bytes),
            Bulk::Disk(spool) => spool.read_at(0, length),
        };
        bytes.map(|bytes| cell::has_place(&bytes, &pointer))
    });
    match found.await? {
        Ok(Ok(())) => Ok(()),
        Ok(Err(unfit)) => Err(unreadable(format!("the store keeps its stamp inside the document: {unfit}"))),
        Err(_) => Err(Problem::fault_without_change()),
    }
}

/// The headers that go on: those on the list, unless they belong to this connection only. Of a trace the span of this
/// request goes on, not that of its caller; without a trace nothing of one does.
pub(super) fn allowed(asked: &Asked<'_>, list: &[String]) -> Vec<Field> {
    let headers = asked.headers();
    let trace = asked.head.extensions.get::<Trace>();
    let nominated: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut fields = Vec::new();
    for name in list.iter().filter(|name| !nominated.contains(name)) {
        match (name.as_str(), trace) {
            (TRACEPARENT, Some(trace)) => {
                fields.push((name.clone(), trace.header()));
                continue;
            }
            (TRACEPARENT | TRACESTATE, None) => continue,
            (_, _) => {}
        }
        for value in headers.get_all(name.as_str()).iter().filter_map(|value| value.to_str().ok()) {
            fields.push((name.clone(), value.to_owned()));
        }
    }
    fields
}
