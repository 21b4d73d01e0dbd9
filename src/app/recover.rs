//! What an operator is shown after a loss: the records of every resource beside what its store shows, and what of it
//! contradicts the rest. It reads the database itself, so it needs no gateway, and is in the way of none; it changes
//! nothing, neither there nor in a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::backing::{CellRead, Upstream};
use crate::config::{Config, Database};
use crate::domain::breaker::Breaker;
use crate::domain::operation::OperationState;
use crate::domain::resource::{Namespace, Target};
use crate::domain::time::Timestamp;
use crate::domain::upstream::{CellSeen, Validator};
use crate::ledger::engine::Identity;
use crate::ledger::read::{OperationFilter, Reader, ResourceFilter, ResourceRead};
use crate::ledger::{postgres, sqlite};
use crate::limits::{
    PAGE_ITEMS, RECOVER_AT_ONCE, RECOVER_OPERATIONS, RECOVER_SHOWN, RECOVER_UNREADABLE_CELLS,
};
use crate::protocol::evidence::{Contradiction, Evidence, contradictions, has_cell};
use crate::protocol::rows::{IntentRow, NamespaceRow, OperationRecord};

use super::Surroundings;

/// What was found.
#[derive(Debug)]
pub struct Recovery {
    /// All of it, for people and programs.
    pub json: Value,
    /// Whether something contradicts or a breaker has tripped.
    pub is_wrong: bool,
}

/// What to look at and to show.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only this namespace.
    pub namespace: Option<Namespace>,
    /// Also what contradicts nothing.
    pub all: bool,
    /// Leave the stores alone.
    pub records_only: bool,
}

/// Looks at every resource.
///
/// # Errors
/// When the database cannot be read, or a store's configuration cannot be used.
pub async fn recover(config: &Config, scope: Scope, surroundings: &Surroundings) -> anyhow::Result<Recovery> {
    let (reader, identity) = open(config, surroundings).await?;
    let mut namespaces = reader.namespaces().await?;
    let everywhere = reader.everywhere().await?;
    if let Some(name) = &scope.namespace {
        namespaces.retain(|row| row.namespace == *name);
        anyhow::ensure!(
            !namespaces.is_empty() || config.namespaces.named().any(|(known, _)| known == name),
            "namespace {name:?} is neither configured nor was it ever used; `fencegate recover` lists those that were"
        );
    }
    let ledger_seq = reader.ledger_seq().await?;
    let stores = if scope.records_only { BTreeMap::new() } else { stores(config)? };
    let mut look = Look { reader, stores, scope, tally: Tally::default(), shown: Vec::new() };
    look.at_all().await?;
    let Look { tally, shown, .. } = look;
    let tripped = everywhere.breaker.is_some() || namespaces.iter().any(|row| row.breaker.is_some());
    let of_all = json!({
        "namespace": "*",
        "epoch": everywhere.epoch.to_string(),
        "breaker": everywhere.breaker.as_ref().map(breaker),
    });
    let named = namespaces.iter().map(namespace);
    let is_wrong = tripped || tally.contradictions > 0;
    let json = json!({
        "database": {
            "engine": identity.engine,
            "id": identity.database.to_string(),
            "ledger_seq": ledger_seq.to_string(),
        },
        "namespaces": std::iter::once(of_all).chain(named).collect::<Vec<_>>(),
        "resources_looked_at": tally.resources,
        "contradictions": tally.contradictions,
        "undecided": tally.undecided,
        "stores_unknown": tally.unknown,
        "not_shown": tally.not_shown,
        "resources": shown,
        "next": exits(is_wrong, tally.undecided, everywhere.breaker.is_some()),
    });
    Ok(Recovery { json, is_wrong })
}

async fn open(config: &Config, surroundings: &Surroundings) -> anyhow::Result<(Arc<dyn Reader>, Identity)> {
    match &config.database {
        Database::Sqlite(path) => {
            let (reader, identity) = sqlite::look(path, surroundings.clock.clone()).await?;
            Ok((Arc::new(reader), identity))
        }
        Database::Postgres(address) => {
            let address = postgres::Address::of(address.urls())?;
            let mode = postgres::OpenMode::ExistingOnly;
            let time = postgres::TimeSource::Database;
            let fresh = super::fresh_id(surroundings.entropy.as_ref())?;
            let database = postgres::Database::open(&address, mode, fresh, time, 2).await?;
            // Its engines connect with their first batch, and get none.
            let (_, reader, identity) = database.start().await?;
            Ok((Arc::new(reader), identity))
        }
        Database::Memory => {
            anyhow::bail!("a database in memory ends with its gateway; there is nothing to look at")
        }
    }
}

/// The stores whose cells can be read, with how often in a row that has failed.
fn stores(config: &Config) -> anyhow::Result<BTreeMap<Namespace, Cells>> {
    let mut found = BTreeMap::new();
    for (namespace, store) in &config.stores {
        let upstream = Upstream::open(store.clone())
            .with_context(|| format!("the store of namespace {namespace:?} cannot be used"))?;
        found.insert(namespace.clone(), Cells { upstream: Arc::new(upstream), unreadable: 0 });
    }
    Ok(found)
}

struct Cells {
    upstream: Arc<Upstream>,
    unreadable: u32,
}

#[derive(Default)]
struct Tally {
    resources: u64,
    contradictions: usize,
    undecided: usize,
    unknown: u64,
    not_shown: u64,
}

struct Look {
    reader: Arc<dyn Reader>,
    stores: BTreeMap<Namespace, Cells>,
    scope: Scope,
    tally: Tally,
    shown: Vec<Value>,
}

/// One resource with all that was found of it.
struct Facts {
    read: ResourceRead,
    operations: Vec<OperationRecord>,
    complete: bool,
    undecided: Vec<IntentRow>,
    cell: Cell,
    stamp_is_known: bool,
}

/// What is known of a store's side.
enum Cell {
    /// The bytes are in the database.
    Here,
    Seen(CellSeen),
    /// Nobody can tell without changing something, or it did not answer; why.
    Unknown(String),
}

impl Look {
    /// Page by page in order of name, each resource once.
    async fn at_all(&mut self) -> anyhow::Result<()> {
        let mut filter = ResourceFilter {
            namespace: self.scope.namespace.clone(),
            limit: PAGE_ITEMS,
            ..ResourceFilter::default()
        };
        loop {
            let page = self.reader.resources(filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            filter.after = Some(last.resource.resource.clone());
            for some in page.chunks(RECOVER_AT_ONCE) {
                self.at(some).await?;
            }
        }
    }

    /// Some resources at once, so that a slow store costs its time once for all of them.
    async fn at(&mut self, some: &[ResourceRead]) -> anyhow::Result<()> {
        let mut gathering = JoinSet::new();
        for (place, listed) in some.iter().enumerate() {
            let name = listed.resource.resource.namespace();
            let cells = self.stores.get(&name);
            let unknown = match cells {
                None => Some("the store was not asked"),
                Some(cells) if cells.unreadable >= RECOVER_UNREADABLE_CELLS => {
                    Some("the store did not answer for others")
                }
                Some(_) => None,
            };
            let upstream = cells.filter(|_| unknown.is_none()).map(|cells| cells.upstream.clone());
            let (reader, listed) = (self.reader.clone(), listed.clone());
            gathering.spawn(async move { (place, gather(&reader, listed, upstream, unknown).await) });
        }
        let mut gathered = BTreeMap::new();
        while let Some(facts) = gathering.join_next().await {
            let (place, facts) = facts?;
            gathered.insert(place, facts?);
        }
        for facts in gathered.into_values() {
            self.take(&facts);
        }
        Ok(())
    }

    fn take(&mut self, facts: &Facts) {
        let found = contradictions(&facts.evidence());
        self.tally.resources = self.tally.resources.saturating_add(1);
        self.tally.contradictions = self.tally.contradictions.saturating_add(found.len());
        self.tally.undecided = self.tally.undecided.saturating_add(facts.undecided.len());
        let cells = self.stores.get_mut(&facts.read.namespace.namespace);
        match (&facts.cell, cells) {
            (Cell::Unknown(_), Some(cells)) => {
                self.tally.unknown = self.tally.unknown.saturating_add(1);
                cells.unreadable = cells.unreadable.saturating_add(1);
            }
            (Cell::Unknown(_), None) => self.tally.unknown = self.tally.unknown.saturating_add(1),
            (Cell::Seen(_), Some(cells)) => cells.unreadable = 0,
            (Cell::Seen(_) | Cell::Here, _) => {}
        }
        let matters =
            !found.is_empty() || !facts.undecided.is_empty() || facts.read.resource.quarantined.is_some();
        if matters || self.scope.all {
            if self.shown.len() < RECOVER_SHOWN {
                self.shown.push(facts.shown(&found));
            } else {
                self.tally.not_shown = self.tally.not_shown.saturating_add(1);
            }
        }
    }
}

async fn gather(
    reader: &Arc<dyn Reader>,
    listed: ResourceRead,
    upstream: Option<Arc<Upstream>>,
    unknown: Option<&'static str>,
) -> anyhow::Result<Facts> {
    let name = listed.resource.resource.clone();
    // Once more, by itself: with its targets, and so late that its operations are not behind it.
    let read = reader.resource(name.clone()).await?.unwrap_or(listed);
    let filter =
        OperationFilter { resource: name.clone(), state: None, after: None, limit: RECOVER_OPERATIONS };
    let mut operations = reader.operations(filter).await?;
    let complete = operations.len() < usize::try_from(RECOVER_OPERATIONS).unwrap_or(usize::MAX);
    operations.retain(|record| !matches!(record.state, OperationState::Intent | OperationState::Uncertain));
    let store = read.namespace.definition.store;
    let (mut undecided, mut cell) = (Vec::new(), Cell::Here);
    if store.class().is_some() {
        undecided = reader.intents(name.clone()).await?;
        cell = match (upstream, unknown) {
            _ if !has_cell(store) => Cell::Unknown("this class is not read back".to_owned()),
            (Some(upstream), _) => match upstream.read_cell(&name).await {
                CellRead::Seen(seen) => Cell::Seen(seen),
                CellRead::Unreadable(why) => Cell::Unknown(why),
            },
            (None, why) => Cell::Unknown(why.unwrap_or("the store was not asked").to_owned()),
        };
    }
    let mut stamp_is_known = true;
    if let Cell::Seen(CellSeen::Stamped(_, stamp)) = &cell
        && let Some(id) = &stamp.operation_id
    {
        let recorded = reader.operation(name, id.clone(), Some(stamp.incarnation)).await?;
        stamp_is_known = recorded.is_some();
    }
    Ok(Facts { read, operations, complete, undecided, cell, stamp_is_known })
}

impl Facts {
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            namespace: &self.read.namespace,
            resource: &self.read.resource,
            targets: &self.read.targets,
            lease: self.read.lease.as_ref(),
            operations: &self.operations,
            complete: self.complete,
            undecided: &self.undecided,
            cell: match &self.cell {
                Cell::Seen(seen) => Some(seen),
                Cell::Here | Cell::Unknown(_) => None,
            },
            stamp_is_known: self.stamp_is_known,
        }
    }

    fn shown(&self, found: &[Contradiction]) -> Value {
        let (row, namespace) = (&self.read.resource, &self.read.namespace);
        let targets = self.read.targets.iter().map(|one| {
            json!({
                "target": one.target.as_ref().map(Target::as_str),
                "etag": one.tag.to_string(),
            })
        });
        let found = found.iter().map(|one| json!({ "in": one.part.word(), "found": one.found }));
        json!({
            "resource": row.resource.as_str(),
            "epoch": namespace.epoch.to_string(),
            "incarnation": row.incarnation.to_string(),
            "life": row.life.word(),
            "quarantined": row.quarantined,
            "issued": row.issued.to_string(),
            "floor": row.effective_floor(namespace.epoch).to_string(),
            "revoked_through": row.revoked_through.map(|at| at.to_string()),
            "applied": row.applied.map(|mark| mark.position.to_string()),
            "sequence": row.applied.and_then(|mark| mark.sequence).map(|sequence| sequence.to_string()),
            "commit": row.commit_no.to_string(),
            "cell": row.cell.as_ref().map(Validator::as_str),
            "targets": targets.collect::<Vec<_>>(),
            "newest_operation": self.operations.first().map(operation),
            "undecided": self.undecided.iter().map(|one| operation(&one.record)).collect::<Vec<_>>(),
            "store": self.cell.shown(),
            "contradictions": found.collect::<Vec<_>>(),
        })
    }
}

impl Cell {
    fn shown(&self) -> Value {
        match self {
            Self::Here => json!({ "shows": "document" }),
            Self::Unknown(why) => json!({ "shows": "unknown", "why": why }),
            Self::Seen(CellSeen::Absent) => json!({ "shows": "nothing" }),
            Self::Seen(CellSeen::Strange(why)) => json!({ "shows": "something strange", "why": why }),
            Self::Seen(CellSeen::Unstamped(validator)) => {
                json!({ "shows": "no stamp", "validator": validator.as_str() })
            }
            Self::Seen(CellSeen::Stamped(validator, stamp)) => {
                json!({ "shows": "stamp", "validator": validator.as_str(), "stamp": stamp.to_string() })
            }
        }
    }
}

fn operation(record: &OperationRecord) -> Value {
    json!({
        "operation_id": record.operation_id.as_str(),
        "state": record.state.word(),
        "position": record.position.to_string(),
        "commit": record.response.as_ref().and_then(|saved| saved.commit).map(|commit| commit.to_string()),
    })
}

fn namespace(row: &NamespaceRow) -> Value {
    json!({
        "namespace": row.namespace.as_str(),
        "epoch": row.epoch.to_string(),
        "breaker": row.breaker.as_ref().map(breaker),
    })
}

fn breaker(breaker: &Breaker) -> Value {
    json!({ "detector": breaker.detector.word(), "at": instant(breaker.at), "found": breaker.found })
}

fn instant(at: Timestamp) -> String {
    let instant = jiff::Timestamp::from_millisecond(at.ms()).unwrap_or(jiff::Timestamp::MAX);
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The two safe exits, in words.
fn exits(is_wrong: bool, undecided: usize, all_stopped: bool) -> Vec<String> {
    if !is_wrong {
        return vec!["nothing contradicts; there is nothing to do".to_owned()];
    }
    let mut exits = vec![
        "either restore a newer backup, where there is one: it forgets less".to_owned(),
        format!(
            "or go on with what stands here: stop the workers, then `fencegate epoch advance {} --reason …`: everything that \
             was issued or written before is refused from then on",
            if all_stopped { "'*'" } else { "NAMESPACE" }
        ),
        "docs/OPERATIONS.md, \"The database went back in time\", goes through it step by step".to_owned(),
    ];
    if undecided > 0 {
        let first = "before it, decide what is undecided: `fencegate operations` lists it, `fencegate resolve` ends a doubt";
        exits.insert(1, first.to_owned());
    }
    exits
}
