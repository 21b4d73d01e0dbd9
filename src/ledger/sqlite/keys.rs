//! Sets of keys as one JSON parameter, so that a batch of any size is one statement whose text never changes.
//!
//! Blobs travel as hex and are turned back by `unhex`.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A JSON array of rows.
pub(super) fn array(rows: impl Iterator<Item = Value>) -> String {
    Value::Array(rows.collect()).to_string()
}

/// Hexadecimal digits of a blob.
pub(super) fn hex(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing into a string cannot fail.
        if write!(text, "{byte:02x}").is_err() {
            break;
        }
    }
    json!(text)
}

/// The same for a blob that may be absent.
pub(super) fn hex_or_null(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, hex)
}
