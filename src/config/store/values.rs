//! Statuses, spans of time, the status path and the pointer of a stamp.

use super::super::given::Given;
use super::super::mistake::Mistakes;
use crate::domain::time::Millis;
use crate::domain::upstream::StatusSet;
use crate::limits::{STORE_ADDRESS_BYTES, STORE_KEY_RETENTION_MS_GREATEST, STORE_KEY_RETENTION_MS_LEAST};

/// Reads `refused_statuses`: those that mean that there was no effect and will be none.
pub(super) fn statuses(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<StatusSet> {
    let items = given.list("statuses from 400 to 499", 100, mistakes)?;
    let (mut found, mut is_right) = (Vec::new(), true);
    for item in &items {
        let item = item.given();
        match item.item.as_integer() {
            Some(408) => {
                item.wrong(mistakes, "408 says that the store gave up waiting, not that it did nothing");
            }
            Some(500..=599) => {
                item.wrong(mistakes, "5xx says nothing of the effect; allowed is 400 to 499 but for 408");
            }
            Some(_) | None => {
                if let Some(status) = item.whole(&(400..=499), mistakes).and_then(|it| u16::try_from(it).ok())
                {
                    found.push(status);
                    continue;
                }
            }
        }
        is_right = false;
    }
    is_right.then(|| StatusSet::of(&found))
}

/// Reads `key_retention`.
pub(super) fn retention(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<Millis> {
    given.span(&(STORE_KEY_RETENTION_MS_LEAST..=STORE_KEY_RETENTION_MS_GREATEST), "1s to 365d", mistakes)
}

/// Reads `status`: a path below the base with `{key}` in it.
pub(super) fn status_path(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?;
    let problem = if text.len() > STORE_ADDRESS_BYTES {
        format!("is longer than {STORE_ADDRESS_BYTES} bytes")
    } else if text.matches("{key}").count() != 1 {
        "has to name the place of the key once; write one such as \"status/{key}\"".to_owned()
    } else if text.starts_with('/') || text.contains("://") {
        "is a path below the address of the store; write one such as \"status/{key}\"".to_owned()
    } else if text.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        "has an empty segment, `.` or `..`; write the path that it means".to_owned()
    } else if !text.replacen("{key}", "", 1).bytes().all(is_plain) {
        "has a sign other than letters, digits, `/` and `-._~`; write one such as \"status/{key}\"".to_owned()
    } else {
        return Some(text.to_owned());
    };
    given.wrong(mistakes, problem);
    None
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_' | b'~')
}

/// Reads `json` of a stamp: a pointer (RFC 6901) to a member, not to the whole.
pub(super) fn json_pointer(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?;
    let escaped = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    let named = text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|name| !name.is_empty()));
    if escaped && named && text.len() <= STORE_ADDRESS_BYTES {
        return Some(text.to_owned());
    }
    given.wrong(mistakes, format!("{text:?} does not point to a member; write one such as \"/_fencegate\""));
    None
}
