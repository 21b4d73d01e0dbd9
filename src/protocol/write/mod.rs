//! Fenced writes: the decision table of `protocol.md` section 4 for document stores.
//!
//! `table` judges one member, `admit` makes the changes of those that passed. All new members of a write are admitted
//! or none is; recorded ones are answered from their records.

mod admit;
pub(super) mod table;

use crate::deliberate::{self, Bug};
use crate::domain::operation::OperationId;
use crate::domain::precondition::EntityTag;
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;

use super::change::resource_changed;
use super::command::{Forward, Member, Write};
use super::outcome::{MemberVerdict, Standing, Verdict, Written};
use super::rows::{OperationRecord, ResourceRow};
use super::{Change, Context, Decision, InForce, Inconsistent, Outcome, Refusal, Snapshot, forward};

/// What the table is evaluated over for one member.
pub(super) struct Case<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) namespace: &'a InForce,
    /// The row as it is, or as the first change would find it.
    pub(super) row: &'a ResourceRow,
    pub(super) member: &'a Member,
    /// The target's validator; none where there is no content, as far as the gateway knows.
    pub(super) tag: Option<EntityTag>,
    pub(super) now: Timestamp,
}

pub(super) fn decide(
    context: &Context<'_>,
    snapshot: &Snapshot,
    write: &Write,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let mut changes = Vec::new();
    let mut verdicts = Vec::with_capacity(write.members.len());
    for member in &write.members {
        verdicts.push(judge(context, snapshot, member, now, &mut changes)?);
    }
    if write.dry_run {
        return Ok(Decision::unchanged(Outcome::Explained(verdicts)));
    }
    if let [member] = write.members.as_slice()
        && let Some(forward) = &member.forward
    {
        return forwarded(context, snapshot, (member, forward), verdicts, changes, now);
    }
    let refused = |member: &MemberVerdict| matches!(member.verdict, Verdict::Refuse(_));
    let by_member = deliberate::on(Bug::BatchMemberByMember) && !verdicts.iter().all(refused);
    if verdicts.iter().any(refused) && !by_member {
        if deliberate::on(Bug::RefusedOperationIsBound) {
            changes.extend(admit::bound(context, snapshot, &write.members, now));
        }
        // Only an expiry that was seen on the way is written down; it is not fencing state.
        return Ok(Decision { outcome: Outcome::NotWritten(verdicts), changes });
    }
    let mut made = Vec::new();
    for resource in resources_in_order(write) {
        let group: Vec<&Member> = write
            .members
            .iter()
            .zip(&verdicts)
            .filter(|(member, judged)| {
                member.address.resource == *resource && matches!(judged.verdict, Verdict::Admit { .. })
            })
            .map(|(member, _)| member)
            .collect();
        if !group.is_empty() {
            made.extend(admit::group(context, snapshot, &group, now, &mut changes)?);
        }
    }
    let written = in_request_order(write, verdicts, made)?;
    Ok(Decision { outcome: Outcome::Written(written), changes })
}

/// A write to a store behind HTTP: it is one member, and what the table admits is announced.
fn forwarded(
    context: &Context<'_>,
    snapshot: &Snapshot,
    (member, forward): (&Member, &Forward),
    mut verdicts: Vec<MemberVerdict>,
    changes: Vec<Change>,
    now: Timestamp,
) -> Result<Decision, Inconsistent> {
    let verdict = verdicts.pop().map(|judged| (judged.verdict.clone(), judged));
    match verdict {
        Some((Verdict::Admit { .. }, _)) => forward::announce(context, snapshot, member, forward, now),
        Some((Verdict::Replay(replay), _)) => Ok(Decision::unchanged(Outcome::Written(vec![*replay]))),
        Some((Verdict::Refuse(Refusal::OperationInProgress), judged)) => {
            let own = forward::announced_before(context, snapshot, member, now)?;
            Ok(Decision::unchanged(match own {
                Some(attempt) => Outcome::Announced(Box::new(attempt)),
                None => Outcome::NotWritten(vec![judged]),
            }))
        }
        Some((Verdict::Refuse(_), judged)) => {
            Ok(Decision { outcome: Outcome::NotWritten(vec![judged]), changes })
        }
        None => Err(Inconsistent::because("a write of no member")),
    }
}

fn judge(
    context: &Context<'_>,
    snapshot: &Snapshot,
    member: &Member,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<MemberVerdict, Inconsistent> {
    let resource = &member.address.resource;
    let (standing, verdict) = match InForce::find(context, snapshot, &resource.namespace()) {
        Err(refusal) => (Standing::nowhere(), Verdict::Refuse(refusal)),
        Ok(namespace) => {
            let row = row_of(snapshot, resource, &namespace);
            let tag = snapshot.target(&member.address).map(|target| target.tag);
            let case = Case { snapshot, namespace: &namespace, row: &row, member, tag, now };
            let verdict = table::judge(&case, changes)?;
            if deliberate::on(Bug::ReplayRaisesTheFloor) && matches!(verdict, Verdict::Replay(_)) {
                let floor = row.floor.or_higher(member.claim.position);
                resource_changed(changes, snapshot.resource(resource), ResourceRow { floor, ..row.clone() });
            }
            (case.standing(), verdict)
        }
    };
    Ok(MemberVerdict {
        address: member.address.clone(),
        operation_id: member.operation_id.clone(),
        presented: member.claim.position,
        sequence: member.sequence,
        standing,
        verdict,
    })
}

/// The row as it is, or the one that the first change to the resource would start from.
pub(super) fn row_of(snapshot: &Snapshot, resource: &ResourceName, namespace: &InForce) -> ResourceRow {
    snapshot
        .resource(resource)
        .cloned()
        .unwrap_or_else(|| ResourceRow::unheard(resource.clone(), &namespace.row))
}

impl Standing {
    const fn nowhere() -> Self {
        Self {
            floor: crate::domain::position::Position::ZERO,
            applied: None,
            incarnation: crate::domain::counter::Incarnation::ONE,
        }
    }
}

impl Case<'_> {
    fn standing(&self) -> Standing {
        Standing {
            floor: self.row.effective_floor(self.namespace.row.epoch),
            applied: self.row.applied,
            incarnation: self.row.incarnation,
        }
    }

    /// The saved answer of a record, as this delivery gets it.
    pub(super) fn replay(&self, record: &OperationRecord) -> Result<Written, Inconsistent> {
        let Some(response) = record.response.clone() else {
            return Err(Inconsistent::because(format!(
                "operation {:?} of {:?} is terminal without an answer",
                record.operation_id, record.resource
            )));
        };
        Ok(Written {
            address: self.member.address.clone(),
            operation_id: record.operation_id.clone(),
            replayed: true,
            incarnation: record.incarnation,
            position: record.position,
            sequence: record.sequence,
            response,
            floor: self.row.effective_floor(self.namespace.row.epoch),
        })
    }
}

fn resources_in_order(write: &Write) -> Vec<&ResourceName> {
    let mut seen = Vec::new();
    for member in &write.members {
        if !seen.contains(&&member.address.resource) {
            seen.push(&member.address.resource);
        }
    }
    seen
}

fn in_request_order(
    write: &Write,
    verdicts: Vec<MemberVerdict>,
    mut made: Vec<Written>,
) -> Result<Vec<Written>, Inconsistent> {
    let mut written = Vec::with_capacity(write.members.len());
    for (member, judged) in write.members.iter().zip(verdicts) {
        match judged.verdict {
            Verdict::Replay(replay) => written.push(*replay),
            Verdict::Admit { .. } => written.push(take(&mut made, member, &member.operation_id)?),
            Verdict::Refuse(_) => return Err(Inconsistent::because("a refused member reached admission")),
        }
    }
    Ok(written)
}

fn take(made: &mut Vec<Written>, member: &Member, id: &OperationId) -> Result<Written, Inconsistent> {
    let found = made.iter().position(|one| one.address == member.address && one.operation_id == *id);
    found
        .map(|index| made.swap_remove(index))
        .ok_or_else(|| Inconsistent::because(format!("operation {id:?} was admitted and not made")))
}
