//! Row 18: how many undecided effects a resource may have at once.

use crate::domain::policy::Policy;
use crate::domain::upstream::Class;

use super::super::outcome::Refusal;
use super::super::rows::{IntentRow, Life};
use super::super::write::Case;
use super::UNDECIDED_MOST;

/// The operation that a write has to wait for.
///
/// A store that compares and sets takes several sends on one state, and at most one of them wins. A fence-aware one may
/// be sent a higher position while a lower one is undecided, since it refuses the lower one afterwards; but not where
/// this write is judged against what the undecided one may have changed. All others have one lane.
pub(in super::super) fn conflict(case: &Case<'_>) -> Option<Refusal> {
    let class = case.namespace.definition().store.class()?;
    let resource = &case.member.address.resource;
    let mut all = case.snapshot.intents_of(resource);
    let blocking = match class {
        Class::Conditional => None,
        Class::Idempotent | Class::Serial => all.next(),
        Class::FenceAware => all.find(|intent| !may_pass(case, intent)),
    };
    let crowded = || case.snapshot.intents_of(resource).nth(UNDECIDED_MOST.saturating_sub(1));
    let blocking = blocking.or_else(crowded)?;
    Some(Refusal::LaneBusy { operation: blocking.record.operation_id.clone() })
}

/// Whether a write may be sent while this operation is undecided.
fn may_pass(case: &Case<'_>, undecided: &IntentRow) -> bool {
    let member = case.member;
    let declared = &member.preconditions;
    let conditioned = declared.if_match.is_some()
        || declared.if_none_match.is_some()
        || case.namespace.definition().policy == Policy::Session;
    let life_may_change = undecided.removes_resource() || case.row.life == Life::Deleted;
    member.claim.position.is_above(undecided.record.position) && !conditioned && !life_may_change
}
