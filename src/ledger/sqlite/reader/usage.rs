//! What namespaces have, for their quotas.

use rusqlite::Connection;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::columns::Columns;
use super::super::fault::Fault;
use super::super::values::each;
use crate::domain::quota::Usage;
use crate::domain::resource::{Bucket, Namespace};

/// Resources and the documents on their whole paths; then what stands below them; then what is announced.
const ROWS: &str = "SELECT substr(r.resource, 1, instr(r.resource, '/') - 1), count(*), 0, coalesce(sum(r.doc_size), 0) \
                    FROM resources AS r WHERE r.bucket = ?1 GROUP BY 1 \
                    UNION ALL SELECT substr(r.resource, 1, instr(r.resource, '/') - 1), 0, 0, sum(t.size) \
                    FROM targets AS t JOIN resources AS r ON r.id = t.resource_id WHERE t.bucket = ?1 GROUP BY 1 \
                    UNION ALL SELECT substr(i.resource, 1, instr(i.resource, '/') - 1), 0, count(*), 0 \
                    FROM intents AS i WHERE i.bucket = ?1 GROUP BY 1";

/// Operations stand in the order in which they were recorded and have no index by bucket: all of them are counted with the
/// first part, in one walk.
const OPERATIONS: &str = "SELECT substr(r.resource, 1, instr(r.resource, '/') - 1), 0, sum(o.times), 0 \
                          FROM (SELECT resource_id, count(*) AS times FROM operations GROUP BY resource_id) AS o \
                          JOIN resources AS r ON r.id = o.resource_id GROUP BY 1";

pub(super) fn usage(connection: &Connection, part: u8) -> Result<Vec<(Namespace, Usage)>, Fault> {
    let mut found = Vec::new();
    let mut take = |columns: &mut Columns<'_>| {
        let namespace = columns.parsed(Namespace::parse)?;
        let (resources, operations, bytes) = (columns.integer()?, columns.integer()?, columns.integer()?);
        found.push((namespace, Usage { resources, operations, bytes }));
        Ok(())
    };
    each(connection, ROWS, |values| values.bucket(Bucket(part)), &mut take)?;
    if part == 0 {
        each(connection, OPERATIONS, |_| {}, &mut take)?;
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![ROWS, OPERATIONS]
}
