//! A gateway at work, as the committer does it: load what a batch wants, decide one after the other, apply, commit once,
//! and only then answer. A commit without an outcome is decided again against what is durable.

use fencegate::domain::breaker::{Breaker, Detector};
use fencegate::domain::counter::Epoch;
use fencegate::domain::operation::Fingerprint;
use fencegate::domain::position::Position;
use fencegate::domain::subject::Subject;
use fencegate::ledger::changeset::ChangeSet;
use fencegate::protocol::command::Member;
use fencegate::protocol::outcome::{Settled, Verdict, Written};
use fencegate::protocol::whole::{Deed, WholeAct};
use fencegate::protocol::{Change, Command, Context, Decision, Outcome, Refusal, Snapshot, Wanted, decide};

use super::bugs::Bug;
use super::judge::{Judged, Violation, broken, hold, page_of};
use super::sim::{Ask, Call, Job, Origin, Sim};
use super::variants;
use crate::support::code::words;
use crate::support::forwarding::forwarded;

/// Operations whose acknowledgement a gateway remembers.
const ACKS: usize = 16;

/// A decided job.
struct Decided {
    job: Job,
    before: Snapshot,
    decision: Decision,
}

impl Sim {
    /// A request reaches a gateway. Whoever has no right is told so there.
    pub(super) fn reach(&mut self, gateway: usize, call: Call) {
        let Call { worker, page, ask, permitted } = call;
        if !permitted && !self.is(Bug::ReplayBeforeAuthorisation) {
            self.met("forbidden");
            return;
        }
        let command = match ask {
            Ask::Command(command) => *command,
            Ask::Write { member, .. } if self.setup.class.is_none() => {
                Command::Write(fencegate::protocol::command::Write::new(vec![*member], false).unwrap())
            }
            Ask::Write { member, body } => {
                let claim = self.next();
                forwarded(*member, body, claim)
            }
        };
        let origin = Origin::Client { worker, page, permitted };
        self.gateways[gateway].queue.push(Job { command, origin });
    }

    /// What a gateway has noticed comes first; all else is turned away until the breaker is tripped.
    fn heed(&mut self, gateway: usize) {
        let Some(detector) = self.gateways[gateway].alarm else { return };
        self.gateways[gateway].queue.clear();
        let trip = self.trip(Subject::Everywhere, detector, "commits that were acknowledged are gone");
        self.gateways[gateway].queue.push(trip);
    }

    fn trip(&self, subject: Subject, detector: Detector, found: &str) -> Job {
        let breaker = Breaker { detector, at: self.now(), found: found.to_owned() };
        let command = Command::Whole(WholeAct { subject, deed: Deed::Trip(breaker) });
        Job { command, origin: Origin::Gateway }
    }

    /// One batch, in one transaction.
    pub(super) fn serve(&mut self, gateway: usize) -> Judged {
        self.heed(gateway);
        let queue = std::mem::take(&mut self.gateways[gateway].queue);
        let alone = |job: &Job| matches!(job.command, Command::Whole(_));
        let most = match queue.iter().position(alone) {
            Some(0) => 1,
            Some(first) => first,
            None => queue.len(),
        };
        let mut batch = queue;
        let rest = batch.split_off(most);
        self.gateways[gateway].queue = rest;
        if batch.is_empty() {
            return Ok(());
        }
        let mut wanted = Wanted::default();
        for job in &batch {
            wanted.add(&job.command);
        }
        let loaded = self.db.load(&wanted);
        let mut snapshot = loaded.snapshot.clone();
        self.learn(gateway, &snapshot);
        let mut decided = Vec::with_capacity(batch.len());
        let (mut set, mut all) = (ChangeSet::default(), Vec::new());
        for job in batch {
            let before = snapshot.clone();
            let decision = self.decided(gateway, &before, &job)?;
            for change in &decision.changes {
                snapshot.apply(change);
                set.add(change.clone());
                all.push(change.clone());
            }
            decided.push(Decided { job, before, decision });
        }
        let fate = if all.is_empty() { None } else { self.gateways[gateway].unknown.take() };
        if fate != Some(false) && !all.is_empty() {
            let committed = self.db.commit(set, &all, &loaded);
            committed.or_else(|found| broken("engine", found))?;
        }
        self.told(gateway, decided, fate)
    }

    fn decided(&self, gateway: usize, before: &Snapshot, job: &Job) -> Result<Decision, Violation> {
        let begun = if self.is(Bug::EpochForgotten) { Epoch::ZERO } else { self.begun(gateway) };
        let context = Context { begun, ..self.world.context() };
        let decide = |rows: &Snapshot, command: &Command| {
            decide(&context, rows, command, self.now())
                .or_else(|found| broken("inconsistent", format!("{}: {command:?}", found.0)))
        };
        match variants::decided(self, before, job, &decide) {
            Some(decision) => decision,
            None => decide(before, &job.command),
        }
    }

    /// What a process has read or committed, it knows for as long as it lives.
    fn learn(&mut self, gateway: usize, rows: &Snapshot) {
        let named = rows.namespaces().map(|row| row.epoch);
        let highest = named.chain([rows.everywhere().epoch]).max().unwrap_or_default();
        let known = &mut self.gateways[gateway].epoch;
        *known = highest.max(*known);
    }

    fn durable(&mut self, gateway: usize, decided: &Decided) -> Judged {
        let Decided { before, decision, .. } = decided;
        let outcome = match &decision.outcome {
            Outcome::Ahead(ahead) => &ahead.outcome,
            outcome => outcome,
        };
        self.judge.durable(before, outcome, &decision.changes, self.db.commits())?;
        for change in &decision.changes {
            if let Change::EverywhereChanged { after, .. } = change {
                let known = self.begun(gateway);
                if matches!(decision.outcome, Outcome::Acted(_)) {
                    self.judge.began(after.epoch, known)?;
                }
                self.witnessed = self.witnessed.max(after.epoch);
                let own = &mut self.gateways[gateway].epoch;
                *own = after.epoch.max(*own);
            }
        }
        Ok(())
    }

    /// Everybody is answered, or nobody knows and the batch is decided again.
    fn told(&mut self, gateway: usize, decided: Vec<Decided>, fate: Option<bool>) -> Judged {
        let again = fate.is_some() && !self.is(Bug::AnswerBeforeCommit);
        if again {
            self.met("commit unknown");
            if fate == Some(true) {
                decided.iter().try_for_each(|one| self.durable(gateway, one))?;
            }
            if self.is(Bug::UnknownIsFailed) {
                return self.told_failed(&decided);
            }
            let mut queue: Vec<Job> = decided.into_iter().map(|one| one.job).collect();
            queue.append(&mut self.gateways[gateway].queue);
            self.gateways[gateway].queue = queue;
            return Ok(());
        }
        // What is decided first knows nothing of what comes after it in the batch.
        for one in decided {
            if fate != Some(false) {
                self.durable(gateway, &one)?;
            }
            let Decided { job, decision, .. } = one;
            self.acked(gateway, &decision.changes);
            self.outcome(gateway, &job, decision.outcome)?;
        }
        Ok(())
    }

    /// As if a commit without an outcome had not happened.
    fn told_failed(&mut self, decided: &[Decided]) -> Judged {
        for Decided { job, .. } in decided {
            let Command::Write(write) = &job.command else { continue };
            let member = &write.members[0];
            let (page, id) = (page_of(&member.address.resource), member.operation_id.as_str());
            self.judge.told_none(page, id, presented(member), &Refusal::LeaseNotLive)?;
        }
        Ok(())
    }

    fn acked(&mut self, gateway: usize, changes: &[Change]) {
        let acks = &mut self.gateways[gateway].acks;
        for change in changes {
            match change {
                Change::OperationRecorded(record) => acks.push(record.key()),
                Change::OperationPruned(record) => acks.retain(|key| *key != record.key()),
                _ => {}
            }
        }
        let over = acks.len().saturating_sub(ACKS);
        acks.drain(..over);
    }

    /// Something shows that the database has gone back: it has to be stopped, unless whoever noticed dies before that.
    fn proved(&mut self, detector: Detector) {
        self.met(detector.word());
        self.judge.proved = Some(detector.word());
    }

    /// An outcome is durable: whoever waits for it hears of it.
    fn outcome(&mut self, gateway: usize, job: &Job, outcome: Outcome) -> Judged {
        for code in words(&outcome) {
            *self.reached.codes.entry(code).or_default() += 1;
        }
        self.note(format_args!("gateway {gateway}: {}", said(&outcome)));
        let (outcome, proof) = outcome.apart();
        if let Some((namespace, found)) = proof {
            self.proved(Detector::Store);
            if !self.is(Bug::StoreProofIgnored) {
                let trip = self.trip(Subject::Namespace(namespace), Detector::Store, &found);
                self.gateways[gateway].queue.insert(0, trip);
            }
        }
        if let Some(Refusal::IssuerBehind { .. }) = outcome.refusal() {
            self.proved(Detector::Seal);
            let trip = self.trip(Subject::Everywhere, Detector::Seal, "a seal above what was issued");
            self.gateways[gateway].queue.insert(0, trip);
        }
        if let Command::Whole(WholeAct { deed: Deed::Trip(_), .. }) = &job.command {
            self.gateways[gateway].alarm = None;
            self.judge.proved = None;
        }
        match (&job.origin, outcome) {
            (_, Outcome::Written(members)) => self.written(job, &members[0]),
            (_, Outcome::NotWritten(verdicts)) => {
                let Verdict::Refuse(refusal) = &verdicts[0].verdict else { return Ok(()) };
                self.refused(job, refusal)
            }
            (Origin::Client { worker, page, .. }, Outcome::Granted(grant)) => {
                let (worker, page) = (*worker, *page);
                if let Some(token) = grant.fencing_tokens.first() {
                    self.judge.owns(page, Self::position(&token.0));
                    self.owns(worker, page, token.0.clone(), grant.acquisition_id);
                } else if self.is(Bug::BarrierSkipped) {
                    self.judge.owns(page, grant.view.lease.position);
                }
                Ok(())
            }
            (Origin::Client { page, .. }, Outcome::Advanced(row)) => {
                self.judge.acknowledge(*page, row.floor);
                Ok(())
            }
            (_, Outcome::Controlled(done)) => {
                if !done.replayed && done.in_flight.is_empty() {
                    let page = page_of(&done.resource.resource);
                    self.judge.revoked(page, done.resource.revoked_through);
                }
                Ok(())
            }
            (_, Outcome::Acted(_)) => {
                let epoch = self.epoch();
                self.judge.begins(epoch);
                self.judge.proved = None;
                self.gateways.iter_mut().for_each(|one| one.alarm = None);
                Ok(())
            }
            (_, Outcome::Announced(attempt)) => self.begin(gateway, *attempt),
            (_, Outcome::Settled(settled)) => self.settled(gateway, *settled),
            (Origin::Step(work), Outcome::Barrier(step)) => self.barrier(gateway, work, *step),
            (_, Outcome::Resolved(_)) => {
                self.met("resolved");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn written(&mut self, job: &Job, written: &Written) -> Judged {
        if let Origin::Client { permitted: false, .. } = job.origin {
            return broken(
                "authorisation",
                format!("{:?} for somebody without the right", written.operation_id),
            );
        }
        self.answered(written)
    }

    /// An operation is answered as decided.
    pub(super) fn answered(&mut self, written: &Written) -> Judged {
        let (page, id) = (page_of(&written.address.resource), written.operation_id.as_str());
        let incarnation = written.incarnation.get();
        self.judge.answer(page, id, incarnation, &written.response)?;
        if written.response.done == fencegate::protocol::rows::Done::Nothing {
            return self.judge.never(page, id, incarnation);
        }
        self.judge.applied(page, id, incarnation, written.position)
    }

    fn refused(&mut self, job: &Job, refusal: &Refusal) -> Judged {
        let Command::Write(write) = &job.command else { return Ok(()) };
        let member = &write.members[0];
        let (page, id) = (page_of(&member.address.resource), member.operation_id.as_str());
        if let Refusal::SequenceRegressed { .. } = refusal
            && self.judge.losses == 0
        {
            let sequence = member.sequence.map_or(0, fencegate::domain::counter::Sequence::get);
            let same = |done: &super::judge::Done| {
                done.position == member.claim.position && done.sequence >= sequence
            };
            hold(self.judge.effects[page].iter().any(same), "I14", || {
                format!("{id} is first in its generation, and {refusal:?}")
            })?;
        }
        self.judge.told_none(page, id, presented(member), refusal)
    }

    fn settled(&mut self, gateway: usize, settled: Settled) -> Judged {
        match settled {
            Settled::Done(written) => {
                self.met("decided");
                self.answered(&written)
            }
            Settled::Again(attempt) => self.begin(gateway, attempt),
            Settled::Withdrawn(intent, _, _) => {
                self.met("withdrawn");
                self.judge.no_effect(intent.claim)
            }
            Settled::Later(_) => {
                self.met("later");
                Ok(())
            }
            Settled::Uncertain(_) => {
                self.met("uncertain");
                Ok(())
            }
            Settled::Moved => {
                self.met("moved");
                Ok(())
            }
        }
    }
}

/// Position, sequence and fingerprint of a request.
fn presented(member: &Member) -> (Position, u64, &Fingerprint) {
    let sequence = member.sequence.map_or(0, fencegate::domain::counter::Sequence::get);
    (member.claim.position, sequence, &member.fingerprint)
}

/// A short word for an outcome; nothing in it depends on where memory lies.
fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Granted(grant) => format!("Granted {}", grant.view.lease.position),
        Outcome::Written(members) => {
            let one = &members[0];
            format!("Written {} at {} (replayed: {})", one.operation_id, one.position, one.replayed)
        }
        Outcome::NotWritten(members) => {
            format!(
                "NotWritten {} at {}: {:?}",
                members[0].operation_id,
                members[0].presented,
                words(outcome)
            )
        }
        Outcome::Announced(attempt) => {
            let record = &attempt.intent.record;
            format!("Announced {} at {}", record.operation_id, record.position)
        }
        Outcome::Settled(settled) => match settled.as_ref() {
            Settled::Done(one) => format!("Done {} as {:?}", one.operation_id, one.response.done),
            Settled::Withdrawn(intent, _, _) => format!("Withdrawn {}", intent.record.operation_id),
            Settled::Again(attempt) => {
                format!(
                    "Again {} attempt {}",
                    attempt.intent.record.operation_id, attempt.intent.record.attempt
                )
            }
            Settled::Later(_) => "Later".to_owned(),
            Settled::Uncertain(_) => "Uncertain".to_owned(),
            Settled::Moved => "Moved".to_owned(),
        },
        other => format!("{:?}", words(other)),
    }
}
