//! Words of leases: whose it is (equality), for how long, and in which state.

use std::fmt;

use sha2::{Digest, Sha256};

use super::resource::Bucket;
use super::time::Millis;

/// Length of an acquisition id in characters: two hex digits and 22 of base64url.
pub const ACQUISITION_ID_CHARS: usize = 24;

/// Longest holder label, in bytes.
pub const MAX_HOLDER_BYTES: usize = 255;

/// One lease's identity. Whoever knows it may renew and release, so it is compared for equality only, is never
/// stored, and never printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct AcquisitionId(String);

/// SHA-256 of an acquisition id: what the database keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcquisitionHash([u8; 32]);

/// The first 16 bytes of the hash, as a seal carries them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcquisitionTag(pub [u8; 16]);

/// Why a text is not an acquisition id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcquisitionIdError {
    /// Another number of characters.
    #[error("an acquisition id has {ACQUISITION_ID_CHARS} characters, not {found}")]
    Length {
        /// Characters given.
        found: usize,
    },
    /// A character outside its alphabet.
    #[error(
        "character {found:?} at position {at} does not stand in an acquisition id; send it as acquire returned it"
    )]
    Character {
        /// The character.
        found: char,
        /// Its place, from 1.
        at: usize,
    },
}

impl AcquisitionId {
    /// Reads the wire form.
    ///
    /// # Errors
    /// [`AcquisitionIdError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, AcquisitionIdError> {
        let found = text.chars().count();
        if found != ACQUISITION_ID_CHARS {
            return Err(AcquisitionIdError::Length { found });
        }
        for (index, found) in text.chars().enumerate() {
            let fits = if index < 2 {
                matches!(found, '0'..='9' | 'a'..='f')
            } else {
                found.is_ascii_alphanumeric() || found == '-' || found == '_'
            };
            if !fits {
                return Err(AcquisitionIdError::Character { found, at: index.saturating_add(1) });
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// Puts an id together from its bucket and the encoded MAC.
    #[must_use]
    pub(super) fn assemble(bucket: Bucket, encoded: &str) -> Self {
        Self(format!("{:02x}{encoded}", bucket.0))
    }

    /// The wire form. It goes to the owner and nowhere else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The bucket that the id leads to.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        let digits = self.0.get(..2).unwrap_or_default();
        Bucket(u8::from_str_radix(digits, 16).unwrap_or_default())
    }

    /// What the database knows it by.
    #[must_use]
    pub fn hash(&self) -> AcquisitionHash {
        AcquisitionHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for AcquisitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcquisitionId(…)")
    }
}

impl AcquisitionHash {
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

    /// The part that a seal carries.
    #[must_use]
    pub fn tag(&self) -> AcquisitionTag {
        let mut tag = [0; 16];
        for (to, from) in tag.iter_mut().zip(self.0) {
            *to = from;
        }
        AcquisitionTag(tag)
    }
}

impl AcquisitionTag {
    /// Its first 8 hexadecimal digits: enough to find the lines of one acquisition together, and nothing that could be
    /// presented. The id itself would be: whoever knows it may renew and release.
    #[must_use]
    pub fn short(&self) -> String {
        let [a, b, c, d, ..] = self.0;
        format!("{a:02x}{b:02x}{c:02x}{d:02x}")
    }
}

impl fmt::Debug for AcquisitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcquisitionHash(…)")
    }
}

impl fmt::Debug for AcquisitionTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcquisitionTag(…)")
    }
}

/// How long a lease lives without a renewal, in milliseconds, within its namespace's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(Millis);

impl Ttl {
    /// A ttl that is known to be in bounds (one from a row).
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(Millis::new(ms))
    }

    /// The length.
    #[must_use]
    pub const fn millis(self) -> Millis {
        self.0
    }
}

/// Default, least and greatest ttl of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// Used when a request names none.
    pub default: Ttl,
    /// The least that a request may name.
    pub least: Ttl,
    /// The greatest that a request may name.
    pub greatest: Ttl,
}

/// A ttl outside its namespace's bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ttl_ms is {asked}; this namespace allows {least} to {greatest} milliseconds")]
pub struct TtlError {
    /// Milliseconds asked for.
    pub asked: u64,
    /// The least, in milliseconds.
    pub least: u64,
    /// The greatest, in milliseconds.
    pub greatest: u64,
}

impl Default for TtlBounds {
    /// 30 s, from 1 s to 1 h (`protocol.md` section 5).
    fn default() -> Self {
        Self { default: Ttl::from_ms(30_000), least: Ttl::from_ms(1_000), greatest: Ttl::from_ms(3_600_000) }
    }
}

impl TtlBounds {
    /// The ttl that was asked for, or the default. Out of bounds is refused, never clamped silently.
    ///
    /// # Errors
    /// [`TtlError`] with the bounds.
    pub fn admit(&self, asked: Option<u64>) -> Result<Ttl, TtlError> {
        let Some(asked) = asked else { return Ok(self.default) };
        let (least, greatest) = (self.least.millis().get(), self.greatest.millis().get());
        if asked < least || asked > greatest {
            return Err(TtlError { asked, least, greatest });
        }
        Ok(Ttl::from_ms(asked))
    }
}

/// Who of several waiting callers becomes the next owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitOrder {
    /// Whoever asks first once the lease is free.
    #[default]
    Race,
    /// Whoever has waited longest, by a durable queue.
    Fifo,
}

impl WaitOrder {
    /// The word in configuration files and answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::Fifo => "fifo",
        }
    }
}

/// A label that people read. No decision depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder(String);

/// Why a text is not a holder label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HolderError {
    /// Longer than 255 bytes.
    #[error("holder has {bytes} bytes; at most {MAX_HOLDER_BYTES} are allowed")]
    TooLong {
        /// Bytes given.
        bytes: usize,
    },
    /// A control character would break a log line or a table.
    #[error("holder has a control character (U+{code:04X}) at position {at}; remove it")]
    Control {
        /// Its code point.
        code: u32,
        /// Its place, from 1.
        at: usize,
    },
}

impl Holder {
    /// Reads a label of 0 to 255 bytes without control characters.
    ///
    /// # Errors
    /// [`HolderError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, HolderError> {
        if text.len() > MAX_HOLDER_BYTES {
            return Err(HolderError::TooLong { bytes: text.len() });
        }
        match text.chars().enumerate().find(|(_, found)| found.is_control()) {
            None => Ok(Self(text.to_owned())),
            Some((index, found)) => {
                Err(HolderError::Control { code: u32::from(found), at: index.saturating_add(1) })
            }
        }
    }

    /// The label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseState {
    /// It is granted, and older effects may still become authoritative in a store: its owner has no token yet.
    PendingBarrier,
    /// Somebody owns it until it expires.
    Held,
    /// Its owner gave it back, or deleted the resource.
    Released,
    /// Its time passed and nobody has come after it.
    Expired,
    /// A newer position exists.
    Superseded,
}

impl LeaseState {
    /// The word on the wire and in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::PendingBarrier => "pending_barrier",
            Self::Held => "held",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
        }
    }

    /// The state that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::PendingBarrier, Self::Held, Self::Released, Self::Expired, Self::Superseded]
            .into_iter()
            .find(|state| state.word() == word)
    }

    /// Whether nobody else can own it meanwhile: held, or about to be.
    #[must_use]
    pub const fn is_live(self) -> bool {
        match self {
            Self::PendingBarrier | Self::Held => true,
            Self::Released | Self::Expired | Self::Superseded => false,
        }
    }
}

/// By whose act a lease was superseded before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndCause {
    /// An owner or operator revoked the generation.
    Revoked,
    /// An owner or operator cancelled the resource.
    Cancelled,
    /// Its owner handed it to a successor.
    Transferred,
}

impl EndCause {
    /// The word in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Cancelled => "cancelled",
            Self::Transferred => "transferred",
        }
    }

    /// The cause that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Revoked, Self::Cancelled, Self::Transferred].into_iter().find(|cause| cause.word() == word)
    }
}
