//! Names of headers: which may be passed on, and which never.

use super::super::given::{Found, Given};
use super::super::mistake::Mistakes;
use crate::limits::{STORE_HEADER_NAME_BYTES, STORE_HEADERS};

/// Names of headers in lower case, each with its place.
pub(super) type Names = Vec<Found<String>>;

/// Reads `forward_headers`.
pub(super) fn forwarded(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Names> {
    names(given, mistakes, reserved)
}

/// Reads `return_headers`.
pub(super) fn returned(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Names> {
    names(given, mistakes, |name| match name {
        "etag" => Some("is given back as Fencing-Upstream-ETag"),
        "idempotent-replayed" | "x-request-id" => Some(GATEWAYS_OWN),
        _ => reserved(name),
    })
}

/// Reads `key_header`.
pub(super) fn of_key(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    name(given, mistakes, |name| reserved(name).filter(|_| name != "idempotency-key"))
}

/// Reads `version_header`.
pub(super) fn of_version(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    name(given, mistakes, |name| match name {
        "etag" | "date" | "last-modified" => {
            Some("is another one with each answer, and says nothing of a version")
        }
        _ => reserved(name),
    })
}

/// Reads `header` of a stamp.
pub(super) fn of_stamp(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    name(given, mistakes, |name| reserved(name).filter(|_| !name.starts_with("x-fencing-")))
}

/// Reads `header` of credentials. What stands there may be the secret, so it is not repeated.
pub(super) fn of_credentials(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?.to_ascii_lowercase();
    let problem = if is_name(&text) {
        reserved(&text).filter(|_| text != "authorization")
    } else {
        Some("is not the name of a header; write one such as \"authorization\"")
    };
    if let Some(problem) = problem {
        given.wrong(mistakes, problem);
        return None;
    }
    Some(text)
}

const GATEWAYS_OWN: &str = "belongs to the gateway";

/// Why a header is never passed on.
fn reserved(name: &str) -> Option<&'static str> {
    match name {
        "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade" | "expect" => {
            Some("belongs to one connection and is never passed on")
        }
        "host" | "content-length" => Some("is made anew for each request and is never passed on"),
        "content-type" => Some("is always passed on; leave it out"),
        "authorization" => Some("is the client's own and is never passed on; see `credentials`"),
        "idempotency-key" | "prefer" => Some(GATEWAYS_OWN),
        "forwarded" => Some(OF_THE_WAY),
        _ if name.starts_with("x-forwarded-") => Some(OF_THE_WAY),
        _ if name.starts_with("proxy-") => Some("belongs to a proxy and is never passed on"),
        _ if name.starts_with("fencing-") || name.starts_with("x-fencing-") => Some(GATEWAYS_OWN),
        _ if name.starts_with("if-") => Some("is a condition that the gateway itself judges"),
        _ => None,
    }
}

const OF_THE_WAY: &str = "tells of the way to the gateway, which anybody can make up, and is never passed on";

fn names(
    given: &Given<'_>,
    mistakes: &mut Mistakes,
    refused: impl Fn(&str) -> Option<&'static str>,
) -> Option<Names> {
    let items = given.list("names of headers in quotes", STORE_HEADERS, mistakes)?;
    let (mut found, mut is_right) = (Names::new(), true);
    for item in &items {
        let item = item.given();
        match name(&item, mistakes, &refused) {
            Some(name) if found.iter().any(|other| other.value == name) => {
                item.wrong(mistakes, format!("{name:?} stands twice"));
                is_right = false;
            }
            Some(value) => found.push(Found { value, place: item.place.clone() }),
            None => is_right = false,
        }
    }
    is_right.then_some(found)
}

fn name(
    given: &Given<'_>,
    mistakes: &mut Mistakes,
    refused: impl Fn(&str) -> Option<&'static str>,
) -> Option<String> {
    let text = given.text(mistakes)?;
    let lower = text.to_ascii_lowercase();
    let problem = if is_name(&lower) { refused(&lower) } else { Some("is not the name of a header") };
    if let Some(problem) = problem {
        given.wrong(mistakes, format!("{text:?} {problem}"));
        return None;
    }
    Some(lower)
}

/// A token of RFC 9110, in lower case.
fn is_name(text: &str) -> bool {
    let sign = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || sign(byte);
    !text.is_empty() && text.len() <= STORE_HEADER_NAME_BYTES && text.bytes().all(inside)
}
