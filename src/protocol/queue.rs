//! The queue of callers that wait for a lease in order (`protocol.md` section 5).
//!
//! It is part of the resource's row: read, locked and changed with it. A place is kept by a request's key, so the same
//! request finds it again after a lost connection or a restart, whichever gateway it comes to.
//!
//! Nobody waits for the absent. Whoever has stepped aside keeps its place for [`KEPT_AFTER`], and holds the others up no
//! longer than [`RETURN`], in which it may come back; of those who are there, or seem to be, each has [`TURN`] to take a free lease before the next one may take it too. A
//! caller that comes late for its turn has lost nothing but the certainty.

use std::num::NonZeroU64;

use crate::domain::time::{Millis, Timestamp};

use super::rows::RequestKey;

/// How long the head of the queue has a free lease for itself: four times what a free lease takes to reach a waiter on
/// another replica.
pub const TURN: Millis = Millis::new(2_000);

/// How long a place is kept after the caller's budget is over: time to ask again with the same request id.
pub const KEPT_AFTER: Millis = Millis::new(5_000);

/// How long others wait for one that has stepped aside: a caller that goes on waiting is told to come back within a second.
pub const RETURN: Millis = Millis::new(1_500);

/// Places of one queue. The row that holds them is at most 40 KiB; whoever comes later waits without a place.
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
    /// The delivery of the request that waits in it; none when that one has stepped aside. A later delivery takes the place
    /// over, so that the end of an earlier connection does not take it away from the caller.
    pub claim: Option<NonZeroU64>,
}

impl Ticket {
    /// Whether others wait for it: it is there, or may be about to come back.
    fn counts(&self, now: Timestamp) -> bool {
        self.claim.is_some() || self.until.plus(RETURN) > now.plus(KEPT_AFTER)
    }
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

    /// The place of this request, where it has one: its number, and how many places stand before it.
    #[must_use]
    pub fn place_of(&self, key: &RequestKey, now: Timestamp) -> Option<(u64, usize)> {
        let short = short(key);
        let found = self.live(now).enumerate().find(|(_, ticket)| ticket.key == short);
        found.map(|(before, ticket)| (ticket.number, before))
    }

    /// How many that are there stand before this request: all of them, when it has no place.
    #[must_use]
    pub fn ahead_of(&self, key: &RequestKey, now: Timestamp) -> usize {
        let short = short(key);
        let before = self.live(now).take_while(|ticket| ticket.key != short);
        before.filter(|ticket| ticket.counts(now)).count()
    }

    /// Gives this request a place at the end, or keeps the one that it has for longer. A delivery that `begins` to wait
    /// takes the place over from an earlier one. Without room there is none.
    pub fn join(
        &mut self,
        key: &RequestKey,
        claim: NonZeroU64,
        begins: bool,
        until: Timestamp,
        now: Timestamp,
    ) {
        let short = short(key);
        self.0.retain(|ticket| ticket.until > now);
        let (places, number) = (self.0.len(), self.0.last().map_or(1, |last| last.number.saturating_add(1)));
        if let Some(ticket) = self.0.iter_mut().find(|ticket| ticket.key == short) {
            if begins {
                ticket.claim = Some(claim);
            }
            // A shorter wait of the same request does not give the place up; and a few milliseconds more are not worth
            // a change of the row.
            if until > ticket.until.plus(Millis::new(1_000)) {
                ticket.until = until;
            }
        } else if places < PLACES {
            self.0.push(Ticket { number, key: short, until, claim: Some(claim) });
        }
    }

    /// A delivery waits no more. Where it is still the one that waits, its place is given up, or is kept without holding
    /// anybody up.
    pub fn leave(&mut self, key: &RequestKey, claim: NonZeroU64, keeps: bool, now: Timestamp) {
        let short = short(key);
        let own = |ticket: &Ticket| ticket.key == short && ticket.claim == Some(claim);
        self.0.retain(|ticket| ticket.until > now && (keeps || !own(ticket)));
        for ticket in self.0.iter_mut().filter(|ticket| own(ticket)) {
            ticket.claim = None;
            ticket.until = ticket.until.min(now.plus(KEPT_AFTER));
        }
    }

    /// The request has what it waited for. Places that are over go too.
    pub fn serve(&mut self, key: &RequestKey, now: Timestamp) {
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
