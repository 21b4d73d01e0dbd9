//! What namespaces have, for their quotas.

use super::super::super::cells::ReadCells;
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::Fields;
use crate::domain::quota::Usage;
use crate::domain::resource::Namespace;

/// By the keys of the tables, whose first column the bucket is: a part is a two hundred and fifty-sixth of the rows.
const ROWS: &str = "SELECT ROW(u.namespace, sum(u.resources)::bigint, sum(u.operations)::bigint, sum(u.bytes)::bigint) FROM (\
                    SELECT split_part(r.resource, '/', 1) AS namespace, count(*) AS resources, 0 AS operations, 0 AS bytes \
                    FROM resources AS r WHERE r.bucket = $1 GROUP BY 1 \
                    UNION ALL SELECT split_part(t.resource, '/', 1), 0, 0, sum(t.size) \
                    FROM targets AS t WHERE t.bucket = $1 GROUP BY 1 \
                    UNION ALL SELECT split_part(o.resource, '/', 1), 0, count(*), 0 \
                    FROM operations AS o WHERE o.bucket = $1 GROUP BY 1 \
                    UNION ALL SELECT split_part(i.resource, '/', 1), 0, count(*), 0 \
                    FROM intents AS i WHERE i.bucket = $1 GROUP BY 1) AS u GROUP BY u.namespace";

pub(super) async fn usage(live: &mut Live, part: u8) -> Result<Vec<(Namespace, Usage)>, Fault> {
    let rows = sqlx::query(ROWS)
        .bind(i16::from(part))
        .persistent(!live.is_pooled)
        .fetch_all(&mut live.connection)
        .await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut fields = Fields::required(row, 0)?;
        let namespace = fields.parsed(Namespace::parse)?;
        let (resources, operations, bytes) = (fields.integer()?, fields.integer()?, fields.integer()?);
        found.push((namespace, Usage { resources, operations, bytes }));
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> [&'static str; 1] {
    [ROWS]
}
