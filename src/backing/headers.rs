//! The walls for headers, both ways. The caller has an allow-list of its own; what stands here never passes whatever a
//! list says.

use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::domain::store::{HttpStore, StampPlace};
use crate::domain::upstream::Field;

/// Headers of one connection, and those that frame a message (RFC 9110 section 7.6.1).
const OF_THE_CONNECTION: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that only the gateway itself sends: conditions and what stands for them, and who is asking.
const OF_THE_GATEWAY: [&str; 9] = [
    "content-type",
    "forwarded",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "x-fencing-token",
];

/// Headers that the gateway adds to an answer, more or less: the map need not grow for them.
const HEADERS_OF_THE_DOOR: usize = 12;

fn is_ours(name: &str, store: &HttpStore) -> bool {
    let stamp = match &store.stamp {
        Some(StampPlace::Header(header)) => header == name,
        Some(StampPlace::Json(_) | StampPlace::Pointer) | None => false,
    };
    let secret = store.credentials.as_ref().is_some_and(|credentials| credentials.header == name);
    stamp || secret || name.starts_with("fencing-")
}

fn may_go(name: &str, store: &HttpStore) -> bool {
    !OF_THE_CONNECTION.contains(&name)
        && !OF_THE_GATEWAY.contains(&name)
        && !name.starts_with("x-forwarded-")
        && name != store.key_header.to_ascii_lowercase()
        && !is_ours(name, store)
}

/// Puts a caller's headers into a request, without those that are not his to send.
pub(super) fn forward(fields: &[Field], store: &HttpStore, headers: &mut HeaderMap) -> Result<(), String> {
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        if may_go(&name, store) {
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| format!("{name:?} is no header"))?;
            headers.append(parsed, text(&name, value)?);
        }
    }
    Ok(())
}

/// Sets one header of the gateway's own.
pub(super) fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    let parsed = HeaderName::try_from(lower).map_err(|_| format!("{name:?} is no header"))?;
    headers.insert(parsed, text(name, value)?);
    Ok(())
}

/// Identifies the gateway. The value is marked, so that nothing prints it.
pub(super) fn identify(headers: &mut HeaderMap, store: &HttpStore) -> Result<(), String> {
    let Some(credentials) = &store.credentials else { return Ok(()) };
    let name = HeaderName::try_from(credentials.header.to_ascii_lowercase());
    let name = name.map_err(|_| "the name of the credentials' header is none".to_owned())?;
    let value = HeaderValue::try_from(credentials.secret.as_str());
    let mut value = value.map_err(|_| "the credentials cannot stand in a header".to_owned())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// The value is not repeated: it may be a secret.
fn text(name: &str, value: &str) -> Result<HeaderValue, String> {
    HeaderValue::try_from(value).map_err(|_| format!("the value of {name} cannot stand in a header"))
}

/// One header of an answer, as text.
pub(super) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What may be given back of an answer's headers, in order.
pub(super) fn returned(headers: &HeaderMap, store: &HttpStore) -> Vec<Field> {
    headers
        .iter()
        .filter(|(name, _)| may_come_back(name.as_str(), headers, store))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// The same of an answer that is passed through and not kept: names and values are shared, not copied.
pub(super) fn passed(headers: &HeaderMap, store: &HttpStore) -> HeaderMap {
    let mut passed = HeaderMap::with_capacity(headers.len().saturating_add(HEADERS_OF_THE_DOOR));
    for (name, value) in headers {
        if value.to_str().is_ok() && may_come_back(name.as_str(), headers, store) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

fn may_come_back(name: &str, headers: &HeaderMap, store: &HttpStore) -> bool {
    (name == CONTENT_TYPE.as_str() || store.return_headers.iter().any(|listed| listed == name))
        && !OF_THE_CONNECTION.contains(&name)
        && name != "etag"
        && !is_ours(name, store)
        && !is_nominated(name, headers)
}

/// Whether the answer's `Connection` header says that this one is meant for the next hop only.
fn is_nominated(name: &str, headers: &HeaderMap) -> bool {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|nominated| nominated.trim().eq_ignore_ascii_case(name))
}
