//! Commands of forwarding: what a write brings that goes to an upstream, what was learnt there, what a person says, and
//! the steps of a barrier.

use crate::domain::counter::Incarnation;
use crate::domain::document::ContentType;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::upstream::{CellSeen, Field, Payload, Relayed, Validator};

use super::super::rows::LeaseRef;
use super::super::snapshot::OperationKey;

/// What a write brings that goes to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// The query as it came, without its question mark.
    pub query: Option<String>,
    /// Allow-listed headers.
    pub headers: Vec<Field>,
    /// The content type, where one was sent.
    pub content_type: Option<ContentType>,
    /// The body.
    pub payload: Payload,
    /// Drawn by the shell for this delivery.
    pub claim: u64,
}

/// What was learnt of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// Which operation.
    pub key: OperationKey,
    /// The step that taught it, as it was told.
    pub told: Told,
    /// What was learnt.
    pub finding: Finding,
}

/// What a step was told with. It comes back with what the step taught, so that what has moved on meanwhile is seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Told {
    /// Of the announcement: one that is withdrawn and announced again is another one, though its attempts count from 1.
    pub claim: u64,
    /// Which attempt; one that is not the newest any more settles nothing.
    pub attempt: u32,
    /// The validator that was recorded then: what is read of a cell means nothing once the record has moved on.
    pub recorded: Option<Validator>,
    /// What came before a cell is read.
    pub before: Before,
}

/// What came before a cell is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Before {
    /// A pause, or nothing.
    Nothing,
    /// An attempt that may have acted.
    Doubt,
    /// A complete answer that does not tell by itself what became of the cell.
    Answer(Box<Relayed>),
}

/// What can be learnt of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A complete answer, and the position that a fence-aware upstream says it holds.
    Answered(Box<Relayed>, Option<Position>),
    /// Not one byte of a request was sent.
    NotSent,
    /// It may have acted, or may still act.
    Doubt,
    /// What the cell shows.
    Cell(CellSeen),
    /// Nothing could be learnt, and nothing was sent.
    Unreadable,
    /// The upstream says that it has the outcome of this key: this one.
    Known(Box<Relayed>),
}

/// Take the next step of an undecided operation, if it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Which operation.
    pub key: OperationKey,
    /// The attempt that was seen.
    pub attempt: u32,
}

/// Say how a doubt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    /// The resource.
    pub resource: ResourceName,
    /// The operation in doubt.
    pub operation_id: OperationId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// What became of it.
    pub verdict: ResolveVerdict,
    /// What the person saw.
    pub evidence: String,
    /// Why the person decides so.
    pub reason: String,
}

/// What a person says became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolveVerdict {
    /// It is in the store.
    Applied,
    /// It is not in the store and will not come there.
    NotApplied,
}

impl ResolveVerdict {
    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotApplied => "not_applied",
        }
    }

    /// The verdict that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Applied, Self::NotApplied].into_iter().find(|verdict| verdict.word() == word)
    }
}

/// Take the next step of a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barrier {
    /// In front of which resource.
    pub resource: ResourceName,
    /// The lease that waits for it, where one does.
    pub lease: Option<LeaseRef>,
    /// What was learnt by the step before.
    pub learnt: BarrierFinding,
}

/// What can be learnt on the way to a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BarrierFinding {
    /// Nothing yet.
    Nothing,
    /// What the cell shows, and the validator that was recorded when it was to be read.
    Cell {
        /// What was recorded.
        recorded: Option<Validator>,
        /// What is there.
        seen: CellSeen,
    },
    /// The cell was rewritten with a stamp for this position, and has this validator now.
    Rewritten {
        /// The position in the stamp.
        position: Position,
        /// What the rewrite rested on.
        base: crate::domain::upstream::Base,
        /// The new validator.
        validator: Validator,
    },
    /// The upstream has acknowledged that it holds this position.
    Acknowledged(Position),
    /// The upstream refuses, and says that it holds this position.
    Holds(Position),
}
