//! What is stopped.

use rusqlite::Connection;

use super::super::super::cells::ReadCells;
use super::super::fault::Fault;
use super::super::values::each;
use crate::domain::breaker::Breaker;
use crate::domain::subject::Subject;

const STOPPED: &str = "SELECT n.namespace, n.breaker FROM namespaces AS n WHERE n.bucket = 0 AND n.breaker IS NOT NULL \
                       UNION ALL SELECT '*', e.breaker FROM everywhere AS e WHERE e.bucket = 0 AND e.breaker IS NOT NULL \
                       ORDER BY 1";

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
    vec![STOPPED]
}
