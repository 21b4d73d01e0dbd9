//! Events in the shape of `CloudEvents` 1.0.2, structured JSON. They hold no payload, no seal and no acquisition id.

use serde::Serialize;
use uuid::Uuid;

use crate::domain::counter::{CommitNo, Incarnation, Sequence};
use crate::domain::lease::Holder;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::permission::Rules;
use crate::domain::position::Position;
use crate::domain::resource::Target;
use crate::ledger::events::Happening;
use crate::protocol::rows::{AuditRow, AuditVerb, OperationRecord};

use super::super::whole;
use super::super::wire::{self, Rfc3339, Shown};

#[derive(Serialize)]
struct EventJson<'a> {
    specversion: &'static str,
    /// The same however often and by whichever process it is told.
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The resource, its namespace, or `*`.
    subject: &'a str,
    time: Rfc3339,
    datacontenttype: &'static str,
    partitionkey: &'a str,
    /// Texts that stand in the order in which the events do.
    sequence: String,
    data: DataJson<'a>,
}

/// What does not belong to an event is left out.
#[derive(Serialize, Default)]
struct DataJson<'a> {
    about: &'a str,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<Shown<Position>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<Shown<Incarnation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<Shown<Sequence>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<Shown<CommitNo>>,
}

/// Why something may have been missed.
#[derive(Serialize)]
pub(super) struct ResetJson<'a> {
    reason: &'a str,
}

pub(super) const fn reset(reason: &str) -> ResetJson<'_> {
    ResetJson { reason }
}

/// The type of an event.
pub(super) const fn kind(what: &Happening) -> &'static str {
    match what {
        Happening::Act(entry) => kind_of_act(entry.row.verb),
        Happening::Operation(entry) => match entry.record.state {
            OperationState::Applied | OperationState::ResolvedApplied => "fencegate.write.applied",
            OperationState::Refused | OperationState::ResolvedNotApplied => "fencegate.write.refused",
            // Only decided ones are told; these would be what they are called.
            OperationState::Intent => "fencegate.operation.intent",
            OperationState::Uncertain => "fencegate.operation.uncertain",
        },
    }
}

const fn kind_of_act(verb: AuditVerb) -> &'static str {
    match verb {
        AuditVerb::Acquired => "fencegate.lease.granted",
        AuditVerb::Transferred => "fencegate.lease.transferred",
        AuditVerb::Released => "fencegate.lease.released",
        AuditVerb::Expired => "fencegate.lease.expired",
        AuditVerb::Superseded => "fencegate.lease.superseded",
        AuditVerb::Advanced => "fencegate.resource.advanced",
        AuditVerb::Revoked => "fencegate.resource.revoked",
        AuditVerb::Cancelled => "fencegate.resource.cancelled",
        AuditVerb::Reopened => "fencegate.resource.reopened",
        AuditVerb::Quarantined => "fencegate.resource.quarantined",
        AuditVerb::Resolved => "fencegate.operation.resolved",
        AuditVerb::Uncertain => "fencegate.operation.uncertain",
        AuditVerb::Tripped => "fencegate.breaker.tripped",
        AuditVerb::EpochAdvanced => "fencegate.epoch.advanced",
        AuditVerb::DefinitionChanged => "fencegate.definition.changed",
        AuditVerb::PolicyChanged => "fencegate.policy.changed",
    }
}

/// The event as one line of JSON, for a listener with these rules.
pub(super) fn text(what: &Happening, database: Uuid, rules: &Rules) -> String {
    let reached = what.reached();
    let (letter, data) = match what {
        Happening::Act(entry) => ('a', act(&entry.row, rules)),
        Happening::Operation(entry) => ('o', operation(&entry.record)),
    };
    let event = EventJson {
        specversion: "1.0",
        id: format!("{letter}.{}.{}", reached.transaction, reached.ordinal),
        source: format!("urn:uuid:{}", database.hyphenated()),
        kind: kind(what),
        subject: data.about,
        time: Rfc3339(what.at()),
        datacontenttype: "application/json",
        partitionkey: data.about,
        sequence: format!(
            "{:015}.{}.{:019}.{:019}",
            what.at().ms(),
            what.rank(),
            reached.transaction,
            reached.ordinal
        ),
        data,
    };
    String::from_utf8(wire::bytes(&event)).unwrap_or_default()
}

fn act<'a>(row: &'a AuditRow, rules: &Rules) -> DataJson<'a> {
    let names_operation = row.verb == AuditVerb::Uncertain;
    let (actor, reason) = whole::by_whom_and_why(row, rules);
    DataJson {
        about: row.subject.as_str(),
        event: row.verb.word(),
        position: Some(Shown(row.position)),
        holder: row.holder.as_ref().map(Holder::as_str),
        actor,
        reason: reason.filter(|_| !names_operation),
        operation_id: reason.filter(|_| names_operation),
        ..DataJson::default()
    }
}

fn operation(record: &OperationRecord) -> DataJson<'_> {
    DataJson {
        about: record.resource.as_str(),
        event: record.state.word(),
        position: Some(Shown(record.position)),
        operation_id: Some(OperationId::as_str(&record.operation_id)),
        method: Some(record.method.word()),
        target: record.target.as_ref().map(Target::as_str),
        incarnation: Some(Shown(record.incarnation)),
        sequence: record.sequence.map(Shown),
        commit: record.response.as_ref().and_then(|saved| saved.commit).map(Shown),
        ..DataJson::default()
    }
}
