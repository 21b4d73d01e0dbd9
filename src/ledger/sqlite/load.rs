//! The rows that a batch wants, in a few statements however many commands it has.
//!
//! The order matters: a lease leads to its resource, a resource to its namespace, its newest lease and its earlier
//! incarnations, and those to the operation records that a request addresses.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::protocol::incarnation::addressed;
use crate::protocol::rows::{EraRow, LeaseRow};
use crate::protocol::wanted::OperationWanted;
use crate::protocol::{Snapshot, Wanted};

use super::fault::Fault;
use super::rows::{
    self, lease_columns, namespace_columns, operation_columns, resource_columns, target_columns, target_text,
};
use super::tuples::Statement;

const LEASES: Statement = Statement {
    head: concat!("SELECT k.column1, ", lease_columns!(), " FROM"),
    width: 3,
    tail: "AS k CROSS JOIN leases AS l ON l.bucket = k.column2 AND l.acquisition = k.column3",
};

const LEASES_BY_REQUEST: Statement = Statement {
    head: concat!("SELECT k.column1, ", lease_columns!(), " FROM"),
    width: 3,
    tail: "AS k CROSS JOIN leases AS l ON l.bucket = k.column2 AND l.request_key = k.column3",
};

const NAMESPACES: Statement = Statement {
    head: concat!("SELECT k.column1, ", namespace_columns!(), " FROM"),
    width: 3,
    tail: "AS k CROSS JOIN namespaces AS n ON n.bucket = k.column2 AND n.namespace = k.column3",
};

const RESOURCES: Statement = Statement {
    head: concat!("SELECT k.column1, ", resource_columns!(), " FROM"),
    width: 3,
    tail: "AS k CROSS JOIN resources AS r ON r.bucket = k.column2 AND r.resource = k.column3",
};

/// Of each resource the one ended incarnation in which a position falls.
const ERAS: Statement = Statement {
    head: "SELECT k.column1, i.incarnation, i.born_epoch, i.born_token FROM",
    width: 5,
    tail: "AS k CROSS JOIN incarnations AS i ON i.bucket = k.column2 AND i.resource = k.column3 \
           AND (i.born_epoch, i.born_token) = (\
             SELECT e.born_epoch, e.born_token FROM incarnations AS e \
             WHERE e.bucket = k.column2 AND e.resource = k.column3 \
             AND (e.born_epoch, e.born_token) <= (k.column4, k.column5) \
             ORDER BY e.born_epoch DESC, e.born_token DESC LIMIT 1)",
};

const OPERATIONS: Statement = Statement {
    head: concat!("SELECT k.column1, ", operation_columns!(), " FROM"),
    width: 5,
    tail: "AS k CROSS JOIN operations AS o ON o.bucket = k.column2 AND o.resource = k.column3 \
           AND o.incarnation = k.column4 AND o.operation_id = k.column5",
};

const TARGETS: Statement = Statement {
    head: concat!("SELECT k.column1, ", target_columns!(), " FROM"),
    width: 4,
    tail: "AS k CROSS JOIN targets AS t ON t.bucket = k.column2 AND t.resource = k.column3 \
           AND t.target = k.column4",
};

/// Loads everything that is wanted and exists. A transaction is open.
pub(super) async fn snapshot(connection: &mut SqliteConnection, wanted: &Wanted) -> Result<Snapshot, Fault> {
    let mut snapshot = Snapshot::default();
    let mut resources = wanted.resources.clone();
    for lease in named_leases(connection, wanted).await? {
        resources.insert(lease.resource.clone());
        snapshot.insert_lease(lease);
    }
    let resources: Vec<ResourceName> = resources.into_iter().collect();
    load_namespaces(connection, wanted, &resources, &mut snapshot).await?;
    load_resources(connection, &resources, &mut snapshot).await?;
    load_newest_leases(connection, &mut snapshot).await?;
    load_eras(connection, wanted, &mut snapshot).await?;
    load_operations(connection, wanted, &mut snapshot).await?;
    load_targets(connection, wanted, &mut snapshot).await?;
    Ok(snapshot)
}

async fn named_leases(connection: &mut SqliteConnection, wanted: &Wanted) -> Result<Vec<LeaseRow>, Fault> {
    let by_acquisition: Vec<(Bucket, [u8; 32])> = wanted.leases.iter().copied().collect();
    let by_request: Vec<(Bucket, [u8; 32])> =
        wanted.requests.iter().map(|(bucket, key)| (*bucket, key.0)).collect();
    let mut found = leases(&LEASES, connection, &by_acquisition).await?;
    found.extend(leases(&LEASES_BY_REQUEST, connection, &by_request).await?);
    Ok(found)
}

async fn leases(
    statement: &Statement,
    connection: &mut SqliteConnection,
    keys: &[(Bucket, [u8; 32])],
) -> Result<Vec<LeaseRow>, Fault> {
    statement
        .fetch(
            connection,
            keys,
            |cells, (bucket, key)| {
                cells.bucket(*bucket);
                cells.blob(key);
            },
            |_, columns| rows::lease(columns),
        )
        .await
}

/// One copy of each namespace will do: all copies change in one transaction, and there is one writer.
async fn load_namespaces(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
    resources: &[ResourceName],
    snapshot: &mut Snapshot,
) -> Result<(), Fault> {
    let mut copies: BTreeMap<Namespace, Bucket> =
        wanted.namespaces.iter().map(|namespace| (namespace.clone(), Bucket(0))).collect();
    for resource in resources {
        copies.insert(resource.namespace(), resource.bucket());
    }
    let keys: Vec<(Namespace, Bucket)> = copies.into_iter().collect();
    let found = NAMESPACES
        .fetch(
            connection,
            &keys,
            |cells, (namespace, bucket)| {
                cells.bucket(*bucket);
                cells.text(namespace.as_str());
            },
            |(namespace, _), columns| rows::namespace(namespace.clone(), columns),
        )
        .await?;
    for row in found {
        snapshot.insert_namespace(row);
    }
    Ok(())
}

async fn load_resources(
    connection: &mut SqliteConnection,
    resources: &[ResourceName],
    snapshot: &mut Snapshot,
) -> Result<(), Fault> {
    let found = RESOURCES
        .fetch(
            connection,
            resources,
            |cells, resource| {
                cells.bucket(resource.bucket());
                cells.text(resource.as_str());
            },
            |resource, columns| rows::resource(resource.clone(), columns),
        )
        .await?;
    for row in found {
        snapshot.insert_resource(row);
    }
    Ok(())
}

async fn load_newest_leases(connection: &mut SqliteConnection, snapshot: &mut Snapshot) -> Result<(), Fault> {
    let missing: Vec<(Bucket, [u8; 32])> = snapshot
        .resources()
        .filter_map(|row| row.lease.map(|acquisition| (row, acquisition)))
        .filter(|(_, acquisition)| snapshot.lease(acquisition).is_none())
        .map(|(row, acquisition)| (row.resource.bucket(), *acquisition.as_bytes()))
        .collect();
    let found = leases(&LEASES, connection, &missing).await?;
    for row in found {
        snapshot.insert_lease(row);
    }
    Ok(())
}

async fn load_eras(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
    snapshot: &mut Snapshot,
) -> Result<(), Fault> {
    // Where only an earlier incarnation can be meant, the rule finds none without an era to look in.
    let before_birth = |one: &&OperationWanted| {
        snapshot
            .resource(&one.resource)
            .is_some_and(|row| addressed(row, one.position, one.incarnation, |_| None).is_none())
    };
    let keys: Vec<(ResourceName, Position)> = wanted
        .operations
        .iter()
        .filter(before_birth)
        .map(|one| (one.resource.clone(), one.position))
        .collect();
    let found = ERAS
        .fetch(
            connection,
            &keys,
            |cells, (resource, position)| {
                cells.bucket(resource.bucket());
                cells.text(resource.as_str());
                cells.position(*position);
            },
            |(resource, _), columns| {
                let incarnation = columns.counter(Incarnation::new)?;
                Ok(EraRow { resource: resource.clone(), incarnation, born: columns.position()? })
            },
        )
        .await?;
    for row in found {
        snapshot.insert_era(row);
    }
    Ok(())
}

async fn load_operations(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
    snapshot: &mut Snapshot,
) -> Result<(), Fault> {
    let key = |one: &OperationWanted| -> Option<(ResourceName, Incarnation, OperationId)> {
        let row = snapshot.resource(&one.resource)?;
        let era_at = |position| snapshot.era_at(&one.resource, position);
        let incarnation = addressed(row, one.position, one.incarnation, era_at)?;
        Some((one.resource.clone(), incarnation, one.operation_id.clone()))
    };
    let keys: Vec<_> = wanted.operations.iter().filter_map(key).collect();
    let found = OPERATIONS
        .fetch(
            connection,
            &keys,
            |cells, (resource, incarnation, operation_id)| {
                cells.bucket(resource.bucket());
                cells.text(resource.as_str());
                cells.whole(incarnation.get());
                cells.text(operation_id.as_str());
            },
            |(resource, _, _), columns| rows::operation(resource.clone(), columns),
        )
        .await?;
    for row in found {
        snapshot.insert_operation(row);
    }
    Ok(())
}

async fn load_targets(
    connection: &mut SqliteConnection,
    wanted: &Wanted,
    snapshot: &mut Snapshot,
) -> Result<(), Fault> {
    let known = |address: &&Address| snapshot.resource(&address.resource).is_some();
    let keys: Vec<Address> = wanted.targets.iter().filter(known).cloned().collect();
    let found = TARGETS
        .fetch(
            connection,
            &keys,
            |cells, address| {
                cells.bucket(address.resource.bucket());
                cells.text(address.resource.as_str());
                cells.text(target_text(address.target.as_ref()));
            },
            |address, columns| Ok((address.resource.clone(), rows::target(columns)?)),
        )
        .await?;
    for (resource, row) in found {
        snapshot.insert_target(resource, row);
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn texts() -> Vec<String> {
    [LEASES, LEASES_BY_REQUEST, NAMESPACES, RESOURCES, ERAS, OPERATIONS, TARGETS]
        .iter()
        .flat_map(Statement::texts)
        .collect()
}
