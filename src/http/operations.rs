//! Operations: the durable outcomes of writes, and so the way out of a lost answer.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::counter::{CommitNo, Incarnation, Sequence};
use crate::domain::operation::{Effect, Fingerprint, OperationId, OperationState};
use crate::domain::permission::Permission;
use crate::domain::position::Position;
use crate::domain::resource::Target;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Field;
use crate::ledger::read::{OperationFilter, OperationPlace};
use crate::protocol::rows::{OperationRecord, SavedResponse};

use super::Asked;
use super::names::{self, Place};
use super::problem::{self, Code, Problem};
use super::query::{bad_cursor, cursor_of, malformed};
use super::resources::recorded_definition_holds;
use super::wire::{self, Rfc3339, Shown};

#[derive(Serialize)]
struct OperationJson<'a> {
    operation_id: &'a str,
    resource: &'a str,
    target: Option<&'a str>,
    incarnation: Shown<Incarnation>,
    state: &'static str,
    effect: &'static str,
    position: Shown<Position>,
    sequence: Option<Shown<Sequence>>,
    commit: Option<Shown<CommitNo>>,
    fingerprint: Shown<Fingerprint>,
    attempt: u32,
    created_at: Rfc3339,
    decided_at: Option<Rfc3339>,
    response: Option<ResponseJson<'a>>,
    /// How a doubt was ended, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<ResolutionJson<'a>>,
}

#[derive(Serialize)]
struct ResolutionJson<'a> {
    assumed: bool,
    evidence: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct ResponseJson<'a> {
    status: u16,
    content_type: Option<&'a str>,
    size: u64,
    /// Who composed it.
    source: &'static str,
}

#[derive(Serialize)]
struct PageJson<'a> {
    items: Vec<OperationJson<'a>>,
    next_cursor: Option<String>,
}

/// `GET /v1/operations`.
pub(super) async fn list(asked: Asked<'_>) -> Result<Response, Problem> {
    if asked.query.value("resource").is_none() {
        return undecided(&asked).await;
    }
    let place = place(&asked, Permission::Read)?;
    let limit = asked.query.limit()?;
    let words: Vec<&str> = OperationState::ALL.iter().map(|state| state.word()).collect();
    let filter = OperationFilter {
        resource: place.address.resource.clone(),
        state: asked.query.word("state", &words, OperationState::from_word)?,
        after: asked.query.cursor()?.map(|text| place_in_list(&text).ok_or_else(bad_cursor)).transpose()?,
        // One more than is shown tells whether there is a next page.
        limit: limit.saturating_add(1),
    };
    recorded_definition_holds(asked.hall, &place).await?;
    let found = asked.hall.read(move |reader| reader.operations(filter)).await;
    let mut found = found.map_err(|problem| problem.about(&place.address.resource))?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > shown;
    found.truncate(shown);
    let next_cursor = found.last().filter(|_| more).map(cursor);
    Ok(wire::json(StatusCode::OK, &PageJson { items: found.iter().map(operation).collect(), next_cursor }))
}

/// The undecided operations of all resources, the oldest first: what an operator looks for who does not know yet
/// where to look.
async fn undecided(asked: &Asked<'_>) -> Result<Response, Problem> {
    asked.require_all(Permission::Read, "")?;
    let words = [OperationState::Intent.word(), OperationState::Uncertain.word()];
    let wanted = asked.query.word("state", &words, OperationState::from_word)?;
    let Some(wanted) = wanted.filter(|state| words.contains(&state.word())) else {
        let detail = "name the resource with resource=namespace%2Fname, or ask for state=uncertain or state=intent of all";
        return Err(malformed(detail));
    };
    let limit = asked.query.limit()?;
    let found = asked.hall.read(move |reader| reader.undecided(wanted, limit)).await?;
    let items = found.iter().map(|intent| operation(&intent.record)).collect();
    Ok(wire::json(StatusCode::OK, &PageJson { items, next_cursor: None }))
}

/// `GET /v1/operations/{operation_id}`.
pub(super) async fn show(asked: Asked<'_>) -> Result<Response, Problem> {
    let id = names::operation_below(&asked.head.uri, "/v1/operations")?;
    let place = place(&asked, Permission::Read)?;
    let incarnation = incarnation(&asked)?;
    recorded_definition_holds(asked.hall, &place).await?;
    let resource = place.address.resource;
    let (name, wanted) = (resource.clone(), id.clone());
    let found = asked.hall.read(move |reader| reader.operation(name, wanted, incarnation)).await;
    let Some(record) = found.map_err(|problem| problem.about(&resource))? else {
        let lived = incarnation.map(|number| format!(" in incarnation {number}")).unwrap_or_default();
        let detail = format!(
            "no operation {id} is recorded for {resource}{lived}; a request that was refused is not recorded, and its \
             operation id may be used again"
        );
        return Err(Problem::new(Code::NotFound, detail).about(&resource));
    };
    Ok(shown(&record))
}

/// One operation as it stands.
pub(super) fn shown(record: &OperationRecord) -> Response {
    wire::json(StatusCode::OK, &operation(record))
}

/// The resource that the query names; a target's name leads to its resource.
pub(super) fn place(asked: &Asked<'_>, permission: Permission) -> Result<Place, Problem> {
    let name = asked.query.required("resource", "namespace%2Fname")?;
    asked.place_of(name, permission)
}

pub(super) fn incarnation(asked: &Asked<'_>) -> Result<Option<Incarnation>, Problem> {
    let Some(text) = asked.query.value("incarnation") else { return Ok(None) };
    Incarnation::parse(text).map(Some).map_err(|error| malformed(format!("incarnation: {error}")))
}

fn operation(record: &OperationRecord) -> OperationJson<'_> {
    let response = record.response.as_ref();
    OperationJson {
        operation_id: record.operation_id.as_str(),
        resource: record.resource.as_str(),
        target: record.target.as_ref().map(Target::as_str),
        incarnation: Shown(record.incarnation),
        state: record.state.word(),
        effect: effect(record).word(),
        position: Shown(record.position),
        sequence: record.sequence.map(Shown),
        commit: response.and_then(|saved| saved.commit).map(Shown),
        fingerprint: Shown(record.fingerprint),
        attempt: record.attempt,
        created_at: Rfc3339(record.created_at),
        decided_at: record.decided_at.map(Rfc3339),
        response: response.map(saved),
        resolution: record.resolution.as_ref().map(|how| ResolutionJson {
            assumed: how.assumed,
            evidence: &how.evidence,
            reason: &how.reason,
        }),
    }
}

fn saved(saved: &SavedResponse) -> ResponseJson<'_> {
    let kept = u64::try_from(saved.body.len()).unwrap_or(u64::MAX);
    let status = problem::status_saved(saved).as_u16();
    let Some(head) = &saved.relayed else {
        return ResponseJson {
            status,
            content_type: Some("application/json"),
            size: kept,
            source: "gateway",
        };
    };
    let named = |(name, _): &&Field| name == "content-type";
    ResponseJson {
        status,
        content_type: head.headers.iter().find(named).map(|(_, value)| value.as_str()),
        size: head.omitted.as_ref().map_or(kept, |(length, _)| *length),
        source: "upstream",
    }
}

/// What the store holds of an operation. What was only assumed is not known.
fn effect(record: &OperationRecord) -> Effect {
    match record.state {
        _ if record.resolution.as_ref().is_some_and(|how| how.assumed) => Effect::Unknown,
        OperationState::Applied | OperationState::ResolvedApplied => Effect::Applied,
        OperationState::Refused | OperationState::ResolvedNotApplied => Effect::None,
        OperationState::Intent | OperationState::Uncertain => Effect::Unknown,
    }
}

fn cursor(record: &OperationRecord) -> String {
    cursor_of(&format!("{}.{}.{}", record.created_at.ms(), record.incarnation, record.operation_id))
}

fn place_in_list(text: &str) -> Option<OperationPlace> {
    let mut parts = text.splitn(3, '.');
    Some(OperationPlace {
        created_at: Timestamp::from_ms(parts.next()?.parse().ok()?),
        incarnation: Incarnation::parse(parts.next()?).ok()?,
        operation_id: OperationId::parse(parts.next()?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_any_operation_id_reads_back() {
        let place = place_in_list("1789286460000.2.a.b/c").unwrap();
        assert_eq!(place.created_at, Timestamp::from_ms(1_789_286_460_000));
        assert_eq!(place.incarnation.to_string(), "2");
        assert_eq!(place.operation_id.as_str(), "a.b/c");
        for bad in ["", "1", "1.1", "1.0.a", "x.1.a", "1.1."] {
            assert_eq!(place_in_list(bad), None, "{bad}");
        }
    }
}
