//! How the rate changes as operation records and resources become many.
//!
//! Resources are written through the gateway's door; records are put into its tables in bulk, as copies of the first
//! record of each resource under names of their own, in the order in which they would have come. That needs to know
//! the tables, and it is the one place outside the ledger that does: it fills a database that only this run uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rusqlite::{Connection, params};

use super::cells::float;
use super::request::Workload;
use super::rounds::Rounds;
use super::server::Postgres;
use super::templates;
use crate::bench::Plan;

/// Connections of every cell.
const MANY: u64 = 64;

/// Resources and operation records of each size, beside the one record that every resource has.
const SIZES: [(u64, u64); 5] =
    [(100_000, 0), (100_000, 1_000_000), (100_000, 5_000_000), (10_000, 0), (1_000_000, 0)];

/// The same for a run that only shows that it works.
const SMALL: [(u64, u64); 2] = [(2_048, 0), (2_048, 10_240)];

/// Copies the first record of every resource `?1` times, round after round, each behind the one before it.
const RECORDS: &str = "
CREATE TEMP TABLE documents AS
    SELECT row_number() OVER (ORDER BY r.id) - 1 AS place, r.id AS resource_id, r.newest_operation AS newest
    FROM resources r WHERE r.resource >= 'bench/' AND r.resource < 'bench0';
CREATE TEMP TABLE size AS
    SELECT (SELECT count(*) FROM documents) AS resources, (SELECT operations FROM ledger) AS top;
INSERT INTO operations (bucket, id, resource_id, previous, incarnation, operation_id, target, method, fingerprint,
        position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, decided_ms, done, commit_no,
        etag_incarnation, etag_commit, response)
    WITH RECURSIVE rounds (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM rounds WHERE k + 1 < :copies)
    SELECT o.bucket, size.top + 1 + k * size.resources + d.place, o.resource_id,
        CASE k WHEN 0 THEN d.newest ELSE size.top + 1 + (k - 1) * size.resources + d.place END,
        o.incarnation, 'bulk-' || lower(hex(randomblob(16))), o.target, o.method, o.fingerprint, o.position_epoch,
        o.position_token, o.sequence, o.acquisition, o.state, o.attempt, o.created_ms, o.decided_ms, o.done,
        o.commit_no, o.etag_incarnation, o.etag_commit, o.response
    FROM rounds CROSS JOIN size CROSS JOIN documents d JOIN operations o ON o.id = d.newest;
";

/// Says where the records are found, as the ledger does: their keys, the newest of each resource, and their number. The
/// hash of a key is a random one, which costs a lookup of another operation just as much.
const KEYS: &str = "
INSERT INTO operation_keys (bucket, resource_id, hash, operation)
    SELECT o.bucket, o.resource_id, random(), o.id FROM operations o, size WHERE o.id > size.top
    ORDER BY o.bucket, o.resource_id;
UPDATE resources SET indexed = 1, newest_operation = (
        SELECT size.top + 1 + (:copies - 1) * size.resources + d.place FROM documents d, size
        WHERE d.resource_id = resources.id)
    WHERE resource >= 'bench/' AND resource < 'bench0';
UPDATE ledger SET operations = (SELECT top + resources * :copies FROM size);
";

/// The same for the server's tables, which find a record by its names.
const ON_SERVER: &str = "
INSERT INTO operations (bucket, resource, incarnation, operation_id, target, method, fingerprint, position_epoch,
        position_token, sequence, acquisition, state, attempt, created_ms, decided_ms, done, commit_no,
        etag_incarnation, etag_commit, response)
    SELECT o.bucket, o.resource, o.incarnation, 'bulk-' || md5(random()::text || k::text), o.target, o.method,
        o.fingerprint, o.position_epoch, o.position_token, o.sequence, o.acquisition, o.state, o.attempt, o.created_ms,
        o.decided_ms, o.done, o.commit_no, o.etag_incarnation, o.etag_commit, o.response
    FROM generate_series(1, :copies) AS k, operations o
    WHERE o.resource >= 'bench/' AND o.resource < 'bench0' AND o.operation_id LIKE 'preload-%'
";

/// A filled database of one size.
struct Grown {
    resources: u64,
    records: u64,
    home: PathBuf,
    /// What the gateway calls it.
    database: String,
}

impl Grown {
    fn name(&self, store: &str) -> String {
        format!("{store}, {} resources, {} records", self.resources, self.records)
    }
}

/// Measures each size in every round, in an order that moves on.
pub(super) async fn run(
    rounds: &mut Rounds<'_>,
    sqlite: bool,
    server: Option<&mut Postgres>,
) -> anyhow::Result<()> {
    let sizes = if rounds.plan.quick { &SMALL[..] } else { &SIZES[..] };
    let mut grown: Vec<(&str, Grown)> = Vec::new();
    if sqlite {
        for size in sizes {
            grown.push((SQLITE, embedded(rounds, *size).await?));
        }
    }
    if let Some(server) = server {
        for size in sizes {
            grown.push((POSTGRES, on_server(rounds, server, *size).await?));
        }
    }
    for round in 0..rounds.plan.rounds {
        for (store, size) in &grown {
            let log = rounds.plan.log.as_deref();
            let server = templates::gateway(&size.home, &size.database, log).await?;
            let workload = Workload::Distinct { resources: size.resources };
            let sample = rounds.measure(&server, workload, MANY, None).await?;
            server.stop().await?;
            let name = size.name(store);
            let fault = sample.fault.as_deref().unwrap_or("valid");
            (rounds.tell)(&format!("round {round} {name}: {:.0}/s, {fault}", sample.rate));
            if sample.fault.is_none() {
                rounds.results.note(&format!("{name}: writes/s"), round, sample.rate);
                rounds.results.note(&format!("{name}: p99 ms"), round, sample.p99_ms.unwrap_or_default());
            }
        }
        let turn = grown.len().min(1);
        grown.rotate_left(turn);
    }
    ratios(rounds, sizes);
    Ok(())
}

/// What the sizes are called in the report.
const SQLITE: &str = "growth, gateway-sqlite";
const POSTGRES: &str = "growth, gateway-postgres";

/// Each size's rate in a round over that of the first size in the same round.
fn ratios(rounds: &mut Rounds<'_>, sizes: &[(u64, u64)]) {
    let rate = |store: &str, (resources, records): (u64, u64)| {
        let name = format!("{store}, {resources} resources, {records} records: writes/s");
        let figures = rounds.results.figures.get(&name).into_iter().flatten().copied();
        figures.collect::<BTreeMap<u32, f64>>()
    };
    let mut found = Vec::new();
    for store in [SQLITE, POSTGRES] {
        let Some((first, others)) = sizes.split_first() else { continue };
        let base = rate(store, *first);
        for size in others {
            for (round, figure) in rate(store, *size) {
                if let Some(base) = base.get(&round).filter(|base| **base > 0.0) {
                    let (resources, records) = *size;
                    let name =
                        format!("{store}, {resources} resources, {records} records: over the first size");
                    found.push((name, round, figure / base));
                }
            }
        }
    }
    for (name, round, ratio) in found {
        rounds.results.note(&name, round, ratio);
    }
}

async fn embedded(rounds: &mut Rounds<'_>, (resources, records): (u64, u64)) -> anyhow::Result<Grown> {
    let home = rounds.folder.fresh("grown")?;
    let database = templates::sqlite(&home);
    let grown = Grown { resources, records, home, database };
    (rounds.tell)(&format!("filling {}", grown.name(SQLITE)));
    let plan = Plan { resources, ..rounds.plan.clone() };
    templates::fill_gateway(&plan, &grown.home, &grown.database).await?;
    let file = grown.home.join(templates::SQLITE_FILE);
    let copies = records / resources;
    if copies > 0 {
        let file = file.clone();
        tokio::task::spawn_blocking(move || add(&file, copies)).await.context("interrupted")??;
    }
    let bytes = std::fs::metadata(&file).with_context(|| format!("there is no {}", file.display()))?.len();
    rounds.results.note(&format!("{}: MB", grown.name(SQLITE)), 0, float(bytes) / 1_000_000.0);
    Ok(grown)
}

/// Adds records to a file that no gateway has open.
fn add(file: &Path, copies: u64) -> anyhow::Result<()> {
    let failed = || format!("cannot add records to {}", file.display());
    let mut connection = Connection::open(file).with_context(failed)?;
    connection
        .execute_batch("PRAGMA cache_size = -262144; PRAGMA temp_store = MEMORY;")
        .with_context(failed)?;
    let transaction = connection.transaction().with_context(failed)?;
    let copies = i64::try_from(copies).unwrap_or(i64::MAX);
    for sql in [RECORDS, KEYS] {
        for statement in sql.split_inclusive(";\n") {
            let mut statement = transaction.prepare(statement).with_context(failed)?;
            let bound = statement.parameter_count() > 0;
            if bound { statement.execute(params![copies]) } else { statement.execute([]) }
                .with_context(failed)?;
        }
    }
    transaction.commit().with_context(failed)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).with_context(failed)
}

async fn on_server(
    rounds: &mut Rounds<'_>,
    server: &mut Postgres,
    (resources, records): (u64, u64),
) -> anyhow::Result<Grown> {
    let home = rounds.folder.fresh("grown")?;
    let name = server.empty("grown").await?;
    let database = server.address(&name).to_string();
    let grown = Grown { resources, records, home, database };
    (rounds.tell)(&format!("filling {}", grown.name(POSTGRES)));
    let plan = Plan { resources, ..rounds.plan.clone() };
    templates::fill_gateway(&plan, &grown.home, &grown.database).await?;
    let copies = records / resources;
    if copies > 0 {
        server.execute(&name, &ON_SERVER.replace(":copies", &copies.to_string())).await?;
    }
    for sql in ["VACUUM ANALYZE", "CHECKPOINT"] {
        server.execute(&name, sql).await?;
    }
    let bytes = server.size(&name).await?;
    rounds.results.note(&format!("{}: MB", grown.name(POSTGRES)), 0, float(bytes) / 1_000_000.0);
    Ok(grown)
}
