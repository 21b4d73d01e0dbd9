//! What a cell shows, and what follows for the operations that were sent on an earlier state of it.
//!
//! A store that compares and sets takes at most one of the sends that rest on one validator, so the stamp in the cell
//! tells which one it was, and all others on that validator can never have an effect any more. Nothing is sent on a
//! validator before the operation that produced it is recorded as applied (I13).

use crate::deliberate::{self, Bug};
use crate::domain::seal::SealVerdict;
use crate::domain::upstream::{Base, CellSeen, Relayed, Stamp, StampKind, Validator};

use super::super::Inconsistent;
use super::super::command::{Before, Claim, Member, Told};
use super::super::outcome::{Refusal, Settled, Withdrawal};
use super::super::rows::IntentRow;
use super::super::write::{Case, table};
use super::effect::Evidence;
use super::{Scene, incarnation_of};
use crate::domain::resource::Address;

/// What the gateway makes of a cell.
pub(super) enum Read {
    /// It is as recorded.
    AsRecorded,
    /// There is no cell, and none was recorded.
    Absent,
    /// It was not as recorded, and is recorded now: an effect or a barrier whose answer was lost, or content from
    /// before the gateway.
    Recorded,
    /// It contradicts the record.
    Contradicts(String),
}

impl Scene<'_> {
    /// The cell was read for an operation whose fate depends on it.
    pub(super) fn cell_seen(
        &mut self,
        intent: &IntentRow,
        told: &Told,
        seen: &CellSeen,
    ) -> Result<Settled, Inconsistent> {
        if let CellSeen::Stamped(validator, stamp) = seen
            && is_of(stamp, intent)
        {
            let relayed = answer(&told.before).filter(|relayed| relayed.is_success());
            let evidence = Evidence { relayed, validator: Some(validator.clone()), resolution: None };
            return Ok(Settled::Done(self.apply(intent, evidence)?));
        }
        if self.is_stopped() {
            return Ok(self.when_it_goes_on(intent));
        }
        if told.recorded != self.row.cell {
            // What was read is older than the record: it would look like a store that has gone back.
            return Ok(self.read_the_cell(intent, intent.doubt, told.before.clone()));
        }
        if let CellSeen::Stamped(validator, _) = seen
            && deliberate::on(Bug::SendOnTheUnrecorded)
        {
            let base = Base::Recorded(validator.clone());
            return Ok(Settled::Again(self.send(intent, base, intent.doubt)));
        }
        match self.read(seen, Some(intent))? {
            Read::Contradicts(found) => {
                self.quarantine_cell(found, seen);
                Ok(self.later(intent, intent.doubt))
            }
            Read::Absent if intent.base == Base::Unread => {
                Ok(Settled::Again(self.send(intent, Base::Absent, intent.doubt)))
            }
            Read::AsRecorded | Read::Recorded | Read::Absent => self.on_the_recorded(intent, &told.before),
        }
    }

    /// Sends on the recorded state: again, where the last send rested on it; else it is dead, and the write is judged
    /// anew against what took its place.
    fn on_the_recorded(&mut self, intent: &IntentRow, before: &Before) -> Result<Settled, Inconsistent> {
        let base = self.recorded_base();
        if base == intent.base {
            return self.unchanged(intent, base, before);
        }
        if let Some(refusal) = self.judged_again(intent)? {
            return Ok(self.withdrawn(intent, Withdrawal::Refused(refusal)));
        }
        // Whatever was sent before rested on a state that is gone for ever: there is no doubt left.
        Ok(Settled::Again(self.send(intent, base, false)))
    }

    /// The cell is as it was when this was sent, so no send on it has had an effect yet.
    fn unchanged(
        &mut self,
        intent: &IntentRow,
        base: Base,
        before: &Before,
    ) -> Result<Settled, Inconsistent> {
        match before {
            Before::Nothing => Ok(Settled::Again(self.send(intent, base, intent.doubt))),
            // It did not refuse what this rests on, but the write itself, and nothing else of it is under way.
            Before::Answer(refusal) if !intent.doubt && self.rules.refused.contains(refusal.status) => {
                Ok(Settled::Done(self.refuse(intent, refusal)?))
            }
            // A store that can be read and not written would be sent the same again and again without a pause.
            Before::Doubt | Before::Answer(_) => Ok(self.later(intent, true)),
        }
    }

    /// What a send on the recorded state rests on.
    pub(super) fn recorded_base(&self) -> Base {
        self.row.cell.clone().map_or(Base::Absent, Base::Recorded)
    }

    /// Holds the cell against the record, and records what can be explained.
    pub(super) fn read(&mut self, seen: &CellSeen, reader: Option<&IntentRow>) -> Result<Read, Inconsistent> {
        let recorded = self.row.cell.clone();
        match (seen, recorded) {
            (CellSeen::Absent, None) => Ok(Read::Absent),
            (CellSeen::Absent, Some(_)) => {
                Ok(Read::Contradicts("the cell has vanished from the store".to_owned()))
            }
            (CellSeen::Unstamped(found) | CellSeen::Stamped(found, _), Some(recorded))
                if *found == recorded =>
            {
                Ok(Read::AsRecorded)
            }
            (CellSeen::Unstamped(found), None) if !self.was_created_by_us(reader) => {
                self.row.cell = Some(found.clone());
                Ok(Read::Recorded)
            }
            (CellSeen::Unstamped(found), _) => {
                let what = format!(
                    "the cell {found:?} has content without a stamp: somebody writes around the gateway"
                );
                Ok(Read::Contradicts(what))
            }
            (CellSeen::Stamped(found, stamp), _) => self.explain(found, stamp),
            (CellSeen::Strange(what), _) => Ok(Read::Contradicts(format!("the cell cannot be read: {what}"))),
        }
    }

    /// Stops everything until somebody has looked into it. What the cell shows now is what they will look at, and what a
    /// reopen accepts: against the old record the next look would only stop everything again.
    pub(super) fn quarantine_cell(&mut self, found: String, seen: &CellSeen) {
        self.quarantine(found);
        match seen {
            CellSeen::Absent => self.row.cell = None,
            CellSeen::Unstamped(validator) | CellSeen::Stamped(validator, _) => {
                self.row.cell = Some(validator.clone());
            }
            CellSeen::Strange(_) => {}
        }
    }

    /// Whether the gateway has already sent something that creates the cell: then content without a stamp is not from
    /// before its time.
    fn was_created_by_us(&self, reader: Option<&IntentRow>) -> bool {
        let creates = |intent: &IntentRow| intent.base == Base::Absent;
        reader.is_some_and(creates) || self.undecided().any(creates)
    }

    /// A stamp that is not the reader's own: of an effect or a barrier whose answer was lost, or of something that this
    /// database does not know.
    fn explain(&mut self, found: &Validator, stamp: &Stamp) -> Result<Read, Inconsistent> {
        let announced = !stamp.position.is_above(self.following());
        match stamp.kind {
            StampKind::Barrier | StampKind::EmptyBarrier
                if announced && stamp.commit == self.row.commit_no =>
            {
                self.row.cell = Some(found.clone());
                self.row.barrier = self.row.barrier.or_higher(stamp.position);
                Ok(Read::Recorded)
            }
            StampKind::Barrier | StampKind::EmptyBarrier => {
                let what = format!("the cell has the stamp {stamp} of a barrier that is not recorded");
                if self.is_of_this_epoch(stamp) && (!announced || stamp.commit > self.row.commit_no) {
                    self.forgotten(&what);
                }
                Ok(Read::Contradicts(what))
            }
            StampKind::Content | StampKind::Tombstone => {
                let by = self.undecided().find(|intent| is_of(stamp, intent)).cloned();
                let Some(by) = by else {
                    let what = format!("the cell has the stamp {stamp} of an operation that is not recorded");
                    if self.is_of_this_epoch(stamp) && (!announced || !self.may_know(stamp)) {
                        self.forgotten(&what);
                    }
                    return Ok(Read::Contradicts(what));
                };
                let validator = Some(found.clone());
                self.apply(&by, Evidence { relayed: None, validator, resolution: None })?;
                Ok(Read::Recorded)
            }
        }
    }

    /// Whether a stamp says anything about the record as it goes on now. With a new epoch an operator has said that what
    /// stands here counts, whatever was lost before: a cell of an ended epoch is looked into by itself.
    fn is_of_this_epoch(&self, stamp: &Stamp) -> bool {
        stamp.position.epoch >= self.namespace.row.epoch
    }

    /// Whether the operation of a stamp is recorded, or may have been before its record was pruned. A store that shows
    /// the stamp of such a one has gone back itself.
    fn may_know(&self, stamp: &Stamp) -> bool {
        let pruned = self.row.pruned_through.is_some_and(|mark| !stamp.position.is_above(mark.position));
        let Some(id) = &stamp.operation_id else { return pruned };
        let key = (self.row.resource.clone(), stamp.incarnation, id.clone());
        pruned || self.snapshot.operation(&key).is_some() || self.snapshot.intent(&key).is_some()
    }

    /// Rows 6 to 17 for a write that was admitted once, against the row as it is now. Rows 8 to 11 asked who may present
    /// the position, which has not changed.
    fn judged_again(&mut self, intent: &IntentRow) -> Result<Option<Refusal>, Inconsistent> {
        let member = member_of(intent);
        let case = Case {
            snapshot: self.snapshot,
            namespace: &self.namespace,
            row: &self.row,
            member: &member,
            tag: self.tag,
            now: self.now,
        };
        if let Some(refusal) = table::judged_again(&case, &mut self.changes)? {
            return Ok(Some(refusal));
        }
        let current = incarnation_of(&self.row, intent.record.method);
        let gone = current != intent.record.incarnation;
        Ok(gone.then_some(Refusal::IncarnationGone { current: self.row.incarnation }))
    }
}

/// The answer that came before a cell was read.
const fn answer(before: &Before) -> Option<&Relayed> {
    match before {
        Before::Answer(relayed) => Some(relayed),
        Before::Nothing | Before::Doubt => None,
    }
}

/// Whether a stamp was written by this operation.
fn is_of(stamp: &Stamp, intent: &IntentRow) -> bool {
    let record = &intent.record;
    stamp.operation_id.as_ref() == Some(&record.operation_id)
        && stamp.incarnation == record.incarnation
        && stamp.position == record.position
}

/// The write as it was announced.
fn member_of(intent: &IntentRow) -> Member {
    let record = &intent.record;
    let seal = record.acquisition.map_or(SealVerdict::Missing, SealVerdict::Valid);
    Member {
        address: Address { resource: record.resource.clone(), target: record.target.clone() },
        method: record.method,
        claim: Claim { position: record.position, bare: false, seal },
        operation_id: record.operation_id.clone(),
        sequence: record.sequence,
        incarnation: intent.named,
        preconditions: intent.preconditions.clone(),
        fingerprint: record.fingerprint,
        document: None,
        forward: None,
        digest: intent.request.digest,
        // It was admitted when it was announced.
        may_raise: true,
    }
}
