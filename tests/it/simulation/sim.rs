//! The simulated world: one database, gateways, workers, a store, and everything that is on its way between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use fencegate::domain::breaker::Detector;
use fencegate::domain::counter::Epoch;
use fencegate::domain::lease::AcquisitionId;
use fencegate::domain::policy::{Definition, Store as Kept};
use fencegate::domain::position::Position;
use fencegate::domain::store::StoreRules;
use fencegate::domain::time::{Clock, Millis, Timestamp};
use fencegate::protocol::Command;
use fencegate::protocol::command::Member;
use fencegate::protocol::snapshot::OperationKey;

use super::bugs::Bug;
use super::database::Database;
use super::events::{Kind, Setup};
use super::judge::Judge;
use super::store::{Request, Store};
use super::upstream::{Task, Work};
use crate::support::clock::ManualClock;
use crate::support::code::Code;
use crate::support::draft::Draft;
use crate::support::forwarding::store_rules;
use crate::support::world::World;

/// How long a store of these worlds remembers a key.
pub(super) const KEY_RETENTION_MS: u64 = 600_000;

/// How long records are kept.
pub(super) const KEPT: Millis = Millis::new(60_000);

/// What a worker believes to own.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) token: String,
    pub(super) id: Option<AcquisitionId>,
    pub(super) sequence: u64,
}

/// A worker: one belief per page, and the last request that it made.
#[derive(Debug, Clone, Default)]
pub(super) struct Worker {
    pub(super) holds: [Option<Hold>; 2],
    pub(super) asked: [Option<u128>; 2],
}

/// A logical write that somebody has begun.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) page: usize,
    pub(super) draft: Draft,
}

/// What a client asks for.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Command(Box<Command>),
    Write { member: Box<Member>, body: &'static str },
}

/// A request on its way to some gateway.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) worker: usize,
    pub(super) page: usize,
    pub(super) ask: Ask,
    /// Whether its caller may do this at all.
    pub(super) permitted: bool,
}

/// Who waits for the outcome of a command.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    Client { worker: usize, page: usize, permitted: bool },
    Step(Box<Work>),
    Gateway,
}

/// A command in the queue of a gateway.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) origin: Origin,
}

/// One process.
#[derive(Debug, Default)]
pub(super) struct Gateway {
    pub(super) queue: Vec<Job>,
    pub(super) tasks: Vec<Task>,
    /// Whether the next commit is to have no outcome, and if so whether it happens.
    pub(super) unknown: Option<bool>,
    /// Operations that it has acknowledged: looked at after every reconnect.
    pub(super) acks: Vec<OperationKey>,
    /// What it has noticed and not tripped the breaker for yet.
    pub(super) alarm: Option<Detector>,
    /// The highest epoch that it has seen since it was started.
    pub(super) epoch: Epoch,
}

/// What a run has met.
#[derive(Debug, Clone, Default)]
pub(super) struct Reached {
    pub(super) codes: BTreeMap<Code, u64>,
    pub(super) steps: BTreeMap<&'static str, u64>,
    pub(super) kinds: BTreeMap<Kind, u64>,
}

impl Reached {
    pub(super) fn add(&mut self, other: &Self) {
        other.codes.iter().for_each(|(code, count)| *self.codes.entry(*code).or_default() += count);
        other.steps.iter().for_each(|(step, count)| *self.steps.entry(step).or_default() += count);
        other.kinds.iter().for_each(|(kind, count)| *self.kinds.entry(*kind).or_default() += count);
    }
}

/// One world in virtual time, on one thread.
pub(super) struct Sim {
    pub(super) setup: Setup,
    pub(super) world: World,
    pub(super) clock: Arc<ManualClock>,
    pub(super) db: Database,
    pub(super) store: Option<Store>,
    pub(super) gateways: Vec<Gateway>,
    pub(super) workers: Vec<Worker>,
    pub(super) network: Vec<Call>,
    /// Requests at the store's door that nobody waits for any more.
    pub(super) wires: Vec<Request>,
    pub(super) ops: Vec<Op>,
    pub(super) judge: Judge,
    /// The highest epoch that was ever durable: what a witness knows.
    pub(super) witnessed: Epoch,
    /// What the external issuer has given out, per page.
    pub(super) external: [u64; 2],
    pub(super) numbers: u64,
    pub(super) trace: String,
    pub(super) reached: Reached,
}

impl Sim {
    pub(super) fn new(setup: Setup) -> Self {
        let kept = setup.class.map_or(Kept::Document, Kept::Http);
        let definition = Definition {
            policy: setup.policy,
            contract: setup.contract,
            issuer: setup.issuer,
            store: kept,
            scope: 0,
        };
        let mut world = World::new(definition);
        if setup.class.is_some() {
            let key_retention = Millis::new(KEY_RETENTION_MS);
            world.rule(|rules| rules.upstream = Some(StoreRules { key_retention, ..store_rules() }));
        }
        let clock = Arc::new(ManualClock::new());
        Self {
            setup,
            world,
            db: Database::new(clock.clone()),
            clock,
            store: setup.class.map(|class| Store::new(class, KEY_RETENTION_MS)),
            gateways: (0..setup.gateways).map(|_| Gateway::default()).collect(),
            workers: vec![Worker::default(); setup.workers],
            network: Vec::new(),
            wires: Vec::new(),
            ops: Vec::new(),
            judge: Judge::new(setup),
            witnessed: Epoch::ZERO,
            external: [0; 2],
            numbers: 0,
            trace: String::new(),
            reached: Reached::default(),
        }
    }

    pub(super) fn is(&self, bug: Bug) -> bool {
        self.setup.bug == Some(bug)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    /// A number that was never used.
    pub(super) fn next(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A line of the trace.
    pub(super) fn note(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.trace, "{} {line}", self.now().ms() - crate::support::clock::START_MS).unwrap();
    }

    /// Counts a step of the protocol.
    pub(super) fn met(&mut self, step: &'static str) {
        *self.reached.steps.entry(step).or_default() += 1;
    }

    /// The epoch that clients know of.
    pub(super) fn epoch(&self) -> Epoch {
        self.db.rows.namespaces().map(|row| row.epoch).max().unwrap_or_default()
    }

    /// The epoch that a gateway knows to have been begun.
    pub(super) fn begun(&self, gateway: usize) -> Epoch {
        let witnessed = if self.setup.witness { self.witnessed } else { Epoch::ZERO };
        witnessed.max(self.gateways[gateway].epoch)
    }

    pub(super) fn is_tripped(&self) -> bool {
        self.db.rows.everywhere().breaker.is_some()
            || self.db.rows.namespaces().any(|row| row.breaker.is_some())
    }

    /// The token of an external issuer, as its clients write it.
    pub(super) fn external_token(&self, number: u64) -> String {
        match self.epoch().get() {
            0 => number.to_string(),
            epoch => format!("{epoch}.{number}"),
        }
    }

    /// The position that a token names.
    pub(super) fn position(token: &str) -> Position {
        fencegate::domain::position::PresentedToken::parse(token).unwrap().position
    }
}
