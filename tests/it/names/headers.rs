//! Operation ids, entity tags, content types, acquisition ids and holders.

use fencegate::domain::document::{ContentType, ContentTypeError};
use fencegate::domain::lease::{AcquisitionId, AcquisitionIdError, Holder, HolderError};
use fencegate::domain::operation::{OperationId, OperationIdError};
use fencegate::domain::precondition::{MAX_TAGS, TagList, TagListError};
use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::proptest;

use super::{assert_named, config, texts};

/// RFC 9110 section 5.6.2, spelt out.
const TOKEN: &str = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

const BASE64URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn is_visible(c: char) -> bool {
    ('!'..='~').contains(&c)
}

/// Whether a text is a list of entity tags, found by looking at what stands between its quotes.
fn is_tag_list(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if text == "*" {
        return true;
    }
    let pieces: Vec<&str> = text.split('"').collect();
    let between = |piece: &str| {
        let after = piece.trim_start_matches([' ', '\t']).strip_prefix(',');
        after.is_some_and(|rest| ["", "W/"].contains(&rest.trim_start_matches([' ', '\t'])))
    };
    let tags = pieces.len() / 2;
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    pieces.len() >= 3
        && pieces.len() % 2 == 1
        && tags <= MAX_TAGS
        && ["", "W/"].contains(&first)
        && last.is_empty()
        && pieces.iter().skip(1).step_by(2).all(|opaque| opaque.chars().all(is_visible))
        && pieces[2..pieces.len() - 1].iter().step_by(2).all(|piece| between(piece))
}

fn is_content_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap().trim_matches(' ');
    let parts: Vec<&str> = essence.split('/').collect();
    text.len() <= 255
        && text.trim_matches(' ') == text
        && text.chars().all(|c| c == ' ' || is_visible(c))
        && parts.len() == 2
        && parts.iter().all(|part| !part.is_empty() && part.chars().all(|c| TOKEN.contains(c)))
}

fn is_acquisition_id(text: &str) -> bool {
    let characters: Vec<char> = text.chars().collect();
    characters.len() == 24
        && characters[..2].iter().all(|c| "0123456789abcdef".contains(*c))
        && characters[2..].iter().all(|c| BASE64URL.contains(*c))
}

proptest! {
    #![proptest_config(config())]

    // Broken: an id that a header, a path or a log line cannot carry. Must hold: 1 to 255 visible characters.
    #[test]
    fn an_operation_id_is_visible_ascii(text in prop_oneof![
        4 => texts(&["a", "Z", "!", "~", "\"", "/", " ", "\t", "é", "\u{7f}", "\u{0}"], 6),
        1 => texts(&["publish-2026", "/", "x"], 60),
        1 => any::<String>(),
    ]) {
        let fine = (1..=255).contains(&text.chars().count()) && text.chars().all(is_visible);
        match OperationId::parse(&text) {
            Ok(id) => prop_assert!(fine && id.as_str() == text && id.to_string() == text),
            Err(error) => {
                prop_assert!(!fine, "{text:?}: {error}");
                match error {
                    OperationIdError::Empty => prop_assert!(text.is_empty()),
                    OperationIdError::TooLong { found } => prop_assert!(found > 255 && found == text.chars().count()),
                    OperationIdError::Character { found, at } => assert_named(&text, found, at, &error.to_string()),
                    OperationIdError::Quoting => panic!("only a header is quoted"),
                }
            }
        }
    }

    // Broken: half of a list is read and the rest forgotten, so that a precondition holds that was never meant. Must
    // hold: read whole or refused, and written out it reads as the same list.
    #[test]
    fn a_tag_list_is_read_whole_or_refused(text in prop_oneof![
        6 => texts(&["\"a\"", "\"1.2\"", "W/", ",", ", ", " ", "\t", "\""], 7),
        2 => texts(&["*", "\"", "é", "w/", "x", "\"a b\"", "\u{7f}", "\"\""], 4),
        1 => texts(&["\"1.1\", ", "W/\"2.2\",", "\"3.3\""], 70),
    ]) {
        match TagList::parse(&text) {
            Ok(list) => {
                prop_assert!(is_tag_list(&text), "{text:?} is no list");
                prop_assert_eq!(TagList::parse(&list.to_string()), Ok(list.clone()));
                let strong = text.split('"').step_by(2).filter(|piece| !piece.ends_with("W/")).count();
                prop_assert_eq!(list.has_strong_tag(), list != TagList::Any && strong > 1);
            }
            Err(error) => {
                prop_assert!(!is_tag_list(&text), "{text:?}: {error}");
                let trimmed = text.trim_matches([' ', '\t']);
                match &error {
                    TagListError::Empty => prop_assert_eq!(trimmed, ""),
                    TagListError::Unquoted { found, at } => assert_named(trimmed, *found, *at, &error.to_string()),
                    TagListError::Unclosed { at } => prop_assert!(trimmed.chars().skip(at - 1).any(|c| c == '"')),
                    TagListError::Character { found } => {
                        let shown = format!("{found:?}");
                        prop_assert!(text.contains(*found) && error.to_string().contains(&shown));
                    }
                    TagListError::TooMany => prop_assert!(text.matches('"').count() > 2 * MAX_TAGS),
                }
            }
        }
    }

    // Broken: a content type that splits a header in two, or comes back changed. Must hold: type/subtype of visible
    // characters, given back as it came.
    #[test]
    fn a_content_type_is_a_media_type(text in prop_oneof![
        6 => texts(&["text", "/", "plain", ";", " ", "q=\"a b\"", "+json", ","], 7),
        2 => texts(&["a/b", "\r\n", "é", "\t", "\u{0}", "(", "=", "@"], 5),
        1 => texts(&["application/pdf;", "x=yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy;"], 12),
    ]) {
        match ContentType::parse(&text) {
            Ok(content_type) => prop_assert!(is_content_type(&text) && content_type.as_str() == text),
            Err(error) => {
                prop_assert!(!is_content_type(&text), "{text:?}: {error}");
                match error {
                    ContentTypeError::Form => {}
                    ContentTypeError::TooLong { bytes } => prop_assert!(bytes > 255 && bytes == text.len()),
                    ContentTypeError::Character { found, at } => assert_named(&text, found, at, &error.to_string()),
                }
            }
        }
    }

    // Broken: a foreign text leads to a bucket. Must hold: 24 characters of its alphabet, and the bucket that it says.
    #[test]
    fn an_acquisition_id_has_its_form(text in prop_oneof![
        4 => texts(&["0f", "a9", "AbC-_9", "zzzzzzzzzz", "0123456789"], 8),
        1 => texts(&["0", "G", "é", "=", "+", "/", "aaaaaaaaaaaa", "0f"], 12),
        2 => "[0-9a-g]{2}[A-Za-z0-9_.-]{22}",
    ]) {
        match AcquisitionId::parse(&text) {
            Ok(id) => {
                prop_assert!(is_acquisition_id(&text));
                prop_assert_eq!(id.reveal(), &text);
                prop_assert_eq!(format!("{:02x}", id.bucket().0), text[..2].to_owned());
            }
            Err(error) => {
                prop_assert!(!is_acquisition_id(&text), "{text:?}: {error}");
                match error {
                    AcquisitionIdError::Length { found } => prop_assert_eq!(found, text.chars().count()),
                    AcquisitionIdError::Character { found, at } => assert_named(&text, found, at, &error.to_string()),
                }
            }
        }
    }

    // Broken: a label that breaks a line of a table. Must hold: at most 255 bytes, no control character.
    #[test]
    fn a_holder_is_a_label(text in prop_oneof![
        4 => texts(&["worker-a", " ", "漢字", "\n", "\u{85}", "\u{7f}", "é"], 6),
        1 => texts(&["worker-", "漢字"], 60),
    ]) {
        let control = |c: char| u32::from(c) < 0x20 || (0x7F..0xA0).contains(&u32::from(c));
        let fine = text.len() <= 255 && !text.chars().any(control);
        match Holder::parse(&text) {
            Ok(holder) => prop_assert!(fine && holder.as_str() == text),
            Err(error) => {
                prop_assert!(!fine, "{text:?}: {error}");
                match error {
                    HolderError::TooLong { bytes } => prop_assert!(bytes > 255 && bytes == text.len()),
                    HolderError::Control { code, at } => {
                        prop_assert_eq!(text.chars().nth(at - 1).map(u32::from), Some(code));
                        let shown = format!("U+{code:04X}");
                        prop_assert!(error.to_string().contains(&shown));
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_are_exact() {
    // Broken: an off-by-one at a bound. Must hold: the bound passes, one more does not.
    assert!(OperationId::parse(&"x".repeat(255)).is_ok());
    assert_eq!(OperationId::parse(&"x".repeat(256)), Err(OperationIdError::TooLong { found: 256 }));
    assert!(ContentType::parse(&format!("a/{}", "b".repeat(253))).is_ok());
    assert!(ContentType::parse(&format!("a/{}", "b".repeat(254))).is_err());
    assert!(Holder::parse(&"x".repeat(255)).is_ok() && Holder::parse("").is_ok());
    assert!(Holder::parse(&"x".repeat(256)).is_err());
    assert!(TagList::parse(&vec!["\"1\""; MAX_TAGS].join(",")).is_ok());
    assert_eq!(TagList::parse(&vec!["\"1\""; MAX_TAGS + 1].join(",")), Err(TagListError::TooMany));
}
