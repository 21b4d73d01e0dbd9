//! Verdicts as bare words, so that tables of expectations and the naive reference can name them.

use fencegate::protocol::outcome::{MemberVerdict, Verdict};
use fencegate::protocol::{Outcome, Refusal};

/// Lists words once: as an enum, and as the list of all of them.
macro_rules! listed {
    ($(#[$about:meta])* $name:ident: $($word:ident),* $(,)?) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $name {
            $($word),*
        }

        impl $name {
            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$word),*];
        }
    };
}

pub(crate) use listed;

listed! {
    /// One word for what was answered; the particulars of a refusal are looked at where they matter.
    Code:
    Admitted, Replayed, OperationMismatch, OperationInProgress, OutcomeUncertain, IncarnationGone, Deleted,
    Cancelled, SealMissing, SealWrong, IssuerBehind, EpochAhead, TokenJump, AdvanceForbidden, StaleToken,
    OperationExpired, LeaseNotLive, GenerationSpent, SequenceRegressed, SequenceGap, PreconditionRequired,
    PreconditionFailed, NothingToDelete, Granted, Repeated, Renewed, Released, Advanced, UnknownNamespace,
    DefinitionDiffers, LeaseHeld, RequestMismatch, LeaseEnded, NoSuchLease, TtlOutOfBounds, TokenExhausted,
    IssuerExternal, WaitTimeout, NothingToControl, FreshTokenRequired, Controlled, ControlReplayed, Tidied,
    Quarantined, Stopped, LaneBusy, NotApplied, AlreadyResolved, NotUncertain, NoSuchOperation,
    CounterExhausted, OperationsOpen, VersionDiffers, ChangeUnsafe, Acted, ActReplayed, Announced, Settled,
    Resolved, Barrier,
}

/// The word of a refusal.
pub(crate) fn refused(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::OperationMismatch => Code::OperationMismatch,
        Refusal::OperationInProgress => Code::OperationInProgress,
        Refusal::OutcomeUncertain => Code::OutcomeUncertain,
        Refusal::IncarnationGone { .. } => Code::IncarnationGone,
        Refusal::Deleted { .. } => Code::Deleted,
        Refusal::Cancelled => Code::Cancelled,
        Refusal::SealMissing => Code::SealMissing,
        Refusal::SealWrong => Code::SealWrong,
        Refusal::IssuerBehind { .. } => Code::IssuerBehind,
        Refusal::EpochAhead { .. } => Code::EpochAhead,
        Refusal::TokenJump { .. } => Code::TokenJump,
        Refusal::AdvanceForbidden => Code::AdvanceForbidden,
        Refusal::StaleToken { .. } => Code::StaleToken,
        Refusal::OperationExpired => Code::OperationExpired,
        Refusal::LeaseNotLive => Code::LeaseNotLive,
        Refusal::GenerationSpent => Code::GenerationSpent,
        Refusal::SequenceRegressed { .. } => Code::SequenceRegressed,
        Refusal::SequenceGap { .. } => Code::SequenceGap,
        Refusal::PreconditionRequired => Code::PreconditionRequired,
        Refusal::PreconditionFailed { .. } => Code::PreconditionFailed,
        Refusal::NothingToDelete => Code::NothingToDelete,
        Refusal::UnknownNamespace(_) => Code::UnknownNamespace,
        Refusal::DefinitionDiffers { .. } => Code::DefinitionDiffers,
        Refusal::LeaseBlocked(_) => Code::LeaseHeld,
        Refusal::RequestMismatch => Code::RequestMismatch,
        Refusal::LeaseEnded { .. } => Code::LeaseEnded,
        Refusal::NoSuchLease => Code::NoSuchLease,
        Refusal::TtlOutOfBounds(_) => Code::TtlOutOfBounds,
        Refusal::TokenExhausted => Code::TokenExhausted,
        Refusal::IssuerExternal => Code::IssuerExternal,
        Refusal::WaitTimeout(_) => Code::WaitTimeout,
        Refusal::NothingToControl => Code::NothingToControl,
        Refusal::FreshTokenRequired => Code::FreshTokenRequired,
        Refusal::Quarantined { .. } => Code::Quarantined,
        Refusal::Stopped { .. } => Code::Stopped,
        Refusal::LaneBusy { .. } => Code::LaneBusy,
        Refusal::NotApplied => Code::NotApplied,
        Refusal::AlreadyResolved { .. } => Code::AlreadyResolved,
        Refusal::NotUncertain => Code::NotUncertain,
        Refusal::NoSuchOperation => Code::NoSuchOperation,
        Refusal::CounterExhausted(_) => Code::CounterExhausted,
        Refusal::OperationsOpen { .. } => Code::OperationsOpen,
        Refusal::VersionDiffers { .. } => Code::VersionDiffers,
        Refusal::ChangeUnsafe { .. } => Code::ChangeUnsafe,
    }
}

/// The word of one member's verdict.
pub(crate) fn judged(member: &MemberVerdict) -> Code {
    match &member.verdict {
        Verdict::Admit { .. } => Code::Admitted,
        Verdict::Replay(_) => Code::Replayed,
        Verdict::Refuse(refusal) => refused(refusal),
    }
}

/// The words of an outcome, member by member; one word for a command that has no members.
pub(crate) fn words(outcome: &Outcome) -> Vec<Code> {
    match outcome {
        Outcome::Granted(grant) if grant.repeated => vec![Code::Repeated],
        Outcome::Granted(_) => vec![Code::Granted],
        Outcome::Renewed(_) => vec![Code::Renewed],
        Outcome::Released(_) => vec![Code::Released],
        Outcome::Advanced(_) => vec![Code::Advanced],
        Outcome::Written(members) => {
            let word = |replayed| if replayed { Code::Replayed } else { Code::Admitted };
            members.iter().map(|member| word(member.replayed)).collect()
        }
        Outcome::NotWritten(members) | Outcome::Explained(members) => members.iter().map(judged).collect(),
        Outcome::Controlled(done) if done.replayed => vec![Code::ControlReplayed],
        Outcome::Controlled(_) => vec![Code::Controlled],
        Outcome::Acted(done) if done.replayed => vec![Code::ActReplayed],
        Outcome::Acted(_) => vec![Code::Acted],
        Outcome::Tidied => vec![Code::Tidied],
        Outcome::Announced(_) => vec![Code::Announced],
        Outcome::Settled(_) => vec![Code::Settled],
        Outcome::Resolved(_) => vec![Code::Resolved],
        Outcome::Barrier(_) => vec![Code::Barrier],
        Outcome::Ahead(ahead) => words(&ahead.outcome),
        Outcome::Refused(refusal) => vec![refused(refusal)],
    }
}

/// The word of an outcome that has exactly one.
pub(crate) fn word(outcome: &Outcome) -> Code {
    let words = words(outcome);
    assert_eq!(words.len(), 1, "{outcome:?}");
    words[0]
}
