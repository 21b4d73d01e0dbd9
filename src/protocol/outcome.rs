//! What is answered: words, never booleans.

use bytes::Bytes;

use crate::domain::counter::{CommitNo, Epoch, Incarnation, Sequence};
use crate::domain::lease::{AcquisitionId, EndCause, LeaseState, TtlError};
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::policy::{Contract, Definition, Policy};
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Address, Namespace, ResourceName};
use crate::domain::time::{Millis, Timestamp};
use crate::domain::upstream::{Base, Payload, Relayed, Stamp, Validator};

use super::command::{Finding, Settle, Told};
use super::control::ControlVerb;
use super::rows::{
    IntentRow, LeaseRow, Life, Mark, NamespaceRow, OperationRecord, ResourceRow, SavedResponse,
};
use super::snapshot::OperationKey;

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The caller owns the resource.
    Granted(Box<Grant>),
    /// The lease goes on.
    Renewed(Box<LeaseView>),
    /// The lease is over; its state says how.
    Released(Box<LeaseView>),
    /// Every member is in the store.
    Written(Vec<Written>),
    /// At least one member was refused, so no new one took effect.
    NotWritten(Vec<MemberVerdict>),
    /// What a dry run found, member by member.
    Explained(Vec<MemberVerdict>),
    /// The floor stands where the caller wanted it.
    Advanced(Box<ResourceRow>),
    /// A resource was revoked, cancelled or reopened.
    Controlled(Box<Controlled>),
    /// The gateway has tidied up; nobody is told.
    Tidied,
    /// The write is admitted and announced; now it goes to its upstream.
    Announced(Box<Attempt>),
    /// What became of an undecided operation.
    Settled(Box<Settled>),
    /// A doubt was ended, or had been ended in the same way.
    Resolved(Box<OperationRecord>),
    /// What is to be done for a barrier, or that it stands.
    Barrier(Box<BarrierStep>),
    /// A command other than a write was refused.
    Refused(Refusal),
}

/// The next step of an undecided operation. It is announced: whoever has it may take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The announcement.
    pub intent: IntentRow,
    /// The body, where the caller brought it; else it is read from the database.
    pub payload: Option<Payload>,
    /// What to do.
    pub act: Act,
    /// Whether the doubt may be ended by asking the upstream before anything is sent again.
    pub ask_first: bool,
    /// What has to come back with what it teaches.
    pub told: Told,
}

impl Attempt {
    /// The command that says what this step taught.
    #[must_use]
    pub fn taught(&self, finding: Finding) -> Settle {
        Settle { key: self.intent.key(), told: self.told.clone(), finding }
    }
}

/// What an attempt does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Send it, with this stamp where the store has cells.
    Send(Option<Stamp>),
    /// Read the cell.
    ReadCell,
}

/// What became of an undecided operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is decided, and this is its answer.
    Done(Written),
    /// It had and will have no effect, and its id is free again.
    Withdrawn(IntentRow, Withdrawal, Standing),
    /// Take this step now.
    Again(Attempt),
    /// Take the next step at this time.
    Later(Timestamp),
    /// Nothing more can be done without a person, or before this time.
    Uncertain(Timestamp),
    /// Somebody else has taken a step meanwhile.
    Moved,
}

/// Why an operation was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawal {
    /// The upstream could not be reached.
    Unreachable,
    /// The upstream would not serve the gateway now; its answer, which is not bound to the operation.
    Relayed(Relayed),
    /// The rules refuse it, judged once more against what the store turned out to hold.
    Refused(Refusal),
}

/// Where a barrier stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BarrierStep {
    /// It stands: nothing older can become authoritative.
    Stands(ResourceRow),
    /// Read the cell, of which this is recorded; that comes back with what is seen.
    ReadCell(Option<Validator>),
    /// Rewrite the cell on this base, with this stamp.
    Rewrite(Base, Stamp),
    /// Advance the upstream to this position.
    Advance(crate::domain::counter::Incarnation, Position),
    /// These operations have to be decided first.
    Undecided(Vec<OperationKey>),
    /// It cannot be reached while nobody has looked into this.
    Quarantined(String),
}

/// A granted lease with its secrets, for its owner only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The acquisition id.
    pub acquisition_id: AcquisitionId,
    /// `epoch.token.seal` of each resource, in the order of the lease's members.
    pub fencing_tokens: Vec<SealedToken>,
    /// The rest.
    pub view: LeaseView,
    /// Whether this repeats an earlier answer.
    pub repeated: bool,
}

/// A sealed token; `Debug` keeps the seal to itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedToken(pub String);

impl std::fmt::Debug for SealedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealedToken(…)")
    }
}

/// A lease as it stands now, with what its owner wants to know of the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// The row.
    pub lease: LeaseRow,
    /// The state now, expiry included.
    pub state: LeaseState,
    /// What is left of it.
    pub remaining: Millis,
    /// Of the resource.
    pub incarnation: Incarnation,
    /// Of the resource.
    pub life: Life,
    /// Of the namespace.
    pub contract: Contract,
    /// Of the namespace.
    pub policy: Policy,
}

/// A control call that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controlled {
    /// The resource as the call left it.
    pub resource: ResourceRow,
    /// The answer, byte for byte.
    pub body: Bytes,
    /// Whether this is the saved answer of an earlier delivery.
    pub replayed: bool,
    /// What was done.
    pub verb: ControlVerb,
    /// Effects that were under way and may still become authoritative.
    pub in_flight: Vec<OperationId>,
}

/// What the answer of a control call shows.
#[derive(Debug, Clone, Copy)]
pub struct ControlView<'a> {
    /// The resource as the call leaves it.
    pub resource: &'a ResourceRow,
    /// Its namespace.
    pub namespace: &'a NamespaceRow,
    /// Its newest lease as the call leaves it.
    pub lease: Option<&'a LeaseRow>,
    /// Its undecided operations.
    pub undecided: &'a [Undecided],
    /// When.
    pub now: Timestamp,
}

/// An undecided operation, as the view of its resource shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecided {
    /// Which one.
    pub operation_id: OperationId,
    /// Whether it is under way or uncertain.
    pub state: OperationState,
}

impl Undecided {
    /// Those of a resource, the oldest first.
    pub fn of<'i>(intents: impl Iterator<Item = &'i IntentRow>) -> Vec<Self> {
        let mut all: Vec<&IntentRow> = intents.collect();
        all.sort_by_key(|intent| intent.record.created_at);
        let shown = |intent: &&IntentRow| Self {
            operation_id: intent.record.operation_id.clone(),
            state: intent.record.state,
        };
        all.iter().map(shown).collect()
    }
}

/// What stands against an acquire on one of its resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Which resource.
    pub resource: ResourceName,
    /// What it is.
    pub why: Blocked,
    /// After how long it stands no more, unless it ends before or is renewed.
    pub free_in: Millis,
    /// The caller's place in the queue, where it has one.
    pub place: Option<Place>,
}

/// A place in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Of the ticket: it grows with the time of joining.
    pub number: u64,
    /// Counted from the head, which is 1.
    pub position: usize,
}

/// Why a resource cannot be owned now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// Somebody else owns it.
    Held {
        /// The other's position; never its acquisition.
        position: Position,
    },
    /// A lease has expired so shortly ago that nobody may acquire yet.
    LockDelay,
    /// It is free, and others have waited longer.
    Queued,
}

/// One member that is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What it addressed.
    pub address: Address,
    /// Its operation.
    pub operation_id: OperationId,
    /// Whether this is the saved answer of an earlier delivery.
    pub replayed: bool,
    /// The incarnation that it was recorded in.
    pub incarnation: Incarnation,
    /// The position under which it was accepted.
    pub position: Position,
    /// Its sequence.
    pub sequence: Option<Sequence>,
    /// The saved answer.
    pub response: SavedResponse,
    /// The lowest position admissible now.
    pub floor: Position,
}

/// The verdict on one member of a write that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberVerdict {
    /// What it addressed.
    pub address: Address,
    /// Its operation.
    pub operation_id: OperationId,
    /// The position that it came under.
    pub presented: Position,
    /// Its sequence.
    pub sequence: Option<Sequence>,
    /// Where the resource stands, for the caller to compare.
    pub standing: Standing,
    /// What the table says.
    pub verdict: Verdict,
}

/// Where a resource stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The lowest position admissible.
    pub floor: Position,
    /// The last accepted effect.
    pub applied: Option<Mark>,
    /// The current incarnation.
    pub incarnation: Incarnation,
}

/// What the decision table says of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Row 2: it is in the store already.
    Replay(Box<Written>),
    /// Row 19: nothing stands against it; `replaces` tells whether there is content already.
    Admit {
        /// Whether there is content already.
        replaces: bool,
    },
    /// Another row.
    Refuse(Refusal),
}

/// What the receipt of an applied write says (`api.md` section 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// What was written.
    pub address: Address,
    /// By which operation.
    pub operation_id: OperationId,
    /// In which incarnation.
    pub incarnation: Incarnation,
    /// Under which position.
    pub position: Position,
    /// With which sequence.
    pub sequence: Option<Sequence>,
    /// The commit number of the effect.
    pub commit: CommitNo,
    /// The target's validator; none after a removal.
    pub etag: Option<EntityTag>,
    /// When.
    pub applied_at: Timestamp,
}

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
            Self::Quarantined { .. } => Some(5),
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
            | Self::IssuerExternal => None,
        }
    }
}

impl Outcome {
    /// The refusal that gives an answer its status: the first one in the order of the request.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::NotWritten(members) => members.iter().find_map(|member| match &member.verdict {
                Verdict::Refuse(refusal) => Some(refusal),
                Verdict::Admit { .. } | Verdict::Replay(_) => None,
            }),
            Self::Granted(_)
            | Self::Renewed(_)
            | Self::Released(_)
            | Self::Written(_)
            | Self::Explained(_)
            | Self::Advanced(_)
            | Self::Controlled(_)
            | Self::Tidied
            | Self::Announced(_)
            | Self::Settled(_)
            | Self::Resolved(_)
            | Self::Barrier(_) => None,
        }
    }
}
