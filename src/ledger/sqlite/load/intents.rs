//! The undecided operations of a resource.

use rusqlite::Connection;

use crate::domain::resource::ResourceName;
use crate::protocol::rows::IntentRow;

use super::super::super::cells::WriteCells;
use super::super::fault::Fault;
use super::super::rows::{self, intent_columns};
use super::super::values::each;

/// By the key of the table, whose first columns these are.
const OF_RESOURCE: &str =
    concat!("SELECT ", intent_columns!(), " FROM intents AS a WHERE a.bucket = ?1 AND a.resource = ?2");

/// All of them, without their bodies.
pub(in super::super) fn of_resource(
    connection: &Connection,
    resource: &ResourceName,
) -> Result<Vec<IntentRow>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        OF_RESOURCE,
        |values| values.name(resource),
        |columns| {
            found.push(rows::intent(resource.clone(), columns)?);
            Ok(())
        },
    )?;
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![OF_RESOURCE]
}
