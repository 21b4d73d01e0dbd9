//! What is answered: words, never booleans.

mod forwarding;
mod refusal;

use bytes::Bytes;

use crate::domain::counter::{CommitNo, Epoch, Incarnation, Sequence};
use crate::domain::lease::{AcquisitionId, LeaseState};
use crate::domain::namespaces::Namespaces;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::policy::{Contract, Policy};
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Address, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::{Millis, Timestamp};

use super::control::ControlVerb;
use super::rows::{
    IntentRow, LeaseRow, Life, Mark, NamespaceRow, OperationRecord, ResourceRow, SavedResponse,
};

use super::snapshot::OperationKey;

pub use forwarding::{Act, Attempt, BarrierStep, Settled, Withdrawal};
pub use refusal::Refusal;

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
    /// An act on a whole namespace, or on all of them, was carried out.
    Acted(Box<Acted>),
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
    /// A store holds what the record does not know.
    Ahead(Box<Ahead>),
    /// A command other than a write was refused.
    Refused(Refusal),
}

/// A proof that the database has forgotten something: the breaker is tripped before anybody hears the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Whose store it is.
    pub namespace: Namespace,
    /// What was found, for people.
    pub found: String,
    /// The outcome of the command.
    pub outcome: Outcome,
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

/// An act on a whole namespace, or on all of them, that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acted {
    /// On what.
    pub subject: Subject,
    /// The answer, byte for byte.
    pub body: Bytes,
    /// Whether this is the saved answer of an earlier delivery.
    pub replayed: bool,
}

/// What the answer of such an act shows.
#[derive(Debug, Clone, Copy)]
pub struct WholeView<'a> {
    /// On what.
    pub subject: &'a Subject,
    /// The namespaces as they are configured.
    pub known: &'a Namespaces,
    /// The epoch as the act leaves it.
    pub epoch: Epoch,
    /// The namespaces that it changed, as it leaves them.
    pub namespaces: &'a [NamespaceRow],
    /// Operations that were undecided and go on: some of them.
    pub open: &'a [OperationKey],
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
            | Self::Acted(_)
            | Self::Tidied
            | Self::Announced(_)
            | Self::Settled(_)
            | Self::Resolved(_)
            | Self::Barrier(_) => None,
            Self::Ahead(ahead) => ahead.outcome.refusal(),
        }
    }

    /// The outcome as the caller hears it, and the proof that came with it.
    #[must_use]
    pub fn apart(self) -> (Self, Option<(Namespace, String)>) {
        if let Self::Ahead(ahead) = self {
            (ahead.outcome, Some((ahead.namespace, ahead.found)))
        } else {
            (self, None)
        }
    }
}
