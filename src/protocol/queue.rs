//! The queue of callers that wait for a lease in order (`protocol.md` section 5).
//!
//! It is part of the resource's row: read, locked and changed with it. A place is kept by a request's key, so the same
//! request finds it again after a lost connection or a restart, whichever gateway it comes to.
//!
//! Nobody waits for the absent: each place has an end, and whoever stands at the head has [`TURN`] to take a free lease
//! before the next one may take it too. A caller that comes late for its turn has lost nothing but the certainty.

use crate::domain::time::{Millis, Timestamp};

use super::rows::RequestKey;

/// How long the head of the queue has a free lease for itself: four times what a free lease takes to reach a waiter on
/// another replica.
pub const TURN: Millis = Millis::new(2_000);

/// How long a place is kept after the caller's budget is over: time to ask again with the same request id.
pub const KEPT_AFTER: Millis = Millis::new(5_000);

/// Places of one queue. The row that holds them stays below 32 KiB; whoever comes later waits without a place.
pub const PLACES: usize = 1_024;

/// One place in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Grows from the head to the end, and tells who came first when two are compared apart from the queue.
    pub number: u64,
    /// Whose place: the first 16 bytes of the request's key.
    pub key: [u8; 16],
    /// Until when it is kept.
    pub until: Timestamp,
}

/// The places, from the head to the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Queue(Vec<Ticket>);

impl Queue {
    /// A queue as a row holds it.
    #[must_use]
    pub const fn of(tickets: Vec<Ticket>) -> Self {
        Self(tickets)
    }

    /// The places, from the head to the end, those that are over included.
    #[must_use]
    pub fn tickets(&self) -> &[Ticket] {
        &self.0
    }

    /// How many places there are that are not over.
    #[must_use]
    pub fn waiting(&self, now: Timestamp) -> usize {
        self.live(now).count()
    }

    /// The number of this request's place, where it has one.
    #[must_use]
    pub fn number_of(&self, key: &RequestKey, now: Timestamp) -> Option<u64> {
        let short = short(key);
        self.live(now).find(|ticket| ticket.key == short).map(|ticket| ticket.number)
    }

    /// How many stand before this request: all, when it has no place.
    #[must_use]
    pub fn ahead_of(&self, key: &RequestKey, now: Timestamp) -> usize {
        let short = short(key);
        self.live(now).take_while(|ticket| ticket.key != short).count()
    }

    /// Gives this request a place at the end, or keeps the one that it has for longer. Without room it gets none.
    pub fn join(&mut self, key: &RequestKey, until: Timestamp, now: Timestamp) {
        let short = short(key);
        self.0.retain(|ticket| ticket.until > now);
        let (places, number) = (self.0.len(), self.0.last().map_or(1, |last| last.number.saturating_add(1)));
        if let Some(ticket) = self.0.iter_mut().find(|ticket| ticket.key == short) {
            // A shorter wait of the same request does not give the place up; and a few milliseconds more are not worth
            // a change of the row.
            if until > ticket.until.plus(Millis::new(1_000)) {
                ticket.until = until;
            }
        } else if places < PLACES {
            self.0.push(Ticket { number, key: short, until });
        }
    }

    /// Gives up the place of this request, and all that are over.
    pub fn leave(&mut self, key: &RequestKey, now: Timestamp) {
        let short = short(key);
        self.0.retain(|ticket| ticket.key != short && ticket.until > now);
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &Ticket> {
        self.0.iter().filter(move |ticket| ticket.until > now)
    }
}

fn short(key: &RequestKey) -> [u8; 16] {
    let mut short = [0; 16];
    for (to, from) in short.iter_mut().zip(key.0) {
        *to = from;
    }
    short
}
