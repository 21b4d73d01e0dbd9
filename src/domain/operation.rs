//! Words of operations: one logical write, its identity and its fingerprint.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::document::{BodyDigest, ContentType};
use super::precondition::Preconditions;
use super::resource::Address;
use crate::deliberate::{self, Bug};

/// Longest operation id, in characters.
pub const MAX_OPERATION_ID_CHARS: usize = 255;

/// The caller's name for one logical write: 1 to 255 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(Arc<str>);

/// Why a text is not an operation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationIdError {
    /// Nothing was given.
    #[error("the operation id is empty; give 1 to 255 visible characters")]
    Empty,
    /// More than 255 characters.
    #[error("the operation id has {found} characters; at most {MAX_OPERATION_ID_CHARS} are allowed")]
    TooLong {
        /// Characters given.
        found: usize,
    },
    /// A space, a control character, or one outside ASCII.
    #[error(
        "character {found:?} at position {at} is not allowed in an operation id; use visible ASCII without spaces"
    )]
    Character {
        /// The character.
        found: char,
        /// Its place, from 1.
        at: usize,
    },
    /// A quoted header that is no structured-field string.
    #[error(
        "the Idempotency-Key begins with a quote but is not a well-formed quoted string; quote it whole or not at all"
    )]
    Quoting,
}

impl OperationId {
    /// Reads an id as it stands in JSON, in a path or bare in a header.
    ///
    /// # Errors
    /// [`OperationIdError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, OperationIdError> {
        if text.is_empty() {
            return Err(OperationIdError::Empty);
        }
        let found = text.chars().count();
        if found > MAX_OPERATION_ID_CHARS {
            return Err(OperationIdError::TooLong { found });
        }
        match text.chars().enumerate().find(|(_, found)| !found.is_ascii_graphic()) {
            None => Ok(Self(Arc::from(text))),
            Some((index, found)) => Err(OperationIdError::Character { found, at: index.saturating_add(1) }),
        }
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What a write does to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Replace the whole content.
    Put,
    /// Replace the whole content; another word on the wire, so another fingerprint.
    Post,
    /// Change the content; only a store behind HTTP takes it.
    Patch,
    /// Remove the target, or the whole resource.
    Delete,
}

impl Method {
    /// The HTTP word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The method that an HTTP word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Put, Self::Post, Self::Patch, Self::Delete].into_iter().find(|method| method.word() == word)
    }
}

/// SHA-256 over what makes two deliveries the same operation (`protocol.md` section 4). It is compared for equality
/// only: which of two fingerprints is greater means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Over method, resource, target, query, content type, body digest and declared preconditions. Not over position,
    /// sequence, incarnation, acquisition, credentials or tracing headers: those differ between honest deliveries.
    /// Each part goes in with its length, so that no two lists of parts run into the same bytes.
    #[must_use]
    pub fn of(
        method: Method,
        address: &Address,
        query: Option<&str>,
        content_type: Option<&ContentType>,
        body: &BodyDigest,
        preconditions: &Preconditions,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"fencegate operation 1\0");
        part(&mut hash, Some(method.word().as_bytes()));
        part(&mut hash, Some(address.resource.as_str().as_bytes()));
        let target = address.target.as_ref().filter(|_| !deliberate::on(Bug::FingerprintWithoutTarget));
        part(&mut hash, target.map(|target| target.as_str().as_bytes()));
        part(&mut hash, query.map(str::as_bytes));
        part(&mut hash, content_type.map(|value| value.as_str().as_bytes()));
        part(&mut hash, Some(body.as_bytes()));
        part(
            &mut hash,
            preconditions.if_match.as_ref().map(ToString::to_string).as_deref().map(str::as_bytes),
        );
        part(
            &mut hash,
            preconditions.if_none_match.as_ref().map(ToString::to_string).as_deref().map(str::as_bytes),
        );
        Self(hash.finalize().into())
    }

    /// From the 32 bytes that a row holds.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes that a row holds.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An absent part and an empty one differ.
fn part(hash: &mut Sha256, bytes: Option<&[u8]>) {
    match bytes {
        None => hash.update([0]),
        Some(bytes) => {
            hash.update([1]);
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        }
    }
}

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationState {
    /// Announced, and its effect is not known yet.
    Intent,
    /// In the store.
    Applied,
    /// Definitely without effect, now and later.
    Refused,
    /// The store may have acted.
    Uncertain,
    /// A person, or a configured assumption, says that it was applied.
    ResolvedApplied,
    /// A person, or a configured assumption, says that it was not applied.
    ResolvedNotApplied,
}

impl OperationState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Intent,
        Self::Applied,
        Self::Refused,
        Self::Uncertain,
        Self::ResolvedApplied,
        Self::ResolvedNotApplied,
    ];

    /// The word on the wire and in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Uncertain => "uncertain",
            Self::ResolvedApplied => "resolved_applied",
            Self::ResolvedNotApplied => "resolved_not_applied",
        }
    }

    /// The state that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// What an operation did to the backing store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing, and nothing will come of this delivery.
    None,
    /// It is in the store.
    Applied,
    /// It truly is not known.
    Unknown,
}

impl Effect {
    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Applied => "applied",
            Self::Unknown => "unknown",
        }
    }
}
