//! Loading the rows of a batch: one statement per table, whatever the size of the batch.

use serde_json::json;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::domain::resource::ResourceName;
use crate::protocol::incarnation::addressed;
use crate::protocol::rows::{EraRow, ResourceRow};
use crate::protocol::wanted::OperationWanted;
use crate::protocol::{Snapshot, Wanted};

use super::super::engine::EngineError;
use super::keys::{array, hex};
use super::row::{self, BadRow};

const LEASES: &str = "SELECT leases.* FROM json_each(?1) AS wanted CROSS JOIN leases \
     ON leases.bucket = wanted.value ->> 0 AND leases.acquisition = unhex(wanted.value ->> 1)";
const REQUESTED: &str = "SELECT leases.* FROM json_each(?1) AS wanted CROSS JOIN leases \
     ON leases.bucket = wanted.value ->> 0 AND leases.request_key = unhex(wanted.value ->> 1)";
const NAMESPACES: &str = "SELECT namespaces.* FROM json_each(?1) AS wanted CROSS JOIN namespaces \
     ON namespaces.bucket = 0 AND namespaces.namespace = wanted.value";
const RESOURCES: &str = "SELECT resources.* FROM json_each(?1) AS wanted CROSS JOIN resources \
     ON resources.bucket = wanted.value ->> 0 AND resources.resource = wanted.value ->> 1";
const ERAS: &str = "SELECT incarnations.* FROM json_each(?1) AS wanted CROSS JOIN incarnations \
     ON incarnations.bucket = wanted.value ->> 0 AND incarnations.resource = wanted.value ->> 1 \
     AND (incarnations.born_epoch, incarnations.born_token) = \
         (SELECT born_epoch, born_token FROM incarnations AS one \
          WHERE one.bucket = wanted.value ->> 0 AND one.resource = wanted.value ->> 1 \
            AND (one.born_epoch, one.born_token) <= (wanted.value ->> 2, wanted.value ->> 3) \
          ORDER BY one.born_epoch DESC, one.born_token DESC LIMIT 1)";
const TARGETS: &str = "SELECT targets.resource, target, incarnation, commit_no, content_type, size, digest \
     FROM json_each(?1) AS wanted CROSS JOIN targets \
     ON targets.bucket = wanted.value ->> 0 AND targets.resource = wanted.value ->> 1 \
     AND targets.target = wanted.value ->> 2";
const OPERATIONS: &str = "SELECT operations.* FROM json_each(?1) AS wanted CROSS JOIN operations \
     ON operations.bucket = wanted.value ->> 0 AND operations.resource = wanted.value ->> 1 \
     AND operations.incarnation = wanted.value ->> 2 AND operations.operation_id = wanted.value ->> 3";

/// Loads everything that a batch wants. The caller holds the transaction.
pub(super) async fn snapshot(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
) -> Result<Snapshot, EngineError> {
    let mut snapshot = Snapshot::default();
    let mut resources = wanted.resources.clone();
    let mut namespaces = wanted.namespaces.clone();
    let by_id = array(wanted.leases.iter().map(|(bucket, hash)| json!([bucket.0, hex(hash)])));
    let by_request = array(wanted.requests.iter().map(|(bucket, key)| json!([bucket.0, hex(&key.0)])));
    for (statement, keys) in [(LEASES, by_id), (REQUESTED, by_request)] {
        for found in select(connection, statement, keys).await? {
            let lease = row::lease(&found)?;
            namespaces.insert(lease.resource.namespace());
            resources.insert(lease.resource.clone());
            snapshot.insert_lease(lease);
        }
    }
    let keys = array(namespaces.iter().map(|name| json!(name.as_str())));
    for found in select(connection, NAMESPACES, keys).await? {
        snapshot.insert_namespace(row::namespace(&found)?);
    }
    let keys = array(resources.iter().map(|name| json!([name.bucket().0, name.as_str()])));
    let mut newest = Vec::new();
    for found in select(connection, RESOURCES, keys).await? {
        let resource = row::resource(&found)?;
        if let Some(lease) = resource.lease {
            newest.push(json!([resource.resource.bucket().0, hex(lease.as_bytes())]));
        }
        snapshot.insert_resource(resource);
    }
    for found in select(connection, LEASES, array(newest.into_iter())).await? {
        snapshot.insert_lease(row::lease(&found)?);
    }
    content(connection, wanted, &mut snapshot).await?;
    Ok(snapshot)
}

/// Eras, targets and operation records: which record a request means depends on the resource rows.
async fn content(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
    snapshot: &mut Snapshot,
) -> Result<(), EngineError> {
    let older = wanted.operations.iter().filter(|one| {
        let row = snapshot.resource(&one.resource);
        one.incarnation.is_none() && row.is_some_and(|row| falls_before(row, one))
    });
    let keys = array(older.map(|one| {
        let (epoch, token) = (one.position.epoch.get(), one.position.token.get());
        json!([one.resource.bucket().0, one.resource.as_str(), epoch, token])
    }));
    for found in select(connection, ERAS, keys).await? {
        let resource = row::resource_name(&found)?;
        let (incarnation, born) = row::incarnation_and_birth(&found)?;
        snapshot.insert_era(EraRow { resource, incarnation, born });
    }
    let keys = array(wanted.targets.iter().map(|address| {
        let target = address.target.as_ref().map_or("", |target| target.as_str());
        json!([address.resource.bucket().0, address.resource.as_str(), target])
    }));
    for found in select(connection, TARGETS, keys).await? {
        snapshot.insert_target(row::resource_name(&found)?, row::target(&found)?);
    }
    let keys = array(wanted.operations.iter().filter_map(|one| {
        let incarnation = incarnation_of(snapshot, one)?;
        Some(json!([one.resource.bucket().0, one.resource.as_str(), incarnation, one.operation_id.as_str()]))
    }));
    for found in select(connection, OPERATIONS, keys).await? {
        snapshot.insert_operation(row::operation(&found)?);
    }
    Ok(())
}

/// Whether a request addresses another incarnation than the current one.
fn falls_before(row: &ResourceRow, one: &OperationWanted) -> bool {
    addressed(row, one.position, None, |_| None).is_none()
}

fn incarnation_of(snapshot: &Snapshot, one: &OperationWanted) -> Option<u64> {
    let resource: &ResourceName = &one.resource;
    let row = snapshot.resource(resource)?;
    addressed(row, one.position, one.incarnation, |position| snapshot.era_at(resource, position))
        .map(crate::domain::counter::Incarnation::get)
}

/// Runs a statement over a set of keys; an empty set costs nothing.
async fn select(
    connection: &mut SqliteConnection,
    statement: &'static str,
    keys: String,
) -> Result<Vec<SqliteRow>, EngineError> {
    if keys == "[]" {
        return Ok(Vec::new());
    }
    Ok(sqlx::query(statement).bind(keys).fetch_all(connection).await?)
}

impl From<BadRow> for EngineError {
    fn from(error: BadRow) -> Self {
        Self::Inconsistent(error.to_string())
    }
}

impl From<sqlx::Error> for EngineError {
    /// Whatever goes wrong before a commit has had no effect. A broken key or constraint contradicts the decision;
    /// everything else is the database's trouble.
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(database) if database.kind() != sqlx::error::ErrorKind::Other => {
                Self::Inconsistent(error.to_string())
            }
            Some(_) | None => Self::Unavailable(error.to_string()),
        }
    }
}
