//! How many connections the operating system lets the process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::limits::{CONNECTIONS, DESCRIPTORS_BESIDE};

/// Raises the limit of descriptors to what [`CONNECTIONS`] need, as far as it may be raised, and tells how many
/// connections there may be at once.
pub(super) fn connections() -> usize {
    let needed = CONNECTIONS.saturating_add(DESCRIPTORS_BESIDE);
    let found = getrlimit(Resource::Nofile);
    if allowed(found) < needed {
        let wanted = u64::try_from(needed).unwrap_or(u64::MAX);
        let current = Some(found.maximum.map_or(wanted, |most| wanted.min(most)));
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current, ..found }) {
            warn!(%error, "the limit of descriptors cannot be raised");
        }
    }
    let allowed = allowed(getrlimit(Resource::Nofile));
    let connections = CONNECTIONS.min(allowed.saturating_sub(DESCRIPTORS_BESIDE)).max(1);
    if connections < CONNECTIONS {
        warn!(
            descriptors = allowed,
            connections,
            wanted = CONNECTIONS,
            "the limit of descriptors allows fewer connections at once; further ones wait to be accepted"
        );
    }
    connections
}

/// None is no limit.
fn allowed(limit: Rlimit) -> usize {
    limit.current.and_then(|current| usize::try_from(current).ok()).unwrap_or(usize::MAX)
}
