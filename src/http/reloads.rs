//! What became of the last reload, for those who ask.

use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::time::Timestamp;

/// What became of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// When.
    pub at: Timestamp,
    /// The keys whose new values hold; no value is kept here.
    pub changed: Vec<String>,
    /// The keys that were changed and cannot change while the process runs.
    pub ignored: Vec<String>,
    /// Why nothing was taken over; none when it was.
    pub mistake: Option<String>,
}

impl Reload {
    /// In one word.
    #[must_use]
    pub const fn result(&self) -> &'static str {
        match (&self.mistake, self.changed.is_empty(), self.ignored.is_empty()) {
            (Some(_), _, _) => "refused",
            (None, true, true) => "unchanged",
            (None, false, true) => "applied",
            (None, _, false) => "needs_restart",
        }
    }
}

/// The last one; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Reloads(Arc<Mutex<Option<Reload>>>);

impl Reloads {
    /// Takes one in.
    pub fn note(&self, reload: Reload) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reload);
    }

    /// The last one; none before the first.
    #[must_use]
    pub fn last(&self) -> Option<Reload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
