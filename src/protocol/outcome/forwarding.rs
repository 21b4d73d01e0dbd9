//! What comes of forwarding: the next step of an undecided operation or of a barrier, or its end.

use crate::domain::counter::Incarnation;
use crate::domain::position::Position;
use crate::domain::time::{Millis, Timestamp};
use crate::domain::upstream::{Base, Payload, Relayed, Stamp, Validator};

use super::super::command::{Finding, Settle, Told};
use super::super::rows::{IntentRow, ResourceRow};
use super::super::snapshot::OperationKey;
use super::{Refusal, Standing, Written};

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
    /// For how long, from its announcement on, the store may still be sent this key; none where it keeps no keys.
    pub left: Option<Millis>,
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
#[expect(clippy::large_enum_variant, reason = "an outcome holds it in a box")]
pub enum BarrierStep {
    /// It stands: nothing older can become authoritative.
    Stands(ResourceRow),
    /// Read the cell, of which this is recorded; that comes back with what is seen.
    ReadCell(Option<Validator>),
    /// Rewrite the cell on this base, with this stamp.
    Rewrite(Base, Stamp),
    /// Advance the upstream to this position.
    Advance(Incarnation, Position),
    /// These operations have to be decided first.
    Undecided(Vec<OperationKey>),
    /// It cannot be reached while nobody has looked into this.
    Quarantined(String),
}
