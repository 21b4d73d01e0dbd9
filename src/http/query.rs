//! Query strings: decoded once, every parameter known and given once, and the cursors of the lists.

use std::time::Duration;

use axum::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode;

use crate::domain::time::Timestamp;
use crate::limits::{PAGE_ITEMS, WAIT_MS};

use super::names::nearest;
use super::problem::{Code, Problem};

/// The parameters of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query of an address; only these parameters are taken, each once.
    pub(super) fn parse(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        if known.is_empty() && uri.query() == Some("") {
            return Err(malformed("this address takes no query string; leave the question mark out"));
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        let written = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        for pair in written {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(malformed(format!("the parameter {name} is given twice; send it once")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// A parameter's value.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that must be there.
    pub(super) fn required(&self, name: &str, example: &str) -> Result<&str, Problem> {
        self.value(name).ok_or_else(|| {
            malformed(format!("the parameter {name} is missing; add {name}={example} to the query"))
        })
    }

    /// A parameter that is one of a few words.
    pub(super) fn word<T>(
        &self,
        name: &str,
        words: &[&str],
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.value(name) else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(malformed(format!("{name} is {text:?}; it is one of {}", words.join(", ")))),
        }
    }

    /// How many items a page may have.
    pub(super) fn limit(&self) -> Result<u32, Problem> {
        let Some(text) = self.value("limit") else { return Ok(PAGE_ITEMS) };
        match text.parse::<u32>() {
            Ok(limit) if (1..=PAGE_ITEMS).contains(&limit) => Ok(limit),
            Ok(_) | Err(_) => {
                Err(malformed(format!("limit is {text:?}; it is a whole number from 1 to {PAGE_ITEMS}")))
            }
        }
    }

    /// How long the caller waits for a change; none when it does not wait.
    pub(super) fn wait(&self) -> Result<Option<Duration>, Problem> {
        let Some(text) = self.value("wait_ms") else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(0) => Ok(None),
            Ok(wait) if wait <= WAIT_MS => Ok(Some(Duration::from_millis(wait))),
            Ok(_) | Err(_) => Err(malformed(format!(
                "wait_ms is {text:?}; it is a whole number of milliseconds from 0 to {WAIT_MS}"
            ))),
        }
    }

    /// A moment, as RFC 3339 has it.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let Some(text) = self.value(name) else { return Ok(None) };
        match text.parse::<jiff::Timestamp>() {
            Ok(at) => Ok(Some(Timestamp::from_ms(at.as_millisecond()))),
            Err(_) => Err(malformed(format!("{name} is {text:?}; write a time as in 2026-09-13T08:01:00Z"))),
        }
    }

    /// The text inside a cursor.
    pub(super) fn cursor(&self) -> Result<Option<String>, Problem> {
        let Some(text) = self.value("cursor") else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(inner) => Ok(Some(inner)),
            None => Err(bad_cursor()),
        }
    }
}

/// A cursor that holds this text.
pub(super) fn cursor_of(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// A cursor that no list of this kind gave out.
pub(super) fn bad_cursor() -> Problem {
    malformed("the cursor is not one of this list; send next_cursor as it came, or leave it out".to_owned())
}

/// A request that is malformed as a whole.
pub(super) fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidRequest, detail)
}

/// Clients write spaces as `+` in queries, and a plus as `%2B`.
fn decoded(text: &str) -> Result<String, Problem> {
    let spaced: Vec<u8> = text.bytes().map(|byte| if byte == b'+' { b' ' } else { byte }).collect();
    let bytes: Vec<u8> = percent_decode(&spaced).collect();
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        malformed(format!("a part of the query is not UTF-8 from byte {at} on"))
    })
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let advice = match nearest(name, known.iter().copied()) {
        Some(other) => format!("did you mean {other:?}?"),
        None if known.is_empty() => "this address takes no query string".to_owned(),
        None => format!("it takes {}", known.join(", ")),
    };
    malformed(format!("{name:?} is not a parameter of this address; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Query, Problem> {
        let uri: Uri = format!("/v1/resources?{query}").parse().unwrap();
        Query::parse(&uri, &["namespace", "limit", "cursor"])
    }

    #[test]
    fn values_are_decoded_once_and_a_plus_is_a_space() {
        let query = parse("namespace=a%2Fb+c%2B&limit=3").unwrap();
        assert_eq!(query.value("namespace"), Some("a/b c+"));
        assert_eq!(query.limit().unwrap(), 3);
        assert!(parse("").unwrap().value("limit").is_none());
    }

    #[test]
    fn what_is_not_known_or_comes_twice_is_refused() {
        assert!(parse("namespac=a").unwrap_err().detail().contains("\"namespace\""));
        assert!(parse("limit=1&limit=2").unwrap_err().detail().contains("twice"));
        assert!(parse("x=%FF").is_err());
        for limit in ["0", "101", "-1", "1.0", "", " 1"] {
            assert!(
                parse(&format!("limit={}", limit.replace(' ', "+"))).unwrap().limit().is_err(),
                "{limit}"
            );
        }
    }

    #[test]
    fn a_cursor_reads_back_and_a_made_up_one_does_not() {
        let made = cursor_of("statements/a");
        assert_eq!(
            parse(&format!("cursor={made}")).unwrap().cursor().unwrap().as_deref(),
            Some("statements/a")
        );
        assert!(parse("cursor=%2B%2B").unwrap().cursor().is_err());
        assert!(parse("cursor=_w").unwrap().cursor().is_err());
    }
}
