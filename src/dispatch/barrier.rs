//! A barrier in front of a resource, one step after the other.

use std::sync::Arc;

use crate::backing::{Answer, CellRead, Sent, Upstream};
use crate::domain::resource::ResourceName;
use crate::domain::upstream::{Base, Stamp};
use crate::ledger::wakeup::instant;
use crate::limits::{BARRIER_PATIENCE, BARRIER_PAUSE_LEAST, BARRIER_PAUSE_MOST};
use crate::protocol::command::{Barrier, BarrierFinding};
use crate::protocol::outcome::BarrierStep;
use crate::protocol::rows::{LeaseRef, LeaseRow};
use crate::protocol::{Command, Outcome};

use super::{Shop, recover};

/// Works at the barriers of all resources of a lease. `false` when one could not be reached in time: whoever looks for
/// what is left to do goes on with it.
pub(super) async fn raise_for(shop: &Arc<Shop>, lease: &LeaseRow) -> bool {
    for (resource, _) in lease.members() {
        if shop.upstream_of(resource).is_some() && !raise(shop, resource, Some(lease.place())).await {
            return false;
        }
    }
    true
}

/// Works at the barrier in front of one resource.
pub(super) async fn raise(shop: &Arc<Shop>, resource: &ResourceName, lease: Option<LeaseRef>) -> bool {
    let Some(upstream) = shop.upstream_of(resource).cloned() else { return false };
    let first = shop.raised().insert(resource.clone());
    let _done = Raising { shop, resource, first };
    let until = instant() + BARRIER_PATIENCE;
    let (mut learnt, mut pause) = (BarrierFinding::Nothing, BARRIER_PAUSE_LEAST);
    while instant() < until {
        let barrier = Barrier { resource: resource.clone(), lease, learnt };
        let step = match shop.ledger.submit(Command::Barrier(barrier)).await {
            Ok(Outcome::Barrier(step)) => Some(*step),
            Ok(_) => return false,
            Err(_) => None,
        };
        let taken = match step {
            Some(BarrierStep::Stands(_)) => return true,
            Some(BarrierStep::Quarantined(_)) => return false,
            // Somebody else of this process is at it: what they reach is seen by the next look.
            Some(_) if !first => None,
            Some(step) => take(shop, &upstream, resource, step).await,
            None => None,
        };
        learnt = if let Some(learnt) = taken {
            learnt
        } else {
            if !shop.pause(pause).await {
                return false;
            }
            pause = pause.saturating_mul(2).min(BARRIER_PAUSE_MOST);
            BarrierFinding::Nothing
        };
    }
    false
}

/// Forgets that this process works at a barrier, however that ends.
struct Raising<'a> {
    shop: &'a Shop,
    resource: &'a ResourceName,
    first: bool,
}

impl Drop for Raising<'_> {
    fn drop(&mut self) {
        if self.first {
            self.shop.raised().remove(self.resource);
        }
    }
}

/// One step; none when nothing was learnt and a pause is due.
async fn take(
    shop: &Arc<Shop>,
    upstream: &Arc<Upstream>,
    resource: &ResourceName,
    step: BarrierStep,
) -> Option<BarrierFinding> {
    let namespace = resource.namespace();
    match step {
        BarrierStep::Stands(_) | BarrierStep::Quarantined(_) => None,
        BarrierStep::Undecided(_) => {
            recover::of_resource(shop, resource.clone()).await;
            None
        }
        BarrierStep::ReadCell(recorded) => {
            match shop.timing(&namespace, "read_cell").over(upstream.read_cell(resource).await) {
                CellRead::Seen(seen) => Some(BarrierFinding::Cell { recorded, seen }),
                CellRead::Unreadable(reason) => {
                    tracing::info!(reason, %resource, "a cell could not be read for a barrier");
                    None
                }
            }
        }
        BarrierStep::Rewrite(base, stamp) => rewrite(shop, upstream, resource, base, &stamp).await,
        BarrierStep::Advance(incarnation, position) => {
            let advancing = upstream.advance(resource, incarnation, position);
            match shop.timing(&namespace, "advance").over(advancing.await) {
                Sent::Answered(answer) if answer.relayed.is_success() => {
                    Some(BarrierFinding::Acknowledged(position))
                }
                Sent::Answered(Answer { relayed, holds: Some(holds), .. }) if relayed.status == 412 => {
                    Some(BarrierFinding::Holds(holds))
                }
                Sent::Answered(_) | Sent::NotSent(_) | Sent::Doubt(_) => None,
            }
        }
    }
}

/// What a rewrite that did not answer plainly has left is read from the cell.
async fn rewrite(
    shop: &Shop,
    upstream: &Arc<Upstream>,
    resource: &ResourceName,
    base: Base,
    stamp: &Stamp,
) -> Option<BarrierFinding> {
    let rewriting = upstream.rewrite_cell(resource, &base, stamp);
    match shop.timing(&resource.namespace(), "rewrite").over(rewriting.await) {
        Sent::Answered(answer) if answer.relayed.is_success() => match answer.relayed.validator() {
            Some(validator) => Some(BarrierFinding::Rewritten { position: stamp.position, base, validator }),
            None => Some(BarrierFinding::Nothing),
        },
        // The cell has moved on: at once from the beginning.
        Sent::Answered(answer) if matches!(answer.relayed.status, 409 | 412) => Some(BarrierFinding::Nothing),
        Sent::Answered(_) | Sent::NotSent(_) | Sent::Doubt(_) => None,
    }
}
