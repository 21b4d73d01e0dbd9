//! The durable state, as the rules see it (`protocol.md` section 3).

mod audit;
mod namespaces;
mod operations;

use crate::domain::counter::{self, CommitNo, Epoch, Incarnation, Sequence};
use crate::domain::document::{BodyDigest, ContentType};
use crate::domain::lease::{AcquisitionHash, EndCause, Holder, LeaseState, Ttl};
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Bucket, ResourceName, Target};
use crate::domain::seal::KeyId;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Validator;
use uuid::Uuid;

use super::queue::Queue;

pub use audit::{AuditRow, AuditVerb, RefusalRow};
pub use namespaces::{EverywhereRow, NamespaceRow};
pub use operations::{
    Done, ForwardedHead, IntentRow, OperationRecord, RelayedHead, Resolution, SavedResponse,
};

/// Whether a resource lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Life {
    /// It accepts writes.
    Active,
    /// A fenced DELETE ended it; the row stays as a tombstone.
    Deleted,
    /// An operator or owner stopped it; only a reopen ends that.
    Cancelled,
}

impl Life {
    /// The word on the wire and in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deleted => "deleted",
            Self::Cancelled => "cancelled",
        }
    }

    /// The life that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Active, Self::Deleted, Self::Cancelled].into_iter().find(|life| life.word() == word)
    }
}

/// Where the row of a lease lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseRef {
    /// Of the lease's first resource, which need not be the one that names it.
    pub bucket: Bucket,
    /// Which lease.
    pub acquisition: AcquisitionHash,
}

/// Position and sequence of an accepted effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Its position.
    pub position: Position,
    /// Its sequence, under the policy `ordered`.
    pub sequence: Option<Sequence>,
}

impl Mark {
    /// Whether the other one comes after it.
    #[must_use]
    pub fn is_before(self, other: Self) -> bool {
        self.position.is_below(other.position)
            || (self.position == other.position && self.sequence < other.sequence)
    }

    /// The later of two.
    #[must_use]
    pub fn or_later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

/// A resource. Its row is never deleted while its counters stand nowhere else: only a tombstone is ever folded into the
/// base of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceRow {
    /// Its name.
    pub resource: ResourceName,
    /// Counter of re-creations.
    pub incarnation: Incarnation,
    /// The position that began the current incarnation.
    pub born: Position,
    /// Whether it lives.
    pub life: Life,
    /// Highest position that the gateway ever issued for it.
    pub issued: Position,
    /// Lowest position still admissible: what is fenced.
    pub floor: Position,
    /// Positions up to and including this one are refused even where equal to the floor.
    pub revoked_through: Option<Position>,
    /// The last accepted effect: what is published.
    pub applied: Option<Mark>,
    /// + 1 for each effect that became authoritative.
    pub commit_no: CommitNo,
    /// Up to where operation records may be missing.
    pub pruned_through: Option<Mark>,
    /// The newest acquisition.
    pub lease: Option<LeaseRef>,
    /// Callers that wait for the lease in order.
    pub queue: Queue,
    /// Why it does not live, where somebody said so.
    pub reason: Option<String>,
    /// What was found that contradicts this row, while nobody has looked into it: nothing is admitted or sent then.
    pub quarantined: Option<String>,
    /// Of a `conditional` store: the validator of the cell's last recorded state; none before the cell was first read.
    pub cell: Option<Validator>,
    /// Of a store behind HTTP: up to which position nothing older can still become authoritative there.
    pub barrier: Position,
    /// The operation of the last effect, for people.
    pub last_operation: Option<OperationId>,
    /// When the row last changed.
    pub changed_at: Timestamp,
}

impl ResourceRow {
    /// The row of a resource that was never heard of, in this namespace. It may have been heard of once, and its
    /// tombstone folded: so what was recorded up to the base is missing, whatever its sequence.
    #[must_use]
    pub fn unheard(resource: ResourceName, namespace: &NamespaceRow) -> Self {
        let folded = Some(namespace.base).filter(|base| base.is_above(Position::ZERO));
        Self {
            resource,
            incarnation: namespace.base_incarnation.next().unwrap_or(Incarnation::ONE),
            born: namespace.base,
            life: Life::Active,
            issued: namespace.base,
            floor: namespace.base,
            // The base is a position that a folded tombstone had revoked; at the floor alone it would be admissible.
            revoked_through: folded,
            applied: None,
            commit_no: CommitNo::ZERO,
            pruned_through: folded.map(|position| Mark { position, sequence: Sequence::new(counter::MAX) }),
            lease: None,
            queue: Queue::default(),
            reason: None,
            quarantined: None,
            cell: None,
            barrier: Position::ZERO,
            last_operation: None,
            changed_at: Timestamp::default(),
        }
    }

    /// Nothing below this is admissible: the floor, or the start of the namespace's epoch where that is higher.
    #[must_use]
    pub fn effective_floor(&self, epoch: Epoch) -> Position {
        self.floor.or_higher(Position::start_of(epoch))
    }

    /// Whether row 12 refuses a position, and will for ever: it is below the floor or revoked, and neither goes back.
    #[must_use]
    pub fn has_fenced(&self, position: Position, epoch: Epoch) -> bool {
        position.is_below(self.effective_floor(epoch))
            || self.revoked_through.is_some_and(|mark| position.is_revoked_through(mark))
    }

    /// The last effect of the current incarnation; an earlier one's is not published any more.
    #[must_use]
    pub fn published(&self) -> Option<Mark> {
        match self.life {
            Life::Active | Life::Cancelled => self.applied.filter(|mark| !mark.position.is_below(self.born)),
            Life::Deleted => None,
        }
    }
}

/// An earlier incarnation: which positions belonged to it. Written when its successor is born.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EraRow {
    /// The resource.
    pub resource: ResourceName,
    /// The ended incarnation.
    pub incarnation: Incarnation,
    /// The position that had begun it.
    pub born: Position,
}

/// A target's content, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetRow {
    /// The path below the resource.
    pub target: Option<Target>,
    /// Incarnation and commit that last changed it.
    pub tag: EntityTag,
    /// The content type, where one was sent.
    pub content_type: Option<ContentType>,
    /// Length in bytes.
    pub size: u64,
    /// SHA-256 of the bytes.
    pub digest: BodyDigest,
}

/// Scope of an acquire's request id: SHA-256 over principal, resources and request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(pub [u8; 32]);

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    /// What the database knows the acquisition by.
    pub acquisition: AcquisitionHash,
    /// With the key, it gives the acquisition id again.
    pub nonce: [u8; 16],
    /// The key that made the acquisition id.
    pub key_id: KeyId,
    /// What is owned; of several resources, the first in canonical order.
    pub resource: ResourceName,
    /// The position that came with it.
    pub position: Position,
    /// What else is owned by the same acquisition, in canonical order.
    pub others: Vec<LeaseMember>,
    /// A label for people.
    pub holder: Option<Holder>,
    /// How long it lives without a renewal.
    pub ttl: Ttl,
    /// The ttl that the acquire named, in milliseconds; a repeat must name the same.
    pub asked_ttl_ms: Option<u64>,
    /// The request that made it.
    pub request_id: Uuid,
    /// Where a repeat of that request finds it.
    pub request_key: RequestKey,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it ends without a renewal.
    pub expires_at: Timestamp,
    /// Where it stands as far as anybody has written down.
    pub state: LeaseState,
    /// When it ended, once somebody has written down that it did.
    pub ended_at: Option<Timestamp>,
    /// By whose act it was superseded, unless by a mere successor.
    pub cause: Option<EndCause>,
}

/// A further resource of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseMember {
    /// Its name.
    pub resource: ResourceName,
    /// The position that came with it.
    pub position: Position,
}

impl LeaseRow {
    /// Its resources with the position of each, in canonical order.
    pub fn members(&self) -> impl Iterator<Item = (&ResourceName, Position)> {
        let others = self.others.iter().map(|member| (&member.resource, member.position));
        std::iter::once((&self.resource, self.position)).chain(others)
    }

    /// The position that it has on one of its resources.
    #[must_use]
    pub fn position_on(&self, resource: &ResourceName) -> Option<Position> {
        self.members().find(|(name, _)| *name == resource).map(|(_, position)| position)
    }

    /// Where its row lies.
    #[must_use]
    pub fn place(&self) -> LeaseRef {
        LeaseRef { bucket: self.resource.bucket(), acquisition: self.acquisition }
    }
}
