//! What a part of a statement is, and the parts that write resources, their content and their operations.

use crate::limits::REFUSALS_KEPT;

use super::super::fault::Fault;
use super::super::tuples::Shape;

/// A statement over rows of one shape, which stand in for `{}`.
pub(super) struct Part {
    pub(super) table: &'static str,
    pub(super) shape: Shape,
    pub(super) text: &'static str,
    pub(super) expects: Expects,
}

/// How many rows a part must change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expects {
    /// One for each, or rules and rows contradict each other.
    Each,
    /// One for each, or somebody else was first.
    EachUnlessOvertaken,
    /// 256 for each, or rules and rows contradict each other.
    EachCopy,
    /// 256 for each, or somebody else was first.
    EachCopyUnlessOvertaken,
    /// However many there are.
    Any,
}

/// Copies of a namespace: one per bucket.
const COPIES: u64 = 256;

pub(super) const RESOURCES_INSERT: Part = Part {
    table: "resources",
    shape: Shape::NewResource,
    text: "INSERT INTO resources (bucket, resource, incarnation, born_epoch, born_token, life, issued_epoch, \
           issued_token, floor_epoch, floor_token, revoked_epoch, revoked_token, applied_epoch, applied_token, \
           applied_sequence, commit_no, pruned_epoch, pruned_token, pruned_sequence, lease, last_operation, \
           changed_ms, lease_bucket, queue, reason, quarantined, cell, barrier_epoch, barrier_token) SELECT v.* FROM unnest({}) AS v ON CONFLICT DO NOTHING RETURNING 1",
    expects: Expects::EachUnlessOvertaken,
};

macro_rules! update_resources {
    ($seen:literal) => {
        concat!(
            "UPDATE resources AS r SET incarnation = v.incarnation, born_epoch = v.born_epoch, \
             born_token = v.born_token, life = v.life, issued_epoch = v.issued_epoch, issued_token = v.issued_token, \
             floor_epoch = v.floor_epoch, floor_token = v.floor_token, revoked_epoch = v.revoked_epoch, \
             revoked_token = v.revoked_token, applied_epoch = v.applied_epoch, applied_token = v.applied_token, \
             applied_sequence = v.applied_sequence, commit_no = v.commit_no, pruned_epoch = v.pruned_epoch, \
             pruned_token = v.pruned_token, pruned_sequence = v.pruned_sequence, lease = v.lease, \
             last_operation = v.last_operation, changed_ms = v.changed_ms, \
             lease_bucket = v.lease_bucket, queue = v.queue, reason = v.reason, quarantined = v.quarantined, \
             cell = v.cell, barrier_epoch = v.barrier_epoch, barrier_token = v.barrier_token \
             FROM unnest({}) AS v WHERE ",
            $seen,
            // The fence itself: even for a row that is as the decision saw it, no register goes back. A barrier that is
            // not there is the lowest.
            " AND r.bucket = v.bucket AND r.resource = v.resource \
             AND (r.floor_epoch, r.floor_token) <= (v.floor_epoch, v.floor_token) \
             AND (r.issued_epoch, r.issued_token) <= (v.issued_epoch, v.issued_token) \
             AND r.commit_no <= v.commit_no AND r.incarnation <= v.incarnation \
             AND (r.barrier_epoch IS NULL \
                  OR (r.barrier_epoch, r.barrier_token) <= (v.barrier_epoch, v.barrier_token)) RETURNING 1"
        )
    };
}

/// Of a row that lies where it was read, and has been held since.
pub(super) const RESOURCES_REPLACE: Part = Part {
    table: "resources",
    shape: Shape::PlacedResource,
    text: update_resources!("r.ctid = v.place"),
    expects: Expects::Each,
};

/// Of a row that has every register as the decision saw it.
pub(super) const RESOURCES_UPDATE: Part = Part {
    table: "resources",
    shape: Shape::ChangedResource,
    text: update_resources!(
        "r.incarnation = v.seen_incarnation AND r.life = v.seen_life \
         AND r.issued_epoch = v.seen_issued_epoch AND r.issued_token = v.seen_issued_token \
         AND r.floor_epoch = v.seen_floor_epoch AND r.floor_token = v.seen_floor_token \
         AND r.revoked_epoch IS NOT DISTINCT FROM v.seen_revoked_epoch \
         AND r.revoked_token IS NOT DISTINCT FROM v.seen_revoked_token \
         AND r.applied_epoch IS NOT DISTINCT FROM v.seen_applied_epoch \
         AND r.applied_token IS NOT DISTINCT FROM v.seen_applied_token \
         AND r.applied_sequence IS NOT DISTINCT FROM v.seen_applied_sequence \
         AND r.commit_no = v.seen_commit_no AND r.lease IS NOT DISTINCT FROM v.seen_lease"
    ),
    expects: Expects::Each,
};

pub(super) const ERAS_INSERT: Part = Part {
    table: "incarnations",
    shape: Shape::NewEra,
    text: "INSERT INTO incarnations (bucket, resource, born_epoch, born_token, incarnation) \
           SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

pub(super) const TARGETS_CLEAR: Part = Part {
    table: "targets",
    shape: Shape::KeyNamed,
    text: "DELETE FROM targets AS t USING unnest({}) AS k WHERE t.bucket = k.bucket AND t.resource = k.name \
           RETURNING 1",
    expects: Expects::Any,
};

pub(super) const TARGETS_REMOVE: Part = Part {
    table: "targets",
    shape: Shape::KeyTarget,
    text: "DELETE FROM targets AS t USING unnest({}) AS k WHERE t.bucket = k.bucket AND t.resource = k.resource \
           AND t.target = k.target RETURNING 1",
    expects: Expects::Any,
};

/// Content is replaced only by that of a later commit.
pub(super) const TARGETS_STORE: Part = Part {
    table: "targets",
    shape: Shape::NewTarget,
    text: "INSERT INTO targets AS t (bucket, resource, target, incarnation, commit_no, content_type, size, digest, \
           body) SELECT v.* FROM unnest({}) AS v \
           ON CONFLICT (bucket, resource, target) DO UPDATE SET incarnation = excluded.incarnation, \
           commit_no = excluded.commit_no, content_type = excluded.content_type, size = excluded.size, \
           digest = excluded.digest, body = excluded.body WHERE t.commit_no < excluded.commit_no RETURNING 1",
    expects: Expects::Each,
};

/// The same for content that lies where it was read. Its resource has been held since.
pub(super) const TARGETS_REPLACE: Part = Part {
    table: "targets",
    shape: Shape::PlacedTarget,
    text: "UPDATE targets AS t SET incarnation = v.incarnation, commit_no = v.commit_no, \
           content_type = v.content_type, size = v.size, digest = v.digest, body = v.body FROM unnest({}) AS v \
           WHERE t.ctid = v.place AND t.bucket = v.bucket AND t.resource = v.resource AND t.target = v.target \
           AND t.commit_no < v.commit_no RETURNING 1",
    expects: Expects::Each,
};

pub(super) const OPERATIONS_INSERT: Part = Part {
    table: "operations",
    shape: Shape::NewOperation,
    text: "INSERT INTO operations (bucket, resource, incarnation, operation_id, target, method, fingerprint, \
           position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, decided_ms, done, \
           commit_no, etag_incarnation, etag_commit, response, relayed_status, relayed_headers, relayed_etag, \
           omitted_length, omitted_digest, resolution) SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

pub(super) const AUDIT_INSERT: Part = Part {
    table: "audit",
    shape: Shape::NewAudit,
    text: "INSERT INTO audit (bucket, resource, at_ms, transaction_id, ordinal, verb, position_epoch, \
           position_token, reason, holder, actor) SELECT v.bucket, v.resource, v.at_ms, \
           pg_current_xact_id()::text::bigint, v.ordinal, v.verb, v.position_epoch, v.position_token, v.reason, \
           v.holder, v.actor FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

/// The next places of each resource's ring, over whatever stood there. What was never heard of gets none: its names would
/// have no bound.
pub(super) const REFUSALS_NOTE: Part = Part {
    table: "refusals",
    shape: Shape::NotedRefusal,
    text: "INSERT INTO refusals (bucket, resource, slot, number, at_ms, code, presented_epoch, presented_token, \
           operation_id, times) SELECT v.bucket, v.resource, (n.next + v.place) % 16, n.next + v.place, v.at_ms, v.code, \
           v.presented_epoch, v.presented_token, v.operation_id, v.times FROM (\
           SELECT u.*, row_number() OVER (PARTITION BY u.bucket, u.resource ORDER BY u.at_ms, u.code) - 1 AS place \
           FROM unnest({}) AS u) AS v CROSS JOIN LATERAL (\
           SELECT coalesce(max(f.number) + 1, 0) AS next FROM refusals AS f \
           WHERE f.bucket = v.bucket AND f.resource = v.resource COLLATE \"C\") AS n WHERE v.place < 16 AND EXISTS (\
           SELECT 1 FROM resources AS r WHERE r.bucket = v.bucket AND r.resource = v.resource COLLATE \"C\") \
           ORDER BY 1, 2, 3 ON CONFLICT (bucket, resource, slot) DO UPDATE SET number = excluded.number, \
           at_ms = excluded.at_ms, code = excluded.code, presented_epoch = excluded.presented_epoch, \
           presented_token = excluded.presented_token, operation_id = excluded.operation_id, times = excluded.times \
           RETURNING 1",
    expects: Expects::Any,
};

// The text says it as a literal.
const _: () = assert!(REFUSALS_KEPT == 16);

impl Part {
    pub(super) fn judge(&self, rows: u64, found: u64) -> Result<(), Fault> {
        let table = self.table;
        let (wanted, short) = match self.expects {
            Expects::Any => return Ok(()),
            Expects::Each => (rows, Fault::Disagreed { table, wanted: rows, found }),
            Expects::EachCopy => {
                let wanted = rows.saturating_mul(COPIES);
                (wanted, Fault::Disagreed { table, wanted, found })
            }
            Expects::EachUnlessOvertaken => (rows, Fault::Overtaken { table }),
            Expects::EachCopyUnlessOvertaken => (rows.saturating_mul(COPIES), Fault::Overtaken { table }),
        };
        if found == wanted { Ok(()) } else { Err(short) }
    }
}
