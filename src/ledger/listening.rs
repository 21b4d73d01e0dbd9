//! Who listens to what happens, and the one task that looks for all of them. It waits for turns and never for a database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::domain::time::Millis;
use crate::limits::{EVENTS_PAUSE, OPERATION_RETENTION_MS};

use super::events::EventPlace;
use super::read::{ReadFailed, Reader};

/// What the listeners of a process share: how far the records reach, looked up by one task for all of them.
#[derive(Debug)]
pub(super) struct Feed {
    end: watch::Sender<EventPlace>,
    /// Somebody has begun to listen.
    stirred: Notify,
    /// How long records are kept, in milliseconds.
    kept: AtomicU64,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            end: watch::Sender::new(EventPlace::default()),
            stirred: Notify::new(),
            kept: AtomicU64::new(OPERATION_RETENTION_MS),
        }
    }
}

impl Feed {
    pub(super) fn keeps(&self, kept: Millis) {
        self.kept.store(kept.get(), Ordering::Release);
    }

    pub(super) fn kept(&self) -> Millis {
        Millis::new(self.kept.load(Ordering::Acquire))
    }

    pub(super) fn listen(&self) -> Listener {
        let listener = Listener(self.end.subscribe());
        self.stirred.notify_one();
        listener
    }

    /// Looks for as long as the ledger is in use and somebody listens.
    pub(super) async fn look(self: Arc<Self>, reader: Weak<dyn Reader>, ended: CancellationToken) {
        loop {
            if self.end.is_closed() {
                tokio::select! {
                    () = ended.cancelled() => return,
                    () = self.stirred.notified() => {}
                }
            }
            let Some(open) = reader.upgrade() else { return };
            match open.events_end().await {
                Ok(end) => {
                    self.end.send_if_modified(|known| std::mem::replace(known, end.last) != end.last);
                }
                Err(ReadFailed(reason)) => warn!(reason, "what is told to listeners cannot be looked up"),
            }
            drop(open);
            tokio::select! {
                () = ended.cancelled() => return,
                () = sleep(EVENTS_PAUSE) => {}
            }
        }
    }
}

/// Somebody who listens: it hears when the records may reach further.
pub struct Listener(watch::Receiver<EventPlace>);

impl Listener {
    /// Whether more may have been recorded than was told up to this place.
    pub fn has_more_than(&mut self, place: &EventPlace) -> bool {
        let end = *self.0.borrow_and_update();
        end.acts > place.acts || end.operations > place.operations
    }

    /// Waits until more may have been recorded, at most until `until`.
    pub async fn more(&mut self, until: Instant, ending: &CancellationToken) -> Heard {
        tokio::select! {
            biased;
            () = ending.cancelled() => Heard::Ending,
            // The sender lives as long as the ledger, and the ledger as long as whoever listens.
            _ = self.0.changed() => Heard::More,
            () = sleep_until(until) => Heard::Nothing,
        }
    }
}

/// What a listener hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// More may have been recorded.
    More,
    /// Nothing, for as long as it wanted to wait.
    Nothing,
    /// The process ends its streams.
    Ending,
}
