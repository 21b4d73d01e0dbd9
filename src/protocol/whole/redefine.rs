//! The change of a namespace's definition: the one that this process was configured with becomes the recorded one.
//!
//! Floors, revocations and records stay as they are: what one definition has fenced, the next one fences too. What could not
//! stay so is refused (`crate::domain::redefinition`).

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::domain::counter::Counter;
use crate::domain::operation::{Fingerprint, OperationId};
use crate::domain::redefinition::Redefinition;
use crate::domain::subject::Subject;
use crate::domain::time::Timestamp;

use super::super::control::{ControlRecord, RecordedVerb};
use super::super::outcome::{Acted, WholeView};
use super::super::rows::{AuditVerb, NamespaceRow};
use super::super::{Change, Context, Decision, Inconsistent, Outcome, Refusal, Snapshot};
use super::{WholeAct, audit, open_in, recorded};

/// A call for another definition, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionChange {
    /// The caller's name for the call.
    pub key: OperationId,
    /// Why, for those who read the record.
    pub reason: String,
    /// The version of the definition that the caller has looked at.
    pub version: u32,
}

impl DefinitionChange {
    /// What makes two deliveries the same: one under another configuration is another call. The version is not part of it: who
    /// repeats a call whose answer was lost looks at the namespace again, and finds the version that the call has made.
    fn fingerprint(&self, subject: &Subject, to: &str) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(b"fencegate definition 1\0");
        for part in [subject.as_str(), &self.reason, to] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Fingerprint::from_bytes(hash.finalize().into())
    }
}

/// Decides it against the one namespace that it is about.
pub(super) fn decide(
    context: &Context<'_>,
    snapshot: &Snapshot,
    act: &WholeAct,
    call: &DefinitionChange,
    (rows, mut changes): (Vec<NamespaceRow>, Vec<Change>),
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let [before] = <[NamespaceRow; 1]>::try_from(rows)
        .map_err(|_| Inconsistent::because("a definition is changed of one namespace at a time"))?;
    let Some(rules) = context.namespaces.rules(&before.namespace) else {
        return Ok(Decision::refused(Refusal::UnknownNamespace(before.namespace)));
    };
    let to = rules.definition;
    let fingerprint = call.fingerprint(&act.subject, &to.to_string());
    if let Some(decision) = recorded(snapshot, act, &fingerprint) {
        return Ok(decision);
    }
    if before.version != call.version {
        return Ok(Decision::refused(Refusal::VersionDiffers { recorded: before.version }));
    }
    let open = open_in(snapshot, &act.subject);
    if !open.is_empty() {
        return Ok(Decision::refused(Refusal::OperationsOpen { open }));
    }
    let redefinition = Redefinition { from: before.definition, to };
    if let Some(why) = redefinition.refusal(snapshot.is_populated(&before.namespace)) {
        return Ok(Decision::refused(Refusal::ChangeUnsafe { why }));
    }
    let mut after = before.clone();
    if to != before.definition {
        let Some(version) = before.version.checked_add(1) else {
            return Ok(Decision::refused(Refusal::CounterExhausted(Counter::Version)));
        };
        after = NamespaceRow { definition: to, version, ..before.clone() };
        let reason = format!("{} (from {} to {to})", call.reason, before.definition);
        changes.push(audit(act, AuditVerb::DefinitionChanged, before.epoch, &reason, now));
        changes.push(Change::NamespaceChanged { before: Box::new(before), after: Box::new(after.clone()) });
    }
    let view = WholeView {
        subject: &act.subject,
        known: context.namespaces,
        epoch: after.epoch,
        namespaces: std::slice::from_ref(&after),
        open: &[],
    };
    let body = Bytes::from((context.render_whole)(&view));
    changes.push(Change::ControlRecorded(Box::new(ControlRecord {
        subject: act.subject.clone(),
        verb: RecordedVerb::ChangeDefinition,
        key: call.key.clone(),
        fingerprint,
        body: body.clone(),
        at: now,
    })));
    let acted = Acted { subject: act.subject.clone(), body, replayed: false };
    Ok(Decision { outcome: Outcome::Acted(Box::new(acted)), changes })
}
