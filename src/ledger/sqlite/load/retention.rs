//! What forgetting rests on: the oldest ended incarnations of a resource, and whether it has any operation.

use crate::domain::counter::Incarnation;
use crate::domain::resource::ResourceName;
use crate::protocol::Wanted;
use crate::protocol::prune::ERAS_AT_ONCE;
use crate::protocol::rows::EraRow;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::fault::Fault;
use super::super::rows::{self, operation_columns};
use super::super::values::{each, first};
use super::Loading;

const OLDEST_ERAS: &str = "SELECT i.incarnation, i.born_epoch, i.born_token FROM incarnations AS i \
                           WHERE i.bucket = ?1 AND i.resource = ?2 ORDER BY i.born_epoch, i.born_token LIMIT ?3";

/// The newest one: a chain is only ever taken away from its old end.
const NEWEST: &str = concat!(
    "SELECT ",
    operation_columns!(),
    " FROM operations AS o WHERE o.id = ?1 AND o.bucket = ?2 AND o.resource_id = ?3"
);

impl Loading<'_> {
    pub(super) fn retention(&mut self, wanted: &Wanted) -> Result<(), Fault> {
        wanted.eras.iter().try_for_each(|resource| self.oldest_eras(resource))?;
        wanted.recorded.iter().try_for_each(|resource| self.newest_operation(resource))
    }

    fn oldest_eras(&mut self, resource: &ResourceName) -> Result<(), Fault> {
        let mut found = Vec::new();
        each(
            self.connection,
            OLDEST_ERAS,
            |values| {
                values.name(resource);
                values.whole(u64::try_from(ERAS_AT_ONCE).unwrap_or(u64::MAX));
            },
            |columns| {
                let incarnation = columns.counter(Incarnation::new)?;
                found.push(EraRow { resource: resource.clone(), incarnation, born: columns.position()? });
                Ok(())
            },
        )?;
        for era in found {
            self.snapshot.insert_era(era);
        }
        Ok(())
    }

    fn newest_operation(&mut self, resource: &ResourceName) -> Result<(), Fault> {
        let place = self.places.get(resource);
        let Some((place, newest)) = place.and_then(|place| Some((place, place.newest?))) else {
            return Ok(());
        };
        let found = first(
            self.connection,
            NEWEST,
            |values| {
                values.integer(newest);
                values.bucket(resource.bucket());
                values.integer(place.id);
            },
            |columns| rows::operation(resource.clone(), columns),
        )?;
        if let Some(record) = found {
            self.snapshot.insert_operation(record);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OLDEST_ERAS, NEWEST]
}
