//! What a row has in this file alone: its place, and the whole-path document beside the resource. What every database
//! keeps is told in the rows of the ledger.

use crate::domain::position::Position;
use crate::protocol::rows::TargetRow;

use super::super::cells::ReadCells;
use super::columns::Columns;
use super::fault::Fault;
use super::recent::Recent;

pub(super) use super::super::rows::{
    audit, audit_columns, content, control, control_columns, everywhere, everywhere_columns, intent,
    intent_columns, lease, lease_columns, namespace, namespace_columns, operation, operation_columns,
    refusal, refusal_columns, resource, resource_columns, target, target_columns, write_audit_place,
    write_closed_intent, write_content, write_control, write_everywhere_change, write_forgotten,
    write_intent, write_intent_change, write_intent_key, write_lease, write_lease_change, write_namespace,
    write_namespace_change, write_operation, write_refusal, write_resource, write_seen,
};

/// How many columns each list has.
pub(super) const NAMESPACE_WIDTH: usize = width(namespace_columns!());
pub(super) const RESOURCE_WIDTH: usize = width(resource_columns!());
pub(super) const LEASE_WIDTH: usize = width(lease_columns!());
pub(super) const TARGET_WIDTH: usize = width(target_columns!());

/// Where a resource stands in this file, and the way to its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its row.
    pub(super) id: i64,
    /// Its newest operation, with which the chain begins.
    pub(super) newest: Option<i64>,
    /// Whether keys of it stand in `operation_keys`.
    pub(super) indexed: bool,
    /// The keys of its newest operations.
    pub(super) recent: Recent,
    /// Whether the bytes of its whole-path document stand in `bodies`.
    pub(super) apart: bool,
    /// The floor.
    pub(super) floor: Floor,
}

/// A floor as the row has it, and as the announcements beside it have raised it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Floor {
    pub(super) written: Position,
    pub(super) raised: Position,
}

impl Floor {
    /// What the row says where a decision saw this.
    pub(super) fn behind(self, seen: Position) -> Position {
        if seen == self.raised { self.written } else { seen }
    }
}

/// Columns of a place, which stand after those of the resource.
macro_rules! place_columns {
    () => {
        "r.id, r.newest_operation, r.indexed, r.recent, r.doc_commit IS NOT NULL AND r.doc_body IS NULL"
    };
}

pub(super) fn place(floor: Position, columns: &mut Columns<'_>) -> Result<Place, Fault> {
    Ok(Place {
        id: columns.integer()?,
        newest: columns.maybe_integer()?,
        indexed: columns.flag()?,
        recent: Recent::read(columns.blob()?)?,
        apart: columns.flag()?,
        floor: Floor { written: floor, raised: floor },
    })
}

/// What is told of content, of a whole-path document; all are NULL where there is none.
macro_rules! document_columns {
    () => {
        "r.doc_incarnation, r.doc_commit, r.doc_type, r.doc_size, r.doc_digest"
    };
}

const DOCUMENT_WIDTH: usize = width(document_columns!());

/// A whole-path document, where there is one.
pub(super) fn document(columns: &mut Columns<'_>) -> Result<Option<TargetRow>, Fault> {
    if columns.is_null()? {
        columns.skip(DOCUMENT_WIDTH);
        return Ok(None);
    }
    content(None, columns).map(Some)
}

/// How many columns a list has.
const fn width(columns: &str) -> usize {
    let (mut rest, mut width) = (columns.as_bytes(), 1_usize);
    while let [first, behind @ ..] = rest {
        if *first == b',' {
            width = width.saturating_add(1);
        }
        rest = behind;
    }
    width
}

pub(super) use {document_columns, place_columns};
