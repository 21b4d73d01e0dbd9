//! What became of a transaction whose COMMIT was not answered.
//!
//! Rows that it changed are locked until its fate is known, and a load waits for them. Rows that it made can neither be
//! seen nor locked by anybody else: while COMMIT is still under way (it may wait for a standby, or for a disk) it looks
//! as if there had never been anything. So before anything is concluded from a load after such a COMMIT, PostgreSQL is
//! asked by the transaction's id.

use sqlx::PgConnection;

use crate::limits::POSTGRES_FATE_LOOKS;

use super::fault::Fault;

/// The full id of a transaction; it never comes again in the history of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransactionId(pub(super) i64);

/// A transaction that has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) id: TransactionId,
    /// Where the log stood before its commit: reached, once that is acknowledged.
    pub(super) behind: u64,
    /// What the place belongs to.
    pub(super) era: u64,
}

/// An id that is not below one that was assigned just now was never assigned here: the transaction was lost with the
/// server that had run it. The wait between two looks is the server's.
const FATE: &str = "SELECT CASE WHEN $1::text::xid8 >= pg_current_xact_id() THEN NULL \
                    ELSE pg_xact_status($1::text::xid8) END, pg_sleep($2)";

/// Waits, for a bounded number of looks, until the transaction has ended one way or the other.
///
/// # Errors
/// [`Fault::Unusable`] while it is still under way.
pub(super) async fn wait_for(connection: &mut PgConnection, id: TransactionId) -> Result<(), Fault> {
    for look in 0..POSTGRES_FATE_LOOKS {
        let pause = if look == 0 { 0.0 } else { 0.1 };
        let query = sqlx::query_scalar(FATE).bind(id.0.to_string()).bind(pause).persistent(false);
        let status: Option<String> = query.fetch_one(&mut *connection).await?;
        if status.as_deref() != Some("in progress") {
            return Ok(());
        }
    }
    Err(Fault::Unusable("a commit that was not answered is still under way".to_owned()))
}
