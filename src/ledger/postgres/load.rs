//! The rows that a batch wants, in two statements however many commands it has.
//!
//! The first holds the namespaces and the resources, in canonical order, and brings them as they stand once they are
//! held. Everything else that it could read would be as old as its beginning, before the wait for a lock. So the second
//! statement brings the time and all other rows, and whether the server may be written to at all.
//!
use std::collections::{BTreeMap, BTreeSet};

use sqlx::postgres::PgArguments;
use sqlx::{Arguments, AssertSqlSafe, Row};

use crate::deliberate::{self, Bug};
use crate::domain::counter::Incarnation;
use crate::domain::resource::{Address, Bucket, Namespace, ResourceName};
use crate::protocol::lease::KEPT_AFTER_END;
use crate::protocol::rows::{EraRow, LeaseRow};
use crate::protocol::{Snapshot, Wanted};

use super::super::cells::{ReadCells, WriteCells};
use super::super::engine::Loaded;
use super::super::rows::{self, lease_columns, namespace_columns, resource_columns};
use super::super::steps;
use super::connect::Live;
use super::fault::Fault;
use super::fields::Fields;
use super::time::Time;
use super::tuples::{RowPlace, Shape, Tuples};

mod keys;
mod retention;
mod whole;

use keys::Keys;
pub(super) use whole::has_unused;

/// The namespaces of a batch, held so that none changes: `$1` the bucket of the copy, and the names in order.
macro_rules! hold_namespaces {
    ($names:literal) => {
        concat!(
            "SELECT 0::smallint, NULL::integer, ROW(n.namespace, ",
            namespace_columns!(),
            ") FROM ",
            $names,
            " AS k (name) CROSS JOIN LATERAL (\
             SELECT * FROM namespaces AS n WHERE n.bucket = $1 AND n.namespace = k.name FOR SHARE) AS n"
        )
    };
}

/// Resources, held for writing, in the order of the keys.
macro_rules! hold_resources {
    ($name:literal, $keys:literal) => {
        concat!(
            " UNION ALL SELECT 1::smallint, k.ordinal, ROW(",
            $name,
            ", r.place, ",
            resource_columns!(),
            ") FROM ",
            $keys,
            " AS k CROSS JOIN LATERAL (\
             SELECT *, r.ctid AS place FROM resources AS r WHERE r.bucket = k.bucket AND r.resource = k.name FOR UPDATE) AS r"
        )
    };
}

/// `$2` the namespaces, `$3` the resources.
const HOLD: &str =
    concat!(hold_namespaces!("unnest($2::text[])"), hold_resources!("NULL::text", "unnest($3)"));

/// `$2` the namespaces, `$3` the resources, `$4` leases that lead to others of both. All of them are held in one order.
const HOLD_BY_LEASE: &str = concat!(
    hold_namespaces!(
        "(SELECT u.name FROM (\
         SELECT k.name COLLATE \"C\" AS name FROM unnest($2::text[]) AS k (name) \
         UNION SELECT split_part(l.resource, '/', 1) FROM unnest($4) AS k CROSS JOIN LATERAL (\
         SELECT * FROM leases AS l WHERE l.bucket = k.bucket AND l.acquisition = k.hash LIMIT 1) AS l) AS u \
         ORDER BY u.name)"
    ),
    hold_resources!(
        "k.name",
        "(SELECT max(u.ordinal) AS ordinal, u.bucket, u.name FROM (\
         SELECT k.ordinal, k.bucket, k.name COLLATE \"C\" AS name FROM unnest($3) AS k \
         UNION ALL SELECT NULL::integer, l.bucket, l.resource FROM unnest($4) AS k CROSS JOIN LATERAL (\
         SELECT * FROM leases AS l WHERE l.bucket = k.bucket AND l.acquisition = k.hash LIMIT 1) AS l) AS u \
         GROUP BY u.bucket, u.name ORDER BY u.bucket, u.name)"
    )
);

/// The time after the rows are held, whether the server takes writes and keeps them, and which protocol the database
/// demands.
const CLOCK: &str = "SELECT 0::smallint, 0, ROW(\
                     floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_is_in_recovery(), \
                     current_setting('transaction_read_only'), current_setting('synchronous_commit'), \
                     current_setting('statement_timeout'), \
                     (SELECT least_protocol FROM ledger WHERE one = 1))";

/// Leases over several resources, held: whoever holds only one of these resources may end such a lease too.
const HOLD_LEASES: &str = concat!(
    "SELECT 1::smallint, k.ordinal, ROW(",
    lease_columns!(),
    ") FROM unnest($1) AS k CROSS JOIN LATERAL (\
         SELECT * FROM leases AS l WHERE l.bucket = k.bucket AND l.acquisition = k.hash FOR UPDATE) AS l"
);

/// The question for the time.
fn clock_text() -> String {
    if deliberate::on(Bug::TimeOfTheTransaction) {
        return CLOCK.replace("clock_timestamp()", "now()");
    }
    CLOCK.to_owned()
}

/// Where a load runs.
pub(super) struct Place<'c> {
    pub(super) live: &'c mut Live,
    /// The copy of each namespace that this engine holds: its own, so that two engines of one process do not meet.
    pub(super) copy: Bucket,
    pub(super) time: &'c Time,
}

/// Where the rows lie that a batch may replace.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) resources: BTreeMap<ResourceName, RowPlace>,
    pub(super) targets: BTreeMap<Address, RowPlace>,
}

/// Holds the rows of a batch and loads everything that is wanted and exists. A transaction has just begun.
/// `unused` tells that a wanted namespace was found not to be recorded.
pub(super) async fn snapshot(
    place: Place<'_>,
    wanted: &Wanted,
    unused: bool,
) -> Result<(Loaded, Places), Fault> {
    let mut snapshot = Snapshot::default();
    let mut places = Places::default();
    let held = whole::hold(place.live, place.copy, wanted, unused, &mut snapshot).await?;
    hold(place.live, place.copy, wanted, &mut snapshot, &mut places).await?;
    whole::load(place.live, place.copy, wanted, &held, &mut snapshot).await?;
    let keys = Keys::of(wanted, &snapshot);
    let rows = keys.ask(place.live).await?;
    let mut now = None;
    for row in &rows {
        let kind: i16 = row.try_get(0)?;
        let mut fields = Fields::required(row, 2)?;
        match kind {
            0 => now = Some(place.time.at(clock(&mut fields)?)),
            1 => snapshot.insert_lease(rows::lease(&mut fields)?),
            2 => {
                let resource = keys.before_birth(row)?.clone();
                let incarnation = fields.counter(Incarnation::new)?;
                snapshot.insert_era(EraRow { resource, incarnation, born: fields.position()? });
            }
            3 => snapshot.insert_operation(rows::operation(keys.before_birth(row)?.clone(), &mut fields)?),
            4 => snapshot.insert_operation(rows::operation(keys.operation(row)?.clone(), &mut fields)?),
            5 => {
                let address = keys.target(row)?;
                places.targets.insert(address.clone(), RowPlace(fields.bytes()?));
                snapshot.insert_target(address.resource.clone(), rows::target(&mut fields)?);
            }
            6 => snapshot
                .insert_control(rows::control(at(&keys.controls, row.try_get(1)?)?.clone(), &mut fields)?),
            7 => snapshot.insert_intent(rows::intent(keys.forwarded(row)?.clone(), &mut fields)?),
            8 => {
                let resource = at(&keys.kept.eras, row.try_get(1)?)?.clone();
                let incarnation = fields.counter(Incarnation::new)?;
                snapshot.insert_era(EraRow { resource, incarnation, born: fields.position()? });
            }
            9 => {
                let resource = at(&keys.kept.recorded, row.try_get(1)?)?.clone();
                snapshot.insert_operation(rows::operation(resource, &mut fields)?);
            }
            other => return Err(Fault::unreadable(format!("a row of kind {other}"))),
        }
    }
    if let Some(later) = hold_leases(place.live, &mut snapshot).await? {
        now = Some(place.time.at(later));
    }
    let now = now.ok_or_else(|| Fault::unreadable("an answer without a time"))?;
    let is_unheld = |lease: &LeaseRow| {
        let is_held = lease.members().any(|(name, _)| places.resources.contains_key(name));
        // A tombstone that was folded has no row any more, and only leases that ended long ago.
        !is_held && lease.ended_at.is_none_or(|at| at.plus(KEPT_AFTER_END) > now)
    };
    if snapshot.leases().any(is_unheld) {
        // It was granted while the rows were being held, and nothing holds its resource.
        return Err(Fault::Overtaken { table: "leases" });
    }
    Ok((Loaded { snapshot, now }, places))
}

/// Holds the leases over several resources, and brings them and the time as they are then. None where there are none.
async fn hold_leases(live: &mut Live, snapshot: &mut Snapshot) -> Result<Option<i64>, Fault> {
    let several = snapshot.leases().filter(|lease| !lease.others.is_empty());
    let keys: BTreeSet<(Bucket, [u8; 32])> =
        several.map(|lease| (lease.resource.bucket(), *lease.acquisition.as_bytes())).collect();
    if keys.is_empty() {
        return Ok(None);
    }
    let mut arguments = PgArguments::default();
    add(&mut arguments, live.shapes.argument(&hashed(&keys))?)?;
    for row in &live.fetch(HOLD_LEASES, arguments).await? {
        snapshot.insert_lease(rows::lease(&mut Fields::required(row, 2)?)?);
    }
    let rows = live.fetch(AssertSqlSafe(clock_text()), PgArguments::default()).await?;
    let row = rows.first().ok_or_else(|| Fault::unreadable("an answer without a time"))?;
    clock(&mut Fields::required(row, 2)?).map(Some)
}

/// The further resources of leases that a batch asks for by themselves: they can only be held once they are known, and
/// in one order with all others.
pub(super) fn missing(wanted: &Wanted, loaded: &Loaded, places: &Places) -> BTreeSet<ResourceName> {
    let asked = |lease: &&LeaseRow| {
        let bucket = lease.resource.bucket();
        wanted.leases.contains(&(bucket, *lease.acquisition.as_bytes()))
            || wanted.requests.contains(&(bucket, lease.request_key))
    };
    let members = loaded.snapshot.leases().filter(asked).flat_map(LeaseRow::members);
    let names = members.map(|(name, _)| name).filter(|name| !places.resources.contains_key(*name));
    names.cloned().collect()
}

/// The first statement. The resources that have a place afterwards exist, and are held.
async fn hold(
    live: &mut Live,
    copy: Bucket,
    wanted: &Wanted,
    snapshot: &mut Snapshot,
    places: &mut Places,
) -> Result<(), Fault> {
    let mut namespaces: BTreeSet<Namespace> = wanted.namespaces.clone();
    namespaces.extend(wanted.resources.iter().map(ResourceName::namespace));
    let names: Vec<&str> = namespaces.iter().map(Namespace::as_str).collect();
    let mut resources: Vec<(Bucket, &ResourceName)> =
        wanted.resources.iter().map(|resource| (resource.bucket(), resource)).collect();
    resources.sort_unstable();
    let keys =
        Tuples::filled(Shape::KeyNamed, resources.iter().enumerate(), |cells, (at, (bucket, name))| {
            cells.ordinal(at);
            cells.bucket(*bucket);
            cells.text(name.as_str());
        });
    let mut arguments = PgArguments::default();
    add(&mut arguments, i16::from(copy.0))?;
    add(&mut arguments, names)?;
    add(&mut arguments, live.shapes.argument(&keys)?)?;
    let text = if wanted.leases.is_empty() {
        HOLD
    } else {
        add(&mut arguments, live.shapes.argument(&hashed(&wanted.leases))?)?;
        HOLD_BY_LEASE
    };
    for row in &live.fetch(text, arguments).await? {
        let (kind, ordinal): (i16, Option<i32>) = (row.try_get(0)?, row.try_get(1)?);
        let mut fields = Fields::required(row, 2)?;
        if kind == 0 {
            let name = fields.parsed(Namespace::parse)?;
            snapshot.insert_namespace(rows::namespace(name, &mut fields)?);
            continue;
        }
        let name = fields.maybe_parsed(ResourceName::parse)?;
        let name = match (ordinal, name) {
            (None, Some(name)) => name,
            (ordinal, _) => at(&resources, ordinal)?.1.clone(),
        };
        places.resources.insert(name.clone(), RowPlace(fields.bytes()?));
        snapshot.insert_resource(rows::resource(name, &mut fields)?);
    }
    Ok(())
}

/// Milliseconds since 1970, of a server that takes writes and keeps what it acknowledges.
fn clock(fields: &mut Fields<'_>) -> Result<i64, Fault> {
    let ms = fields.integer()?;
    if fields.boolean()? {
        return Err(Fault::Unusable("the server has become a standby".to_owned()));
    }
    if fields.text()? != "off" {
        return Err(Fault::Unusable("the server has become read-only".to_owned()));
    }
    let (synchronous_commit, statement_timeout) = (fields.text()?, fields.text()?);
    if !["on", "remote_apply"].contains(&synchronous_commit) {
        return Err(Fault::Unusable(format!("synchronous_commit has become {synchronous_commit}")));
    }
    if statement_timeout != "0" {
        return Err(Fault::Unusable(format!(
            "statement_timeout is {statement_timeout}: a pooler does not pass settings on; add \
             statement-cache-capacity=0 to the database address"
        )));
    }
    let least = fields.integer()?;
    match steps::too_old(u32::try_from(least).unwrap_or(u32::MAX)) {
        Some(reason) => Err(Fault::Unusable(reason)),
        None => Ok(ms),
    }
}

fn hashed<'k>(keys: impl IntoIterator<Item = &'k (Bucket, [u8; 32])>) -> Tuples {
    Tuples::filled(Shape::KeyHashed, keys.into_iter().enumerate(), |cells, (at, (bucket, hash))| {
        cells.ordinal(at);
        cells.bucket(*bucket);
        cells.blob(hash);
    })
}

/// The key to which a row answers.
fn at<T>(keys: &[T], ordinal: Option<i32>) -> Result<&T, Fault> {
    let place = ordinal.and_then(|ordinal| usize::try_from(ordinal).ok());
    place
        .and_then(|place| keys.get(place))
        .ok_or_else(|| Fault::unreadable(format!("an answer to key {ordinal:?}, which was not asked")))
}

fn add<'t, T>(arguments: &mut PgArguments, value: T) -> Result<(), Fault>
where
    T: sqlx::Encode<'t, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    arguments.add(value).map_err(|error| Fault::unreadable(error.to_string()))
}
