//! How far a server has come, and whether it is as far as it was: what is read of its log, of its timelines, and of the
//! operations that were acknowledged.
//!
//! A place that a commit was acknowledged behind is known by the server, by a synchronous standby where there is one, and
//! after any crash. How far a log was flushed is not: a standby may lack what nobody was promised. So the first is what was
//! reached, and the second only bounds what may have been.

use sqlx::{Connection as _, Executor, PgConnection, Row};

use super::super::acks::{self, Ack};
use super::super::guard::Guard;
use super::connect;
use super::fault::Fault;
use super::time::Time;

/// What a connection found when it had committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flushed {
    /// Behind the commit.
    pub(super) at: u64,
    /// That of namespaces that were never used, where it was asked for.
    pub(super) epoch: Option<u64>,
}

/// How a transaction ends whose commit is bounded by the witness: one message, and one answer with where the log stands
/// then. A part of it that is not answered leaves the commit in doubt, never undone.
pub(super) const COMMIT: &str = "COMMIT; SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint, NULL::bigint";

/// The same while the database is suspected: another replica may have led it out of that.
pub(super) const COMMIT_AND_EPOCH: &str = "COMMIT; SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint, \
                                           (SELECT epoch FROM everywhere WHERE bucket = 0)";

const EPOCH: &str = "SELECT epoch FROM everywhere WHERE bucket = 0";

/// The lock makes it a transaction that has written, whose commit is flushed and waited for on a synchronous standby; one
/// that only has an id is not. The place is read behind the lock.
const PLACE: &str =
    "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint FROM ledger WHERE one = 1 FOR UPDATE";

/// Each is looked up by its key; the limit keeps the look-ups from becoming one walk through the table.
const MISSING: &str = "SELECT a.place FROM unnest($1::smallint[], $2::text[], $3::bigint[], $4::text[]) \
     WITH ORDINALITY AS a (bucket, resource, incarnation, operation_id, place) \
     LEFT JOIN LATERAL (SELECT true AS found FROM operations AS o WHERE o.bucket = a.bucket AND o.resource = a.resource \
     AND o.incarnation = a.incarnation AND o.operation_id = a.operation_id LIMIT 1) AS o ON true \
     WHERE o.found IS NULL ORDER BY a.place";

const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

const MAY_READ: &str = "SELECT has_function_privilege('pg_read_file(text)', 'EXECUTE')";

/// The history of a timeline; the file's name is its number in eight hexadecimal digits.
const HISTORY: &str =
    "SELECT pg_read_file('pg_wal/' || lpad(upper(to_hex($1::bigint)), 8, '0') || '.history')";

/// A number of the server's that is never below zero.
pub(super) fn place(value: i64) -> Result<u64, Fault> {
    u64::try_from(value).map_err(|_| Fault::unreadable(format!("{value} is no place in a log")))
}

/// The epoch of namespaces that were never used.
pub(super) async fn epoch(connection: &mut PgConnection) -> Result<u64, Fault> {
    let epoch = sqlx::query_scalar(EPOCH).persistent(false).fetch_one(connection).await?;
    place(epoch)
}

/// What is said of acknowledged operations that are not there. A transaction is open.
pub(super) async fn missing(
    connection: &mut PgConnection,
    guard: &Guard,
    time: &Time,
) -> Result<Option<String>, Fault> {
    let now = sqlx::query_scalar(CLOCK).persistent(false).fetch_one(&mut *connection).await?;
    let due = guard.acks.due(time.at(now));
    if due.is_empty() {
        return Ok(None);
    }
    let text = |text: fn(&Ack) -> &str| due.iter().map(|ack| text(ack).to_owned()).collect::<Vec<_>>();
    let incarnations: Result<Vec<i64>, _> =
        due.iter().map(|ack| i64::try_from(ack.incarnation.get())).collect();
    let incarnations = incarnations.map_err(|error| Fault::unreadable(error.to_string()))?;
    let rows = sqlx::query(MISSING)
        .bind(due.iter().map(|ack| i16::from(ack.resource.bucket().0)).collect::<Vec<_>>())
        .bind(text(|ack| ack.resource.as_str()))
        .bind(incarnations)
        .bind(text(|ack| ack.operation_id.as_str()))
        .persistent(false)
        .fetch_all(connection)
        .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let index: i64 = first.try_get(0)?;
    let first = usize::try_from(index).ok().and_then(|index| due.get(index.checked_sub(1)?));
    let first = first.ok_or_else(|| Fault::unreadable("an operation that nobody asked for"))?;
    Ok(Some(acks::told(rows.len(), due.len(), first)))
}

/// Where the server's timeline left an earlier one, as far as that can be known.
///
/// Its history says so, to a role that may read it (`GRANT EXECUTE ON FUNCTION pg_read_file(text)`). Everybody may ask up to
/// where a promoted server had replayed the log of others; a restart since then hides it.
pub(super) async fn began(
    connection: &mut PgConnection,
    from: i64,
    timeline: i64,
    replayed: Option<u64>,
) -> Result<Option<u64>, Fault> {
    let may_read: bool = sqlx::query_scalar(MAY_READ).persistent(false).fetch_one(&mut *connection).await?;
    let mut left = None;
    if may_read {
        // A part of the transaction of its own: a file that cannot be read is no reason to do without the rest.
        let mut part = connection.begin().await?;
        let read = sqlx::query_scalar(HISTORY).bind(timeline).persistent(false).fetch_one(&mut *part).await;
        let text: Option<String> = match read {
            Ok(text) => {
                part.commit().await?;
                text
            }
            Err(error) => {
                tracing::warn!(%error, timeline, "the history of the timeline cannot be read");
                part.rollback().await?;
                None
            }
        };
        left = text.and_then(|text| left_in(&text, from));
    }
    if left.is_none() && replayed.is_none() {
        tracing::warn!(
            from,
            to = timeline,
            "where the new timeline began is not known: grant EXECUTE ON FUNCTION pg_read_file(text) to see it; a small \
             loss may go unnoticed"
        );
    }
    Ok(left.into_iter().chain(replayed).min())
}

/// Lines of number, place and reason, separated by tabs; the place is two hexadecimal numbers.
fn left_in(history: &str, from: i64) -> Option<u64> {
    history.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let number: i64 = words.next()?.parse().ok()?;
        let (high, low) = words.next()?.split_once('/')?;
        let (high, low) = (u64::from_str_radix(high, 16).ok()?, u64::from_str_radix(low, 16).ok()?);
        (number == from).then_some((high << 32) | low)
    })
}

/// Commits a transaction that only says where the log stands. It waits for the disk, and for a standby, as any other does.
pub(super) async fn settle(connection: &mut PgConnection, begin: &'static str) -> Result<u64, Fault> {
    connection.execute(begin).await?;
    let at = sqlx::query_scalar(PLACE).persistent(false).fetch_one(&mut *connection).await?;
    connection.execute(connect::LOOKED).await?;
    place(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_says_where_each_timeline_was_left() {
        let history = "1\t0/3000148\tno recovery target specified\n\n2\t1/A0\tbefore 2026-11-30 08:00:00\n";
        assert_eq!(left_in(history, 1), Some(0x0300_0148));
        assert_eq!(left_in(history, 2), Some(0x1_0000_00A0));
        assert_eq!(left_in(history, 3), None);
        assert_eq!(left_in("garbage\n1\tx/y\tz", 1), None);
    }
}
