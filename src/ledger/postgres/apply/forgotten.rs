//! The parts that take away what is kept no longer.

use super::super::super::changeset::ChangeSet;
use super::super::cells;
use super::super::tuples::Shape;
use super::Work;
use super::parts::{Expects, Part};

const OPERATIONS_FORGET: Part = Part {
    table: "operations",
    shape: Shape::KeyOperation,
    text: "DELETE FROM operations AS o USING unnest({}) AS k WHERE o.bucket = k.bucket AND o.resource = k.resource \
           AND o.incarnation = k.incarnation AND o.operation_id = k.operation_id RETURNING 1",
    expects: Expects::Each,
};

const ERAS_FORGET: Part = Part {
    table: "incarnations",
    shape: Shape::NewEra,
    text: "DELETE FROM incarnations AS i USING unnest({}) AS k WHERE i.bucket = k.bucket \
           AND i.resource = k.resource AND i.born_epoch = k.born_epoch AND i.born_token = k.born_token \
           AND i.incarnation = k.incarnation RETURNING 1",
    expects: Expects::Each,
};

/// Nothing holds these, so that another gateway may have been first.
const CONTROLS_FORGET: Part = Part {
    table: "controls",
    shape: Shape::KeyControl,
    text: "DELETE FROM controls AS c USING unnest({}) AS k WHERE c.bucket = k.bucket AND c.resource = k.resource \
           AND c.verb = k.verb AND c.key = k.key RETURNING 1",
    expects: Expects::Any,
};

/// Through the index by time, past what another gateway is taking away: [`crate::limits::AUDIT_PRUNED_AT_ONCE`].
const AUDIT_FORGET: Part = Part {
    table: "audit",
    shape: Shape::AgedAudit,
    text: "DELETE FROM audit AS a USING (SELECT b.bucket, b.place FROM unnest({}) AS k CROSS JOIN LATERAL (\
           SELECT a.bucket, a.ctid AS place FROM audit AS a WHERE a.at_ms < k.before_ms \
           ORDER BY a.at_ms LIMIT 256 FOR UPDATE SKIP LOCKED) AS b) AS v \
           WHERE a.bucket = v.bucket AND a.ctid = v.place RETURNING 1",
    expects: Expects::Any,
};

/// Of a tombstone that has every register as the decision saw it.
const RESOURCES_FOLD: Part = Part {
    table: "resources",
    shape: Shape::ChangedResource,
    text: "DELETE FROM resources AS r USING unnest({}) AS v WHERE r.bucket = v.bucket AND r.resource = v.resource \
           AND r.life = 'deleted' AND r.incarnation = v.seen_incarnation AND r.life = v.seen_life \
           AND r.issued_epoch = v.seen_issued_epoch AND r.issued_token = v.seen_issued_token \
           AND r.floor_epoch = v.seen_floor_epoch AND r.floor_token = v.seen_floor_token \
           AND r.revoked_epoch IS NOT DISTINCT FROM v.seen_revoked_epoch \
           AND r.revoked_token IS NOT DISTINCT FROM v.seen_revoked_token \
           AND r.commit_no = v.seen_commit_no AND r.lease IS NOT DISTINCT FROM v.seen_lease RETURNING 1",
    expects: Expects::Each,
};

const ERAS_FOLD: Part = Part {
    table: "incarnations",
    shape: Shape::KeyNamed,
    text: "DELETE FROM incarnations AS i USING unnest({}) AS k WHERE i.bucket = k.bucket AND i.resource = k.name \
           RETURNING 1",
    expects: Expects::Any,
};

const TARGETS_FOLD: Part = Part {
    table: "targets",
    shape: Shape::KeyNamed,
    text: "DELETE FROM targets AS t USING unnest({}) AS k WHERE t.bucket = k.bucket AND t.resource = k.name \
           RETURNING 1",
    expects: Expects::Any,
};

const REFUSALS_FOLD: Part = Part {
    table: "refusals",
    shape: Shape::KeyNamed,
    text: "DELETE FROM refusals AS f USING unnest({}) AS k WHERE f.bucket = k.bucket AND f.resource = k.name \
           RETURNING 1",
    expects: Expects::Any,
};

#[cfg(test)]
pub(super) const PARTS: [Part; 8] = [
    OPERATIONS_FORGET,
    ERAS_FORGET,
    CONTROLS_FORGET,
    AUDIT_FORGET,
    RESOURCES_FOLD,
    ERAS_FOLD,
    TARGETS_FOLD,
    REFUSALS_FOLD,
];

impl Work {
    /// Before anything else: what is folded may be heard of again in the same batch.
    pub(super) fn forget(&mut self, changes: &ChangeSet) {
        self.add(&OPERATIONS_FORGET, changes.pruned.iter().enumerate(), cells::pruned);
        self.add(&ERAS_FORGET, &changes.forgotten_eras, cells::era);
        self.add(&CONTROLS_FORGET, changes.forgotten_controls.iter().enumerate(), cells::forgotten_control);
        self.add(&AUDIT_FORGET, changes.forgotten_audit, cells::aged_audit);
        self.add(&RESOURCES_FOLD, changes.folded.iter().map(|row| (row, row)), cells::changed_resource);
        let names = || changes.folded.iter().map(|row| &row.resource).enumerate();
        self.add(&ERAS_FOLD, names(), cells::cleared);
        self.add(&TARGETS_FOLD, names(), cells::cleared);
        self.add(&REFUSALS_FOLD, names(), cells::cleared);
    }
}
