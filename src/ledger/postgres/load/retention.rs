//! What forgetting rests on: the oldest ended incarnations of a resource, and whether it has any operation.

use crate::domain::resource::ResourceName;
use crate::protocol::Wanted;

use super::super::super::cells::WriteCells;
use super::super::super::rows::operation_columns;
use super::super::tuples::{Shape, Tuples};

/// At most [`crate::protocol::prune::ERAS_AT_ONCE`] of each.
pub(super) const OLDEST_ERAS: &str = " UNION ALL SELECT 8::smallint, k.ordinal, ROW(i.incarnation, i.born_epoch, i.born_token) \
     FROM unnest({}) AS k CROSS JOIN LATERAL (\
     SELECT * FROM incarnations AS i WHERE i.bucket = k.bucket AND i.resource = k.name \
     ORDER BY i.born_epoch, i.born_token LIMIT 16) AS i";

pub(super) const ANY_OPERATION: &str = concat!(
    " UNION ALL SELECT 9::smallint, k.ordinal, ROW(",
    operation_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM operations AS o WHERE o.bucket = k.bucket AND o.resource = k.name \
         ORDER BY o.incarnation, o.operation_id LIMIT 1) AS o"
);

/// The resources of which these are asked.
pub(super) struct Kept {
    pub(super) eras: Vec<ResourceName>,
    pub(super) recorded: Vec<ResourceName>,
}

impl Kept {
    pub(super) fn of(wanted: &Wanted) -> Self {
        let names = |names: &std::collections::BTreeSet<ResourceName>| names.iter().cloned().collect();
        Self { eras: names(&wanted.eras), recorded: names(&wanted.recorded) }
    }

    pub(super) fn keys(names: &[ResourceName]) -> Tuples {
        Tuples::filled(Shape::KeyNamed, names.iter().enumerate(), |cells, (at, resource)| {
            cells.ordinal(at);
            cells.name(resource);
        })
    }
}
