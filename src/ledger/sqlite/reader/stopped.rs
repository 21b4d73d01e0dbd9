//! What is stopped, and what holds for namespaces that were never used.

use rusqlite::Connection;

use super::super::super::cells::ReadCells;
use super::super::fault::Fault;
use super::super::rows::{self, everywhere_columns};
use super::super::values::{each, first};
use crate::domain::breaker::Breaker;
use crate::domain::subject::Subject;
use crate::protocol::rows::EverywhereRow;

const STOPPED: &str = "SELECT n.namespace, n.breaker FROM namespaces AS n WHERE n.bucket = 0 AND n.breaker IS NOT NULL \
                       UNION ALL SELECT '*', e.breaker FROM everywhere AS e WHERE e.bucket = 0 AND e.breaker IS NOT NULL \
                       ORDER BY 1";

const EVERYWHERE: &str =
    concat!("SELECT ", everywhere_columns!(), " FROM everywhere AS e WHERE e.bucket = 0");

pub(in super::super) fn everywhere(connection: &Connection) -> Result<EverywhereRow, Fault> {
    let row = first(connection, EVERYWHERE, |_| {}, |columns| rows::everywhere(columns))?;
    row.ok_or_else(|| Fault::unreadable("nothing holds everywhere"))
}

pub(super) fn stopped(connection: &Connection) -> Result<Vec<(Subject, Breaker)>, Fault> {
    let mut found = Vec::new();
    each(
        connection,
        STOPPED,
        |_| {},
        |columns| {
            let subject = columns.parsed(Subject::parse)?;
            let breaker = columns.maybe_word(Breaker::parse)?;
            found.push((subject, breaker.ok_or_else(|| Fault::unreadable("it is stopped by nothing"))?));
            Ok(())
        },
    )?;
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![STOPPED, EVERYWHERE]
}
