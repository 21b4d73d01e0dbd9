//! Bounded waiting.
//!
//! A database future is never cancelled: it runs in a task of its own, to its end. What is waited for here, and given up
//! after a while, is only the answer of such a task, or a place among them.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Sleep;

/// One span of time, which may be used up by several waits.
pub(super) struct Patience {
    end: Pin<Box<Sleep>>,
}

impl Patience {
    /// Begins now.
    pub(super) fn of(span: Duration) -> Self {
        Self { end: Box::pin(tokio::time::sleep(span)) }
    }

    /// Waits for an answer or a place, never for a database. None when the time is up first.
    pub(super) async fn wait<T>(&mut self, answer: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = &mut self.end => None,
        }
    }
}
