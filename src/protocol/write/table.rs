//! The decision table: the first matching row wins. Each step below is named for its rows.

use crate::domain::counter::{CommitNo, Counter, Incarnation, Sequence};
use crate::domain::lease::{AcquisitionTag, LeaseState};
use crate::domain::operation::{Method, OperationState};
use crate::domain::policy::{Contract, Issuer, Policy, Store};
use crate::domain::position::Position;
use crate::domain::seal::SealVerdict;

use super::super::command::Claim;
use super::super::incarnation::{addressed, begun};
use super::super::lease::{newest_lease, write_down};
use super::super::outcome::{Refusal, Verdict};
use super::super::rows::{Life, Mark, OperationRecord, ResourceRow};
use super::super::{Change, InForce, Inconsistent, Snapshot};
use super::Case;
use crate::deliberate::{self, Bug};
use crate::domain::time::Timestamp;

/// Judges one member. Only a seen expiry is ever added to `changes`.
pub(super) fn judge(case: &Case<'_>, changes: &mut Vec<Change>) -> Result<Verdict, Inconsistent> {
    if let Some(verdict) = recorded(case)? {
        return Ok(verdict);
    }
    let refusal = if let Some(refusal) = before_the_lease(case) {
        Some(refusal)
    } else {
        let claim = &case.member.claim;
        let bound = lease_bound(case.snapshot, case.namespace, case.row, claim, case.now, changes)?;
        expired_if_pruned(case, bound)
            .or_else(|| policy(case))
            .or_else(|| precondition(case))
            .or_else(|| nothing_to_delete(case))
            .or_else(|| exhausted(case))
            .or_else(|| super::super::forward::conflict(case))
    };
    Ok(match refusal {
        Some(refusal) => Verdict::Refuse(refusal),
        None => Verdict::Admit { replaces: case.tag.is_some() },
    })
}

/// Rows 6 to 17 for a write that was admitted once and has had no effect; who may present its position was asked then.
/// Only a seen expiry is ever added to `changes`.
pub(in super::super) fn judged_again(
    case: &Case<'_>,
    changes: &mut Vec<Change>,
) -> Result<Option<Refusal>, Inconsistent> {
    if let Some(refusal) = life(case).or_else(|| fence(case)) {
        return Ok(Some(refusal));
    }
    let claim = &case.member.claim;
    let bound = lease_bound(case.snapshot, case.namespace, case.row, claim, case.now, changes)?;
    Ok(expired_if_pruned(case, bound).or_else(|| policy(case)).or_else(|| precondition(case)))
}

/// Rows 5 to 12.
fn before_the_lease(case: &Case<'_>) -> Option<Refusal> {
    // What may have been recorded once is no "none" either where its life or its incarnation is over.
    expired_if_pruned(case, stopped(case.namespace, case.row).or_else(|| life(case)))
        .or_else(|| claim_of(case))
        .or_else(|| fence(case))
}

/// Rows 1 to 4: what is recorded is answered from the record, whatever position is presented.
fn recorded(case: &Case<'_>) -> Result<Option<Verdict>, Inconsistent> {
    let member = case.member;
    let resource = &member.address.resource;
    let incarnation = addressed(case.row, member.claim.position, member.incarnation, |position| {
        case.snapshot.era_at(resource, position)
    });
    let Some(incarnation) = incarnation else { return Ok(None) };
    if let Some(verdict) = undecided(case, incarnation) {
        return Ok(Some(verdict));
    }
    let of = |incarnation| (resource.clone(), incarnation, member.operation_id.clone());
    let own = case.snapshot.operation(&of(incarnation));
    let begun = || begun(case.row, member.incarnation).and_then(|next| case.snapshot.operation(&of(next)));
    let Some(record) = own.or_else(begun) else { return Ok(None) };
    if record.fingerprint != member.fingerprint {
        return Ok(Some(Verdict::Refuse(Refusal::OperationMismatch)));
    }
    Ok(Some(match record.state {
        OperationState::Intent => Verdict::Refuse(Refusal::OperationInProgress),
        OperationState::Uncertain => Verdict::Refuse(Refusal::OutcomeUncertain),
        // What nobody saw is not known, though the lane is free.
        OperationState::ResolvedNotApplied if was_assumed(record) => {
            Verdict::Refuse(Refusal::OutcomeUncertain)
        }
        OperationState::ResolvedNotApplied => Verdict::Refuse(Refusal::NotApplied),
        OperationState::Applied | OperationState::Refused | OperationState::ResolvedApplied => {
            Verdict::Replay(Box::new(case.replay(record)?))
        }
    }))
}

/// Whether a doubt was ended by a configured time, and by nobody who looked.
fn was_assumed(record: &OperationRecord) -> bool {
    record.resolution.as_ref().is_some_and(|resolution| resolution.assumed)
}

/// Rows 1, 3 and 4 for an announced operation. One that creates a deleted resource again is announced in the
/// incarnation that it will begin.
fn undecided(case: &Case<'_>, addressed: Incarnation) -> Option<Verdict> {
    let member = case.member;
    let begins = begun(case.row, member.incarnation);
    let intent = case.snapshot.intents_of(&member.address.resource).find(|intent| {
        let own = intent.record.incarnation;
        intent.record.operation_id == member.operation_id && (own == addressed || Some(own) == begins)
    })?;
    Some(Verdict::Refuse(if intent.record.fingerprint != member.fingerprint {
        Refusal::OperationMismatch
    } else if intent.record.state == OperationState::Uncertain {
        Refusal::OutcomeUncertain
    } else {
        Refusal::OperationInProgress
    }))
}

/// Row 5.
pub(in super::super) fn stopped(namespace: &InForce, row: &ResourceRow) -> Option<Refusal> {
    breaker(namespace).or_else(|| row.quarantined.clone().map(|found| Refusal::Quarantined { found }))
}

/// Row 5, as far as the whole namespace goes.
pub(in super::super) fn breaker(namespace: &InForce) -> Option<Refusal> {
    let row = &namespace.row;
    let breaker = row.breaker.clone()?;
    Some(Refusal::Stopped { namespace: row.namespace.clone(), breaker })
}

/// Rows 6 and 7.
fn life(case: &Case<'_>) -> Option<Refusal> {
    let (row, member) = (case.row, case.member);
    if member.incarnation.is_some_and(|named| named != row.incarnation) {
        return Some(Refusal::IncarnationGone { current: row.incarnation });
    }
    match row.life {
        Life::Active => None,
        Life::Cancelled => Some(Refusal::Cancelled),
        Life::Deleted if is_recreation(case) => None,
        Life::Deleted => Some(Refusal::Deleted { revoked_through: row.revoked_through }),
    }
}

/// A PUT or POST on a deleted resource, above everything revoked, that does not name an incarnation: a worker that
/// only wants to update names one.
pub(super) fn is_recreation(case: &Case<'_>) -> bool {
    let brings_content = match case.member.method {
        Method::Put | Method::Post | Method::Patch => true,
        Method::Delete => false,
    };
    let position = case.member.claim.position;
    let revoked = case.row.revoked_through.is_some_and(|mark| position.is_revoked_through(mark));
    case.row.life == Life::Deleted && brings_content && !revoked && case.member.incarnation.is_none()
}

fn claim_of(case: &Case<'_>) -> Option<Refusal> {
    claim(case.snapshot, case.namespace, case.row, &case.member.claim, case.member.may_raise)
}

/// Rows 8 to 11: whether the caller may present this position at all.
pub(in super::super) fn claim(
    snapshot: &Snapshot,
    namespace: &InForce,
    row: &ResourceRow,
    claim: &Claim,
    may_raise: bool,
) -> Option<Refusal> {
    let epoch = namespace.row.epoch;
    if let Some(refusal) = sealed(snapshot, namespace, row, claim) {
        return Some(refusal);
    }
    let current = deliberate::on(Bug::CurrentEpochIsAhead) && claim.position.epoch == epoch;
    if claim.position.epoch > epoch || current {
        return Some(Refusal::EpochAhead { epoch });
    }
    match namespace.definition().issuer {
        Issuer::Trusted { .. } if !may_raise && claim.position.is_above(row.effective_floor(epoch)) => {
            Some(Refusal::AdvanceForbidden)
        }
        Issuer::Gateway | Issuer::Trusted { max_jump: None } => None,
        // From the floor that was set, not from the start of a later epoch: measured from that, the first write of a
        // new epoch would be a jump over the whole counter, and every counter above `max_jump` locked out for ever.
        Issuer::Trusted { max_jump: Some(max_jump) } => match claim.position.jump_from(row.floor) {
            Some(jump) if jump > max_jump => Some(Refusal::TokenJump { max_jump }),
            Some(jump) if jump == max_jump && deliberate::on(Bug::FurthestJumpIsRefused) => {
                Some(Refusal::TokenJump { max_jump })
            }
            Some(_) | None => None,
        },
        Issuer::Registered => {
            claim.position.is_above(row.effective_floor(epoch)).then_some(Refusal::AdvanceForbidden)
        }
    }
}

/// Rows 8 and 9. They are shared by every act of an owner.
pub(in super::super) fn sealed(
    snapshot: &Snapshot,
    namespace: &InForce,
    row: &ResourceRow,
    claim: &Claim,
) -> Option<Refusal> {
    match namespace.definition().issuer {
        Issuer::Trusted { .. } | Issuer::Registered => return None,
        Issuer::Gateway => {}
    }
    match claim.seal {
        SealVerdict::Missing => return Some(Refusal::SealMissing),
        SealVerdict::Wrong => return Some(Refusal::SealWrong),
        SealVerdict::Valid(tag) if belongs_to_another(snapshot, row, claim.position, tag) => {
            return Some(Refusal::SealWrong);
        }
        SealVerdict::Valid(_) => {}
    }
    let known = row.issued.or_higher(Position::start_of(namespace.row.epoch));
    claim.position.is_above(known).then_some(Refusal::IssuerBehind { issued: row.issued })
}

/// Whether the newest lease has this position under another acquisition. Positions are issued once, so the token comes
/// from a time that this database has forgotten: its owner must not write in the place of the one who was given the
/// position again.
fn belongs_to_another(
    snapshot: &Snapshot,
    row: &ResourceRow,
    position: Position,
    tag: AcquisitionTag,
) -> bool {
    let newest = row.lease.and_then(|place| snapshot.lease(&place.acquisition));
    newest.is_some_and(|lease| {
        lease.position_on(&row.resource) == Some(position) && lease.acquisition.tag() != tag
    })
}

/// Row 12.
fn fence(case: &Case<'_>) -> Option<Refusal> {
    let claim = &case.member.claim;
    if !is_stale(case.namespace, case.row, claim.position) {
        return None;
    }
    if may_be_pruned(case) {
        return Some(Refusal::OperationExpired);
    }
    Some(stale(case.namespace, claim))
}

/// Whether a position is below the floor or revoked.
pub(in super::super) fn is_stale(namespace: &InForce, row: &ResourceRow, position: Position) -> bool {
    row.has_fenced(position, namespace.row.epoch)
}

/// The refusal of a stale position; it knows whether the caller only forgot the epoch.
pub(in super::super) fn stale(namespace: &InForce, claim: &Claim) -> Refusal {
    let later_epoch = namespace.row.epoch > crate::domain::counter::Epoch::ZERO;
    let external = namespace.definition().issuer.is_external();
    Refusal::StaleToken { bare_in_later_epoch: claim.bare && later_epoch, external }
}

/// Whether the record of this operation may have been pruned: then "none" would be a guess.
fn may_be_pruned(case: &Case<'_>) -> bool {
    let mark = Mark { position: case.member.claim.position, sequence: case.member.sequence };
    if deliberate::on(Bug::PrunedItselfIsKnown) && case.row.pruned_through == Some(mark) {
        return false;
    }
    case.row.pruned_through.is_some_and(|through| !through.is_before(mark))
}

/// Row 13. An expiry that is seen here is written down even when the write is refused.
pub(in super::super) fn lease_bound(
    snapshot: &Snapshot,
    namespace: &InForce,
    row: &ResourceRow,
    claim: &Claim,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Option<Refusal>, Inconsistent> {
    match namespace.definition().contract {
        Contract::Observed | Contract::Immediate => return Ok(None),
        Contract::LeaseBound => {}
    }
    // That the seal belongs to this lease and not to another of the same position, row 8 has seen.
    let (SealVerdict::Valid(_), Some(lease)) = (claim.seal, newest_lease(snapshot, row)?) else {
        return Ok(Some(Refusal::LeaseNotLive));
    };
    let state = lease.state_at(now, row, &namespace.row);
    if state == LeaseState::Expired {
        write_down(lease, state, now, changes);
    }
    let own = lease.position_on(&row.resource) == Some(claim.position);
    Ok((!own || state != LeaseState::Held).then_some(Refusal::LeaseNotLive))
}

/// Rows 14 to 16: what one generation may still do.
fn policy(case: &Case<'_>) -> Option<Refusal> {
    let position = case.member.claim.position;
    let same = case.row.applied.filter(|applied| applied.position == position);
    let refusal = match (case.namespace.definition().policy, same) {
        (Policy::Single, Some(_)) => Some(Refusal::GenerationSpent),
        (Policy::Single | Policy::Session, None) => None,
        (Policy::Ordered { gapless }, applied) => {
            let applied = if deliberate::on(Bug::SequenceNotReset) { case.row.applied } else { applied };
            in_order(case.member.sequence, applied.and_then(|mark| mark.sequence), gapless)
        }
        (Policy::Session, Some(_)) => {
            let tagged = case.member.preconditions.if_match.as_ref();
            (!tagged.is_some_and(crate::domain::precondition::TagList::has_strong_tag))
                .then_some(Refusal::PreconditionRequired)
        }
    };
    expired_if_pruned(case, refusal)
}

/// Row 15. Without a predecessor in this generation every sequence is new; gapless counting begins at 1.
fn in_order(presented: Option<Sequence>, applied: Option<Sequence>, gapless: bool) -> Option<Refusal> {
    let presented = presented.unwrap_or_default();
    let same = deliberate::on(Bug::SameSequencePasses) && Some(presented) == applied;
    if applied.is_some_and(|applied| presented <= applied) && !same {
        return Some(Refusal::SequenceRegressed { applied });
    }
    let expected = applied.unwrap_or_default().next().unwrap_or(Sequence::ONE);
    let next = deliberate::on(Bug::NextSequenceIsAGap) && presented == expected;
    (gapless && (presented > expected || next)).then_some(Refusal::SequenceGap { expected })
}

/// Row 17.
fn precondition(case: &Case<'_>) -> Option<Refusal> {
    let current = case.tag;
    let failed = !case.member.preconditions.hold(current);
    expired_if_pruned(case, failed.then_some(Refusal::PreconditionFailed { current }))
}

/// A refusal by rows 5 to 7 or 12 to 17 of something that may have been recorded once is not a "none".
fn expired_if_pruned(case: &Case<'_>, refusal: Option<Refusal>) -> Option<Refusal> {
    match refusal {
        Some(_) if may_be_pruned(case) => Some(Refusal::OperationExpired),
        other => other,
    }
}

/// A removal of what never existed changes nothing and is told so.
fn nothing_to_delete(case: &Case<'_>) -> Option<Refusal> {
    let exists = match (case.member.method, case.namespace.definition().store) {
        // What is there to delete in a store behind HTTP, only the store knows.
        (Method::Put | Method::Post | Method::Patch, _) | (Method::Delete, Store::Http(_)) => true,
        (Method::Delete, Store::Document) if case.member.removes_resource() => case.row.published().is_some(),
        (Method::Delete, Store::Document) => case.tag.is_some(),
    };
    (!exists).then_some(Refusal::NothingToDelete)
}

/// What the write would count must not be at its end. Each undecided effect will take a commit number too.
fn exhausted(case: &Case<'_>) -> Option<Refusal> {
    let row = case.row;
    if row.life == Life::Deleted && row.incarnation.next().is_none() {
        return Some(Refusal::CounterExhausted(Counter::Incarnation));
    }
    let undecided = case.snapshot.intents_of(&row.resource).count();
    let undecided = u64::try_from(undecided).unwrap_or(u64::MAX);
    let last = row.commit_no.get().saturating_add(undecided);
    let room = CommitNo::new(last).and_then(CommitNo::next).is_some();
    (!room).then_some(Refusal::CounterExhausted(Counter::Commit))
}

/// The acquisition that a sealed token belongs to.
pub(in super::super) const fn acquisition_of(claim: &Claim) -> Option<AcquisitionTag> {
    match claim.seal {
        SealVerdict::Valid(tag) => Some(tag),
        SealVerdict::Missing | SealVerdict::Wrong => None,
    }
}
