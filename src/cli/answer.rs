//! A JSON answer of the gateway.

use serde_json::Value;

/// The bytes as they came, for programs, and what they say, for tables.
pub(super) struct Answer {
    /// As received.
    pub(super) raw: Vec<u8>,
    /// The same, read.
    pub(super) json: Value,
}

impl Answer {
    /// The text that a JSON pointer leads to.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.json.pointer(path).and_then(Value::as_str)
    }
}
