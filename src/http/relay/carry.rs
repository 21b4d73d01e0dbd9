//! A write on its way: announced, carried, waited for. Where another one is in its way it waits for that, and is judged
//! again from the first row.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::dispatch::{Dispatch, Ended, Room};
use crate::domain::upstream::Relayed;
use crate::ledger::waiting::Observer;
use crate::ledger::wakeup::instant;
use crate::ledger::{Ledger, Unserved};
use crate::limits::LANE_LOOK;
use crate::protocol::command::{Member, Write};
use crate::protocol::outcome::{Attempt, MemberVerdict, Standing, Verdict, Withdrawal, Written};
use crate::protocol::{Command, Outcome, Refusal};

use super::super::problem::{self, Code, Problem};
use super::super::wire;

/// What a caller is answered.
pub(super) enum Carried {
    /// The saved answer; with the upstream's whole body where it is at hand, since only a part may be kept.
    Decided(Box<Written>, Option<Bytes>),
    /// The upstream's refusal, which is not bound to the operation.
    Unbound(Relayed, Standing),
    /// The gateway's own answer.
    Refused(Box<Problem>),
}

/// Everything that a write needs on its way.
pub(super) struct Carrying {
    pub(super) ledger: Ledger,
    pub(super) dispatch: Dispatch,
    pub(super) draining: CancellationToken,
    pub(super) member: Member,
    /// How long it waits for others.
    pub(super) wait: Duration,
    /// How long one attempt takes at most.
    pub(super) timeout: Duration,
}

/// What became of one delivery to the rules.
enum Judged {
    Announced(Box<Attempt>),
    /// Something else has to be decided first.
    InTheWay(Vec<MemberVerdict>),
    Answered(Carried),
    /// The rules could not be asked.
    Unserved(Unserved),
}

impl Carrying {
    /// Carries it until it is decided, or the caller's patience is over.
    pub(super) async fn carry(&mut self, room: Room) -> Carried {
        let until = instant() + self.wait;
        let mut room = Some(room);
        let mut observer: Option<Observer> = None;
        let mut announced = false;
        loop {
            let since = self.dispatch.elapsed();
            match self.judged().await {
                Judged::Answered(carried) => return carried,
                // That nobody can be asked now does not undo what was announced before: it will be carried out.
                Judged::Unserved(_) if announced => return self.uncertain(),
                Judged::Unserved(unserved) => return self.unserved(&unserved),
                Judged::Announced(attempt) => {
                    announced = true;
                    // Without room it is announced all the same, and taken up when it is due.
                    let room = room.take().or_else(|| self.another_room());
                    let Some(room) = room else { return self.uncertain() };
                    self.is_another_delivery();
                    // Where somebody else has taken a step, what came of it the record tells.
                    if let Some(carried) = self.carried(*attempt, since, room, until).await {
                        return carried;
                    }
                }
                Judged::InTheWay(members) if instant() >= until => return refused(&members),
                Judged::InTheWay(members) => {
                    self.dispatch.resolve_soon(&self.member.address.resource);
                    if !self.changed(&mut observer, until).await {
                        return refused(&members);
                    }
                }
            }
        }
    }

    fn another_room(&self) -> Option<Room> {
        self.dispatch.room(&self.member.address.resource.namespace())
    }

    /// What was announced is carried once: the rules, asked again, must not take it for an announcement whose answer was
    /// lost.
    fn is_another_delivery(&mut self) {
        if let Some(forward) = &mut self.member.forward {
            forward.claim = forward.claim.wrapping_add(1);
        }
    }

    async fn judged(&self) -> Judged {
        let write = Write { members: vec![self.member.clone()], dry_run: false };
        match self.ledger.submit(Command::Write(write)).await {
            Ok(Outcome::Announced(attempt)) => Judged::Announced(attempt),
            Ok(Outcome::Written(mut written)) => match written.pop() {
                Some(written) => Judged::Answered(Carried::Decided(Box::new(written), None)),
                None => Judged::Answered(Carried::Refused(Box::new(Problem::fault()))),
            },
            Ok(Outcome::NotWritten(members)) if is_in_the_way(&members) => Judged::InTheWay(members),
            Ok(Outcome::NotWritten(members)) => Judged::Answered(refused(&members)),
            Ok(_) => Judged::Answered(Carried::Refused(Box::new(Problem::fault()))),
            Err(unserved) => Judged::Unserved(unserved),
        }
    }

    /// The end of the attempt; none when somebody else goes on with the operation.
    async fn carried(
        &self,
        attempt: Attempt,
        since: Duration,
        room: Room,
        until: Instant,
    ) -> Option<Carried> {
        let mut forwarding = self.dispatch.forward(attempt, since, room);
        let patience = until.max(instant() + self.timeout);
        let Ok(ended) = timeout_at(patience, &mut forwarding).await else {
            let member = &self.member;
            let resource = member.address.resource.clone();
            self.dispatch.go_on(resource, member.operation_id.clone(), forwarding);
            return Some(self.uncertain());
        };
        Some(match ended {
            Some(Ended::Decided(written, body)) => Carried::Decided(written, Some(body)),
            Some(Ended::Withdrawn(_, Withdrawal::Relayed(relayed), standing)) => {
                Carried::Unbound(relayed, standing)
            }
            Some(Ended::Withdrawn(_, Withdrawal::Unreachable, _)) => {
                let detail = "the upstream cannot be reached, and nothing was sent; send the same request again in 1 s";
                Carried::Refused(Box::new(Problem::new(Code::UpstreamUnreachable, detail)))
            }
            Some(Ended::Withdrawn(_, Withdrawal::Refused(refusal), standing)) => {
                self.overtaken(refusal, standing)
            }
            // It stands in the database and may have been sent, whatever could not be recorded of it afterwards.
            Some(Ended::Uncertain | Ended::Unserved(_)) | None => self.uncertain(),
            Some(Ended::Moved) => return None,
        })
    }

    /// Refused by the rules after all, against what the store turned out to hold.
    fn overtaken(&self, refusal: Refusal, standing: Standing) -> Carried {
        let verdict = MemberVerdict {
            address: self.member.address.clone(),
            operation_id: self.member.operation_id.clone(),
            presented: self.member.claim.position,
            sequence: self.member.sequence,
            standing,
            verdict: Verdict::Refuse(refusal),
        };
        refused(&[verdict])
    }

    fn uncertain(&self) -> Carried {
        let operation = &self.member.operation_id;
        let detail = format!(
            "operation {operation} was sent and its outcome is not known yet; ask for it at the address in Location, or send \
             the same request with the same operation id again"
        );
        let problem = Problem::new(Code::OutcomeUncertain, detail).located(self.link());
        Carried::Refused(Box::new(problem))
    }

    fn unserved(&self, unserved: &Unserved) -> Carried {
        Carried::Refused(Box::new(problem::unserved(unserved, Some(self.link()))))
    }

    fn link(&self) -> String {
        wire::operation_link(&self.member.operation_id, &self.member.address.resource, None)
    }

    /// Waits for a change of the resource. `false` when the process stops.
    async fn changed(&self, observer: &mut Option<Observer>, until: Instant) -> bool {
        let resource = &self.member.address.resource;
        match observer {
            // What changes between this look and the next is seen by the next.
            None => {
                *observer = Some(self.ledger.observe(resource));
                true
            }
            Some(observer) => {
                let next = until.min(instant() + LANE_LOOK);
                observer.changed(next, &self.draining).await
            }
        }
    }
}

/// Whether waiting can help.
fn is_in_the_way(members: &[MemberVerdict]) -> bool {
    members.iter().any(|member| {
        matches!(member.verdict, Verdict::Refuse(Refusal::OperationInProgress | Refusal::LaneBusy { .. }))
    })
}

fn refused(members: &[MemberVerdict]) -> Carried {
    let problem = problem::refused_write(members, false).unwrap_or_else(Problem::fault_without_change);
    Carried::Refused(Box::new(problem))
}
