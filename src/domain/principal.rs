//! The name of whoever asks: it stands in the log, in the audit, and in the scope of a request id.

use std::fmt;
use std::sync::Arc;

/// Longest name, in bytes: that of a subject in a token or a certificate fits in.
pub const MAX_PRINCIPAL_BYTES: usize = 128;

/// Why a text is no name of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// Nothing at all, or too much.
    #[error("a principal's name has 1 to {MAX_PRINCIPAL_BYTES} characters, not {0}")]
    Length(usize),
    /// A character that could be read as something else in a log or a header.
    #[error(
        "the character {found:?} at position {at} does not belong into a principal's name; use visible ASCII characters"
    )]
    Character {
        /// The character.
        found: char,
        /// Its place, from 1.
        at: usize,
    },
    /// The name of those who were not asked for credentials.
    #[error("\"anonymous\" is the name of callers that need no credentials; choose another one")]
    Reserved,
}

/// Who asks. A label that two credentials may share; equality is all that is ever asked of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalName(Arc<str>);

impl PrincipalName {
    /// Whoever asks a gateway without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(Arc::from("anonymous"))
    }

    /// Reads the name of a configured principal: 1 to [`MAX_PRINCIPAL_BYTES`] visible ASCII characters.
    ///
    /// # Errors
    /// [`PrincipalError`] says what stands against it.
    pub fn parse(text: &str) -> Result<Self, PrincipalError> {
        let name = Self::recorded(text)?;
        if text == "anonymous" { Err(PrincipalError::Reserved) } else { Ok(name) }
    }

    /// Reads a name from a record, where that of callers without credentials may stand too.
    ///
    /// # Errors
    /// [`PrincipalError`] says what stands against it.
    pub fn recorded(text: &str) -> Result<Self, PrincipalError> {
        if text.is_empty() || text.len() > MAX_PRINCIPAL_BYTES {
            return Err(PrincipalError::Length(text.chars().count()));
        }
        match text.chars().enumerate().find(|(_, found)| !found.is_ascii_graphic()) {
            None => Ok(Self(Arc::from(text))),
            Some((index, found)) => Err(PrincipalError::Character { found, at: index.saturating_add(1) }),
        }
    }

    /// The text.
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
    fn a_name_is_visible_and_bounded() {
        for name in ["worker-a", "spiffe://example.org/ns/jobs", "ci@example.org"] {
            assert_eq!(PrincipalName::parse(name).map(|name| name.to_string()), Ok(name.to_owned()));
        }
        assert_eq!(PrincipalName::parse(""), Err(PrincipalError::Length(0)));
        assert!(PrincipalName::parse(&"x".repeat(MAX_PRINCIPAL_BYTES)).is_ok());
        assert_eq!(PrincipalName::anonymous().as_str(), "anonymous");
        assert_eq!(PrincipalName::parse(&"x".repeat(129)), Err(PrincipalError::Length(129)));
        assert_eq!(PrincipalName::parse("a b"), Err(PrincipalError::Character { found: ' ', at: 2 }));
        assert_eq!(PrincipalName::parse("anonymous"), Err(PrincipalError::Reserved));
        assert_eq!(PrincipalName::recorded("anonymous"), Ok(PrincipalName::anonymous()));
    }
}
