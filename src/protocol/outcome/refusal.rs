//! Why not: every refusal of the rules, and the row of the table that it comes from.

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Counter, Epoch, Incarnation, Sequence};
use crate::domain::lease::{EndCause, LeaseState, TtlError};
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::policy::Definition;
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::Namespace;

use super::super::snapshot::OperationKey;
use super::Blocker;

/// Why not. Each variant knows what a caller needs in order to act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Row 1.
    OperationMismatch,
    /// Row 3.
    OperationInProgress,
    /// Row 4.
    OutcomeUncertain,
    /// Row 5.
    Quarantined {
        /// What was found that contradicts the record.
        found: String,
    },
    /// Row 5: the database was found to have gone back in time.
    Stopped {
        /// Where nothing goes on.
        namespace: Namespace,
        /// What stopped it.
        breaker: Breaker,
    },
    /// Row 6.
    IncarnationGone {
        /// The one that is current.
        current: Incarnation,
    },
    /// Row 7.
    Deleted {
        /// A re-creation needs a position above this.
        revoked_through: Option<Position>,
    },
    /// Row 7.
    Cancelled,
    /// Row 8: no seal.
    SealMissing,
    /// Row 8: a seal that is not ours for this resource and position.
    SealWrong,
    /// Row 9: our own seal, above everything that this database ever issued.
    IssuerBehind {
        /// The highest position that it issued.
        issued: Position,
    },
    /// Row 10.
    EpochAhead {
        /// The namespace's epoch.
        epoch: Epoch,
    },
    /// Row 11.
    TokenJump {
        /// The greatest step allowed.
        max_jump: u64,
    },
    /// Row 11.
    AdvanceForbidden,
    /// Row 12.
    StaleToken {
        /// Whether the epoch was left out of the token while the namespace has moved on from epoch 0.
        bare_in_later_epoch: bool,
        /// Whether positions come from elsewhere: an issuer that was reset gives out such positions too.
        external: bool,
    },
    /// Row 12, where the operation may once have been recorded.
    OperationExpired,
    /// Row 13.
    LeaseNotLive,
    /// Row 14.
    GenerationSpent,
    /// Row 15.
    SequenceRegressed {
        /// The last accepted one.
        applied: Option<Sequence>,
    },
    /// Row 15.
    SequenceGap {
        /// The one that comes next.
        expected: Sequence,
    },
    /// Row 16.
    PreconditionRequired,
    /// Row 17.
    PreconditionFailed {
        /// The target's validator; none when there is no content.
        current: Option<EntityTag>,
    },
    /// Row 18.
    LaneBusy {
        /// The operation that is in the lane.
        operation: OperationId,
    },
    /// A removal of what never existed.
    NothingToDelete,
    /// Row 2, of an operation that a person said was not applied.
    NotApplied,
    /// A verdict on what has another one.
    AlreadyResolved {
        /// Where the operation stands.
        state: OperationState,
    },
    /// A verdict on an operation that is still under way.
    NotUncertain,
    /// No such operation.
    NoSuchOperation,
    /// No such namespace here.
    UnknownNamespace(Namespace),
    /// The configuration is not the recorded one.
    DefinitionDiffers {
        /// What the database holds.
        recorded: Definition,
        /// What this process was configured with.
        configured: Definition,
    },
    /// Something stands against owning at least one of the resources.
    LeaseBlocked(Vec<Blocker>),
    /// The same, when the caller's budget for waiting is over.
    WaitTimeout(Vec<Blocker>),
    /// A request id with other parameters.
    RequestMismatch,
    /// A lease that is over.
    LeaseEnded {
        /// How it ended.
        state: LeaseState,
        /// By whose act, unless by a mere successor.
        cause: Option<EndCause>,
    },
    /// A control call on what was never heard of.
    NothingToControl,
    /// A reopen under an external issuer brings no token.
    FreshTokenRequired,
    /// No lease of that id.
    NoSuchLease,
    /// A ttl out of bounds.
    TtlOutOfBounds(TtlError),
    /// The counter is at its end.
    TokenExhausted,
    /// Another counter is at its end.
    CounterExhausted(Counter),
    /// A new epoch is not begun while effects are under way, unless the caller says so.
    OperationsOpen {
        /// Some of them.
        open: Vec<OperationKey>,
    },
    /// Another version of the definition is recorded than the one that was named.
    VersionDiffers {
        /// The recorded one.
        recorded: u32,
    },
    /// A change of the definition that cannot be made with what is there.
    ChangeUnsafe {
        /// Which parts, and why.
        why: String,
    },
    /// The gateway issues no leases here.
    IssuerExternal,
}

impl Refusal {
    /// The row of the decision table (`protocol.md` section 4), where it comes from the table.
    #[must_use]
    pub const fn row(&self) -> Option<u8> {
        match self {
            Self::OperationMismatch => Some(1),
            Self::OperationInProgress => Some(3),
            Self::OutcomeUncertain => Some(4),
            Self::Quarantined { .. } | Self::Stopped { .. } => Some(5),
            Self::NotApplied => Some(2),
            Self::LaneBusy { .. } => Some(18),
            Self::IncarnationGone { .. } => Some(6),
            Self::Deleted { .. } | Self::Cancelled => Some(7),
            Self::SealMissing | Self::SealWrong => Some(8),
            Self::IssuerBehind { .. } => Some(9),
            Self::EpochAhead { .. } => Some(10),
            Self::TokenJump { .. } | Self::AdvanceForbidden => Some(11),
            Self::StaleToken { .. } | Self::OperationExpired => Some(12),
            Self::LeaseNotLive => Some(13),
            Self::GenerationSpent => Some(14),
            Self::SequenceRegressed { .. } | Self::SequenceGap { .. } => Some(15),
            Self::PreconditionRequired => Some(16),
            Self::PreconditionFailed { .. } => Some(17),
            Self::NothingToDelete
            | Self::AlreadyResolved { .. }
            | Self::NotUncertain
            | Self::NoSuchOperation
            | Self::UnknownNamespace(_)
            | Self::DefinitionDiffers { .. }
            | Self::LeaseBlocked(_)
            | Self::WaitTimeout(_)
            | Self::RequestMismatch
            | Self::LeaseEnded { .. }
            | Self::NothingToControl
            | Self::FreshTokenRequired
            | Self::NoSuchLease
            | Self::TtlOutOfBounds(_)
            | Self::TokenExhausted
            | Self::CounterExhausted(_)
            | Self::OperationsOpen { .. }
            | Self::VersionDiffers { .. }
            | Self::ChangeUnsafe { .. }
            | Self::IssuerExternal => None,
        }
    }
}
