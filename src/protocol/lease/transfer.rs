//! Handing a lease to a named successor: the tokens grow, the old acquisition ends, and the answer is the successor's.

use super::super::command::Transfer;
use super::super::rows::AuditVerb;
use super::super::write::table::stopped;
use super::{
    Context, Decision, EndCause, Inconsistent, LeaseState, Refusal, Request, Snapshot, Timestamp, ended,
    find, grant, repeat,
};

/// Transfers a lease that is live. A repeat of the request id returns the same successor while it lives.
pub(in super::super) fn transfer(
    context: &Context<'_>,
    snapshot: &Snapshot,
    transfer: &Transfer,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let found = match find(context, snapshot, transfer.acquisition)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let request_key = transfer.request_key();
    if let Some(earlier) = snapshot.requested(&request_key) {
        return repeat(context, snapshot, earlier, (Some(&transfer.holder), transfer.ttl_ms), now);
    }
    let ttl = match found.ttl(transfer.ttl_ms) {
        Ok(ttl) => ttl,
        Err(error) => return Ok(Decision::refused(Refusal::TtlOutOfBounds(error))),
    };
    match found.state_at(now) {
        LeaseState::PendingBarrier | LeaseState::Held => {}
        state @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => {
            return Ok(ended(&found, state, now));
        }
    }
    if let Some(refusal) = found.members.iter().find_map(|one| stopped(&one.namespace, &one.row)) {
        return Ok(Decision::refused(refusal));
    }
    let request = Request {
        holder: Some(&transfer.holder),
        ttl,
        asked_ttl_ms: transfer.ttl_ms,
        id: transfer.request_id,
        key: request_key,
        nonce: transfer.nonce,
        verb: AuditVerb::Transferred,
    };
    grant(context, snapshot, found.members, &request, Some(EndCause::Transferred), now)
}
