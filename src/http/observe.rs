//! Observing instead of competing: the long poll on a resource, and the events of a lease.
//!
//! Neither holds a connection to the database while it waits, and neither decides anything. However many watch, a few of them
//! look at once: one change makes all of them look, and the others' reads are not to wait for that.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream::unfold;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::domain::lease::{AcquisitionId, EndCause, LeaseState};
use crate::domain::permission::Permission;
use crate::domain::time::Timestamp;
use crate::ledger::Ledger;
use crate::ledger::read::{LeaseRead, ResourceRead};
use crate::ledger::waiting::Observer;
use crate::ledger::wakeup::instant;
use crate::limits::{EVENTS_HEARTBEAT, EVENTS_REFRESH, RETRY_AFTER, WATCHERS_PATIENCE};
use crate::protocol::outcome::LeaseView;

use super::events::Seat;
use super::gate::Credentials;
use super::leases::{self, PREFIX};
use super::problem::{self, Code, Problem};
use super::resources::{self, Found};
use super::wire::JSON;
use super::{Asked, extract, names, warning, wire};

/// Bytes of a hash that identify an answer.
const TAG_BYTES: usize = 16;

/// `GET /v1/resources/{name}`. With `wait_ms` and an `If-None-Match` that holds the caller's tag, the answer comes with the
/// next change.
pub(super) async fn resource(asked: Asked<'_>) -> Result<Response, Problem> {
    let (hall, headers) = (asked.hall, asked.headers());
    let place = asked.place("/v1/resources", Permission::Read)?;
    let until = instant() + asked.query.wait()?.unwrap_or_default();
    let known = extract::if_none_match(headers)?;
    let draining = &hall.door.stopping.draining;
    let resource = &place.address.resource;
    let stops = || problem::draining().about(resource);
    let mut watching: Option<(Observer, Seat)> = None;
    loop {
        let look = match &watching {
            None => None,
            Some(_) => match its_turn(&hall.looks, draining).await {
                None if draining.is_cancelled() => return Err(stops()),
                None => return Err(crowded("too many look for a change at once; ask again").about(resource)),
                look => look,
            },
        };
        let found = resources::found(hall, &place).await?;
        drop(look);
        let tag = tag_of(&found);
        if !known.as_ref().is_some_and(|known| known.has(&tag)) {
            return Ok(answer(StatusCode::OK, &tag, Body::from(resources::rendered(&found))));
        }
        let now = instant();
        if now >= until {
            return Ok(answer(StatusCode::NOT_MODIFIED, &tag, Body::empty()));
        }
        match &mut watching {
            // What changes between this look and the next is seen by the next.
            None => {
                let seat = seat(&asked).map_err(|problem| problem.about(resource))?;
                watching = Some((hall.door.ledger.observe(resource), seat));
            }
            Some((observer, _)) => {
                let next = until.min(now + time_left(&found.read));
                if !observer.changed(next, draining).await {
                    return Err(stops());
                }
                asked.still_placed("/v1/resources", Permission::Read).await?;
            }
        }
    }
}

/// A place among those who watch.
fn seat(asked: &Asked<'_>) -> Result<Seat, Problem> {
    asked.hall.watchers.seat(asked.caller.name(), asked.hall.door.access.is_open()).map_err(crowded)
}

fn crowded(detail: impl Into<String>) -> Problem {
    Problem::new(Code::Overloaded, detail).retry_after(RETRY_AFTER)
}

/// Its turn to look; none when the process stops, or when it does not come in time.
async fn its_turn<'a>(looks: &'a Semaphore, draining: &CancellationToken) -> Option<SemaphorePermit<'a>> {
    let turn = draining.run_until_cancelled(looks.acquire());
    timeout(WATCHERS_PATIENCE, turn).await.ok()??.ok()
}

fn answer(status: StatusCode, tag: &str, body: Body) -> Response {
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        headers.insert(ETAG, tag);
    }
    if status == StatusCode::OK {
        headers.insert(CONTENT_TYPE, JSON);
    }
    response
}

/// Without its quotes. Opaque: it changes with everything authoritative, and not with time passing.
fn tag_of(found: &Found) -> String {
    let hash = Sha256::digest(resources::rendered_apart_from_time(found));
    let (short, _) = hash.split_at(TAG_BYTES);
    URL_SAFE_NO_PAD.encode(short)
}

/// An expiry is a change that nobody makes.
fn time_left(read: &ResourceRead) -> Duration {
    let held = read
        .lease
        .as_ref()
        .filter(|lease| lease.state_at(read.now, &read.resource, &read.namespace).is_live());
    held.map_or(EVENTS_REFRESH, |lease| read.now.until(lease.expires_at).duration())
}

/// `GET /v1/leases/{acquisition_id}/events`.
pub(super) async fn events(asked: Asked<'_>) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "/events")?;
    let found = leases::found(&asked, &id).await?;
    let door = &asked.hall.door;
    // What changes between the look above and the observer's coming is seen by the look of the first event, which is due at
    // once.
    let stream = Stream {
        observer: door.ledger.observe(&found.lease.resource),
        credentials: Credentials::of(&asked),
        ledger: door.ledger.clone(),
        draining: door.stopping.ending.clone(),
        known: found.lease.expires_at,
        next: instant(),
        id,
        queue: VecDeque::new(),
        ended: false,
        looks: asked.hall.looks.clone(),
        _seat: seat(&asked)?,
    };
    let events = unfold(stream, |mut stream| async move {
        let event = stream.event().await?;
        Some((Ok::<Event, Infallible>(event), stream))
    });
    let heartbeat = KeepAlive::new().interval(EVENTS_HEARTBEAT).text("still here");
    let answer = Sse::new(events).keep_alive(heartbeat).into_response();
    Ok(warning::about(answer, found.lease.members().map(|(resource, _)| resource)))
}

/// The events of one lease, until its end.
struct Stream {
    ledger: Ledger,
    credentials: Credentials,
    observer: Observer,
    draining: CancellationToken,
    id: AcquisitionId,
    /// The expiry that the client knows of.
    known: Timestamp,
    /// When to look again though nothing was heard.
    next: Instant,
    queue: VecDeque<Event>,
    ended: bool,
    /// A few of those who watch look at once.
    looks: Arc<Semaphore>,
    _seat: Seat,
}

impl Stream {
    /// The next event; none when the lease has ended and all is told, when its credentials hold no longer, or when the process
    /// stops: the client comes back and is told how it stands.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.ended || !self.observer.changed(self.next, &self.draining).await {
                return None;
            }
            if !self.credentials.hold().await {
                return None;
            }
            let (bucket, hash) = (self.id.bucket(), self.id.hash());
            let Some(look) = its_turn(&self.looks, &self.draining).await else {
                self.next = instant() + RETRY_AFTER;
                continue;
            };
            let found = self.ledger.read(move |reader| reader.lease(bucket, hash)).await;
            drop(look);
            match found {
                Ok(Some(found)) => self.take_in(&found),
                Ok(None) => return None,
                Err(_) => self.next = instant() + RETRY_AFTER,
            }
        }
    }

    fn take_in(&mut self, found: &LeaseRead) {
        let view = found.lease.view_at(found.now, &found.resource, &found.namespace);
        self.next = instant() + EVENTS_REFRESH.min(view.remaining.duration());
        match view.state {
            LeaseState::PendingBarrier => return,
            LeaseState::Held if found.lease.expires_at == self.known => return,
            LeaseState::Held => self.tell("renewed", &view),
            LeaseState::Released | LeaseState::Expired => self.tell(view.state.word(), &view),
            LeaseState::Superseded => {
                if found.lease.cause == Some(EndCause::Cancelled) {
                    self.tell("cancel_requested", &view);
                }
                self.tell(view.state.word(), &view);
            }
        }
        self.known = found.lease.expires_at;
        self.ended = !view.state.is_live();
    }

    fn tell(&mut self, name: &str, view: &LeaseView) {
        let shown =
            wire::bytes(&leases::lease(self.id.reveal(), view, None, &self.ledger.setting().namespaces));
        let text = String::from_utf8(shown).unwrap_or_default();
        self.queue.push_back(Event::default().event(name).data(text));
    }
}
