//! Gateways and stores: attempts, barriers, and what can become of a request on its way.

use fencegate::domain::lease::LeaseState;
use fencegate::domain::operation::OperationState;
use fencegate::domain::position::Position;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::domain::upstream::{Base, CellSeen, Class, Validator};
use fencegate::protocol::Command;
use fencegate::protocol::command::{Barrier, BarrierFinding, Finding, Resume};
use fencegate::protocol::outcome::{Act, Attempt, BarrierStep};
use fencegate::protocol::rows::{IntentRow, LeaseRef};

use super::durable::PAGES;
use super::events::Kind;
use super::judge::{Judged, broken, page_of};
use super::sim::{Job, KEY_RETENTION_MS, Origin, Sim};
use super::store::{Reply, Request, Sent, What};
use crate::support::forwarding::{TIMEOUT_MS, answered};
use crate::support::world::name;

/// A step that a gateway has begun.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) phase: Phase,
    since: Timestamp,
}

/// What it is for.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Operation(Box<Attempt>),
    Barrier { page: usize, lease: Option<LeaseRef> },
}

/// How far it has come.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    Send(Request),
    Read(Option<Validator>),
    Waiting(Request),
    Answered(Request, Reply),
    Seen(Option<Validator>, CellSeen),
}

/// A decision so long ago may have been gone on from by others, so its holder looks again before it sends.
const FRESH: Millis = Millis::new(250);

/// After the decision's own time and this, nothing is sent any more that was not asked for before.
const LATE_MS: u64 = 500;

impl Sim {
    /// Somebody was told to take a step. I13: a conditional send rests on what is recorded.
    pub(super) fn begin(&mut self, gateway: usize, attempt: Attempt) -> Judged {
        let intent = &attempt.intent;
        let page = page_of(&intent.record.resource);
        let phase = match &attempt.act {
            Act::ReadCell => Phase::Read(attempt.told.recorded.clone()),
            Act::Send(stamp) => {
                let sent = Sent {
                    claim: intent.claim,
                    operation: intent.record.operation_id.as_str().to_owned(),
                    incarnation: intent.record.incarnation,
                    position: intent.record.position,
                };
                let what = What::Write { sent, base: intent.base.clone(), stamp: stamp.clone() };
                Phase::Send(Request { page, what, at: self.now() })
            }
        };
        self.met(if matches!(phase, Phase::Read(_)) { "read the cell" } else { "send" });
        self.push(gateway, Work::Operation(Box::new(attempt)), phase)
    }

    fn push(&mut self, gateway: usize, work: Work, phase: Phase) -> Judged {
        if let Phase::Send(Request {
            page, what: What::Write { base, .. } | What::Rewrite { base, .. }, ..
        }) = &phase
            && self.setup.class == Some(Class::Conditional)
        {
            let known = match base {
                Base::Absent => true,
                Base::Unread => false,
                Base::Recorded(validator) => self.judge.cells.contains(&(*page, validator.clone())),
            };
            if !known {
                return broken("I13", format!("{work:?} does not rest on what was ever recorded"));
            }
        }
        let since = self.now();
        self.gateways[gateway].tasks.push(Task { work, phase, since });
        Ok(())
    }

    /// The next step of a barrier.
    pub(super) fn barrier(&mut self, gateway: usize, work: &Work, step: BarrierStep) -> Judged {
        let Work::Barrier { page, .. } = work else { return Ok(()) };
        let request = |what| Phase::Send(Request { page: *page, what, at: self.now() });
        let phase = match step {
            BarrierStep::Stands(_) => {
                self.met("barrier stands");
                return Ok(());
            }
            BarrierStep::Undecided(_) | BarrierStep::Quarantined(_) => return Ok(()),
            BarrierStep::ReadCell(recorded) => Phase::Read(recorded),
            BarrierStep::Rewrite(base, stamp) => request(What::Rewrite { base, stamp }),
            BarrierStep::Advance(_, position) => request(What::Advance { position }),
        };
        self.met("barrier step");
        self.push(gateway, work.clone(), phase)
    }

    /// Whether anything of an announcement is on its way, or may still be sent.
    pub(super) fn may_come(&self, claim: u64) -> bool {
        let own =
            |request: &Request| matches!(&request.what, What::Write { sent, .. } if sent.claim == claim);
        let told = |task: &Task| match &task.phase {
            Phase::Send(request) | Phase::Waiting(request) => own(request),
            Phase::Read(_) | Phase::Answered(_, _) | Phase::Seen(_, _) => false,
        };
        self.wires.iter().any(own) || self.gateways.iter().any(|gateway| gateway.tasks.iter().any(told))
    }

    /// A gateway takes up what is due: operations, and barriers that somebody waits for.
    pub(super) fn look(&mut self, gateway: usize) -> bool {
        let now = self.now();
        let driven = |intent: &IntentRow| {
            self.gateways[gateway].tasks.iter().any(
                |task| matches!(&task.work, Work::Operation(attempt) if attempt.intent.key() == intent.key()),
            )
        };
        let due = |intent: &&IntentRow| {
            intent.record.state == OperationState::Intent && intent.due_at <= now && !driven(intent)
        };
        let resumes: Vec<_> = self.db.rows.intents().filter(due).cloned().collect();
        let found = !resumes.is_empty();
        for intent in resumes {
            let command = Command::Resume(Resume { key: intent.key(), attempt: intent.record.attempt });
            self.gateways[gateway].queue.push(Job { command, origin: Origin::Gateway });
        }
        let raised = self.raise(gateway);
        found || raised
    }

    fn raise(&mut self, gateway: usize) -> bool {
        if self.setup.class.is_none() {
            return false;
        }
        let pending: Vec<_> = self
            .db
            .rows
            .leases()
            .filter(|lease| self.is_pending(lease))
            .map(|lease| (page_of(&lease.resource), lease.place()))
            .filter(|(page, _)| !self.raises(gateway, *page))
            .collect();
        let found = !pending.is_empty();
        for (page, lease) in pending {
            self.learn_of_barrier(gateway, page, Some(lease), BarrierFinding::Nothing);
        }
        found
    }

    /// Whether somebody still waits for the barrier of a lease.
    pub(super) fn is_pending(&self, lease: &fencegate::protocol::rows::LeaseRow) -> bool {
        let (row, namespace) =
            (self.db.rows.resource(&lease.resource), self.db.rows.namespace(&lease.resource.namespace()));
        row.zip(namespace).is_some_and(|(row, namespace)| {
            lease.state_at(self.now(), row, namespace) == LeaseState::PendingBarrier
        })
    }

    /// Whether a gateway is at a barrier already: one at a time in front of a page.
    fn raises(&self, gateway: usize, page: usize) -> bool {
        let own = |work: &Work| matches!(work, Work::Barrier { page: other, .. } if *other == page);
        let gateway = &self.gateways[gateway];
        let queued = |job: &Job| matches!(&job.origin, Origin::Step(work) if own(work));
        gateway.tasks.iter().any(|task| own(&task.work)) || gateway.queue.iter().any(queued)
    }

    fn learn_of_barrier(
        &mut self,
        gateway: usize,
        page: usize,
        lease: Option<LeaseRef>,
        learnt: BarrierFinding,
    ) {
        let command = Command::Barrier(Barrier { resource: name(PAGES[page]), lease, learnt });
        let origin = Origin::Step(Box::new(Work::Barrier { page, lease }));
        self.gateways[gateway].queue.push(Job { command, origin });
    }

    fn learnt(&mut self, gateway: usize, work: Work, finding: Finding) {
        match work {
            Work::Operation(attempt) => {
                let command = Command::Settle(attempt.taught(finding));
                let origin = Origin::Step(Box::new(Work::Operation(attempt)));
                self.gateways[gateway].queue.push(Job { command, origin });
            }
            Work::Barrier { page, lease } => {
                self.learn_of_barrier(gateway, page, lease, BarrierFinding::Nothing);
            }
        }
    }

    /// Something happens to one of a gateway's steps.
    pub(super) fn step(
        &mut self,
        kind: Kind,
        gateway: usize,
        number: usize,
    ) -> Result<bool, super::judge::Violation> {
        let count = self.gateways[gateway].tasks.len();
        if count == 0 {
            return Ok(false);
        }
        let mut task = self.gateways[gateway].tasks.remove(number % count);
        match (kind, task.phase.clone()) {
            (Kind::Step, Phase::Send(request)) => {
                return Ok(self.write(gateway, task, request));
            }
            (Kind::NotSent, Phase::Send(_)) => self.learnt(gateway, task.work, Finding::NotSent),
            (Kind::Step, Phase::Read(recorded)) => {
                let page = task.page();
                let seen = self.store.as_ref().map_or(CellSeen::Absent, |store| store.read(page));
                task.phase = Phase::Seen(recorded, seen);
                self.gateways[gateway].tasks.push(task);
            }
            (Kind::Step | Kind::ArriveTwice, Phase::Waiting(request)) => {
                let Some(reply) = self.arrive(&request)? else {
                    self.learnt(gateway, task.work, Finding::Doubt);
                    return Ok(true);
                };
                // Nothing can be done where the store has nothing against it: `serial` does not promise to survive it.
                if kind == Kind::ArriveTwice && self.setup.class != Some(Class::Serial) {
                    self.wires.push(request.clone());
                }
                task.phase = Phase::Answered(request, reply);
                self.gateways[gateway].tasks.push(task);
            }
            (Kind::Refused, Phase::Waiting(request)) => {
                let now = self.now();
                if self.store.as_mut().is_some_and(|store| store.refuse(&request, now)) {
                    let reply = Reply { status: 413, validator: None, holds: None };
                    task.phase = Phase::Answered(request, reply);
                }
                self.gateways[gateway].tasks.push(task);
            }
            (Kind::TimeOut, Phase::Waiting(request)) => {
                self.wires.push(request);
                self.learnt(gateway, task.work, Finding::Doubt);
            }
            (Kind::TimeOut, Phase::Answered(_, _)) => self.learnt(gateway, task.work, Finding::Doubt),
            (Kind::Step, Phase::Answered(request, reply)) => self.heard(gateway, task.work, request, reply),
            (Kind::Step, Phase::Seen(recorded, seen)) => self.saw(gateway, task.work, recorded, seen),
            _ => {
                self.gateways[gateway].tasks.push(task);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A request is written to its socket: the gateway is a stale worker too, and looks again before it does.
    fn write(&mut self, gateway: usize, mut task: Task, mut request: Request) -> bool {
        let now = self.now();
        if let Work::Operation(attempt) = &task.work {
            let stands = self.db.rows.intent(&attempt.intent.key());
            let ours = stands.is_some_and(|intent| intent.record == attempt.intent.record);
            if task.since.plus(FRESH) < now && !ours {
                self.met("not ours any more");
                return true;
            }
            if attempt.ask_first {
                let asked = match &request.what {
                    What::Write { sent, .. } => {
                        self.store.as_ref().and_then(|store| store.knows(request.page, sent))
                    }
                    What::Rewrite { .. } | What::Advance { .. } => None,
                };
                if let Some(status) = asked {
                    let known = Finding::Known(Box::new(answered(status, None)));
                    self.learnt(gateway, task.work, known);
                    return true;
                }
            }
            let most = if attempt.ask_first { 2 * TIMEOUT_MS } else { TIMEOUT_MS } + LATE_MS;
            let most = attempt.left.map_or(most, |left| left.get().min(most));
            if task.since.plus(Millis::new(most)) < now {
                self.met("too late to send");
                self.learnt(gateway, task.work, Finding::NotSent);
                return true;
            }
        }
        request.at = now;
        task.phase = Phase::Waiting(request);
        self.gateways[gateway].tasks.push(task);
        true
    }

    /// A request is at the store. None is so late that a store has begun to forget keys.
    pub(super) fn arrive(&mut self, request: &Request) -> Result<Option<Reply>, super::judge::Violation> {
        let now = self.now();
        if request.at.plus(Millis::new(KEY_RETENTION_MS / 2)) <= now
            && self.setup.class == Some(Class::Idempotent)
        {
            return Ok(None);
        }
        let Some(store) = self.store.as_mut() else { return Ok(None) };
        let (reply, effect) = store.take(request, now);
        if let Some(effect) = effect {
            self.note(format_args!("store: {effect:?}"));
            self.judge.arrived(request.page, effect)?;
        }
        Ok(Some(reply))
    }

    fn heard(&mut self, gateway: usize, work: Work, request: Request, reply: Reply) {
        let Work::Barrier { page, lease } = work else {
            let etag = reply.validator.as_ref().map(Validator::as_str);
            let answer = answered(reply.status, etag);
            self.learnt(gateway, work, Finding::Answered(Box::new(answer), reply.holds));
            return;
        };
        let position: Option<Position> = reply.holds;
        let learnt = match (request.what, reply.status, reply.validator, position) {
            (What::Rewrite { base, stamp }, 200, Some(validator), _) => {
                BarrierFinding::Rewritten { position: stamp.position, base, validator }
            }
            (What::Advance { position }, 200, _, _) => BarrierFinding::Acknowledged(position),
            (What::Advance { .. }, 412, _, Some(holds)) => BarrierFinding::Holds(holds),
            _ => BarrierFinding::Nothing,
        };
        self.learn_of_barrier(gateway, page, lease, learnt);
    }

    fn saw(&mut self, gateway: usize, work: Work, recorded: Option<Validator>, seen: CellSeen) {
        match work {
            Work::Barrier { page, lease } => {
                let learnt = BarrierFinding::Cell { recorded, seen };
                self.learn_of_barrier(gateway, page, lease, learnt);
            }
            Work::Operation(_) => self.learnt(gateway, work, Finding::Cell(seen)),
        }
    }
}

impl Task {
    fn page(&self) -> usize {
        match &self.work {
            Work::Operation(attempt) => page_of(&attempt.intent.record.resource),
            Work::Barrier { page, .. } => *page,
        }
    }
}
