//! Values on the command line, checked before anything is sent.
//!
//! Names above all: an address with `..` in it would be rewritten on its way and name something else.

use std::time::Duration;

use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::ContentType;
use crate::domain::lease::{AcquisitionId, Holder};
use crate::domain::operation::OperationId;
use crate::domain::position::PresentedToken;
use crate::domain::precondition::TagList;
use crate::domain::resource::Path;
use crate::domain::subject::Subject;

/// A fencing token as it will be sent. It is a credential and therefore not printable.
#[derive(Clone)]
pub(super) struct TokenText(pub(super) String);

/// A full name, target included.
pub(super) fn name(text: &str) -> Result<Path, String> {
    Path::parse(text).map_err(|error| error.to_string())
}

/// A namespace, or `*` for all of them.
pub(super) fn namespaces(text: &str) -> Result<Subject, String> {
    match Subject::parse(text) {
        Ok(subject @ (Subject::Everywhere | Subject::Namespace(_))) => Ok(subject),
        Ok(Subject::Resource(_)) => {
            Err("it has a slash: name the namespace alone, or '*' for all".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn operation(text: &str) -> Result<OperationId, String> {
    OperationId::parse(text).map_err(|error| error.to_string())
}

pub(super) fn acquisition(text: &str) -> Result<AcquisitionId, String> {
    AcquisitionId::parse(text).map_err(|error| error.to_string())
}

pub(super) fn holder(text: &str) -> Result<Holder, String> {
    Holder::parse(text).map_err(|error| error.to_string())
}

pub(super) fn sequence(text: &str) -> Result<Sequence, String> {
    Sequence::parse(text).map_err(|error| error.to_string())
}

pub(super) fn incarnation(text: &str) -> Result<Incarnation, String> {
    Incarnation::parse(text).map_err(|error| error.to_string())
}

pub(super) fn content_type(text: &str) -> Result<ContentType, String> {
    ContentType::parse(text).map_err(|error| error.to_string())
}

/// A token in its wire form; whether it is the right one is the gateway's question.
pub(super) fn token(text: &str) -> Result<TokenText, String> {
    if let Some(found) = text.chars().find(|found| !found.is_ascii_graphic()) {
        return Err(format!("character {found:?} does not stand in a token; send it as acquire returned it"));
    }
    PresentedToken::parse(text).map(|_| TokenText(text.to_owned())).map_err(|error| error.to_string())
}

/// A reason that is one.
pub(super) fn reason(text: &str) -> Result<String, String> {
    match text.chars().find(|found| found.is_control()) {
        Some(found) => Err(format!("control character {found:?}: write one line")),
        None if text.trim().is_empty() => Err("it is empty: say why".to_owned()),
        None => Ok(text.to_owned()),
    }
}

/// Entity tags as the header has them; a single one also without its quotes, which shells eat.
pub(super) fn tags(text: &str) -> Result<String, String> {
    let bare = text != "*" && !text.contains(['"', ',', ' ']);
    let quoted = if bare { format!("\"{text}\"") } else { text.to_owned() };
    TagList::parse(&quoted).map(|_| quoted).map_err(|error| error.to_string())
}

/// A length of time such as `30s` or `1500ms`; `0` is none at all.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 30s, 1500ms or 2m"))
}

/// A length of time such as `30s` or `1500ms`, in milliseconds.
pub(super) fn ttl_ms(text: &str) -> Result<u64, String> {
    let length = length(text)?;
    match u64::try_from(length.as_millis()) {
        Ok(ms) if ms > 0 && length == Duration::from_millis(ms) => Ok(ms),
        Ok(_) | Err(_) => Err("give whole milliseconds, at least one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_rewritten_on_its_way_is_refused_here() {
        for wrong in
            ["statements/../secrets", "statements/./x", "statements", "/a/b", "a//b", "a/b?c", "a/%2e%2e"]
        {
            assert!(name(wrong).is_err(), "{wrong}");
        }
        assert!(name("statement:account-42/2026-09-13 über/x").is_ok());
    }

    #[test]
    fn a_single_tag_needs_no_quotes() {
        assert_eq!(tags("1.2").unwrap(), "\"1.2\"");
        assert_eq!(tags("\"1.2\"").unwrap(), "\"1.2\"");
        assert_eq!(tags("*").unwrap(), "*");
        assert_eq!(tags("\"1.2\", W/\"1.3\"").unwrap(), "\"1.2\", W/\"1.3\"");
        assert!(tags("1.2, 1.3").is_err());
    }

    #[test]
    fn lengths_of_time_are_whole_milliseconds() {
        assert_eq!(ttl_ms("30s"), Ok(30_000));
        assert_eq!(ttl_ms("1m 500ms"), Ok(60_500));
        for wrong in ["0s", "5", "1us", "1500us", "-1s", "soon", ""] {
            assert!(ttl_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_a_header_value() {
        assert!(token("0.107.kq2").is_ok());
        assert!(token("107").is_ok());
        for wrong in ["", "0", "0.107.a b", "0.107.a\n", "x"] {
            assert!(token(wrong).is_err(), "{wrong:?}");
        }
    }
}
