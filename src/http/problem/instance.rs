//! The request that a problem is about.

use std::borrow::Cow;

use uuid::Uuid;

use crate::domain::lease::AcquisitionId;
use crate::domain::trace::TraceId;

/// What a problem has to know of its request.
#[derive(Debug, Clone)]
pub(in super::super) struct Instance {
    pub(in super::super) path: String,
    /// Whether there is something under this path.
    pub(in super::super) found: bool,
    pub(in super::super) request_id: Uuid,
    pub(in super::super) trace_id: Option<TraceId>,
    /// Whether the method promises to change nothing.
    pub(in super::super) safe: bool,
    /// Whether it was sent to the data plane, where every answer has its effect in a header.
    pub(in super::super) data_plane: bool,
}

impl Instance {
    pub(super) fn shown(&self) -> Cow<'_, str> {
        if self.found { shown(&self.path) } else { elsewhere(&self.path) }
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

/// The same of a path that leads to nothing: with a slash too many or in other letters it may have been meant for a lease.
pub(in super::super) fn elsewhere(path: &str) -> Cow<'_, str> {
    if !path.split('/').any(|segment| AcquisitionId::parse(segment).is_ok()) {
        return shown(path);
    }
    let segments = path.split('/');
    let hidden = segments.map(|segment| if AcquisitionId::parse(segment).is_ok() { "-" } else { segment });
    Cow::Owned(hidden.collect::<Vec<&str>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquisition_id_is_hidden_wherever_it_was_sent_to() {
        // Broken: the address of a lease with a slash too many leads to nothing, and the answer repeats the secret in it. Must
        // hold: no answer does.
        let id = "30tsXMg9CA6YiAImUN7GwjDA";
        for path in
            ["/v1/leases/ID", "//v1/leases/ID", "/v1/leases//ID", "/V1/leases/ID/renew", "/v1/lease/ID"]
        {
            let shown = elsewhere(&path.replace("ID", id)).into_owned();
            assert!(!shown.contains(id) && shown.contains('-'), "{shown}");
        }
        assert_eq!(elsewhere("/nothing/here"), "/nothing/here");
        assert_eq!(
            shown("/v1/resources/s/30tsXMg9CA6YiAImUN7GwjDA"),
            "/v1/resources/s/30tsXMg9CA6YiAImUN7GwjDA"
        );
    }
}
