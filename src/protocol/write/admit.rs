//! Row 19: what an admitted write makes durable.

use bytes::Bytes;

use crate::deliberate::{self, Bug};
use crate::domain::counter::CommitNo;
use crate::domain::lease::LeaseState;
use crate::domain::operation::{Method, OperationState};
use crate::domain::policy::Store;
use crate::domain::precondition::EntityTag;
use crate::domain::time::Timestamp;

use super::super::change::resource_changed;
use super::super::command::Member;
use super::super::lease::{newest_lease, write_down};
use super::super::outcome::{Receipt, Written};
use super::super::rows::{Done, EraRow, Life, Mark, OperationRecord, ResourceRow, SavedResponse, TargetRow};
use super::super::{Change, Context, InForce, Inconsistent, Snapshot};
use super::table::acquisition_of;

/// Admits members of one resource at one position: one effect, one commit number, one sequence.
pub(super) fn group(
    context: &Context<'_>,
    snapshot: &Snapshot,
    members: &[&Member],
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Vec<Written>, Inconsistent> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    let resource = &first.address.resource;
    let namespace = InForce::find(context, snapshot, &resource.namespace())
        .map_err(|_| Inconsistent::because("an admitted write has no namespace"))?;
    if namespace.definition().store != Store::Document {
        // Recorded as applied without a byte to the store, it would be a lie.
        return Err(Inconsistent::because(format!("a write to {resource:?} was not forwarded")));
    }
    let known = snapshot.resource(resource);
    let mut row = super::row_of(snapshot, resource, &namespace);
    if !changes.iter().any(
        |change| matches!(change, Change::NamespaceRecorded(one) if one.namespace == namespace.row.namespace),
    ) {
        namespace.record(changes);
    }
    if row.life == Life::Deleted {
        reborn(&mut row, first, changes)?;
    }
    take_effect(&mut row, first, members.last().map(|member| &member.operation_id), now)?;
    if first.removes_resource() {
        end_life(snapshot, &namespace, &mut row, first, now, changes)?;
    }
    let mut written = Vec::with_capacity(members.len());
    for member in members {
        let done = done(snapshot, member);
        store(&row, member, changes);
        let record = record(context, &row, member, done, now);
        written.push(made(&record, member, &row, &namespace)?);
        changes.push(Change::OperationRecorded(Box::new(record)));
    }
    resource_changed(changes, known, row);
    Ok(written)
}

/// What a refusal would leave if it were bound to its id, which it never is: only a deliberate bug calls this.
pub(super) fn bound(
    context: &Context<'_>,
    snapshot: &Snapshot,
    members: &[Member],
    now: Timestamp,
) -> Vec<Change> {
    let of = |member: &Member| {
        let row = snapshot.resource(&member.address.resource)?;
        let record = record(context, row, member, Done::Nothing, now);
        Some(Change::OperationRecorded(Box::new(record)))
    };
    members.iter().filter_map(of).collect()
}

/// A new incarnation begins at this position; its counters go on.
fn reborn(row: &mut ResourceRow, member: &Member, changes: &mut Vec<Change>) -> Result<(), Inconsistent> {
    changes.push(Change::EraEnded(EraRow {
        resource: row.resource.clone(),
        incarnation: row.incarnation,
        born: row.born,
    }));
    row.incarnation =
        row.incarnation.next().ok_or_else(|| Inconsistent::because("incarnations are used up"))?;
    row.born = member.claim.position;
    row.life = Life::Active;
    Ok(())
}

/// Admission raises the floor; the effect sets the applied mark and counts the commit.
fn take_effect(
    row: &mut ResourceRow,
    member: &Member,
    last: Option<&crate::domain::operation::OperationId>,
    now: Timestamp,
) -> Result<(), Inconsistent> {
    let position = member.claim.position;
    if !deliberate::on(Bug::FloorNotStored) {
        row.floor = row.floor.or_higher(position);
    }
    let old = row.applied.and_then(|mark| mark.sequence).filter(|_| deliberate::on(Bug::SequenceKept));
    row.applied = Some(Mark { position, sequence: member.sequence.max(old) });
    row.commit_no =
        row.commit_no.next().ok_or_else(|| Inconsistent::because("commit numbers are used up"))?;
    row.last_operation = last.cloned();
    row.changed_at = now;
    Ok(())
}

/// A fenced DELETE of the whole resource: the tombstone stays, and the lease of this position ends with it. One that
/// had expired before stays expired: what an ended lease answers changes only when a newer position exists.
fn end_life(
    snapshot: &Snapshot,
    namespace: &InForce,
    row: &mut ResourceRow,
    member: &Member,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<(), Inconsistent> {
    let position = member.claim.position;
    row.life = Life::Deleted;
    row.revoked_through = Some(row.revoked_through.map_or(position, |mark| mark.or_higher(position)));
    if let Some(lease) = newest_lease(snapshot, row)?
        && lease.position_on(&row.resource) == Some(position)
    {
        let ended = match lease.state_at(now, row, &namespace.row) {
            LeaseState::PendingBarrier | LeaseState::Held => LeaseState::Released,
            ended @ (LeaseState::Released | LeaseState::Expired | LeaseState::Superseded) => ended,
        };
        write_down(lease, ended, now, changes);
    }
    Ok(())
}

fn done(snapshot: &Snapshot, member: &Member) -> Done {
    match member.method {
        Method::Delete => Done::Removed,
        Method::Put | Method::Post | Method::Patch if snapshot.target(&member.address).is_some() => {
            Done::Replaced
        }
        Method::Put | Method::Post | Method::Patch => Done::Created,
    }
}

fn store(row: &ResourceRow, member: &Member, changes: &mut Vec<Change>) {
    let Some(document) = &member.document else {
        changes.push(if member.removes_resource() {
            Change::AllTargetsRemoved(row.resource.clone())
        } else {
            Change::TargetRemoved(member.address.clone())
        });
        return;
    };
    changes.push(Change::TargetStored {
        resource: row.resource.clone(),
        row: TargetRow {
            target: member.address.target.clone(),
            tag: tag(row),
            content_type: document.content_type.clone(),
            size: u64::try_from(document.body.len()).unwrap_or(u64::MAX),
            digest: member.digest,
        },
        body: document.body.clone(),
    });
}

const fn tag(row: &ResourceRow) -> EntityTag {
    EntityTag { incarnation: row.incarnation, commit: row.commit_no }
}

fn record(
    context: &Context<'_>,
    row: &ResourceRow,
    member: &Member,
    done: Done,
    now: Timestamp,
) -> OperationRecord {
    let commit: CommitNo = row.commit_no;
    let etag = match done {
        Done::Created | Done::Replaced => Some(tag(row)),
        Done::Removed | Done::Nothing => None,
    };
    let receipt = Receipt {
        address: member.address.clone(),
        operation_id: member.operation_id.clone(),
        incarnation: row.incarnation,
        position: member.claim.position,
        sequence: member.sequence,
        commit,
        etag,
        applied_at: now,
    };
    OperationRecord {
        resource: row.resource.clone(),
        incarnation: row.incarnation,
        operation_id: member.operation_id.clone(),
        target: member.address.target.clone(),
        method: member.method,
        fingerprint: member.fingerprint,
        position: member.claim.position,
        sequence: member.sequence,
        acquisition: acquisition_of(&member.claim),
        state: OperationState::Applied,
        attempt: 1,
        response: Some(SavedResponse {
            done,
            commit: Some(commit),
            etag,
            body: Bytes::from((context.render)(&receipt)),
            relayed: None,
        }),
        created_at: now,
        decided_at: Some(now),
        resolution: None,
    }
}

fn made(
    record: &OperationRecord,
    member: &Member,
    row: &ResourceRow,
    namespace: &InForce,
) -> Result<Written, Inconsistent> {
    let Some(response) = record.response.clone() else {
        return Err(Inconsistent::because("an applied operation has no answer"));
    };
    Ok(Written {
        address: member.address.clone(),
        operation_id: member.operation_id.clone(),
        replayed: false,
        incarnation: record.incarnation,
        position: record.position,
        sequence: record.sequence,
        response,
        floor: row.effective_floor(namespace.row.epoch),
    })
}
