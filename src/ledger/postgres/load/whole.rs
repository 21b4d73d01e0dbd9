//! What an act on a whole namespace, or on all of them, is decided against.
//!
//! Every batch holds one copy of each namespace that it is in, shared. Such an act holds all copies, before anything else
//! and in one order: so it waits for the batches that are under way, and what comes after it sees it.

use sqlx::postgres::PgArguments;

use crate::domain::resource::{Bucket, Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::limits::OPEN_OPERATIONS_SHOWN;
use crate::protocol::{Snapshot, Wanted};

use super::super::super::cells::ReadCells;
use super::super::super::range::Range;
use super::super::super::read::ResourceFilter;
use super::super::super::rows::{self, everywhere_columns, intent_columns, namespace_columns};
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::fields::Fields;
use super::add;

/// Whoever uses a name for the first time holds a copy of these too.
const HOLD_EVERYWHERE: &str = "SELECT 1 FROM everywhere AS e ORDER BY e.bucket FOR UPDATE";

/// `$1` a namespace, or `*` for all of them.
const HOLD_NAMESPACES: &str = "SELECT 1 FROM namespaces AS n WHERE $1 = '*' OR n.namespace = $1 \
                               ORDER BY n.bucket, n.namespace FOR UPDATE";

const NAMESPACES: &str = concat!(
    "SELECT ROW(n.namespace, ",
    namespace_columns!(),
    ") FROM namespaces AS n WHERE n.bucket = $1 ORDER BY n.namespace"
);

/// The copy is held, so that a first use and an act on everything stand in one line.
const EVERYWHERE: &str =
    concat!("SELECT ROW(", everywhere_columns!(), ") FROM everywhere AS e WHERE e.bucket = $1 FOR SHARE");

/// The oldest of the few rows that there are: `$1` a namespace, or `*` for all of them, `$2` how many.
const OPEN: &str = concat!(
    "SELECT ROW(a.resource, ",
    intent_columns!(),
    ") FROM intents AS a WHERE $1 = '*' OR split_part(a.resource, '/', 1) = $1 ORDER BY a.created_ms LIMIT $2"
);

/// Whether a namespace has resources: `$1` the first name that one could have, `$2` the first one that none has.
const POPULATED: &str =
    "SELECT 1 FROM resources AS r WHERE r.resource >= $1 AND r.resource < $2 ORDER BY r.resource LIMIT 1";

/// Whether a wanted namespace is not recorded. What holds for it has to be held before everything else, by a transaction
/// that knows that: whoever asks for it while it holds a copy of another namespace may stand in the way of an act on all.
pub(in super::super) fn has_unused(wanted: &Wanted, snapshot: &Snapshot) -> bool {
    let names = wanted.resources.iter().map(ResourceName::namespace);
    wanted.namespaces.iter().cloned().chain(names).any(|name| snapshot.namespace(&name).is_none())
}

/// Holds what comes before everything else: what holds for namespaces that were never used, where one of the wanted ones
/// was not or all are acted on, and then what is acted on as a whole. Brings the former, and which of the latter are
/// recorded.
pub(super) async fn hold(
    live: &mut Live,
    copy: Bucket,
    wanted: &Wanted,
    unused: bool,
    snapshot: &mut Snapshot,
) -> Result<Vec<Subject>, Fault> {
    let all = wanted.whole.contains(&Subject::Everywhere);
    if all {
        live.fetch(HOLD_EVERYWHERE, PgArguments::default()).await?;
    }
    if all || unused {
        let found = live.fetch(EVERYWHERE, of(copy)?).await?;
        let row = found.first().ok_or_else(|| Fault::unreadable("nothing holds everywhere"))?;
        snapshot.set_everywhere(rows::everywhere(&mut Fields::required(row, 0)?)?);
    }
    let mut held = Vec::with_capacity(wanted.whole.len());
    for subject in &wanted.whole {
        if !live.fetch(HOLD_NAMESPACES, about(subject)?).await?.is_empty() {
            held.push(subject.clone());
        }
    }
    Ok(held)
}

/// Brings the namespaces that are acted on as a whole, with some of their undecided operations.
pub(super) async fn load(
    live: &mut Live,
    copy: Bucket,
    wanted: &Wanted,
    held: &[Subject],
    snapshot: &mut Snapshot,
) -> Result<(), Fault> {
    if wanted.whole.contains(&Subject::Everywhere) {
        for row in &live.fetch(NAMESPACES, of(copy)?).await? {
            let mut fields = Fields::required(row, 0)?;
            let name = fields.parsed(Namespace::parse)?;
            snapshot.insert_namespace(rows::namespace(name, &mut fields)?);
        }
    }
    for subject in &wanted.whole {
        // Somebody used it for the first time in between: only one of its copies is held.
        if let Subject::Namespace(name) = subject
            && snapshot.namespace(name).is_some()
            && !held.contains(subject)
        {
            return Err(Fault::Overtaken { table: "namespaces" });
        }
        if let Subject::Namespace(name) = subject {
            populated(live, name, snapshot).await?;
        }
        let mut arguments = about(subject)?;
        add(&mut arguments, i64::from(OPEN_OPERATIONS_SHOWN))?;
        for row in &live.fetch(OPEN, arguments).await? {
            let mut fields = Fields::required(row, 0)?;
            let resource = fields.parsed(ResourceName::parse)?;
            snapshot.insert_intent(rows::intent(resource, &mut fields)?);
        }
    }
    Ok(())
}

/// Its copies are held: no other resource comes before the end of the transaction.
async fn populated(live: &mut Live, name: &Namespace, snapshot: &mut Snapshot) -> Result<(), Fault> {
    let filter = ResourceFilter { namespace: Some(name.clone()), ..ResourceFilter::default() };
    let Range { from, before } = Range::of(&filter);
    let mut arguments = PgArguments::default();
    add(&mut arguments, from)?;
    add(&mut arguments, before.unwrap_or_default())?;
    if !live.fetch(POPULATED, arguments).await?.is_empty() {
        snapshot.set_populated(name.clone());
    }
    Ok(())
}

fn about(subject: &Subject) -> Result<PgArguments, Fault> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, subject.as_str().to_owned())?;
    Ok(arguments)
}

fn of(copy: Bucket) -> Result<PgArguments, Fault> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, i16::from(copy.0))?;
    Ok(arguments)
}
