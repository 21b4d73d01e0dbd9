//! From the words of the rules to public problems: each refusal has its code, and a detail that says what to do next.

use crate::domain::counter::Sequence;
use crate::domain::lease::{EndCause, LeaseState};
use crate::domain::operation::{Effect, OperationId};
use crate::domain::resource::ResourceName;
use crate::protocol::Refusal;
use crate::protocol::outcome::{Blocked, Blocker, MemberVerdict, Standing, Verdict};
use crate::protocol::rows::{Done, Mark};

use super::super::wire;
use super::blockers::{blocked, hindered};
use super::detail::detail;
use super::{Code, Problem, RefusedMember};

/// What a refusal is about, as far as the request tells.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct About<'a> {
    /// The resource.
    pub(in super::super) resource: Option<&'a ResourceName>,
    /// What was presented.
    pub(in super::super) presented: Option<Mark>,
    /// Where the resource stands.
    pub(in super::super) standing: Option<Standing>,
    /// The operation.
    pub(in super::super) operation: Option<&'a OperationId>,
}

/// The public code of a refusal.
pub(in super::super) const fn code_of(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::OperationMismatch => Code::OperationMismatch,
        Refusal::OperationInProgress | Refusal::NotUncertain => Code::OperationInProgress,
        Refusal::OutcomeUncertain => Code::OutcomeUncertain,
        Refusal::Quarantined { .. } | Refusal::Stopped { .. } => Code::Quarantined,
        Refusal::LaneBusy { .. } => Code::LaneBusy,
        Refusal::NotApplied => Code::OperationNotApplied,
        Refusal::AlreadyResolved { .. } => Code::AlreadyResolved,
        Refusal::IncarnationGone { .. } => Code::IncarnationGone,
        Refusal::Deleted { .. } => Code::Deleted,
        Refusal::Cancelled => Code::Cancelled,
        Refusal::SealMissing | Refusal::SealWrong => Code::TokenNotYours,
        Refusal::IssuerBehind { .. } => Code::IssuerBehind,
        Refusal::EpochAhead { .. } => Code::EpochAhead,
        Refusal::TokenJump { .. } => Code::TokenJump,
        Refusal::AdvanceForbidden => Code::AdvanceForbidden,
        Refusal::StaleToken { .. } => Code::StaleToken,
        Refusal::OperationExpired => Code::OperationExpired,
        Refusal::LeaseNotLive => Code::LeaseExpiredOnWrite,
        Refusal::GenerationSpent => Code::GenerationSpent,
        Refusal::SequenceRegressed { .. } => Code::SequenceRegressed,
        Refusal::SequenceGap { .. } => Code::SequenceGap,
        Refusal::PreconditionRequired => Code::PreconditionRequired,
        Refusal::PreconditionFailed { .. } => Code::PreconditionFailed,
        Refusal::NothingToDelete
        | Refusal::NothingToControl
        | Refusal::NoSuchLease
        | Refusal::NoSuchOperation => Code::NotFound,
        Refusal::FreshTokenRequired => Code::TokenRequired,
        Refusal::UnknownNamespace(_) => Code::UnknownNamespace,
        Refusal::DefinitionDiffers { .. } => Code::DefinitionDiffers,
        Refusal::LeaseBlocked(blockers) => blocked(blockers.as_slice()),
        Refusal::WaitTimeout(_) => Code::WaitTimeout,
        Refusal::RequestMismatch => Code::RequestMismatch,
        Refusal::LeaseEnded { state: LeaseState::Released, .. } => Code::LeaseReleased,
        Refusal::LeaseEnded { state: LeaseState::Expired, .. } => Code::LeaseExpired,
        Refusal::LeaseEnded { state: LeaseState::Superseded, .. } => Code::LeaseSuperseded,
        // A lease that is held has not ended; the rules never say so.
        Refusal::LeaseEnded { state: LeaseState::Held | LeaseState::PendingBarrier, .. } => {
            Code::InternalUnchanged
        }
        Refusal::TtlOutOfBounds(_) => Code::InvalidField,
        Refusal::TokenExhausted => Code::TokenExhausted,
        Refusal::CounterExhausted(_) => Code::CounterExhausted,
        Refusal::OperationsOpen { .. } => Code::OperationsOpen,
        Refusal::VersionDiffers { .. } => Code::VersionDiffers,
        Refusal::ChangeUnsafe { .. } => Code::ChangeUnsafe,
        Refusal::IssuerExternal => Code::IssuerExternal,
    }
}

/// What a verdict says of the store.
pub(in super::super) const fn effect_of(verdict: &Verdict) -> Effect {
    match verdict {
        Verdict::Replay(written) => effect_of_done(written.response.done),
        Verdict::Admit { .. } => Effect::None,
        Verdict::Refuse(refusal) => code_of(refusal).effect(),
    }
}

/// What the store holds of a decided operation.
pub(in super::super) const fn effect_of_done(done: Done) -> Effect {
    match done {
        Done::Created | Done::Replaced | Done::Removed => Effect::Applied,
        Done::Nothing => Effect::None,
    }
}

/// The problem of a refusal.
pub(in super::super) fn refused(refusal: &Refusal, about: &About<'_>) -> Problem {
    let mut problem = Problem::new(code_of(refusal), detail(refusal, about));
    if let Some(resource) = about.resource {
        problem = problem.about(resource);
    }
    if let Some(mark) = about.presented {
        problem = problem.presented(mark);
    }
    if let Some(mark) = current(refusal, about) {
        problem = problem.current(mark);
    }
    if let (Some(known), true) = (about.standing, was_looked_at(refusal)) {
        problem = problem.floor(known.floor);
    }
    if let Refusal::LeaseEnded { cause, .. } = refusal {
        problem = problem.cancel_requested(*cause == Some(EndCause::Cancelled));
    }
    if let Refusal::LeaseBlocked(blockers) | Refusal::WaitTimeout(blockers) = refusal {
        problem = hindered(problem, blockers);
    }
    link(problem, refusal, about)
}

/// The problem of a control call. Its key names no operation that could be asked for.
pub(in super::super) fn refused_call(refusal: &Refusal, about: &About<'_>) -> Problem {
    if matches!(refusal, Refusal::OperationMismatch) {
        let detail = "this Idempotency-Key stands for another call of this kind on the resource; repeat that call exactly, or \
                      choose a new key";
        let problem = Problem::new(Code::OperationMismatch, detail);
        return about.resource.map_or(problem.clone(), |resource| problem.about(resource));
    }
    refused(refusal, about)
}

/// The problem of a write that was not made: the first refused member, in the order of the request, gives status and
/// code. `None` when no member was refused.
pub(in super::super) fn refused_write(members: &[MemberVerdict], listed: bool) -> Option<Problem> {
    let (index, member, refusal) =
        members.iter().enumerate().find_map(|(index, member)| match &member.verdict {
            Verdict::Refuse(refusal) => Some((index, member, refusal)),
            Verdict::Admit { .. } | Verdict::Replay(_) => None,
        })?;
    let problem = refused_member(member, refusal);
    if !listed {
        return Some(problem);
    }
    let list = members.iter().map(|member| RefusedMember {
        operation_id: member.operation_id.to_string(),
        resource: member.address.full(),
        code: match &member.verdict {
            Verdict::Refuse(refusal) => Some(code_of(refusal).word()),
            Verdict::Admit { .. } | Verdict::Replay(_) => None,
        },
        effect: effect_of(&member.verdict).word(),
    });
    Some(problem.within(&format!("writes[{index}]: ")).members(list.collect()))
}

/// The problem of one refused member.
pub(in super::super) fn refused_member(member: &MemberVerdict, refusal: &Refusal) -> Problem {
    let about = About {
        resource: Some(&member.address.resource),
        presented: Some(Mark { position: member.presented, sequence: member.sequence }),
        standing: Some(member.standing),
        operation: Some(&member.operation_id),
    };
    refused(refusal, &about)
}

fn link(problem: Problem, refusal: &Refusal, about: &About<'_>) -> Problem {
    let (Some(resource), Some(operation)) = (about.resource, about.operation) else { return problem };
    // The record may be of an earlier incarnation than the current one; without one the newest that has it is shown.
    let address = wire::operation_link(operation, resource, None);
    if let Refusal::LaneBusy { operation } = refusal {
        problem.operation(wire::operation_link(operation, resource, None))
    } else if matches!(
        refusal,
        Refusal::OperationInProgress | Refusal::OutcomeUncertain | Refusal::NotApplied
    ) {
        problem.located(address)
    } else if matches!(refusal, Refusal::OperationMismatch) {
        problem.operation(address)
    } else {
        problem
    }
}

/// Whether the resource's standing was looked at before the refusal.
const fn was_looked_at(refusal: &Refusal) -> bool {
    !matches!(refusal, Refusal::UnknownNamespace(_) | Refusal::DefinitionDiffers { .. })
}

/// Where the resource stands, in the words of the presented mark: the floor, and the last sequence of its generation
/// where sequences were compared.
fn current(refusal: &Refusal, about: &About<'_>) -> Option<Mark> {
    let none = |position| Some(Mark { position, sequence: None });
    if let Refusal::IssuerBehind { issued } = refusal {
        return none(*issued);
    }
    if let Refusal::LeaseBlocked(blockers) | Refusal::WaitTimeout(blockers) = refusal {
        return match blockers.as_slice() {
            [Blocker { why: Blocked::Held { position }, .. }] => none(*position),
            _ => None,
        };
    }
    let standing = about.standing.filter(|_| was_looked_at(refusal))?;
    let sequence = if let Refusal::SequenceRegressed { applied } = refusal {
        *applied
    } else if let Refusal::SequenceGap { expected } = refusal {
        before(*expected)
    } else {
        None
    };
    Some(Mark { position: standing.floor, sequence })
}

fn before(expected: Sequence) -> Option<Sequence> {
    Sequence::new(expected.get().saturating_sub(1)).filter(|last| *last != Sequence::ZERO)
}
