//! Acts on a whole namespace, or on all of them: the breaker and the epoch (`protocol.md` section 9).
//!
//! The shell holds every copy of the rows of a namespace for such an act, so it stands in one line with everything that
//! is decided in it: what comes after its answer sees it.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Counter, Epoch, Token};
use crate::domain::operation::{Fingerprint, OperationId};
use crate::domain::position::Position;
use crate::domain::resource::{Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::domain::time::{Millis, Timestamp};

use super::control::{ControlRecord, RecordedVerb};
use super::fold::fold;
use super::outcome::{Acted, WholeView};
use super::rows::{AuditRow, AuditVerb, EverywhereRow, NamespaceRow};
use super::snapshot::{ControlKey, OperationKey};
use super::{Change, Context, Decision, Inconsistent, Outcome, Refusal, Snapshot};

mod redefine;

pub use redefine::DefinitionChange;

/// An act on a whole namespace, or on all of them; never on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeAct {
    /// On what.
    pub subject: Subject,
    /// What to do.
    pub deed: Deed,
}

/// What to do with a whole namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Stop it: the database was found to have gone back in time. One that is stopped already stays as it is.
    Trip(Breaker),
    /// Fold tombstones into the base of their namespace.
    Fold {
        /// Which ones.
        resources: Vec<ResourceName>,
        /// How long records are kept.
        kept: Millis,
    },
    /// Begin a new epoch, which ends the breaker.
    AdvanceEpoch {
        /// The caller's name for the call.
        key: OperationId,
        /// Why, for those who read the record.
        reason: String,
        /// Whether operations that are undecided may go on under the epoch that ends.
        leave_open: bool,
    },
    /// Make the definition that this process was configured with the recorded one.
    ChangeDefinition(DefinitionChange),
    /// Write down that who may do what was changed. It changes no rule of a namespace.
    NotePolicy {
        /// What was changed: names, and no secrets.
        what: String,
    },
}

impl WholeAct {
    /// Where a call of this name is recorded.
    #[must_use]
    pub fn record_key(&self) -> Option<ControlKey> {
        match &self.deed {
            Deed::Trip(_) | Deed::Fold { .. } | Deed::NotePolicy { .. } => None,
            Deed::AdvanceEpoch { key, .. } => {
                Some((self.subject.clone(), RecordedVerb::AdvanceEpoch, key.clone()))
            }
            Deed::ChangeDefinition(change) => {
                Some((self.subject.clone(), RecordedVerb::ChangeDefinition, change.key.clone()))
            }
        }
    }

    /// The resources that it names.
    #[must_use]
    pub fn resources(&self) -> &[ResourceName] {
        match &self.deed {
            Deed::Trip(_)
            | Deed::AdvanceEpoch { .. }
            | Deed::ChangeDefinition(_)
            | Deed::NotePolicy { .. } => &[],
            Deed::Fold { resources, kept: _ } => resources,
        }
    }
}

/// Decides it against every namespace that it is about.
pub(super) fn decide(
    context: &Context<'_>,
    snapshot: &Snapshot,
    act: &WholeAct,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    if let (Deed::Fold { resources, kept }, Subject::Namespace(name)) = (&act.deed, &act.subject) {
        let row = snapshot.namespace(name);
        return Ok(row
            .map_or(Decision::unchanged(Outcome::Tidied), |row| fold(snapshot, row, resources, *kept, now)));
    }
    let mut changes = Vec::new();
    let rows = match subjects(context, snapshot, act, &mut changes)? {
        Ok(rows) => rows,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    match &act.deed {
        Deed::Fold { .. } => Err(Inconsistent::because("tombstones are folded in one namespace at a time")),
        Deed::Trip(breaker) => Ok(trip(snapshot, act, breaker, rows, changes)),
        Deed::AdvanceEpoch { key, reason, leave_open } => {
            let call = Call { key, reason, leave_open: *leave_open };
            Ok(advance_epoch(context, snapshot, act, &call, rows, changes, now))
        }
        Deed::NotePolicy { what } => {
            let everywhere = (act.subject == Subject::Everywhere).then(|| snapshot.everywhere());
            let epoch = highest_epoch(&rows, everywhere);
            changes.push(audit(act, AuditVerb::PolicyChanged, epoch, what, now));
            Ok(Decision { outcome: Outcome::Tidied, changes })
        }
        Deed::ChangeDefinition(change) => {
            redefine::decide(context, snapshot, act, change, (rows, changes), now)
        }
    }
}

/// The namespaces that an act is about. One that was never used is recorded by it.
fn subjects(
    context: &Context<'_>,
    snapshot: &Snapshot,
    act: &WholeAct,
    changes: &mut Vec<Change>,
) -> Result<Result<Vec<NamespaceRow>, Refusal>, Inconsistent> {
    match &act.subject {
        Subject::Everywhere => Ok(Ok(snapshot.namespaces().cloned().collect())),
        Subject::Resource(name) => {
            Err(Inconsistent::because(format!("an act on a whole namespace names {name:?}")))
        }
        Subject::Namespace(name) => {
            if let Some(row) = snapshot.namespace(name) {
                return Ok(Ok(vec![row.clone()]));
            }
            let Some(rules) = context.namespaces.rules(name) else {
                return Ok(Err(Refusal::UnknownNamespace(name.clone())));
            };
            let row = NamespaceRow::first_use(name.clone(), rules.definition, snapshot.everywhere());
            changes.push(Change::NamespaceRecorded(row.clone()));
            Ok(Ok(vec![row]))
        }
    }
}

/// Stops what is not stopped yet. What was found first stays: it is what an operator has to look into.
fn trip(
    snapshot: &Snapshot,
    act: &WholeAct,
    breaker: &Breaker,
    rows: Vec<NamespaceRow>,
    mut changes: Vec<Change>,
) -> Decision {
    let everywhere = (act.subject == Subject::Everywhere).then(|| snapshot.everywhere());
    let epoch = highest_epoch(&rows, everywhere);
    let recorded = changes.len();
    if let Some(before) = everywhere.filter(|row| row.breaker.is_none()) {
        let after = EverywhereRow { breaker: Some(breaker.clone()), ..before.clone() };
        changes.push(Change::EverywhereChanged { before: Box::new(before.clone()), after: Box::new(after) });
    }
    for before in rows.into_iter().filter(|row| row.breaker.is_none()) {
        let after = NamespaceRow { breaker: Some(breaker.clone()), ..before.clone() };
        changes.push(Change::NamespaceChanged { before: Box::new(before), after: Box::new(after) });
    }
    if changes.len() == recorded {
        return Decision::unchanged(Outcome::Tidied);
    }
    changes.push(audit(act, AuditVerb::Tripped, epoch, &breaker.to_string(), breaker.at));
    Decision { outcome: Outcome::Tidied, changes }
}

/// A call as it came.
struct Call<'a> {
    key: &'a OperationId,
    reason: &'a str,
    leave_open: bool,
}

impl Call<'_> {
    /// What makes two deliveries the same.
    fn fingerprint(&self, subject: &Subject) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(b"fencegate epoch 1\0");
        for part in [subject.as_str(), self.reason, if self.leave_open { "leave_open" } else { "" }] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Fingerprint::from_bytes(hash.finalize().into())
    }
}

/// Everything of an earlier epoch is stale from now on. Tokens go on: a counter is never set back. The act on all
/// namespaces brings them to one epoch above all that there were, so that none of them, and none that was forgotten, can
/// be met by what an earlier epoch issued.
fn advance_epoch(
    context: &Context<'_>,
    snapshot: &Snapshot,
    act: &WholeAct,
    call: &Call<'_>,
    rows: Vec<NamespaceRow>,
    mut changes: Vec<Change>,
    now: Timestamp,
) -> Decision {
    let fingerprint = call.fingerprint(&act.subject);
    if let Some(decision) = recorded(snapshot, act, &fingerprint) {
        return decision;
    }
    let open = open_in(snapshot, &act.subject);
    if !call.leave_open && !open.is_empty() {
        return Decision::refused(Refusal::OperationsOpen { open });
    }
    let everywhere = (act.subject == Subject::Everywhere).then(|| snapshot.everywhere());
    // An epoch that was begun and forgotten is not begun again: what was issued in it would be admissible once more.
    let Some(epoch) = highest_epoch(&rows, everywhere).max(context.begun).next() else {
        return Decision::refused(Refusal::CounterExhausted(Counter::Epoch));
    };
    if let Some(before) = everywhere {
        let after = EverywhereRow { epoch, breaker: None };
        changes.push(Change::EverywhereChanged { before: Box::new(before.clone()), after: Box::new(after) });
    }
    let mut advanced = Vec::with_capacity(rows.len());
    for before in rows {
        let after = NamespaceRow { epoch, breaker: None, ..before.clone() };
        advanced.push(after.clone());
        changes.push(Change::NamespaceChanged { before: Box::new(before), after: Box::new(after) });
    }
    changes.push(audit(act, AuditVerb::EpochAdvanced, epoch, call.reason, now));
    let known = context.namespaces;
    let view = WholeView { subject: &act.subject, known, epoch, namespaces: &advanced, open: &open };
    let body = Bytes::from((context.render_whole)(&view));
    changes.push(Change::ControlRecorded(Box::new(ControlRecord {
        subject: act.subject.clone(),
        verb: RecordedVerb::AdvanceEpoch,
        key: call.key.clone(),
        fingerprint,
        body: body.clone(),
        at: now,
    })));
    let acted = Acted { subject: act.subject.clone(), body, replayed: false };
    Decision { outcome: Outcome::Acted(Box::new(acted)), changes }
}

/// The answer to a call that was carried out before under the same key.
fn recorded(snapshot: &Snapshot, act: &WholeAct, fingerprint: &Fingerprint) -> Option<Decision> {
    let record = act.record_key().and_then(|key| snapshot.control(&key))?;
    if record.fingerprint != *fingerprint {
        return Some(Decision::refused(Refusal::OperationMismatch));
    }
    let replayed = Acted { subject: act.subject.clone(), body: record.body.clone(), replayed: true };
    Some(Decision::unchanged(Outcome::Acted(Box::new(replayed))))
}

fn highest_epoch(rows: &[NamespaceRow], everywhere: Option<&EverywhereRow>) -> Epoch {
    let epochs = rows.iter().map(|row| row.epoch).chain(everywhere.map(|row| row.epoch));
    epochs.max().unwrap_or_default()
}

/// Operations that are undecided there: as many as the shell brought.
fn open_in(snapshot: &Snapshot, subject: &Subject) -> Vec<OperationKey> {
    let within = |name: &Namespace| match subject {
        Subject::Everywhere => true,
        Subject::Namespace(one) => one == name,
        Subject::Resource(_) => false,
    };
    let open = snapshot.intents().filter(|intent| within(&intent.record.resource.namespace()));
    open.map(super::rows::IntentRow::key).collect()
}

fn audit(act: &WholeAct, verb: AuditVerb, epoch: Epoch, reason: &str, at: Timestamp) -> Change {
    Change::Audited(AuditRow {
        subject: act.subject.clone(),
        verb,
        position: Position::new(epoch, Token::ZERO),
        reason: Some(reason.to_owned()),
        holder: None,
        actor: None,
        at,
    })
}
