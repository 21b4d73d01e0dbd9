//! Namespaces, and what holds for those that were never used.

use crate::domain::breaker::Breaker;
use crate::domain::counter::{Epoch, Incarnation};
use crate::domain::policy::Definition;
use crate::domain::resource::Namespace;
use crate::protocol::rows::{EverywhereRow, NamespaceRow};

use super::super::cells::{ReadCells, WriteCells};

/// Columns of a namespace, without its name.
macro_rules! namespace_columns {
    () => {
        "n.epoch, n.base_epoch, n.base_token, n.base_incarnation, n.definition, n.version, n.breaker"
    };
}

pub(in super::super) fn namespace<'r, C: ReadCells<'r>>(
    namespace: Namespace,
    cells: &mut C,
) -> Result<NamespaceRow, C::Fault> {
    Ok(NamespaceRow {
        namespace,
        epoch: cells.counter(Epoch::new)?,
        base: cells.position()?,
        base_incarnation: cells.counter(Incarnation::new)?,
        definition: cells.parsed(str::parse::<Definition>)?,
        version: cells.whole()?,
        breaker: cells.maybe_word(Breaker::parse)?,
    })
}

/// The name, and the columns above: 8 values.
pub(in super::super) fn write_namespace(cells: &mut impl WriteCells, row: &NamespaceRow) {
    cells.text(row.namespace.as_str());
    cells.whole(row.epoch.get());
    cells.position(row.base);
    cells.whole(row.base_incarnation.get());
    cells.text(&row.definition.to_string());
    cells.whole(u64::from(row.version));
    write_breaker(cells, row.breaker.as_ref());
}

/// The same, and what the decision saw of that: 14 values.
pub(in super::super) fn write_namespace_change(
    cells: &mut impl WriteCells,
    (before, after): (&NamespaceRow, &NamespaceRow),
) {
    write_namespace(cells, after);
    cells.whole(before.epoch.get());
    cells.position(before.base);
    cells.whole(before.base_incarnation.get());
    cells.whole(u64::from(before.version));
    write_breaker(cells, before.breaker.as_ref());
}

/// Columns of what holds for namespaces that were never used.
macro_rules! everywhere_columns {
    () => {
        "e.epoch, e.breaker"
    };
}

pub(in super::super) fn everywhere<'r, C: ReadCells<'r>>(cells: &mut C) -> Result<EverywhereRow, C::Fault> {
    Ok(EverywhereRow { epoch: cells.counter(Epoch::new)?, breaker: cells.maybe_word(Breaker::parse)? })
}

/// The columns above, and what the decision saw of them: 4 values.
pub(in super::super) fn write_everywhere_change(
    cells: &mut impl WriteCells,
    (before, after): (&EverywhereRow, &EverywhereRow),
) {
    for row in [after, before] {
        cells.whole(row.epoch.get());
        write_breaker(cells, row.breaker.as_ref());
    }
}

fn write_breaker(cells: &mut impl WriteCells, breaker: Option<&Breaker>) {
    cells.maybe_text(breaker.map(Breaker::to_string).as_deref());
}

pub(in super::super) use {everywhere_columns, namespace_columns};
