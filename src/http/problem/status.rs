//! Statuses of what is no problem: of what a write did, and of what an upstream answered.

use axum::http::StatusCode;

use crate::protocol::rows::{Done, SavedResponse};

/// The status of what a write does to a document.
pub(in super::super) const fn status_of(done: Done) -> StatusCode {
    match done {
        Done::Created => StatusCode::CREATED,
        Done::Replaced | Done::Removed | Done::Nothing => StatusCode::OK,
    }
}

/// The status that an upstream answered.
pub(in super::super) fn status_relayed(status: u16) -> StatusCode {
    // The client to upstreams lets no other through.
    StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY)
}

/// The status of a decided operation, first answer and replay alike: what the upstream answered, where it is one's.
pub(in super::super) fn status_saved(saved: &SavedResponse) -> StatusCode {
    saved.relayed.as_ref().map_or_else(|| status_of(saved.done), |head| status_relayed(head.status))
}
