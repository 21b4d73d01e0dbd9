//! What an attempt taught, and the next step.
//!
//! Definitely without effect are only an attempt of which not one byte was sent, and a complete answer whose status says
//! so; all else may have acted. Once there was a doubt, a refusal of a later attempt says nothing about the earlier one,
//! unless the store's contract says so.

use crate::deliberate::{self, Bug};
use crate::domain::operation::OperationState;
use crate::domain::position::Position;
use crate::domain::time::{Millis, Timestamp};
use crate::domain::upstream::{Base, CellSeen, Class, Relayed};

use super::super::command::{Before, Finding, Resume, Settle};
use super::super::outcome::{Act, Attempt, Refusal, Settled, Standing, Withdrawal};
use super::super::rows::{AuditRow, AuditVerb, IntentRow, OperationRecord, Resolution};
use super::super::snapshot::OperationKey;
use super::super::{Change, Context, Decision, Inconsistent, Outcome, Snapshot};
use super::effect::Evidence;
use super::{PAUSE_STOPPED, Scene, is_current};

/// Refusals that say nothing about the request: they are not bound to the operation, which may succeed later.
const UNBOUND: [u16; 4] = [401, 403, 425, 429];

/// Refusals of the request itself. That what holds for one attempt holds for every other with the same bytes, only the
/// contract of a fence-aware receiver says: elsewhere a proxy or a store may change its mind between two attempts, while
/// the first one is still on its way.
const OF_THE_REQUEST: [u16; 7] = [400, 405, 411, 413, 414, 415, 431];

/// Far enough to be never: some 280,000 years.
const NEVER: Timestamp = Timestamp::from_ms(i64::MAX >> 10);

/// Judges what was learnt of an attempt.
pub(in super::super) fn settle(
    context: &Context<'_>,
    snapshot: &Snapshot,
    settle: &Settle,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let told = &settle.told;
    let (mut scene, intent) = match current(context, snapshot, &settle.key, told.attempt, now)? {
        Ok((_, intent)) if intent.claim != told.claim => return Ok(moved()),
        Ok(found) => found,
        Err(decision) => return Ok(decision),
    };
    let settled = match &settle.finding {
        Finding::Answered(relayed, holds) => scene.answered(&intent, relayed, *holds)?,
        Finding::Known(relayed) if relayed.is_success() => scene.applied(&intent, relayed)?,
        Finding::Known(_) if deliberate::on(Bug::AbandonOnNotFound) => {
            scene.withdrawn(&intent, Withdrawal::Unreachable)
        }
        Finding::Known(_) | Finding::Unreadable => scene.later(&intent, intent.doubt),
        Finding::NotSent if intent.doubt => scene.later(&intent, true),
        Finding::NotSent => scene.withdrawn(&intent, Withdrawal::Unreachable),
        Finding::Doubt => scene.doubted(&intent),
        Finding::Cell(seen) => scene.cell_seen(&intent, told, seen)?,
    };
    Ok(scene.settled(settled))
}

/// Takes the next step of an operation whose last one has had its time.
pub(in super::super) fn resume(
    context: &Context<'_>,
    snapshot: &Snapshot,
    resume: &Resume,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let found = snapshot.intent(&resume.key);
    if let Some(uncertain) = found.filter(|intent| intent.record.state == OperationState::Uncertain) {
        return assume(context, snapshot, uncertain, now);
    }
    let (mut scene, intent) = match current(context, snapshot, &resume.key, resume.attempt, now)? {
        Ok(found) => found,
        Err(decision) => return Ok(decision),
    };
    if now < intent.due_at {
        return Ok(scene.settled(Settled::Later(intent.due_at)));
    }
    if scene.is_stopped() {
        let settled = scene.when_it_goes_on(&intent);
        return Ok(scene.settled(settled));
    }
    // The step before may have been taken by somebody who did not live to tell.
    let settled = scene.step_again(&intent);
    Ok(scene.settled(settled))
}

/// After a configured time a doubt of a store that can tell nothing is assumed to be over.
fn assume(
    context: &Context<'_>,
    snapshot: &Snapshot,
    intent: &IntentRow,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    if now < intent.due_at {
        return Ok(Decision::unchanged(Outcome::Settled(Box::new(Settled::Uncertain(intent.due_at)))));
    }
    let mut scene = match Scene::find(context, snapshot, &intent.record.resource, now)? {
        Ok(scene) => scene,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let resolution = Resolution {
        assumed: true,
        evidence: String::new(),
        reason: "max_uncertain_ms has passed without a sign of it".to_owned(),
    };
    let record: OperationRecord = scene.not_applied(intent, resolution);
    Ok(scene.ended(Outcome::Resolved(Box::new(record))))
}

/// Somebody else has gone on.
fn moved() -> Decision {
    Decision::unchanged(Outcome::Settled(Box::new(Settled::Moved)))
}

/// The announcement, where it is still at this attempt.
fn current<'a>(
    context: &'a Context<'a>,
    snapshot: &'a Snapshot,
    key: &OperationKey,
    attempt: u32,
    now: Timestamp,
) -> Result<Result<(Scene<'a>, IntentRow), Decision>, Inconsistent> {
    let Some(intent) = snapshot.intent(key).filter(|intent| is_current(intent, attempt)) else {
        return Ok(Err(moved()));
    };
    Ok(match Scene::find(context, snapshot, &key.0, now)? {
        Ok(scene) => Ok((scene, intent.clone())),
        Err(refusal) => Err(Decision::refused(refusal)),
    })
}

impl Scene<'_> {
    /// A complete answer. The class's own protocol comes before the list of statuses.
    fn answered(
        &mut self,
        intent: &IntentRow,
        relayed: &Relayed,
        holds: Option<Position>,
    ) -> Result<Settled, Inconsistent> {
        let position = intent.record.position;
        match (self.class, relayed.status) {
            (_, 200..=299) => return self.applied(intent, relayed),
            (Class::Conditional, 409 | 412) => {
                let before = Before::Answer(Box::new(relayed.clone()));
                return Ok(self.read_the_cell(intent, intent.doubt, before));
            }
            (Class::FenceAware, 412) => {
                if let Some(holds) = holds.filter(|holds| holds.is_above(position)) {
                    return Ok(self.overtaken(intent, holds));
                }
            }
            (Class::Conditional | Class::FenceAware | Class::Idempotent | Class::Serial, _) => {}
        }
        if !self.rules.refused.contains(relayed.status) {
            return Ok(self.doubted(intent));
        }
        let by_contract = self.class == Class::FenceAware && OF_THE_REQUEST.contains(&relayed.status);
        if intent.doubt && !by_contract {
            return Ok(self.later(intent, true));
        }
        if UNBOUND.contains(&relayed.status) {
            return Ok(self.withdrawn(intent, Withdrawal::Relayed(relayed.clone())));
        }
        Ok(Settled::Done(self.refuse(intent, relayed)?))
    }

    /// A success. A cell's validator has to be known before anything can be sent on it.
    fn applied(&mut self, intent: &IntentRow, relayed: &Relayed) -> Result<Settled, Inconsistent> {
        let validator = match self.class {
            Class::FenceAware | Class::Idempotent | Class::Serial => None,
            Class::Conditional => match relayed.validator() {
                None => {
                    let before = Before::Answer(Box::new(relayed.clone()));
                    return Ok(self.read_the_cell(intent, true, before));
                }
                Some(found) if intent.base != self.recorded_base() => {
                    // What it rested on is gone: a store that compares would have refused it.
                    let what =
                        format!("the store took a write on a state that was gone, and has {found:?} now");
                    self.quarantine_cell(what, &CellSeen::Unstamped(found));
                    return Ok(self.later(intent, true));
                }
                found @ Some(_) => found,
            },
        };
        let evidence = Evidence { relayed: Some(relayed), validator, resolution: None };
        Ok(Settled::Done(self.apply(intent, evidence)?))
    }

    /// A fence-aware upstream holds a higher position. It looks an operation up before it compares, so this one never
    /// had an effect and never will.
    fn overtaken(&mut self, intent: &IntentRow, holds: Position) -> Settled {
        // A barrier after a revoke is set one above all that was issued.
        if holds.is_above(self.following()) {
            self.holds_more(holds);
        }
        let external = self.namespace.definition().issuer.is_external();
        let stale = Refusal::StaleToken { bare_in_later_epoch: false, external };
        self.withdrawn(intent, Withdrawal::Refused(stale))
    }

    /// An attempt that may have acted, or may still act.
    fn doubted(&mut self, intent: &IntentRow) -> Settled {
        match self.class {
            Class::Conditional => self.read_the_cell(intent, true, Before::Doubt),
            Class::FenceAware | Class::Idempotent => self.later(intent, true),
            Class::Serial => self.uncertain(intent),
        }
    }

    /// No more is sent: what becomes of it has to be said from outside.
    fn uncertain(&mut self, intent: &IntentRow) -> Settled {
        let mut after = intent.clone();
        after.record.state = OperationState::Uncertain;
        after.doubt = true;
        after.due_at = match self.class {
            Class::Serial => self.rules.max_uncertain.map_or(NEVER, |most| self.now.plus(most)),
            Class::Conditional | Class::FenceAware | Class::Idempotent => NEVER,
        };
        self.row.changed_at = self.now;
        self.change(intent, &after);
        if intent.record.state != OperationState::Uncertain {
            self.changes.push(Change::Audited(AuditRow {
                subject: self.row.resource.clone().into(),
                verb: AuditVerb::Uncertain,
                position: intent.record.position,
                reason: Some(intent.record.operation_id.to_string()),
                holder: None,
                actor: None,
                at: self.now,
            }));
        }
        Settled::Uncertain(after.due_at)
    }

    /// The next step comes after a pause.
    pub(super) fn later(&mut self, intent: &IntentRow, doubt: bool) -> Settled {
        let mut after = intent.clone();
        after.doubt = doubt;
        after.due_at = self.after_a_pause(intent.record.attempt);
        self.change(intent, &after);
        Settled::Later(after.due_at)
    }

    /// Nothing is sent while a person has to look into it. Nobody waits for that: a look now and then will do.
    pub(super) fn when_it_goes_on(&mut self, intent: &IntentRow) -> Settled {
        let due_at = self.now.plus(PAUSE_STOPPED);
        let after = IntentRow { due_at, ..intent.clone() };
        self.change(intent, &after);
        Settled::Later(due_at)
    }

    /// The next step of an operation whose last attempt may have been made.
    fn step_again(&mut self, intent: &IntentRow) -> Settled {
        match self.class {
            Class::Conditional => {
                // Before its first read nothing was ever sent.
                let doubt = intent.doubt || intent.base != Base::Unread;
                self.read_the_cell(intent, doubt, Before::Nothing)
            }
            Class::Serial => self.uncertain(intent),
            Class::Idempotent if self.left(intent) == Some(Millis::default()) => self.uncertain(intent),
            Class::FenceAware | Class::Idempotent => {
                Settled::Again(self.send(intent, intent.base.clone(), true))
            }
        }
    }

    /// Reading changes nothing in the store, so it is no attempt.
    pub(super) fn read_the_cell(&mut self, intent: &IntentRow, doubt: bool, before: Before) -> Settled {
        let mut after = intent.clone();
        after.doubt = doubt;
        after.due_at = self.after_an_attempt();
        self.change(intent, &after);
        let told = self.told(&after, before);
        let act = Act::ReadCell;
        Settled::Again(Attempt { intent: after, payload: None, act, ask_first: false, left: None, told })
    }

    /// It had and will have no effect, and its id is free.
    pub(super) fn withdrawn(&mut self, intent: &IntentRow, why: Withdrawal) -> Settled {
        self.withdraw(intent);
        let standing = Standing {
            floor: self.row.effective_floor(self.namespace.row.epoch),
            applied: self.row.applied,
            incarnation: self.row.incarnation,
        };
        Settled::Withdrawn(intent.clone(), why, standing)
    }
}
