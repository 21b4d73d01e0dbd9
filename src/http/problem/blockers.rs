//! What stands against an acquire: as one code, and resource by resource.

use serde::Serialize;

use crate::protocol::outcome::{Blocked, Blocker};

use super::{Code, Problem};

/// What stands against an acquire on one of several resources.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BlockerJson {
    pub(super) resource: String,
    pub(super) code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<String>,
    pub(super) free_in_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_position: Option<usize>,
}

impl Problem {
    /// What stands against an acquire of several resources.
    #[must_use]
    pub(super) fn blockers(mut self, blockers: Vec<BlockerJson>) -> Self {
        self.more.blockers = blockers;
        self
    }

    /// The caller's place in the queue, from 1.
    #[must_use]
    pub(super) fn queue_position(mut self, position: Option<usize>) -> Self {
        self.more.queue_position = position;
        self
    }

    /// The lease ended because the resource was cancelled.
    #[must_use]
    pub(super) fn cancel_requested(mut self, requested: bool) -> Self {
        self.more.cancel_requested = requested;
        self
    }
}

/// Somebody holds one of the resources, or at least one is in its lock delay; else others have waited longer, and one of
/// them is about to hold it.
pub(super) const fn blocked(blockers: &[Blocker]) -> Code {
    let (mut rest, mut delayed) = (blockers, false);
    while let [first, others @ ..] = rest {
        match first.why {
            Blocked::Held { .. } => return Code::LeaseHeld,
            Blocked::LockDelay => delayed = true,
            Blocked::Queued => {}
        }
        rest = others;
    }
    if delayed { Code::LockDelay } else { Code::LeaseHeld }
}

/// Of several resources, each that stands against the acquire is listed.
pub(super) fn hindered(problem: Problem, blockers: &[Blocker]) -> Problem {
    let place = blockers.iter().filter_map(|one| one.place).map(|place| place.position).max();
    let problem = problem.queue_position(place);
    problem.blockers(blockers.iter().map(blocker_json).collect())
}

fn blocker_json(blocker: &Blocker) -> BlockerJson {
    BlockerJson {
        resource: blocker.resource.to_string(),
        code: blocked(std::slice::from_ref(blocker)).word(),
        position: match blocker.why {
            Blocked::Held { position } => Some(position.to_string()),
            Blocked::LockDelay | Blocked::Queued => None,
        },
        free_in_ms: blocker.free_in.get(),
        queue_position: blocker.place.map(|place| place.position),
    }
}
