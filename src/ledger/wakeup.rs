//! When to look again.
//!
//! Nothing is decided by this clock: it only says when somebody is woken to ask the ledger, which has its own time. A test
//! can stop it, and set it forward, with the runtime that it belongs to.

use tokio::time::Instant;

/// Now, for wake-ups alone.
#[expect(
    clippy::disallowed_methods,
    reason = "no decision depends on it, and the runtime of a test stops it"
)]
#[must_use]
pub fn instant() -> Instant {
    Instant::now()
}
