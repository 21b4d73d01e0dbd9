//! Operations as they are kept: decided ones with their answers, and undecided ones with all that is needed to send them
//! again.

use bytes::Bytes;

use crate::domain::counter::{CommitNo, Incarnation, Sequence};
use crate::domain::document::{BodyDigest, ContentType};
use crate::domain::lease::AcquisitionTag;
use crate::domain::operation::{Fingerprint, Method, OperationId, OperationState};
use crate::domain::position::Position;
use crate::domain::precondition::{EntityTag, Preconditions};
use crate::domain::resource::{ResourceName, Target};
use crate::domain::time::Timestamp;
use crate::domain::upstream::{Base, Field};

/// What an applied operation did, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Done {
    /// There was no content before.
    Created,
    /// The content was replaced.
    Replaced,
    /// The content was removed.
    Removed,
    /// Nothing: an upstream refused it for good, and its refusal is bound to the operation id.
    Nothing,
}

impl Done {
    /// The word in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Replaced => "replaced",
            Self::Removed => "removed",
            Self::Nothing => "nothing",
        }
    }

    /// What a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Created, Self::Replaced, Self::Removed, Self::Nothing];
        all.into_iter().find(|done| done.word() == word)
    }
}

/// What an upstream answered beside the body, as it is given again on a replay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelayedHead {
    /// Its status.
    pub status: u16,
    /// Its allow-listed headers.
    pub headers: Vec<Field>,
    /// Its `ETag`, as it came.
    pub etag: Option<String>,
    /// Length and SHA-256 of a body that was too large to be kept.
    pub omitted: Option<(u64, BodyDigest)>,
}

/// The terminal answer of an operation, as it is given again on a replay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SavedResponse {
    /// What was done; the door derives the status from it.
    pub done: Done,
    /// The commit that the operation made; none when it had no effect, or when a newer effect was known before it.
    pub commit: Option<CommitNo>,
    /// The target's validator after it; none after a removal.
    pub etag: Option<EntityTag>,
    /// The receipt, or the body that an upstream answered, byte for byte.
    pub body: Bytes,
    /// What an upstream answered beside the body; none when the gateway composed the answer.
    pub relayed: Option<RelayedHead>,
}

/// The durable record of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperationRecord {
    /// The resource.
    pub resource: ResourceName,
    /// The incarnation that it was recorded in.
    pub incarnation: Incarnation,
    /// The caller's name for it.
    pub operation_id: OperationId,
    /// The target that it addressed.
    pub target: Option<Target>,
    /// What it asked for.
    pub method: Method,
    /// What makes two deliveries the same.
    pub fingerprint: Fingerprint,
    /// The position under which it was accepted.
    pub position: Position,
    /// Its sequence, under the policy `ordered`.
    pub sequence: Option<Sequence>,
    /// The acquisition that it came with, where the token was sealed.
    pub acquisition: Option<AcquisitionTag>,
    /// Where it stands.
    pub state: OperationState,
    /// How many times its effect was attempted.
    pub attempt: u32,
    /// The saved answer, once there is one.
    pub response: Option<SavedResponse>,
    /// When it was first recorded.
    pub created_at: Timestamp,
    /// When it became terminal.
    pub decided_at: Option<Timestamp>,
    /// Who ended a doubt, and how.
    pub resolution: Option<Resolution>,
}

impl OperationRecord {
    /// Where it stands.
    #[must_use]
    pub fn key(&self) -> (ResourceName, Incarnation, OperationId) {
        (self.resource.clone(), self.incarnation, self.operation_id.clone())
    }
}

/// How a doubt was ended that the gateway could not end by looking.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resolution {
    /// Whether it was assumed after a configured time, and not said by a person.
    pub assumed: bool,
    /// What the person saw.
    pub evidence: String,
    /// Why the person decided so.
    pub reason: String,
}

/// An announced operation whose outcome is not known yet, with all that is needed to send it again. It is committed
/// before the first byte leaves; while it exists, the operation is undecided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IntentRow {
    /// The record that it becomes: in state `intent` or `uncertain`, without an answer.
    pub record: OperationRecord,
    /// The incarnation that the caller named.
    pub named: Option<Incarnation>,
    /// The preconditions that the caller declared.
    pub preconditions: Preconditions,
    /// What is forwarded beside the body.
    pub request: ForwardedHead,
    /// What the last conditional send rests on.
    pub base: Base,
    /// Whether an attempt was made that may have acted, or may still act.
    pub doubt: bool,
    /// From when on anybody may take the next step.
    pub due_at: Timestamp,
    /// Drawn by the delivery that announced it, which knows its own announcement again by it.
    pub claim: u64,
}

/// What is forwarded beside the body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ForwardedHead {
    /// The query as it came, without its question mark.
    pub query: Option<String>,
    /// Allow-listed headers.
    pub headers: Vec<Field>,
    /// The content type, where one was sent.
    pub content_type: Option<ContentType>,
    /// Length of the body in bytes.
    pub length: u64,
    /// SHA-256 of the body.
    pub digest: BodyDigest,
}

impl IntentRow {
    /// Where its record stands.
    #[must_use]
    pub fn key(&self) -> (ResourceName, Incarnation, OperationId) {
        self.record.key()
    }

    /// Whether it removes the whole resource.
    #[must_use]
    pub const fn removes_resource(&self) -> bool {
        matches!(self.record.method, Method::Delete) && self.record.target.is_none()
    }
}
