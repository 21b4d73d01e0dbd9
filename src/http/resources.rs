//! Resources: what is decided about them, one or a page at a time.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use crate::domain::counter::{CommitNo, Epoch, Incarnation};
use crate::domain::document::ContentType;
use crate::domain::lease::LeaseState;
use crate::domain::operation::{OperationId, OperationState};
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Namespace, ResourceName, Target};
use crate::ledger::read::ResourceRead;
use crate::protocol::outcome::{ControlView, Undecided};
use crate::protocol::rows::{Life, TargetRow};

use super::Hall;
use super::fenced::in_force;
use super::names::Place;
use super::problem::{Code, Problem};
use super::wire::{self, MarkView, Shown};

mod listing;

pub(super) use listing::list;

/// Where a resource stands for people, derived from its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Generating,
    Published,
    Cancelled,
    Deleted,
    NeedsAttention,
}

/// A resource as it is read, with its undecided operations.
pub(super) struct Found {
    pub(super) read: ResourceRead,
    undecided: Vec<Undecided>,
}

#[derive(Serialize)]
struct CoreJson {
    resource: Shown<ResourceName>,
    namespace: Shown<Namespace>,
    incarnation: Shown<Incarnation>,
    life: &'static str,
    state: &'static str,
    contract: &'static str,
    policy: &'static str,
    issuer: &'static str,
    store: &'static str,
    epoch: Shown<Epoch>,
    issued: Shown<Position>,
    floor: Shown<Position>,
    revoked_through: Option<Shown<Position>>,
    applied: Option<MarkView>,
    commit: Shown<CommitNo>,
}

/// One resource in a list.
#[derive(Serialize)]
struct ItemJson {
    #[serde(flatten)]
    core: CoreJson,
    lease: Option<LeaseJson>,
    waiting: usize,
}

#[derive(Serialize)]
struct WholeJson<'a> {
    #[serde(flatten)]
    core: CoreJson,
    /// Why it does not live, where somebody said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<TargetJson<'a>>>,
    lease: Option<LeaseJson>,
    /// Callers with a place in the queue.
    waiting: usize,
    /// The oldest undecided operation.
    lane: Option<&'a str>,
    /// All undecided operations, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_flight: Vec<&'a str>,
    /// What was found that contradicts the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined: Option<&'a str>,
    last_operation: Option<&'a str>,
}

#[derive(Serialize)]
struct TargetJson<'a> {
    target: Option<&'a str>,
    etag: Shown<EntityTag>,
    content_type: Option<&'a str>,
    /// Only the store knows, where it is not the gateway's own.
    size: Option<u64>,
}

#[derive(Serialize)]
struct LeaseJson {
    holder: Option<String>,
    position: Shown<Position>,
    state: &'static str,
    remaining_ms: u64,
}

/// One resource as it stands. A target's name leads to its resource.
pub(super) async fn shown(hall: &Hall, place: &Place) -> Result<Response, Problem> {
    Ok(wire::json(StatusCode::OK, &whole(&found(hall, place).await?)))
}

/// One resource as it stands, or the problem that nothing is known about it.
pub(super) async fn found(hall: &Hall, place: &Place) -> Result<Found, Problem> {
    let resource = &place.address.resource;
    recorded_definition_holds(hall, place).await?;
    let name = resource.clone();
    let found =
        hall.read(move |reader| reader.resource(name)).await.map_err(|problem| problem.about(resource))?;
    let read = found.ok_or_else(|| {
        let detail = format!("nothing is known about {resource}: nobody acquired, advanced or wrote it");
        Problem::new(Code::NotFound, detail).about(resource)
    })?;
    if place.rules.definition.store.class().is_none() {
        return Ok(Found { read, undecided: Vec::new() });
    }
    let name = resource.clone();
    let intents =
        hall.read(move |reader| reader.intents(name)).await.map_err(|problem| problem.about(resource))?;
    Ok(Found { read, undecided: Undecided::of(intents.iter()) })
}

/// The whole answer about one resource.
pub(super) fn rendered(found: &Found) -> Vec<u8> {
    wire::bytes(&whole(found))
}

/// What identifies the answer about one resource: all that is in it but the time that a lease has left.
pub(super) fn rendered_apart_from_time(found: &Found) -> Vec<u8> {
    let read = &found.read;
    let mut shown = whole(found);
    // A place in the queue ends by itself.
    shown.waiting = 0;
    if let Some(lease) = &mut shown.lease {
        lease.remaining_ms = 0;
    }
    let expires_ms = read.lease.as_ref().map_or(0, |lease| lease.expires_at.ms());
    [wire::bytes(&shown), expires_ms.to_be_bytes().to_vec()].concat()
}

/// Refuses to read by a definition that is not the recorded one.
pub(super) async fn recorded_definition_holds(hall: &Hall, place: &Place) -> Result<(), Problem> {
    let address = place.address.clone();
    let found = hall.read(move |reader| reader.document(address, false)).await;
    let found = found.map_err(|problem| problem.about(&place.address.resource))?;
    in_force(found.namespace.as_ref(), &place.address.resource, &place.rules)
}

impl State {
    const ALL: [Self; 6] = [
        Self::Pending,
        Self::Generating,
        Self::Published,
        Self::Cancelled,
        Self::Deleted,
        Self::NeedsAttention,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Generating => "generating",
            Self::Published => "published",
            Self::Cancelled => "cancelled",
            Self::Deleted => "deleted",
            Self::NeedsAttention => "needs_attention",
        }
    }

    /// The life that a resource in this state has; any, where a person has to look.
    const fn life(self) -> Option<Life> {
        match self {
            Self::Pending | Self::Generating | Self::Published => Some(Life::Active),
            Self::Cancelled => Some(Life::Cancelled),
            Self::Deleted => Some(Life::Deleted),
            Self::NeedsAttention => None,
        }
    }

    fn of(seen: &Seen<'_>) -> Self {
        let lease = seen.lease.map(|lease| lease.state_at(seen.now, seen.resource, seen.namespace));
        let uncertain = |one: &Undecided| one.state == OperationState::Uncertain;
        match seen.resource.life {
            _ if seen.resource.quarantined.is_some() || seen.undecided.iter().any(uncertain) => {
                Self::NeedsAttention
            }
            Life::Deleted => Self::Deleted,
            Life::Cancelled => Self::Cancelled,
            Life::Active if seen.resource.published().is_some() => Self::Published,
            Life::Active if lease.is_some_and(LeaseState::is_live) => Self::Generating,
            Life::Active => Self::Pending,
        }
    }
}

/// A resource with what belongs to it, as a read or a decision has it.
type Seen<'a> = ControlView<'a>;

impl<'a> Seen<'a> {
    const fn of(read: &'a ResourceRead, undecided: &'a [Undecided]) -> Self {
        let (resource, namespace) = (&read.resource, &read.namespace);
        Self { resource, namespace, lease: read.lease.as_ref(), undecided, now: read.now }
    }
}

fn core(read: &Seen<'_>) -> CoreJson {
    let (row, definition) = (read.resource, &read.namespace.definition);
    CoreJson {
        resource: Shown(row.resource.clone()),
        namespace: Shown(read.namespace.namespace.clone()),
        incarnation: Shown(row.incarnation),
        life: if row.quarantined.is_some() { "quarantined" } else { row.life.word() },
        state: State::of(read).word(),
        contract: definition.contract.word(),
        policy: definition.policy.word(),
        issuer: definition.issuer.word(),
        store: definition.store.word(),
        epoch: Shown(read.namespace.epoch),
        issued: Shown(row.issued),
        floor: Shown(row.effective_floor(read.namespace.epoch)),
        revoked_through: row.revoked_through.map(Shown),
        applied: row.applied.map(MarkView::of),
        commit: Shown(row.commit_no),
    }
}

fn whole(found: &Found) -> WholeJson<'_> {
    let read = &found.read;
    let in_store = read.namespace.definition.store.class().is_some();
    let targets = read.targets.iter().map(|row| target(row, in_store));
    WholeJson { targets: Some(targets.collect()), ..apart_from_targets(&Seen::of(read, &found.undecided)) }
}

fn apart_from_targets<'a>(view: &Seen<'a>) -> WholeJson<'a> {
    let in_flight: Vec<&str> = view.undecided.iter().map(|one| one.operation_id.as_str()).collect();
    WholeJson {
        core: core(view),
        reason: view.resource.reason.as_deref(),
        targets: None,
        lease: lease_of(view),
        waiting: waiting(view),
        lane: in_flight.first().copied(),
        in_flight,
        quarantined: view.resource.quarantined.as_deref(),
        last_operation: view.resource.last_operation.as_ref().map(OperationId::as_str),
    }
}

/// The answer of a control call: the resource as the call left it, without its targets. It is saved with the call.
#[must_use]
pub fn render_control(view: &ControlView<'_>) -> Vec<u8> {
    wire::bytes(&apart_from_targets(view))
}

fn item(seen: &Seen<'_>) -> ItemJson {
    ItemJson { core: core(seen), lease: lease_of(seen), waiting: waiting(seen) }
}

fn waiting(seen: &Seen<'_>) -> usize {
    seen.resource.queue.waiting(seen.now)
}

fn lease_of(seen: &Seen<'_>) -> Option<LeaseJson> {
    seen.lease.map(|lease| {
        let state = lease.state_at(seen.now, seen.resource, seen.namespace);
        LeaseJson {
            holder: lease.holder.as_ref().map(|holder| holder.as_str().to_owned()),
            position: Shown(lease.position_on(&seen.resource.resource).unwrap_or(lease.position)),
            state: state.word(),
            remaining_ms: lease.remaining_at(seen.now, state).get(),
        }
    })
}

fn target(row: &TargetRow, in_store: bool) -> TargetJson<'_> {
    TargetJson {
        target: row.target.as_ref().map(Target::as_str),
        etag: Shown(row.tag),
        content_type: row.content_type.as_ref().map(ContentType::as_str),
        size: (!in_store).then_some(row.size),
    }
}
