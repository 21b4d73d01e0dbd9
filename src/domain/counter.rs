//! Counters: one decimal grammar, one range, one type per meaning.
//!
//! They travel as decimal strings because a JavaScript client reads `9223372036854775807` as another number
//! (`protocol.md` section 4, token range). The upper bound is that of a signed 64-bit database column.

use std::fmt;

/// Largest value of any counter: 2^63 - 1, the largest integer that SQLite and PostgreSQL store.
pub const MAX: u64 = 9_223_372_036_854_775_807;

/// Most digits a counter has on the wire: those of 2^63 - 1.
pub const MAX_DIGITS: usize = 19;

/// Why a text is not a counter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// Nothing was given.
    #[error("it is empty; give a whole number in decimal digits")]
    Empty,
    /// A character that is not a digit.
    #[error(
        "character {found:?} at position {at} is not a digit; only 0-9 are allowed, no sign and no space"
    )]
    NotADigit {
        /// The character.
        found: char,
        /// Its place, counted in characters from 1.
        at: usize,
    },
    /// A zero in front of another digit.
    #[error("it begins with a zero; leave leading zeros out, so that one number has one spelling")]
    LeadingZero,
    /// Above 2^63 - 1.
    #[error("it is above 9223372036854775807, the largest number there is")]
    TooLarge,
    /// Zero where counting begins at one.
    #[error("it is 0; counting begins at 1")]
    Zero,
}

/// Reads a counter: digits only, no leading zero, 0 to [`MAX`].
///
/// # Errors
/// [`DecimalError`] names the character and the reason.
pub fn parse_decimal(text: &str) -> Result<u64, DecimalError> {
    if text.is_empty() {
        return Err(DecimalError::Empty);
    }
    for (index, found) in text.chars().enumerate() {
        if !found.is_ascii_digit() {
            return Err(DecimalError::NotADigit { found, at: index.saturating_add(1) });
        }
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(DecimalError::LeadingZero);
    }
    if text.len() > MAX_DIGITS {
        return Err(DecimalError::TooLarge);
    }
    match text.parse::<u64>() {
        Ok(value) if value <= MAX => Ok(value),
        Ok(_) | Err(_) => Err(DecimalError::TooLarge),
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, from $least:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Where counting stands before anything was counted.
            pub const ZERO: Self = Self(0);
            /// The first value.
            pub const ONE: Self = Self(1);

            /// A counter with this value; `None` above [`MAX`].
            #[must_use]
            pub const fn new(value: u64) -> Option<Self> {
                if value <= MAX { Some(Self(value)) } else { None }
            }

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The following value; `None` at the end of the range, so that nothing ever wraps.
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(value) => Self::new(value),
                    None => None,
                }
            }

            /// Reads the wire form.
            ///
            /// # Errors
            /// [`DecimalError`] names the character and the reason.
            pub fn parse(text: &str) -> Result<Self, DecimalError> {
                let value = parse_decimal(text)?;
                let least: u64 = $least;
                if value < least { Err(DecimalError::Zero) } else { Ok(Self(value)) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter!(
    /// Order above tokens; moved only by an operator, never back. Begins at 0.
    Epoch, from 0
);
counter!(
    /// Counter of ownership generations of one resource, 1 to 2^63 - 1. [`Token::ZERO`] stands only in bounds.
    Token, from 1
);
counter!(
    /// Order of writes inside one position, 1 to 2^63 - 1.
    Sequence, from 1
);
counter!(
    /// Per resource, + 1 for each effect that became authoritative.
    CommitNo, from 0
);
counter!(
    /// Counter of the resource; a re-creation after a deletion is a new incarnation. Begins at 1.
    Incarnation, from 1
);
counter!(
    /// How far the whole database has come: + 1 per committed batch.
    LedgerSeq, from 0
);

/// A counter other than the token that can come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counter {
    /// The epochs of a namespace.
    Epoch,
    /// The versions of a definition.
    Version,
    /// The commits of a resource.
    Commit,
    /// The incarnations of a resource.
    Incarnation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_has_one_spelling() {
        assert_eq!(parse_decimal(""), Err(DecimalError::Empty));
        assert_eq!(parse_decimal("007"), Err(DecimalError::LeadingZero));
        assert_eq!(parse_decimal("+7"), Err(DecimalError::NotADigit { found: '+', at: 1 }));
        assert_eq!(parse_decimal("1 "), Err(DecimalError::NotADigit { found: ' ', at: 2 }));
        assert_eq!(parse_decimal("٣"), Err(DecimalError::NotADigit { found: '٣', at: 1 }));
        assert_eq!(parse_decimal("9223372036854775808"), Err(DecimalError::TooLarge));
        assert_eq!(parse_decimal("10000000000000000000000"), Err(DecimalError::TooLarge));
        assert_eq!(parse_decimal("9223372036854775807"), Ok(MAX));
        assert_eq!(parse_decimal("0"), Ok(0));
        assert_eq!(Token::parse("0"), Err(DecimalError::Zero));
        assert_eq!(Epoch::parse("0"), Ok(Epoch::ZERO));
    }

    #[test]
    fn nothing_wraps_at_the_end() {
        assert_eq!(Token::new(MAX).and_then(Token::next), None);
        assert_eq!(Token::new(MAX - 1).and_then(Token::next), Token::new(MAX));
        assert_eq!(Token::new(MAX + 1), None);
    }
}
