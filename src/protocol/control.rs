//! Control calls: revoke, cancel and reopen (`protocol.md` section 6). They are fenced too, and what was carried out is
//! recorded in a key space of its own, so that a delayed copy does nothing and gets the first answer.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::deliberate::{self, Bug};
use crate::domain::lease::{EndCause, LeaseState};
use crate::domain::operation::{Fingerprint, OperationId};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;

mod record;

pub use record::{ControlRecord, RecordedVerb};

use super::change::resource_changed;
use super::command::Claim;
use super::lease::{End, end_lease, newest_lease, write_down};
use super::outcome::{ControlView, Controlled, Undecided};
use super::rows::{AuditRow, AuditVerb, Life, ResourceRow};
use super::snapshot::ControlKey;
use super::write::{row_of, table};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot};

/// What a control call does to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlVerb {
    /// End the generation.
    Revoke,
    /// End the generation, and keep the resource from being owned or written.
    Cancel,
    /// End a cancellation.
    Reopen,
}

impl ControlVerb {
    /// The word in addresses and rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Cancel => "cancel",
            Self::Reopen => "reopen",
        }
    }

    /// What was done, as records and log lines have it.
    #[must_use]
    pub const fn done(self) -> &'static str {
        match self {
            Self::Revoke => "revoked",
            Self::Cancel => "cancelled",
            Self::Reopen => "reopened",
        }
    }

    /// The verb that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Revoke, Self::Cancel, Self::Reopen].into_iter().find(|verb| verb.word() == word)
    }
}

/// A call on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// What to do.
    pub verb: ControlVerb,
    /// To which resource.
    pub resource: ResourceName,
    /// As its owner, or under an external issuer with a position freshly read from it; none for an operator.
    pub claim: Option<Claim>,
    /// Why, for those who read the record.
    pub reason: String,
    /// The caller's name for the call; required for a reopen.
    pub key: Option<OperationId>,
}

impl Control {
    /// Where a call of this name is recorded.
    #[must_use]
    pub fn record_key(&self, key: &OperationId) -> ControlKey {
        (self.resource.clone().into(), RecordedVerb::Control(self.verb), key.clone())
    }

    /// What makes two deliveries the same: verb, resource, position and reason.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let position = self.claim.map(|claim| claim.position.to_string()).unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(b"fencegate control 1\0");
        for part in [self.verb.word(), self.resource.as_str(), &position, &self.reason] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Fingerprint::from_bytes(hash.finalize().into())
    }
}

/// A call that was recorded is answered from its record; an owner is judged like every act of an owner.
pub(super) fn decide(
    context: &Context<'_>,
    snapshot: &Snapshot,
    control: &Control,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let namespace = match InForce::find(context, snapshot, &control.resource.namespace()) {
        Ok(namespace) => namespace,
        Err(refusal) => return Ok(Decision::refused(refusal)),
    };
    let known = snapshot.resource(&control.resource);
    let row = row_of(snapshot, &control.resource, &namespace);
    if let Some(key) = &control.key
        && let Some(record) = snapshot.control(&control.record_key(key))
    {
        if record.fingerprint != control.fingerprint() {
            return Ok(Decision::refused(Refusal::OperationMismatch));
        }
        let body = record.body.clone();
        let in_flight = in_flight(snapshot, &control.resource);
        let replayed = Controlled { resource: row, body, replayed: true, verb: control.verb, in_flight };
        return Ok(Decision::unchanged(Outcome::Controlled(Box::new(replayed))));
    }
    let mut changes = Vec::new();
    let case = Case { snapshot, namespace: &namespace, known, row: &row, now };
    if let Some(refusal) = refusal(&case, control, &mut changes)? {
        return Ok(Decision { outcome: Outcome::Refused(refusal), changes });
    }
    namespace.record(&mut changes);
    let mut after = row;
    match control.verb {
        ControlVerb::Revoke => revoke(&mut after, control.claim.as_ref()),
        ControlVerb::Cancel => {
            revoke(&mut after, control.claim.as_ref());
            after.life = Life::Cancelled;
            after.reason = Some(control.reason.clone());
        }
        ControlVerb::Reopen => reopen(&mut after, control),
    }
    let ended = end(snapshot, &namespace, &after, control.verb, now, &mut changes)?;
    if known != Some(&after) {
        after.changed_at = now;
    }
    changes.push(audit(control, &after, now));
    let undecided = Undecided::of(snapshot.intents_of(&control.resource));
    let view = ControlView {
        resource: &after,
        namespace: &namespace.row,
        lease: ended.as_ref(),
        undecided: &undecided,
        now,
    };
    let body = Bytes::from((context.render_control)(&view));
    if let Some(key) = &control.key {
        changes.push(Change::ControlRecorded(Box::new(ControlRecord {
            subject: control.resource.clone().into(),
            verb: RecordedVerb::Control(control.verb),
            key: key.clone(),
            fingerprint: control.fingerprint(),
            body: body.clone(),
            at: now,
        })));
    }
    resource_changed(&mut changes, known, after.clone());
    let outcome = Outcome::Controlled(Box::new(Controlled {
        resource: after,
        body,
        replayed: false,
        verb: control.verb,
        in_flight: in_flight(snapshot, &control.resource),
    }));
    Ok(Decision { outcome, changes })
}

/// Effects that are under way: they were admitted before the call, and what becomes of them is not known yet.
fn in_flight(snapshot: &Snapshot, resource: &ResourceName) -> Vec<OperationId> {
    if deliberate::on(Bug::LaneIgnoredOnCancel) {
        return Vec::new();
    }
    snapshot.intents_of(resource).map(|intent| intent.record.operation_id.clone()).collect()
}

/// What a call is judged by.
struct Case<'a> {
    snapshot: &'a Snapshot,
    namespace: &'a InForce,
    known: Option<&'a ResourceRow>,
    /// The row as it is, or as the first change would find it.
    row: &'a ResourceRow,
    now: Timestamp,
}

/// What stands against the call.
fn refusal(
    case: &Case<'_>,
    control: &Control,
    changes: &mut Vec<Change>,
) -> Result<Option<Refusal>, Inconsistent> {
    if let Some(refusal) = table::breaker(case.namespace) {
        return Ok(Some(refusal));
    }
    match (control.verb, &control.claim) {
        (ControlVerb::Revoke | ControlVerb::Cancel, _) if case.row.quarantined.is_some() => {
            Ok(table::stopped(case.namespace, case.row))
        }
        (ControlVerb::Reopen, claim) => Ok(against_a_reopen(case, claim.as_ref())),
        (ControlVerb::Revoke | ControlVerb::Cancel, Some(claim)) => {
            against_an_owner(case, control.verb, claim, changes)
        }
        // A job that nobody has begun can be called off; there is no generation yet that could be revoked.
        (ControlVerb::Revoke, None) => Ok(case.known.is_none().then_some(Refusal::NothingToControl)),
        (ControlVerb::Cancel, None) => Ok(match case.row.life {
            Life::Active | Life::Cancelled => None,
            Life::Deleted => Some(case.deleted()),
        }),
    }
}

/// An owner that ends something is judged by rows 7 to 13 of the table, in their order: one that was superseded ends
/// nothing, and one that asks again whether its job is cancelled is told so.
fn against_an_owner(
    case: &Case<'_>,
    verb: ControlVerb,
    claim: &Claim,
    changes: &mut Vec<Change>,
) -> Result<Option<Refusal>, Inconsistent> {
    let Case { snapshot, namespace, known, row, now } = *case;
    match row.life {
        Life::Active => {}
        Life::Cancelled => return Ok(Some(Refusal::Cancelled)),
        Life::Deleted => return Ok(Some(case.deleted())),
    }
    if let Some(refusal) = table::claim(snapshot, namespace, row, claim, true) {
        return Ok(Some(refusal));
    }
    // Under the contract observed the floor does not rise with an acquire: an owner that was superseded may still write
    // there, and ends nothing all the same.
    if table::is_stale(namespace, row, claim.position) || claim.position.is_below(row.issued) {
        return Ok(Some(table::stale(namespace, claim)));
    }
    if verb == ControlVerb::Revoke && known.is_none() {
        return Ok(Some(Refusal::NothingToControl));
    }
    table::lease_bound(snapshot, namespace, row, claim, now, changes)
}

/// A position that comes with a reopen is there to raise the floor, like that of an advance: no bound on a writer's jump
/// stands against it. Under an external issuer there must be one, for the gateway can issue none.
fn against_a_reopen(case: &Case<'_>, claim: Option<&Claim>) -> Option<Refusal> {
    let Case { snapshot, namespace, row, .. } = *case;
    if let Some(claim) = claim {
        if let Some(refusal) = table::sealed(snapshot, namespace, row, claim) {
            return Some(refusal);
        }
        if claim.position.epoch > namespace.row.epoch {
            return Some(Refusal::EpochAhead { epoch: namespace.row.epoch });
        }
        // What is cancelled has its floor revoked, so the position has to lie above both.
        if table::is_stale(namespace, row, claim.position) {
            return Some(table::stale(namespace, claim));
        }
    }
    if case.known.is_none() {
        return Some(Refusal::NothingToControl);
    }
    match row.life {
        // What is removed stays removed, and what its store shows can have to be looked into all the same.
        Life::Deleted => row.quarantined.is_none().then(|| case.deleted()),
        Life::Cancelled if claim.is_none() && namespace.definition().issuer.is_external() => {
            Some(Refusal::FreshTokenRequired)
        }
        Life::Active | Life::Cancelled => None,
    }
}

impl Case<'_> {
    fn deleted(&self) -> Refusal {
        Refusal::Deleted { revoked_through: self.row.revoked_through }
    }
}

/// Everything that was issued or admitted so far is refused from now on, and so is the owner that ends itself. Under a
/// trusted issuer it may bring a position that is above the floor, and admission is what raises it.
fn revoke(row: &mut ResourceRow, claim: Option<&Claim>) {
    if let Some(claim) = claim {
        row.floor = row.floor.or_higher(claim.position);
    }
    let newest = row.issued.or_higher(row.floor);
    let through = row.revoked_through.map_or(newest, |mark| mark.or_higher(newest));
    // Before the first position there is nothing to revoke.
    if through.is_above(Position::ZERO) {
        row.revoked_through = Some(through);
    }
}

/// The resource lives again. Under an external issuer the fresh position becomes the floor.
fn reopen(row: &mut ResourceRow, control: &Control) {
    // Somebody has looked into it, and takes the store as it was found.
    row.quarantined = None;
    if row.life != Life::Cancelled {
        return;
    }
    row.life = Life::Active;
    row.reason = None;
    if let Some(claim) = &control.claim {
        row.floor = row.floor.or_higher(claim.position);
    }
}

/// Ends the newest lease where the verb does. One that had expired before stays expired.
fn end(
    snapshot: &Snapshot,
    namespace: &InForce,
    row: &ResourceRow,
    verb: ControlVerb,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Option<crate::protocol::rows::LeaseRow>, Inconsistent> {
    let Some(lease) = newest_lease(snapshot, row)? else { return Ok(None) };
    let cause = match verb {
        ControlVerb::Revoke => EndCause::Revoked,
        ControlVerb::Cancel => EndCause::Cancelled,
        ControlVerb::Reopen => return Ok(Some(lease.clone())),
    };
    match lease.state_at(now, row, &namespace.row) {
        LeaseState::PendingBarrier | LeaseState::Held => {
            let end = End { state: LeaseState::Superseded, cause: Some(cause), at: now };
            end_lease(lease, end, changes);
        }
        LeaseState::Expired => write_down(lease, LeaseState::Expired, now, changes),
        LeaseState::Released | LeaseState::Superseded => {}
    }
    let mut after = lease;
    for change in changes.iter() {
        if let Change::LeaseChanged { before: _, after: changed } = change
            && changed.acquisition == lease.acquisition
        {
            after = changed;
        }
    }
    Ok(Some(after.clone()))
}

fn audit(control: &Control, row: &ResourceRow, now: Timestamp) -> Change {
    let verb = match control.verb {
        ControlVerb::Revoke => AuditVerb::Revoked,
        ControlVerb::Cancel => AuditVerb::Cancelled,
        ControlVerb::Reopen => AuditVerb::Reopened,
    };
    Change::Audited(AuditRow {
        subject: control.resource.clone().into(),
        verb,
        position: row.issued.or_higher(row.floor),
        reason: Some(control.reason.clone()),
        holder: None,
        actor: None,
        at: now,
    })
}
