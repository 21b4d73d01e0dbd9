//! Whose streams are open, and who waits for a change: no caller takes all places away from the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::principal::PrincipalName;
use crate::limits::{EVENT_STREAMS, EVENT_STREAMS_EACH, WATCHERS, WATCHERS_EACH};

/// Places of one kind in this process.
pub(in super::super) struct Streams {
    what: &'static str,
    most: usize,
    each: usize,
    open: Mutex<HashMap<PrincipalName, usize>>,
}

/// One place, as long as it is held.
pub(in super::super) struct Seat {
    streams: Arc<Streams>,
    of: PrincipalName,
}

impl Streams {
    /// For `/v1/events`.
    pub(in super::super) fn of_events() -> Arc<Self> {
        Arc::new(Self::of("streams of events", EVENT_STREAMS, EVENT_STREAMS_EACH))
    }

    /// For those who watch a lease or a resource.
    pub(in super::super) fn of_watchers() -> Arc<Self> {
        Arc::new(Self::of("streams of leases and long polls", WATCHERS, WATCHERS_EACH))
    }

    fn of(what: &'static str, most: usize, each: usize) -> Self {
        Self { what, most, each, open: Mutex::default() }
    }

    /// A place for one more stream of a caller, or why there is none. Where nobody is asked who it is, all are one caller, who
    /// may have all of them.
    pub(in super::super) fn seat(
        self: &Arc<Self>,
        of: &PrincipalName,
        is_anybody: bool,
    ) -> Result<Seat, String> {
        let Self { what, most, each, open } = self.as_ref();
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().sum::<usize>() >= *most {
            return Err(format!("this process serves {most} {what} at once; ask again later"));
        }
        let own = open.entry(of.clone()).or_default();
        if *own >= *each && !is_anybody {
            return Err(format!(
                "{of} has {each} {what} at this process already; end one, or ask another replica"
            ));
        }
        *own = own.saturating_add(1);
        Ok(Seat { streams: self.clone(), of: of.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = open.get_mut(&self.of) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                open.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PrincipalName {
        PrincipalName::parse(text).unwrap()
    }

    #[test]
    fn one_caller_leaves_streams_to_the_others() {
        // Broken: one caller opens every stream, and nobody else hears anything. Must hold: it has a share, and what it closes
        // it may open again.
        let streams = Streams::of_events();
        let mut greedy: Vec<Seat> = (0..EVENT_STREAMS_EACH)
            .map(|_| streams.seat(&name("mallory"), false).unwrap_or_else(|why| panic!("{why}")))
            .collect();
        assert!(streams.seat(&name("mallory"), false).is_err());
        assert!(streams.seat(&name("alice"), false).is_ok());
        greedy.pop();
        assert!(streams.seat(&name("mallory"), false).is_ok());
        drop(greedy);
        assert!(streams.open.lock().unwrap().is_empty(), "who has gone is not remembered");
    }

    #[test]
    fn all_together_have_a_bound() {
        let streams = Streams::of_events();
        let seats: Vec<_> =
            (0..EVENT_STREAMS).map(|_| streams.seat(&PrincipalName::anonymous(), true)).collect();
        assert!(seats.iter().all(Result::is_ok));
        assert!(streams.seat(&name("alice"), false).is_err());
    }
}
