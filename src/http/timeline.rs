//! The timeline of a resource: who held what, what was accepted, what was refused and why, and what was done to it or to its
//! namespace. Newest first.
//!
//! Acts and operations are the durable records of the decisions themselves. Refusals are samples, and may be missing.

use std::cmp::Reverse;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::counter::{CommitNo, Incarnation, Sequence, parse_decimal};
use crate::domain::operation::OperationId;
use crate::domain::permission::{Permission, Rules};
use crate::domain::position::Position;
use crate::domain::time::{Millis, Timestamp};
use crate::ledger::read::{AuditEntry, AuditPlace, NotedRefusal, OperationFilter, OperationPlace};
use crate::protocol::rows::OperationRecord;

use super::names;
use super::problem::{Code, Problem};
use super::query::{bad_cursor, cursor_of};
use super::resources::recorded_definition_holds;
use super::whole;
use super::wire::{self, Rfc3339, Shown};
use super::{Asked, Hall};

/// Operation ids begin with visible characters; none is below this one.
const LEAST_ID: &str = "!";

/// One line.
enum Entry {
    Act(Box<AuditEntry>),
    Operation(Box<OperationRecord>),
    Refusal(Box<NotedRefusal>),
}

/// Where a page ended. In one millisecond acts come before operations, and these before refusals: so a refusal is always
/// told as later than what it was refused for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    at: Timestamp,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Act { transaction: u64, ordinal: u64 },
    Operation { incarnation: Incarnation, operation_id: OperationId },
    Refusal { number: u64 },
}

#[derive(Serialize)]
struct PageJson<'a> {
    items: Vec<EntryJson<'a>>,
    next_cursor: Option<String>,
}

/// What does not belong to a line is left out.
#[derive(Serialize, Default)]
struct EntryJson<'a> {
    at: Option<Rfc3339>,
    kind: &'static str,
    event: &'static str,
    /// The resource, its namespace, or `*`.
    about: &'a str,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
}

/// `GET /v1/timeline/{name}`.
pub(super) async fn show(asked: Asked<'_>) -> Result<Response, Problem> {
    let place = asked.place("/v1/timeline", Permission::Read)?;
    let limit = asked.query.limit()?;
    let after = asked.query.cursor()?.map(|text| Place::parse(&text).ok_or_else(bad_cursor)).transpose()?;
    recorded_definition_holds(asked.hall, &place).await?;
    let resource = &place.address.resource;
    // One more than is shown tells whether there is a next page.
    let found = entries(asked.hall, &place, after.as_ref(), limit.saturating_add(1)).await;
    let mut found = found.map_err(|problem| problem.about(resource))?;
    if after.is_none() && !found.iter().any(|entry| entry.is_about(resource.as_str())) {
        let detail = format!("nothing is known about {resource}: nobody acquired, advanced or wrote it");
        return Err(Problem::new(Code::NotFound, detail).about(resource));
    }
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > shown;
    found.truncate(shown);
    let next_cursor = found.last().filter(|_| more).map(|entry| cursor_of(&entry.place().text()));
    let rules = asked.caller.rules();
    let items = found.iter().map(|entry| entry.json(resource.as_str(), rules)).collect();
    Ok(wire::json(StatusCode::OK, &PageJson { items, next_cursor }))
}

/// Lines behind a place: as many of each kind, put in order together, and cut off. Between two of the reads something may
/// be added, which is newer than all of them.
async fn entries(
    hall: &Hall,
    place: &names::Place,
    after: Option<&Place>,
    limit: u32,
) -> Result<Vec<Entry>, Problem> {
    let resource = &place.address.resource;
    let (name, before) = (resource.clone(), acts_before(after));
    let acts = hall.read(move |reader| reader.audit(name, before, limit)).await?;
    let filter =
        OperationFilter { resource: resource.clone(), state: None, after: operations_after(after), limit };
    let operations = hall.read(move |reader| reader.operations(filter)).await?;
    let name = resource.clone();
    let refusals = hall.read(move |reader| reader.refusals(name)).await?;
    let acts = acts.into_iter().map(|entry| Entry::Act(Box::new(entry)));
    let operations = operations.into_iter().map(|record| Entry::Operation(Box::new(record)));
    let refusals = refusals.into_iter().map(|sample| Entry::Refusal(Box::new(sample)));
    let mut all: Vec<Entry> = acts.chain(operations).chain(refusals).collect();
    all.retain(|entry| after.is_none_or(|after| entry.place() < *after));
    all.sort_by_key(|entry| Reverse(entry.place()));
    all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(all)
}

/// The place before which acts are wanted: in the millisecond of another kind's place all of them are.
fn acts_before(after: Option<&Place>) -> AuditPlace {
    let last = u64::try_from(i64::MAX).unwrap_or_default();
    let end_of = |at| AuditPlace { at, transaction: last, ordinal: last };
    match after {
        None => end_of(Timestamp::from_ms(i64::MAX)),
        Some(Place { at, kind: Kind::Act { transaction, ordinal } }) => {
            AuditPlace { at: *at, transaction: *transaction, ordinal: *ordinal }
        }
        Some(Place { at, kind: Kind::Operation { .. } | Kind::Refusal { .. } }) => end_of(*at),
    }
}

/// The same of operations: in the millisecond of an act none is left, in that of a refusal all of them are.
fn operations_after(after: Option<&Place>) -> Option<OperationPlace> {
    let Place { at, kind } = after?;
    let beginning_of = |created_at| {
        let operation_id = OperationId::parse(LEAST_ID).ok()?;
        Some(OperationPlace { created_at, incarnation: Incarnation::ONE, operation_id })
    };
    match kind {
        Kind::Act { .. } => beginning_of(*at),
        Kind::Operation { incarnation, operation_id } => Some(OperationPlace {
            created_at: *at,
            incarnation: *incarnation,
            operation_id: operation_id.clone(),
        }),
        Kind::Refusal { .. } => beginning_of(at.plus(Millis::new(1))),
    }
}

impl Entry {
    fn place(&self) -> Place {
        match self {
            Self::Act(entry) => {
                let AuditPlace { at, transaction, ordinal } = entry.place;
                Place { at, kind: Kind::Act { transaction, ordinal } }
            }
            Self::Operation(record) => {
                let (incarnation, operation_id) = (record.incarnation, record.operation_id.clone());
                Place { at: record.created_at, kind: Kind::Operation { incarnation, operation_id } }
            }
            Self::Refusal(sample) => {
                Place { at: sample.row.at, kind: Kind::Refusal { number: sample.number } }
            }
        }
    }

    /// Whether it tells of the resource itself.
    fn is_about(&self, resource: &str) -> bool {
        match self {
            Self::Act(entry) => entry.row.subject.as_str() == resource,
            Self::Operation(_) | Self::Refusal(_) => true,
        }
    }

    fn json<'a>(&'a self, resource: &'a str, rules: &Rules) -> EntryJson<'a> {
        let at = Some(Rfc3339(self.place().at));
        match self {
            Self::Act(entry) => {
                let (actor, reason) = whole::by_whom_and_why(&entry.row, rules);
                EntryJson {
                    at,
                    kind: "act",
                    event: entry.row.verb.word(),
                    about: entry.row.subject.as_str(),
                    position: Some(Shown(entry.row.position)),
                    holder: entry.row.holder.as_ref().map(crate::domain::lease::Holder::as_str),
                    actor,
                    reason,
                    ..EntryJson::default()
                }
            }
            Self::Operation(record) => EntryJson {
                at,
                kind: "operation",
                event: record.state.word(),
                about: resource,
                position: Some(Shown(record.position)),
                operation_id: Some(record.operation_id.as_str()),
                method: Some(record.method.word()),
                target: record.target.as_ref().map(crate::domain::resource::Target::as_str),
                incarnation: Some(Shown(record.incarnation)),
                sequence: record.sequence.map(Shown),
                commit: record.response.as_ref().and_then(|saved| saved.commit).map(Shown),
                decided_at: record.decided_at.map(Rfc3339),
                ..EntryJson::default()
            },
            Self::Refusal(sample) => EntryJson {
                at,
                kind: "refusal",
                event: "refused",
                about: resource,
                position: sample.row.presented.map(Shown),
                operation_id: sample.row.operation_id.as_ref().map(OperationId::as_str),
                code: Some(&sample.row.code),
                times: Some(sample.row.times),
                ..EntryJson::default()
            },
        }
    }
}

impl Place {
    fn text(&self) -> String {
        let at = self.at.ms();
        match &self.kind {
            Kind::Act { transaction, ordinal } => format!("{at}.a.{transaction}.{ordinal}"),
            Kind::Operation { incarnation, operation_id } => format!("{at}.o.{incarnation}.{operation_id}"),
            Kind::Refusal { number } => format!("{at}.r.{number}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (at, rest) = text.split_once('.')?;
        let at = Timestamp::from_ms(at.parse().ok()?);
        let (kind, rest) = rest.split_once('.')?;
        let kind = match kind {
            "a" => {
                let (transaction, ordinal) = rest.split_once('.')?;
                Kind::Act { transaction: number(transaction)?, ordinal: number(ordinal)? }
            }
            "o" => {
                let (incarnation, operation_id) = rest.split_once('.')?;
                Kind::Operation {
                    incarnation: Incarnation::parse(incarnation).ok()?,
                    operation_id: OperationId::parse(operation_id).ok()?,
                }
            }
            "r" => Kind::Refusal { number: number(rest)? },
            _ => return None,
        };
        Some(Self { at, kind })
    }
}

/// A number that a column holds.
fn number(text: &str) -> Option<u64> {
    parse_decimal(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_each_kind_reads_back() {
        for text in ["1789286460000.a.17.0", "1789286460000.o.2.a.b/c", "1789286460000.r.16"] {
            assert_eq!(Place::parse(text).unwrap().text(), text);
        }
        for bad in ["", "1", "1.a", "1.a.1", "1.a.-1.0", "1.o.0.x", "1.o.1.", "1.r.", "1.x.1", "x.r.1"] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn in_one_millisecond_a_refusal_comes_after_what_was_done() {
        let [act, operation, refusal] =
            ["5.a.9.9", "5.o.1.x", "5.r.0"].map(|text| Place::parse(text).unwrap());
        assert!(act < operation && operation < refusal);
        assert!(refusal < Place::parse("6.a.0.0").unwrap());
    }
}
