//! New connections: the primary among the servers, and whether it is the one that was there before.
//!
//! Every future here runs to its end in a task of its own, or before the gateway serves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, SqlSafeStr};
use tokio::sync::Semaphore;
use tracing::warn;
use uuid::Uuid;

use crate::domain::breaker::Detector;
use crate::limits::{
    POSTGRES_IDLE_IN_TRANSACTION_MS, POSTGRES_LEAST_VERSION, POSTGRES_LOCK_TIMEOUT_MS, POSTGRES_SET_ASIDE,
};

use super::super::cells::ReadCells;
use super::super::guard::Guard;
use super::super::steps;
use super::address::{Address, Host};
use super::fault::Fault;
use super::fields::Fields;
use super::history;
use super::lineage::{Before, Seen};
use super::time::Time;
use super::tuples::Shapes;

/// What all connections of a process share.
pub(super) struct Shared {
    pub(super) address: Address,
    pub(super) time: Time,
    /// The database's own id.
    pub(super) id: Uuid,
    /// A place for each connection that was set aside and has not ended yet.
    pub(super) aside: Arc<Semaphore>,
    /// The server to ask first.
    first: AtomicUsize,
    /// How far the server had come when it was last looked at.
    seen: Mutex<Seen>,
    pub(super) guard: Arc<Guard>,
}

/// A connection to the primary.
pub(super) struct Live {
    pub(super) connection: PgConnection,
    pub(super) shapes: Shapes,
    /// Begins a transaction.
    pub(super) begin: &'static str,
    /// Whether also a single read must be a transaction, and no statement stays prepared.
    pub(super) is_pooled: bool,
    /// What places in its log belong to.
    pub(super) era: u64,
}

impl Live {
    /// Runs a statement and brings its rows.
    pub(super) async fn fetch(
        &mut self,
        text: impl SqlSafeStr,
        arguments: PgArguments,
    ) -> Result<Vec<PgRow>, Fault> {
        let query = sqlx::query_with(text, arguments).persistent(!self.is_pooled);
        Ok(query.fetch_all(&mut self.connection).await?)
    }
}

/// What a server says of itself.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and they are read in one row")]
#[derive(Debug, Clone)]
pub(super) struct Server {
    version: i64,
    is_standby: bool,
    is_read_only: bool,
    keeps: bool,
    synchronous_commit: String,
    seen: Seen,
    /// Up to where it had replayed the log of others when it took over; none where it did not since it was started.
    pub(super) replayed: Option<u64>,
    is_pooled: bool,
}

const SERVER: &str = "SELECT ROW(\
     current_setting('server_version_num')::bigint, pg_is_in_recovery(), \
     current_setting('transaction_read_only') <> 'off', \
     current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', \
     current_setting('synchronous_commit'), \
     (SELECT system_identifier FROM pg_control_system()), \
     CASE WHEN pg_is_in_recovery() THEN 0::bigint ELSE \
       ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::bigint END, \
     CASE WHEN pg_is_in_recovery() THEN 0::bigint ELSE (pg_current_wal_flush_lsn() - '0/0')::bigint END, \
     CASE WHEN pg_is_in_recovery() THEN NULL ELSE (pg_last_wal_replay_lsn() - '0/0')::bigint END)";

/// Begins a transaction that only looks: behind a pooler each message outside a transaction may reach another server, and
/// a statement takes two of them.
pub(super) const LOOK: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Ends it.
pub(super) const LOOKED: &str = "COMMIT";

/// What every transaction relies on.
///
/// No statement is cut off by a timeout: a COMMIT that is cancelled while it waits for a synchronous standby says that
/// it is done. A wait for a lock is bounded, and so is the time that a stopped gateway can hold one. The plans are
/// made once, for any arguments, and only from index look-ups: a plan made while the tables were empty would else walk
/// through them later.
const SETTINGS: [(&str, &str); 7] = [
    ("statement_timeout", "0"),
    ("lock_timeout", "4000"),
    ("idle_in_transaction_session_timeout", "3000"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
];

// The texts say them as literals.
const _: () = assert!(POSTGRES_LOCK_TIMEOUT_MS == 4_000 && POSTGRES_IDLE_IN_TRANSACTION_MS == 3_000);

/// On a connection of our own the settings are the session's. Each transaction looks whether they are still in force.
const BEGIN: &str = LOOK;
const BEGIN_DURABLE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on";

/// Behind a pooler they end with the transaction: the server goes to somebody else then.
macro_rules! begin_pooled {
    ($synchronous_commit:literal) => {
        concat!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
             SET LOCAL lock_timeout = 4000; SET LOCAL idle_in_transaction_session_timeout = 3000; \
             SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off; \
             SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
            $synchronous_commit
        )
    };
}
const BEGIN_POOLED: &str = begin_pooled!("");
const BEGIN_POOLED_DURABLE: &str = begin_pooled!("; SET LOCAL synchronous_commit = on");

impl Shared {
    pub(super) fn new(
        address: Address,
        time: Time,
        id: Uuid,
        (seen, first): (Seen, usize),
        guard: Arc<Guard>,
    ) -> Self {
        Self {
            address,
            time,
            id,
            aside: Arc::new(Semaphore::new(POSTGRES_SET_ASIDE)),
            first: AtomicUsize::new(first),
            seen: Mutex::new(seen),
            guard,
        }
    }

    /// A connection to the primary, which must be the database that was there before, and no older than it was.
    pub(super) async fn connect(&self) -> Result<Live, Fault> {
        if self.aside.available_permits() == 0 {
            return Err(Fault::Unusable(
                "too many connections were set aside and wait for the server still".to_owned(),
            ));
        }
        // Looked at before the server is asked: another connection may see it further on meanwhile.
        let course = &self.guard.course;
        let record = self.witnessed().await;
        let before = Before { seen: *self.seen(), era: course.era(), reached: course.reached().at, record };
        let (mut connection, server, _) = primary(&self.address, &self.first).await?;
        match self.recognise(&mut connection, &server, &before).await {
            Ok((shapes, era)) => {
                let (begin, is_pooled) = (server.begin(), server.is_pooled);
                Ok(Live { connection, shapes, begin, is_pooled, era })
            }
            Err(fault) => {
                close(connection).await;
                Err(fault)
            }
        }
    }

    async fn recognise(
        &self,
        connection: &mut PgConnection,
        server: &Server,
        before: &Before,
    ) -> Result<(Shapes, u64), Fault> {
        server.fit().map_err(Fault::Unusable)?;
        connection.execute(LOOK).await?;
        let found = database_id(connection).await?;
        if found != Some(self.id) {
            // Its breaker is not ours to trip: it may be somebody else's database, and in order.
            return Err(Fault::Unusable("another database stands in its place; stop the gateway".to_owned()));
        }
        if let Some(reason) = steps::too_old(least_protocol(connection).await?) {
            return Err(Fault::Unusable(reason));
        }
        if let Some(told) = history::missing(connection, &self.guard, &self.time).await? {
            return Err(self.fall_back(&mut self.seen(), server.seen, Detector::Acks, told));
        }
        if let Some((detector, told)) = self.behind_the_witness(connection, server, before).await? {
            return Err(self.fall_back(&mut self.seen(), server.seen, detector, told));
        }
        let mut began = None;
        if server.seen.timeline > before.seen.timeline {
            let (from, to) = (before.seen.timeline, server.seen.timeline);
            began = history::began(connection, from, to, server.replayed).await?;
        }
        let era = self.go_on(before, server.seen, began)?;
        let shapes = Shapes::ask(connection).await?;
        if server.is_pooled {
            Shapes::introduce(connection).await?;
        }
        connection.execute(LOOKED).await?;
        Ok((shapes, era))
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// What makes it unfit to keep what is acknowledged, and what to do.
    pub(super) fn fit(&self) -> Result<(), String> {
        if self.version < POSTGRES_LEAST_VERSION {
            return Err(format!(
                "the server is PostgreSQL {}; version {} or later is needed",
                self.version.checked_div(10_000).unwrap_or_default(),
                POSTGRES_LEAST_VERSION.checked_div(10_000).unwrap_or_default()
            ));
        }
        if !self.keeps {
            return Err("the server runs with fsync or full_page_writes off and can lose or break what it \
                        acknowledged; switch both on"
                .to_owned());
        }
        Ok(())
    }

    /// The text that begins a transaction on it. Whatever is weaker than `on` is raised; `remote_apply` stays.
    pub(super) fn begin(&self) -> &'static str {
        let is_durable = ["on", "remote_apply"].contains(&self.synchronous_commit.as_str());
        match (self.is_pooled, is_durable) {
            (false, true) => BEGIN,
            (false, false) => BEGIN_DURABLE,
            (true, true) => BEGIN_POOLED,
            (true, false) => BEGIN_POOLED_DURABLE,
        }
    }

    pub(super) const fn seen(&self) -> Seen {
        self.seen
    }
}

/// Connects to the one server that takes writes. The search begins with the server that `first` names; one that is
/// being tried is skipped by the next search until it has answered, so that a dead one holds nobody up twice.
pub(super) async fn primary(
    address: &Address,
    first: &AtomicUsize,
) -> Result<(PgConnection, Server, usize), Fault> {
    let hosts = address.hosts();
    let start = first.load(Ordering::Relaxed);
    let mut reasons = Vec::new();
    for step in 0..hosts.len() {
        let index = start.wrapping_add(step).checked_rem(hosts.len()).unwrap_or_default();
        let Some(host) = hosts.get(index) else { continue };
        first.store(index.saturating_add(1), Ordering::Relaxed);
        match reach(host).await {
            Ok((connection, server)) => {
                first.store(index, Ordering::Relaxed);
                return Ok((connection, server, index));
            }
            Err(reason) => reasons.push(format!("{}: {reason}", host.name)),
        }
    }
    Err(Fault::Unusable(reasons.join("; ")))
}

async fn reach(host: &Host) -> Result<(PgConnection, Server), Fault> {
    let options = if host.is_pooled { host.options.clone() } else { host.options.clone().options(SETTINGS) };
    let mut connection = options.connect().await?;
    let server = match ask(&mut connection, host.is_pooled).await {
        Ok(server) => server,
        Err(fault) => {
            close(connection).await;
            return Err(fault);
        }
    };
    if server.is_standby || server.is_read_only {
        close(connection).await;
        let what = if server.is_standby { "it is a standby" } else { "it is read-only" };
        return Err(Fault::Unusable(what.to_owned()));
    }
    Ok((connection, server))
}

async fn ask(connection: &mut PgConnection, is_pooled: bool) -> Result<Server, Fault> {
    connection.execute(LOOK).await?;
    let row = sqlx::query(SERVER).persistent(false).fetch_one(&mut *connection).await?;
    connection.execute(LOOKED).await?;
    let mut fields = Fields::required(&row, 0)?;
    Ok(Server {
        version: fields.integer()?,
        is_standby: fields.boolean()?,
        is_read_only: fields.boolean()?,
        keeps: fields.boolean()?,
        synchronous_commit: fields.text()?.to_owned(),
        seen: Seen::new(fields.integer()?, fields.integer()?, fields.integer()?),
        replayed: fields.maybe_integer()?.map(history::place).transpose()?,
        is_pooled,
    })
}

/// The database's own id; none where it has none yet.
pub(super) async fn database_id(connection: &mut PgConnection) -> Result<Option<Uuid>, Fault> {
    let query = sqlx::query_scalar("SELECT database_id FROM ledger WHERE one = 1").persistent(false);
    Ok(query.fetch_optional(connection).await?)
}

/// The lowest protocol that a process must speak to work on the database.
async fn least_protocol(connection: &mut PgConnection) -> Result<u32, Fault> {
    let query = sqlx::query_scalar("SELECT least_protocol FROM ledger WHERE one = 1").persistent(false);
    let least: i64 = query.fetch_one(&mut *connection).await?;
    Ok(u32::try_from(least).unwrap_or(u32::MAX))
}

/// Ends a connection in good order.
pub(super) async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        warn!(%error, "a connection closed badly");
    }
}
