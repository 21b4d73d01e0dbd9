//! The steps of the schema, embedded in the binary, and what of them stands in a database.

use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;

use sqlx::migrate::Migrator;
use sqlx::{Connection, Executor, PgConnection, Row};

use super::super::steps::{self, Applied, Foreign, MigrationReport, PROTOCOL};
use super::address::Address;
use super::connect::{self, Server};
use super::fault::Fault;
use super::open::{OpenError, OpenMode};

/// The database may be home to other programs, whose migrations have a table of their own.
const TABLE: &str = "fencegate_migrations";

static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx::migrate!("migrations/postgres");
    // A lock of the session would be lost, or stay for ever, behind a pooler: `apply` takes one of the transaction.
    migrator.set_locking(false);
    migrator.dangerous_set_table_name(TABLE);
    migrator
});

/// Two gateways that make or migrate one database do it one after the other: "fencegat" as a number.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7378413942531842420)";

/// A step may take its time, and waits for others for a minute; it is durable when it is done.
const SETTINGS: &str = "SET LOCAL synchronous_commit = on; SET LOCAL statement_timeout = 0; \
                        SET LOCAL lock_timeout = '1min'; SET LOCAL idle_in_transaction_session_timeout = '1min'";

/// Tables that a database of ours has from the first step on.
const FOUND: &str = "SELECT to_regclass('fencegate_migrations') IS NOT NULL, \
                     to_regclass('ledger') IS NOT NULL OR to_regclass('resources') IS NOT NULL \
                     OR to_regclass('operations') IS NOT NULL OR to_regclass('leases') IS NOT NULL, \
                     EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('ledger') \
                     AND attname = 'least_protocol' AND NOT attisdropped)";

/// What stands in a database.
#[derive(Debug, Default)]
struct Found {
    /// The list of steps is there.
    recorded: bool,
    /// Tables with the names of ours.
    tables: bool,
    applied: Applied,
    /// None where the step that says so is missing.
    least_protocol: Option<u32>,
}

/// The steps that this version knows, which of them stand in the database, and the protocol that it demands. Nothing is
/// changed.
///
/// # Errors
/// [`OpenError`] when the database cannot be read, is not a ledger, or is that of a newer version.
pub async fn migration_report(address: &Address) -> Result<MigrationReport, OpenError> {
    let (mut connection, _, _) = reach(address).await?;
    let report = report(address, &mut connection).await;
    connect::close(connection).await;
    report
}

/// Applies the steps that the database lacks. Gateways may run meanwhile: a step only adds what they can ignore.
///
/// # Errors
/// [`OpenError`] when that cannot be done.
pub async fn migrate(address: &Address) -> Result<MigrationReport, OpenError> {
    let (mut connection, server, _) = reach(address).await?;
    let report = bring_up(address, &mut connection, &server).await;
    connect::close(connection).await;
    report
}

/// The same, and then no process that speaks a lower protocol than this one may work on the database: one that starts is
/// refused, and one that runs is with its next batch.
///
/// # Errors
/// [`OpenError`] when that cannot be done.
pub async fn finish(address: &Address) -> Result<MigrationReport, OpenError> {
    let (mut connection, server, _) = reach(address).await?;
    let report = bring_up(address, &mut connection, &server).await;
    let report = match report {
        Ok(_) => raise(address, &mut connection).await,
        Err(error) => Err(error),
    };
    connect::close(connection).await;
    report
}

/// Every batch holds a copy of a namespace's row, or of what holds for those that were never used. Who holds all of them
/// waits for the batches that are under way, and every later one sees what was raised.
const RAISE: [&str; 3] = [
    "SELECT 1 FROM everywhere ORDER BY bucket FOR UPDATE",
    "SELECT 1 FROM namespaces ORDER BY bucket, namespace FOR UPDATE",
    // It is only ever raised.
    "UPDATE ledger SET least_protocol = greatest(least_protocol, $1) WHERE one = 1",
];

async fn raise(address: &Address, connection: &mut PgConnection) -> Result<MigrationReport, OpenError> {
    let fail = |error: sqlx::Error| OpenError::database(address, error);
    let mut transaction = connection.begin().await.map_err(fail)?;
    transaction.execute(SETTINGS).await.map_err(fail)?;
    let [everywhere, namespaces, raise] = RAISE;
    transaction.execute(everywhere).await.map_err(fail)?;
    transaction.execute(namespaces).await.map_err(fail)?;
    let raise = sqlx::query(raise).bind(i64::from(PROTOCOL)).persistent(false);
    raise.execute(&mut *transaction).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    report(address, connection).await
}

async fn bring_up(
    address: &Address,
    connection: &mut PgConnection,
    server: &Server,
) -> Result<MigrationReport, OpenError> {
    server.fit().map_err(|reason| OpenError::Unfit { address: address.to_string(), reason })?;
    look(address, connection).await?;
    apply(address, connection).await?;
    report(address, connection).await
}

async fn report(address: &Address, connection: &mut PgConnection) -> Result<MigrationReport, OpenError> {
    let found = look(address, connection).await?;
    let steps = steps::states(&MIGRATOR, &found.applied);
    Ok(MigrationReport { steps, least_protocol: found.least_protocol })
}

/// Refuses a database whose upgrade was finished by a release that speaks a higher protocol.
pub(super) async fn demand(address: &Address, connection: &mut PgConnection) -> Result<(), OpenError> {
    let least = look(address, connection).await?.least_protocol;
    match least.and_then(steps::too_old) {
        Some(reason) => Err(OpenError::Protocol { address: address.to_string(), reason }),
        None => Ok(()),
    }
}

/// A connection to the primary, before anything is known of the database.
pub(super) async fn reach(address: &Address) -> Result<(PgConnection, Server, usize), OpenError> {
    connect::primary(address, &AtomicUsize::new(0))
        .await
        .map_err(|fault| OpenError::NoPrimary { reason: fault.to_string() })
}

/// Makes sure that the database has exactly the steps that this version knows. An empty one is furnished; one that
/// lacks a step is left alone, since other gateways may be using it.
pub(super) async fn ensure(
    address: &Address,
    connection: &mut PgConnection,
    mode: OpenMode,
) -> Result<(), OpenError> {
    let found = look(address, connection).await?;
    let newest = found.applied.keys().max().copied();
    let address_text = || address.to_string();
    match (newest, mode) {
        (Some(newest), _) if Some(newest) == version() => Ok(()),
        (None, OpenMode::Create) if !found.tables => apply(address, connection).await,
        (None, OpenMode::ExistingOnly) if !found.tables => {
            Err(OpenError::Missing { address: address_text() })
        }
        (newest, OpenMode::Create | OpenMode::ExistingOnly) => Err(OpenError::Older {
            address: address_text(),
            found: newest.unwrap_or_default(),
            known: version().unwrap_or_default(),
        }),
    }
}

/// The newest step that this version knows.
pub(super) fn version() -> Option<i64> {
    steps::version(&MIGRATOR)
}

/// All steps in one transaction, under a lock that ends with it.
async fn apply(address: &Address, connection: &mut PgConnection) -> Result<(), OpenError> {
    let fail = |error: sqlx::Error| OpenError::database(address, error);
    let mut transaction = connection.begin().await.map_err(fail)?;
    transaction.execute(SETTINGS).await.map_err(fail)?;
    transaction.execute(LOCK).await.map_err(fail)?;
    // `run_direct` is what `run` calls; through `run` the compiler cannot see that our future may change threads.
    MIGRATOR.run_direct(None, &mut *transaction, false).await.map_err(|error| OpenError::Database {
        address: address.to_string(),
        reason: format!("a step of the schema could not be applied: {error}"),
    })?;
    transaction.commit().await.map_err(fail)
}

/// Looks into a database without changing it, and refuses what this version must not touch.
async fn look(address: &Address, connection: &mut PgConnection) -> Result<Found, OpenError> {
    let found = read(connection).await.map_err(|fault| OpenError::database(address, fault))?;
    judge(address, &found)?;
    Ok(found)
}

async fn read(connection: &mut PgConnection) -> Result<Found, Fault> {
    connection.execute(connect::LOOK).await?;
    let found = read_in_transaction(connection).await?;
    connection.execute(connect::LOOKED).await?;
    Ok(found)
}

async fn read_in_transaction(connection: &mut PgConnection) -> Result<Found, Fault> {
    let row = sqlx::query(FOUND).persistent(false).fetch_one(&mut *connection).await?;
    let (recorded, tables, said): (bool, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let mut applied = Applied::new();
    if recorded {
        let query = sqlx::query("SELECT version, checksum FROM fencegate_migrations").persistent(false);
        for row in query.fetch_all(&mut *connection).await? {
            applied.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    let mut least_protocol = None;
    if said {
        let query = sqlx::query_scalar("SELECT least_protocol FROM ledger WHERE one = 1").persistent(false);
        let least: Option<i64> = query.fetch_optional(&mut *connection).await?;
        least_protocol = least.map(|least| u32::try_from(least).unwrap_or(u32::MAX));
    }
    Ok(Found { recorded, tables, applied, least_protocol })
}

fn judge(address: &Address, found: &Found) -> Result<(), OpenError> {
    if found.tables && !found.recorded {
        return Err(OpenError::NotOurs { address: address.to_string() });
    }
    steps::judge(&MIGRATOR, &found.applied).map_err(|foreign| match foreign {
        Foreign::Newer { found, known } => OpenError::Newer { address: address.to_string(), found, known },
        Foreign::Edited { version } => OpenError::Edited { address: address.to_string(), version },
    })
}
