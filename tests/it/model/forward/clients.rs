//! What clients and operators do, and what they are answered.

use fencegate::domain::operation::OperationId;
use fencegate::domain::seal::SealVerdict;
use fencegate::protocol::command::{Claim, Member, Resolve, ResolveVerdict};
use fencegate::protocol::control::{Control, ControlVerb};
use fencegate::protocol::outcome::{BarrierStep, Verdict};
use fencegate::protocol::rows::{Done, IntentRow, LeaseRef};
use fencegate::protocol::{Command, Decision, Outcome, Refusal};

use super::bounds::{Bounds, PAGE, number_of, position_of};
use super::bugs::Bug;
use super::judge::{Cancel, Grant, Violation, broken};
use super::state::{Phase, State, Task, Work};
use super::store::Request;
use super::variants;
use crate::support::forwarding::forwarded;
use crate::support::world::{acquire_by, name, release};

impl State {
    /// The command of a delivery, under the token that its owner has.
    pub(super) fn delivery(&self, bounds: &Bounds, number: usize) -> Command {
        let delivery = &bounds.deliveries[number];
        let index = usize::try_from(delivery.position).unwrap() - 1;
        let grant = self.history.grants.get(index);
        let seal = grant.map_or(SealVerdict::Missing, |grant| SealVerdict::Valid(grant.tag));
        let claim = Claim { position: position_of(delivery.position), bare: false, seal };
        let member = Member { claim, ..delivery.member.clone() };
        forwarded(member, "content", u64::try_from(number).unwrap())
    }

    pub(super) fn deliver(&mut self, bounds: &Bounds, number: usize) -> Result<(), Violation> {
        self.history.came.insert(number);
        let command = self.delivery(bounds, number);
        let mut decision = self.decide(bounds, &command)?;
        if let Some(passing) = variants::pass_the_lane(self, bounds, &command, &decision)? {
            decision = passing;
        }
        let position = bounds.deliveries[number].position;
        match &decision.outcome {
            Outcome::Announced(attempt) => {
                self.history.announced(number, position)?;
                self.apply(bounds, &decision.changes)?;
                self.cannot_be_resolved(bounds, &attempt.intent)?;
                self.begin(bounds, Task::of(bounds, attempt))?;
                variants::after_announcement(self, bounds, &attempt.intent)
            }
            Outcome::Written(written) => {
                let replay = &written[0];
                let (operation, incarnation) =
                    (bounds.deliveries[number].operation, replay.incarnation.get());
                if replay.response.done == Done::Nothing {
                    self.history.never(operation, incarnation)
                } else {
                    self.history.applied(operation, incarnation, number_of(replay.position))
                }
            }
            Outcome::NotWritten(verdicts) => {
                self.apply(bounds, &decision.changes)?;
                match &verdicts[0].verdict {
                    Verdict::Refuse(
                        Refusal::OperationInProgress | Refusal::OutcomeUncertain | Refusal::OperationExpired,
                    ) => Ok(()),
                    Verdict::Refuse(_) => self.history.refused(bounds, number),
                    other => broken("outcome", format!("{other:?}")),
                }
            }
            other => broken("outcome", format!("{other:?}")),
        }
    }

    /// The owner before releases, and the next one acquires.
    pub(super) fn acquire(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        if let Some(last) = self.history.grants.last() {
            let decision = self.decide(bounds, &release(&last.id))?;
            self.apply(bounds, &decision.changes)?;
        }
        let request = u128::try_from(self.history.grants.len()).unwrap() + 1;
        let decision = self.decide(bounds, &acquire_by(PAGE, request, "", None))?;
        let Outcome::Granted(grant) = &decision.outcome else {
            return broken("outcome", format!("{:?}", decision.outcome));
        };
        let id = grant.acquisition_id.clone();
        self.history.grants.push(Grant { tag: id.hash().tag(), id, complete: false });
        let held = !grant.fencing_tokens.is_empty();
        self.apply(bounds, &decision.changes)?;
        if held || bounds.is(Bug::NoBarrier) {
            self.history.owns();
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        let call = Control {
            verb: ControlVerb::Cancel,
            resource: name(PAGE),
            claim: None,
            reason: String::new(),
            key: None,
        };
        let decision = self.decide(bounds, &Command::Control(call))?;
        let Outcome::Controlled(done) = &decision.outcome else {
            return broken("outcome", format!("{:?}", decision.outcome));
        };
        let through = done.resource.revoked_through.map_or(0, number_of);
        let at_once = done.in_flight.is_empty();
        self.apply(bounds, &decision.changes)?;
        self.history.cancel = Cancel::Pending(through);
        if at_once {
            self.history.cancelled(through);
        }
        Ok(())
    }

    /// What is under way is nobody's to resolve, and neither is what nobody has heard of.
    fn cannot_be_resolved(&self, bounds: &Bounds, intent: &IntentRow) -> Result<(), Violation> {
        let (resource, incarnation, operation_id) = intent.key();
        let known = Resolve {
            resource,
            operation_id,
            incarnation,
            verdict: ResolveVerdict::NotApplied,
            evidence: "none".to_owned(),
            reason: "impatience".to_owned(),
        };
        let unknown = Resolve { operation_id: OperationId::parse("nobodys").unwrap(), ..known.clone() };
        for (resolve, expected) in [(known, Refusal::NotUncertain), (unknown, Refusal::NoSuchOperation)] {
            let decision = self.decide(bounds, &Command::Resolve(resolve))?;
            if decision.outcome != Outcome::Refused(expected) || !decision.changes.is_empty() {
                return broken("I19", format!("{decision:?}"));
            }
        }
        Ok(())
    }

    /// A person says what the store shows. Whoever says the same later hears the same, and nobody can say otherwise.
    pub(super) fn resolve(&mut self, bounds: &Bounds, number: usize) -> Result<(), Violation> {
        let intent = self.intents().nth(number).unwrap().clone();
        let (resource, incarnation, operation_id) = intent.key();
        let there = self.history.is_there(usize::try_from(intent.claim).unwrap());
        let verdict = if there { ResolveVerdict::Applied } else { ResolveVerdict::NotApplied };
        let (evidence, reason) = ("looked".to_owned(), "doubt".to_owned());
        let resolve = Resolve { resource, operation_id, incarnation, verdict, evidence, reason };
        let contrary = match verdict {
            ResolveVerdict::Applied => ResolveVerdict::NotApplied,
            ResolveVerdict::NotApplied => ResolveVerdict::Applied,
        };
        let decision = self.decide(bounds, &Command::Resolve(resolve.clone()))?;
        self.apply(bounds, &decision.changes)?;
        let same = self.decide(bounds, &Command::Resolve(resolve.clone()))?;
        let other = self.decide(bounds, &Command::Resolve(Resolve { verdict: contrary, ..resolve }))?;
        let late = matches!(other.outcome, Outcome::Refused(Refusal::AlreadyResolved { .. }));
        let agrees = same.outcome == decision.outcome;
        if !late || !agrees || !same.changes.is_empty() || !other.changes.is_empty() {
            return broken("I5", format!("{decision:?}, then {same:?} and {other:?}"));
        }
        Ok(())
    }

    /// Somebody begins to work at the barrier.
    pub(super) fn raise(&mut self, bounds: &Bounds) -> Result<(), Violation> {
        let newest = self.snapshot.resource(&name(PAGE)).and_then(|row| row.lease);
        self.barrier(bounds, newest, fencegate::protocol::command::BarrierFinding::Nothing)
    }

    /// The next step of a barrier, or its end; whoever waits for it is told.
    pub(super) fn barrier_step(
        &mut self,
        bounds: &Bounds,
        lease: Option<LeaseRef>,
        decision: Decision,
    ) -> Result<(), Violation> {
        let Outcome::Barrier(step) = decision.outcome else {
            return broken("outcome", format!("{:?}", decision.outcome));
        };
        let phase = match *step {
            BarrierStep::Stands(_) => {
                self.stands();
                return Ok(());
            }
            BarrierStep::Undecided(_) => return Ok(()),
            BarrierStep::Quarantined(found) => return broken("quarantine", found),
            BarrierStep::ReadCell(recorded) => Phase::Read(recorded),
            BarrierStep::Rewrite(base, stamp) => Phase::Send(Request::Rewrite { base, stamp }),
            BarrierStep::Advance(_, position) => {
                Phase::Send(Request::Advance { position: number_of(position) })
            }
        };
        self.begin(bounds, Task { work: Work::Barrier(lease), phase })
    }

    fn stands(&mut self) {
        if let Cancel::Pending(through) = self.history.cancel {
            self.history.cancelled(through);
        } else if self.history.grants.last().is_some_and(|grant| !grant.complete && self.is_held(grant)) {
            self.history.owns();
        }
    }

    /// Whether the rows have a grant as held.
    fn is_held(&self, grant: &Grant) -> bool {
        let lease = self.snapshot.lease(&grant.id.hash());
        lease.is_some_and(|lease| lease.state == fencegate::domain::lease::LeaseState::Held)
    }
}
