//! Control calls: revoke, cancel and reopen (`protocol.md` section 6). They are fenced too, and what was carried out is
//! recorded in a key space of its own, so that a delayed copy does nothing and gets the first answer.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::domain::lease::{EndCause, LeaseState};
use crate::domain::operation::{Fingerprint, OperationId};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;

use super::change::resource_changed;
use super::command::Claim;
use super::lease::{End, end_lease, newest_lease, write_down};
use super::outcome::{ControlView, Controlled};
use super::rows::{AuditRow, AuditVerb, Life, ResourceRow};
use super::write::{row_of, table};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot};

/// A control call that was carried out, in a key space of its own: a delayed copy does nothing and gets this answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControlRecord {
    /// The resource.
    pub resource: ResourceName,
    /// What was done.
    pub verb: ControlVerb,
    /// The caller's name for the call.
    pub key: OperationId,
    /// What makes two calls the same.
    pub fingerprint: Fingerprint,
    /// The answer, byte for byte.
    pub body: Bytes,
    /// When.
    pub at: Timestamp,
}

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
        && let Some(record) = snapshot.control(&(control.resource.clone(), control.verb, key.clone()))
    {
        if record.fingerprint != control.fingerprint() {
            return Ok(Decision::refused(Refusal::OperationMismatch));
        }
        let body = record.body.clone();
        let replayed = Controlled { resource: row, body, replayed: true };
        return Ok(Decision::unchanged(Outcome::Controlled(Box::new(replayed))));
    }
    let mut changes = Vec::new();
    if let Some(refusal) = refusal(snapshot, control, &namespace, (known, &row), now, &mut changes)? {
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
    let view = ControlView { resource: &after, namespace: &namespace.row, lease: ended.as_ref(), now };
    let body = Bytes::from((context.render_control)(&view));
    if let Some(key) = &control.key {
        changes.push(Change::ControlRecorded(Box::new(ControlRecord {
            resource: control.resource.clone(),
            verb: control.verb,
            key: key.clone(),
            fingerprint: control.fingerprint(),
            body: body.clone(),
            at: now,
        })));
    }
    resource_changed(&mut changes, known, after.clone());
    let outcome = Outcome::Controlled(Box::new(Controlled { resource: after, body, replayed: false }));
    Ok(Decision { outcome, changes })
}

/// What stands against the call. An owner is judged by rows 8 to 13 of the table: one that was superseded ends nothing.
fn refusal(
    snapshot: &Snapshot,
    control: &Control,
    namespace: &InForce,
    (known, row): (Option<&ResourceRow>, &ResourceRow),
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Option<Refusal>, Inconsistent> {
    if let Some(claim) = &control.claim {
        let not_yours = match control.verb {
            ControlVerb::Revoke | ControlVerb::Cancel => table::claim(snapshot, namespace, row, claim),
            // To bring a newer position is what the token of a reopen is for.
            ControlVerb::Reopen => reopening(snapshot, namespace, row, claim),
        };
        if let Some(refusal) = not_yours {
            return Ok(Some(refusal));
        }
        if table::is_stale(namespace, row, claim.position) {
            return Ok(Some(table::stale(namespace, claim)));
        }
    }
    let external = namespace.definition().issuer.is_external();
    Ok(match (control.verb, row.life) {
        // A job that nobody has begun can be called off; there is no generation yet that could be revoked.
        (ControlVerb::Revoke | ControlVerb::Reopen, _) if known.is_none() => Some(Refusal::NothingToControl),
        (ControlVerb::Cancel | ControlVerb::Reopen, Life::Deleted) => {
            Some(Refusal::Deleted { revoked_through: row.revoked_through })
        }
        (ControlVerb::Reopen, Life::Cancelled) if external => match &control.claim {
            None => Some(Refusal::FreshTokenRequired),
            Some(claim) if !claim.position.is_above(row.floor) => Some(table::stale(namespace, claim)),
            Some(_) => None,
        },
        (ControlVerb::Revoke | ControlVerb::Cancel, Life::Active | Life::Cancelled) => match &control.claim {
            Some(claim) => table::lease_bound(snapshot, namespace, row, claim, now, changes)?,
            None => None,
        },
        (ControlVerb::Revoke, Life::Deleted) | (ControlVerb::Reopen, Life::Active | Life::Cancelled) => None,
    })
}

/// Rows 8 to 10.
fn reopening(snapshot: &Snapshot, namespace: &InForce, row: &ResourceRow, claim: &Claim) -> Option<Refusal> {
    let epoch = namespace.row.epoch;
    let ahead = || (claim.position.epoch > epoch).then_some(Refusal::EpochAhead { epoch });
    table::sealed(snapshot, namespace, row, claim).or_else(ahead)
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
        LeaseState::Held => {
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
        resource: control.resource.clone(),
        verb,
        position: row.issued.or_higher(row.floor),
        reason: Some(control.reason.clone()),
        at: now,
    })
}
