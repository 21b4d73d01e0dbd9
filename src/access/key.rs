//! API keys: `fg_live_<id>_<secret>_<check>`, all hexadecimal. The secret has 256 bits of chance, so that its SHA-256 is as
//! good as a slow hash and costs a microsecond (`ecosystem.md`, Auth); the check lets a typing error be told apart from a
//! wrong key without asking anybody.

use std::fmt;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// What every key begins with, so that scanners for secrets find one that was published.
const MARK: &str = "fg_live_";

/// Bytes of a key's public id.
pub const ID_BYTES: usize = 6;

/// Bytes of a key's secret.
pub const SECRET_BYTES: usize = 32;

const CHECK_BYTES: usize = 4;

/// Why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Parts are missing, too long or not hexadecimal.
    #[error("it does not have the form fg_live_<12 digits>_<64 digits>_<8 digits>")]
    Form,
    /// The check does not belong to the rest.
    #[error("its last part does not belong to the rest: a character is wrong")]
    Check,
}

impl KeyError {
    /// What is wrong, for a caller: nothing of the key stands in it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Form => "no key of the form fg_live_<id>_<secret>_<check>",
            Self::Check => "a key with a typing error",
        }
    }
}

/// The public part of a key, by which it is looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

impl KeyId {
    /// Reads twelve hexadecimal digits in small letters.
    ///
    /// # Errors
    /// [`KeyError::Form`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if is_hex(text, ID_BYTES) { Ok(Self(text.to_owned())) } else { Err(KeyError::Form) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of a key's secret part, as it stands in the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyError::Form`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if !is_hex(text, 32) {
            return Err(KeyError::Form);
        }
        let mut bytes = [0; 32];
        for (to, at) in bytes.iter_mut().zip((0..64_usize).step_by(2)) {
            let pair = text.get(at..at.saturating_add(2)).ok_or(KeyError::Form)?;
            *to = u8::from_str_radix(pair, 16).map_err(|_| KeyError::Form)?;
        }
        Ok(Self(bytes))
    }

    /// For a comparison in constant time.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A whole key. It is never printed by accident, and its memory is wiped.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    id: KeyId,
    secret: Zeroizing<String>,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, …)", self.id)
    }
}

impl ApiKey {
    /// Makes a key of drawn bytes.
    #[must_use]
    pub fn of(id: [u8; ID_BYTES], secret: [u8; SECRET_BYTES]) -> Self {
        let secret = Zeroizing::new(secret);
        Self { id: KeyId(hex(&id)), secret: Zeroizing::new(hex(secret.as_slice())) }
    }

    /// Reads a key, offline.
    ///
    /// # Errors
    /// [`KeyError`] says whether its form or a character of it is wrong.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut parts = text.strip_prefix(MARK).ok_or(KeyError::Form)?.split('_');
        let (id, secret, check) = (parts.next(), parts.next(), parts.next());
        let (Some(id), Some(secret), Some(check), None) = (id, secret, check, parts.next()) else {
            return Err(KeyError::Form);
        };
        if !is_hex(secret, SECRET_BYTES) || !is_hex(check, CHECK_BYTES) {
            return Err(KeyError::Form);
        }
        let key = Self { id: KeyId::parse(id)?, secret: Zeroizing::new(secret.to_owned()) };
        if key.check() == check { Ok(key) } else { Err(KeyError::Check) }
    }

    /// The public part.
    #[must_use]
    pub const fn id(&self) -> &KeyId {
        &self.id
    }

    /// What is kept of it.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.secret.as_bytes()).into())
    }

    /// The whole key, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{MARK}{}_{}_{}", self.id, self.secret.as_str(), self.check()))
    }

    /// The first bytes of a hash over the rest: it finds slips of the pen and proves nothing.
    fn check(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"fencegate key check 1\0");
        hash.update(self.id.as_str());
        hash.update(b"_");
        hash.update(self.secret.as_bytes());
        let digest = hash.finalize();
        hex(digest.get(..CHECK_BYTES).unwrap_or_default())
    }
}

/// Whether a text means to be a key of ours.
#[must_use]
pub fn is_key(text: &str) -> bool {
    text.starts_with("fg_")
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0F)]).collect()
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == bytes.saturating_mul(2)
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_every_wrong_character_is_found() {
        let key = ApiKey::of([7; ID_BYTES], [9; SECRET_BYTES]);
        let text = key.reveal();
        assert_eq!(ApiKey::parse(&text), Ok(key.clone()));
        assert_eq!(KeyDigest::parse(&key.digest().to_string()), Ok(key.digest()));
        for at in MARK.len()..text.len() {
            let mut wrong = text.to_string();
            let other = if wrong.as_bytes()[at] == b'0' { "1" } else { "0" };
            wrong.replace_range(at..=at, other);
            assert!(ApiKey::parse(&wrong).is_err(), "{at}");
        }
        for wrong in
            ["", "fg_live_", "fg_live_a_b_c", &text[..text.len() - 1], &format!("{}_0", text.as_str())]
        {
            assert_eq!(ApiKey::parse(wrong), Err(KeyError::Form), "{wrong}");
        }
        assert!(!format!("{key:?}").contains("0909"));
    }
}
