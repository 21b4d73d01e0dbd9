//! Where a wrong gateway decides otherwise than the rules.

use fencegate::domain::breaker::Breaker;
use fencegate::domain::time::Millis;
use fencegate::protocol::command::Finding;
use fencegate::protocol::prune::Prunable;
use fencegate::protocol::rows::{IntentRow, Mark, NamespaceRow, ResourceRow};
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Change, Command, Decision, Outcome, Refusal, Snapshot};

use super::bugs::Bug;
use super::judge::{Violation, page_of};
use super::sim::{Job, KEPT, Sim};
use super::store::Sent;
use crate::support::world::name;

type Made = Result<Decision, Violation>;
type Rules<'r> = dyn Fn(&Snapshot, &Command) -> Made + 'r;

/// What a wrong gateway makes of a job; none where it does what the rules say.
pub(super) fn decided(sim: &Sim, before: &Snapshot, job: &Job, rules: &Rules<'_>) -> Option<Made> {
    let bug = sim.setup.bug?;
    match (bug, &job.command) {
        (Bug::EpochNotRaised, Command::Whole(WholeAct { deed: Deed::AdvanceEpoch { .. }, .. })) => {
            Some(rules(before, &job.command).map(only_the_breaker))
        }
        (Bug::SettleWithoutCompare, Command::Settle(settle)) => {
            let intent = before.intent(&settle.key)?;
            let mut settle = settle.clone();
            (settle.told.claim, settle.told.attempt) = (intent.claim, intent.record.attempt);
            Some(rules(before, &Command::Settle(settle)))
        }
        (Bug::DoubtIsRefused, Command::Settle(settle)) if settle.finding == Finding::Doubt => {
            let intent = before.intent(&settle.key).filter(|intent| !intent.doubt)?;
            intent.record.attempt.eq(&1).then_some(())?;
            let settle = fencegate::protocol::command::Settle { finding: Finding::NotSent, ..settle.clone() };
            Some(rules(before, &Command::Settle(settle)))
        }
        (Bug::BreakerLetsIssuing, Command::Acquire(_)) => {
            let mut open = before.clone();
            let rows: Vec<NamespaceRow> = before.namespaces().cloned().collect();
            for row in rows {
                open.insert_namespace(NamespaceRow { breaker: None::<Breaker>, ..row });
            }
            Some(rules(&open, &job.command))
        }
        (Bug::FloorNotRaised, Command::Acquire(_)) => {
            Some(rules(before, &job.command).map(|mut decision| {
                decision.changes.iter_mut().for_each(keep_the_floor);
                decision
            }))
        }
        (Bug::FoldForgetsBase, Command::Whole(WholeAct { deed: Deed::Fold { .. }, .. })) => {
            Some(rules(before, &job.command).map(|mut decision| {
                decision.changes.retain(|change| !matches!(change, Change::NamespaceChanged { .. }));
                decision
            }))
        }
        (Bug::SequenceNotReset, Command::Write(write)) => in_one_order(before, write, rules, &job.command),
        (Bug::LivePruned, Command::Prune(prune)) => {
            let Prunable::Operations { resource, .. } = &prune.what else { return None };
            Some(Ok(prune_all(sim, before, resource)))
        }
        (Bug::NoLane, Command::Write(_)) => pass_the_lane(before, rules, &job.command),
        (Bug::AbandonOnNotFound, Command::Resume(resume)) => {
            let intent = before.intent(&resume.key)?;
            give_up(sim, intent).map(Ok)
        }
        _ => None,
    }
}

fn only_the_breaker(mut decision: Decision) -> Decision {
    for change in &mut decision.changes {
        match change {
            Change::NamespaceChanged { before, after } => after.epoch = before.epoch,
            Change::EverywhereChanged { before, after } => after.epoch = before.epoch,
            _ => {}
        }
    }
    decision
}

fn keep_the_floor(change: &mut Change) {
    if let Change::Resource { before: Some(before), after } = change {
        after.floor = before.floor;
    }
}

/// One order of sequences over all generations.
fn in_one_order(
    before: &Snapshot,
    write: &fencegate::protocol::command::Write,
    rules: &Rules<'_>,
    command: &Command,
) -> Option<Made> {
    let member = &write.members[0];
    let row = before.resource(&member.address.resource)?;
    let applied = row.applied.filter(|mark| mark.position.is_below(member.claim.position))?;
    let mut one_order = before.clone();
    let moved = Mark { position: member.claim.position, ..applied };
    one_order.insert_resource(ResourceRow { applied: Some(moved), ..row.clone() });
    let made = rules(&one_order, command).ok()?;
    let regressed = matches!(made.outcome.refusal(), Some(Refusal::SequenceRegressed { .. }));
    regressed.then_some(Ok(made))
}

fn prune_all(sim: &Sim, before: &Snapshot, resource: &fencegate::domain::resource::ResourceName) -> Decision {
    let old = |at: fencegate::domain::time::Timestamp| at.plus(Millis::new(KEPT.get() / 4)) <= sim.now();
    let gone = before
        .operations()
        .filter(|record| record.resource == *resource && record.decided_at.is_some_and(old))
        .map(|record| Change::OperationPruned(Box::new(record.clone())))
        .collect();
    Decision { outcome: Outcome::Tidied, changes: gone }
}

fn pass_the_lane(before: &Snapshot, rules: &Rules<'_>, command: &Command) -> Option<Made> {
    let made = rules(before, command).ok()?;
    if !matches!(made.outcome.refusal(), Some(Refusal::LaneBusy { .. })) {
        return None;
    }
    let mut free = before.clone();
    before.intents().for_each(|intent| free.remove_intent(intent));
    Some(rules(&free, command))
}

fn give_up(sim: &Sim, intent: &IntentRow) -> Option<Decision> {
    let page = page_of(&intent.record.resource);
    let sent = Sent {
        claim: intent.claim,
        operation: intent.record.operation_id.as_str().to_owned(),
        incarnation: intent.record.incarnation,
        position: intent.record.position,
    };
    let known = sim.store.as_ref().and_then(|store| store.knows(page, &sent));
    let settled = fencegate::protocol::outcome::Settled::Moved;
    debug_assert!(name(super::durable::PAGES[page]) == intent.record.resource);
    known.is_none().then(|| Decision {
        outcome: Outcome::Settled(Box::new(settled)),
        changes: vec![Change::IntentClosed(Box::new(intent.clone()))],
    })
}
