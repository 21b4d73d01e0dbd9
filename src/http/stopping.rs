//! The stages of a stop, as those who serve see them.

use tokio_util::sync::CancellationToken;

/// One after another, and never back.
#[derive(Debug, Clone, Default)]
pub struct Stopping {
    /// It will stop: it is not ready any more, and goes on as before.
    pub announced: CancellationToken,
    /// Nothing new is taken in. What keeps or ends a lease is served on connections that are open; all else that would
    /// change something is refused, and nobody waits any more.
    pub draining: CancellationToken,
    /// All that was under way is done: streams end.
    pub ending: CancellationToken,
}
