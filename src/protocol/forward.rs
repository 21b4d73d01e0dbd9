//! Forwarding: the life of an operation whose effect is in a store behind HTTP (`protocol.md` section 7).
//!
//! Decision, floor and announcement are committed before any byte is sent; what is learnt of an attempt comes back as a
//! command and is judged here again. Every step is a compare-and-set on the announcement: a late answer, like a late
//! write, changes nothing that has moved on. While an operation is undecided its announcement exists, and nothing but a
//! decision takes it away: the lane of a resource is the undecided operations that it has.

mod announce;
mod barrier;
mod cell;
mod effect;
mod lane;
mod resolve;
mod settle;

use crate::domain::counter::{CommitNo, Incarnation};
use crate::domain::operation::{Method, OperationState};
use crate::domain::position::Position;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::{Address, ResourceName};
use crate::domain::store::StoreRules;
use crate::domain::time::{Millis, Timestamp};
use crate::domain::upstream::{Base, Class, Stamp, StampKind};

use super::change::resource_changed;
use super::command::{Before, Told};
use super::outcome::{Act, Ahead, Attempt, Settled};
use super::rows::{IntentRow, Life, ResourceRow};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot};

pub(super) use announce::{announce, announced_before};
pub(super) use barrier::{barrier, has_barrier, held, stands_at_once};
pub(super) use lane::conflict;
pub(super) use resolve::resolve;
pub(super) use settle::{resume, settle};

/// Longest body of an upstream's answer that is saved with an operation (`protocol.md` section 3); of a longer one the
/// length and the digest are.
pub const SAVED_BODY_BYTES: usize = 64 * 1_024;

/// Most undecided operations of one resource. The classes with a lane have one; the others bound by this what a resource
/// can cost while its store is away.
pub const UNDECIDED_MOST: usize = 16;

/// The first pause after an attempt that may have acted; each further one is twice as long.
const PAUSE_LEAST: Millis = Millis::new(100);

/// The longest pause between two attempts, so that doubts end soon after a store has come back (I20).
const PAUSE_MOST: Millis = Millis::new(30_000);

/// The pause while nothing may be sent until a person has looked into it: each look is a commit.
const PAUSE_STOPPED: Millis = Millis::new(5_000);

/// What an attempt may take longer than its time-outs before anybody else takes the next step.
const GRACE: Millis = Millis::new(1_000);

/// Everything that a step of an undecided operation looks at and changes.
struct Scene<'a> {
    context: &'a Context<'a>,
    snapshot: &'a Snapshot,
    namespace: InForce,
    class: Class,
    rules: StoreRules,
    /// As the database has it.
    known: Option<&'a ResourceRow>,
    /// As the step leaves it.
    row: ResourceRow,
    /// The validator that the gateway shows for the whole-path target, as the step leaves it.
    tag: Option<EntityTag>,
    changes: Vec<Change>,
    /// What proves that the record has forgotten something.
    ahead: Option<String>,
    now: Timestamp,
}

impl<'a> Scene<'a> {
    /// The scene of a resource; a refusal where its namespace is not what it was.
    fn find(
        context: &'a Context<'a>,
        snapshot: &'a Snapshot,
        resource: &ResourceName,
        now: Timestamp,
    ) -> Result<Result<Self, Refusal>, Inconsistent> {
        let namespace = match InForce::find(context, snapshot, &resource.namespace()) {
            Ok(namespace) => namespace,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (Some(class), Some(rules)) = (namespace.definition().store.class(), namespace.rules.upstream)
        else {
            return Err(Inconsistent::because(format!("{resource:?} is not behind an upstream")));
        };
        let known = snapshot.resource(resource);
        let row = super::write::row_of(snapshot, resource, &namespace);
        let whole = Address { resource: resource.clone(), target: None };
        let tag = snapshot.target(&whole).map(|target| target.tag);
        Ok(Ok(Self {
            context,
            snapshot,
            namespace,
            class,
            rules,
            known,
            row,
            tag,
            changes: Vec::new(),
            ahead: None,
            now,
        }))
    }

    /// The decision that the step comes to.
    fn ended(mut self, outcome: Outcome) -> Decision {
        self.namespace.record(&mut self.changes);
        resource_changed(&mut self.changes, self.known, self.row);
        let outcome = match self.ahead {
            None => outcome,
            Some(found) => {
                let namespace = self.namespace.row.namespace;
                Outcome::Ahead(Box::new(Ahead { namespace, found, outcome }))
            }
        };
        Decision { outcome, changes: self.changes }
    }

    /// Whether nothing new may be sent: somebody has to look into it first. What is learnt of what was sent before is
    /// recorded all the same.
    fn is_stopped(&self) -> bool {
        self.row.quarantined.is_some() || self.namespace.row.breaker.is_some()
    }

    /// The store holds what the record does not know: it cannot be ahead of us, so the record is behind.
    fn forgotten(&mut self, found: &str) {
        let resource = &self.row.resource;
        self.ahead = Some(format!("the store of {resource} is ahead of the record: {found}"));
    }

    fn settled(self, settled: Settled) -> Decision {
        self.ended(Outcome::Settled(Box::new(settled)))
    }

    /// Operations that are undecided still, as the step leaves them.
    fn undecided(&self) -> impl Iterator<Item = &IntentRow> {
        let closed = |intent: &IntentRow| {
            self.changes.iter().any(|change| match change {
                Change::IntentClosed(row) => row.key() == intent.key(),
                Change::NamespaceRecorded(_)
                | Change::NamespaceChanged { .. }
                | Change::EverywhereChanged { .. }
                | Change::Resource { .. }
                | Change::EraEnded(_)
                | Change::TargetStored { .. }
                | Change::TargetRemoved(_)
                | Change::AllTargetsRemoved(_)
                | Change::OperationRecorded(_)
                | Change::OperationPruned(_)
                | Change::EraForgotten(_)
                | Change::ControlForgotten(_)
                | Change::AuditForgotten { .. }
                | Change::ResourceFolded(_)
                | Change::IntentAnnounced { .. }
                | Change::IntentChanged { .. }
                | Change::LeaseGranted(_)
                | Change::LeaseChanged { .. }
                | Change::LeaseForgotten(_)
                | Change::ControlRecorded(_)
                | Change::Audited(_) => false,
            })
        };
        self.snapshot.intents_of(&self.row.resource).filter(move |intent| !closed(intent))
    }

    /// Stops everything on this resource until somebody has looked into it.
    fn quarantine(&mut self, found: String) {
        if self.row.quarantined.is_none() {
            self.changes.push(Change::Audited(super::rows::AuditRow {
                subject: self.row.resource.clone().into(),
                verb: super::rows::AuditVerb::Quarantined,
                position: self.row.floor,
                reason: Some(found.clone()),
                holder: None,
                actor: None,
                at: self.now,
            }));
            self.row.quarantined = Some(found);
            self.row.changed_at = self.now;
        }
    }

    /// Writes down where an announcement stands.
    fn change(&mut self, before: &IntentRow, after: &IntentRow) {
        if before != after {
            self.changes.push(Change::IntentChanged {
                before: Box::new(before.clone()),
                after: Box::new(after.clone()),
            });
        }
    }

    /// When the next step may be taken after one that sends or reads.
    fn after_an_attempt(&self) -> Timestamp {
        self.now.plus(self.rules.timeout).plus(GRACE)
    }

    /// The same after one that asks before it sends: a status address takes as long as an attempt.
    fn after_asking(&self) -> Timestamp {
        self.after_an_attempt().plus(self.rules.timeout)
    }

    /// For how long the store may still be sent the key of an operation; none where it keeps no keys. One that has begun to
    /// forget would act a second time, and half of its time is kept for what is under way.
    fn left(&self, intent: &IntentRow) -> Option<Millis> {
        let half = Millis::new(self.rules.key_retention.get() / 2);
        match self.class {
            Class::Idempotent => Some(self.now.until(intent.record.created_at.plus(half))),
            Class::Conditional | Class::FenceAware | Class::Serial => None,
        }
    }

    /// When the next step may be taken after a pause.
    fn after_a_pause(&self, attempt: u32) -> Timestamp {
        self.now.plus(pause_after(attempt))
    }

    /// The step that sends: announced with its number, on its base. What keeps keys is never sent for the first time here,
    /// so it is asked before it is sent the same again.
    fn send(&mut self, before: &IntentRow, base: Base, doubt: bool) -> Attempt {
        let mut after = before.clone();
        after.record.attempt = before.record.attempt.saturating_add(1);
        after.base = base;
        after.doubt = doubt;
        let ask_first = self.class == Class::Idempotent;
        after.due_at = if ask_first { self.after_asking() } else { self.after_an_attempt() };
        self.change(before, &after);
        let (stamp, left) = (self.stamp_of(&after), self.left(&after));
        let told = self.told(&after, Before::Nothing);
        Attempt { intent: after, payload: None, act: Act::Send(stamp), ask_first, left, told }
    }

    /// What a step is told with.
    fn told(&self, intent: &IntentRow, before: Before) -> Told {
        Told { claim: intent.claim, attempt: intent.record.attempt, recorded: self.row.cell.clone(), before }
    }

    /// The stamp that an operation writes into its cell.
    fn stamp_of(&self, intent: &IntentRow) -> Option<Stamp> {
        match self.class {
            Class::FenceAware | Class::Idempotent | Class::Serial => None,
            Class::Conditional => Some(Stamp {
                kind: if intent.removes_resource() { StampKind::Tombstone } else { StampKind::Content },
                incarnation: intent.record.incarnation,
                position: intent.record.position,
                commit: self.row.commit_no.next().unwrap_or(CommitNo::ZERO),
                operation_id: Some(intent.record.operation_id.clone()),
            }),
        }
    }

    /// The newest position that was ever issued, admitted or revoked here.
    fn newest(&self) -> Position {
        let revoked = self.row.revoked_through.unwrap_or(Position::ZERO);
        self.row.issued.or_higher(self.row.floor).or_higher(revoked)
    }
}

/// The pause after so many attempts.
fn pause_after(attempt: u32) -> Millis {
    let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
    PAUSE_LEAST.times(factor).min(PAUSE_MOST)
}

/// The incarnation that a write to this row belongs to: the next one where it creates the resource again.
fn incarnation_of(row: &ResourceRow, method: Method) -> Incarnation {
    match (row.life, method) {
        (Life::Deleted, Method::Put | Method::Post | Method::Patch) => {
            row.incarnation.next().unwrap_or(row.incarnation)
        }
        (Life::Deleted, Method::Delete) | (Life::Active | Life::Cancelled, _) => row.incarnation,
    }
}

/// Whether an announcement is still where somebody saw it.
fn is_current(intent: &IntentRow, attempt: u32) -> bool {
    intent.record.attempt == attempt && intent.record.state == OperationState::Intent
}
