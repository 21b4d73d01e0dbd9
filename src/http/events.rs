//! `GET /v1/events`: what happened, as `CloudEvents` over server-sent events.
//!
//! A stream reads the durable records page by page and holds no more than one page: a listener that is slow slows its own
//! stream, and one that stops reading is cut off with its connection. Each event says where to go on from.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::counter::Epoch;
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;
use crate::ledger::Ledger;
use crate::ledger::events::{EventPlace, EventsEnd, Happening, Told};
use crate::ledger::listening::{Heard, Listener};
use crate::ledger::wakeup::instant;
use crate::limits::{EVENTS_HEARTBEAT, RETRY_AFTER};
use crate::protocol::rows::AuditVerb;

use super::gate::Credentials;
use super::problem::{Code, Problem};
use super::{Asked, wire};

mod cloud;
mod filter;
mod place;
mod share;

use filter::Filter;
use place::Place;
pub(super) use share::{Seat, Streams};

/// `GET /v1/events`.
pub(super) async fn stream(asked: Asked<'_>) -> Result<Response, Problem> {
    let hall = asked.hall;
    let filter = Filter::of(&asked)?;
    let known = asked.headers().get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let seat = hall
        .streams
        .seat(asked.caller.name(), hall.door.access.is_open())
        .map_err(|detail| Problem::new(Code::Overloaded, detail).retry_after(RETRY_AFTER))?;
    let ledger = hall.door.ledger.clone();
    // It hears of what is recorded from before the look that begins it.
    let listener = ledger.listen();
    let end = hall.read(|reader| reader.events_end()).await?;
    let epoch = hall.read(|reader| reader.everywhere()).await?.epoch;
    let database = ledger.setting().identity.database;
    let kept = ledger.kept();
    let (place, told_at, lost) = match begins(known, &end, database, epoch, end.now.less(kept)) {
        Begins::At(place, at) => (place, at, None),
        Begins::Anew(why) => (end.view, end.now, Some(why)),
    };
    let is_promised = known != Some(place::OLDEST);
    let mut stream = Stream {
        ledger,
        credentials: Credentials::of(&asked),
        listener,
        filter,
        draining: hall.door.stopping.ending.clone(),
        place,
        told_at,
        is_promised,
        epoch,
        database,
        queue: VecDeque::new(),
        heartbeat: instant(),
        is_begun: false,
        state: State::Behind,
        _seat: seat,
    };
    if let Some(why) = lost {
        stream.reset(why);
    }
    let events = unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((Ok::<Event, Infallible>(event), stream))
    });
    Ok(Sse::new(events).into_response())
}

/// Where a stream begins.
enum Begins {
    /// Here; the last that its listener knows of is so old.
    At(EventPlace, Timestamp),
    /// Now, since what the listener knows is no place from where all could be told.
    Anew(&'static str),
}

fn begins(known: Option<&str>, end: &EventsEnd, database: Uuid, epoch: Epoch, oldest: Timestamp) -> Begins {
    let Some(known) = known else { return Begins::At(end.view, end.now) };
    if known == place::OLDEST {
        return Begins::At(EventPlace::default(), Timestamp::default());
    }
    let Some(known) = Place::parse(known) else {
        return Begins::Anew("this is no id of this stream");
    };
    if known.database != place::short(database) {
        return Begins::Anew("the id is of another database");
    }
    // Records that went back in time are never gone on with: a new epoch of everything ends that.
    if known.epoch != epoch || known.reached.is_beyond(&end.view) {
        return Begins::Anew(
            "the records are not those of then any more: a new epoch was begun, or they went back in time",
        );
    }
    if known.at < oldest {
        return Begins::Anew("records of that time are kept no longer");
    }
    Begins::At(known.reached, known.at)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There may be more to read at once.
    Behind,
    /// All was told.
    Abreast,
    /// The last line was said.
    Ended,
}

/// One listener's stream.
struct Stream {
    ledger: Ledger,
    credentials: Credentials,
    listener: Listener,
    filter: Filter,
    draining: CancellationToken,
    place: EventPlace,
    /// The latest time of all that was told, or that of the look that found nothing more. What tells of an earlier time, such
    /// as an expiry that was noticed late, does not set it back.
    told_at: Timestamp,
    /// Whether all that came after what was told was kept when it began, or has been since. A stream that begins with the
    /// oldest record first tells of those that are still there though they need not be.
    is_promised: bool,
    epoch: Epoch,
    database: Uuid,
    /// What was read and is still to be taken: one page.
    queue: VecDeque<Event>,
    heartbeat: Instant,
    /// Whether it was said once that all is told.
    is_begun: bool,
    state: State,
    _seat: Seat,
}

impl Stream {
    /// The next thing to say; none after the last.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if !self.credentials.hold().await {
                return self.cut();
            }
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            match self.state {
                State::Ended => return None,
                State::Behind => self.read().await,
                State::Abreast => self.wait().await,
            }
        }
    }

    /// One page. While the process ends it is the last one: what was done up to now is told.
    async fn read(&mut self) {
        let is_last = self.draining.is_cancelled();
        let page = match self.ledger.events(self.place).await {
            Ok(page) => page,
            // It is told again when it can be read; nothing is lost meanwhile.
            Err(_) if is_last => return self.end(),
            Err(_) => return self.pause(RETRY_AFTER).await,
        };
        let oldest = page.now.less(self.ledger.kept());
        if self.is_promised && self.told_at < oldest {
            self.place = page.place;
            self.told_at = page.now;
            return self.reset("records of that time are kept no longer: the listener was too slow");
        }
        let is_all = !self.listener.has_more_than(&page.place);
        if page.told.is_empty() {
            self.told_at = page.now;
        }
        for told in &page.told {
            self.told_at = self.told_at.max(told.what.at());
            self.tell(told);
        }
        self.place = page.place;
        self.is_promised |= is_all || self.told_at >= oldest;
        if is_last {
            return self.end();
        }
        if is_all {
            self.state = State::Abreast;
            self.told_at = page.now;
            // Nothing shows when others do what this listener may not hear of: of that only the next line tells that comes
            // anyway.
            if !self.is_begun || !self.queue.is_empty() || instant() >= self.heartbeat {
                self.is_begun = true;
                self.queue.push_back(self.still_here("all is told"));
                self.heartbeat = instant() + EVENTS_HEARTBEAT;
            }
        } else if self.queue.is_empty() && instant() >= self.heartbeat {
            // A filter may leave out everything of many pages: whoever listens sees that it goes on, and from where.
            self.queue.push_back(self.still_here("still reading"));
            self.heartbeat = instant() + EVENTS_HEARTBEAT;
        }
    }

    /// Waits for more to be recorded.
    async fn wait(&mut self) {
        match self.listener.more(self.heartbeat, &self.draining).await {
            Heard::Ending => self.state = State::Behind,
            Heard::More if self.listener.has_more_than(&self.place) => self.state = State::Behind,
            Heard::More => {}
            Heard::Nothing => {
                self.queue.push_back(self.still_here("still here"));
                self.heartbeat = instant() + EVENTS_HEARTBEAT;
            }
        }
    }

    /// Waits a little before it tries to read again.
    async fn pause(&mut self, pause: Duration) {
        let until = instant() + pause;
        while self.listener.more(until, &self.draining).await == Heard::More {}
        self.queue.push_back(Event::default().comment("the records cannot be read; trying again"));
    }

    fn tell(&mut self, told: &Told) {
        if let Happening::Act(entry) = &told.what
            && entry.row.verb == AuditVerb::EpochAdvanced
            && entry.row.subject == Subject::Everywhere
        {
            self.epoch = self.epoch.max(entry.row.position.epoch);
        }
        if self.filter.admits(&told.what) {
            let id = self.id(told.place, self.told_at);
            let data = cloud::text(&told.what, self.database, self.filter.rules());
            self.queue.push_back(Event::default().id(id).event(cloud::kind(&told.what)).data(data));
        }
    }

    /// Says that something may have been missed, and goes on.
    fn reset(&mut self, why: &str) {
        let id = self.id(self.place, self.told_at);
        let data = String::from_utf8(wire::bytes(&cloud::reset(why))).unwrap_or_default();
        self.queue.push_back(Event::default().id(id).event("reset").data(data));
    }

    /// A line that no client takes for an event, with the place from where it may go on: what a filter leaves out is not
    /// read again either.
    fn still_here(&self, comment: &str) -> Event {
        Event::default().id(self.id(self.place, self.told_at)).comment(comment)
    }

    /// The process stops: the listener comes back, to another one, and goes on.
    fn end(&mut self) {
        self.queue.push_back(self.still_here("draining"));
        self.state = State::Ended;
    }

    /// Ends it at once. What was read and not told lies behind the last id: whoever comes back hears it, if it may.
    fn cut(&mut self) -> Option<Event> {
        self.queue.clear();
        let was = std::mem::replace(&mut self.state, State::Ended);
        (was != State::Ended).then(|| Event::default().comment("these credentials hold no longer"))
    }

    fn id(&self, place: EventPlace, at: Timestamp) -> String {
        Place { database: place::short(self.database), epoch: self.epoch, at, reached: place }.text()
    }
}
