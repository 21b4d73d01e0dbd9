//! From a command to its outcome, and the one log line of each decision.
//!
//! The waiting is done by a task of its own: a client that hangs up neither loses the log line nor gives back the
//! memory that its body still takes.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracing::{Instrument, Span, info};

use crate::domain::lease::AcquisitionTag;
use crate::domain::operation::{Effect, OperationId};
use crate::domain::position::Position;
use crate::domain::principal::PrincipalName;
use crate::domain::resource::ResourceName;
use crate::ledger::read::{Reader, Reading};
use crate::ledger::refusals::Refused;
use crate::ledger::{Ledger, Unserved};
use crate::protocol::command::Acquire;
use crate::protocol::outcome::{MemberVerdict, Verdict};
use crate::protocol::{Command, Outcome, Refusal};

use super::count::{self, Asking};
use super::problem::{self, Problem};
use super::{Asked, Hall};

/// What a log line says of a command before its outcome is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Subject {
    pub(super) resource: Option<ResourceName>,
    pub(super) position: Option<Position>,
    /// The operation whose outcome could be asked for.
    pub(super) operation: Option<OperationId>,
}

impl Asked<'_> {
    /// Hands a command of this caller to the ledger, as [`Hall::decide`] does.
    pub(super) async fn decide(
        &self,
        command: Command,
        subject: Subject,
        memory: Option<OwnedSemaphorePermit>,
    ) -> Result<Outcome, Problem> {
        self.hall.decide(Some(self.actor()), command, subject, memory).await
    }

    /// Waits for a lease of this caller, as [`Hall::wait`] does.
    pub(super) async fn wait(
        &self,
        acquire: Acquire,
        subject: Subject,
        budget: Duration,
        keeps_place: bool,
    ) -> Result<Outcome, Problem> {
        self.hall.wait(Some(self.actor()), acquire, subject, budget, keeps_place).await
    }
}

impl Hall {
    /// Hands a command to the ledger and waits for its outcome. `memory` is kept until it is decided.
    pub(super) async fn decide(
        &self,
        actor: Option<PrincipalName>,
        command: Command,
        subject: Subject,
        memory: Option<OwnedSemaphorePermit>,
    ) -> Result<Outcome, Problem> {
        let link = match (&subject.operation, &subject.resource) {
            (Some(operation), Some(resource)) => Some(super::wire::operation_link(operation, resource, None)),
            (Some(_) | None, _) => None,
        };
        let resource = subject.resource.clone();
        let (ledger, clock) = (self.door.ledger.clone(), self.door.clock.clone());
        let asking = Asking::of(&command);
        let task = async move {
            let began = clock.monotonic();
            let answer = ledger.submit_by(actor, command).await;
            drop(memory);
            let took = clock.monotonic().saturating_sub(began);
            count::answer(ledger.metrics(), asking.kind, &subject, &answer, took);
            note(&subject, asking.acquisition, &answer, took);
            remember(&ledger, &subject, &answer, clock.monotonic());
            answer
        };
        let answer = tokio::spawn(task.instrument(Span::current())).await;
        let problem = match answer {
            Ok(Ok(outcome)) => return Ok(outcome),
            Ok(Err(unserved)) => problem::unserved(&unserved, link),
            Err(_) => Problem::fault(),
        };
        Err(match resource {
            Some(resource) => problem.about(&resource),
            None => problem,
        })
    }

    /// Waits for a lease. Unlike a command this belongs to its caller: when the caller goes, the wait ends, and nothing
    /// is granted that was not granted by then.
    pub(super) async fn wait(
        &self,
        actor: Option<PrincipalName>,
        acquire: Acquire,
        subject: Subject,
        budget: Duration,
        keeps_place: bool,
    ) -> Result<Outcome, Problem> {
        let began = self.door.clock.monotonic();
        let answer =
            self.door.ledger.acquire(actor, acquire, budget, keeps_place, &self.door.stopping.draining).await;
        let (took, asking) = (self.door.clock.monotonic().saturating_sub(began), Asking::waiting());
        count::answer(self.door.ledger.metrics(), asking.kind, &subject, &answer, took);
        note(&subject, asking.acquisition, &answer, took);
        remember(&self.door.ledger, &subject, &answer, self.door.clock.monotonic());
        answer.map_err(|unserved| {
            let problem = problem::unserved(&unserved, None);
            match &subject.resource {
                Some(resource) => problem.about(resource),
                None => problem,
            }
        })
    }

    /// Reads what keeps a lease or gives it back: some reads are left to it when all others are taken.
    pub(super) async fn read_reserved<T, F>(&self, ask: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a dyn Reader) -> Reading<'a, T> + Send + 'static,
    {
        self.door.ledger.read_reserved(ask).await.map_err(|unserved| problem::unserved(&unserved, None))
    }

    /// Reads committed state.
    pub(super) async fn read<T, F>(&self, ask: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a dyn Reader) -> Reading<'a, T> + Send + 'static,
    {
        self.door.ledger.read(ask).await.map_err(|unserved| problem::unserved(&unserved, None))
    }
}

/// The problem of an outcome that is none of those that a handler serves: a refusal in its words, and everything else is
/// the outcome of another command than it gave.
pub(super) fn otherwise(outcome: &Outcome, in_words: impl FnOnce(&Refusal) -> Problem) -> Problem {
    if let Outcome::Refused(refusal) = outcome { in_words(refusal) } else { Problem::fault() }
}

/// Remembers what was refused, for the timelines of its resources; never a payload, a seal or an acquisition id.
fn remember(ledger: &Ledger, subject: &Subject, answer: &Result<Outcome, Unserved>, at: Duration) {
    let sample = |resource: &ResourceName, refusal: &Refusal, presented, operation: Option<&OperationId>| {
        if let Refusal::DefinitionDiffers { recorded, configured } = refusal {
            ledger.differs(&resource.namespace(), recorded, configured);
        }
        let (resource, code) = (resource.clone(), problem::code_of(refusal).word());
        ledger.refused(Refused { resource, code, presented, operation_id: operation.cloned(), at });
    };
    match answer {
        Ok(Outcome::NotWritten(members)) => {
            for member in members {
                if let Verdict::Refuse(refusal) = &member.verdict {
                    let operation = Some(&member.operation_id);
                    sample(&member.address.resource, refusal, Some(member.presented), operation);
                }
            }
        }
        Ok(outcome) => {
            if let (Some(refusal), Some(resource)) = (outcome.refusal(), &subject.resource) {
                sample(resource, refusal, subject.position, subject.operation.as_ref());
            }
        }
        Err(_) => {}
    }
}

/// Of whose acquisition an answer tells, in a few digits of its hash.
fn acquisition_of(asking: Option<AcquisitionTag>, answer: &Result<Outcome, Unserved>) -> Option<String> {
    let told = match answer {
        Ok(Outcome::Granted(grant)) => Some(grant.view.lease.acquisition.tag()),
        Ok(_) | Err(_) => asking,
    };
    told.map(|tag| tag.short())
}

/// One line per decision: identifiers, outcome, effect and latency; never a payload, a seal or an acquisition id, of which
/// only a few digits of its hash are told.
fn note(
    subject: &Subject,
    asking: Option<AcquisitionTag>,
    answer: &Result<Outcome, Unserved>,
    latency: Duration,
) {
    let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    let acquisition = acquisition_of(asking, answer);
    let line = |resource: Option<&str>,
                token: Option<Position>,
                operation: Option<&str>,
                outcome,
                effect: Effect| {
        let token = token.map(|position| position.to_string());
        let effect = effect.word();
        info!(resource, token, operation, acquisition, outcome, effect, latency_us, "decided");
    };
    let resource = subject.resource.as_ref().map(ResourceName::as_str);
    let one = |outcome, effect| line(resource, subject.position, None, outcome, effect);
    match answer {
        Ok(Outcome::Granted(grant)) => {
            let outcome = if grant.repeated { "repeated" } else { "granted" };
            line(resource, Some(grant.view.lease.position), None, outcome, Effect::None);
        }
        Ok(Outcome::Renewed(view)) => {
            let lease = &view.lease;
            line(Some(lease.resource.as_str()), Some(lease.position), None, "renewed", Effect::None);
        }
        Ok(Outcome::Released(view)) => {
            let lease = &view.lease;
            line(Some(lease.resource.as_str()), Some(lease.position), None, view.state.word(), Effect::None);
        }
        Ok(Outcome::Written(written)) => {
            for member in written {
                let outcome = if member.replayed { "replayed" } else { "applied" };
                let (resource, operation) = (member.address.resource.as_str(), member.operation_id.as_str());
                line(Some(resource), Some(member.position), Some(operation), outcome, Effect::Applied);
            }
        }
        Ok(Outcome::NotWritten(members)) => {
            for member in members {
                let (resource, operation) = (member.address.resource.as_str(), member.operation_id.as_str());
                let effect = problem::effect_of(&member.verdict);
                line(Some(resource), Some(member.presented), Some(operation), word_of(member), effect);
            }
        }
        Ok(Outcome::Explained(_)) => one("explained", Effect::None),
        Ok(Outcome::Advanced(_)) => one("advanced", Effect::None),
        Ok(Outcome::Controlled(done)) => {
            let outcome = if done.replayed { "replayed" } else { done.verb.done() };
            one(outcome, Effect::None);
        }
        Ok(Outcome::Acted(done)) => one(if done.replayed { "replayed" } else { "acted" }, Effect::None),
        Ok(Outcome::Tidied) => one("tidied", Effect::None),
        Ok(Outcome::Announced(attempt)) => {
            let operation = attempt.intent.record.operation_id.as_str();
            line(resource, subject.position, Some(operation), "announced", Effect::Unknown);
        }
        Ok(Outcome::Settled(_)) => one("settled", Effect::Unknown),
        Ok(Outcome::Resolved(record)) => {
            let operation = record.operation_id.as_str();
            line(resource, Some(record.position), Some(operation), record.state.word(), Effect::None);
        }
        Ok(Outcome::Ahead(ahead)) => note(subject, asking, &Ok(ahead.outcome.clone()), latency),
        Ok(Outcome::Barrier(_)) => one("barrier", Effect::None),
        Ok(Outcome::Refused(refusal)) => {
            let code = problem::code_of(refusal);
            one(code.word(), code.effect());
        }
        Err(unserved) => {
            let code = problem::unserved(unserved, None).code();
            let operation = subject.operation.as_ref().map(OperationId::as_str);
            line(resource, subject.position, operation, code.word(), code.effect());
        }
    }
}

/// In a write that was not made: why, or that it was not this member's fault.
const fn word_of(member: &MemberVerdict) -> &'static str {
    match &member.verdict {
        Verdict::Refuse(refusal) => problem::code_of(refusal).word(),
        Verdict::Replay(_) => "recorded before",
        Verdict::Admit { .. } => "not written",
    }
}
