//! What a decision is counted as, beside its log line.

use std::time::Duration;

use crate::domain::lease::AcquisitionTag;
use crate::domain::seal::SealVerdict;
use crate::ledger::Unserved;
use crate::protocol::command::Member;
use crate::protocol::outcome::Verdict;
use crate::protocol::{Command, Outcome, Refusal};
use crate::telemetry::metrics::{Metrics, NamespaceMeters};

use super::decide::Subject;
use super::problem::{self, Code};

/// What was asked for, as far as it matters to those who count and to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An acquire that waits for nobody.
    Acquire,
    /// One that waits.
    Wait,
    Renew,
    Write,
    Other,
}

/// The same, with the acquisition that asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) kind: Kind,
    pub(super) acquisition: Option<AcquisitionTag>,
}

impl Asking {
    pub(super) fn of(command: &Command) -> Self {
        let (kind, acquisition) = match command {
            Command::Acquire(_) => (Kind::Acquire, None),
            Command::Renew(renew) => (Kind::Renew, Some(renew.acquisition.tag())),
            Command::Release(release) => (Kind::Other, Some(release.acquisition.tag())),
            Command::Transfer(transfer) => (Kind::Other, Some(transfer.acquisition.tag())),
            Command::Write(write) => match write.members.as_slice() {
                [one] => (Kind::Write, acquisition_of(one)),
                _ => (Kind::Write, None),
            },
            Command::Advance(_)
            | Command::Control(_)
            | Command::Whole(_)
            | Command::Sweep(_)
            | Command::Prune(_)
            | Command::Leave(_)
            | Command::Settle(_)
            | Command::Resume(_)
            | Command::Resolve(_)
            | Command::Barrier(_) => (Kind::Other, None),
        };
        Self { kind, acquisition }
    }

    /// An acquire that waits.
    pub(super) const fn waiting() -> Self {
        Self { kind: Kind::Wait, acquisition: None }
    }
}

/// The acquisition whose seal a write came with.
pub(super) const fn acquisition_of(member: &Member) -> Option<AcquisitionTag> {
    match member.claim.seal {
        SealVerdict::Valid(tag) => Some(tag),
        SealVerdict::Missing | SealVerdict::Wrong => None,
    }
}

/// Counts an answer of the ledger.
pub(super) fn answer(
    metrics: &Metrics,
    kind: Kind,
    subject: &Subject,
    answer: &Result<Outcome, Unserved>,
    took: Duration,
) {
    let meters = match &subject.resource {
        Some(resource) => meters_of(metrics, resource.as_str()),
        None => metrics.namespaces.rest(),
    };
    match answer {
        Err(unserved) => metrics.unserved.of(problem::unserved(unserved, None).code().word()).one(),
        Ok(outcome) => {
            outcome_of(metrics, meters, kind, outcome);
            duration_of(metrics, meters, kind, outcome, took);
        }
    }
}

/// The namespace is the first segment of a name.
fn meters_of<'m>(metrics: &'m Metrics, resource: &str) -> &'m NamespaceMeters {
    metrics.namespaces.of(resource.split('/').next().unwrap_or_default())
}

fn outcome_of(metrics: &Metrics, meters: &NamespaceMeters, kind: Kind, outcome: &Outcome) {
    match outcome {
        Outcome::Granted(grant) => {
            let meters = meters_of(metrics, grant.view.lease.resource.as_str());
            meters.outcomes.of(if grant.repeated { "repeated" } else { "granted" }).one();
        }
        Outcome::Renewed(view) => {
            meters_of(metrics, view.lease.resource.as_str()).outcomes.of("renewed").one();
        }
        Outcome::Released(view) => {
            meters_of(metrics, view.lease.resource.as_str()).outcomes.of(view.state.word()).one();
        }
        Outcome::Written(members) => {
            for member in members {
                written(meters_of(metrics, member.address.resource.as_str()), member.replayed, "applied");
            }
        }
        Outcome::NotWritten(members) => {
            for member in members {
                if let Verdict::Refuse(refusal) = &member.verdict {
                    let resource = member.address.resource.as_str();
                    refused(meters_of(metrics, resource), kind, problem::code_of(refusal));
                }
            }
        }
        Outcome::Refused(refusal) => refused(meters, kind, problem::code_of(refusal)),
        Outcome::Controlled(done) if done.replayed => meters.replays.one(),
        Outcome::Controlled(done) => meters.outcomes.of(done.verb.done()).one(),
        Outcome::Acted(done) if done.replayed => meters.replays.one(),
        Outcome::Acted(_) => meters.outcomes.of("acted").one(),
        Outcome::Explained(_) => meters.outcomes.of("explained").one(),
        Outcome::Advanced(_) => meters.outcomes.of("advanced").one(),
        Outcome::Resolved(_) => meters.outcomes.of("resolved").one(),
        // Steps on the way, of which nobody is told at the door.
        Outcome::Tidied | Outcome::Announced(_) | Outcome::Settled(_) | Outcome::Barrier(_) => {}
        Outcome::Ahead(ahead) => outcome_of(metrics, meters, kind, &ahead.outcome),
    }
}

/// One member that is in the store, whichever way it came there.
pub(super) fn written(meters: &NamespaceMeters, replayed: bool, outcome: &'static str) {
    if replayed {
        meters.replays.one();
    }
    meters.outcomes.of(if replayed { "replayed" } else { outcome }).one();
}

/// A refusal, and what it is beside that.
pub(super) fn refused(meters: &NamespaceMeters, kind: Kind, code: Code) {
    let word = code.word();
    meters.refusals.of(word).one();
    if matches!(code, Code::OperationMismatch | Code::RequestMismatch) {
        meters.mismatches.one();
    }
    if kind == Kind::Renew {
        meters.renewals_failed.of(word).one();
    }
}

fn duration_of(metrics: &Metrics, meters: &NamespaceMeters, kind: Kind, outcome: &Outcome, took: Duration) {
    let granted = matches!(outcome, Outcome::Granted(grant) if !grant.repeated);
    let in_vain = matches!(outcome, Outcome::Refused(Refusal::WaitTimeout(_)));
    match (kind, outcome) {
        (Kind::Acquire, _) if granted => meters.acquired.took(took),
        (Kind::Wait, _) if granted => meters.waited.took(took),
        (Kind::Wait, _) if in_vain => meters.waited_in_vain.took(took),
        (Kind::Write, Outcome::Written(members)) => {
            if let Some(first) = members.first() {
                meters_of(metrics, first.address.resource.as_str()).written.took(took);
            }
        }
        (Kind::Acquire | Kind::Wait | Kind::Renew | Kind::Write | Kind::Other, _) => {}
    }
}

/// A write to a store behind HTTP, as its caller was answered.
pub(super) fn carried(
    metrics: &Metrics,
    member: &Member,
    told: Result<(bool, &'static str), Code>,
    took: Duration,
) {
    let meters = meters_of(metrics, member.address.resource.as_str());
    match told {
        Ok((replayed, outcome)) => {
            written(meters, replayed, outcome);
            meters.written.took(took);
        }
        Err(code) => refused(meters, Kind::Write, code),
    }
}
