//! Headers: read once into words of the domain, or refused with the character and the reason.

use std::net::IpAddr;

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, IF_MATCH, IF_NONE_MATCH, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, HeaderName, Version};

use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::ContentType;
use crate::domain::operation::{OperationId, OperationIdError};
use crate::domain::policy::Issuer;
use crate::domain::position::PresentedToken;
use crate::domain::precondition::{Preconditions, TagList};
use crate::limits::{HEADER_BYTES, HEADER_FIELDS, WAIT_SECONDS};

use super::problem::{Code, Problem};
use super::query::malformed;
use super::wire::{
    FENCING_INCARNATION, FENCING_SEQUENCE, FENCING_TOKEN, IDEMPOTENCY_KEY, PREFER, X_FENCING_TOKEN,
};

/// Headers that stand once; so does every header whose name begins with `fencing-`.
const SINGLE: [HeaderName; 8] =
    [X_FENCING_TOKEN, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, CONTENT_TYPE, CONTENT_ENCODING, PREFER, HOST];

/// Refuses headers beyond the bounds.
pub(super) fn bounded(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.len() > HEADER_FIELDS {
        let detail =
            format!("the request has {} header fields; at most {HEADER_FIELDS} are taken", headers.len());
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    let bytes = headers.iter().fold(0_usize, |sum, (name, value)| {
        sum.saturating_add(name.as_str().len()).saturating_add(value.len())
    });
    if bytes > HEADER_BYTES {
        let detail = format!("the headers have {bytes} bytes; at most {HEADER_BYTES} are taken");
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    Ok(())
}

/// Marks a request that came with `Transfer-Encoding` and `Content-Length`, or of which that cannot be ruled out: the server
/// acts on the first and hides the second, so whoever reads the bytes says so.
#[derive(Debug, Clone, Copy)]
pub struct TwoLengths;

/// Refuses a body whose end two readers could see in different places, or that was coded in a way that nobody undoes
/// here: a coding other than `chunked` would be stored as it travelled (RFC 9112 section 6.1).
pub(super) fn framed(headers: &HeaderMap, marks: &Extensions) -> Result<(), Problem> {
    if marks.get::<TwoLengths>().is_some() {
        return Err(malformed(
            "Content-Length and Transfer-Encoding do not go together; send one of the two",
        ));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => {
            Err(malformed("Transfer-Encoding is something else than chunked, once; send the body as it is"))
        }
    }
}

/// Refuses headers of the data plane on a call that takes the same in its body: one of the two would be ignored.
pub(super) fn said_in_body(headers: &HeaderMap) -> Result<(), Problem> {
    let taken = [
        FENCING_TOKEN,
        X_FENCING_TOKEN,
        IDEMPOTENCY_KEY,
        FENCING_SEQUENCE,
        FENCING_INCARNATION,
        IF_MATCH,
        IF_NONE_MATCH,
    ];
    match taken.iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(malformed(format!("this call takes {name} in its body; leave the header out"))),
    }
}

/// Refuses a header that stands once and came twice: two readers could take either.
pub(super) fn single(headers: &HeaderMap) -> Result<(), Problem> {
    let stands_once = |name: &&HeaderName| name.as_str().starts_with("fencing-") || SINGLE.contains(name);
    for name in headers.keys().filter(stands_once) {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(malformed(format!("the header {name} is given twice; send it once")));
        }
    }
    Ok(())
}

/// Refuses a request of HTTP/1.1 that does not say for whom it is (RFC 9112 section 3.2), and one that is for a name
/// which anybody can point at this machine: where no credentials are asked for, a web page whose name was turned to
/// 127.0.0.1 would otherwise be let in. An address needs no name server, and `localhost` is never one's own.
pub(super) fn addressed(head: &Parts, open: bool) -> Result<(), Problem> {
    let declared = text(&head.headers, &HOST)?;
    for authority in declared.into_iter().chain(head.uri.authority().map(Authority::as_str)) {
        if open && !is_local(authority) {
            return Err(malformed(format!(
                "Host is {authority:?}; without credentials this gateway answers only to localhost and to IP addresses"
            )));
        }
    }
    if declared.is_some() || head.uri.host().is_some() || head.version < Version::HTTP_11 {
        return Ok(());
    }
    Err(malformed("the header Host is missing; HTTP/1.1 asks for it"))
}

/// Whether an authority names this machine without a name server's help. A user in it is none of `Host` (RFC 9110 section
/// 7.2): whoever reads past the `@` and whoever does not would take it for two places.
fn is_local(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let port = authority.as_str().strip_prefix(authority.host()).map(|rest| rest.trim_start_matches(':'));
    if !port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return false;
    }
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || bare.parse::<IpAddr>().is_ok()
}

/// The fencing token, under either of its names.
pub(super) fn token(headers: &HeaderMap, issuer: Issuer) -> Result<Option<PresentedToken>, Problem> {
    let (own, alias) = (text(headers, &FENCING_TOKEN)?, text(headers, &X_FENCING_TOKEN)?);
    match (own, alias) {
        (Some(_), Some(_)) => {
            Err(malformed("Fencing-Token and X-Fencing-Token are one header; send one of the two"))
        }
        (Some(text), None) | (None, Some(text)) => token_of(text, issuer, "Fencing-Token").map(Some),
        (None, None) => Ok(None),
    }
}

/// A token, from a header or from JSON. External issuers seal nothing: a seal there is a token of something else.
pub(super) fn token_of(text: &str, issuer: Issuer, name: &str) -> Result<PresentedToken, Problem> {
    let token = PresentedToken::parse(text)
        .map_err(|error| Problem::new(Code::InvalidToken, format!("{name}: {error}")))?;
    if issuer.is_external() && token.seal.is_some() {
        let detail = format!(
            "{name}: something stands after epoch.token, and this namespace has an external issuer, which seals nothing; \
             send epoch.token or token"
        );
        return Err(Problem::new(Code::InvalidToken, detail));
    }
    Ok(token)
}

/// The operation id.
pub(super) fn operation_id(headers: &HeaderMap) -> Result<Option<OperationId>, Problem> {
    let Some(text) = text(headers, &IDEMPOTENCY_KEY)? else { return Ok(None) };
    unquoted(text).map(Some).map_err(|error| Problem::new(Code::InvalidOperationId, error.to_string()))
}

/// An id bare or as a structured-field string (RFC 9651 section 3.3.3); both spellings are one id.
fn unquoted(text: &str) -> Result<OperationId, OperationIdError> {
    if !text.starts_with('"') {
        return OperationId::parse(text);
    }
    let item: sfv::Item = sfv::Parser::new(text).parse().map_err(|_| OperationIdError::Quoting)?;
    if let (sfv::BareItem::String(inner), true) = (&item.bare_item, item.params.is_empty()) {
        OperationId::parse(inner.as_str())
    } else {
        Err(OperationIdError::Quoting)
    }
}

/// The sequence.
pub(super) fn sequence(headers: &HeaderMap) -> Result<Option<Sequence>, Problem> {
    text(headers, &FENCING_SEQUENCE)?.map(|text| sequence_of(text, "Fencing-Sequence")).transpose()
}

/// A sequence, from a header or from JSON.
pub(super) fn sequence_of(text: &str, name: &str) -> Result<Sequence, Problem> {
    Sequence::parse(text).map_err(|error| Problem::new(Code::InvalidSequence, format!("{name}: {error}")))
}

/// The incarnation that the caller means.
pub(super) fn incarnation(headers: &HeaderMap) -> Result<Option<Incarnation>, Problem> {
    let Some(text) = text(headers, &FENCING_INCARNATION)? else { return Ok(None) };
    Incarnation::parse(text).map(Some).map_err(|error| malformed(format!("Fencing-Incarnation: {error}")))
}

/// `If-Match` and `If-None-Match`.
pub(super) fn preconditions(headers: &HeaderMap) -> Result<Preconditions, Problem> {
    let if_match = tags(headers, &IF_MATCH, "If-Match")?;
    Ok(Preconditions { if_match, if_none_match: if_none_match(headers)? })
}

/// What the caller knows already.
pub(super) fn if_none_match(headers: &HeaderMap) -> Result<Option<TagList>, Problem> {
    tags(headers, &IF_NONE_MATCH, "If-None-Match")
}

fn tags(headers: &HeaderMap, name: &HeaderName, shown: &str) -> Result<Option<TagList>, Problem> {
    let read = |text: &str| TagList::parse(text).map_err(|error| malformed(format!("{shown}: {error}")));
    text(headers, name)?.map(read).transpose()
}

/// The content type of a payload.
pub(super) fn content_type(headers: &HeaderMap) -> Result<Option<ContentType>, Problem> {
    let Some(text) = text(headers, &CONTENT_TYPE)? else { return Ok(None) };
    ContentType::parse(text).map(Some).map_err(|error| malformed(format!("Content-Type: {error}")))
}

/// Refuses encoded bodies: what is kept would not be what was meant, or not what was sent.
pub(super) fn not_encoded(headers: &HeaderMap) -> Result<(), Problem> {
    match text(headers, &CONTENT_ENCODING)? {
        None => Ok(()),
        Some(coding) if coding.eq_ignore_ascii_case("identity") => Ok(()),
        Some(coding) => Err(Problem::new(
            Code::UnsupportedMediaType,
            format!("Content-Encoding {coding:?} is not taken; send the bytes as they are to be kept"),
        )),
    }
}

/// Refuses bodies that do not say that they are JSON.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    const ADVICE: &str = "add -H 'content-type: application/json'";
    not_encoded(headers)?;
    let detail = match text(headers, &CONTENT_TYPE)? {
        None => format!("no content type is given; {ADVICE}"),
        Some(text) => {
            let essence = text.split(';').next().unwrap_or_default().trim();
            if essence.eq_ignore_ascii_case("application/json") {
                return Ok(());
            }
            format!("the content type is {essence:?}; {ADVICE}")
        }
    };
    Err(Problem::new(Code::UnsupportedMediaType, detail))
}

/// How many seconds the caller would wait (RFC 7240 section 4.3), at most [`WAIT_SECONDS`]. Nothing waits yet: on a
/// document store no operation is ever in progress. The syntax is held to all the same, so that a mistake does not
/// wait for the day on which it counts.
pub(super) fn wait(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(text) = text(headers, &PREFER)? else { return Ok(None) };
    for preference in text.split(',') {
        let word = preference.split(';').next().unwrap_or_default();
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if name.trim().eq_ignore_ascii_case("wait") {
            let digits = value.trim().trim_matches('"');
            return match digits.parse::<u64>() {
                Ok(seconds) => Ok(Some(seconds.min(WAIT_SECONDS))),
                Err(_) => {
                    Err(malformed(format!("Prefer: wait is {digits:?}; write wait=N with whole seconds")))
                }
            };
        }
    }
    Ok(None)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            Err(malformed(format!("the header {name} is not text from byte {} on", error.valid_up_to())))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    fn id(text: &str) -> Result<String, Code> {
        let found = operation_id(&headers(&[("idempotency-key", text)]));
        found.map(|id| id.unwrap().to_string()).map_err(|problem| problem.code())
    }

    #[test]
    fn a_quoted_id_and_a_bare_one_are_the_same() {
        assert_eq!(id("publish-1"), Ok("publish-1".to_owned()));
        assert_eq!(id("\"publish-1\""), Ok("publish-1".to_owned()));
        assert_eq!(id(r#""a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
        assert_eq!(id(&"x".repeat(255)).map(|id| id.len()), Ok(255));
        for bad in ["", "a b", "\"a b\"", "\"a\";p=1", "\"a\" b", "\"a", "\"\"", "ä", "\"a\"\"b\""] {
            assert_eq!(id(bad), Err(Code::InvalidOperationId), "{bad}");
        }
        assert_eq!(id(&"x".repeat(256)), Err(Code::InvalidOperationId));
    }

    #[test]
    fn one_header_twice_is_refused_and_so_are_both_names_of_the_token() {
        for name in [
            "fencing-token",
            "fencing-sequence",
            "idempotency-key",
            "if-match",
            "content-type",
            "prefer",
            "host",
        ] {
            assert_eq!(
                single(&headers(&[(name, "1"), (name, "1")])).unwrap_err().code(),
                Code::InvalidRequest
            );
        }
        assert!(single(&headers(&[("accept", "a/b"), ("accept", "c/d")])).is_ok());
        let both = headers(&[("fencing-token", "1"), ("x-fencing-token", "1")]);
        assert_eq!(token(&both, Issuer::Gateway).unwrap_err().code(), Code::InvalidRequest);
    }

    #[test]
    fn a_seal_means_nothing_to_an_external_issuer() {
        let sealed = headers(&[("x-fencing-token", "0.1.seal")]);
        assert_eq!(token(&sealed, Issuer::Registered).unwrap_err().code(), Code::InvalidToken);
        assert!(token(&sealed, Issuer::Gateway).unwrap().unwrap().seal.is_some());
    }

    #[test]
    fn waiting_is_read_leniently_and_capped() {
        let asked = |text| wait(&headers(&[("prefer", text)])).map_err(|problem| problem.code());
        assert_eq!(asked("wait=5"), Ok(Some(5)));
        assert_eq!(asked("respond-async, Wait = \"7\";x"), Ok(Some(7)));
        assert_eq!(asked("wait=3600"), Ok(Some(WAIT_SECONDS)));
        assert_eq!(asked("return=minimal"), Ok(None));
        for bad in ["wait", "wait=", "wait=-1", "wait=1.5", "wait=soon"] {
            assert_eq!(asked(bad), Err(Code::InvalidRequest), "{bad}");
        }
    }

    #[test]
    fn json_must_be_called_json_and_encodings_are_refused() {
        assert!(is_json(&headers(&[("content-type", "Application/JSON; charset=utf-8")])).is_ok());
        let form = headers(&[("content-type", "application/x-www-form-urlencoded")]);
        assert!(is_json(&form).unwrap_err().detail().contains("-H 'content-type: application/json'"));
        assert!(is_json(&HeaderMap::new()).is_err());
        assert!(not_encoded(&headers(&[("content-encoding", "identity")])).is_ok());
        assert!(not_encoded(&headers(&[("content-encoding", "gzip")])).is_err());
    }

    #[test]
    fn only_names_that_nobody_can_turn_elsewhere_are_answered() {
        for local in ["localhost", "localhost:8080", "a.localhost", "127.0.0.1:1", "[::1]:8080", "10.0.0.7"] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8080",
            "",
            "a b",
            "a@localhost",
            "localhost:80@127.0.0.1",
            "localhost:x",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }

    #[test]
    fn a_coding_that_nobody_undoes_is_refused() {
        for fine in [&[][..], &[("transfer-encoding", "chunked")], &[("transfer-encoding", "Chunked")]] {
            assert!(framed(&headers(fine), &Extensions::new()).is_ok());
        }
        for coding in ["gzip, chunked", "chunked, chunked", "identity", "gzip"] {
            let map = headers(&[("transfer-encoding", coding)]);
            assert!(framed(&map, &Extensions::new()).is_err(), "{coding}");
        }
        let twice = [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        assert!(framed(&headers(&twice), &Extensions::new()).is_err());
    }

    #[test]
    fn what_the_body_says_is_not_said_in_a_header_too() {
        assert!(said_in_body(&headers(&[("content-type", "application/json")])).is_ok());
        assert!(said_in_body(&headers(&[("idempotency-key", "op")])).is_err());
    }

    #[test]
    fn too_many_headers_are_refused() {
        let long = "x".repeat(HEADER_BYTES);
        assert_eq!(bounded(&headers(&[("a", &long)])).unwrap_err().code(), Code::HeadersTooLarge);
        let mut many = HeaderMap::new();
        for _ in 0..=HEADER_FIELDS {
            many.append("accept", HeaderValue::from_static("a/b"));
        }
        assert_eq!(bounded(&many).unwrap_err().code(), Code::HeadersTooLarge);
    }
}
