//! Which incarnation a request addresses (`protocol.md` section 3, operation record).

use crate::domain::counter::Incarnation;
use crate::domain::position::Position;

use super::rows::ResourceRow;

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
