//! Who asks: the name under which a caller stands in records and log lines.

use std::fmt;
use std::sync::Arc;

/// Longest name, in bytes.
pub const MAX_PRINCIPAL_BYTES: usize = 128;

/// The name of a caller: 1 to [`MAX_PRINCIPAL_BYTES`] visible ASCII characters, so that it breaks no line and no table.
/// Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalName(Arc<str>);

/// Why a text is not the name of a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// Nothing, or longer than [`MAX_PRINCIPAL_BYTES`].
    #[error("a name has 1 to {MAX_PRINCIPAL_BYTES} characters; this one has {bytes} bytes")]
    Length {
        /// Bytes given.
        bytes: usize,
    },
    /// A space, a control character or one beyond ASCII.
    #[error("a name has visible ASCII characters only; the one at position {at} is U+{code:04X}")]
    Character {
        /// Its code point.
        code: u32,
        /// Its place, from 1.
        at: usize,
    },
}

impl PrincipalName {
    /// Reads a name.
    ///
    /// # Errors
    /// [`PrincipalError`] says what is wrong.
    pub fn parse(text: &str) -> Result<Self, PrincipalError> {
        if text.is_empty() || text.len() > MAX_PRINCIPAL_BYTES {
            return Err(PrincipalError::Length { bytes: text.len() });
        }
        match text.chars().enumerate().find(|(_, found)| !found.is_ascii_graphic()) {
            None => Ok(Self(text.into())),
            Some((index, found)) => {
                Err(PrincipalError::Character { code: u32::from(found), at: index.saturating_add(1) })
            }
        }
    }

    /// The caller of a gateway that asks nobody for credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self("anonymous".into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PrincipalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_ascii_of_bounded_length() {
        for good in ["a", "anonymous", "spiffe://cluster/ns/a", &"x".repeat(MAX_PRINCIPAL_BYTES)] {
            assert_eq!(PrincipalName::parse(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        assert_eq!(PrincipalName::parse(""), Err(PrincipalError::Length { bytes: 0 }));
        assert_eq!(PrincipalName::parse(&"x".repeat(129)), Err(PrincipalError::Length { bytes: 129 }));
        assert_eq!(PrincipalName::parse("a b"), Err(PrincipalError::Character { code: 32, at: 2 }));
        assert!(PrincipalName::parse("a\n").is_err() && PrincipalName::parse("é").is_err());
        assert!(PrincipalName::parse(PrincipalName::anonymous().as_str()).is_ok());
    }
}
