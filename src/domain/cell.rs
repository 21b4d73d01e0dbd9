//! What the gateway itself writes into cells: a stamp inside a JSON object, and the small document that names the object
//! with the content. All that is not the stamp's stays byte for byte what it was.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::upstream::Stamp;

/// Why a stamp cannot be put into a body or looked for in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not a JSON object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// The pointer leads through something that is no object.
    #[error("the place of the stamp lies inside something that is not a JSON object")]
    Occupied,
    /// The pointer names the whole document, or is none.
    #[error("the place of the stamp must be a JSON pointer to a member")]
    Pointer,
}

/// The members of an object as they stand, doubles included.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// RFC 6901: the names on the way to a member.
fn steps(pointer: &str) -> Result<Vec<String>, Unfit> {
    let below = pointer.strip_prefix('/').ok_or(Unfit::Pointer)?;
    Ok(below.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// The body with the stamp at its place; other members keep their order and their spelling.
///
/// # Errors
/// [`Unfit`] says why it has no such place.
pub fn stamped(body: &[u8], pointer: &str, stamp: &Stamp) -> Result<Vec<u8>, Unfit> {
    let text = std::str::from_utf8(body).map_err(|_| Unfit::NotAnObject)?;
    let members = set(text, &steps(pointer)?, stamp, Unfit::NotAnObject)?;
    serde_json::to_vec(&members).map_err(|_| Unfit::NotAnObject)
}

fn set(text: &str, steps: &[String], stamp: &Stamp, otherwise: Unfit) -> Result<Members, Unfit> {
    let Members(mut members) = serde_json::from_str(text).map_err(|_| otherwise)?;
    let (step, below) = steps.split_first().ok_or(Unfit::Pointer)?;
    // Of doubles the last one counts for most readers, so it is the one that is gone on from, and all of them go.
    let old = members.iter().rev().find(|(name, _)| name == step).map(|(_, value)| value.clone());
    let new = if below.is_empty() {
        serde_json::value::to_raw_value(&stamp.to_string())
    } else {
        let inner = old.as_deref().map_or("{}", RawValue::get);
        serde_json::value::to_raw_value(&set(inner, below, stamp, Unfit::Occupied)?)
    };
    members.retain(|(name, _)| name != step);
    members.push((step.clone(), new.map_err(|_| otherwise)?));
    Ok(Members(members))
}

/// Whether a stamp can be put into a body.
///
/// # Errors
/// [`Unfit`] says why it has no place for one.
pub fn has_place(body: &[u8], pointer: &str) -> Result<(), Unfit> {
    let mut text = std::str::from_utf8(body).map_err(|_| Unfit::NotAnObject)?.to_owned();
    for (depth, step) in steps(pointer)?.iter().enumerate() {
        let otherwise = if depth == 0 { Unfit::NotAnObject } else { Unfit::Occupied };
        let Members(members) = serde_json::from_str(&text).map_err(|_| otherwise)?;
        match members.into_iter().rev().find(|(name, _)| name == step) {
            None => return Ok(()),
            Some((_, value)) => value.get().clone_into(&mut text),
        }
    }
    Ok(())
}

/// The text at the stamp's place: none where there is no such member, and an empty one where it is no string.
///
/// # Errors
/// [`Unfit`] where the body is no JSON object.
pub fn stamp_text(body: &[u8], pointer: &str) -> Result<Option<String>, Unfit> {
    let mut text = std::str::from_utf8(body).map_err(|_| Unfit::NotAnObject)?.to_owned();
    let steps = steps(pointer)?;
    for (depth, step) in steps.iter().enumerate() {
        let Ok(Members(members)) = serde_json::from_str(&text) else {
            return if depth == 0 { Err(Unfit::NotAnObject) } else { Ok(None) };
        };
        match members.into_iter().rev().find(|(name, _)| name == step) {
            None => return Ok(None),
            Some((_, value)) => value.get().clone_into(&mut text),
        }
    }
    Ok(Some(serde_json::from_str(&text).unwrap_or_default()))
}

/// `incarnation-position-digest`: one segment of letters, digits, dots and hyphens.
fn is_object_name(name: &str) -> bool {
    name.contains('-') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// A cell of the gateway's own, which names the object that holds the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerCell {
    /// The version of this document.
    #[serde(rename = "fencegate")]
    pub version: u8,
    /// The stamp.
    pub stamp: String,
    /// The name of the content object; none in a tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The content type of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

impl PointerCell {
    /// The version that is written.
    pub const VERSION: u8 = 1;

    /// Reads a cell. None where it is none of ours, or of another version, or names what no gateway named: the name becomes
    /// a part of an address, and must not lead elsewhere.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let ours =
            |cell: &Self| cell.version == Self::VERSION && cell.content.as_deref().is_none_or(is_object_name);
        serde_json::from_slice(body).ok().filter(ours)
    }

    /// The document.
    #[must_use]
    pub fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        "fg1;c;1;0.1;1;publish".parse().unwrap()
    }

    fn with(body: &str, pointer: &str) -> Result<String, Unfit> {
        stamped(body.as_bytes(), pointer, &stamp()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_stamp_goes_in_and_all_else_keeps_its_spelling() {
        let body = r#"{"z":1.50,"a":[1, 2e400],"n":123456789012345678901234567890,"_f":"old","z":2}"#;
        let stamped = with(body, "/_f").unwrap();
        assert_eq!(
            stamped,
            r#"{"z":1.50,"a":[1, 2e400],"n":123456789012345678901234567890,"z":2,"_f":"fg1;c;1;0.1;1;publish"}"#
        );
        assert_eq!(stamp_text(stamped.as_bytes(), "/_f"), Ok(Some(stamp().to_string())));
        assert_eq!(with("{}", "/a/b~1c").unwrap(), r#"{"a":{"b/c":"fg1;c;1;0.1;1;publish"}}"#);
    }

    #[test]
    fn what_has_no_place_for_a_stamp_is_unfit() {
        assert_eq!(with("[1]", "/_f"), Err(Unfit::NotAnObject));
        assert_eq!(with("{} x", "/_f"), Err(Unfit::NotAnObject));
        assert_eq!(with(r#"{"a":1}"#, "/a/b"), Err(Unfit::Occupied));
        assert_eq!(with("{}", ""), Err(Unfit::Pointer));
        assert_eq!(stamp_text(b"{\"a\":1}", "/b"), Ok(None));
        assert_eq!(stamp_text(b"{\"a\":1}", "/a"), Ok(Some(String::new())));
    }

    #[test]
    fn a_body_has_a_place_exactly_where_a_stamp_can_be_put() {
        // Broken: a write is admitted and announced, and cannot be sent. Must hold: the look before says what the writing says.
        for (body, pointer, expected) in [
            ("{}", "/_f", Ok(())),
            (r#"{"_f":7}"#, "/_f", Ok(())),
            (r#"{"b":[],"a":{"c":1}}"#, "/a/b", Ok(())),
            (r#"{"a":1,"a":{}}"#, "/a/b", Ok(())),
            (r#"{"a":{"b":{}},"c":2}"#, "/a/b/c", Ok(())),
            (r#"{"a":{},"a":1}"#, "/a/b", Err(Unfit::Occupied)),
            (r#"{"a":{"b":[1]}}"#, "/a/b/c", Err(Unfit::Occupied)),
            ("[1]", "/_f", Err(Unfit::NotAnObject)),
            ("1", "/a/b", Err(Unfit::NotAnObject)),
            ("{}", "", Err(Unfit::Pointer)),
        ] {
            assert_eq!(has_place(body.as_bytes(), pointer), expected, "{body} {pointer}");
            assert_eq!(with(body, pointer).map(drop), expected, "{body} {pointer}");
        }
        assert_eq!(has_place(b"\xff", "/_f"), Err(Unfit::NotAnObject));
    }

    #[test]
    fn a_stamp_is_looked_for_where_it_was_put() {
        // Broken: a body that is no object passes for one without a stamp, or content is taken for the gateway's own. Must
        // hold: an error for what is no object at all, nothing where the way ends, and the last of doubles.
        let text = |body: &str, pointer| stamp_text(body.as_bytes(), pointer);
        assert_eq!(text("[1]", "/_f"), Err(Unfit::NotAnObject));
        assert_eq!(text("{}", "_f"), Err(Unfit::Pointer));
        assert_eq!(text(r#"{"a":1}"#, "/a/b"), Ok(None));
        assert_eq!(text(r#"{"a":{"c":1}}"#, "/a/b"), Ok(None));
        assert_eq!(text(r#"{"a":{"b":"one"},"a":{"b":"two"}}"#, "/a/b"), Ok(Some("two".to_owned())));
        assert_eq!(text(r#"{"b":"x","a":{"b":"two","c":"y"}}"#, "/a/b"), Ok(Some("two".to_owned())));
    }

    #[test]
    fn a_cell_that_names_what_no_gateway_named_is_none_of_ours() {
        // Broken: somebody writes a cell around the gateway, and the gateway asks the store for what lies elsewhere.
        let cell = |content: &str| {
            let written = PointerCell {
                version: PointerCell::VERSION,
                stamp: stamp().to_string(),
                content: Some(content.to_owned()),
                content_type: None,
            };
            PointerCell::read(&written.written())
        };
        assert!(cell("1-0.107-00112233445566778899aabbccddeeff").is_some());
        for odd in ["", "..", ".", "../base/SECRET", "1-0.1-a/b", "1-0.1-a?x", "1-0.1-a%2f", "1-0.1-ä"] {
            assert_eq!(cell(odd), None, "{odd}");
        }
    }
}
