//! Compaction: old tombstones of resources whose tokens the gateway issued are folded into their namespace's base
//! (`protocol.md` section 6), so that storage is bounded and no counter ever restarts.
//!
//! It changes no verdict: only a tombstone goes at which every position that was ever issued is refused for good, and
//! the row that takes its place refuses them all. Tombstones under an external issuer stay, for their counters may start
//! anywhere; and those of stores behind HTTP, for a cell there may hold what only the row explains.

use crate::deliberate::{self, Bug};
use crate::domain::policy::{Issuer, Store};
use crate::domain::resource::ResourceName;
use crate::domain::time::{Millis, Timestamp};

use super::lease::KEPT_AFTER_END;
use super::rows::{LeaseRow, Life, NamespaceRow, ResourceRow};
use super::{Change, Decision, Outcome, Snapshot};

/// Whether tombstones of a namespace are ever folded.
#[must_use]
pub fn folds(namespace: &NamespaceRow) -> bool {
    namespace.breaker.is_none()
        && namespace.definition.issuer == Issuer::Gateway
        && namespace.definition.store == Store::Document
}

/// Whether a tombstone may be folded, as far as its own row and its newest lease tell. Its operations must be gone too.
#[must_use]
pub fn is_foldable(
    namespace: &NamespaceRow,
    row: &ResourceRow,
    lease: Option<&LeaseRow>,
    kept: Millis,
    now: Timestamp,
) -> bool {
    let is_old = row.changed_at.plus(kept) <= now;
    // A lease over several resources is told by all of them how it ended.
    let is_owned = lease.map_or(row.lease.is_some(), |lease| {
        let ended = lease.ended_at.is_some_and(|at| at.plus(KEPT_AFTER_END) <= now);
        lease.state.is_live() || !ended || !lease.others.is_empty()
    });
    let is_waited_for = row.queue.waiting(now) > 0;
    folds(namespace)
        && row.life == Life::Deleted
        && row.quarantined.is_none()
        && is_old
        && !is_owned
        && !is_waited_for
        && row.has_fenced(row.issued.or_higher(row.floor), namespace.epoch)
}

/// Folds those that may be folded.
pub(super) fn fold(
    snapshot: &Snapshot,
    before: &NamespaceRow,
    resources: &[ResourceName],
    kept: Millis,
    now: Timestamp,
) -> Decision {
    let (mut changes, mut after) = (Vec::new(), before.clone());
    for row in resources.iter().filter_map(|name| snapshot.resource(name)) {
        let newest = row.lease.and_then(|place| snapshot.lease(&place.acquisition));
        let is_recorded = snapshot.operations().any(|record| record.resource == row.resource);
        let is_undecided = snapshot.intents_of(&row.resource).next().is_some();
        if row.resource.namespace() != before.namespace
            || is_recorded
            || is_undecided
            || !is_foldable(before, row, newest, kept, now)
        {
            continue;
        }
        let revoked = row.revoked_through.unwrap_or_default();
        if !deliberate::on(Bug::TombstoneRemoved) {
            after.base = after.base.or_higher(row.issued).or_higher(row.floor).or_higher(revoked);
        }
        after.base_incarnation = after.base_incarnation.max(row.incarnation);
        changes.extend(newest.map(|lease| Change::LeaseForgotten(Box::new(lease.clone()))));
        changes.push(Change::ResourceFolded(Box::new(row.clone())));
    }
    if *before != after {
        // The base comes first: no row goes whose counters it does not hold.
        let (before, after) = (Box::new(before.clone()), Box::new(after));
        changes.insert(0, Change::NamespaceChanged { before, after });
    }
    Decision { outcome: Outcome::Tidied, changes }
}
