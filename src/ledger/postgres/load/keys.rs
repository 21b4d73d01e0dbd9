//! What the second statement of a load looks up.
//!
//! Each lookup is a sub-select of its own below a list of keys: whatever the statistics say, PostgreSQL can only look
//! each key up.

use std::collections::BTreeSet;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, AssertSqlSafe, Row};

use crate::domain::counter::Incarnation;
use crate::domain::operation::OperationId;
use crate::domain::position::Position;
use crate::domain::resource::{Address, Bucket, ResourceName};
use crate::protocol::incarnation::{addressed, begun};
use crate::protocol::snapshot::ControlKey;
use crate::protocol::{Snapshot, Wanted};

use super::super::super::cells::WriteCells;
use super::super::super::rows::{
    control_columns, intent_columns, lease_columns, operation_columns, target_columns, target_text,
};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::tuples::{Shape, Tuples};
use super::retention::{ANY_OPERATION, Kept, OLDEST_ERAS};
use super::{add, at, clock_text, hashed};

// Further lists of keys and what is looked up for each: `{}` stands for the number of the argument.

const LEASES: &str = concat!(
    " UNION ALL SELECT 1::smallint, k.ordinal, ROW(",
    lease_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM leases AS l WHERE l.bucket = k.bucket AND l.acquisition = k.hash LIMIT 1) AS l"
);

const LEASES_BY_REQUEST: &str = concat!(
    " UNION ALL SELECT 1::smallint, k.ordinal, ROW(",
    lease_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM leases AS l WHERE l.bucket = k.bucket AND l.request_key = k.hash LIMIT 1) AS l"
);

/// Of each resource the one ended incarnation in which a position falls.
const ERAS: &str = " UNION ALL SELECT 2::smallint, k.ordinal, ROW(i.incarnation, i.born_epoch, i.born_token) \
           FROM unnest({}) AS k CROSS JOIN LATERAL (\
           SELECT * FROM incarnations AS i WHERE i.bucket = k.bucket AND i.resource = k.resource \
           AND (i.born_epoch, i.born_token) <= (k.epoch, k.token) \
           ORDER BY i.born_epoch DESC, i.born_token DESC LIMIT 1) AS i";

/// The operations of those incarnations, over the same keys.
const OPERATIONS_OF_ERAS: &str = concat!(
    " UNION ALL SELECT 3::smallint, k.ordinal, ROW(",
    operation_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM incarnations AS i WHERE i.bucket = k.bucket AND i.resource = k.resource \
         AND (i.born_epoch, i.born_token) <= (k.epoch, k.token) \
         ORDER BY i.born_epoch DESC, i.born_token DESC LIMIT 1) AS i CROSS JOIN LATERAL (\
         SELECT * FROM operations AS o WHERE o.bucket = k.bucket AND o.resource = k.resource \
         AND o.incarnation = i.incarnation AND o.operation_id = k.operation_id LIMIT 1) AS o"
);

const OPERATIONS: &str = concat!(
    " UNION ALL SELECT 4::smallint, k.ordinal, ROW(",
    operation_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM operations AS o WHERE o.bucket = k.bucket AND o.resource = k.resource \
         AND o.incarnation = k.incarnation AND o.operation_id = k.operation_id LIMIT 1) AS o"
);

const TARGETS: &str = concat!(
    " UNION ALL SELECT 5::smallint, k.ordinal, ROW(t.place, ",
    target_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT *, t.ctid AS place FROM targets AS t WHERE t.bucket = k.bucket AND t.resource = k.resource \
         AND t.target = k.target LIMIT 1) AS t"
);

const CONTROLS: &str = concat!(
    " UNION ALL SELECT 6::smallint, k.ordinal, ROW(",
    control_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM controls AS c WHERE c.bucket = k.bucket AND c.resource = k.resource \
         AND c.verb = k.verb AND c.key = k.key LIMIT 1) AS c"
);

/// The undecided operations of resources behind HTTP. OFFSET 0 keeps the look-up from being turned into a walk.
const INTENTS: &str = concat!(
    " UNION ALL SELECT 7::smallint, k.ordinal, ROW(",
    intent_columns!(),
    ") FROM unnest({}) AS k CROSS JOIN LATERAL (\
         SELECT * FROM intents AS a WHERE a.bucket = k.bucket AND a.resource = k.name OFFSET 0) AS a"
);

/// What the second statement looks up.
pub(super) struct Keys {
    leases: BTreeSet<(Bucket, [u8; 32])>,
    requests: Vec<(Bucket, [u8; 32])>,
    /// Operations of the incarnation in which their position falls.
    before_birth: Vec<(ResourceName, Position, OperationId)>,
    operations: Vec<(ResourceName, Incarnation, OperationId)>,
    targets: Vec<Address>,
    pub(super) controls: Vec<ControlKey>,
    /// Resources that may have undecided operations.
    forwarded: Vec<ResourceName>,
    pub(super) kept: Kept,
}

impl Keys {
    pub(super) fn of(wanted: &Wanted, held: &Snapshot) -> Self {
        let mut leases = wanted.leases.clone();
        for row in held.resources() {
            if let Some(lease) = &row.lease {
                leases.insert((lease.bucket, *lease.acquisition.as_bytes()));
            }
        }
        let is_forwarded = |resource: &ResourceName| {
            let namespace = held.namespace(&resource.namespace());
            namespace.is_some_and(|row| row.definition.store.class().is_some())
        };
        let (mut before_birth, mut operations) = (Vec::new(), Vec::new());
        for one in &wanted.operations {
            let Some(row) = held.resource(&one.resource) else { continue };
            let name = (one.resource.clone(), one.operation_id.clone());
            if let Some(next) = begun(row, one.incarnation).filter(|_| is_forwarded(&one.resource)) {
                operations.push((name.0.clone(), next, name.1.clone()));
            }
            // Where only an earlier incarnation can be meant, the rule finds none without an era to look in.
            match addressed(row, one.position, one.incarnation, |_| None) {
                Some(incarnation) => operations.push((name.0, incarnation, name.1)),
                None => before_birth.push((name.0, one.position, name.1)),
            }
        }
        let known = |address: &&Address| held.resource(&address.resource).is_some();
        Self {
            leases,
            requests: wanted.requests.iter().map(|(bucket, key)| (*bucket, key.0)).collect(),
            before_birth,
            operations,
            targets: wanted.targets.iter().filter(known).cloned().collect(),
            controls: wanted.controls.iter().cloned().collect(),
            forwarded: held
                .resources()
                .map(|row| &row.resource)
                .filter(|name| is_forwarded(name))
                .cloned()
                .collect(),
            kept: Kept::of(wanted),
        }
    }

    pub(super) async fn ask(&self, live: &mut Live) -> Result<Vec<PgRow>, Fault> {
        let mut text = clock_text();
        let mut arguments = PgArguments::default();
        let mut look_up = |text_of_one: &str, keys: &Tuples| {
            if keys.is_empty() {
                return Ok(());
            }
            add(&mut arguments, live.shapes.argument(keys)?)?;
            text.push_str(&text_of_one.replacen("{}", &format!("${}", arguments.len()), 1));
            Ok::<(), Fault>(())
        };
        look_up(LEASES, &hashed(&self.leases))?;
        look_up(LEASES_BY_REQUEST, &hashed(&self.requests))?;
        let positions = self.positions();
        look_up(ERAS, &positions)?;
        look_up(OPERATIONS_OF_ERAS, &positions)?;
        look_up(OPERATIONS, &self.operation_keys())?;
        look_up(TARGETS, &self.target_keys())?;
        look_up(CONTROLS, &self.control_keys())?;
        look_up(INTENTS, &self.forwarded_keys())?;
        look_up(OLDEST_ERAS, &Kept::keys(&self.kept.eras))?;
        look_up(ANY_OPERATION, &Kept::keys(&self.kept.recorded))?;
        live.fetch(AssertSqlSafe(text), arguments).await
    }

    fn positions(&self) -> Tuples {
        let keys = self.before_birth.iter().enumerate();
        Tuples::filled(Shape::KeyPosition, keys, |cells, (at, (resource, position, operation_id))| {
            cells.ordinal(at);
            cells.name(resource);
            cells.position(*position);
            cells.text(operation_id.as_str());
        })
    }

    fn operation_keys(&self) -> Tuples {
        let keys = self.operations.iter().enumerate();
        Tuples::filled(Shape::KeyOperation, keys, |cells, (at, (resource, incarnation, operation_id))| {
            cells.ordinal(at);
            cells.name(resource);
            cells.whole(incarnation.get());
            cells.text(operation_id.as_str());
        })
    }

    fn target_keys(&self) -> Tuples {
        Tuples::filled(Shape::KeyTarget, self.targets.iter().enumerate(), |cells, (at, address)| {
            cells.ordinal(at);
            cells.name(&address.resource);
            cells.text(target_text(address.target.as_ref()));
        })
    }

    fn control_keys(&self) -> Tuples {
        Tuples::filled(
            Shape::KeyControl,
            self.controls.iter().enumerate(),
            |cells, (at, (subject, verb, key))| {
                cells.ordinal(at);
                cells.subject(subject);
                cells.text(verb.word());
                cells.text(key.as_str());
            },
        )
    }

    fn forwarded_keys(&self) -> Tuples {
        Tuples::filled(Shape::KeyNamed, self.forwarded.iter().enumerate(), |cells, (at, resource)| {
            cells.ordinal(at);
            cells.name(resource);
        })
    }

    pub(super) fn forwarded(&self, row: &PgRow) -> Result<&ResourceName, Fault> {
        at(&self.forwarded, row.try_get(1)?)
    }

    pub(super) fn before_birth(&self, row: &PgRow) -> Result<&ResourceName, Fault> {
        Ok(&at(&self.before_birth, row.try_get(1)?)?.0)
    }

    pub(super) fn operation(&self, row: &PgRow) -> Result<&ResourceName, Fault> {
        Ok(&at(&self.operations, row.try_get(1)?)?.0)
    }

    pub(super) fn target(&self, row: &PgRow) -> Result<&Address, Fault> {
        at(&self.targets, row.try_get(1)?)
    }
}
