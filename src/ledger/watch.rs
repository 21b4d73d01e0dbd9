//! Who wants to hear of which resource: callers that wait for a lease, and those that only look.
//!
//! A commit of this process is heard of at once. What another process changed, and what time alone changes, a task sees
//! that looks at all watched resources together, a few times in a second. So a waiter holds no connection, and however
//! many wait for one resource, only the first of them is woken when it is free.
//!
//! Nothing here decides anything: whoever is woken asks again, and the transaction judges.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::domain::lease::LeaseState;
use crate::domain::namespaces::Namespaces;
use crate::domain::resource::ResourceName;
use crate::limits::{WATCH_PAUSE, WATCHED_AT_ONCE};
use crate::protocol::lease::free_in;
use crate::protocol::outcome::Blocker;
use crate::protocol::rows::{LeaseRow, RequestKey, ResourceRow};

use super::changeset::ChangeSet;
use super::read::{Reader, ResourceRead};
use super::wakeup::instant;

/// The list. Shared by the committers, the callers and the task that looks.
#[derive(Default)]
pub(super) struct Watch {
    slots: Mutex<Slots>,
    /// Watched resources; where there are none a commit has nobody to tell.
    count: AtomicUsize,
    /// The task that looks has something new to look at.
    stirred: Notify,
}

#[derive(Default)]
struct Slots {
    by_name: HashMap<ResourceName, Slot>,
    /// Tells waiters of one rank apart, in the order in which they came.
    drawn: u64,
}

/// One watched resource.
struct Slot {
    /// + 1 for each change. Observers hear of it here.
    version: watch::Sender<u64>,
    waiters: BTreeMap<Rank, Arc<Entry>>,
    observers: usize,
    /// When the resource will be free, as far as anybody knows.
    due: Option<Instant>,
    /// What the last look found.
    seen: Option<(ResourceRow, Option<LeaseRow>)>,
}

/// A waiter as the lists have it.
struct Entry {
    turn: Notify,
    request: RequestKey,
    resources: Vec<ResourceName>,
}

/// The order of waking: by place in the durable queue where there is one, and those without a place by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    ticket: u64,
    arrival: u64,
}

impl Slot {
    fn new() -> Self {
        Self { version: watch::Sender::new(0), waiters: BTreeMap::new(), observers: 0, due: None, seen: None }
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// The lease may be free: the first waiter is to ask. One that is asking at the moment will ask once more.
    fn free(&self) {
        if let Some((_, first)) = self.waiters.first_key_value() {
            first.turn.notify_one();
        }
    }

    /// Other deliveries of the request that was granted wait for their own lease.
    fn granted_to(&self, request: &RequestKey) {
        for entry in self.waiters.values().filter(|entry| entry.request == *request) {
            entry.turn.notify_one();
        }
    }

    fn is_unused(&self) -> bool {
        self.waiters.is_empty() && self.observers == 0
    }
}

impl Watch {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a commit of this process.
    pub(super) fn committed(&self, changes: &ChangeSet) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut slots = self.slots();
        for change in changes.resources.values() {
            let Some(slot) = slots.by_name.get_mut(&change.after.resource) else { continue };
            slot.changed();
            let before = change.before.as_ref();
            let moved = before.is_some_and(|before| {
                before.queue != change.after.queue
                    || before.life != change.after.life
                    || before.revoked_through != change.after.revoked_through
            });
            if moved {
                slot.free();
            }
        }
        for change in changes.leases.values() {
            for (resource, _) in change.after.members() {
                let Some(slot) = slots.by_name.get_mut(resource) else { continue };
                slot.changed();
                if change.after.state != LeaseState::Held {
                    slot.free();
                } else if change.before.is_none() {
                    slot.granted_to(&change.after.request_key);
                }
            }
        }
    }

    /// Enters a caller that waits for all of these resources.
    pub(super) fn enter(self: &Arc<Self>, resources: &[ResourceName], request: RequestKey) -> Waiter {
        let entry = Arc::new(Entry { turn: Notify::new(), request, resources: resources.to_vec() });
        let mut slots = self.slots();
        slots.drawn = slots.drawn.wrapping_add(1);
        let rank = Rank { ticket: u64::MAX, arrival: slots.drawn };
        for resource in resources {
            slots.slot(resource).waiters.insert(rank, entry.clone());
        }
        self.count.store(slots.by_name.len(), Ordering::Release);
        drop(slots);
        self.stirred.notify_one();
        let ranks = resources.iter().map(|resource| (resource.clone(), rank)).collect();
        Waiter { watch: self.clone(), ranks, entry, granted: false }
    }

    /// Begins to observe a resource.
    pub(super) fn observe(self: &Arc<Self>, resource: &ResourceName) -> Observer {
        let mut slots = self.slots();
        let slot = slots.slot(resource);
        slot.observers = slot.observers.saturating_add(1);
        let version = slot.version.subscribe();
        self.count.store(slots.by_name.len(), Ordering::Release);
        drop(slots);
        self.stirred.notify_one();
        Observer { watch: self.clone(), resource: resource.clone(), version }
    }

    /// Looks at the watched resources for as long as anybody may watch some.
    pub(super) async fn look(
        self: Arc<Self>,
        reader: Arc<dyn Reader>,
        namespaces: Namespaces,
        ended: CancellationToken,
    ) {
        let mut next = instant();
        loop {
            let due = self.due();
            tokio::select! {
                () = ended.cancelled() => return,
                // With nobody there, the next one who comes begins a new round.
                () = self.stirred.notified() => {}
                () = sleep_until(due.map_or(next, |due| due.min(next))), if self.is_watching() => {}
            }
            self.come_due();
            if instant() >= next && self.is_watching() {
                self.look_once(reader.as_ref(), &namespaces).await;
                next = instant() + WATCH_PAUSE;
            }
        }
    }

    fn is_watching(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn due(&self) -> Option<Instant> {
        self.slots().by_name.values().filter_map(|slot| slot.due).min()
    }

    /// What was to be free by now is tried, and whoever observes it looks again.
    fn come_due(&self) {
        let now = instant();
        for slot in self.slots().by_name.values_mut() {
            if slot.due.is_some_and(|due| due <= now) {
                slot.due = None;
                slot.changed();
                slot.free();
            }
        }
    }

    async fn look_once(&self, reader: &dyn Reader, namespaces: &Namespaces) {
        let names: Vec<ResourceName> = self.slots().by_name.keys().cloned().collect();
        for some in names.chunks(WATCHED_AT_ONCE) {
            match reader.watched(some.to_vec()).await {
                Ok(found) => found.into_iter().for_each(|read| self.saw(read, namespaces)),
                Err(error) => {
                    warn!(reason = %error, "the resources that callers wait for cannot be looked at");
                    return;
                }
            }
        }
    }

    fn saw(&self, read: ResourceRead, namespaces: &Namespaces) {
        let delay = namespaces.rules(&read.namespace.namespace).map(|rules| rules.lock_delay);
        let (delay, lease) = (delay.unwrap_or_default(), read.lease.as_ref());
        let free_in = free_in(lease, &read.resource, &read.namespace, delay, read.now);
        let mut slots = self.slots();
        let Some(slot) = slots.by_name.get_mut(&read.resource.resource) else { return };
        let now = (read.resource, read.lease);
        // Whoever came has asked already, perhaps before something that the first look shows and cannot tell from before.
        if slot.seen.as_ref() != Some(&now) {
            slot.changed();
            if let Some(lease) = &now.1 {
                slot.granted_to(&lease.request_key);
            }
        }
        slot.seen = Some(now);
        if free_in.get() == 0 {
            slot.free();
        } else {
            slot.due = Some(instant() + free_in.duration());
        }
    }
}

impl Slots {
    fn slot(&mut self, resource: &ResourceName) -> &mut Slot {
        self.by_name.entry(resource.clone()).or_insert_with(Slot::new)
    }

    fn tidy(&mut self, resource: &ResourceName) {
        if self.by_name.get(resource).is_some_and(Slot::is_unused) {
            self.by_name.remove(resource);
        }
    }
}

/// Why a caller waits no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// The lease may be free.
    ToAsk,
    /// Its time is over.
    TooLate,
    /// The process stops.
    ByTheEnd,
}

fn blocks(blockers: &[Blocker], resource: &ResourceName) -> bool {
    blockers.iter().any(|one| one.resource == *resource)
}

/// A caller that waits. When it goes without a lease, the next one is woken in its place.
pub(super) struct Waiter {
    watch: Arc<Watch>,
    ranks: Vec<(ResourceName, Rank)>,
    entry: Arc<Entry>,
    granted: bool,
}

impl Waiter {
    /// Takes in why it was refused: its place among the others, and when to ask again. What does not stand against it
    /// may be just right for the next one.
    pub(super) fn heed(&mut self, blockers: &[Blocker]) {
        let mut slots = self.watch.slots();
        for (resource, rank) in &mut self.ranks {
            let Some(slot) = slots.by_name.get_mut(resource) else { continue };
            let Some(blocker) = blockers.iter().find(|one| one.resource == *resource) else {
                // Whoever waits for the same as this one is refused for the same reason.
                let stuck = |entry: &Entry| entry.resources.iter().any(|name| blocks(blockers, name));
                let mut behind = slot.waiters.range((Bound::Excluded(*rank), Bound::Unbounded));
                if let Some((_, next)) = behind.find(|(_, entry)| !stuck(entry)) {
                    next.turn.notify_one();
                }
                continue;
            };
            if let Some(place) = blocker.place
                && place.number != rank.ticket
            {
                slot.waiters.remove(rank);
                rank.ticket = place.number;
                slot.waiters.insert(*rank, self.entry.clone());
            }
            let due = instant() + blocker.free_in.duration();
            if slot.due.is_none_or(|known| due < known) {
                slot.due = Some(due);
                self.watch.stirred.notify_one();
            }
        }
    }

    /// Waits until it is its turn to ask. What was freed since it entered, or since it was last woken, has not been missed.
    pub(super) async fn woken(&self, until: Instant, draining: &CancellationToken) -> Woken {
        // A timer may come a moment late, and one that is woken again and again would go beyond its time.
        if instant() >= until && !draining.is_cancelled() {
            return Woken::TooLate;
        }
        tokio::select! {
            biased;
            () = draining.cancelled() => Woken::ByTheEnd,
            () = self.entry.turn.notified() => Woken::ToAsk,
            () = sleep_until(until) => Woken::TooLate,
        }
    }

    /// It has what it waited for: nothing is left for the others.
    pub(super) const fn granted(&mut self) {
        self.granted = true;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut slots = self.watch.slots();
        for (resource, rank) in &self.ranks {
            if let Some(slot) = slots.by_name.get_mut(resource) {
                slot.waiters.remove(rank);
                if !self.granted {
                    slot.free();
                }
            }
            slots.tidy(resource);
        }
        self.watch.count.store(slots.by_name.len(), Ordering::Release);
    }
}

/// Somebody who only looks.
pub struct Observer {
    watch: Arc<Watch>,
    resource: ResourceName,
    version: watch::Receiver<u64>,
}

impl Observer {
    /// Waits until the resource or its lease may have changed since the last call, at most until `until`. False when the
    /// process stops.
    pub async fn changed(&mut self, until: Instant, draining: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = draining.cancelled() => false,
            // The sender lives as long as the slot, and the slot as long as its observers.
            _ = self.version.changed() => true,
            () = sleep_until(until) => true,
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let mut slots = self.watch.slots();
        if let Some(slot) = slots.by_name.get_mut(&self.resource) {
            slot.observers = slot.observers.saturating_sub(1);
        }
        slots.tidy(&self.resource);
        self.watch.count.store(slots.by_name.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
