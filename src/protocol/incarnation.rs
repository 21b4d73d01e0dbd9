//! Which incarnation a request addresses (`protocol.md` section 3, operation record).

use crate::domain::counter::Incarnation;
use crate::domain::position::Position;

use super::rows::{Life, ResourceRow};

/// The incarnation whose operation records a request is held against: the one that it names, else the current one if
/// its position is not older than the current one's birth, else the earlier one in which its position falls. `None`
/// when it falls before all of them.
///
/// So a re-created resource does not inherit its predecessor's outcomes, and an honest late retry finds its own.
pub fn addressed(
    row: &ResourceRow,
    position: Position,
    named: Option<Incarnation>,
    era_at: impl FnOnce(Position) -> Option<Incarnation>,
) -> Option<Incarnation> {
    if named.is_some() {
        return named;
    }
    if position.is_below(row.born) { era_at(position) } else { Some(row.incarnation) }
}

/// The incarnation that a write would begin which creates a deleted resource again. A store behind HTTP is asked before
/// it begins, so its operations may be recorded in it although it has not begun: undecided ones, and refused ones for
/// ever.
#[must_use]
pub fn begun(row: &ResourceRow, named: Option<Incarnation>) -> Option<Incarnation> {
    match (row.life, named) {
        (Life::Deleted, None) => row.incarnation.next(),
        (Life::Deleted, Some(_)) | (Life::Active | Life::Cancelled, _) => None,
    }
}
