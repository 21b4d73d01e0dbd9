//! What is kept of a call that was carried out.

use bytes::Bytes;

use crate::domain::operation::{Fingerprint, OperationId};
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;

use super::super::snapshot::ControlKey;
use super::ControlVerb;

/// A control call that was carried out, in a key space of its own: a delayed copy does nothing and gets this answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControlRecord {
    /// What it was done to.
    pub subject: Subject,
    /// What was done.
    pub verb: RecordedVerb,
    /// The caller's name for the call.
    pub key: OperationId,
    /// What makes two calls the same.
    pub fingerprint: Fingerprint,
    /// The answer, byte for byte.
    pub body: Bytes,
    /// When.
    pub at: Timestamp,
}

impl ControlRecord {
    /// Where it stands.
    #[must_use]
    pub fn record_key(&self) -> ControlKey {
        (self.subject.clone(), self.verb, self.key.clone())
    }
}

/// What a recorded call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordedVerb {
    /// A call on one resource.
    Control(ControlVerb),
    /// The beginning of a new epoch.
    AdvanceEpoch,
    /// The change of a namespace's definition.
    ChangeDefinition,
}

impl RecordedVerb {
    /// The word in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Control(verb) => verb.word(),
            Self::AdvanceEpoch => "epoch",
            Self::ChangeDefinition => "definition",
        }
    }

    /// What a word in rows names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let whole = [Self::AdvanceEpoch, Self::ChangeDefinition].into_iter().find(|verb| verb.word() == word);
        whole.or_else(|| ControlVerb::from_word(word).map(Self::Control))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_in_rows_is_read_again() {
        let controls =
            [ControlVerb::Revoke, ControlVerb::Cancel, ControlVerb::Reopen].map(RecordedVerb::Control);
        for verb in controls.into_iter().chain([RecordedVerb::AdvanceEpoch, RecordedVerb::ChangeDefinition]) {
            assert_eq!(RecordedVerb::from_word(verb.word()), Some(verb));
        }
        assert_eq!(RecordedVerb::from_word("guess"), None);
    }
}
