//! What workers and operators ask for.

use fencegate::domain::lease::AcquisitionId;
use fencegate::domain::operation::OperationId;
use fencegate::domain::subject::Subject;
use fencegate::protocol::Command;
use fencegate::protocol::command::{Advance, Resolve, ResolveVerdict};
use fencegate::protocol::control::{Control, ControlVerb};
use fencegate::protocol::prune::{Prunable, Prune};
use fencegate::protocol::whole::{Deed, WholeAct};

use super::durable::PAGES;
use super::events::{Event, Kind};
use super::sim::{Ask, Call, Hold, Job, KEPT, Op, Origin, Sim};
use crate::support::calls::call;
use crate::support::draft::{delete, put};
use crate::support::world::{NAMESPACE, acquire_by, name, release, renew};

/// Most of what happens is about the first page.
const fn page_of(event: Event) -> usize {
    if event.b % 7 == 6 { 1 } else { 0 }
}

const BODIES: [&str; 2] = ["one", "two"];

impl Sim {
    fn send(&mut self, worker: usize, page: usize, command: Command) {
        let ask = Ask::Command(Box::new(command));
        self.network.push(Call { worker, page, ask, permitted: true });
    }

    fn operate(&mut self, event: Event, command: Command) {
        let gateway = event.a % self.gateways.len();
        self.gateways[gateway].queue.push(Job { command, origin: Origin::Gateway });
    }

    /// A client or an operator acts. False where there is nothing to do.
    pub(super) fn ask(&mut self, event: Event) -> bool {
        let (worker, page) = (event.a % self.workers.len(), page_of(event));
        match event.kind {
            Kind::Acquire => self.acquire(worker, page),
            Kind::Again => {
                let Some(request) = self.workers[worker].asked[page] else { return false };
                self.send(worker, page, acquire_by(PAGES[page], request, "", None));
            }
            Kind::Renew | Kind::Release => {
                let held = self.workers[worker].holds[page].as_ref().and_then(|hold| hold.id.clone());
                let Some(id) = held else { return false };
                let command = if event.kind == Kind::Renew { renew(&id) } else { release(&id) };
                self.send(worker, page, command);
            }
            Kind::Write | Kind::Remove => return self.compose(worker, page, event),
            Kind::Retry | Kind::Mismatch | Kind::Stranger => return self.retry(worker, event),
            Kind::Advance => {
                let Some(hold) = self.workers[worker].holds[page].clone() else { return false };
                self.advance(worker, page, &hold.token);
            }
            Kind::Revoke | Kind::Cancel | Kind::Reopen => self.control(event, page),
            Kind::Resolve => return self.resolve(event),
            Kind::Epoch => self.begin_epoch(event),
            Kind::Sweep => {
                let Some(lease) =
                    self.db.rows.leases().nth(event.b % 3).map(fencegate::protocol::rows::LeaseRow::place)
                else {
                    return false;
                };
                self.operate(event, Command::Sweep(fencegate::protocol::command::Sweep { lease }));
            }
            Kind::Forget => return self.forget(event, page),
            Kind::Fold => {
                let deed = Deed::Fold { resources: PAGES.map(name).to_vec(), kept: KEPT };
                self.whole(event, deed);
            }
            _ => return false,
        }
        true
    }

    fn acquire(&mut self, worker: usize, page: usize) {
        if self.setup.issuer.is_external() {
            self.external[page] += 1;
            let token = self.external_token(self.external[page]);
            self.workers[worker].holds[page] = Some(Hold { token: token.clone(), id: None, sequence: 0 });
            if self.setup.issuer == fencegate::domain::policy::Issuer::Registered {
                self.advance(worker, page, &token);
            }
            return;
        }
        let request = u128::from(self.next()) + 1;
        self.workers[worker].asked[page] = Some(request);
        self.send(worker, page, acquire_by(PAGES[page], request, "", None));
    }

    fn advance(&mut self, worker: usize, page: usize, token: &str) {
        let claim = self.world.claim(&name(PAGES[page]), token);
        let advance = Advance { resource: name(PAGES[page]), claim, reason: "simulated".to_owned() };
        self.send(worker, page, Command::Advance(advance));
    }

    fn compose(&mut self, worker: usize, page: usize, event: Event) -> bool {
        let number = self.next();
        let Some(hold) = self.workers[worker].holds[page].as_mut() else { return false };
        hold.sequence += 1;
        let id = format!("o{number}");
        let mut draft = if event.kind == Kind::Write {
            put(PAGES[page], &id, hold.token.clone()).body(BODIES[event.b % 2])
        } else {
            delete(PAGES[page], &id, hold.token.clone())
        };
        if let fencegate::domain::policy::Policy::Ordered { .. } = self.setup.policy {
            draft = draft.sequence(hold.sequence);
        }
        self.ops.push(Op { page, draft });
        self.deliver_op(worker, self.ops.len() - 1, true);
        true
    }

    /// An operation comes once more: late, under a newer token, with other content, or from somebody else.
    fn retry(&mut self, worker: usize, event: Event) -> bool {
        if self.ops.is_empty() {
            return false;
        }
        let number = self.ops.len() - 1 - event.b / 7 % self.ops.len().min(6);
        let Op { page, mut draft } = self.ops[number].clone();
        let newest = self.workers[worker].holds[page].clone();
        match (event.kind, newest) {
            (Kind::Mismatch, _) => draft = draft.content_type("text/other"),
            (Kind::Retry, Some(hold)) if event.b.is_multiple_of(2) => {
                draft = draft.under(hold.token);
                if draft.sequence.is_some() {
                    draft = draft.sequence(hold.sequence + 1);
                    self.workers[worker].holds[page].as_mut().unwrap().sequence += 1;
                }
            }
            _ => {}
        }
        self.ops.push(Op { page, draft });
        let permitted = event.kind != Kind::Stranger;
        self.deliver_op(worker, self.ops.len() - 1, permitted);
        self.ops.pop();
        true
    }

    pub(super) fn deliver_op(&mut self, worker: usize, number: usize, permitted: bool) {
        let Op { page, draft } = &self.ops[number];
        let (page, body) = (*page, draft.body);
        let ask = Ask::Write { member: Box::new(draft.member(&self.world)), body };
        self.network.push(Call { worker, page, ask, permitted });
    }

    fn control(&mut self, event: Event, page: usize) {
        let verb = match event.kind {
            Kind::Revoke => ControlVerb::Revoke,
            Kind::Cancel => ControlVerb::Cancel,
            _ => ControlVerb::Reopen,
        };
        // Few keys, so that a call also comes again.
        let key = OperationId::parse(&format!("k{}", event.b % 30)).unwrap();
        let mut control = Control { key: Some(key), ..call(verb, PAGES[page]) };
        if verb == ControlVerb::Reopen && self.setup.issuer.is_external() {
            self.external[page] += 1;
            let token = self.external_token(self.external[page]);
            control.claim = Some(self.world.claim(&name(PAGES[page]), &token));
        }
        self.operate(event, Command::Control(control));
    }

    fn whole(&mut self, event: Event, deed: Deed) {
        let subject = Subject::parse(NAMESPACE).unwrap();
        let subject = match deed {
            Deed::Trip(_) | Deed::AdvanceEpoch { .. } | Deed::NotePolicy { .. } => Subject::Everywhere,
            Deed::Fold { .. } | Deed::ChangeDefinition(_) => subject,
        };
        self.operate(event, Command::Whole(WholeAct { subject, deed }));
    }

    /// An operator begins an epoch; mostly where something has stopped.
    pub(super) fn begin_epoch(&mut self, event: Event) {
        let key = OperationId::parse(&format!("e{}", self.next())).unwrap();
        let deed = Deed::AdvanceEpoch {
            key,
            reason: "simulated".to_owned(),
            leave_open: !event.b.is_multiple_of(4),
        };
        self.whole(event, deed);
    }

    /// A person looks at the store and ends a doubt, once nothing of it can come any more.
    pub(super) fn resolve(&mut self, event: Event) -> bool {
        let uncertain = |intent: &&fencegate::protocol::rows::IntentRow| {
            intent.record.state == fencegate::domain::operation::OperationState::Uncertain
                && !self.may_come(intent.claim)
        };
        let found: Vec<_> = self.db.rows.intents().filter(uncertain).cloned().collect();
        if found.is_empty() {
            return false;
        }
        let intent = &found[event.b % found.len()];
        let (resource, incarnation, operation_id) = intent.key();
        let page = super::judge::page_of(&resource);
        let there = self.judge.effects[page]
            .iter()
            .any(|done| done.operation == operation_id.as_str() && done.incarnation == incarnation.get());
        let verdict = if there { ResolveVerdict::Applied } else { ResolveVerdict::NotApplied };
        let (evidence, reason) = ("looked".to_owned(), "doubt".to_owned());
        let resolve = Resolve { resource, operation_id, incarnation, verdict, evidence, reason };
        self.operate(event, Command::Resolve(resolve));
        true
    }

    fn forget(&mut self, event: Event, page: usize) -> bool {
        let resource = name(PAGES[page]);
        let mut records: Vec<_> =
            self.db.rows.operations().filter(|record| record.resource == resource).collect();
        records.sort_by_key(|record| record.decided_at);
        let operations: Vec<_> =
            records.iter().map(|record| (record.incarnation, record.operation_id.clone())).collect();
        if operations.is_empty() {
            return false;
        }
        let what = Prunable::Operations { resource, operations };
        self.operate(event, Command::Prune(Prune { kept: KEPT, what }));
        true
    }

    /// The worker hears that it owns a page.
    pub(super) fn owns(&mut self, worker: usize, page: usize, token: String, id: AcquisitionId) {
        let known = self.workers[worker].holds[page].as_ref();
        if known.is_none_or(|hold| hold.token != token) {
            self.workers[worker].holds[page] = Some(Hold { token, id: Some(id), sequence: 0 });
        }
    }
}
