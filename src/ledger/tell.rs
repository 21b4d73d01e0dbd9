//! What a commit is told of: counted, and where nobody asked for it, in a line of its own.

use std::time::Duration;

use tracing::info;

use crate::domain::lease::LeaseState;
use crate::domain::operation::Effect;
use crate::domain::resource::ResourceName;
use crate::domain::time::{Millis, Timestamp};
use crate::protocol::rows::LeaseRow;
use crate::telemetry::metrics::{Metrics, NamespaceMeters};

use super::changeset::ChangeSet;
use super::engine::CommitOutcome;

/// What became of a transaction that changes something.
pub(super) fn ended(metrics: &Metrics, outcome: &CommitOutcome, took: Duration) {
    let word = match outcome {
        CommitOutcome::Committed => {
            metrics.commit_took.took(took);
            "committed"
        }
        CommitOutcome::Conflict(_) => "conflict",
        CommitOutcome::Unknown(_) => "unknown",
        CommitOutcome::Failed(_) => "failed",
    };
    metrics.commits.of(word).one();
}

/// What became of leases. Whoever asked for it is told by its answer; that one has expired nobody asked for.
pub(super) fn committed(metrics: &Metrics, changes: &ChangeSet, now: Timestamp) {
    for change in changes.leases.values() {
        let after = &change.after;
        let meters = of(metrics, &after.resource);
        let Some(before) = &change.before else {
            count_transfers(metrics, changes, after);
            continue;
        };
        if before.state != LeaseState::Held {
            continue;
        }
        match after.state {
            LeaseState::Held if before.expires_at < after.expires_at => renewed(meters, before, now),
            LeaseState::Expired => {
                meters.expired.one();
                told_expired(after);
            }
            LeaseState::Held | LeaseState::PendingBarrier | LeaseState::Released | LeaseState::Superseded => {
            }
        }
    }
}

/// The meters of a resource's namespace, which is the first segment of its name.
fn of<'m>(metrics: &'m Metrics, resource: &ResourceName) -> &'m NamespaceMeters {
    metrics.namespaces.of(resource.as_str().split('/').next().unwrap_or_default())
}

/// A grant on what had an owner before is a new one for it.
fn count_transfers(metrics: &Metrics, changes: &ChangeSet, granted: &LeaseRow) {
    for (resource, _) in granted.members() {
        let before = changes.resources.get(resource).and_then(|change| change.before.as_ref());
        if before.is_some_and(|row| row.lease.is_some()) {
            of(metrics, resource).transfers.one();
        }
    }
}

/// A lease is to be renewed when a third of its ttl is used up: two thirds are left for attempts that fail.
fn renewed(meters: &NamespaceMeters, before: &LeaseRow, now: Timestamp) {
    let remaining = now.until(before.expires_at);
    let kept = Millis::new(before.ttl.millis().get().saturating_mul(2).div_euclid(3));
    meters.renewals.one();
    meters.remaining.took(remaining.duration());
    meters.lateness.took(kept.less(remaining).duration());
}

fn told_expired(lease: &LeaseRow) {
    let acquisition = lease.acquisition.tag().short();
    for (resource, position) in lease.members() {
        info!(
            resource = resource.as_str(),
            token = %position,
            acquisition,
            outcome = LeaseState::Expired.word(),
            effect = Effect::None.word(),
            "swept"
        );
    }
}
