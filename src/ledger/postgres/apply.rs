//! The changes of a batch, written in one statement, or in two where earlier content is cleared away first.
//!
//! The fence is repeated in the predicates and the rows are counted: fewer rows than the rules admitted means that
//! database and rules disagree, and then nothing is committed. Where a row did not exist nobody could hold it: then
//! somebody else may have been first, and the batch is decided anew. Nothing here replaces a row that it does not
//! expect.

use sqlx::postgres::PgArguments;
use sqlx::{Arguments, AssertSqlSafe, Row};

use crate::domain::resource::Address;
use crate::protocol::rows::{AuditRow, ResourceRow};

use super::super::changeset::{ChangeSet, RowChange, TargetChange};
use super::super::rows;
use super::cells;
use super::connect::Live;
use super::fate::TransactionId;
use super::fault::{self, Fault};
use super::load::Places;
use super::tuples::{RowPlace, Shape, Tuples};

mod leases;

use leases::{CONTROLS_INSERT, LEASES_FORGET, LEASES_INSERT, LEASES_UPDATE};

/// A statement over rows of one shape, which stand in for `{}`.
struct Part {
    table: &'static str,
    shape: Shape,
    text: &'static str,
    expects: Expects,
}

/// How many rows a part must change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    /// One for each, or rules and rows contradict each other.
    Each,
    /// One for each, or somebody else was first.
    EachUnlessOvertaken,
    /// 256 for each, or somebody else was first.
    EachCopyUnlessOvertaken,
    /// However many there are.
    Any,
}

/// Copies of a namespace: one per bucket.
const COPIES: u64 = 256;

const NAMESPACES_INSERT: Part = Part {
    table: "namespaces",
    shape: Shape::NewNamespace,
    text: "INSERT INTO namespaces (bucket, namespace, epoch, base_epoch, base_token, base_incarnation, definition, \
           version) SELECT b.bucket::smallint, v.namespace, v.epoch, v.base_epoch, v.base_token, v.base_incarnation, \
           v.definition, v.version FROM unnest({}) AS v CROSS JOIN generate_series(0, 255) AS b (bucket) \
           ORDER BY b.bucket, v.namespace COLLATE \"C\" ON CONFLICT DO NOTHING RETURNING 1",
    expects: Expects::EachCopyUnlessOvertaken,
};

const RESOURCES_INSERT: Part = Part {
    table: "resources",
    shape: Shape::NewResource,
    text: "INSERT INTO resources (bucket, resource, incarnation, born_epoch, born_token, life, issued_epoch, \
           issued_token, floor_epoch, floor_token, revoked_epoch, revoked_token, applied_epoch, applied_token, \
           applied_sequence, commit_no, pruned_epoch, pruned_token, pruned_sequence, lease, last_operation, \
           changed_ms, lease_bucket, queue, reason) SELECT v.* FROM unnest({}) AS v ON CONFLICT DO NOTHING RETURNING 1",
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
             lease_bucket = v.lease_bucket, queue = v.queue, reason = v.reason FROM unnest({}) AS v WHERE ",
            $seen,
            // The fence itself: even for a row that is as the decision saw it, no register goes back.
            " AND r.bucket = v.bucket AND r.resource = v.resource \
             AND (r.floor_epoch, r.floor_token) <= (v.floor_epoch, v.floor_token) \
             AND (r.issued_epoch, r.issued_token) <= (v.issued_epoch, v.issued_token) \
             AND r.commit_no <= v.commit_no AND r.incarnation <= v.incarnation RETURNING 1"
        )
    };
}

/// Of a row that lies where it was read, and has been held since.
const RESOURCES_REPLACE: Part = Part {
    table: "resources",
    shape: Shape::PlacedResource,
    text: update_resources!("r.ctid = v.place"),
    expects: Expects::Each,
};

/// Of a row that has every register as the decision saw it.
const RESOURCES_UPDATE: Part = Part {
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

const ERAS_INSERT: Part = Part {
    table: "incarnations",
    shape: Shape::NewEra,
    text: "INSERT INTO incarnations (bucket, resource, born_epoch, born_token, incarnation) \
           SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

const TARGETS_CLEAR: Part = Part {
    table: "targets",
    shape: Shape::KeyNamed,
    text: "DELETE FROM targets AS t USING unnest({}) AS k WHERE t.bucket = k.bucket AND t.resource = k.name \
           RETURNING 1",
    expects: Expects::Any,
};

const TARGETS_REMOVE: Part = Part {
    table: "targets",
    shape: Shape::KeyTarget,
    text: "DELETE FROM targets AS t USING unnest({}) AS k WHERE t.bucket = k.bucket AND t.resource = k.resource \
           AND t.target = k.target RETURNING 1",
    expects: Expects::Any,
};

/// Content is replaced only by that of a later commit.
const TARGETS_STORE: Part = Part {
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
const TARGETS_REPLACE: Part = Part {
    table: "targets",
    shape: Shape::PlacedTarget,
    text: "UPDATE targets AS t SET incarnation = v.incarnation, commit_no = v.commit_no, \
           content_type = v.content_type, size = v.size, digest = v.digest, body = v.body FROM unnest({}) AS v \
           WHERE t.ctid = v.place AND t.bucket = v.bucket AND t.resource = v.resource AND t.target = v.target \
           AND t.commit_no < v.commit_no RETURNING 1",
    expects: Expects::Each,
};

const OPERATIONS_INSERT: Part = Part {
    table: "operations",
    shape: Shape::NewOperation,
    text: "INSERT INTO operations (bucket, resource, incarnation, operation_id, target, method, fingerprint, \
           position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, decided_ms, done, \
           commit_no, etag_incarnation, etag_commit, response) SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

const AUDIT_INSERT: Part = Part {
    table: "audit",
    shape: Shape::NewAudit,
    text: "INSERT INTO audit (bucket, resource, at_ms, transaction_id, ordinal, verb, position_epoch, \
           position_token, reason) SELECT v.bucket, v.resource, v.at_ms, \
           pg_current_xact_id()::text::bigint, v.ordinal, v.verb, v.position_epoch, v.position_token, v.reason \
           FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

/// What one statement does: rows for each of its parts.
#[derive(Default)]
pub(super) struct Work {
    parts: Vec<(&'static Part, Tuples)>,
}

/// The changes of a batch, ready to be sent: removals first, for in one statement no part sees what another one did.
pub(super) fn prepare(changes: &ChangeSet, places: &Places) -> Vec<Work> {
    let mut first = Work::default();
    first.add(&TARGETS_CLEAR, changes.cleared.iter().enumerate(), cells::cleared);
    first.add(&TARGETS_REMOVE, cells::removed(changes).enumerate(), cells::removal);

    let mut then = Work::default();
    then.add(&NAMESPACES_INSERT, changes.namespaces.values(), rows::write_namespace);
    let (new, known) = split(changes.resources.values());
    then.add(&RESOURCES_INSERT, new, cells::resource);
    let place = |row: &ResourceRow| places.resources.get(&row.resource).copied();
    let lying = known.iter().filter_map(|(_, after)| place(after).map(|place| (place, *after)));
    then.add(&RESOURCES_REPLACE, lying, cells::placed);
    let elsewhere = known.iter().filter(|(_, after)| place(after).is_none());
    then.add(&RESOURCES_UPDATE, elsewhere.copied(), cells::changed_resource);
    then.add(&ERAS_INSERT, &changes.eras, cells::era);
    let (replaced, stored) = contents(changes, places);
    then.add(&TARGETS_REPLACE, replaced, cells::replaced);
    then.add(&TARGETS_STORE, stored, cells::stored);
    then.add(&OPERATIONS_INSERT, &changes.operations, cells::operation);
    let (granted, ended_or_renewed) = split(changes.leases.values());
    then.add(&LEASES_INSERT, granted, rows::write_lease);
    then.add(&LEASES_UPDATE, ended_or_renewed, rows::write_lease_change);
    then.add(&LEASES_FORGET, &changes.forgotten, rows::write_forgotten);
    then.add(&CONTROLS_INSERT, &changes.controls, rows::write_control);
    then.add(&AUDIT_INSERT, numbered(&changes.audit), cells::audit);
    [first, then].into_iter().filter(|work| !work.parts.is_empty()).collect()
}

fn numbered(audit: &[AuditRow]) -> impl Iterator<Item = (usize, &AuditRow)> {
    audit.iter().enumerate()
}

type Stored<'c> = (&'c Address, &'c TargetChange);

/// New content: that which comes in the place of earlier content, and all other.
fn contents<'c>(changes: &'c ChangeSet, places: &Places) -> (Vec<(RowPlace, Stored<'c>)>, Vec<Stored<'c>>) {
    let (mut replaced, mut stored) = (Vec::new(), Vec::new());
    for (address, change) in &changes.targets {
        let place = match change {
            TargetChange::Removed => continue,
            TargetChange::Stored { .. } if changes.cleared.contains(&address.resource) => None,
            TargetChange::Stored { .. } => places.targets.get(address),
        };
        match place {
            Some(place) => replaced.push((*place, (address, change))),
            None => stored.push((address, change)),
        }
    }
    (replaced, stored)
}

/// Rows that are new, and rows that were there.
fn split<'c, T>(changes: impl Iterator<Item = &'c RowChange<T>>) -> (Vec<&'c T>, Vec<(&'c T, &'c T)>) {
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for RowChange { before, after } in changes {
        match before {
            None => new.push(after),
            Some(before) => known.push((before, after)),
        }
    }
    (new, known)
}

impl Work {
    fn add<T>(
        &mut self,
        part: &'static Part,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Tuples, T),
    ) {
        let tuples = Tuples::filled(part.shape, items, fill);
        if !tuples.is_empty() {
            self.parts.push((part, tuples));
        }
    }

    /// Whether it uses a name for the first time, which somebody else may do at the same moment.
    fn begins_something(&self) -> bool {
        self.parts.iter().any(|(part, _)| match part.expects {
            Expects::EachUnlessOvertaken | Expects::EachCopyUnlessOvertaken => true,
            Expects::Each | Expects::Any => false,
        })
    }

    /// One statement for all parts, which answers how many rows each of them changed, and then the transaction's id.
    fn text(parts: impl Iterator<Item = &'static Part>) -> String {
        let (mut text, mut counts) = (String::from("WITH "), String::from(" SELECT "));
        for (index, part) in parts.enumerate() {
            let number = index.saturating_add(1);
            if index > 0 {
                text.push_str(", ");
                counts.push_str(", ");
            }
            let one = part.text.replacen("{}", &format!("${number}"), 1);
            for piece in ["p", &number.to_string(), " AS (", &one, ")"] {
                text.push_str(piece);
            }
            for piece in ["(SELECT count(*) FROM p", &number.to_string(), ")"] {
                counts.push_str(piece);
            }
        }
        text.push_str(&counts);
        text.push_str(", pg_current_xact_id()::text::bigint");
        text
    }

    async fn run(&self, live: &mut Live) -> Result<TransactionId, Fault> {
        let mut arguments = PgArguments::default();
        for (_, tuples) in &self.parts {
            let added = arguments.add(live.shapes.argument(tuples)?);
            added.map_err(|error| Fault::unreadable(error.to_string()))?;
        }
        let text = Self::text(self.parts.iter().map(|(part, _)| *part));
        let answer = live.fetch(AssertSqlSafe(text), arguments).await;
        let rows = match answer {
            Ok(rows) => rows,
            // Of two who use a name for the first time one writes everything; the other one meets its rows.
            Err(Fault::Sql(error)) if fault::is_duplicate(&error) && self.begins_something() => {
                return Err(Fault::Overtaken { table: "first use" });
            }
            Err(fault) => return Err(fault),
        };
        let row = rows.first().ok_or_else(|| Fault::unreadable("a statement without its counts"))?;
        for (index, (part, tuples)) in self.parts.iter().enumerate() {
            let found: i64 = row.try_get(index)?;
            part.judge(tuples.count(), u64::try_from(found).unwrap_or_default())?;
        }
        Ok(TransactionId(row.try_get(self.parts.len())?))
    }
}

impl Part {
    fn judge(&self, rows: u64, found: u64) -> Result<(), Fault> {
        let table = self.table;
        let (wanted, short) = match self.expects {
            Expects::Any => return Ok(()),
            Expects::Each => (rows, Fault::Disagreed { table, wanted: rows, found }),
            Expects::EachUnlessOvertaken => (rows, Fault::Overtaken { table }),
            Expects::EachCopyUnlessOvertaken => (rows.saturating_mul(COPIES), Fault::Overtaken { table }),
        };
        if found == wanted { Ok(()) } else { Err(short) }
    }
}

/// Writes a batch. A transaction is open; the caller commits it, and can ask for its fate by its id.
pub(super) async fn write(live: &mut Live, work: &[Work]) -> Result<Option<TransactionId>, Fault> {
    let mut id = None;
    for one in work {
        id = Some(one.run(live).await?);
    }
    Ok(id)
}

#[cfg(test)]
impl Work {
    pub(super) fn statement(&self) -> String {
        Self::text(self.parts.iter().map(|(part, _)| *part))
    }
}

/// Shape and text of every part.
#[cfg(test)]
pub(super) fn parts() -> Vec<(Shape, &'static str)> {
    let parts = [
        NAMESPACES_INSERT,
        RESOURCES_INSERT,
        RESOURCES_REPLACE,
        RESOURCES_UPDATE,
        ERAS_INSERT,
        TARGETS_CLEAR,
        TARGETS_REMOVE,
        TARGETS_STORE,
        TARGETS_REPLACE,
        OPERATIONS_INSERT,
        LEASES_INSERT,
        LEASES_UPDATE,
        AUDIT_INSERT,
    ];
    parts.iter().map(|part| (part.shape, part.text)).collect()
}
