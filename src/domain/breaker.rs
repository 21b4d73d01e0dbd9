//! The breaker: the stop that trips when the gateway's own database proves to have gone back in time
//! (`protocol.md` section 9).

use std::fmt;

use super::time::Timestamp;

/// What noticed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Detector {
    /// A valid seal above everything that the database issued.
    Seal,
    /// A store that holds what the record does not know.
    Store,
    /// An acknowledged operation that is no longer recorded.
    Acks,
    /// The high-water witness.
    Witness,
    /// Another database, or another server, in the place of this one.
    Identity,
}

impl Detector {
    const ALL: [Self; 5] = [Self::Seal, Self::Store, Self::Acks, Self::Witness, Self::Identity];

    /// The word in rows, answers and log lines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Store => "store",
            Self::Acks => "acks",
            Self::Witness => "witness",
            Self::Identity => "identity",
        }
    }

    /// The detector that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|detector| detector.word() == word)
    }
}

/// A breaker that has tripped. Only an operator's epoch advance ends it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Breaker {
    /// What noticed it.
    pub detector: Detector,
    /// When.
    pub at: Timestamp,
    /// What was found, for people: names and numbers, never a secret.
    pub found: String,
}

/// One text for the row: detector, milliseconds since 1970, and what was found.
impl fmt::Display for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.detector.word(), self.at.ms(), self.found)
    }
}

impl Breaker {
    /// Reads the row's text; none where it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let detector = Detector::from_word(parts.next()?)?;
        let at = Timestamp::from_ms(parts.next()?.parse().ok()?);
        let read = Self { detector, at, found: parts.next()?.to_owned() };
        // `+17` and `017` are numbers to Rust; a row has one spelling.
        (read.to_string() == text).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_what_was_written() {
        for detector in Detector::ALL {
            let tripped = Breaker {
                detector,
                at: Timestamp::from_ms(17),
                found: "seal 0.9 above issued 0.7".to_owned(),
            };
            assert_eq!(Breaker::parse(&tripped.to_string()), Some(tripped));
        }
        assert_eq!(Breaker::parse("seal 17"), None);
        // A second spelling of a number is no number of ours.
        assert_eq!(Breaker::parse("seal +17 x"), None);
        assert_eq!(Breaker::parse("seal 017 x"), None);
        assert_eq!(Breaker::parse("guess 17 x"), None);
    }
}
