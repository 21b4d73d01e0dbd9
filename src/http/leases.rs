//! Leases: show, renew, release. Acquiring and handing over have files of their own.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use uuid::Uuid;

use crate::access::pace::Share;
use crate::domain::counter::{Epoch, Incarnation, Token};
use crate::domain::lease::{AcquisitionId, EndCause, Holder, LeaseState};
use crate::domain::namespaces::Namespaces;
use crate::domain::permission::Permission;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::Millis;
use crate::ledger::read::LeaseRead;
use crate::limits::{BODY_TIMEOUT, CONTROL_BODY_BYTES};
use crate::protocol::command::{Release, Renew};
use crate::protocol::outcome::{LeaseView, SealedToken};
use crate::protocol::rows::LeaseRow;
use crate::protocol::{Command, Outcome, Refusal};

use super::body::{Allowance, Held, Payload};
use super::decide::{Subject, otherwise};
use super::fenced::in_force;
use super::json::Object;
use super::names;
use super::problem::{self, About, Problem};
use super::wire::{self, Rfc3339, Shown};
use super::{Asked, extract, warning};

pub(super) const PREFIX: &str = "/v1/leases";

/// A lease on the wire. One resource stands in it by itself, several with a token each.
#[derive(Serialize)]
pub(super) struct LeaseJson<'a> {
    acquisition_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Vec<&'a str>>,
    holder: Option<&'a str>,
    request_id: Shown<Uuid>,
    #[serde(flatten)]
    one: Option<TokenJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<BTreeMap<&'a str, TokenJson<'a>>>,
    incarnation: Shown<Incarnation>,
    life: &'static str,
    state: &'static str,
    ttl_ms: u64,
    remaining_ms: u64,
    renew_after_ms: u64,
    expires_at: Rfc3339,
    contract: &'static str,
    policy: &'static str,
    cancel_requested: bool,
}

#[derive(Serialize)]
struct TokenJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<&'a str>,
    epoch: Shown<Epoch>,
    token: Shown<Token>,
    position: Shown<Position>,
}

/// `GET /v1/leases/{acquisition_id}`.
pub(super) async fn show(asked: Asked<'_>) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "")?;
    let found = found(&asked, &id).await?;
    let view = found.lease.view_at(found.now, &found.resource, &found.namespace);
    let shown = wire::json(StatusCode::OK, &lease(id.reveal(), &view, None, asked.hall.namespaces()));
    Ok(warning::about_lease(shown, &view))
}

/// The lease of this id, under the recorded definition.
pub(super) async fn found(asked: &Asked<'_>, id: &AcquisitionId) -> Result<LeaseRead, Problem> {
    let (bucket, hash) = (id.bucket(), id.hash());
    let Some(found) = asked.hall.read(move |reader| reader.lease(bucket, hash)).await? else {
        return Err(problem::refused(&Refusal::NoSuchLease, &About::default()));
    };
    if !asked.may_all(Permission::Lease, found.lease.members().map(|(name, _)| name)) {
        return Err(problem::refused(&Refusal::NoSuchLease, &About::default()));
    }
    let resource = &found.lease.resource;
    let rules = names::rules_of(&resource.namespace(), asked.hall.namespaces())?;
    in_force(Some(&found.namespace), resource, &rules)?;
    Ok(found)
}

/// `POST /v1/leases/{acquisition_id}/renew`.
pub(super) async fn renew(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "/renew")?;
    if !payload.is_absent() {
        extract::not_encoded(asked.headers())?;
    }
    let body = control_body(&asked, payload).await?.bytes;
    let ttl_ms = if body.is_empty() {
        None
    } else {
        extract::is_json(asked.headers())?;
        let mut object = Object::read(&body)?;
        object.only(&["ttl_ms"])?;
        object.number("ttl_ms")?
    };
    let command = Command::Renew(Renew { bucket: id.bucket(), acquisition: id.hash(), ttl_ms });
    ended_or_shown(&asked, &id, command).await
}

/// `DELETE /v1/leases/{acquisition_id}`.
pub(super) async fn release(asked: Asked<'_>) -> Result<Response, Problem> {
    let id = names::acquisition_within(&asked.head.uri, PREFIX, "")?;
    let command = Command::Release(Release { bucket: id.bucket(), acquisition: id.hash() });
    ended_or_shown(&asked, &id, command).await
}

async fn ended_or_shown(
    asked: &Asked<'_>,
    id: &AcquisitionId,
    command: Command,
) -> Result<Response, Problem> {
    leased(asked, id).await?;
    let outcome = asked.decide(command, Subject::default(), None).await?;
    if let Outcome::Renewed(view) | Outcome::Released(view) = &outcome {
        let shown = wire::json(StatusCode::OK, &lease(id.reveal(), view, None, asked.hall.namespaces()));
        return Ok(warning::about_lease(shown, view));
    }
    Err(otherwise(&outcome, |refusal| problem::refused(refusal, &About::default())))
}

/// Refuses a caller that may not lease what a lease is of, as if there were no such lease. A caller that may lease
/// everything need not be looked up, and one that was permitted need not be looked up again.
pub(super) async fn leased(asked: &Asked<'_>, id: &AcquisitionId) -> Result<(), Problem> {
    if asked.caller.rules().cover("", Permission::Lease) {
        return Ok(());
    }
    let (bucket, hash) = (id.bucket(), id.hash());
    if asked.hall.permitted.knows(&hash, asked.caller) {
        return Ok(());
    }
    let found = asked.hall.read_reserved(move |reader| reader.lease(bucket, hash)).await?;
    let may =
        |found: LeaseRead| asked.may_all(Permission::Lease, found.lease.members().map(|(name, _)| name));
    if found.is_some_and(may) {
        asked.hall.permitted.note(hash, asked.caller);
        return Ok(());
    }
    Err(problem::refused(&Refusal::NoSuchLease, &About::default()))
}

/// A small JSON body, whole.
pub(super) async fn control_body(asked: &Asked<'_>, payload: &mut Payload) -> Result<Held, Problem> {
    let limit = u64::try_from(CONTROL_BODY_BYTES).unwrap_or(u64::MAX);
    let allowance = Allowance { limit, whose: "this call".to_owned(), copies: 1 };
    let memory = match asked.share {
        Share::Ordinary => &asked.hall.bodies,
        Share::Reserved => &asked.hall.reserved_bodies,
    };
    payload.read(&allowance, memory, BODY_TIMEOUT).await
}

/// The lease as it is shown; with its tokens, which are in the order of its members, only to whom it was just granted.
pub(super) fn lease<'a>(
    id: &'a str,
    view: &'a LeaseView,
    fencing_tokens: Option<&'a [SealedToken]>,
    namespaces: &Namespaces,
) -> LeaseJson<'a> {
    let row = &view.lease;
    let sealed = |index: usize| Some(fencing_tokens?.get(index)?.0.as_str());
    let token = |index: usize, position: Position| TokenJson {
        fencing_token: sealed(index),
        epoch: Shown(position.epoch),
        token: Shown(position.token),
        position: Shown(position),
    };
    let several = !row.others.is_empty();
    LeaseJson {
        acquisition_id: id,
        resource: (!several).then_some(row.resource.as_str()),
        resources: several.then(|| row.members().map(|(name, _)| name.as_str()).collect()),
        holder: row.holder.as_ref().map(Holder::as_str),
        request_id: Shown(row.request_id),
        one: (!several).then(|| token(0, row.position)),
        tokens: several.then(|| {
            row.members()
                .enumerate()
                .map(|(at, (name, position))| (name.as_str(), token(at, position)))
                .collect()
        }),
        incarnation: Shown(view.incarnation),
        life: view.life.word(),
        state: view.state.word(),
        ttl_ms: row.ttl.millis().get(),
        remaining_ms: view.remaining.get(),
        renew_after_ms: if is_at_its_end(row, namespaces) {
            view.remaining.get()
        } else {
            renew_after(view.state, view.remaining, row.ttl.millis())
        },
        expires_at: Rfc3339(row.expires_at),
        contract: view.contract.word(),
        policy: view.policy.word(),
        cancel_requested: row.cause == Some(EndCause::Cancelled),
    }
}

/// Whether no renewal can lengthen it any more: it has been held as long as one of its namespaces allows. A client that
/// went on would renew in a circle.
fn is_at_its_end(lease: &LeaseRow, namespaces: &Namespaces) -> bool {
    let bound = |(resource, _): (&ResourceName, Position)| namespaces.rules(&resource.namespace())?.max_hold;
    let longest = lease.members().filter_map(bound).min();
    longest.is_some_and(|longest| lease.expires_at >= lease.granted_at.plus(longest))
}

/// A third of the ttl is used up, two thirds are left for attempts that fail.
fn renew_after(state: LeaseState, remaining: Millis, ttl: Millis) -> u64 {
    let kept = ttl.get().saturating_mul(2).div_euclid(3);
    match state {
        LeaseState::PendingBarrier | LeaseState::Held => remaining.get().saturating_sub(kept),
        LeaseState::Released | LeaseState::Expired | LeaseState::Superseded => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_renewed_when_a_third_of_it_is_gone() {
        let at = |remaining| renew_after(LeaseState::Held, Millis::new(remaining), Millis::new(30_000));
        assert_eq!((at(30_000), at(29_400), at(20_000), at(5)), (10_000, 9_400, 0, 0));
    }
}
