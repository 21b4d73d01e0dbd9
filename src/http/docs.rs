//! What the gateway says of itself: the description of its interface and the page of each error code. Both are in the
//! binary, so that they are those of this version.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::Asked;
use super::names::nearest;
use super::problem::{Code, Problem};

const OPENAPI: &str = include_str!("../../openapi.yaml");

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const MARKDOWN: HeaderValue = HeaderValue::from_static("text/markdown; charset=utf-8");

/// The page of a code; its file stands in `docs/errors`.
macro_rules! pages {
    ($($word:literal,)*) => {
        const PAGES: &[(&str, &str)] =
            &[$(($word, include_str!(concat!("../../docs/errors/", $word, ".md"))),)*];
    };
}

pages! {
    "advance_forbidden",
    "already_resolved",
    "batch_unsupported",
    "body_too_large",
    "cancelled",
    "change_unsafe",
    "counter_exhausted",
    "credentials_unavailable",
    "database_unavailable",
    "definition_differs",
    "deleted",
    "draining",
    "epoch_ahead",
    "forbidden",
    "generation_spent",
    "headers_too_large",
    "incarnation_gone",
    "internal",
    "invalid_body",
    "invalid_field",
    "invalid_operation_id",
    "invalid_request",
    "invalid_resource",
    "invalid_sequence",
    "invalid_token",
    "issuer_behind",
    "issuer_external",
    "lane_busy",
    "lease_expired",
    "lease_held",
    "lease_released",
    "lease_superseded",
    "lock_delay",
    "method_not_allowed",
    "not_found",
    "operation_expired",
    "operation_id_required",
    "operation_in_progress",
    "operation_mismatch",
    "operation_not_applied",
    "operations_open",
    "outcome_uncertain",
    "overloaded",
    "precondition_failed",
    "precondition_required",
    "quarantined",
    "quota_exceeded",
    "rate_limited",
    "reason_required",
    "request_mismatch",
    "request_timeout",
    "sequence_gap",
    "sequence_regressed",
    "sequence_required",
    "stale_token",
    "token_exhausted",
    "token_jump",
    "token_not_yours",
    "token_required",
    "unauthenticated",
    "unknown_namespace",
    "unsupported_media_type",
    "upstream_unreachable",
    "version_differs",
    "wait_timeout",
}

/// `GET /openapi.yaml`.
pub(super) fn openapi() -> Response {
    ([(CONTENT_TYPE, YAML)], Body::from(OPENAPI)).into_response()
}

/// `GET /docs/errors/{code}`: where the `type` of a problem leads.
pub(super) fn error_page(asked: &Asked<'_>) -> Result<Response, Problem> {
    let word = asked.head.uri.path().rsplit('/').next().unwrap_or_default();
    let Some((_, page)) = PAGES.iter().find(|(code, _)| *code == word) else {
        let advice = match nearest(word, PAGES.iter().map(|(code, _)| *code)) {
            Some(code) => format!("the nearest is {code:?}"),
            None => "/openapi.yaml lists them all".to_owned(),
        };
        return Err(Problem::new(Code::NotFound, format!("there is no error code {word:?}; {advice}")));
    };
    Ok(([(CONTENT_TYPE, MARKDOWN)], Body::from(*page)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        for code in Code::ALL {
            assert!(PAGES.iter().any(|(word, _)| *word == code.word()), "{code:?} has no page");
        }
        for (word, page) in PAGES {
            let title = Code::ALL.iter().find(|code| code.word() == *word).map(|code| code.title());
            assert!(title.is_some_and(|title| page.starts_with(&format!("# `{word}`: {title}"))), "{word}");
        }
    }
}
