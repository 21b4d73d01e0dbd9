//! The request that a problem is about.

use std::borrow::Cow;

use uuid::Uuid;

use crate::domain::trace::TraceId;

/// What a problem has to know of its request.
#[derive(Debug, Clone)]
pub(in super::super) struct Instance {
    pub(in super::super) path: String,
    pub(in super::super) request_id: Uuid,
    pub(in super::super) trace_id: Option<TraceId>,
    /// Whether the method promises to change nothing.
    pub(in super::super) safe: bool,
    /// Whether it was sent to the data plane, where every answer has its effect in a header.
    pub(in super::super) data_plane: bool,
}

impl Instance {
    pub(super) fn shown(&self) -> Cow<'_, str> {
        shown(&self.path)
    }
}

/// A path without the acquisition id that may stand in it: whoever knows one may release the lease, and error bodies are
/// logged in many places.
pub(in super::super) fn shown(path: &str) -> Cow<'_, str> {
    match path.strip_prefix("/v1/leases/") {
        None => Cow::Borrowed(path),
        Some(rest) => {
            let below = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default();
            Cow::Owned(format!("/v1/leases/-{below}"))
        }
    }
}
