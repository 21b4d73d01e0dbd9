//! Stores behind HTTP: what is announced, what is learnt, and what comes of it.

mod admission;
mod barriers;
mod cells;
mod doubts;
mod edges;
mod everywhere;
mod evidence;
mod findings;
mod lanes;
mod leases;
mod quarantine;
mod record;
mod resolve;
mod stopped;

use fencegate::domain::namespaces::NamespaceRules;
use fencegate::domain::policy::{Contract, Definition, Issuer, Policy, Store};
use fencegate::domain::position::Position;
use fencegate::domain::seal::SealVerdict;
use fencegate::domain::upstream::{CellSeen, Class, Stamp, Validator};
use fencegate::protocol::command::{Barrier, BarrierFinding, Claim, Finding, Member, Resume, Settle};
use fencegate::protocol::outcome::{Act, Attempt, BarrierStep, Grant, Settled};
use fencegate::protocol::rows::{Done, IntentRow, LeaseRef, OperationRecord, ResourceRow};
use fencegate::protocol::{Command, Decision, Outcome};

use crate::support::draft::{Draft, put};
use crate::support::forwarding::{answered, forwarded, store_rules};
use crate::support::world::{World, name};

/// The resource, which is its own only target.
const PAGE: &str = "w/page";

/// A world behind an upstream.
#[derive(Clone)]
struct Far {
    world: World,
    deliveries: u64,
}

/// Each generation publishes in order, and positions come from outside.
fn far(class: Class) -> Far {
    Far::new(class, Policy::Ordered { gapless: false }, Contract::Observed)
}

/// Positions come from leases that wait for their barriers.
fn leased(class: Class) -> Far {
    Far::new(class, Policy::Ordered { gapless: false }, Contract::Immediate)
}

/// A write of this operation under this position, first in its generation.
fn write(operation: &str, position: u64) -> Draft {
    put(PAGE, operation, position.to_string()).sequence(1)
}

fn tag(text: &str) -> Validator {
    Validator::parse(&format!("\"{text}\"")).unwrap()
}

/// A success that leaves the cell with this validator.
fn success(validator: &str) -> Finding {
    Finding::Answered(Box::new(answered(201, Some(&format!("\"{validator}\"")))), None)
}

fn status(status: u16) -> Finding {
    Finding::Answered(Box::new(answered(status, None)), None)
}

/// What became of a step, in one word.
fn word(settled: &Settled) -> &'static str {
    match settled {
        Settled::Done(written) if written.response.done == Done::Nothing => "refused",
        Settled::Done(_) => "applied",
        Settled::Withdrawn(_, _, _) => "withdrawn",
        Settled::Again(attempt) => match attempt.act {
            Act::Send(_) => "send",
            Act::ReadCell => "read",
        },
        Settled::Later(_) => "later",
        Settled::Uncertain(_) => "uncertain",
        Settled::Moved => "moved",
    }
}

/// The step that comes next.
fn again(settled: Settled) -> Attempt {
    match settled {
        Settled::Again(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

/// The stamp that a send writes.
fn stamp(attempt: &Attempt) -> Stamp {
    match &attempt.act {
        Act::Send(Some(stamp)) => stamp.clone(),
        other => panic!("{other:?}"),
    }
}

impl Far {
    fn new(class: Class, policy: Policy, contract: Contract) -> Self {
        let issuer = match contract {
            Contract::Observed => Issuer::Trusted { max_jump: None },
            Contract::Immediate | Contract::LeaseBound => Issuer::Gateway,
        };
        Self::of(Definition { policy, contract, issuer, store: Store::Http(class), scope: 0 })
    }

    fn of(definition: Definition) -> Self {
        let mut world = World::new(definition);
        world.rule(|rules: &mut NamespaceRules| rules.upstream = Some(store_rules()));
        Self { world, deliveries: 0 }
    }

    /// A delivery of a write, as the door makes it.
    fn delivery(&mut self, draft: &Draft) -> Command {
        self.deliveries += 1;
        forwarded(draft.member(&self.world), draft.body, self.deliveries)
    }

    /// A delivery under a lease.
    fn owned(&mut self, grant: &Grant, draft: &Draft) -> Command {
        let member = draft.member(&self.world);
        let seal = SealVerdict::Valid(grant.acquisition_id.hash().tag());
        let claim = Claim { position: grant.view.lease.position, bare: false, seal };
        self.deliveries += 1;
        forwarded(Member { claim, ..member }, draft.body, self.deliveries)
    }

    fn write(&mut self, draft: &Draft) -> Outcome {
        let command = self.delivery(draft);
        self.world.tell(&command)
    }

    fn announce(&mut self, draft: &Draft) -> Attempt {
        let command = self.delivery(draft);
        self.announced(&command)
    }

    fn announced(&mut self, command: &Command) -> Attempt {
        match self.world.tell(command) {
            Outcome::Announced(attempt) => *attempt,
            other => panic!("{other:?}"),
        }
    }

    /// Says what a step taught.
    fn settle(&mut self, attempt: &Attempt, finding: Finding) -> Settled {
        settled(self.world.tell(&Command::Settle(attempt.taught(finding))))
    }

    /// What would be made of it.
    fn decide(&self, settle: Settle) -> Decision {
        self.world.decide(&Command::Settle(settle))
    }

    /// Takes up an operation when its step is due.
    fn resume(&mut self, operation: &str) -> Settled {
        let intent = self.intent(operation).clone();
        self.world.now = self.world.now.max(intent.due_at);
        settled(self.resumed(&intent))
    }

    fn resumed(&mut self, intent: &IntentRow) -> Outcome {
        let resume = Resume { key: intent.key(), attempt: intent.record.attempt };
        self.world.tell(&Command::Resume(resume))
    }

    /// An operation that is announced, sent, and nothing more is known of it.
    fn in_doubt(&mut self, draft: &Draft) -> Attempt {
        let attempt = self.announce(draft);
        let intent = IntentRow { doubt: true, ..attempt.intent };
        self.world.snapshot.insert_intent(intent.clone());
        Attempt { intent, ..attempt }
    }

    /// The first write of a conditional store, whose cell does not exist before it.
    fn created(&mut self, draft: &Draft, validator: &str) -> Attempt {
        let read = self.announce(draft);
        let sent = again(self.settle(&read, Finding::Cell(CellSeen::Absent)));
        assert_eq!(word(&self.settle(&sent, success(validator))), "applied");
        sent
    }

    fn barrier(&mut self, lease: Option<LeaseRef>, learnt: BarrierFinding) -> BarrierStep {
        match self.world.tell(&Command::Barrier(Barrier { resource: name(PAGE), lease, learnt })) {
            Outcome::Barrier(step) => *step,
            other => panic!("{other:?}"),
        }
    }

    /// The next step of a barrier, when nothing is known.
    fn next_barrier(&mut self) -> BarrierStep {
        self.barrier(None, BarrierFinding::Nothing)
    }

    fn intent(&self, operation: &str) -> &IntentRow {
        let own = |intent: &&IntentRow| intent.record.operation_id.as_str() == operation;
        self.world.snapshot.intents().find(own).unwrap()
    }

    fn record(&self, operation: &str) -> &OperationRecord {
        let own = |record: &&OperationRecord| record.operation_id.as_str() == operation;
        self.world.snapshot.operations().find(own).unwrap()
    }

    fn undecided(&self) -> usize {
        self.world.snapshot.intents().count()
    }

    fn row(&self) -> &ResourceRow {
        self.world.row(PAGE)
    }

    fn barrier_at(&self) -> Position {
        self.row().barrier
    }
}

fn settled(outcome: Outcome) -> Settled {
    match outcome {
        Outcome::Settled(settled) => *settled,
        other => panic!("{other:?}"),
    }
}
