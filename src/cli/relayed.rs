//! What a store behind the gateway answered. It is no problem of the gateway's, and its words are its own: what happened is
//! said by the gateway's headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, LOCATION};
use serde_json::{Value, json};

use super::failure::Ending;
use super::table;

/// A whole answer with `Fencing-Source: upstream`.
#[derive(Debug)]
pub(super) struct Relayed {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Relayed {
    /// The head of such an answer; none of one that the gateway composed.
    pub(super) fn head(response: &Response) -> Option<Self> {
        let headers = response.headers();
        (headers.get("fencing-source")? == "upstream").then(|| Self {
            status: response.status().as_u16(),
            headers: headers.clone(),
            body: Vec::new(),
        })
    }

    /// With its body.
    pub(super) fn with(self, body: Vec<u8>) -> Self {
        Self { body, ..self }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn effect(&self) -> &str {
        self.header("fencing-effect").unwrap_or("unknown")
    }

    /// The body as text, where it is one.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }

    /// How a command ends with it.
    pub(super) fn ending(&self) -> Ending {
        match self.status {
            200..=299 => Ending::Done,
            // About the moment and not about the request: nothing was done, and the operation id is free.
            408 | 425 | 429 | 500..=599 => Ending::Unsettled,
            _ => Ending::Refused,
        }
    }

    /// For programs.
    pub(super) fn as_json(&self) -> Value {
        let (text, bytes) = match self.text() {
            Some(text) => (Some(text), None),
            None => (None, Some(STANDARD.encode(&self.body))),
        };
        json!({
            "source": "upstream",
            "status": self.status,
            "effect": self.effect(),
            "position": self.header("fencing-position"),
            "commit": self.header("fencing-commit"),
            "etag": self.header(ETAG.as_str()),
            "upstream_etag": self.header("fencing-upstream-etag"),
            "replayed": self.header("idempotent-replayed") == Some("true"),
            "operation": self.header(LOCATION.as_str()),
            "content_type": self.header(CONTENT_TYPE.as_str()),
            "body": text,
            "body_base64": bytes,
        })
    }

    /// For people.
    pub(super) fn told(&self) -> String {
        let facts = table::facts(
            &self.as_json(),
            &[
                ("answered by", "/source"),
                ("status", "/status"),
                ("effect", "/effect"),
                ("position", "/position"),
                ("commit", "/commit"),
                ("etag", "/etag"),
                ("its own etag", "/upstream_etag"),
                ("replayed", "/replayed"),
            ],
        );
        match self.text().map(str::trim_end) {
            Some("") => facts,
            Some(text) => format!("{facts}\n\n{}", table::clean(text)),
            None => format!("{facts}\n\n{} bytes that are no text", self.body.len()),
        }
    }

    /// On one line.
    pub(super) fn brief(&self) -> String {
        format!("the store behind the gateway answered {} (effect {})", self.status, self.effect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(status: u16, body: &[u8]) -> Relayed {
        let mut headers = HeaderMap::new();
        headers.insert("fencing-effect", "none".parse().unwrap());
        Relayed { status, headers, body: body.to_vec() }
    }

    #[test]
    fn what_a_store_answered_ends_a_command_by_its_status() {
        for (status, ending) in [
            (200, Ending::Done),
            (404, Ending::Refused),
            (409, Ending::Refused),
            (401, Ending::Refused),
            (429, Ending::Unsettled),
            (503, Ending::Unsettled),
        ] {
            assert_eq!(relayed(status, b"").ending(), ending, "{status}");
        }
    }

    #[test]
    fn its_words_are_shown_and_command_no_terminal() {
        assert!(relayed(409, b"no\x1b[2J\n").told().ends_with("\n\nno\\u{1b}[2J"));
        assert!(relayed(409, b"\xff").told().ends_with("1 bytes that are no text"));
        assert_eq!(relayed(409, b"\xff").as_json()["body_base64"], "/w==");
        assert_eq!(relayed(409, b"no").as_json()["body"], "no");
    }
}
