//! The rules.
//!
//! Pure and total: a [`Command`] is decided against a [`Snapshot`] and `now`, and the answer is an [`Outcome`] with the
//! list of [`Change`]s that make it true. No I/O, no clock, no randomness, no logging. The shell evaluates it inside
//! one transaction that holds the resource rows, and commits the changes in that same transaction before it answers.

pub mod advance;
pub mod change;
pub mod command;
pub mod control;
pub mod evidence;
pub mod fold;
pub mod forward;
pub mod incarnation;
pub mod invariants;
pub mod lease;
pub mod outcome;
pub mod prune;
pub mod queue;
pub mod rows;
pub mod snapshot;
pub mod wanted;
pub mod whole;
pub mod write;

use uuid::Uuid;

use crate::domain::counter::Epoch;
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::policy::Definition;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::Namespace;
use crate::domain::seal::Keyring;
use crate::domain::time::Timestamp;

pub use change::Change;
pub use command::Command;
pub use outcome::{Outcome, Refusal};
pub use rows::{NamespaceRow, ResourceRow};
pub use snapshot::Snapshot;
pub use wanted::Wanted;

/// What a decision needs beside the rows: all of it but `begun` is fixed for the life of the process.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The configured namespaces.
    pub namespaces: &'a Namespaces,
    /// The keys that seal and verify.
    pub keyring: &'a Keyring,
    /// The database's own id; a seal of another database is not ours.
    pub database: Uuid,
    /// Renders the answer that is saved with an operation, so that a replay gives the same bytes.
    pub render: fn(&outcome::Receipt) -> Vec<u8>,
    /// Renders the answer of a control call, for the same reason.
    pub render_control: for<'v> fn(&outcome::ControlView<'v>) -> Vec<u8>,
    /// Renders the answer of an act on a whole namespace, for the same reason.
    pub render_whole: for<'v> fn(&outcome::WholeView<'v>) -> Vec<u8>,
    /// The highest epoch that is known to have been begun in what an act on a whole namespace is about, also where the
    /// database has forgotten it. Like the time it is of the moment of the decision, and not of the moment of the call:
    /// what the database loses while a call waits for its turn must bind that call too.
    pub begun: Epoch,
}

/// A decided command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What the caller is told, once the changes are durable.
    pub outcome: Outcome,
    /// What must become durable first, in order.
    pub changes: Vec<Change>,
}

impl Decision {
    /// An answer that changes nothing.
    #[must_use]
    pub const fn unchanged(outcome: Outcome) -> Self {
        Self { outcome, changes: Vec::new() }
    }

    /// Writes the name of whoever asked on every line that tells of an act. What the gateway found by the way is nobody's.
    pub fn sign(&mut self, actor: &PrincipalName) {
        for change in &mut self.changes {
            if let Change::Audited(row) = change
                && row.verb.is_asked_for()
            {
                row.actor = Some(actor.clone());
            }
        }
    }

    /// A refusal that changes nothing.
    #[must_use]
    pub const fn refused(refusal: Refusal) -> Self {
        Self::unchanged(Outcome::Refused(refusal))
    }
}

/// A state that the rules say cannot be. The request stops, loudly, and nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("inconsistent: {0}")]
pub struct Inconsistent(pub String);

impl Inconsistent {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Decides one command.
///
/// # Errors
/// [`Inconsistent`] when the snapshot holds what the rules exclude; nothing may then be changed.
pub fn decide(
    context: &Context<'_>,
    snapshot: &Snapshot,
    command: &Command,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    match command {
        Command::Acquire(acquire) => lease::acquire(context, snapshot, acquire, now),
        Command::Renew(renew) => lease::renew(context, snapshot, renew, now),
        Command::Release(release) => lease::release(context, snapshot, release, now),
        Command::Write(write) => write::decide(context, snapshot, write, now),
        Command::Advance(advance) => advance::decide(context, snapshot, advance, now),
        Command::Transfer(transfer) => lease::transfer(context, snapshot, transfer, now),
        Command::Control(control) => control::decide(context, snapshot, control, now),
        Command::Settle(settle) => forward::settle(context, snapshot, settle, now),
        Command::Resume(resume) => forward::resume(context, snapshot, resume, now),
        Command::Resolve(resolve) => forward::resolve(context, snapshot, resolve, now),
        Command::Barrier(barrier) => forward::barrier(context, snapshot, barrier, now),
        Command::Whole(act) => whole::decide(context, snapshot, act, now),
        Command::Sweep(sweep) => Ok(lease::sweep(snapshot, sweep, now)),
        Command::Prune(prune) => Ok(prune::decide(snapshot, prune, now)),
        Command::Leave(leave) => Ok(lease::leave(snapshot, leave, now)),
    }
}

/// The namespace as it is in force: the recorded row, or the one that its first use will record.
pub(crate) struct InForce {
    pub(crate) row: NamespaceRow,
    pub(crate) rules: NamespaceRules,
    /// Whether the row stands in the database already.
    pub(crate) recorded: bool,
}

impl InForce {
    /// Finds the namespace and holds the recorded definition against the configured one.
    ///
    /// # Errors
    /// [`Refusal::UnknownNamespace`] or [`Refusal::DefinitionDiffers`].
    pub(crate) fn find(
        context: &Context<'_>,
        snapshot: &Snapshot,
        namespace: &Namespace,
    ) -> Result<Self, Refusal> {
        let Some(rules) = context.namespaces.rules(namespace) else {
            return Err(Refusal::UnknownNamespace(namespace.clone()));
        };
        let (row, recorded) = match snapshot.namespace(namespace) {
            Some(row) => (row.clone(), true),
            None => {
                (NamespaceRow::first_use(namespace.clone(), rules.definition, snapshot.everywhere()), false)
            }
        };
        if row.definition == rules.definition {
            Ok(Self { row, rules: *rules, recorded })
        } else {
            Err(Refusal::DefinitionDiffers { recorded: row.definition, configured: rules.definition })
        }
    }

    /// The definition in force.
    pub(crate) const fn definition(&self) -> &Definition {
        &self.row.definition
    }

    /// The change that records a first use; a refused request records nothing.
    pub(crate) fn record(&self, changes: &mut Vec<Change>) {
        if !self.recorded {
            changes.push(Change::NamespaceRecorded(self.row.clone()));
        }
    }
}
