//! What is stopped, and what holds for namespaces that were never used.

use super::super::super::cells::ReadCells;
use super::super::super::rows::{self, everywhere_columns};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::Fields;
use crate::domain::breaker::Breaker;
use crate::domain::subject::Subject;
use crate::protocol::rows::EverywhereRow;

const STOPPED: &str = "SELECT ROW(s.subject, s.breaker) FROM (\
                       SELECT n.namespace AS subject, n.breaker FROM namespaces AS n WHERE n.bucket = 0 \
                       UNION ALL SELECT '*', e.breaker FROM everywhere AS e WHERE e.bucket = 0) AS s \
                       WHERE s.breaker IS NOT NULL ORDER BY s.subject COLLATE \"C\"";

const EVERYWHERE: &str =
    concat!("SELECT ROW(", everywhere_columns!(), ") FROM everywhere AS e WHERE e.bucket = 0");

pub(super) async fn everywhere(live: &mut Live) -> Result<EverywhereRow, Fault> {
    let row = sqlx::query(EVERYWHERE).persistent(!live.is_pooled).fetch_one(&mut live.connection).await?;
    rows::everywhere(&mut Fields::required(&row, 0)?)
}

pub(super) async fn stopped(live: &mut Live) -> Result<Vec<(Subject, Breaker)>, Fault> {
    let rows = sqlx::query(STOPPED).persistent(!live.is_pooled).fetch_all(&mut live.connection).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut fields = Fields::required(row, 0)?;
        let subject = fields.parsed(Subject::parse)?;
        let breaker = fields.maybe_word(Breaker::parse)?;
        found.push((subject, breaker.ok_or_else(|| Fault::unreadable("it is stopped by nothing"))?));
    }
    Ok(found)
}

#[cfg(test)]
pub(super) fn texts() -> [&'static str; 2] {
    [STOPPED, EVERYWHERE]
}
