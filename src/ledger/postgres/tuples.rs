//! Rows on their way to the database: arrays of composite values in PostgreSQL's binary form.
//!
//! The rows of a batch go into one statement. One array of composites costs the server a tenth of one array per column
//! (`docs/PERFORMANCE.md`). The shapes are types of the schema; what they are called inside is asked once per connection.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo};
use sqlx::{Encode, Postgres, Type};

use crate::domain::resource::Bucket;
use crate::domain::time::Timestamp;

use super::super::cells::WriteCells;

mod shapes;

pub(super) use shapes::Shapes;

/// A composite type of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    KeyNamed,
    KeyHashed,
    KeyTarget,
    KeyOperation,
    KeyPosition,
    KeyControl,
    NewNamespace,
    ChangedNamespace,
    ChangedEverywhere,
    NewResource,
    ChangedResource,
    PlacedResource,
    NewEra,
    NewTarget,
    PlacedTarget,
    NewOperation,
    NewIntent,
    ChangedIntent,
    ClosedIntent,
    NewPiece,
    NewLease,
    ChangedLease,
    ForgottenLease,
    NewControl,
    NewAudit,
    AgedAudit,
    NotedRefusal,
}

impl Shape {
    pub(super) const ALL: [Self; 27] = [
        Self::KeyNamed,
        Self::KeyHashed,
        Self::KeyTarget,
        Self::KeyOperation,
        Self::KeyPosition,
        Self::KeyControl,
        Self::NewNamespace,
        Self::ChangedNamespace,
        Self::ChangedEverywhere,
        Self::NewResource,
        Self::ChangedResource,
        Self::PlacedResource,
        Self::NewEra,
        Self::NewTarget,
        Self::PlacedTarget,
        Self::NewOperation,
        Self::NewIntent,
        Self::ChangedIntent,
        Self::ClosedIntent,
        Self::NewPiece,
        Self::NewLease,
        Self::ChangedLease,
        Self::ForgottenLease,
        Self::NewControl,
        Self::NewAudit,
        Self::AgedAudit,
        Self::NotedRefusal,
    ];

    /// Its name in the schema.
    pub(super) fn name(self) -> &'static str {
        self.array().trim_end_matches("[]")
    }

    /// The name of an array of it.
    const fn array(self) -> &'static str {
        match self {
            Self::KeyNamed => "key_named_v1[]",
            Self::KeyHashed => "key_hashed_v1[]",
            Self::KeyTarget => "key_target_v1[]",
            Self::KeyOperation => "key_operation_v1[]",
            Self::KeyPosition => "key_position_v1[]",
            Self::KeyControl => "key_control_v1[]",
            Self::NewNamespace => "new_namespace_v2[]",
            Self::ChangedNamespace => "changed_namespace_v1[]",
            Self::ChangedEverywhere => "changed_everywhere_v1[]",
            Self::NewResource => "new_resource_v3[]",
            Self::ChangedResource => "changed_resource_v3[]",
            Self::PlacedResource => "placed_resource_v3[]",
            Self::NewEra => "new_era_v1[]",
            Self::NewTarget => "new_target_v1[]",
            Self::PlacedTarget => "placed_target_v1[]",
            Self::NewOperation => "new_operation_v2[]",
            Self::NewIntent => "new_intent_v1[]",
            Self::ChangedIntent => "changed_intent_v1[]",
            Self::ClosedIntent => "closed_intent_v1[]",
            Self::NewPiece => "new_piece_v1[]",
            Self::NewLease => "new_lease_v2[]",
            Self::ChangedLease => "changed_lease_v2[]",
            Self::ForgottenLease => "forgotten_lease_v1[]",
            Self::NewControl => "new_control_v1[]",
            Self::AgedAudit => "aged_audit_v1[]",
            Self::NewAudit => "new_audit_v3[]",
            Self::NotedRefusal => "noted_refusal_v1[]",
        }
    }

    /// How many values it has.
    pub(super) const fn width(self) -> i32 {
        match self {
            Self::AgedAudit => 1,
            Self::KeyNamed | Self::KeyHashed | Self::ForgottenLease => 3,
            Self::KeyTarget | Self::ChangedEverywhere => 4,
            Self::KeyOperation | Self::KeyControl | Self::NewEra => 5,
            Self::KeyPosition | Self::NewPiece => 6,
            Self::NewControl | Self::ClosedIntent => 7,
            Self::ChangedNamespace => 14,
            Self::NewResource => 29,
            Self::ChangedResource => 42,
            Self::PlacedResource => 30,
            Self::PlacedTarget | Self::NewAudit => 10,
            Self::NewTarget | Self::ChangedLease => 9,
            Self::NewOperation => 26,
            Self::NewIntent => 27,
            Self::ChangedIntent => 12,
            Self::NewLease => 18,
            Self::NewNamespace | Self::NotedRefusal => 8,
        }
    }
}

/// Where a row lies (`ctid`): good for as long as its transaction holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowPlace(pub(super) [u8; 6]);

/// Rows of one shape.
#[derive(Debug)]
pub(super) struct Tuples {
    shape: Shape,
    rows: u32,
    bytes: Vec<u8>,
    columns: i32,
    refused: Option<String>,
}

// Types that every server calls the same (`pg_type.dat`).
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const TID: u32 = 27;

impl Tuples {
    pub(super) const fn new(shape: Shape) -> Self {
        Self { shape, rows: 0, bytes: Vec::new(), columns: 0, refused: None }
    }

    /// One row per item.
    pub(super) fn filled<T>(
        shape: Shape,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Self, T),
    ) -> Self {
        let mut tuples = Self::new(shape);
        for item in items {
            tuples.row(|cells| fill(cells, item));
        }
        tuples
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// What is wrong with them.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.rows)
    }

    /// One more row.
    pub(super) fn row(&mut self, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&self.shape.width().to_be_bytes());
        self.columns = 0;
        fill(self);
        self.rows = self.rows.saturating_add(1);
        if self.columns != self.shape.width() {
            self.refused = Some(format!("{} was given {} values", self.shape.name(), self.columns));
        }
        let length = self.bytes.len().saturating_sub(start).saturating_sub(4);
        match (i32::try_from(length), self.bytes.get_mut(start..start.saturating_add(4))) {
            (Ok(length), Some(place)) => place.copy_from_slice(&length.to_be_bytes()),
            (Ok(_) | Err(_), _) => self.refused = Some("a row is too large".to_owned()),
        }
    }

    fn cell(&mut self, kind: u32, value: &[u8]) {
        self.columns = self.columns.saturating_add(1);
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        match i32::try_from(value.len()) {
            Ok(length) => self.bytes.extend_from_slice(&length.to_be_bytes()),
            Err(_) => self.refused = Some("a value is too large".to_owned()),
        }
        self.bytes.extend_from_slice(value);
    }

    fn null(&mut self, kind: u32) {
        self.columns = self.columns.saturating_add(1);
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        self.bytes.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    /// The place of a key, from 0.
    pub(super) fn ordinal(&mut self, value: usize) {
        match i32::try_from(value) {
            Ok(value) => self.cell(INT4, &value.to_be_bytes()),
            Err(_) => self.refused = Some(format!("{value} keys are too many")),
        }
    }

    pub(super) fn place(&mut self, place: RowPlace) {
        self.cell(TID, &place.0);
    }
}

impl WriteCells for Tuples {
    fn bucket(&mut self, bucket: Bucket) {
        self.cell(INT2, &i16::from(bucket.0).to_be_bytes());
    }

    fn whole(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.cell(INT8, &value.to_be_bytes()),
            Err(_) => self.refused = Some(format!("{value} is above what a column holds")),
        }
    }

    fn maybe_whole(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.whole(value),
            None => self.null(INT8),
        }
    }

    fn text(&mut self, value: &str) {
        self.cell(TEXT, value.as_bytes());
    }

    fn maybe_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.text(value),
            None => self.null(TEXT),
        }
    }

    fn blob(&mut self, value: &[u8]) {
        self.cell(BYTEA, value);
    }

    fn maybe_blob(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.blob(value),
            None => self.null(BYTEA),
        }
    }

    fn time(&mut self, at: Timestamp) {
        self.cell(INT8, &at.ms().to_be_bytes());
    }

    fn maybe_time(&mut self, at: Option<Timestamp>) {
        match at {
            Some(at) => self.time(at),
            None => self.null(INT8),
        }
    }
}

/// Rows with the names that one server gives to their types.
pub(super) struct Argument<'t> {
    element: Oid,
    tuples: &'t Tuples,
}

impl Type<Postgres> for Argument<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("record")
    }
}

impl Encode<'_, Postgres> for Argument<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let dimensions = i32::from(self.tuples.rows > 0);
        buffer.extend_from_slice(&dimensions.to_be_bytes());
        buffer.extend_from_slice(&0_i32.to_be_bytes());
        buffer.extend_from_slice(&self.element.0.to_be_bytes());
        if dimensions > 0 {
            buffer.extend_from_slice(&self.tuples.rows.to_be_bytes());
            buffer.extend_from_slice(&1_i32.to_be_bytes());
            buffer.extend_from_slice(&self.tuples.bytes);
        }
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        // By name: what sqlx does not know yet it asks before it prepares a statement. What it meets by number it asks
        // afterwards, and with that it would undo a statement that has no name.
        Some(PgTypeInfo::with_name(self.tuples.shape.array()))
    }

    fn size_hint(&self) -> usize {
        self.tuples.bytes.len().saturating_add(20)
    }
}
