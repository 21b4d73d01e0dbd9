//! What the clients and the store have seen: kept beside the rows, from answers alone, in plain numbers.

use bytes::Bytes;
use fencegate::domain::lease::{AcquisitionId, EndCause, LeaseState};
use fencegate::domain::time::Timestamp;
use fencegate::protocol::control::ControlVerb;
use fencegate::protocol::rows::SavedResponse;

/// (epoch, token).
pub(super) type At = (u64, u64);

/// A granted lease, as its owner knows it.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) page: usize,
    pub(super) request: u64,
    pub(super) at: At,
    pub(super) id: AcquisitionId,
    /// When it ends, counted from the last answer.
    pub(super) until: Timestamp,
    pub(super) released: bool,
    /// By whose act it was superseded, unless by a mere successor.
    pub(super) cause: Option<EndCause>,
    /// The grant that was handed over to make this one.
    pub(super) source: Option<usize>,
}

/// A control call that was carried out under a key.
#[derive(Debug, Clone)]
pub(super) struct Called {
    pub(super) verb: ControlVerb,
    pub(super) key: u64,
    pub(super) at: Option<At>,
    pub(super) body: Bytes,
}

/// An applied operation, as its first answer told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) incarnation: u64,
    pub(super) operation: u64,
    pub(super) payload: usize,
    pub(super) at: At,
    pub(super) sequence: u64,
    pub(super) response: SavedResponse,
}

/// What a target holds: the payload that was written last, and its validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) payload: usize,
    pub(super) tag: (u64, u64),
}

/// Everything that was ever answered about one page.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Highest position of an answer that fences: a write, an advance, an acquire under a contract that promises it.
    pub(super) acknowledged: At,
    /// Highest position that was registered by an advance.
    pub(super) registered: At,
    /// Highest position that was ever granted.
    pub(super) granted: At,
    /// Position and sequence of the last effect.
    pub(super) effect: Option<(At, u64)>,
    pub(super) commit: u64,
    /// Where each incarnation began, the current one last.
    pub(super) births: Vec<At>,
    /// Position of the last removal of the page, and whether it still is removed.
    pub(super) ended: At,
    pub(super) deleted: bool,
    /// Highest position that a revoke or a cancel has ended, and whether the page is cancelled.
    pub(super) revoked: At,
    pub(super) cancelled: bool,
    pub(super) called: Vec<Called>,
    pub(super) contents: [Option<Content>; 3],
    pub(super) applied: Vec<Applied>,
    /// Applied operations of which nothing is recorded any more.
    pub(super) forgotten: Vec<Applied>,
}

/// The whole history that matters.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) epoch: u64,
    /// Whether the breaker has tripped, and no epoch was begun since.
    pub(super) stopped: bool,
    pub(super) pages: Vec<Page>,
    pub(super) grants: Vec<Grant>,
}

impl History {
    pub(super) fn new(pages: usize) -> Self {
        let page = Page {
            acknowledged: (0, 0),
            registered: (0, 0),
            granted: (0, 0),
            effect: None,
            commit: 0,
            births: vec![(0, 0)],
            ended: (0, 0),
            deleted: false,
            revoked: (0, 0),
            cancelled: false,
            called: Vec::new(),
            contents: [None; 3],
            applied: Vec::new(),
            forgotten: Vec::new(),
        };
        Self { epoch: 0, stopped: false, pages: vec![page; pages], grants: Vec::new() }
    }

    /// What the owner of a grant must be told about it now.
    pub(super) fn state(&self, grant: &Grant, now: Timestamp) -> LeaseState {
        if grant.released {
            LeaseState::Released
        } else if grant.cause.is_some()
            || grant.at < self.pages[grant.page].granted
            || grant.at < (self.epoch, 0)
        {
            LeaseState::Superseded
        } else if now >= grant.until {
            LeaseState::Expired
        } else {
            LeaseState::Held
        }
    }

    pub(super) fn is_live(&self, grant: &Grant, now: Timestamp) -> bool {
        self.state(grant, now) == LeaseState::Held
    }

    /// The grant that a request made, where it made one.
    pub(super) fn granted_to(&self, page: usize, request: u64) -> Option<&Grant> {
        self.grants.iter().find(|grant| (grant.page, grant.request, grant.source) == (page, request, None))
    }

    /// The live grants of a page; one at most, ever (I17).
    pub(super) fn live(&self, page: usize, now: Timestamp) -> usize {
        self.grants.iter().filter(|grant| grant.page == page && self.is_live(grant, now)).count()
    }
}

impl Page {
    pub(super) fn incarnation(&self) -> u64 {
        u64::try_from(self.births.len()).unwrap()
    }

    /// The outcome that a delivery must get, where there is one in the incarnation that it addresses.
    pub(super) fn outcome(&self, operation: u64, at: At, named: u64) -> Option<&Applied> {
        let falls = self.births.iter().rposition(|born| at >= *born).unwrap_or_default();
        let incarnation = if named > 0 { named } else { u64::try_from(falls).unwrap() + 1 };
        self.applied.iter().find(|done| done.incarnation == incarnation && done.operation == operation)
    }
}
