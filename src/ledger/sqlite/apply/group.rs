//! All that a batch changes in one resource: its row with the whole-path document, what stands below it, and its
//! operations. The row is written once, however many writes the batch has for it.

use std::collections::BTreeMap;

use bytes::Bytes;
use rusqlite::Connection;

use crate::deliberate::{self, Bug};
use crate::domain::position::Position;
use crate::domain::resource::{ResourceName, Target};
use crate::domain::time::Timestamp;
use crate::limits::SQLITE_BODY_BESIDE_BYTES;
use crate::protocol::rows::{OperationRecord, ResourceRow, TargetRow};

use super::super::super::cells::WriteCells;
use super::super::super::changeset::{ChangeSet, RowChange, TargetChange};
use super::super::fault::Fault;
use super::super::load::found_resource;
use super::super::recent::{Key, Recent, hash_of};
use super::super::rows::{self, Floor, Place};
use super::super::values::{Values, run, run_once};
use super::forgotten;
use super::operations::{self, Numbered};

const RESOURCE_INSERT: &str = "INSERT INTO resources (incarnation, born_epoch, born_token, life, issued_epoch, \
     issued_token, floor_epoch, floor_token, revoked_epoch, revoked_token, applied_epoch, applied_token, \
     applied_sequence, commit_no, pruned_epoch, pruned_token, pruned_sequence, lease, last_operation, changed_ms, \
     lease_bucket, queue, reason, quarantined, cell, barrier_epoch, barrier_token, newest_operation, indexed, recent, \
     bucket, resource, doc_incarnation, doc_commit, doc_type, doc_size, doc_digest, doc_body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
     ?21, ?22, ?23, ?24, ?25, ?26, ?27, \
     ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38)";

/// Values 1 to 27 are the new row, 34 to 46 what the decision saw. The last lines are the fence itself: even for a row
/// that is as the decision saw it, no register goes back. A barrier that is not there is the lowest.
macro_rules! resource_update {
    ($columns:literal, $condition:literal) => {
        concat!(
            "UPDATE resources SET incarnation = ?1, born_epoch = ?2, born_token = ?3, life = ?4, issued_epoch = ?5, \
             issued_token = ?6, floor_epoch = ?7, floor_token = ?8, revoked_epoch = ?9, revoked_token = ?10, \
             applied_epoch = ?11, applied_token = ?12, applied_sequence = ?13, commit_no = ?14, pruned_epoch = ?15, \
             pruned_token = ?16, pruned_sequence = ?17, lease = ?18, last_operation = ?19, changed_ms = ?20, \
             lease_bucket = ?21, queue = ?22, reason = ?23, quarantined = ?24, cell = ?25, barrier_epoch = ?26, \
             barrier_token = ?27, newest_operation = ?28, indexed = ?29, recent = ?30",
            $columns,
            " WHERE id = ?31 AND bucket = ?32 AND resource = ?33 AND incarnation = ?34 AND life = ?35 \
             AND issued_epoch = ?36 AND issued_token = ?37 AND floor_epoch = ?38 AND floor_token = ?39 \
             AND revoked_epoch IS ?40 AND revoked_token IS ?41 AND applied_epoch IS ?42 AND applied_token IS ?43 \
             AND applied_sequence IS ?44 AND commit_no = ?45 AND lease IS ?46 \
             AND (floor_epoch, floor_token) <= (?7, ?8) AND (issued_epoch, issued_token) <= (?5, ?6) \
             AND commit_no <= ?14 AND incarnation <= ?1 \
             AND (barrier_epoch IS NULL OR (barrier_epoch, barrier_token) <= (?26, ?27))",
            $condition
        )
    };
}

/// The document stays as it is.
const RESOURCE_UPDATE: &str = resource_update!("", "");

/// Content is replaced only by that of a later commit; without content, only the columns are emptied.
const RESOURCE_AND_DOCUMENT_UPDATE: &str = resource_update!(
    ", doc_incarnation = ?47, doc_commit = ?48, doc_type = ?49, doc_size = ?50, doc_digest = ?51, doc_body = ?52",
    " AND (?48 IS NULL OR doc_commit IS NULL OR doc_commit < ?48)"
);

/// The way to the operations alone: one that had no effect changes no register.
const OPERATIONS_UPDATE: &str = "UPDATE resources SET newest_operation = ?1, indexed = ?2, recent = ?3 \
     WHERE id = ?4 AND bucket = ?5 AND resource = ?6 AND newest_operation IS ?7";

const BODY_STORE: &str = "INSERT INTO bodies (bucket, resource_id, body) VALUES (?1, ?2, ?3) \
                          ON CONFLICT (bucket, resource_id) DO UPDATE SET body = excluded.body";

const BODY_REMOVE: &str = "DELETE FROM bodies WHERE bucket = ?1 AND resource_id = ?2";

const TARGETS_CLEAR: &str = "DELETE FROM targets WHERE bucket = ?1 AND resource_id = ?2";

const TARGET_REMOVE: &str = "DELETE FROM targets WHERE bucket = ?1 AND resource_id = ?2 AND target = ?3";

/// Content is replaced only by that of a later commit.
const TARGET_STORE: &str = "INSERT INTO targets (bucket, resource_id, target, incarnation, commit_no, content_type, \
     size, digest, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
     ON CONFLICT (bucket, resource_id, target) DO UPDATE SET incarnation = excluded.incarnation, \
     commit_no = excluded.commit_no, content_type = excluded.content_type, size = excluded.size, \
     digest = excluded.digest, body = excluded.body WHERE targets.commit_no < excluded.commit_no";

/// What becomes of one resource.
pub(super) struct Group<'a> {
    /// None where no register changes.
    row: Option<&'a RowChange<ResourceRow>>,
    /// When an operation was announced that is undecided still, and the highest position of such ones.
    announced: Option<(Timestamp, Position)>,
    operations: Vec<Numbered<'a>>,
    pruned: Vec<&'a OperationRecord>,
    cleared: bool,
    document: Option<&'a TargetChange>,
    targets: Vec<(&'a Target, &'a TargetChange)>,
}

/// The changes by resource; operations are numbered from the one after `operations`. What is stored always changes its
/// resource too; an operation that had no effect may be recorded in the very millisecond in which the row last changed.
pub(super) fn groups(
    changes: &ChangeSet,
    operations: i64,
) -> Result<BTreeMap<&ResourceName, Group<'_>>, Fault> {
    let group = |row| Group {
        row,
        announced: None,
        operations: Vec::new(),
        pruned: Vec::new(),
        cleared: false,
        document: None,
        targets: Vec::new(),
    };
    let mut groups: BTreeMap<&ResourceName, Group<'_>> =
        changes.resources.iter().map(|(name, row)| (name, group(Some(row)))).collect();
    let mut id = operations;
    for record in &changes.operations {
        id = id.saturating_add(1);
        let key = Key { hash: hash_of(&record.operation_id), operation: id };
        let has_effect = record.response.as_ref().is_some_and(|response| response.commit.is_some());
        let group = if has_effect {
            group_of(&mut groups, &record.resource)?
        } else {
            groups.entry(&record.resource).or_insert_with(|| group(None))
        };
        group.operations.push(Numbered { key, record });
    }
    for (intent, _) in changes.announced_intents() {
        if let Some(group) = groups.get_mut(&intent.record.resource) {
            let (at, position) = group.announced.unwrap_or_default();
            let record = &intent.record;
            group.announced = Some((at.max(record.created_at), position.or_higher(record.position)));
        }
    }
    for record in &changes.pruned {
        groups.entry(&record.resource).or_insert_with(|| group(None)).pruned.push(record);
    }
    for resource in &changes.cleared {
        group_of(&mut groups, resource)?.cleared = true;
    }
    for (address, change) in &changes.targets {
        let group = group_of(&mut groups, &address.resource)?;
        match &address.target {
            None => group.document = Some(change),
            Some(target) => group.targets.push((target, change)),
        }
    }
    Ok(groups)
}

fn group_of<'g, 'a>(
    groups: &'g mut BTreeMap<&ResourceName, Group<'a>>,
    resource: &ResourceName,
) -> Result<&'g mut Group<'a>, Fault> {
    groups
        .get_mut(resource)
        .ok_or_else(|| Fault::unreadable(format!("a change in {resource:?} without one of its row")))
}

impl Group<'_> {
    /// Writes it. `place` is where the resource was found, if it was looked for.
    pub(super) fn write(
        &self,
        connection: &Connection,
        resource: &ResourceName,
        place: Option<&Place>,
    ) -> Result<(), Fault> {
        let Some(mut place) = self.place(connection, resource, place)? else {
            return Err(Fault::Disagreed { table: "resources", wanted: 1, found: 0 });
        };
        if self.is_only_announced(place.floor.written) {
            return Ok(());
        }
        forgotten::operations(connection, resource, &mut place, &self.pruned)?;
        let newest_before = place.newest;
        for one in &self.operations {
            place.newest = Some(one.key.operation);
            place.recent.push(one.key);
        }
        match self.row {
            Some(row) => self.write_row(connection, row, &mut place)?,
            None => write_way(connection, resource, &place, newest_before)?,
        }
        if deliberate::on(Bug::RecordAfterTheEffect) {
            connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
        }
        operations::write(connection, resource, &place, newest_before, &self.operations)?;
        if place.recent.is_full() {
            operations::index(connection, resource, place.id, std::mem::take(&mut place.recent))?;
        }
        self.write_targets(connection, resource, &place)
    }

    /// Whether nothing changes but the time and the floor, and both stand in an announcement of this batch and are read from
    /// there ([`super::super::load`]): so it is when something is sent. To leave the row alone spares a page of the log.
    fn is_only_announced(&self, written: Position) -> bool {
        let (Some(RowChange { before: Some(before), after }), Some((at, position))) =
            (self.row, self.announced)
        else {
            return false;
        };
        let is_alone = self.operations.is_empty() && self.targets.is_empty() && self.document.is_none();
        let is_told = at == after.changed_at && (after.floor == position || after.floor == written);
        is_told
            && is_alone
            && !self.cleared
            && ResourceRow { changed_at: before.changed_at, floor: before.floor, ..after.clone() } == *before
    }

    /// Where the resource stands; a new one stands nowhere yet.
    fn place(
        &self,
        connection: &Connection,
        resource: &ResourceName,
        place: Option<&Place>,
    ) -> Result<Option<Place>, Fault> {
        match (self.row.map(|row| &row.before), place) {
            (Some(None), _) => Ok(Some(Place {
                id: 0,
                newest: None,
                indexed: false,
                recent: Recent::default(),
                apart: false,
                floor: Floor::default(),
            })),
            (Some(Some(_)) | None, Some(place)) => Ok(Some(place.clone())),
            (Some(Some(_)) | None, None) => {
                Ok(found_resource(connection, resource)?.map(|(_, place, _)| place))
            }
        }
    }

    fn write_row(
        &self,
        connection: &Connection,
        RowChange { before, after }: &RowChange<ResourceRow>,
        place: &mut Place,
    ) -> Result<(), Fault> {
        let Some(before) = before else {
            run_once(connection, "resources", RESOURCE_INSERT, |values| {
                row_values(values, after, place);
                values.name(&after.resource);
                document_values(values, self.stored());
            })?;
            place.id = connection.last_insert_rowid();
            return Ok(());
        };
        let keeps_document = self.document.is_none() && !self.cleared;
        let text = if keeps_document { RESOURCE_UPDATE } else { RESOURCE_AND_DOCUMENT_UPDATE };
        run_once(connection, "resources", text, |values| {
            row_values(values, after, place);
            values.integer(place.id);
            values.name(&after.resource);
            // What the row says: its floor may have been seen raised by what was announced since.
            rows::write_seen(
                values,
                &ResourceRow { floor: place.floor.behind(before.floor), ..before.clone() },
            );
            if !keeps_document {
                document_values(values, self.stored());
            }
        })
    }

    /// The new whole-path document.
    fn stored(&self) -> Option<(&TargetRow, &Bytes)> {
        match self.document {
            Some(TargetChange::Stored { row, body }) => Some((row, body)),
            Some(TargetChange::Removed) | None => None,
        }
    }

    /// The bytes that stand apart, and what stands below the resource.
    fn write_targets(
        &self,
        connection: &Connection,
        resource: &ResourceName,
        place: &Place,
    ) -> Result<(), Fault> {
        let key = |values: &mut Values<'_, '_>| {
            values.bucket(resource.bucket());
            values.integer(place.id);
        };
        match self.stored().filter(|(_, body)| !stands_beside(body)) {
            Some((_, body)) => run_once(connection, "bodies", BODY_STORE, |values| {
                key(values);
                values.blob(body);
            })?,
            None if place.apart && (self.document.is_some() || self.cleared) => {
                run_once(connection, "bodies", BODY_REMOVE, key)?;
            }
            None => {}
        }
        if self.cleared {
            run(connection, TARGETS_CLEAR, key)?;
        }
        for (target, change) in &self.targets {
            match change {
                TargetChange::Removed => {
                    run(connection, TARGET_REMOVE, |values| {
                        key(values);
                        values.text(target.as_str());
                    })?;
                }
                TargetChange::Stored { row, body } => {
                    run_once(connection, "targets", TARGET_STORE, |values| {
                        key(values);
                        values.text(target.as_str());
                        rows::write_content(values, row);
                        values.blob(body);
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// The way to the operations, where nothing else of the row changes.
fn write_way(
    connection: &Connection,
    resource: &ResourceName,
    place: &Place,
    newest_before: Option<i64>,
) -> Result<(), Fault> {
    run_once(connection, "resources", OPERATIONS_UPDATE, |values| {
        way_values(values, place);
        values.integer(place.id);
        values.name(resource);
        values.maybe_integer(newest_before);
    })
}

fn stands_beside(body: &Bytes) -> bool {
    body.len() <= SQLITE_BODY_BESIDE_BYTES
}

/// The registers and the way to the operations: 30 values.
fn row_values(values: &mut Values<'_, '_>, row: &ResourceRow, place: &Place) {
    rows::write_resource(values, row);
    way_values(values, place);
}

/// The way to the operations: 3 values. Keys that are too many for the row are in the index when the batch is committed.
fn way_values(values: &mut Values<'_, '_>, place: &Place) {
    values.maybe_integer(place.newest);
    values.integer(i64::from(place.indexed || place.recent.is_full()));
    values.blob(&place.recent.bytes());
}

/// A whole-path document: 6 values. Bytes that stand apart are NULL here.
fn document_values(values: &mut Values<'_, '_>, stored: Option<(&TargetRow, &Bytes)>) {
    let Some((row, body)) = stored else {
        for _ in 0..6 {
            values.maybe_integer(None);
        }
        return;
    };
    rows::write_content(values, row);
    values.maybe_blob(Some(body.as_ref()).filter(|_| stands_beside(body)));
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![
        RESOURCE_INSERT,
        RESOURCE_UPDATE,
        RESOURCE_AND_DOCUMENT_UPDATE,
        OPERATIONS_UPDATE,
        BODY_STORE,
        BODY_REMOVE,
        TARGETS_CLEAR,
        TARGET_REMOVE,
        TARGET_STORE,
    ]
}
