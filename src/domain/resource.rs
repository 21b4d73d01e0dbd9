//! Names of what is fenced.
//!
//! Invariants of a [`ResourceName`]: UTF-8 in NFC; `namespace/name…` of at most [`MAX_NAME_BYTES`] bytes; no segment is
//! empty, `.` or `..`, or begins or ends with white space; no control, bidirectional control, `%`, `\`, `?` or `#`.
//! A text is canonical or refused, never silently changed: two spellings of one name would be two fences.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Longest full name, in bytes (`protocol.md` section 2).
pub const MAX_NAME_BYTES: usize = 512;

/// Why a text is not a resource name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No segment below the namespace.
    #[error("the name ends after the namespace; write namespace/name")]
    NamespaceOnly,
    /// Nothing at all.
    #[error("the name is empty; write namespace/name")]
    Empty,
    /// More than 512 bytes.
    #[error("the name has {bytes} bytes; at most {MAX_NAME_BYTES} are allowed, namespace included")]
    TooLong {
        /// Bytes given.
        bytes: usize,
    },
    /// The bytes are not UTF-8.
    #[error("the name is not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// Offset of the first bad byte, from 0.
        at: usize,
    },
    /// Another spelling of the same text exists.
    #[error(
        "from character {found:?} at position {at} on the name is not in Unicode normalization form C; send the composed form"
    )]
    NotNfc {
        /// The first character that normalization changes.
        found: char,
        /// Its place in the whole text, from 1.
        at: usize,
    },
    /// Two slashes in a row, or one at an end.
    #[error("segment {segment} is empty; write single slashes between segments and none at the ends")]
    EmptySegment {
        /// Which segment, from 1 (the namespace).
        segment: usize,
    },
    /// `.` or `..`.
    #[error("segment {segment} is {found:?}, which proxies rewrite; choose another name")]
    DotSegment {
        /// Which segment, from 1 (the namespace).
        segment: usize,
        /// The segment.
        found: &'static str,
    },
    /// White space at an end of a segment.
    #[error("segment {segment} begins or ends with white space ({found:?}); remove it")]
    EdgeSpace {
        /// Which segment, from 1 (the namespace).
        segment: usize,
        /// The character.
        found: char,
    },
    /// A character that is not allowed anywhere.
    #[error("character {found:?} (U+{code:04X}) in segment {segment} is not allowed: {why}")]
    Forbidden {
        /// Which segment, from 1 (the namespace).
        segment: usize,
        /// The character.
        found: char,
        /// Its code point.
        code: u32,
        /// The reason.
        why: &'static str,
    },
    /// `*` is the configuration's word for "any other namespace".
    #[error("a namespace cannot be called \"*\"; that word means \"any other\" in the configuration")]
    Wildcard,
    /// Fewer segments than the namespace's scope asks for.
    #[error(
        "the namespace has scope {scope}: give at least {scope} segments after the namespace, not {found}"
    )]
    TooShallow {
        /// The namespace's scope.
        scope: u16,
        /// Segments given after the namespace.
        found: usize,
    },
}

/// The first segment of a resource name; it fixes policy, contract, issuer and store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

/// What is fenced: `namespace/name…`, canonical.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

/// The path below the resource that one write addresses; all targets of a resource share its fence.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(Arc<str>);

/// A fixed hash of the resource, 0 to 255: the first column of every key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub u8);

/// A canonical path before it is known where the resource ends and the target begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    full: Arc<str>,
    namespace: Namespace,
}

/// A resource and the target below it, as one write addresses them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// What is fenced.
    pub resource: ResourceName,
    /// The path below it, where the namespace has a scope and the name goes on.
    pub target: Option<Target>,
}

macro_rules! text_of {
    ($name:ident) => {
        impl $name {
            /// The canonical text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}
text_of!(Namespace);
text_of!(ResourceName);
text_of!(Target);

impl Namespace {
    /// Reads a namespace: one segment of a name, and not `*`.
    ///
    /// # Errors
    /// [`NameError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_whole(text)?;
        if text.contains('/') {
            return Err(NameError::Forbidden {
                segment: 1,
                found: '/',
                code: 0x2F,
                why: "a namespace is one segment",
            });
        }
        check_segment(1, text)?;
        if text == "*" {
            return Err(NameError::Wildcard);
        }
        Ok(Self(Arc::from(text)))
    }
}

impl Path {
    /// Reads a decoded path `namespace/name…`.
    ///
    /// # Errors
    /// [`NameError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_whole(text)?;
        for (index, segment) in text.split('/').enumerate() {
            check_segment(index.saturating_add(1), segment)?;
        }
        let Some((first, _)) = text.split_once('/') else {
            return Err(NameError::NamespaceOnly);
        };
        Ok(Self { full: Arc::from(text), namespace: Namespace::parse(first)? })
    }

    /// Reads a percent-decoded path whose bytes may not be text.
    ///
    /// # Errors
    /// [`NameError`] names the character or byte and the reason.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, NameError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => Err(NameError::NotUtf8 { at: error.valid_up_to() }),
        }
    }

    /// The namespace, which decides how the rest is read.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The whole path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.full
    }

    /// Splits the path at the namespace's scope; scope 0 means that the whole path is the resource.
    ///
    /// # Errors
    /// [`NameError::TooShallow`] with fewer segments than the scope.
    pub fn split(&self, scope: u16) -> Result<Address, NameError> {
        if scope == 0 {
            return Ok(Address { resource: ResourceName(self.full.clone()), target: None });
        }
        let wanted = usize::from(scope);
        let below = self.full.split('/').count().saturating_sub(1);
        if below < wanted {
            return Err(NameError::TooShallow { scope, found: below });
        }
        match self.full.match_indices('/').nth(wanted) {
            None => Ok(Address { resource: ResourceName(self.full.clone()), target: None }),
            Some((at, _)) => {
                let (resource, rest) = self.full.split_at(at);
                let target = rest.trim_start_matches('/');
                Ok(Address {
                    resource: ResourceName(Arc::from(resource)),
                    target: Some(Target(Arc::from(target))),
                })
            }
        }
    }
}

impl ResourceName {
    /// Reads a name that is a resource as a whole (a stored one, or one of a namespace without a scope).
    ///
    /// # Errors
    /// [`NameError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Path::parse(text).map(|path| Self(path.full))
    }

    /// The namespace: the first segment.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        let first = self.0.split('/').next().unwrap_or_default();
        Namespace(Arc::from(first))
    }

    /// The bucket: the first byte of SHA-256 over the name. Fixed for ever, since it stands in every key.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        let digest = Sha256::digest(self.0.as_bytes());
        Bucket(digest.first().copied().unwrap_or_default())
    }
}

impl Target {
    /// Reads a target path as it is stored.
    ///
    /// # Errors
    /// [`NameError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_whole(text)?;
        for (index, segment) in text.split('/').enumerate() {
            check_segment(index.saturating_add(1), segment)?;
        }
        Ok(Self(Arc::from(text)))
    }
}

impl Address {
    /// The full path, target included: where the data plane serves it.
    #[must_use]
    pub fn full(&self) -> String {
        match &self.target {
            None => self.resource.to_string(),
            Some(target) => format!("{}/{target}", self.resource),
        }
    }
}

fn check_whole(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    if is_nfc(text) { Ok(()) } else { Err(not_nfc(text)) }
}

fn not_nfc(text: &str) -> NameError {
    let mut composed = text.nfc();
    let changed = text.chars().enumerate().find(|(_, found)| composed.next() != Some(*found));
    let (index, found) = changed.unwrap_or_default();
    NameError::NotNfc { found, at: index.saturating_add(1) }
}

fn check_segment(segment: usize, text: &str) -> Result<(), NameError> {
    match text {
        "" => return Err(NameError::EmptySegment { segment }),
        "." => return Err(NameError::DotSegment { segment, found: "." }),
        ".." => return Err(NameError::DotSegment { segment, found: ".." }),
        _ => {}
    }
    for found in text.chars() {
        if let Some(why) = forbidden(found) {
            return Err(NameError::Forbidden { segment, found, code: u32::from(found), why });
        }
    }
    let edges = [text.chars().next(), text.chars().next_back()];
    for found in edges.into_iter().flatten() {
        if found.is_whitespace() {
            return Err(NameError::EdgeSpace { segment, found });
        }
    }
    Ok(())
}

/// The characters that no name may hold, with the reason.
fn forbidden(found: char) -> Option<&'static str> {
    match found {
        '%' => Some("names are decoded once, and a second decoding would make another name of it"),
        '\\' => Some("some systems take a backslash for a slash"),
        '?' | '#' => Some("it ends the path of an address"),
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
            Some("a bidirectional control makes a name look like another one")
        }
        _ if found.is_control() => Some("it is a control character"),
        _ => None,
    }
}
