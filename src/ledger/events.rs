//! What is told to those who listen: the durable records themselves, in the order in which they were committed.
//!
//! Nothing is written a second time for it. Acts are the lines of the audit, effects the records of operations; each of the
//! two has an order of its own, and a place is how far both were told. So a stream goes on where it stopped, in whichever
//! process and after whichever restart. A listener holds no connection to the database and no more than one page.

use std::collections::VecDeque;

use crate::domain::time::{Millis, Timestamp};
use crate::limits::EVENTS_READ;
use crate::protocol::rows::{AuditVerb, OperationRecord};

use super::listening::Listener;
use super::read::AuditEntry;
use super::{Ledger, Unserved};

/// How far one kind of record was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reached {
    /// The transaction, as the engine counts.
    pub transaction: u64,
    /// The record in it.
    pub ordinal: u64,
}

impl Reached {
    /// As two numbers.
    #[must_use]
    pub const fn pair(self) -> (u64, u64) {
        (self.transaction, self.ordinal)
    }

    /// All of a transaction.
    #[must_use]
    pub const fn all_of(transaction: u64) -> Self {
        // What a column holds at most.
        Self { transaction, ordinal: i64::MAX.unsigned_abs() }
    }
}

/// How far everything was told. The default is before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventPlace {
    /// Of what was done.
    pub acts: Reached,
    /// Of what was written.
    pub operations: Reached,
}

impl EventPlace {
    /// Whether it tells of something that this end does not reach: the records have gone back, or it is another's.
    #[must_use]
    pub fn is_beyond(&self, end: &Self) -> bool {
        self.acts > end.acts || self.operations > end.operations
    }
}

/// A record of an operation with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationEntry {
    /// Where it stands.
    pub place: Reached,
    /// What it tells. The bytes of its answer are not read.
    pub record: OperationRecord,
}

/// What an engine finds behind a place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsRead {
    /// Lines, in the order of their places.
    pub acts: Vec<AuditEntry>,
    /// Operations, in the order of their places. There may be more than were asked for: one transaction is never cut.
    pub operations: Vec<OperationEntry>,
    /// How far the view reaches: whatever is committed after it stands behind this.
    pub view: EventPlace,
    /// The time of the view.
    pub now: Timestamp,
}

/// How far the records reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventsEnd {
    /// How far the view reaches: whatever is committed after it stands behind this.
    pub view: EventPlace,
    /// No record in the view stands behind this one. It stays where it is while nothing is recorded.
    pub last: EventPlace,
    /// The time of the view.
    pub now: Timestamp,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// An act, or what the gateway found.
    Act(Box<AuditEntry>),
    /// An effect, or what an upstream refused.
    Operation(Box<OperationEntry>),
}

impl Happening {
    /// When.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Act(entry) => entry.row.at,
            Self::Operation(entry) => entry.record.decided_at.unwrap_or(entry.record.created_at),
        }
    }

    /// In one millisecond a lease begins before what is written under it, and ends after.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Operation(_) => 1,
            Self::Act(entry) => match entry.row.verb {
                AuditVerb::Acquired
                | AuditVerb::Transferred
                | AuditVerb::Advanced
                | AuditVerb::Reopened
                | AuditVerb::EpochAdvanced
                | AuditVerb::DefinitionChanged
                | AuditVerb::PolicyChanged => 0,
                AuditVerb::Released
                | AuditVerb::Expired
                | AuditVerb::Superseded
                | AuditVerb::Revoked
                | AuditVerb::Cancelled
                | AuditVerb::Resolved
                | AuditVerb::Quarantined
                | AuditVerb::Tripped
                | AuditVerb::Uncertain => 2,
            },
        }
    }

    /// Where it stands among those of its kind.
    #[must_use]
    pub fn reached(&self) -> Reached {
        match self {
            Self::Act(entry) => reached(entry),
            Self::Operation(entry) => entry.place,
        }
    }
}

const fn reached(entry: &AuditEntry) -> Reached {
    Reached { transaction: entry.place.transaction, ordinal: entry.place.ordinal }
}

/// Something that happened, and how far everything is told with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What.
    pub what: Happening,
    /// Whoever goes on from here misses nothing. It may be told some of the same once more.
    pub place: EventPlace,
}

/// A page of what happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsPage {
    /// In order of time; records of one resource that come from one process stand in the order of their commits.
    pub told: Vec<Told>,
    /// Where the next page begins.
    pub place: EventPlace,
    /// The time of the view.
    pub now: Timestamp,
}

/// Puts the two kinds of a read in one order.
///
/// Of a kind that may have more, nothing of the other one is told that is later than the last one read: it may come after
/// something that is still to be read. A place never passes over what was not told.
#[must_use]
pub fn page(from: EventPlace, mut read: EventsRead, limit: u32) -> EventsPage {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let last_act = read.acts.last().filter(|_| read.acts.len() >= limit).map(|entry| entry.row.at);
    let operation_at = |entry: &OperationEntry| entry.record.decided_at.unwrap_or(entry.record.created_at);
    let last_operation = read.operations.last().filter(|_| read.operations.len() >= limit).map(operation_at);
    if let Some(last) = last_act {
        let later = read.operations.iter().position(|entry| operation_at(entry) > last);
        read.operations.truncate(later.unwrap_or(usize::MAX));
    }
    if let Some(last) = last_operation {
        let later = read.acts.iter().position(|entry| entry.row.at > last);
        read.acts.truncate(later.unwrap_or(usize::MAX));
    }
    let is_whole = last_act.is_none() && last_operation.is_none();
    let mut acts: VecDeque<(Reached, bool)> = read.acts.iter().map(|entry| (reached(entry), false)).collect();
    let mut operations: VecDeque<(Reached, bool)> =
        read.operations.iter().map(|entry| (entry.place, false)).collect();
    let mut all: Vec<Happening> =
        read.acts.into_iter().map(|entry| Happening::Act(Box::new(entry))).collect();
    all.extend(read.operations.into_iter().map(|entry| Happening::Operation(Box::new(entry))));
    all.sort_by_key(|one| (one.at(), one.rank(), one.reached()));
    let mut place = from;
    let told = all
        .into_iter()
        .map(|what| {
            match &what {
                Happening::Act(entry) => pass(&mut place.acts, &mut acts, reached(entry)),
                Happening::Operation(entry) => pass(&mut place.operations, &mut operations, entry.place),
            }
            Told { what, place }
        })
        .collect();
    let place = if is_whole { read.view } else { place };
    EventsPage { told, place, now: read.now }
}

/// Moves a place past all that are told now, up to the first one that is not.
fn pass(place: &mut Reached, waiting: &mut VecDeque<(Reached, bool)>, one: Reached) {
    if let Some((_, is_told)) = waiting.iter_mut().find(|(at, _)| *at == one) {
        *is_told = true;
    }
    while let Some((at, _)) = waiting.front().filter(|(_, is_told)| *is_told) {
        *place = *at;
        waiting.pop_front();
    }
}

impl Ledger {
    /// Begins to listen.
    #[must_use]
    pub fn listen(&self) -> Listener {
        self.feed.listen()
    }

    /// How long what happened is kept.
    #[must_use]
    pub fn kept(&self) -> Millis {
        self.feed.kept()
    }

    /// How far the records reach.
    ///
    /// # Errors
    /// [`Unserved`] as for every read.
    pub async fn events_end(&self) -> Result<EventsEnd, Unserved> {
        self.read(|reader| reader.events_end()).await
    }

    /// A page of what happened behind a place.
    ///
    /// # Errors
    /// [`Unserved`] as for every read.
    pub async fn events(&self, from: EventPlace) -> Result<EventsPage, Unserved> {
        let read = self.read(move |reader| reader.events(from, EVENTS_READ)).await?;
        Ok(page(from, read, EVENTS_READ))
    }
}

#[cfg(test)]
mod tests;
