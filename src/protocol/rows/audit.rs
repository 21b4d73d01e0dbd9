//! What is told of a resource beside its content and its operations: acts, and samples of what was refused.

use crate::domain::lease::Holder;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::ResourceName;
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;

/// A line of what was done to a resource outside its content, or to a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AuditRow {
    /// What it was done to.
    pub subject: Subject,
    /// What was done.
    pub verb: AuditVerb,
    /// The position that it concerns.
    pub position: Position,
    /// The reason that the caller gave.
    pub reason: Option<String>,
    /// Who held the lease, of an act on one.
    pub holder: Option<Holder>,
    /// Who asked for it; none where the gateway did it of itself, and in lines of earlier releases.
    pub actor: Option<PrincipalName>,
    /// When.
    pub at: Timestamp,
}

/// What an audit line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditVerb {
    /// A lease was granted.
    Acquired,
    /// The floor was raised without a write.
    Advanced,
    /// A lease was handed to a successor.
    Transferred,
    /// A lease was given back.
    Released,
    /// A lease ended by its time.
    Expired,
    /// A lease that was live was ended by an act, which its reason names, or by a new epoch.
    Superseded,
    /// A generation was revoked.
    Revoked,
    /// The resource was cancelled.
    Cancelled,
    /// A cancellation was ended.
    Reopened,
    /// A doubt was ended by a person, or by a configured assumption.
    Resolved,
    /// Something was found that contradicts the record.
    Quarantined,
    /// The breaker was tripped.
    Tripped,
    /// A new epoch was begun.
    EpochAdvanced,
    /// The definition of a namespace was changed.
    DefinitionChanged,
    /// Nobody knows any more whether an operation, which the reason names, took effect.
    Uncertain,
    /// Who may do what was changed, as the reason says.
    PolicyChanged,
}

impl AuditVerb {
    /// Every verb.
    pub const ALL: [Self; 16] = [
        Self::Acquired,
        Self::Advanced,
        Self::Transferred,
        Self::Released,
        Self::Expired,
        Self::Superseded,
        Self::Revoked,
        Self::Cancelled,
        Self::Reopened,
        Self::Resolved,
        Self::Quarantined,
        Self::Tripped,
        Self::EpochAdvanced,
        Self::DefinitionChanged,
        Self::Uncertain,
        Self::PolicyChanged,
    ];

    /// The word in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Advanced => "advanced",
            Self::Transferred => "transferred",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Revoked => "revoked",
            Self::Cancelled => "cancelled",
            Self::Reopened => "reopened",
            Self::Resolved => "resolved",
            Self::Quarantined => "quarantined",
            Self::Tripped => "tripped",
            Self::EpochAdvanced => "epoch_advanced",
            Self::DefinitionChanged => "definition_changed",
            Self::Uncertain => "uncertain",
            Self::PolicyChanged => "policy_changed",
        }
    }

    /// Whether it tells of an act that somebody asked for, and not of what the gateway found.
    #[must_use]
    pub const fn is_asked_for(self) -> bool {
        match self {
            Self::Acquired
            | Self::Advanced
            | Self::Transferred
            | Self::Released
            | Self::Superseded
            | Self::Revoked
            | Self::Cancelled
            | Self::Reopened
            | Self::Resolved
            | Self::EpochAdvanced
            | Self::DefinitionChanged
            | Self::PolicyChanged => true,
            Self::Expired | Self::Quarantined | Self::Tripped | Self::Uncertain => false,
        }
    }

    /// The verb that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }
}

/// A sample of what was refused: it changes nothing and no decision looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefusalRow {
    /// Of what.
    pub resource: ResourceName,
    /// The public code.
    pub code: String,
    /// The position that was presented, where one was.
    pub presented: Option<Position>,
    /// The operation, of a write.
    pub operation_id: Option<OperationId>,
    /// How often the same was refused in the moment that the sample stands for.
    pub times: u64,
    /// When it was refused for the last time in that moment.
    pub at: Timestamp,
}
